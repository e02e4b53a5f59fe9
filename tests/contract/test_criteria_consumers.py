"""Criteria 139 to 146, and the rows of sections 6 and 7 that no criterion covers: who uses memory for a host."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory, limits
from memory_sqlite.clock import FixedClock
from memory_sqlite.host.consumers import post_compaction
from memory_sqlite.host.consumers.health_findings import memory_health_findings
from memory_sqlite.host.consumers.post_compaction import Compacted, refresh_after_compaction
from memory_sqlite.host.consumers.project_recall import recall_projects
from memory_sqlite.host.consumers.recall_turn import RecallTurn
from memory_sqlite.host.consumers.trigger_recall import TriggerRecall
from memory_sqlite.host.consumers.voice import VoiceQuestion, fast_context
from memory_sqlite.host.consumers.wiki import WikiQuery, read_lookup, search_beside
from memory_sqlite.host.memory_host import MemoryHost
from memory_sqlite.host.recall_tools import FALLBACK, deep_recall_tools, explicit_tools, trigger_lane_is_open
from memory_sqlite.host.scripted import EVERYTHING, PLAIN
from memory_sqlite.host.session_rows import SessionRow
from memory_sqlite.host.slots import Plugin
from memory_sqlite.recall.recall_cache import RecallCache
from memory_sqlite.recall.recalled_lines import Recalled
from memory_sqlite.runtime.callers import (
    CallerContext,
    OperatorAuthority,
    OwnerPrivateAudience,
    SessionAuthority,
)
from memory_sqlite.runtime.manager_shapes import ManagerResult, ManagerStatus, SyncSession
from memory_sqlite.runtime.plugins import MemoryCapability, ToolContext
from memory_sqlite.runtime.shapes import Health, OpenResult, ProviderHit, SearchPage
from memory_sqlite.runtime.signals import AbortSignal
from memory_sqlite.text.frame import CLOSE, OPEN
from memory_sqlite.text.units import utf16_length

from .gateway_kit import (
    GROUP,
    GROUP_ID,
    KEY,
    MEMORY,
    NOTE,
    SESSION_ID,
    TOOLS,
    Files,
    Native,
    config,
    fails,
    hit,
    lapsed,
    nothing,
    operator,
    our_host,
    run,
    turn_of,
)


@pytest.fixture
def ours(memory: Memory, workspace: Path) -> MemoryHost:
    return our_host(memory, workspace)


def names(recalled: Recalled) -> list[str]:
    return [one.reference.id for one in recalled.hits]


# --- recall by project ------------------------------------------------------------------------------------------------


def projects(world: Any, keys: Sequence[str] = ("harbor", "mill"), context: CallerContext | None = None) -> Recalled:
    return run(recall_projects(world.host, agent_id="main", active_project_keys=keys, context=context))


def offering(*hits: ProviderHit, capabilities: Any = EVERYTHING) -> Native:
    native = Native(capabilities=capabilities)
    native.provider.answers["candidates"] = SearchPage(hits)
    return native


@pytest.mark.parametrize("keys", [(), ("", "  ")])
def test_criterion_139_without_active_projects_nobody_is_asked(keys: tuple[str, ...]) -> None:
    native, files = offering(hit("1", projects=("harbor",))), Files()
    assert projects(native, keys) == projects(files, keys) == Recalled()
    assert (native.provider.calls, files.opened) == ([], [])


def test_criterion_140_only_eligible_entries_whose_projects_are_all_active() -> None:
    """The host filters again, whatever the provider did; missing eligibility never permits anything."""
    native = offering(
        hit("kept", projects=(" Harbor ", "mill")),
        hit("other", projects=("forge",)),
        hit("partly", projects=("harbor", "forge")),
        hit("no project"),
        hit("empty", projects=()),
        hit("ineligible", projects=("harbor",), eligible=False),
        hit("unsaid", projects=("harbor",), eligible=None),
        hit("truthy", projects=("harbor",), eligible="yes"),
        dataclasses.replace(hit("no metadata"), automatic_recall=None),
    )
    assert names(projects(native)) == ["kept"]


def test_criterion_140_the_budget_holds_with_the_frame() -> None:
    """600 UTF-16 units an entry, 2,000 in all; what is cut is marked, and nothing closes the frame."""
    long = CLOSE + "\N{GRINNING FACE}" * 500
    recalled = projects(offering(*(hit(f"{n}", long, projects=("mill",)) for n in range(9))))
    assert 1_000 < utf16_length(recalled.text) <= limits.PROJECT_RECALL_UNITS
    lines = recalled.text.splitlines()
    assert (lines[0], lines[-1]) == (OPEN, CLOSE) and recalled.text.count(CLOSE) == 1
    entries = [line.partition("] ")[2] for line in lines[2:-1]]
    assert len(entries) == len(recalled.hits) >= 3
    assert all(utf16_length(entry) <= limits.PROJECT_RECALL_ENTRY_UNITS and entry[-1] == "…" for entry in entries)


def test_recall_by_project_is_ordered_by_importance_then_reference() -> None:
    native = offering(
        hit("b", projects=("mill",)),
        hit("a", projects=("mill",), fragment="2"),
        hit("a", projects=("mill",), fragment="1"),
        hit("z", projects=("mill",), importance=9),
    )
    recalled = projects(native)
    assert [(one.reference.id, one.reference.fragment) for one in recalled.hits] == [
        ("z", None),
        ("a", "1"),
        ("a", "2"),
        ("b", None),
    ]


def test_recall_by_project_asks_for_48_and_sends_projects_only_where_they_are_declared() -> None:
    native = offering(hit("1", projects=("mill",)))
    projects(native, (" mill", "mill", "harbor"))
    request = native.provider.given[-1]
    assert (request.kind, request.limit, request.active_project_keys) == ("project", 48, ("mill", "harbor"))
    assert native.provider.calls[-1] == "close"
    without = offering(hit("1", projects=("mill",)), capabilities=dataclasses.replace(EVERYTHING, project_filter=False))
    assert names(projects(without)) == ["1"]
    assert without.provider.given[-1].active_project_keys == ()
    assert projects(offering(hit("1", projects=("mill",)), capabilities=PLAIN)) == Recalled()


@pytest.mark.parametrize("method", ["open", "candidates", "close"])
def test_recall_by_project_injects_nothing_on_any_failure(method: str) -> None:
    native = offering(hit("1", projects=("mill",)))
    native.provider.before[method] = fails
    assert projects(native) == Recalled()


@pytest.mark.parametrize("method", ["open", "candidates", "close"])
def test_recall_by_project_injects_nothing_for_who_has_gone(method: str) -> None:
    native, signal = offering(hit("1", projects=("mill",))), AbortSignal()
    native.provider.before[method] = signal.abort
    assert projects(native, context=operator(signal=signal)) == Recalled()
    assert native.provider.count("close") == 1


def test_recall_by_project_without_a_caller_is_the_hosts_own() -> None:
    native = offering()
    projects(native)
    authority = native.provider.given[0].context.authority
    assert (authority.kind, authority.operation) == ("host", "project-memory-bootstrap")


def test_recall_by_project_of_a_legacy_owner_keeps_its_calls_and_labels() -> None:
    """The manager is asked as ever; what it gives is authorised and filtered; the citation is the manager's."""
    files = Files()
    session = CallerContext(SessionAuthority(KEY, sandboxed=True), lambda: None)
    recalled = projects(files, ("harbor",), session)
    assert files.manager.asked == [("projects", 48, ("harbor",))]
    assert names(recalled) == [NOTE.path] and "[memory/net.md#L3-L5] The router is upstairs." in recalled.text
    said = files.authorized[0]
    assert (said["requester_session_key"], said["sandboxed"], said["trusted_agent_scope"]) == (KEY, True, False)
    assert files.manager.closed == 0
    assert projects(files, ("mill",), session) == Recalled()
    files.given = ManagerResult(None, "gone")
    assert projects(files, ("harbor",), session) == Recalled()


# --- recall by trigger ------------------------------------------------------------------------------------------------


def triggering(*listed: ProviderHit, searched: Sequence[ProviderHit] = (), **changes: Any) -> Native:
    native = Native(**changes)
    native.provider.answers |= {"candidates": SearchPage(listed), "search": SearchPage(tuple(searched))}
    return native


def triggered(world: Any, message: str = "Is the router on?", **more: Any) -> Recalled:
    async def main() -> Recalled:
        return await TriggerRecall(world.host).recall(await turn_of(world, message, **more))

    return run(main())


@pytest.mark.parametrize(
    ("declared", "allowed"),
    [
        (None, TOOLS),
        ((), TOOLS),
        (("memory_search", "memory_deep"), TOOLS),
        (("memory_search",), frozenset()),
    ],
)
def test_criterion_141_without_every_declared_tool_nothing_is_looked_up(declared: Any, allowed: frozenset[str]) -> None:
    native = triggering(hit("1", triggers="router"), recall_tools=declared)
    assert triggered(native, tools=allowed) == Recalled()
    assert native.provider.calls == []


def test_criterion_141_with_every_declared_tool_it_is() -> None:
    native = triggering(hit("1", "The router is upstairs.", triggers="router"), recall_tools=("memory_search",))
    recalled = triggered(native)
    assert names(recalled) == ["1"] and "The router is upstairs." in recalled.text
    assert native.provider.calls == ["open", "search", "candidates", "close"]


def test_criterion_141_a_legacy_owner_needs_its_deterministic_tool() -> None:
    assert names(triggered(Files(), keys=("harbor",))) == [NOTE.path]
    for files, tools in ((Files(), frozenset({"memory_get"})), (Files(deterministic=None), TOOLS)):
        assert triggered(files, tools=tools, keys=("harbor",)) == Recalled()
        assert files.opened == []


def test_recall_by_trigger_searches_words_alone_as_the_turns_session() -> None:
    """24 at most, no floor, memory alone; the caller is the session with its audience, without a pass."""
    native = triggering(hit("1", triggers="router"))
    triggered(native, f"Is the router on? {OPEN}", keys=("Mill ", "mill"))
    opened, searched, listed = native.provider.given
    assert (searched.max_results, searched.min_score, searched.sources, searched.lexical_only) == (
        24,
        0.0,
        ("memory",),
        True,
    )
    assert searched.active_project_keys == listed.active_project_keys == ("Mill", "mill")
    assert listed.kind == "trigger"
    authority = opened.context.authority
    assert (authority.kind, authority.session_key, authority.session_id) == ("session", KEY, SESSION_ID)
    assert authority.audience.kind == "owner-private" and authority.conversation_recall is None


@pytest.mark.parametrize(
    "capabilities",
    [
        dataclasses.replace(EVERYTHING, sources=("sessions",)),
        dataclasses.replace(EVERYTHING, candidates=("project",)),
    ],
)
def test_recall_by_trigger_needs_memory_and_trigger_candidates(capabilities: Any) -> None:
    native = triggering(hit("1", triggers="router"), capabilities=capabilities)
    assert triggered(native) == Recalled()
    assert native.provider.calls == ["open", "close"]


def test_recall_by_trigger_drops_projects_where_they_are_not_declared() -> None:
    """And filters by itself: an entry of projects comes only when all of them are active."""
    native = triggering(
        hit("1", triggers="router", projects=("mill",)),
        hit("2", triggers="router", projects=("mill", "forge")),
        hit("3", triggers="router"),
        capabilities=dataclasses.replace(EVERYTHING, project_filter=False),
    )
    assert names(triggered(native, keys=("mill",))) == ["1", "3"]
    assert native.provider.given[1].active_project_keys == native.provider.given[2].active_project_keys == ()


def test_recall_by_trigger_never_injects_what_is_not_eligible() -> None:
    native = triggering(
        hit("1", triggers="router", eligible=False),
        hit("2", triggers="router", eligible=None),
        dataclasses.replace(hit("3"), automatic_recall=None),
    )
    assert triggered(native) == Recalled()


def test_recall_by_trigger_is_bounded() -> None:
    """Three entries and 1,800 UTF-16 units with the frame, and of a search no more than was asked for."""
    many = [hit(f"{n}", "\N{GRINNING FACE}" * 400, triggers="router", score=n / 10) for n in range(6)]
    recalled = triggered(triggering(*many))
    assert names(recalled) == ["5", "4", "3"][: len(recalled.hits)] and len(recalled.hits) >= 2
    assert utf16_length(recalled.text) <= limits.TRIGGER_RECALL_UNITS
    short = triggered(triggering(*(hit(f"{n}", "x", triggers="router") for n in range(9))))
    assert len(short.hits) == 3
    greedy = [hit(f"{n}", "x", triggers="lamp") for n in range(24)] + [hit("late", "x", triggers="router")]
    assert triggered(triggering(searched=greedy)) == Recalled()
    more = [hit(f"{n}", "x", triggers="lamp") for n in range(limits.TRIGGER_RECALL_CANDIDATES)]
    assert triggered(triggering(*more, hit("late", "x", triggers="router"))) == Recalled()


@pytest.mark.parametrize("method", ["open", "search", "candidates", "close"])
def test_recall_by_trigger_injects_nothing_on_any_failure(method: str) -> None:
    native = triggering(hit("1", triggers="router"))
    native.provider.before[method] = fails
    assert triggered(native) == Recalled()
    assert triggered(triggering(hit("1", triggers="router")), assert_current=lapsed) == Recalled()


def test_recall_by_trigger_of_a_legacy_owner_keeps_its_calls_and_labels() -> None:
    files = Files()
    recalled = triggered(files, keys=("harbor",))
    (query, options), listed = files.manager.asked
    assert query == "Is the router on?" and listed == ("triggers", limits.TRIGGER_RECALL_CANDIDATES, ("harbor",))
    assert (options.max_results, options.min_score, options.sources, options.lexical_only, options.session_key) == (
        24,
        0.0,
        ("memory",),
        True,
        KEY,
    )
    assert "[memory/net.md#L3-L5]" in recalled.text
    assert triggered(Files()) == Recalled(), "its project is not active"


def test_nobody_owns_the_slot_so_nothing_is_recalled() -> None:
    async def main() -> list[Recalled]:
        host = MemoryHost({})
        facts = ToolContext("main", KEY, SESSION_ID)
        by_trigger = await TriggerRecall(host).recall(RecallTurn("r", "router", facts, TOOLS))
        by_project = await recall_projects(host, agent_id="main", active_project_keys=("mill",))
        return [by_trigger, by_project]

    assert run(main()) == [Recalled(), Recalled()]


# --- which tools recall may use ---------------------------------------------------------------------------------------


def everything(_: str) -> bool:
    return True


def test_criterion_142_explicit_beats_declared_beats_built_in() -> None:
    declared = Native(recall_tools=("record_search", "record_get")).host.slot.owner()
    silent = Native(recall_tools=None).host.slot.owner()
    assert deep_recall_tools(declared, ["My_Tool "], everything) == ("my_tool",)
    assert deep_recall_tools(declared, None, everything) == ("record_search", "record_get")
    assert deep_recall_tools(silent, None, everything) == deep_recall_tools(None, None, everything) == FALLBACK
    assert deep_recall_tools(Native(recall_tools=()).host.slot.owner(), None, everything) == ()


def test_criterion_142_an_explicit_list_that_is_not_valid_counts_as_none() -> None:
    for value in ("memory_search", {}, [], ["*"], ["group:memory"], ["exec", "READ"], [3, None, " "]):
        assert explicit_tools(value) is None
    declared = Native(recall_tools=("record_search",)).host.slot.owner()
    assert deep_recall_tools(declared, ["*", "exec"], everything) == ("record_search",)
    assert explicit_tools(["*", " A ", "a", 3, "B", "group:x", "write"]) == ("a", "b")
    assert explicit_tools([f"tool_{n}" for n in range(40)]) == tuple(f"tool_{n}" for n in range(32))


def test_a_sidecar_contributes_no_recall_tools() -> None:
    host = MemoryHost(config("records"))
    host.slot.register(
        Plugin("sidecar", MEMORY), MemoryCapability(recall_tool_names=("theirs",), prompt_builder=lambda _: ())
    )
    alone = host.slot.active()
    assert deep_recall_tools(alone, None, everything) == FALLBACK
    assert alone is not None
    told = dataclasses.replace(alone.capability, recall_tool_names=("theirs",), deterministic_recall_tool_name="theirs")
    sidecar = dataclasses.replace(alone, capability=told)
    assert deep_recall_tools(sidecar, None, everything) == FALLBACK
    assert not trigger_lane_is_open(sidecar, everything)


def test_deep_recall_runs_with_part_of_its_tools_and_not_with_none() -> None:
    owner = Native(recall_tools=("record_search", "record_get")).host.slot.owner()
    assert deep_recall_tools(owner, None, {"record_get"}.__contains__) == ("record_get",)
    assert deep_recall_tools(owner, ["a", "b"], {"b"}.__contains__) == ("b",)
    assert deep_recall_tools(owner, None, frozenset[str]().__contains__) == ()


# --- the cache --------------------------------------------------------------------------------------------------------


def test_criterion_143_an_answer_is_found_by_its_own_audience_alone() -> None:
    """Not by an equal one, not by one that lies where a former one lay, not by another session's."""
    cache: RecallCache[str] = RecallCache(FixedClock())
    owner = OwnerPrivateAudience("main")
    cache.put(owner, KEY, "k", "private")
    assert cache.get(owner, KEY, "k") == "private"
    assert cache.get(OwnerPrivateAudience("main"), KEY, "k") is None
    assert cache.get(None, KEY, "k") is cache.get(owner, GROUP, "k") is cache.get(owner, KEY, "other") is None
    cache.put(None, KEY, "k", "nobody's")
    assert (cache.get(None, KEY, "k"), cache.get(None, GROUP, "k"), cache.get(owner, KEY, "k")) == (
        "nobody's",
        None,
        "private",
    )
    for number in range(50):
        passing = OwnerPrivateAudience("main")
        assert cache.get(passing, KEY, "k") is None
        cache.put(passing, KEY, "k", f"{number}")
        del passing
        gc.collect()


def test_criterion_143_turns_of_two_audiences_never_share_what_was_recalled() -> None:
    """The owner's own chat and a group, in one run with one message and one cache."""
    native = triggering()

    async def main() -> tuple[list[Recalled], list[str]]:
        recall = TriggerRecall(native.host)
        private, group = await native.facts(), await native.facts(GROUP, GROUP_ID)
        again = await native.facts()
        found = []
        for number, facts in enumerate((private, group, again, private, group)):
            entry = hit(f"{number}", f"said to {number}", triggers="router")
            native.provider.answers["candidates"] = SearchPage((entry,))
            found.append(await recall.recall(RecallTurn("run 1", "router?", facts, TOOLS)))
        return found, native.provider.calls

    found, calls = run(main())
    assert [names(one) for one in found] == [["0"], ["1"], ["2"], ["0"], ["1"]]
    assert calls.count("open") == 3


@pytest.mark.parametrize(
    "change",
    [
        {"run_id": "run 2"},
        {"tools": TOOLS | {"exec"}},
        {"message": "router again?"},
        {"keys": ("mill",)},
    ],
)
def test_criterion_143_another_run_policy_or_request_is_asked_anew(change: dict[str, Any]) -> None:
    native = triggering(hit("1", triggers="router"))

    async def main() -> None:
        recall, turn = TriggerRecall(native.host), await turn_of(native)
        await recall.recall(turn)
        await recall.recall(turn)
        assert native.provider.count("open") == 1
        facts = dataclasses.replace(turn.facts, active_project_keys=change.get("keys", ()))
        other = RecallTurn(
            change.get("run_id", turn.run_id), change.get("message", turn.message), facts, change.get("tools", TOOLS)
        )
        await recall.recall(other)
        assert native.provider.count("open") == 2

    run(main())


def test_criterion_143_nothing_is_given_or_kept_once_the_audience_has_lapsed() -> None:
    native = triggering(hit("1", triggers="router"))

    async def main() -> None:
        recall, turn = TriggerRecall(native.host), await turn_of(native)
        assert names(await recall.recall(turn)) == ["1"]
        native.host.rows.put(SessionRow(KEY, SESSION_ID, "two", "direct"))
        assert await recall.recall(turn) == Recalled()
        for life, method in enumerate(("open", "search", "candidates", "close")):
            turn, recall = await turn_of(native), TriggerRecall(native.host)

            def reset(life: int = life) -> None:
                native.host.rows.put(SessionRow(KEY, SESSION_ID, f"life {life}", "direct"))

            native.provider.before[method] = reset
            assert await recall.recall(turn) == Recalled()
            assert not recall.cache._kept
            native.provider.before.clear()
        assert names(await recall.recall(await turn_of(native))) == ["1"]

    run(main())


def test_the_cache_is_short_lived_bounded_and_can_be_cleared() -> None:
    clock = FixedClock()
    cache: RecallCache[str] = RecallCache(clock)
    cache.put(None, KEY, "k", "v")
    clock.advance(14_999)
    assert cache.get(None, KEY, "k") == "v"
    clock.advance(1)
    assert cache.get(None, KEY, "k") is None
    for number in range(limits.RECALL_CACHE_ENTRIES + 1):
        cache.put(None, KEY, number, "v")
    assert cache.get(None, KEY, 0) is None and cache.get(None, KEY, 1) == "v"
    assert len(cache._kept) == limits.RECALL_CACHE_ENTRIES
    clock.advance(20_000)
    cache.put(None, KEY, "new", "v")
    assert len(cache._kept) == 1, "what is stale goes with the next that is kept"
    cache.clear()
    assert cache.get(None, KEY, "new") is None


# --- after a compaction -----------------------------------------------------------------------------------------------


class Refreshing:
    """Gives the scripted provider a refresh."""

    def __init__(self, native: Native, refresh: Callable[[], Any] | None) -> None:
        handle = native.provider.open
        self.refreshed = 0

        async def open_(request: Any) -> Any:
            opened = await handle(request)
            if opened.provider is not None and refresh is not None:

                async def called() -> None:
                    self.refreshed += 1
                    answer = refresh()
                    if answer is not None:
                        await answer

                opened.provider.refresh = called
            return opened

        native.provider.open = open_  # type: ignore[method-assign]


async def settled_refresh(host: MemoryHost, session: Compacted, mode: Any = "await") -> None:
    await refresh_after_compaction(host, session, mode)
    await post_compaction.settled()


@pytest.mark.parametrize("broken", ["absent", "no refresh", "denied", "open fails", "fails", "lapsed"])
@pytest.mark.parametrize("mode", ["async", "await"])
def test_criterion_144_absence_denial_and_failure_are_logged_and_nothing_else(
    broken: str, mode: Any, caplog: pytest.LogCaptureFixture
) -> None:
    native = Native()
    session = Compacted("main", KEY, SESSION_ID)
    Refreshing(native, None if broken == "no refresh" else fails if broken == "fails" else nothing)
    if broken == "denied":
        native.provider.answers["open"] = OpenResult(None, "denied")
    elif broken == "open fails":
        native.provider.before["open"] = fails
    elif broken == "lapsed":
        session = dataclasses.replace(session, assert_active=lapsed)
    host = MemoryHost({}) if broken == "absent" else native.host
    with caplog.at_level(logging.DEBUG, "memory_sqlite.host.consumers.post_compaction"):
        run(settled_refresh(host, session, mode))
    assert [record.levelno for record in caplog.records] == [logging.DEBUG]
    assert native.provider.count("open") == native.provider.count("close") or broken in ("denied", "open fails")


def test_a_refresh_is_the_sessions_with_its_audience_else_the_hosts() -> None:
    native = Native()
    seen = Refreshing(native, nothing)

    async def main() -> None:
        facts = await native.facts()
        session = Compacted("main", KEY, SESSION_ID, sandboxed=True, audience=facts.memory_audience)
        await settled_refresh(native.host, session)
        await settled_refresh(native.host, Compacted("main", KEY, SESSION_ID))

    run(main())
    first, second = (request.context.authority for request in native.provider.given)
    assert (first.kind, first.session_key, first.session_id, first.sandboxed) == ("session", KEY, SESSION_ID, True)
    assert first.audience.kind == "owner-private"
    assert (second.kind, second.operation) == ("host", "post-compaction-refresh")
    assert seen.refreshed == 2 and native.provider.count("close") == 2


def test_a_refresh_is_waited_for_as_the_mode_says() -> None:
    """``async`` waits until the provider has been told, ``await`` until it is done, ``off`` does nothing at all."""
    native = Native()

    async def main() -> None:
        opening, opened, refreshing, held = (asyncio.Event() for _ in range(4))

        async def open_() -> None:
            opening.set()
            await opened.wait()

        async def refresh() -> None:
            refreshing.set()
            await held.wait()

        Refreshing(native, refresh)
        native.provider.before["open"] = open_
        await refresh_after_compaction(native.host, Compacted("main"), "off")
        assert native.provider.calls == []
        turn = asyncio.ensure_future(refresh_after_compaction(native.host, Compacted("main"), "async"))
        await opening.wait()
        assert not turn.done(), "opening is the turn's"
        opened.set()
        await turn
        await refreshing.wait()
        refreshing.clear()
        waiting = asyncio.ensure_future(refresh_after_compaction(native.host, Compacted("main"), "await"))
        await refreshing.wait()
        assert not waiting.done()
        held.set()
        await waiting
        await post_compaction.settled()
        assert native.provider.count("close") == 2

    run(main())


def test_the_mode_of_a_refresh_is_configured() -> None:
    def said(value: Any) -> dict[str, Any]:
        return {"agents": {"defaults": {"compaction": {"postIndexSync": value}}}}

    modes = [post_compaction.mode_of(said(value)) for value in ("off", "await", "async", "other", None)]
    assert modes == ["off", "await", "async", "async", "async"]
    assert post_compaction.mode_of({"agents": []}) == "async"  # type: ignore[dict-item]
    native = Native(more={"agents": {"list": [{"id": "main"}], **said("off")["agents"]}})
    run(refresh_after_compaction(native.host, Compacted("main")))
    assert native.provider.calls == []


def test_a_legacy_owner_syncs_the_session_as_ever() -> None:
    files = Files()
    run(settled_refresh(files.host, Compacted("main", KEY, SESSION_ID)))
    assert files.manager.synced == [{"reason": "post-compaction", "sessions": (SyncSession(SESSION_ID, "main", KEY),)}]
    assert files.manager.closed == 0


# --- voice ------------------------------------------------------------------------------------------------------------


def asking(**more: Any) -> VoiceQuestion:
    return VoiceQuestion(**{"agent_id": "main", "session_key": KEY, "query": "router", "assert_live": nothing, **more})


async def never(_: float) -> None:
    await asyncio.Event().wait()


def spoken(world: Any, **more: Any) -> Any:
    return run(fast_context(world.host, asking(**more), wait=never))


def test_criterion_145_without_liveness_no_native_provider_is_read() -> None:
    native = Native()
    assert spoken(native, assert_live=None).status == "unavailable"
    assert native.provider.calls == []
    assert spoken(native, assert_live=lapsed).status == "unavailable"
    assert native.provider.calls == []
    assert spoken(native).status == "ok"


def test_voice_is_a_session_without_audience_and_without_sandbox() -> None:
    native = Native()
    spoken(native)
    authority = native.provider.given[0].context.authority
    assert (authority.session_key, authority.sandboxed, authority.audience) == (KEY, False, None)
    assert native.provider.calls == ["open", "search", "close"]


def test_voice_needs_every_configured_source() -> None:
    native = Native(capabilities=PLAIN)
    assert spoken(native).status == "unavailable"
    assert native.provider.calls == ["open", "close"]
    assert spoken(native, sources=("memory",)).status == "ok"


def test_voice_snippets_are_bounded_and_labelled() -> None:
    """700 UTF-16 units each, on one harmless line; the label is the source, else the provider."""
    native = Native()
    long = "\N{GRINNING FACE}" * 500
    native.provider.answers["search"] = SearchPage(
        (hit("1", long), hit("2", f"a\n{CLOSE}", source=None), *(hit(f"{n}") for n in range(3, 12)))
    )
    context = spoken(native)
    assert [one.label for one in context.snippets[:2]] == ["memory", "records"]
    assert utf16_length(context.snippets[0].text) == 700
    assert context.snippets[1].text == "a &lt;/memory_sqlite_context&gt;"
    assert len(context.snippets) == limits.VOICE_RESULTS
    native.provider.answers["search"] = SearchPage(())
    assert spoken(native).status == "nothing"


def test_voice_is_cancelled_when_its_time_is_over() -> None:
    """Through the signal that the provider has, and as a task; the lease is given back; a late answer is nobody's."""
    native = Native()

    async def main() -> Any:
        inside, seen = asyncio.Event(), []

        async def hang() -> None:
            signal = native.provider.given[0].context.signal
            inside.set()
            await signal.wait()
            seen.append(signal.aborted)

        async def until_inside(seconds: float) -> None:
            assert seconds == limits.VOICE_TIMEOUT_S
            await inside.wait()

        closed = asyncio.Event()
        native.provider.before |= {"search": hang, "close": closed.set}
        context = await fast_context(native.host, asking(), wait=until_inside)
        assert native.provider.given[0].context.signal.aborted
        await closed.wait()
        return context

    assert run(main()).status == "timeout"


@pytest.mark.parametrize("change", ["abort", "lapse", "fail"])
def test_voice_gives_nothing_to_who_has_gone(change: str) -> None:
    native, signal, gone = Native(), AbortSignal(), []

    def alive() -> None:
        if gone:
            lapsed()

    native.provider.before["search"] = {"abort": signal.abort, "lapse": lambda: gone.append(1), "fail": fails}[change]
    assert spoken(native, signal=signal, assert_live=alive).status == "unavailable"
    assert native.provider.count("close") == 1 and not signal._callbacks


@pytest.mark.parametrize("world", [Native, Files])
def test_voice_gives_nothing_to_who_has_gone_at_any_step(world: Any) -> None:
    """However many steps of the event loop after the question: what is not given out yet never is."""

    async def asked(steps: int) -> tuple[bool, str]:
        gone: list[int] = []

        def alive() -> None:
            if gone:
                lapsed()

        asking_ = asyncio.ensure_future(fast_context(world().host, asking(assert_live=alive), wait=never))
        for _ in range(steps):
            await asyncio.sleep(0)
        given = asking_.done()
        gone.append(1)
        return given, (await asking_).status

    answers = [run(asked(steps)) for steps in range(40)]
    assert {status for given, status in answers if not given} == {"unavailable"}
    assert answers[-1] == (True, "ok")


def test_voice_of_a_legacy_owner_keeps_its_calls_and_labels() -> None:
    """It needs no liveness, as ever; its hits are authorised for the session."""
    files = Files()
    context = spoken(files, assert_live=None)
    snippet = context.snippets[0]
    assert (snippet.label, snippet.text) == ("memory/net.md#L3-L5", "The router is upstairs.")
    options = files.manager.asked[0][1]
    assert (options.session_key, options.sources) == (KEY, ("memory", "sessions"))
    assert files.authorized[0]["requester_session_key"] == KEY
    assert run(fast_context(MemoryHost({}), asking(), wait=never)).status == "unavailable"


# --- doctor -----------------------------------------------------------------------------------------------------------


def findings(host: MemoryHost, who: OperatorAuthority | None = None) -> list[tuple[str, str, str]]:
    return [(one.provider_id, one.status, one.message) for one in run(memory_health_findings(host, "main", who))]


def test_criterion_146_ready_is_no_finding() -> None:
    native = Native()
    assert findings(native.host) == []
    opened = native.provider.given[0]
    assert (opened.purpose, opened.context.authority.kind) == ("status", "host")
    assert findings(native.host, OperatorAuthority(("operator.read",))) == []
    assert native.provider.given[-1].context.authority.kind == "operator"
    assert native.provider.count("close") == 2


@pytest.mark.parametrize("status", ["degraded", "unavailable"])
def test_criterion_146_anything_else_is_one_warning(status: Any) -> None:
    native = Native()
    native.provider.answers["health"] = Health(status, "the disk is full")
    assert findings(native.host) == [("records", status, f'memory provider "records" is {status}: the disk is full')]
    native.provider.answers["health"] = Health(status)
    assert findings(native.host) == [("records", status, f'memory provider "records" is {status}')]


@pytest.mark.parametrize("where", ["open raises", "open declines", "health raises", "rubbish"])
def test_criterion_146_a_failure_is_unavailable(where: str) -> None:
    native = Native()
    if where == "open declines":
        native.provider.answers["open"] = OpenResult(None, "broken")
    elif where == "rubbish":
        native.provider.answers["health"] = None
    else:
        native.provider.before[where.partition(" ")[0]] = fails
    ((provider, status, message),) = findings(native.host)
    assert (provider, status) == ("records", "unavailable")
    if where.endswith("raises"):  # an error that is no typed one may hold anything, and a health holds no memory
        assert message == 'memory provider "records" is unavailable: the memory plugin failed (RuntimeError)'
    else:
        assert "broken" in message or where == "rubbish"


def test_how_a_slot_is_set_up_is_no_finding() -> None:
    """Nobody selected, switched off, or a plugin with hooks of its own; one that did not load is."""
    assert findings(MemoryHost({})) == []
    off = config("records")
    off["plugins"]["entries"] = {"records": {"enabled": False}}
    assert findings(MemoryHost(off)) == []
    assert [one[1] for one in findings(MemoryHost(config("records")))] == ["unavailable"]
    files = Files(status=ManagerStatus("none", last_sync_error="timed out"))
    assert findings(files.host) == [("files", "degraded", 'memory provider "files" is degraded: timed out')]


# --- with our own plugin ----------------------------------------------------------------------------------------------


def test_our_provider_recalls_for_the_owner_and_not_for_a_group(ours: MemoryHost) -> None:
    """By trigger and by project; what it gives is escaped once."""

    async def main() -> list[Recalled]:
        found, recall = [], TriggerRecall(ours)
        for key, session_id in ((KEY, SESSION_ID), (GROUP, GROUP_ID)):
            audience = await ours.turn_audience(
                agent_id="main", session_key=key, session_id=session_id, sender_is_owner=True
            )
            facts = ours.tool_context(ToolContext("main", key, session_id, active_project_keys=("harbor",)), audience)
            found.append(await recall.recall(RecallTurn("r", "is the wifi on?", facts, TOOLS)))
            caller = CallerContext(SessionAuthority(key, False, session_id, audience), nothing)
            found.append(await recall_projects(ours, agent_id="main", active_project_keys=("Harbor",), context=caller))
        found.append(await recall_projects(ours, agent_id="main", active_project_keys=("harbor",)))
        return found

    by_trigger, by_project, *others = run(main())
    for recalled in (by_trigger, by_project):
        assert "The granite router is &lt;upstairs&gt;." in recalled.text
    assert others == [Recalled()] * 3


def test_our_provider_and_the_other_consumers(ours: MemoryHost) -> None:
    assert run(memory_health_findings(ours, "main")) == []
    assert run(fast_context(ours, asking(query="granite"), wait=never)).status == "nothing", "voice has no audience"
    query = WikiQuery("main", "granite", context=operator())
    (result,) = run(search_beside(ours, query, ()))
    page = run(read_lookup(ours, result.lookup, agent_id="main", context=operator()))
    assert page is not None and "granite router" in page.text
    assert run(search_beside(ours, WikiQuery("main", "granite"), ())) == ()
    run(settled_refresh(ours, Compacted("main", KEY, SESSION_ID)))
