"""Checks of the gateway's memory methods: versions, requests, who may ask, who gets an answer (criteria 130 to 138)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from memory_sqlite.context.conformance_kit import PATIENCE_S, must
from memory_sqlite.host.conformance.gateway_subject import NOTE, GatewayStage, MakeGateway, client, code
from memory_sqlite.host.conformance.subject import SLOT
from memory_sqlite.host.gateway.connections import Connection, RunAuthority
from memory_sqlite.runtime.callers import OperatorAuthority
from memory_sqlite.runtime.shapes import NotFound
from memory_sqlite.runtime.signals import AbortSignal

INVALID, UNAVAILABLE = "INVALID_REQUEST", "UNAVAILABLE"
REFERENCE: Final = {"providerId": SLOT, "id": "1"}
METHODS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "memory.search": ("search", {"version": 2, "query": "router"}),
    "memory.get": ("get", {"reference": REFERENCE}),
    "memory.status": ("health", {}),
}
"""The methods, what each asks of a provider, and a request that is well formed."""


def check_version_one_is_the_version_of_none(make: MakeGateway) -> None:
    """Criterion 130: both answer alike; any other version is an invalid request, whoever owns the slot."""
    answers = [
        GatewayStage(make, legacy=True).call("memory.search", {"query": "router", **version})
        for version in ({}, {"version": 1})
    ]
    must(code(answers[0]) == "ok", f"criterion 130: without a version a legacy owner's search is {code(answers[0])}")
    must(answers[0] == answers[1], "criterion 130: version 1 and no version are answered differently")
    for version in (3, 0, "2", 2.5, True, None):
        for legacy in (True, False):
            stage = GatewayStage(make, legacy=legacy)
            seen = code(stage.call("memory.search", {"query": "router", "version": version}))
            must(seen == INVALID, f"criterion 130: version {version!r} is answered {seen}")
            must(stage.untouched, f"criterion 130: for version {version!r} a memory is asked")


def check_version_one_names_the_native_owner(make: MakeGateway) -> None:
    """Criterion 131: the plugin and version 2, and its provider is not asked."""
    for version in ({}, {"version": 1}):
        stage = GatewayStage(make)
        response = stage.call("memory.search", {"query": "router", **version})
        must(code(response) == INVALID, f"criterion 131: a native owner on version 1 is answered {code(response)}")
        text = str(response["error"]["message"])
        named = SLOT in text and "version: 2" in text
        must(named, f"criterion 131: the answer names not both the plugin and version 2: {text!r}")
        must(stage.untouched, "criterion 131: on version 1 a native provider is asked")


def check_numbers_of_results_are_bounded(make: MakeGateway) -> None:
    """Criterion 132: version 1 clamps to 1 and 50; version 2 refuses what is below 1 and caps at 50."""
    for asked, given in ((100, 50), (0, 1), (-3, 1), (7, 7)):
        stage = GatewayStage(make, legacy=True)
        stage.files.hits = [NOTE] * 80
        response = stage.call("memory.search", {"query": "router", "maxResults": asked})
        must(code(response) == "ok", f"criterion 132: version 1 answers {code(response)} to {asked} results")
        options = stage.files.asked[-1][1]
        seen = options.max_results if options is not None else None
        must(seen == given, f"criterion 132: version 1 makes {seen} of {asked} results")
        shown = len(response["payload"].get("results", ()))
        must(0 < shown <= given, f"criterion 132: version 1 shows {shown} results of {given}")
    for asked, capped in ((100, 50), (7, 7)):
        stage = GatewayStage(make)
        stage.call("memory.search", {"version": 2, "query": "router", "maxResults": asked})
        numbers = [one.max_results for one in stage.provider.given if hasattr(one, "max_results")]
        must(numbers == [capped], f"criterion 132: version 2 makes {numbers} of {asked} results")
    for wrong in (0, -1, 1.5, "7", True, None):
        stage = GatewayStage(make)
        status = code(stage.call("memory.search", {"version": 2, "query": "router", "maxResults": wrong}))
        must(status == INVALID and stage.untouched, f"criterion 132: version 2 answers {status} to {wrong!r} results")


def check_unknown_agents_are_refused_before_any_memory(make: MakeGateway) -> None:
    """Criterion 133: also names of which nothing is left when they are normalised."""
    for method, (_, params) in METHODS.items():
        for agent in ("invented", "", "   ", "---", "main/../other"):
            for legacy in (True, False):
                stage = GatewayStage(make, legacy=legacy)
                seen = code(stage.call(method, {**params, "agentId": agent}))
                must(seen != "ok", f"criterion 133: {method} answers for the agent {agent!r}")
                must(stage.untouched, f"criterion 133: {method} asks a memory for the agent {agent!r}")
    for said, agent in (({}, "main"), ({"agentId": "research"}, "research")):
        stage = GatewayStage(make)
        seen = stage.call("memory.status", said).get("payload", {}).get("agentId")
        must(seen == agent, f"criterion 133: with {said} the agent is {seen!r}")


def check_malformed_requests_are_invalid(make: MakeGateway) -> None:
    """Criterion 134: and no memory is asked."""
    searches: tuple[Mapping[str, Any], ...] = (
        {"sources": []},
        {"sources": ["wiki"]},
        {"sources": "memory"},
        {"cursor": ""},
        {"cursor": "  "},
        {"cursor": 7},
        {"query": "  "},
    )
    requests = [("memory.search", {"version": 2, "query": "router", **wrong}) for wrong in searches]
    requests += [("memory.get", {}), ("memory.get", {"reference": {**REFERENCE, "id": " "}})]
    for method, params in requests:
        stage = GatewayStage(make)
        seen = code(stage.call(method, params))
        must(seen == INVALID and stage.untouched, f"criterion 134: {method} answers {seen} to {params!r}")


def check_not_found_is_an_answer_and_a_denial_is_none(make: MakeGateway) -> None:
    """Criterion 135."""

    def deny() -> None:
        raise PermissionError("denied")

    stage = GatewayStage(make)
    stage.provider.answers["get"] = NotFound()
    response = stage.call("memory.get", {"reference": REFERENCE})
    found = response.get("payload", {}).get("status")
    must(found == "not_found", f"criterion 135: what is not there is answered {code(response)} {found!r}")
    for method, (asks, params) in METHODS.items():
        stage = GatewayStage(make)
        stage.provider.before[asks] = deny
        seen = code(stage.call(method, params))
        must(seen == UNAVAILABLE, f"criterion 135: a denied {method} is answered {seen}")
        must(stage.provider.count("close") == 1, f"criterion 135: a denied {method} leaves its lease open")


def check_success_names_version_agent_and_provider(make: MakeGateway) -> None:
    """Criterion 136: and is JSON."""
    for method, (_, params) in METHODS.items():
        stage = GatewayStage(make)
        response = stage.call(method, {**params, "agentId": "research"})
        must(code(response) == "ok", f"criterion 136: {method} answers {code(response)}")
        payload = response["payload"]
        seen = tuple(payload.get(name) for name in ("version", "agentId", "providerId"))
        must(seen == (2, "research", SLOT), f"criterion 136: {method} names {seen}")
        must(json.loads(json.dumps(payload)) == payload, f"criterion 136: the answer of {method} is no JSON")
        must(stage.provider.count("close") == 1, f"criterion 136: {method} leaves its lease open")


def check_only_operators_are_answered(make: MakeGateway) -> None:
    """Criterion 137: others are refused before anything is looked at; a run speaks with its own authority."""
    strangers: Mapping[str, Callable[[], Connection]] = {
        "a node": lambda: client(role="node"),
        "a client without an id": lambda: client(conn_id=None),
        "an operator without scopes": lambda: client(scopes=()),
        "an operator who may only write": lambda: client(scopes=("operator.write",)),
        "an agent's tool without a run": lambda: client(kind="agent-tool"),
        "a synthetic client without a run": lambda: client(kind="synthetic"),
        "a run without scopes": lambda: client(kind="agent-tool", run=RunAuthority((), lambda: None)),
        "a run that is over": lambda: client(kind="agent-tool", run=RunAuthority(("operator.read",), _over)),
    }
    for method, (_, params) in METHODS.items():
        for who, connection in strangers.items():
            stage = GatewayStage(make)
            seen = code(stage.call(method, params, connection()))
            must(seen != "ok" and stage.untouched, f"criterion 137: {method} answers {seen} to {who}")
    stage = GatewayStage(make)
    admitted = RunAuthority(("operator.read",), lambda: None, "c0")
    carried = client(kind="agent-tool", run=admitted, role="agent", conn_id=None, scopes=("operator.admin",))
    seen = code(stage.call("memory.status", {}, carried))
    must(seen == "ok", f"criterion 137: a run with its own authority is answered {seen}")
    authority = stage.provider.given[0].context.authority
    own = OperatorAuthority(("operator.read",), "c0")
    must(authority == own, f"criterion 137: a run speaks with the scopes {getattr(authority, 'scopes', None)}")


def check_nobody_who_has_gone_gets_an_answer(make: MakeGateway) -> None:
    """Criterion 138: whenever it happens; the lease is given back, and what has lapsed while it opens is not read."""
    for how, change in _CHANGES.items():
        for method, (asks, params) in METHODS.items():
            for during in ("open", asks, "close"):
                stage, connection, signal = GatewayStage(make), client(), AbortSignal()

                def lapse(change: Any = change, connection: Any = connection, signal: Any = signal) -> None:
                    change(connection, signal)

                stage.provider.before[during] = lapse
                seen = code(stage.call(method, params, connection, signal))
                when = f"{how} during {during} of {method}"
                must(seen != "ok", f"criterion 138: {when} is answered")
                must(stage.provider.count("close") == 1, f"criterion 138: {when} leaves its lease open")
                read = stage.provider.count(asks)
                must(during != "open" or read == 0, f"criterion 138: after {when} the provider is read")


def check_a_hanging_provider_holds_nobody_who_has_gone(make: MakeGateway) -> None:
    """Criterion 138: an abort or a disconnect ends the wait."""

    async def work(how: str) -> None:
        stage, connection, signal, inside = GatewayStage(make), client(), AbortSignal(), asyncio.Event()

        async def hang() -> None:
            inside.set()
            await asyncio.Event().wait()

        stage.provider.before["search"] = hang
        call = stage.gateway.call("memory.search", METHODS["memory.search"][1], connection, signal)
        asking = asyncio.ensure_future(call)
        entered = asyncio.ensure_future(inside.wait())
        await asyncio.wait({asking, entered}, return_when=asyncio.FIRST_COMPLETED)
        entered.cancel()
        must(inside.is_set(), "criterion 138: a provider is not asked")
        _CHANGES[how](connection, signal)
        done, _ = await asyncio.wait({asking}, timeout=PATIENCE_S)
        if not done:
            asking.cancel()
        must(bool(done), f"criterion 138: after {how} the wait for a provider that hangs goes on")
        must(code(asking.result()) != "ok", f"criterion 138: after {how} there is an answer")

    for how in ("an abort", "a disconnect"):
        asyncio.run(work(how))


def _over() -> None:
    raise PermissionError("the run is over")


_CHANGES: Final[Mapping[str, Callable[[Connection, AbortSignal], None]]] = {
    "an abort": lambda connection, signal: signal.abort(),
    "a disconnect": lambda connection, signal: connection.close(),
    "a revocation": lambda connection, signal: connection.invalidate(),
}

ALL = (
    check_version_one_is_the_version_of_none,
    check_version_one_names_the_native_owner,
    check_numbers_of_results_are_bounded,
    check_unknown_agents_are_refused_before_any_memory,
    check_malformed_requests_are_invalid,
    check_not_found_is_an_answer_and_a_denial_is_none,
    check_success_names_version_agent_and_provider,
    check_only_operators_are_answered,
    check_nobody_who_has_gone_gets_an_answer,
    check_a_hanging_provider_holds_nobody_who_has_gone,
)
