"""Criteria 130 to 138, and what else section 5 says: the gateway's memory methods as functions of request and
connection."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.config import Settings
from memory_sqlite.host.gateway import agents, requests, responses
from memory_sqlite.host.gateway.connections import Connection, RunAuthority, StateOwner
from memory_sqlite.host.gateway.methods import GatewayMethods
from memory_sqlite.host.memory_host import MemoryHost
from memory_sqlite.host.scripted import PLAIN
from memory_sqlite.host.slots import Plugin
from memory_sqlite.runtime import recall_log
from memory_sqlite.runtime.callers import OperatorAuthority
from memory_sqlite.runtime.manager import Manager
from memory_sqlite.runtime.manager_shapes import CliSearchResult, ManagerResult, ManagerStatus
from memory_sqlite.runtime.shapes import Found, Health, NotFound, OpenResult, Reference, SearchPage
from memory_sqlite.runtime.signals import AbortSignal

from .gateway_kit import MEMORY, NOTE, SAID, Files, Native, client, config, hit, run

REFERENCE = {"providerId": "records", "id": "1"}
NATIVE_METHODS: dict[str, dict[str, Any]] = {
    "memory.search": {"version": 2, "query": "router"},
    "memory.get": {"reference": REFERENCE},
    "memory.status": {},
}
CALLED = {"memory.search": "search", "memory.get": "get", "memory.status": "health"}


def code(response: Any) -> str | None:
    return None if response["ok"] else response["error"]["code"]


def message(response: Any) -> str:
    assert not response["ok"], response
    return str(response["error"]["message"])


# --- versions, and who owns the slot ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [{}, {"version": 1}])
def test_criterion_130_version_one_and_none_are_the_same(version: dict[str, Any]) -> None:
    files = Files()
    response = files.call("memory.search", {"query": " router ", **version})
    assert set(response["payload"]) == {"agentId", "provider", "searchMode", "results"}
    assert response == Files().call("memory.search", {"query": "router"})
    assert files.manager.asked[0][0] == "router"


@pytest.mark.parametrize("version", [3, 0, "2", 2.5, True, None, math.nan, [2]])
def test_criterion_130_other_versions_are_invalid(version: Any) -> None:
    for world in (Files(), Native()):
        response = world.call("memory.search", {"query": "router", "version": version})
        assert (code(response), message(response)) == ("INVALID_REQUEST", "unsupported memory version")


@pytest.mark.parametrize("version", [{}, {"version": 1}])
def test_criterion_131_a_native_owner_on_version_one_names_itself_and_version_two(version: dict[str, Any]) -> None:
    native = Native()
    response = native.call("memory.search", {"query": "router", **version})
    assert (code(response), message(response)) == (
        "INVALID_REQUEST",
        'memory plugin "records" uses the provider runtime; retry memory.search with version: 2',
    )
    assert native.provider.calls == []


@pytest.mark.parametrize(("asked", "given"), [(100, 50), (0, 1), (-3, 1), (7.9, 7), (None, 20), (10**400, None)])
def test_criterion_132_version_one_clamps(asked: Any, given: int | None) -> None:
    files = Files()
    response = files.call("memory.search", {"query": "router", "maxResults": asked, "minScore": 0.42})
    if given is None:
        assert code(response) == "INVALID_REQUEST"
        return
    options = files.manager.asked[0][1]
    assert (options.max_results, options.min_score) == (given, 0.42)


def test_criterion_132_version_one_gives_no_more_than_that() -> None:
    """Also when the manager gives more than it was asked for."""
    files = Files()
    files.manager.hits = [NOTE] * 80
    assert len(files.call("memory.search", {"query": "router", "maxResults": 100})["payload"]["results"]) == 50


@pytest.mark.parametrize(("asked", "given"), [(100, 50), (7, 7), (7.0, 7), ("left out", 20)])
def test_criterion_132_version_two_caps(asked: Any, given: int) -> None:
    native = Native()
    more = {} if asked == "left out" else {"maxResults": asked}
    assert native.call("memory.search", {"version": 2, "query": "router", **more})["ok"]
    assert native.provider.given[-1].max_results == given


@pytest.mark.parametrize("asked", [0, -1, 1.5, "7", True, None, math.inf])
def test_criterion_132_version_two_refuses_what_is_no_positive_integer(asked: Any) -> None:
    native = Native()
    response = native.call("memory.search", {"version": 2, "query": "router", "maxResults": asked})
    assert code(response) == "INVALID_REQUEST"
    assert native.provider.calls == []


# --- agents -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", ["invented", "", "   ", "---", "ſ", "main/../other", "K"])
@pytest.mark.parametrize("method", sorted({**NATIVE_METHODS, "doctor.memory.status": {}, "memory.search.owner": {}}))
def test_criterion_133_unknown_agents_are_refused_before_any_memory_is_asked(agent: str, method: str) -> None:
    params = {**NATIVE_METHODS.get(method, {}), "agentId": agent}
    if method == "memory.search.owner":
        params |= {"query": "router", "expectedOwnerId": "o"}
    native, files = Native(), Files()
    for response in (native.call(method, params), files.call(method, params)):
        assert (code(response), message(response)) == ("INVALID_REQUEST", "unknown agentId")
    assert (native.provider.calls, files.opened) == ([], [])


@pytest.mark.parametrize("agent", [42, None, ["main"]])
def test_criterion_133_an_agent_that_is_no_text_is_refused(agent: Any) -> None:
    native = Native()
    response = native.call("memory.status", {"agentId": agent})
    assert (code(response), message(response)) == ("INVALID_REQUEST", "agentId must be a string")
    assert native.provider.calls == []


@pytest.mark.parametrize(
    ("said", "agent"), [({}, "main"), ({"agentId": "MAIN "}, "main"), ({"agentId": "research"}, "research")]
)
def test_agents_are_compared_normalised_and_the_first_is_the_default(said: dict[str, Any], agent: str) -> None:
    native = Native()
    assert native.call("memory.status", said)["payload"]["agentId"] == agent
    assert native.provider.given[0].agent_id == agent


def test_the_default_agent_by_configuration() -> None:
    """The one that is marked, else the first; ``main`` where none is configured; nobody where ownership is explicit."""
    listed: list[dict[str, Any]] = [{"id": "Ops"}, {"id": "research", "default": True}, {"no": "id"}]
    assert agents.selected({"agents": {"list": listed}}, None) == "research"
    assert agents.selected({"agents": {"entries": {"_": {}, "ops": {}}}}, None) == "_"
    assert agents.selected({"agents": "nonsense"}, None) == agents.selected({}, "Main") == "main"
    explicit = {"agents": {"ownership": "explicit", "entries": {"ops": {}, "research": {}}}}
    with pytest.raises(errors.InvalidArgument, match="agent selection required"):
        agents.selected(explicit, None)
    assert agents.selected(explicit, "ops") == "ops"
    native = Native(more={"agents": explicit["agents"]})
    assert code(native.call("memory.status", {})) == "INVALID_REQUEST"
    assert native.provider.calls == []


# --- version 2 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"sources": []},
        {"sources": ["wiki"]},
        {"sources": "memory"},
        {"sources": ["memory", 1]},
        {"cursor": ""},
        {"cursor": "  "},
        {"cursor": 7},
        {"minScore": math.nan},
        {"minScore": "0.5"},
        {"query": "  "},
        {"query": None},
    ],
)
def test_criterion_134_version_two_refuses_malformed_requests(wrong: dict[str, Any]) -> None:
    native = Native()
    response = native.call("memory.search", {"version": 2, "query": "router", **wrong})
    assert code(response) == "INVALID_REQUEST"
    assert native.provider.calls == []


def test_version_two_passes_on_what_was_said() -> None:
    native = Native()
    said = {"version": 2.0, "query": " router ", "minScore": 0, "cursor": "c", "sources": ["sessions", "sessions"]}
    assert native.call("memory.search", said)["ok"]
    request = native.provider.given[-1]
    assert (request.query, request.min_score, request.cursor, request.sources) == ("router", 0.0, "c", ("sessions",))


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"reference": "records:1"},
        {"reference": {"providerId": "records"}},
        {"reference": {"providerId": "records", "id": " "}},
        {"reference": {**REFERENCE, "revision": ""}},
        {"reference": {**REFERENCE, "fragment": 3}},
        {"reference": REFERENCE, "from": 0},
        {"reference": REFERENCE, "lines": -1},
        {"reference": REFERENCE, "lines": 2.5},
    ],
)
def test_criterion_134_get_refuses_malformed_requests(wrong: dict[str, Any]) -> None:
    native = Native()
    assert code(native.call("memory.get", wrong)) == "INVALID_REQUEST"
    assert native.provider.calls == []


def test_criterion_135_not_found_is_an_answer() -> None:
    native = Native()
    native.provider.answers["get"] = NotFound()
    response = native.call("memory.get", {"reference": REFERENCE, "from": 3, "lines": 2})
    assert response == {
        "ok": True,
        "payload": {"status": "not_found", "version": 2, "agentId": "main", "providerId": "records"},
    }
    asked = native.provider.given[-1]
    assert (asked.reference, asked.from_line, asked.lines) == (Reference("records", "1"), 3, 2)


@pytest.mark.parametrize("method", sorted(NATIVE_METHODS))
def test_criterion_135_a_denial_is_unavailable(method: str) -> None:
    native = Native()

    def deny() -> None:
        raise errors.AccessDenied("this caller may not read it")

    native.provider.before[CALLED[method]] = deny
    response = native.call(method, NATIVE_METHODS[method])
    assert (code(response), message(response)) == ("UNAVAILABLE", "this caller may not read it")
    assert native.provider.count("close") == 1


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"version": 2, "query": "x", "sources": ["sessions"]}, "does not support the sessions source capability"),
        ({"version": 2, "query": "x", "cursor": "c"}, "does not support the pagination capability"),
        ({"reference": {"providerId": "others", "id": "1"}}, "memory reference belongs to a different provider"),
    ],
)
def test_criterion_135_refusals_behind_the_parsing_are_unavailable(params: dict[str, Any], text: str) -> None:
    native = Native(capabilities=PLAIN)
    response = native.call("memory.get" if "reference" in params else "memory.search", params)
    assert code(response) == "UNAVAILABLE" and text in message(response)
    assert native.provider.calls == ["open", "close"]


def test_criterion_135_no_provider_is_unavailable() -> None:
    native = Native()
    native.provider.answers["open"] = OpenResult(None, "memory is disabled for this agent")
    response = native.call("memory.status", {})
    assert (code(response), message(response)) == ("UNAVAILABLE", "memory is disabled for this agent")
    nobody = GatewayMethods(MemoryHost({}))
    response = run(nobody.call("memory.status", {}, client()))
    assert (code(response), message(response)) == ("UNAVAILABLE", "memory plugin unavailable")


@pytest.mark.parametrize("method", sorted(NATIVE_METHODS))
def test_criterion_136_success_names_version_agent_and_provider(method: str) -> None:
    native = Native()
    native.provider.answers |= {
        "search": SearchPage((hit("1", "An excerpt", score=0.5),), "next", "partial", "one; two"),
        "get": Found(Reference("records", "1"), "A text", truncated=False),
        "health": Health("degraded", "slow", {"version": 9}),
    }
    payload = native.call(method, NATIVE_METHODS[method])["payload"]
    assert (payload["version"], payload["agentId"], payload["providerId"]) == (2, "main", "records")
    assert json.loads(json.dumps(payload)) == payload
    if method == "memory.search":
        assert (payload["nextCursor"], payload["coverage"], payload["warning"]) == ("next", "partial", "one; two")
        assert payload["hits"][0]["reference"] == {"providerId": "records", "id": "1"}
        assert "stale" not in payload
    elif method == "memory.get":
        assert (payload["status"], payload["text"], payload["truncated"]) == ("ok", "A text", False)
    else:
        assert (payload["status"], payload["message"], payload["details"]) == ("degraded", "slow", {"version": 9})


def test_criterion_136_a_providers_words_never_take_the_hosts_place() -> None:
    said = {"version": 1, "agentId": "other", "providerId": "other", "hits": []}
    assert responses.version_2("main", "records", said) == {
        "version": 2,
        "agentId": "main",
        "providerId": "records",
        "hits": [],
    }


def test_a_legacy_owner_is_served_on_version_two() -> None:
    """Through the adapter, as a trusted operator of that agent; version 1 gives the manager's own results."""
    files = Files()
    payload = files.call("memory.search", {"version": 2, "query": "router"})["payload"]
    assert [one["reference"]["id"] for one in payload["hits"]] == [NOTE.path, SAID.path]
    assert (payload["providerId"], payload["coverage"]) == ("files", "complete")
    assert files.authorized[-1]["trusted_agent_scope"] is True
    read = files.call("memory.get", {"reference": {"providerId": "files", "id": NOTE.path}})["payload"]
    assert (read["status"], read["text"]) == ("ok", "The router is upstairs.")


# --- who may ask ------------------------------------------------------------------------------------------------------


def over() -> None:
    raise errors.CallerNotCurrent("the run is over")


@pytest.mark.parametrize(
    "connection",
    [
        client(role="node"),
        client(conn_id=None),
        client(conn_id=""),
        client(scopes=()),
        client(scopes=("operator.write",)),
        client(kind="synthetic"),
        client(kind="agent-tool"),
        client(kind="agent-runtime"),
        client(kind="agent-tool", run=RunAuthority((), lambda: None)),
        client(kind="agent-tool", run=RunAuthority(("operator.read",), over)),
    ],
)
@pytest.mark.parametrize(
    "method", ["memory.search", "memory.get", "memory.status", "doctor.memory.status", "memory.search.owner"]
)
def test_criterion_137_who_is_no_operator_is_refused(connection: Connection, method: str) -> None:
    """Whatever is asked, and before it is even looked at."""
    for world in (Native(), Files(owner=StateOwner("o"))):
        params = {**NATIVE_METHODS.get(method, {}), "query": "router", "expectedOwnerId": "o"}
        assert code(world.call(method, params, connection)) == "UNAVAILABLE"
        assert code(world.call(method, {**params, "agentId": "invented"}, connection)) == "UNAVAILABLE"
        assert (world.provider.calls if isinstance(world, Native) else world.opened) == []


def test_criterion_137_a_client_speaks_for_itself_with_its_scopes_copied() -> None:
    native = Native()
    scopes: Any = ["operator.read"]
    native.provider.before["open"] = lambda: scopes.append("operator.admin")
    assert native.call("memory.status", {}, client(scopes=scopes))["ok"]
    context = native.provider.given[0].context
    assert context.authority == OperatorAuthority(("operator.read",), "c1")
    assert native.provider.given[0].purpose == "cli"


@pytest.mark.parametrize("kind", ["synthetic", "agent-tool", "agent-runtime"])
def test_criterion_137_runs_use_the_authority_they_were_admitted_with(kind: Any) -> None:
    """Not the scopes, the role or the id of whatever connection carries them."""
    native = Native()
    admitted = RunAuthority(("operator.read",), lambda: None, "c0")
    connection = client(kind=kind, run=admitted, role="agent", conn_id=None, scopes=("operator.admin",))
    assert native.call("memory.status", {}, connection)["ok"]
    assert native.provider.given[0].context.authority == OperatorAuthority(("operator.read",), "c0")


# --- who has gone -----------------------------------------------------------------------------------------------------

Change = Callable[[Connection, AbortSignal], None]


def run_ends(connection: Connection, signal: AbortSignal) -> None:
    connection.kind, connection.run = "agent-tool", RunAuthority(("operator.read",), over)


def authority_lost(connection: Connection, signal: AbortSignal) -> None:
    connection.is_current = lambda: False


CHANGES: dict[str, Change] = {
    "request abort": lambda connection, signal: signal.abort(),
    "connection close": lambda connection, signal: connection.close(),
    "client invalidation": lambda connection, signal: connection.invalidate(),
    "authority loss": authority_lost,
    "run over": run_ends,
}


@pytest.mark.parametrize("change", sorted(CHANGES))
@pytest.mark.parametrize("during", ["open", "call", "close"])
@pytest.mark.parametrize("method", sorted(NATIVE_METHODS))
def test_criterion_138_nobody_who_has_gone_gets_an_answer(change: str, during: str, method: str) -> None:
    """Whenever it happens; what lapses during ``open`` is never read, and the lease is given back once."""
    native, connection, signal = Native(), client(), AbortSignal()
    native.provider.before[CALLED[method] if during == "call" else during] = lambda: CHANGES[change](connection, signal)
    response = native.call(method, NATIVE_METHODS[method], connection, signal)
    assert code(response) == "UNAVAILABLE"
    assert native.provider.count("close") == 1
    assert native.provider.count(CALLED[method]) == (0 if during == "open" else 1)


@pytest.mark.parametrize("change", sorted(CHANGES))
def test_criterion_138_before_the_first_call_nothing_is_opened(change: str) -> None:
    native, connection, signal = Native(), client(), AbortSignal()
    CHANGES[change](connection, signal)
    assert code(native.call("memory.status", {}, connection, signal)) == "UNAVAILABLE"
    assert native.provider.calls == []


@pytest.mark.parametrize("change", ["request abort", "connection close"])
def test_criterion_138_a_provider_that_hangs_holds_nobody(change: str) -> None:
    native = Native()

    async def main() -> Any:
        connection, signal, inside = client(), AbortSignal(), asyncio.Event()

        async def hang() -> None:
            inside.set()
            await asyncio.Event().wait()

        native.provider.before["search"] = hang
        asking = asyncio.ensure_future(
            native.gateway.call("memory.search", NATIVE_METHODS["memory.search"], connection, signal)
        )
        await inside.wait()
        CHANGES[change](connection, signal)
        return await asking

    assert code(run(main())) == "UNAVAILABLE"
    assert native.provider.count("close") == 1


@pytest.mark.parametrize("change", ["request abort", "connection close"])
@pytest.mark.parametrize("world", [Native, Files])
def test_criterion_138_nobody_who_has_gone_waits_for_a_lease_to_be_given_back(change: str, world: Any) -> None:
    """It is given back all the same."""
    made = world()

    async def main() -> Any:
        connection, signal, inside, may_end, ended = client(), AbortSignal(), *(asyncio.Event() for _ in range(3))

        async def slow() -> None:
            inside.set()
            await may_end.wait()
            ended.set()

        if isinstance(made, Native):
            made.provider.before["close"] = slow
        else:
            made.manager.close = slow
        params = {"query": "router", "version": 2 if isinstance(made, Native) else 1}
        asking = asyncio.ensure_future(made.gateway.call("memory.search", params, connection, signal))
        await inside.wait()
        CHANGES[change](connection, signal)
        response = await asking
        may_end.set()
        await ended.wait()
        return response

    assert code(run(main())) == "UNAVAILABLE"


@pytest.mark.parametrize("change", sorted(CHANGES))
@pytest.mark.parametrize("during", ["search", "authorize", "close"])
def test_criterion_138_version_one_answers_nobody_who_has_gone(change: str, during: str) -> None:
    files, connection, signal = Files(), client(), AbortSignal()

    async def go(**said: Any) -> Any:
        CHANGES[change](connection, signal)
        return said.get("hits")

    if during == "search":
        files.manager.before = go
    elif during == "authorize":
        files.authorize_search_hits = go  # type: ignore[method-assign]
    else:
        files.manager.close = go  # type: ignore[method-assign]
    assert code(files.call("memory.search", {"query": "router"}, connection, signal)) == "UNAVAILABLE"
    assert files.manager.closed == (0 if during == "close" else 1)


def test_a_connection_that_outlives_its_requests_holds_none_of_them() -> None:
    native, connection, signal = Native(), client(), AbortSignal()
    assert native.call("memory.status", {}, connection, signal)["ok"]
    assert not connection.closed._callbacks and not signal._callbacks


# --- version 1 --------------------------------------------------------------------------------------------------------


def test_version_one_gives_the_managers_own_results() -> None:
    """In the contract's JSON, authorised as the operator's; the manager is made for the request and closed."""
    files = Files()
    payload = files.call("memory.search", {"query": "router"})["payload"]
    assert (payload["agentId"], payload["provider"], payload["searchMode"]) == ("main", "none", "fts-only")
    assert payload["results"][0]["startLine"] == 3 and payload["results"][0]["provenance"]["originClass"] == "owner"
    assert json.loads(json.dumps(payload)) == payload
    assert files.opened[0]["purpose"] == "cli" and files.manager.closed == 1
    said = files.authorized[0]
    assert (said["trusted_agent_scope"], said["requester_session_key"], said["agent_id"]) == (True, None, "main")


def test_version_one_shows_nothing_that_was_not_authorised() -> None:
    """What the hook withholds; and without a hook, all that was said in a session."""
    files = Files()
    files.authorize_search_hits = lambda **said: [NOTE]  # type: ignore[method-assign,assignment]
    assert len(files.call("memory.search", {"query": "router"})["payload"]["results"]) == 1
    files.authorize_search_hits = None  # type: ignore[method-assign,assignment]
    results = files.call("memory.search", {"query": "router"})["payload"]["results"]
    assert [one["source"] for one in results] == ["memory"]


@pytest.mark.parametrize(
    ("status", "mode"),
    [
        ({"provider": "openai"}, "hybrid"),
        ({"provider": "none"}, "fts-only"),
        ({"provider": "openai", "vector": {"enabled": False}}, "fts-only"),
        ({"provider": "none", "custom": {"searchMode": "hybrid"}}, "hybrid"),
    ],
)
def test_version_one_says_how_was_searched(status: dict[str, Any], mode: str) -> None:
    payload = Files(status={"backend": "builtin", **status}).call("memory.search", {"query": "router"})["payload"]
    assert payload["searchMode"] == mode


def test_version_one_is_stale_only_where_something_is_wrong() -> None:
    waiting = Files(status=ManagerStatus("none", dirty=True))
    assert "stale" not in waiting.call("memory.search", {"query": "router"})["payload"]
    failed = Files(status=ManagerStatus("none", dirty=True, last_sync_error="embedding timed out"))
    payload = failed.call("memory.search", {"query": "router"})["payload"]
    assert payload["stale"] is True and "embedding timed out" in payload["warning"] and payload["action"]
    other = Files(status={"provider": "none", "custom": {"indexIdentity": {"status": "mismatched", "reason": "moved"}}})
    assert "moved" in other.call("memory.search", {"query": "router"})["payload"]["warning"]


def test_version_one_failures_say_where_they_were() -> None:
    files = Files()

    async def broken(**said: Any) -> Any:
        raise RuntimeError("cannot be opened")

    async def fails() -> None:
        raise RuntimeError("cannot be searched")

    files.manager.before = fails
    assert message(files.call("memory.search", {"query": "x"})) == "memory search failed: cannot be searched"
    assert files.manager.closed == 1
    files.get_memory_search_manager = broken  # type: ignore[method-assign]
    assert message(files.call("memory.search", {"query": "x"})) == "memory search unavailable: cannot be opened"
    files = Files()
    files.given = ManagerResult(None, "memory plugin unavailable")
    assert message(files.call("memory.search", {"query": "x"})) == "memory plugin unavailable"
    files.given = ManagerResult(None)
    assert message(files.call("memory.search", {"query": "x"})) == "memory search unavailable"


def test_version_one_answers_though_closing_failed() -> None:
    files = Files()
    files.manager.close_error = RuntimeError("cannot be closed")
    assert files.call("memory.search", {"query": "router"})["ok"]


def test_a_retired_plugin_answers_nobody() -> None:
    files = Files()

    async def retire() -> None:
        assert files.instance is not None
        files.instance.retire()

    files.manager.before = retire
    response = files.call("memory.search", {"query": "router"})
    assert "memory provider instance is no longer current" in message(response)


# --- doctor -----------------------------------------------------------------------------------------------------------


def test_a_doctors_status_of_a_native_owner_always_answers() -> None:
    """As a status caller with operator authority; a failure is in the health, and no embedding is tried."""
    native = Native()
    payload = native.call("doctor.memory.status", {"probe": True})["payload"]
    assert payload == {
        "agentId": "main",
        "provider": "records",
        "health": {"status": "ready"},
        "embedding": {"ok": False, "checked": False, "skipped": True},
    }
    opened = native.provider.given[0]
    assert (opened.purpose, opened.context.authority.kind) == ("status", "operator")

    def fail() -> None:
        raise RuntimeError("cannot be opened")

    native.provider.before["open"] = fail
    payload = native.call("doctor.memory.status", {})["payload"]
    assert payload["health"] == {"status": "unavailable", "message": "the memory plugin failed (RuntimeError)"}
    native.provider.before.clear()
    connection = client()
    native.provider.before["health"] = connection.close
    assert code(native.call("doctor.memory.status", {}, connection)) == "UNAVAILABLE"


def test_a_doctors_status_of_a_legacy_owner_probes_only_when_told() -> None:
    files = Files(status=ManagerStatus("openai", last_sync_error="timed out"))
    payload = files.call("doctor.memory.status", {})["payload"]
    assert (payload["provider"], payload["health"]["status"]) == ("openai", "degraded")
    assert payload["embedding"] == {"ok": False, "checked": False} and "probe" not in files.manager.asked
    payload = files.call("doctor.memory.status", {"deep": True})["payload"]
    assert payload["embedding"] == {"ok": True, "checked": True} and "probe" in files.manager.asked
    files.given = ManagerResult(None, "gone")
    assert files.call("doctor.memory.status", {})["payload"]["health"] == {"status": "unavailable", "message": "gone"}


# --- the command line's routed search ---------------------------------------------------------------------------------


class Routed:
    """What a runtime's ``search_for_cli`` was asked; it records before it answers."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[dict[str, Any]] = []
        self.recorded = 0
        self.before: Callable[[], None] = lambda: None

    async def __call__(self, **said: Any) -> Any:
        self.asked.append(said)
        self.before()
        said["assert_current"]()
        self.recorded += 1
        return self.answer


def routed(answer: Any = None) -> tuple[Files, Routed, StateOwner]:
    owner = StateOwner("owner-1")
    files, search = Files(owner=owner), Routed(answer or CliSearchResult((NOTE,)))
    files.search_for_cli = search  # type: ignore[attr-defined]
    return files, search, owner


OWNED = {"query": " matching fact ", "expectedOwnerId": "owner-1"}


def test_a_routed_search_keeps_the_command_lines_query_and_limits() -> None:
    """The query as it was typed, as many results as were asked for, and what the runtime says of the answer."""
    files, search, _ = routed(CliSearchResult((NOTE,) * 75, stale=True, warning="behind", action="index"))
    payload = files.call("memory.search.owner", {**OWNED, "maxResults": 75, "minScore": 0.3})["payload"]
    assert len(payload["results"]) == 75
    assert (payload["stale"], payload["warning"], payload["action"]) == (True, "behind", "index")
    said = search.asked[0]
    assert (said["query"], said["max_results"], said["min_score"]) == (" matching fact ", 75, 0.3)
    assert (said["manager"], said["agent_id"]) == (files.manager, "main")
    assert (files.opened[0]["purpose"], files.opened[0]["inspect_sources"]) == ("cli", True)
    assert files.manager.closed == 1
    files, search, _ = routed()
    assert set(files.call("memory.search.owner", OWNED)["payload"]) == {"results"}
    assert search.asked[0]["max_results"] is None


@pytest.mark.parametrize(
    "wrong", [{"maxResults": 0}, {"maxResults": -1}, {"maxResults": 1.5}, {"expectedOwnerId": " "}, {"query": "  "}]
)
def test_a_routed_search_refuses_malformed_requests(wrong: dict[str, Any]) -> None:
    files, search, _ = routed()
    assert code(files.call("memory.search.owner", {**OWNED, **wrong})) == "INVALID_REQUEST"
    without = {name: value for name, value in OWNED.items() if name != "expectedOwnerId"}
    assert code(files.call("memory.search.owner", without)) == "INVALID_REQUEST"
    assert (files.opened, search.asked) == ([], [])


def test_a_routed_search_tells_disabled_and_failed_as_answers() -> None:
    files, _, _ = routed()
    files.given = ManagerResult(None)
    assert files.call("memory.search.owner", OWNED)["payload"] == {"agentId": "main", "status": "disabled"}
    files.given = ManagerResult(None, "cannot be had")
    assert files.call("memory.search.owner", OWNED)["payload"] == {
        "agentId": "main",
        "status": "failed",
        "error": "cannot be had",
    }


def test_a_routed_search_refuses_another_owner_and_a_revoked_one() -> None:
    files, search, owner = routed()
    response = files.call("memory.search.owner", {**OWNED, "expectedOwnerId": "replaced"})
    assert (code(response), files.opened, search.asked) == ("UNAVAILABLE", [], [])
    search.before = owner.revoke
    assert code(files.call("memory.search.owner", OWNED)) == "UNAVAILABLE"
    assert (search.recorded, files.manager.closed) == (0, 1)
    assert code(files.call("memory.search.owner", OWNED)) == "UNAVAILABLE"
    assert len(search.asked) == 1
    nobody = Files()
    assert code(nobody.call("memory.search.owner", OWNED)) == "UNAVAILABLE" and nobody.opened == []


@pytest.mark.parametrize("who", ["owner", "client"])
def test_a_routed_search_answers_nobody_who_lapsed_while_its_manager_was_closed(who: str) -> None:
    files, search, owner = routed()
    connection = client()

    async def close() -> None:
        (owner.revoke if who == "owner" else connection.invalidate)()

    files.manager.close = close  # type: ignore[method-assign]
    assert code(files.call("memory.search.owner", OWNED, connection)) == "UNAVAILABLE"
    assert search.recorded == 1


def test_a_routed_search_tells_that_closing_failed() -> None:
    """What became of the state is uncertain then, and is not told as a success."""
    files, _, _ = routed()
    files.manager.close_error = RuntimeError("cannot be closed")
    response = files.call("memory.search.owner", OWNED)
    assert (code(response), message(response)) == ("UNAVAILABLE", "cannot be closed")


def test_a_plugin_without_such_a_search_has_tools_of_its_own() -> None:
    files = Files(owner=StateOwner("owner-1"))
    assert code(files.call("memory.search.owner", OWNED)) == "UNAVAILABLE" and files.opened == []


# --- with our own plugin ----------------------------------------------------------------------------------------------


def ours(memory: Memory, owner: StateOwner | None = None) -> GatewayMethods:
    host = MemoryHost(config("memory-sqlite"))
    host.slot.register(Plugin("memory-sqlite", MEMORY), memory.capability())
    return GatewayMethods(host, owner)


@pytest.fixture
def told(memory: Memory, workspace: Path) -> Memory:
    (workspace / "memory" / "net.md").write_text("# Net\n\nThe granite router is upstairs.\n", encoding="utf-8")
    memory.index()
    return memory


def test_our_provider_behind_the_gateway(told: Memory) -> None:
    gateway = ours(told)
    found = run(gateway.call("memory.search", {"version": 2, "query": "granite"}, client()))["payload"]
    assert (found["providerId"], found["coverage"]) == ("memory-sqlite", "complete")
    reference = found["hits"][0]["reference"]
    read = run(gateway.call("memory.get", {"reference": reference}, client()))["payload"]
    assert "granite router" in read["text"]
    gone = run(gateway.call("memory.get", {"reference": {**reference, "id": "note:gone.md"}}, client()))["payload"]
    assert gone["status"] == "not_found"
    assert run(gateway.call("memory.status", {}, client()))["payload"]["status"] in ("ready", "degraded")
    assert code(run(gateway.call("memory.search", {"query": "granite"}, client()))) == "INVALID_REQUEST"
    assert code(run(gateway.call("memory.gone", {}, client()))) == "INVALID_REQUEST"


def test_our_recall_is_recorded_before_the_command_line_is_answered(
    told: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = StateOwner("owner-1")
    gateway = ours(told, owner)

    def recorded() -> int:
        rooms = told.rooms()
        assert rooms is not None
        with rooms.opened.store.readers.borrow() as store:
            return len(recall_log.recent(store))

    params = {"query": "granite", "expectedOwnerId": "owner-1"}
    payload = run(gateway.call("memory.search.owner", params, client()))["payload"]
    assert [one["path"] for one in payload["results"]] == ["memory/net.md"]
    assert recorded() == 1
    connection, searched = client(), Manager.search_page

    async def lapses(self: Manager, *asked: Any) -> Any:
        found = await searched(self, *asked)
        connection.invalidate()
        return found

    with monkeypatch.context() as patched:
        patched.setattr(Manager, "search_page", lapses)
        assert code(run(gateway.call("memory.search.owner", params, connection))) == "UNAVAILABLE"
    assert recorded() == 1
    owner.revoke()
    assert code(run(gateway.call("memory.search.owner", params, client()))) == "UNAVAILABLE"
    assert recorded() == 1


def test_our_disabled_memory_is_told_as_disabled(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "data", settings=Settings(enabled=False)) as memory:
        gateway = ours(memory, StateOwner("owner-1"))
        response = run(gateway.call("memory.search.owner", {"query": "x", "expectedOwnerId": "owner-1"}, client()))
        assert response["payload"] == {"agentId": "main", "status": "disabled"}


def test_requests_know_their_own_bounds() -> None:
    """Numbers that JSON can say and no float can hold are no numbers here."""
    with pytest.raises(errors.InvalidArgument):
        requests.search({"query": "x", "minScore": 10**400})
    assert requests.get({"reference": REFERENCE, "lines": 3.0}).lines == 3
