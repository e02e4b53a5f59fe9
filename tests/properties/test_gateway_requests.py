"""Whatever a client sends, a gateway method answers in its own form: it never raises, and a malformed request never
reaches a memory."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from memory_sqlite.host.gateway.connections import Connection, StateOwner
from memory_sqlite.host.gateway.methods import GatewayMethods
from memory_sqlite.host.memory_host import MemoryHost
from memory_sqlite.host.scripted import ScriptedProvider
from memory_sqlite.host.slots import Plugin
from memory_sqlite.runtime.plugins import MemoryCapability

METHODS = ("memory.search", "memory.get", "memory.status", "doctor.memory.status", "memory.search.owner", "memory.odd")
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "version": st.sampled_from([1, 2, 2.0]) | ODD,
    "query": st.just("router") | ODD,
    "agentId": st.sampled_from(["main", "MAIN", "other"]) | ODD,
    "maxResults": st.integers(-1, 60) | ODD,
    "minScore": st.floats(0, 1) | ODD,
    "cursor": ODD,
    "sources": st.just(["memory"]) | ODD,
    "reference": st.just({"providerId": "records", "id": "1"}) | ODD,
    "from": st.integers(0, 3) | ODD,
    "lines": st.integers(0, 3) | ODD,
    "expectedOwnerId": st.just("owner") | ODD,
}
PARAMS = st.fixed_dictionaries({}, optional=FIELDS)


@settings(max_examples=300, deadline=None)
@given(method=st.sampled_from(METHODS), params=PARAMS | ODD)
def test_every_request_is_answered_in_the_methods_form(method: str, params: Any) -> None:
    host, provider = MemoryHost({"plugins": {"slots": {"memory": "records"}}}), ScriptedProvider("records")
    host.slot.register(Plugin("records", frozenset({"memory"})), MemoryCapability(provider_runtime=provider))
    gateway = GatewayMethods(host, StateOwner("owner"))
    client = Connection("operator", "c", ("operator.read",))
    response = asyncio.run(gateway.call(method, params, client))
    json.dumps(response)
    if response["ok"]:
        assert response["payload"]["agentId"] == "main"
    else:
        assert response["error"]["code"] in ("INVALID_REQUEST", "UNAVAILABLE")
        assert isinstance(response["error"]["message"], str) and response["error"]["message"]
        if response["error"]["code"] == "INVALID_REQUEST":
            assert provider.calls == []
    assert provider.count("open") == provider.count("close")
    assert not client.closed._callbacks
