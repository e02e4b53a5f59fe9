"""What a gateway makes of plugins that answer what JSON cannot say, raise what cannot be told, or answer rubbish; and
of requests that are none."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from memory_sqlite import limits
from memory_sqlite.host.gateway.connections import StateOwner
from memory_sqlite.runtime.manager_shapes import ManagerResult
from memory_sqlite.runtime.shapes import Health

from .gateway_kit import Files, Native, client, run

CYCLE: dict[str, Any] = {}
CYCLE["again"] = CYCLE
UNSAYABLE: list[Any] = [object(), math.nan, b"bytes", {1, 2}, CYCLE]


class Rude(Exception):
    def __str__(self) -> str:
        raise RuntimeError("it has no words")


def refused(response: Any) -> str:
    """The message of a response that is no success and that JSON can say."""
    assert json.loads(json.dumps(response, allow_nan=False)) == response
    assert response["ok"] is False and response["error"]["code"] == "UNAVAILABLE", response
    return str(response["error"]["message"])


def raising(native: Native, where: str, error: Exception) -> Native:
    def fail() -> None:
        raise error

    native.provider.before[where] = fail
    return native


@pytest.mark.parametrize("value", UNSAYABLE)
@pytest.mark.parametrize("method", ["memory.status", "doctor.memory.status"])
def test_details_that_json_cannot_say_are_no_answer(method: str, value: Any) -> None:
    native = Native()
    native.provider.answers["health"] = Health("ready", None, {"value": value})
    refused(native.call(method, {}))
    assert native.provider.count("close") == 1


@pytest.mark.parametrize("value", UNSAYABLE)
@pytest.mark.parametrize("where", ["hit", "status", "error"])
def test_a_managers_values_that_json_cannot_say_are_no_answer(where: str, value: Any) -> None:
    files = Files()
    if where == "hit":
        files.manager.hits = [{"path": "memory/net.md", "snippet": value}]
    elif where == "status":
        files.manager.said = {"provider": value}
    else:
        files.given = ManagerResult(None, value)
    refused(files.call("memory.search", {"query": "router"}))


@pytest.mark.parametrize("rubbish", [3, "hit", None, {}])
@pytest.mark.parametrize("method", ["memory.search", "memory.search.owner"])
def test_a_hit_that_says_nothing_is_no_answer(method: str, rubbish: Any) -> None:
    files = Files(owner=StateOwner("owner-1"))
    files.manager.hits = [rubbish]

    async def routed(**said: Any) -> Any:
        return {"results": [rubbish]}

    files.search_for_cli = routed  # type: ignore[attr-defined]
    message = refused(files.call(method, {"query": "router", "expectedOwnerId": "owner-1"}))
    assert "memory runtime returned a hit that says nothing" in message


@pytest.mark.parametrize("where", ["open", "health", "close"])
def test_an_error_without_words_is_told_by_its_kind(where: str) -> None:
    assert refused(raising(Native(), where, Rude()).call("memory.status", {})) == "Rude"
    payload = raising(Native(), where, Rude()).call("doctor.memory.status", {})["payload"]
    assert payload["health"] == {"status": "unavailable", "message": "the memory plugin failed (Rude)"}


def test_an_errors_text_is_bounded_and_a_health_has_none_of_it() -> None:
    """A provider's error is told to an operator in its own words, which is bounded; a health holds no memory."""
    error = ValueError("The granite router. " * 1_000)
    message = refused(raising(Native(), "health", error).call("memory.status", {}))
    assert message.startswith("The granite router.") and len(message) == limits.GATEWAY_MESSAGE_CHARS
    files = Files()
    files.manager.status = lambda: 1 / 0  # type: ignore[method-assign]
    for response in (
        raising(Native(), "health", error).call("doctor.memory.status", {}),
        files.call("doctor.memory.status", {}),
    ):
        assert response["payload"]["health"]["message"].startswith("the memory plugin failed (")


@pytest.mark.parametrize("params", [[], "router", 3, True, [["deep"]]])
def test_params_that_are_no_object_are_malformed(params: Any) -> None:
    native = Native()
    response = run(native.gateway.call("memory.status", params, client()))
    assert response == {"ok": False, "error": {"code": "INVALID_REQUEST", "message": "params must be an object"}}
    assert native.provider.calls == []
    assert run(native.gateway.call("memory.status", None, client()))["ok"]


@pytest.mark.parametrize("method", [[], {}, None, 3, "memory.forget"])
def test_a_method_that_there_is_not_is_malformed(method: Any) -> None:
    response = run(Native().gateway.call(method, {}, client()))
    assert response == {"ok": False, "error": {"code": "INVALID_REQUEST", "message": "unknown method"}}
