"""Criteria 107 to 113, 121 to 123, 125, 127 of the contract: what a host owes a context engine."""

from __future__ import annotations

import asyncio
import copy
import logging
import runpy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.context.deltas import read_delta
from memory_sqlite.context.shapes import DeltaEntry, DeltaPage, HostRequirement, TranscriptSemantics
from memory_sqlite.host.engines.fence import ReadFence
from memory_sqlite.host.engines.host_params import WIRE_NAMES, accepted, runtime_settings
from memory_sqlite.host.engines.legacy_engine import LegacyEngine
from memory_sqlite.host.engines.registry import EngineRegistry, FactoryContext
from memory_sqlite.host.engines.requirements import COMMAND_LINE
from memory_sqlite.host.engines.turn import TurnOutcome
from memory_sqlite.runtime.signals import AbortSignal

PARTS: Any = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("engine_parts.py"))))
Engine, Kit = PARTS.Engine, PARTS.Kit
HISTORY = [{"role": "user", "content": "earlier"}, {"role": "assistant", "content": "yes"}]
NOW = [{"role": "user", "content": "hello"}]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "data") as opened:
        yield opened


# --- registration ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gap", ["info.id", "info.name", "ingest", "assemble", "compact"])
def test_criterion_107_factory_result_with_a_gap_is_rejected_naming_it(gap: str) -> None:
    """Each part of the contract that is missing is named, alone; nothing of the engine is called."""
    engine = Engine()
    if gap.startswith("info."):
        engine.info = replace(engine.info, **{gap.removeprefix("info."): " "})
    else:
        setattr(engine, gap, None)
    registry = EngineRegistry()
    registry.register("notes", lambda context: engine, plugin_id="p")
    registration = registry.get("notes")
    assert registration is not None
    with pytest.raises(errors.ProviderInvalid, match=f"lacks {gap}$"):
        asyncio.run(registration.make(FactoryContext()))
    assert engine.calls == []


def test_criterion_107_everything_missing_is_named_and_a_whole_engine_is_taken() -> None:
    """What is no engine at all lacks all five; an asynchronous factory is awaited and told its context."""
    registry, told, engine = EngineRegistry(), [], Engine()

    async def factory(context: FactoryContext) -> Any:
        told.append(context)
        return engine if len(told) > 1 else None

    registry.register("notes", factory, plugin_id="p")
    registration = registry.get("notes")
    assert registration is not None
    context = FactoryContext({"a": 1}, "agent", "workspace")
    with pytest.raises(errors.ProviderInvalid, match=r"lacks info\.id, info\.name, ingest, assemble, compact$"):
        asyncio.run(registration.make(context))
    assert asyncio.run(registration.make(context)) is engine
    assert told == [context, context]


def test_engine_ids_are_owned_and_legacy_is_reserved() -> None:
    """A blank id and ``legacy`` are refused, another plugin's id too; the same plugin may register again."""
    registry = EngineRegistry()
    registry.register(" notes ", lambda context: Engine(), plugin_id="p")
    registry.register("notes", lambda context: Engine(), plugin_id="p")
    with pytest.raises(errors.ProviderRefused, match="belongs to plugin 'p'"):
        registry.register("notes", lambda context: Engine(), plugin_id="q")
    with pytest.raises(errors.ProviderRefused, match="reserved"):
        registry.register("legacy", lambda context: Engine(), plugin_id="p")
    for wrong in ("", "  ", None):
        with pytest.raises(errors.InvalidArgument):
            registry.register(wrong, lambda context: Engine(), plugin_id="p")  # type: ignore[arg-type]
    assert not registry.unregister("notes", plugin_id="q")
    assert registry.unregister("notes", plugin_id="p")
    assert registry.get("notes") is None


# --- what an engine is given -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("declared", [None, (), ("sessionKey",), ("abortSignal", "prompt"), tuple(WIRE_NAMES.values())])
@pytest.mark.parametrize("method", ["assemble", "maintain", "compact"])
def test_criterion_108_accepted_host_params_remove_all_others_but_the_abort_signal_of_compact(
    declared: tuple[str, ...] | None, method: str
) -> None:
    """Only listed host fields pass, the engine's own arguments always; undeclared, everything passes."""
    info = Engine(accepted_host_params=declared).info
    host = {name: object() for name in WIRE_NAMES}
    own = {"session_id": "s", "messages": (), "token_budget": 5}
    given = accepted(info, method, host | own)
    expected = set(host) if declared is None else {name for name in host if WIRE_NAMES[name] in declared}
    if method == "compact":
        expected.add("abort_signal")
    assert given == {name: host[name] for name in expected} | own


def test_criterion_108_through_the_host(memory: Memory) -> None:
    """The filter stands before every method: a turn, a commit, maintenance and a compaction."""

    async def scene() -> None:
        kit = Kit(memory, Engine(accepted_host_params=()))
        turn = await kit.begin(
            "t1", session_file="s.jsonl", runtime_settings=runtime_settings(selected="n", source="c")
        )
        await turn.bootstrap()
        await turn.assemble(HISTORY, pending=NOW, prompt="hello", token_budget=1000)
        await turn.finish(kit.well(kit.answer()))
        await turn.close()
        await kit.host.compact({"session_id": "s", "session_key": "k", "runtime_context": {}})
        for method, params in kit.engine.calls:
            assert set(params) & set(WIRE_NAMES) == ({"abort_signal"} if method == "compact" else set()), method
        assert {"bootstrap", "assemble", "commit_turn", "maintain", "compact"} <= set(kit.engine.methods)

    asyncio.run(scene())


def test_contexts_before_the_turn_cannot_rewrite_the_transcript(memory: Memory) -> None:
    """Bootstrap and assembly never get the rewrite helper; maintenance after a turn does."""

    async def scene() -> None:
        kit = Kit(memory)
        context = {"cwd": "/", "rewriteTranscriptEntries": object()}
        kit.engine.info = replace(kit.engine.info, transcript_semantics=None)
        run = await kit.host.begin_run(kit.request(None, session_file="s.jsonl", runtime_context=context))
        await run.bootstrap()
        await run.assemble(HISTORY, pending=NOW)
        await run.finish(TurnOutcome(True, messages=[*HISTORY, *NOW], pre_prompt_message_count=2))
        await run.close()
        seen = [
            (method, set(params["runtime_context"]))
            for method, params in kit.engine.calls
            if "runtime_context" in params
        ]
        early = {"cwd"}
        assert seen == [
            ("bootstrap", early),
            ("maintain", early),
            ("assemble", early),
            ("after_turn", set(context)),
            ("maintain", set(context)),
        ]

    asyncio.run(scene())


# --- which engine a turn runs on -------------------------------------------------------------------------------------


def without_commit() -> Any:
    engine = Engine()
    engine.commit_turn = None
    return engine


UNDECLARED = {
    "no semantics": lambda: Engine(None),
    "no fence": lambda: Engine(TranscriptSemantics(None, PARTS.ADVANCEMENT_IDEMPOTENCY)),
    "another fence": lambda: Engine(TranscriptSemantics("before-current-turn-entry-v2", PARTS.ADVANCEMENT_IDEMPOTENCY)),
    "no idempotency": lambda: Engine(TranscriptSemantics(PARTS.CURRENT_TURN_FENCE, None)),
    "no commitTurn": without_commit,
    "host capability": lambda: Engine(
        host_requirements={"agent-run": HostRequirement(("thread-bootstrap-projection",))}
    ),
}


@pytest.mark.parametrize("lack", UNDECLARED)
def test_criterion_109_without_a_declaration_the_turn_and_its_retries_use_legacy(
    memory: Memory, lack: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Said once; the configuration stays; the next turn tries the engine again and, when it declares all, uses it."""

    async def scene() -> None:
        kit = Kit(memory, UNDECLARED[lack]())
        before = copy.deepcopy(kit.config)
        admission = kit.admit("t1")
        for _ in range(3):  # the turn and two retries of it
            turn = await kit.host.begin_turn(kit.request(admission))
            assert turn.degraded and turn.engine.is_legacy and not turn.durable
            result = await turn.assemble(HISTORY, pending=NOW)
            assert list(result.messages) == [*HISTORY, *NOW]
        declares_later, kit.engine = kit.engine, Engine()
        retry = await kit.host.begin_turn(kit.request(admission))
        assert retry.engine.is_legacy, "a retry stays where its turn began"
        await retry.finish(kit.well(kit.answer()))
        warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
        assert len(warnings) == 1
        assert set(declares_later.methods) <= {"dispose"}
        assert kit.config == before and kit.outbox.row("t1") is None
        following = await kit.whole("t2")
        assert following.degraded is None and list(kit.engine.ledger) == ["t2"]

    asyncio.run(scene())


@pytest.mark.parametrize("trigger", ["receipt", "target", "unregistered", "factory", "no outbox", "collision"])
def test_criterion_109_other_triggers_degrade_the_turn_alone(memory: Memory, trigger: str) -> None:
    """No receipt, another target, no engine, a factory that fails, nowhere to keep the turn: legacy for this turn."""

    async def scene() -> None:
        kit = Kit(memory)
        admission = kit.admit("t1")
        request = kit.request(admission)
        if trigger == "receipt":
            request = kit.request(None)
        elif trigger == "target":
            request = replace(request, store_path="elsewhere")
        elif trigger == "unregistered":
            kit.registry.unregister("notes", plugin_id="notes-plugin")
        elif trigger == "factory":
            kit.registry.register("notes", lambda context: 1 / 0, plugin_id="notes-plugin")
        elif trigger == "no outbox":
            kit.host = PARTS.EngineHost(kit.registry, PARTS.CONFIG)
        else:
            kit.outbox.admit(admitted_turn(admission, owner="another-plugin"))
            kit.outbox.accept(admitted_turn(admission, owner="another-plugin"), kit.answer())
            kit.transcripts.begin(PARTS.SESSION + ":other", PARTS.SESSION_ID[:-1] + "2")
            other = kit.admit("t1", session=PARTS.SESSION + ":other")
            request = kit.request(other)
        turn = await kit.host.begin_turn(request)
        assert turn.degraded and turn.engine.is_legacy
        result = await turn.assemble(HISTORY, pending=NOW)
        assert list(result.messages) == [*HISTORY, *NOW]
        await turn.finish(kit.well(kit.answer()))
        await turn.close()
        assert "commit_turn" not in kit.engine.methods
        kit = Kit(memory)
        assert (await kit.whole("t9", session=PARTS.SESSION)).degraded is None or trigger == "collision"

    asyncio.run(scene())


@pytest.mark.parametrize("turn_id", ["", " ", "a\0b", "\ud800", "é" * 257, 5, None, []])
def test_criterion_109_a_receipt_whose_id_is_no_key_degrades_that_turn_alone(memory: Memory, turn_id: Any) -> None:
    """Kept, it would be refused by its engine for ever and hold up every turn after it."""

    async def scene() -> None:
        kit = Kit(memory)
        turn = await kit.begin(turn_id)
        assert turn.degraded and turn.engine.is_legacy
        await turn.finish(kit.well(kit.answer()))
        await turn.close()
        assert kit.outbox.due() == [] and not kit.host._running
        assert (await kit.whole("é" * 256)).degraded is None

    asyncio.run(scene())


def admitted_turn(admission: Any, owner: str = "notes-plugin", engine: str = "notes") -> Any:
    from memory_sqlite.host.engines.turn_rows import AdmittedTurn

    return AdmittedTurn(admission, engine, owner)


def test_legacy_is_the_default_and_passes_everything_through(memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    """Without a configured engine there is nothing to warn of; the host compacts, and says so when it cannot."""

    async def scene() -> None:
        kit = Kit(memory, config={"plugins": {"slots": {"contextEngine": "  "}}})
        turn = await kit.whole("t1")
        assert turn.degraded is None and turn.engine.is_legacy and not caplog.records and kit.engine.calls == []
        assert (await kit.host.compact({"session_id": "s", "session_key": "k"})).ok is False
        seen: list[Any] = []

        async def compaction(**params: Any) -> Any:
            seen.append(params)
            return PARTS.CompactResult(True, True)

        engine = LegacyEngine(compaction)
        assert (await engine.compact(session_id="s", session_key="k", force=True)).compacted
        assert seen == [{"session_id": "s", "session_key": "k", "force": True}]
        result = await engine.assemble(session_id="s", messages=HISTORY)
        assert list(result.messages) == HISTORY
        assert result.estimated_tokens >= sum(len(message["content"]) for message in HISTORY)

    asyncio.run(scene())


# --- the fence -------------------------------------------------------------------------------------------------------


def deltas_of(kit: Any) -> Any:
    """A host's delta reader over its transcripts, with plain numbers for cursors."""

    def read(*, session_key: str, session_id: str, cursor: str | None = None, fence: Any = None, **limits: Any) -> Any:
        start, session_key = int(cursor or 0), PARTS.SESSION
        end = 10**9 if fence is None else fence.active_message_position
        if start >= end:
            raise errors.FenceBroken("the cursor has passed the entry that the running turn began with")
        with kit.transcripts.view("main", session_key) as view:
            found = [entry for entry in view.between(start + 1, 10**9) if entry.position < end]
        entries = tuple(
            DeltaEntry(entry.entry_id, entry.parent_id, entry.raw_seq, entry.message, entry.role) for entry in found
        )
        return DeltaPage(str(start + len(entries)), entries, False, 0)

    return read


class ReadingEngine(Engine):
    """Reads its session's transcript on whenever it assembles."""

    kit: Any = None
    cursor: str | None = None

    async def assemble(self, **params: Any) -> Any:
        page = await self.kit.host.transcript_delta(
            agent_id="main", session_key=PARTS.SESSION, session_id=PARTS.SESSION_ID, cursor=self.cursor
        )
        self.calls.append(("read", {"texts": [entry.message["content"] for entry in page.entries]}))
        self.cursor = page.cursor
        return await super().assemble(**params)


def fenced_kit(memory: Memory) -> Any:
    engine = ReadingEngine()
    kit: Any = None
    kit = Kit(memory, engine, deltas=lambda **params: deltas_of(kit)(**params))
    engine.kit = kit
    kit.transcripts.append(PARTS.SESSION, {"role": "user", "content": "earlier"})
    kit.answer("yes")
    return kit


def test_criterion_110_no_read_of_an_engine_returns_the_admitted_entry_or_later(memory: Memory) -> None:
    """Neither the delta nor the history handed over; once the turn is over, it is read like everything else."""

    async def scene() -> None:
        kit = fenced_kit(memory)
        turn = await kit.begin("t1", "now")
        assert kit.host.fence_of("main", PARTS.SESSION).position == 3
        kit.transcripts.append(PARTS.SESSION, {"role": "tool", "content": "of the turn"})
        result = await turn.assemble(HISTORY, pending=[{"role": "user", "content": "now"}], token_budget=50)
        assert kit.engine.given("read")["texts"] == ["earlier", "yes"]
        assert kit.engine.given("assemble")["messages"] == tuple(HISTORY)
        assert result.messages[-1]["content"] == "now", "the host appends what is pending itself"
        await turn.assemble(HISTORY, pending=[{"role": "user", "content": "now"}])
        assert kit.engine.given("read")["texts"] == []
        by_id = await kit.host.transcript_delta(agent_id="main", session_key="", session_id=PARTS.SESSION_ID)
        assert len(by_id.entries) == 2, "whichever name it is asked by"
        await turn.finish(kit.well(kit.answer("done")))
        await turn.close()
        assert kit.host.fence_of("main", PARTS.SESSION) is None
        page = await kit.host.transcript_delta(
            agent_id="main", session_key=PARTS.SESSION, session_id=PARTS.SESSION_ID, cursor=kit.engine.cursor
        )
        assert [entry.message["content"] for entry in page.entries] == ["now", "of the turn", "done"]

    asyncio.run(scene())


def test_criterion_110_the_engine_that_commits_a_turn_may_read_it(memory: Memory) -> None:
    """Accepted, the turn is over: nothing of it is fenced off while it is committed."""

    async def scene() -> None:
        kit = fenced_kit(memory)
        plain, seen = kit.engine.commit_turn, []

        async def commit_turn(**given: Any) -> Any:
            page = await kit.host.transcript_delta(
                agent_id="main", session_key=PARTS.SESSION, session_id=PARTS.SESSION_ID, cursor="2"
            )
            seen.extend(entry.message["content"] for entry in page.entries)
            return await plain(**given)

        kit.engine.commit_turn = commit_turn
        assert (await kit.whole("t1", "now")).degraded is None
        assert seen == ["now", "hi"]

    asyncio.run(scene())


def test_criterion_110_of_several_running_turns_the_earliest_entry_counts(memory: Memory) -> None:
    """In whichever order they begin and end."""

    async def scene() -> None:
        kit = Kit(memory)
        early, late = kit.admit("t1"), kit.admit("t2")
        second = await kit.host.begin_turn(kit.request(late))
        first = await kit.host.begin_turn(kit.request(early))
        for turn, position in ((None, 1), (first, 2)):
            if turn is not None:
                await turn.close()
            assert kit.host.fence_of("main", PARTS.SESSION).position == position
        await second.close()
        third = await kit.host.begin_turn(kit.request(kit.admit("t3")))
        assert kit.host.fence_of("main", PARTS.SESSION).position == 3
        fourth = await kit.begin("t4")
        await fourth.close()
        assert kit.host.fence_of("main", PARTS.SESSION).position == 3
        await third.close()

    asyncio.run(scene())


def test_assembly_budget_is_less_what_is_pending(memory: Memory) -> None:
    """The engine's budget is what is left beside the pending messages, at least 1; the estimate counts both."""

    async def scene() -> None:
        kit = Kit(memory)
        turn = await kit.begin("t1")
        for budget, left in ((100, 88), (5, 1), (None, None)):
            result = await turn.assemble(HISTORY, pending=NOW, token_budget=budget, count=lambda messages: 12)
            assert kit.engine.given("assemble")["token_budget"] == left
            assert result.estimated_tokens == 7 + 12
        await turn.assemble(HISTORY, pending=NOW, token_budget=1000)
        assert kit.engine.given("assemble")["token_budget"] == 1000 - len('{"role":"user","content":"hello"}')
        await turn.close()

    asyncio.run(scene())


def break_fence(kit: Any, how: str, admission: Any) -> None:
    anchor = admission.anchor
    if how == "gone":
        kit.transcripts.take_back(PARTS.SESSION, 1)
    elif how == "rewritten":
        kit.transcripts.rewrite(PARTS.SESSION, anchor.entry_id, {"role": "user", "content": "other words"})
    elif how == "not a user's":
        kit.transcripts.rewrite(PARTS.SESSION, anchor.entry_id, {"role": "assistant", "content": "hello"})
    elif how == "rebound":
        kit.transcripts.begin(PARTS.SESSION, "20000000-0000-4000-8000-000000000002")
    elif how == "moved":  # another entry before it has left the path
        kept = kit.transcripts.messages(PARTS.SESSION)[-1]
        kit.transcripts.take_back(PARTS.SESSION, 2)
        kit.transcripts.append(PARTS.SESSION, kept)
    else:
        kit.engine.cursor = "3"


@pytest.mark.parametrize("how", ["gone", "rewritten", "not a user's", "rebound", "moved", "crossed"])
def test_criterion_111_a_broken_fence_degrades_only_that_turn(
    memory: Memory, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The engine is not quarantined, the user's turn completes on legacy and is not committed, the next one is."""

    async def scene() -> None:
        kit = fenced_kit(memory)
        admission = kit.admit("t1")
        turn = await kit.host.begin_turn(kit.request(admission))
        assert turn.durable
        break_fence(kit, how, admission)
        result = await turn.assemble(HISTORY, pending=NOW)
        assert list(result.messages) == [*HISTORY, *NOW]
        assert turn.degraded and turn.engine.is_legacy
        assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1
        await turn.finish(kit.well(kit.answer()))
        await turn.close()
        assert kit.outbox.row("t1") is None and kit.engine.ledger == {}
        assert kit.registry.quarantined("notes") is None
        kit.engine.cursor = None
        kit.transcripts.begin(PARTS.SESSION, PARTS.SESSION_ID)
        assert (await kit.whole("t2")).degraded is None
        assert list(kit.engine.ledger) == ["t2"]

    asyncio.run(scene())


class OneEntry:
    """A transcript whose admitted entry is not quite the one that was admitted."""

    def __init__(self, real: Any) -> None:
        self.real = real
        self.entry_fields: dict[str, Any] = {}
        self.view_fields: dict[str, Any] = {}

    @contextmanager
    def view(self, agent_id: str, session_key: str) -> Iterator[Any]:
        with self.real.view(agent_id, session_key) as view:
            fields = {name: getattr(view, name) for name in ("session_id", "store_path", "generation")}

            def entry(entry_id: str) -> Any:
                return replace(view.entry(entry_id), **self.entry_fields)

            yield SimpleNamespace(**(fields | self.view_fields), entry=entry)


ELSEWHERE = [
    ("entry", "parent_id", "another"),
    ("entry", "position", 9),
    ("entry", "raw_seq", 9),
    ("entry", "idempotency_key", "k"),
    ("entry", "role", "assistant"),
    ("entry", "message", {"role": "user", "content": "other words"}),
    ("view", "session_id", "another"),
    ("view", "store_path", "another"),
    ("view", "generation", "another"),
]


@pytest.mark.parametrize(("what", "field", "value"), ELSEWHERE)
def test_criterion_111_whatever_changed_about_the_admitted_entry_breaks_the_fence(
    memory: Memory, what: str, field: str, value: Any
) -> None:
    """Re-parented, repositioned, in another place of the file, rewritten, no user's, of another session or store: once
    broken it stays broken; a fence that was lifted does not break."""
    kit = Kit(memory)
    kit.answer("earlier")
    reader = OneEntry(kit.transcripts)
    fence, lifted = (ReadFence(kit.admit(turn_id), reader) for turn_id in ("t1", "t2"))
    lifted.lift()
    fence.check()
    getattr(reader, f"{what}_fields")[field] = value
    with pytest.raises(errors.FenceBroken) as first:
        fence.check()
    reader.entry_fields, reader.view_fields = {}, {}
    with pytest.raises(errors.FenceBroken) as second:
        fence.check()
    assert fence.broken == str(first.value) == str(second.value) and "words" not in fence.broken
    getattr(reader, f"{what}_fields")[field] = value
    lifted.check()
    assert lifted.broken is None


def test_criterion_110_what_was_read_while_the_entry_changed_is_not_given_out(memory: Memory) -> None:
    """The fence is looked at before the read and after it."""
    kit = Kit(memory)
    admission = kit.admit("t1")
    fence = ReadFence(admission, kit.transcripts)

    def read(*, fence: Any) -> Any:
        kit.transcripts.rewrite(PARTS.SESSION, admission.anchor.entry_id, {"role": "user", "content": "other"})
        return DeltaPage("1", (), False, 0)

    with pytest.raises(errors.FenceBroken):
        fence.read(read)


def test_criterion_110_over_our_own_transcripts(memory: Memory) -> None:
    """A host whose transcript is ours: ``read_delta`` is told of the fence and ends before the admitted entry."""

    async def scene() -> None:
        rooms = memory.rooms()
        assert rooms is not None
        memory.remember(session=PARTS.SESSION, messages=[{"role": "user", "content": "earlier", "id": "e1"}])
        kit = Kit(memory, deltas=partial(read_delta, rooms))
        place = {"agent_id": "main", "session_key": PARTS.SESSION, "session_id": PARTS.SESSION_ID}
        turn = await kit.begin("t1", "now")
        entry_id = turn.request.admission.anchor.entry_id
        memory.remember(session=PARTS.SESSION, messages=[{"role": "user", "content": "now", "id": entry_id}])
        page = await kit.host.transcript_delta(**place)
        assert [entry.message["content"] for entry in page.entries] == ["earlier"]
        await turn.close()
        page = await kit.host.transcript_delta(**place, cursor=page.cursor)
        assert [entry.message["content"] for entry in page.entries] == ["now"]
        assert (await Kit(memory).host.transcript_delta(**place)).kind == "missing"

    asyncio.run(scene())


@pytest.mark.parametrize("how", ["gone", "rewritten", "not a user's", "rebound", "moved"])
@pytest.mark.parametrize("when", ["before it begins", "before it is accepted"])
def test_criterion_111_at_both_ends_of_the_turn(memory: Memory, how: str, when: str) -> None:
    """A fence that cannot be put, and one that no longer stands when the turn ends: no commit, no quarantine."""

    async def scene() -> None:
        kit = fenced_kit(memory)
        admission = kit.admit("t1")
        if when == "before it begins":
            break_fence(kit, how, admission)
        turn = await kit.host.begin_turn(kit.request(admission))
        assert turn.durable == (when != "before it begins")
        if turn.durable:
            break_fence(kit, how, admission)
        await turn.finish(kit.well(kit.answer()))
        await turn.close()
        assert turn.degraded and kit.outbox.row("t1") is None
        assert kit.engine.ledger == {} and kit.registry.quarantined("notes") is None

    asyncio.run(scene())


# --- how a turn ends -------------------------------------------------------------------------------------------------


def test_criterion_112_commit_gets_the_inclusive_range_and_the_logical_turn_id(memory: Memory) -> None:
    """From the admitted entry to the terminal one, nothing before, nothing after; with persisted facts only."""

    async def scene() -> None:
        kit = fenced_kit(memory)
        admission = kit.admit("turn-7", "now")
        turn = await kit.host.begin_turn(kit.request(admission, heartbeat=True, runtime_context={"llm": object()}))
        kit.transcripts.append(PARTS.SESSION, {"role": "tool", "content": "tool"})
        terminal = kit.answer("done")
        kit.transcripts.append(PARTS.SESSION, {"role": "user", "content": "the next turn"})
        facts = {"provider": "ollama", "modelId": "m", "modelContextWindow": 8, "tokenBudget": True, "llm": object()}
        await turn.finish(kit.well(terminal, facts=facts | {"apiKey": "k"}))
        await turn.close()
        given = kit.engine.given("commit_turn")
        assert [message["content"] for message in given["messages"]] == ["now", "tool", "done"]
        assert given["advancement_key"] == "turn-7" == admission.logical_turn_id
        assert (given["admission"], given["terminal"], given["session_id"]) == (admission, terminal, PARTS.SESSION_ID)
        assert given["is_heartbeat"] is True
        assert given["runtime_context"] == {"provider": "ollama", "modelId": "m", "modelContextWindow": 8}
        assert given["session_target"]["sessionKey"] == given["session_key"] == PARTS.SESSION

    asyncio.run(scene())


ENDINGS = {
    "not completed": {"completed": False},
    "failed": {"failed": True},
    "aborted": {"aborted": True},
    "yielded": {"yielded": True},
    "timed out": {"timed_out": True},
    "no terminal": {"terminal": None},
    "never finished": None,
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_criterion_113_turns_that_did_not_end_well_are_never_committed(memory: Memory, ending: str) -> None:
    """The intent goes at once, and nothing of it comes back at the next turn; that one is committed."""

    async def scene() -> None:
        kit = Kit(memory)
        turn = await kit.begin("t1")
        await turn.assemble(HISTORY, pending=NOW)
        assert kit.kept("t1") == "admitted"
        terminal = kit.answer()
        if (how := ENDINGS[ending]) is not None:
            await turn.finish(replace(kit.well(terminal), **how))
            await turn.finish(kit.well(terminal))  # an ending is an ending
        await turn.close()
        assert kit.kept("t1") is None
        await kit.whole("t2")
        assert list(kit.engine.ledger) == ["t2"]
        assert set(kit.engine.methods) <= {"assemble", "commit_turn", "maintain", "dispose"}

    asyncio.run(scene())


def test_criterion_121_pending_advancement_degrades_the_next_turn(memory: Memory) -> None:
    """An engine that could not take a turn is not asked for the next; when it can, it has both and is used again."""

    async def scene() -> None:
        kit = Kit(memory)
        kit.engine.fails["commit_turn"] = RuntimeError("no")
        await kit.whole("t1")
        assert kit.kept("t1") == "ready"
        second = await kit.begin("t2")
        assert second.degraded and second.engine.is_legacy
        await second.finish(kit.well(kit.answer()))
        await second.close()
        assert kit.kept("t2") is None, "a turn on the legacy path is not the engine's"
        kit.engine.fails.clear()
        third = await kit.whole("t3")
        assert third.degraded is None and list(kit.engine.ledger) == ["t1", "t3"]

    asyncio.run(scene())


def test_criterion_121_a_commit_that_hangs_is_waited_for_only_so_long(memory: Memory) -> None:
    """The reply waits the foreground's time, the commit goes on; until it has settled the next turns run on legacy."""

    async def scene() -> None:
        kit = Kit(memory)
        gate = kit.engine.gates["commit_turn"] = asyncio.Event()
        first = await kit.begin("t1")
        finishing = asyncio.ensure_future(first.finish(kit.well(kit.answer())))
        await kit.engine.asked("commit_turn")
        kit.time_is_over.set()
        await finishing
        assert kit.waited[0] == 10 and kit.kept("t1") == "ready"
        kit.time_is_over.clear()
        for turn_id in ("t2", "another"):  # nobody waits for it a second time: no time passes here
            second = await kit.begin(turn_id)
            assert second.degraded and kit.engine.methods.count("commit_turn") == 1, "it is not asked twice at a time"
            await second.close()
        gate.set()
        await kit.host.settle()
        assert kit.kept("t1") is None and list(kit.engine.ledger) == ["t1"]
        assert (await kit.whole("t3")).degraded is None
        await first.close()

    asyncio.run(scene())


def test_a_turn_whose_end_is_cut_off_holds_nobody_up(memory: Memory) -> None:
    """The host's task is cancelled while the turn ends: it runs no more, and the next recovery decides about it."""

    async def scene() -> None:
        kit = Kit(memory)
        gate = kit.engine.gates["commit_turn"] = asyncio.Event()
        turn = await kit.begin("t1")
        finishing = asyncio.ensure_future(turn.finish(kit.well(kit.answer())))
        await kit.engine.asked("commit_turn")
        finishing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await finishing
        assert kit.host.fence_of("main", PARTS.SESSION) is None and not kit.host._running
        gate.set()
        await kit.host.close()
        assert kit.kept("t1") is None and list(kit.engine.ledger) == ["t1"]
        dropped = await kit.begin("t2")

        def accept(*_: Any, **__: Any) -> Any:
            raise asyncio.CancelledError

        keep, kit.outbox.accept = kit.outbox.accept, accept
        with pytest.raises(asyncio.CancelledError):
            await dropped.finish(kit.well(kit.answer()))
        kit.outbox.accept = keep
        assert kit.kept("t2") == "admitted"
        await kit.whole("t3")
        assert kit.kept("t2") is None and list(kit.engine.ledger) == ["t1", "t3"]

    asyncio.run(scene())


def test_criterion_122_the_durable_path_calls_neither_after_turn_nor_ingest(memory: Memory) -> None:
    """``commit_turn`` replaces them, whatever the engine has; maintenance is offered after the acknowledgement."""

    async def scene() -> None:
        kit = Kit(memory)
        await kit.whole("t1", messages=[*HISTORY, *NOW], pre_prompt_message_count=2)
        assert kit.engine.methods == ["commit_turn", "maintain", "dispose"]

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("lacks", "told"),
    [
        ((), ["after_turn", "maintain"]),
        (("after_turn",), ["ingest_batch", "maintain"]),
        (("after_turn", "ingest_batch"), ["ingest", "ingest", "maintain"]),
        (("after_turn", "ingest_batch", "maintain"), ["ingest", "ingest"]),
    ],
)
def test_runs_that_are_not_durable_are_told_by_the_best_method(memory: Memory, lacks: Any, told: list[str]) -> None:
    """``after_turn``, else ``ingest_batch``, else ``ingest`` of each new message; then maintenance."""

    async def scene() -> None:
        kit = Kit(memory)
        for method in lacks:
            setattr(kit.engine, method, None)
        run = await kit.host.begin_run(kit.request(None))
        new = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        await run.finish(TurnOutcome(True, messages=[*HISTORY, *new], pre_prompt_message_count=2))
        await run.close()
        assert kit.engine.methods == [*told, "dispose"]
        first = kit.engine.calls[0][1]
        if told[0] == "after_turn":
            assert (first["messages"], first["pre_prompt_message_count"]) == ((*HISTORY, *new), 2)
        elif told[0] == "ingest_batch":
            assert first["messages"] == tuple(new)
        else:
            assert [params["message"] for _, params in kit.engine.calls[:2]] == new
            assert "session_target" not in first and "runtime_settings" not in first

    asyncio.run(scene())


@pytest.mark.parametrize("ending", ["aborted", "yielded", "failed"])
def test_runs_that_did_not_end_well_are_not_told(memory: Memory, ending: str) -> None:
    """Skipped on a prompt error, an abort, a yield; and maintenance is not offered when telling failed."""

    async def scene() -> None:
        kit = Kit(memory)
        run = await kit.host.begin_run(kit.request(None))
        await run.finish(replace(TurnOutcome(True, messages=NOW), **{ending: True}))
        await run.close()
        assert kit.engine.methods == ["dispose"]
        kit.engine.fails["after_turn"] = RuntimeError("no")
        run = await kit.host.begin_run(kit.request(None))
        await run.finish(TurnOutcome(True, messages=NOW))
        await run.close()
        assert kit.engine.methods == ["dispose", "after_turn"]

    asyncio.run(scene())


# --- maintenance, disposal -------------------------------------------------------------------------------------------


def test_criterion_123_background_maintenance_does_not_delay_the_reply_and_retains_the_engine(memory: Memory) -> None:
    """``finish`` returns while maintenance runs; the engine is disposed of only after it has settled."""

    async def scene() -> None:
        kit = Kit(memory, Engine(turn_maintenance_mode="background"))
        gate = kit.engine.gates["maintain"] = asyncio.Event()
        turn = await kit.begin("t1")
        await turn.finish(kit.well(kit.answer()))  # returns although nothing has opened the gate
        closing = asyncio.ensure_future(turn.close())
        await kit.engine.asked("maintain")
        await kit.happenings.until(lambda: len(kit.waited) == 2)
        kit.time_is_over.set()
        await closing
        assert "dispose" not in kit.engine.methods and kit.kept("t1") is None
        gate.set()
        await turn._configured.leave()
        assert kit.engine.methods == ["commit_turn", "maintain", "dispose"]

    asyncio.run(scene())


def test_criterion_123_foreground_maintenance_is_part_of_the_turn(memory: Memory) -> None:
    """Without the declaration ``finish`` waits for it; its failure changes nothing of the acknowledgement."""

    async def scene() -> None:
        kit = Kit(memory)
        gate = kit.engine.gates["maintain"] = asyncio.Event()
        kit.engine.fails["maintain"] = RuntimeError("no")
        turn = await kit.begin("t1")
        finishing = asyncio.ensure_future(turn.finish(kit.well(kit.answer())))
        await kit.engine.asked("maintain")
        assert not finishing.done() and kit.kept("t1") is None
        gate.set()
        await finishing
        assert list(kit.engine.ledger) == ["t1"]
        await turn.close()

    asyncio.run(scene())


def test_criterion_127_dispose_runs_once_after_retained_work(memory: Memory) -> None:
    """However often a turn is closed; and not while a compaction that took too long goes on."""

    async def scene() -> None:
        kit = Kit(memory)
        turn = await kit.begin("t1")
        await asyncio.gather(turn.close(), turn.close(), turn.close())
        await turn.close()
        assert kit.engine.methods == ["dispose"]
        kit.engine = Engine()
        gate = kit.engine.gates["compact"] = asyncio.Event()
        compaction = asyncio.ensure_future(kit.host.compact({"session_id": "s", "session_key": "k"}))
        await kit.engine.asked("compact")
        await kit.happenings.until(lambda: 180.0 in kit.waited)
        kit.time_is_over.set()
        with pytest.raises(errors.EngineTimedOut):
            await compaction
        assert kit.engine.given("compact")["abort_signal"].aborted
        assert kit.engine.methods == ["compact"]
        gate.set()
        await kit.engine.asked("dispose")
        assert kit.engine.methods == ["compact", "dispose"]

    asyncio.run(scene())


def test_criterion_127_a_turn_that_is_closed_while_it_ends_keeps_its_engine_until_then(memory: Memory) -> None:
    """Whoever closes does not dispose of the engine under the commit that another task waits for."""

    async def scene() -> None:
        kit = Kit(memory)
        turn = await kit.begin("t1")
        await asyncio.gather(turn.finish(kit.well(kit.answer())), turn.close())
        assert kit.engine.methods == ["commit_turn", "maintain", "dispose"]

    asyncio.run(scene())


def test_criterion_127_an_instance_shared_by_turns_is_disposed_of_when_the_last_lets_go(memory: Memory) -> None:
    """A factory may return one instance again and again: never under a turn that runs, never twice."""

    async def scene() -> None:
        kit = Kit(memory)
        other = PARTS.SESSION + ":other"
        kit.transcripts.begin(other, PARTS.SESSION_ID[:-1] + "3")
        first, second = await kit.begin("t1"), await kit.begin("t2", session=other)
        await first.close()
        assert "dispose" not in kit.engine.methods
        await second.close()
        await (await kit.begin("t3")).close()
        assert kit.engine.methods == ["dispose"]

    asyncio.run(scene())


# --- failing engines -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["bootstrap", "assemble", "commit_turn", "maintain", "dispose", "after_turn"])
def test_criterion_125_a_throwing_method_quarantines_and_the_turn_completes(
    memory: Memory, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The user's turn goes through whatever fails; runs of the process use legacy from then on; no text is logged."""

    async def scene() -> None:
        kit = Kit(memory)
        kit.engine.fails[method] = RuntimeError("the user said: granite")
        if method == "after_turn":
            turn = await kit.host.begin_run(kit.request(None, session_file="s.jsonl"))
        else:
            turn = await kit.begin("t1", session_file="s.jsonl")
        await turn.bootstrap()
        result = await turn.assemble(HISTORY, pending=NOW)
        assert list(result.messages)[-3:] == [*HISTORY, *NOW]
        await turn.finish(kit.well(kit.answer(), messages=[*HISTORY, *NOW]))
        await turn.close()
        assert (kit.registry.quarantined("notes") is not None) == (method != "dispose")
        assert caplog.records and "granite" not in caplog.text
        run = await kit.host.begin_run(kit.request(None))
        assert run.engine.is_legacy == (method != "dispose")
        await run.close()

    asyncio.run(scene())


def test_criterion_125_a_logical_turn_ignores_quarantine(memory: Memory) -> None:
    """A quarantined engine is tried afresh by the next logical turn, while runs stay on legacy."""

    async def scene() -> None:
        kit = Kit(memory)
        kit.engine.fails["assemble"] = RuntimeError("no")
        turn = await kit.begin("t1")
        await turn.assemble(HISTORY, pending=NOW)
        await turn.close()
        kit.engine.fails.clear()
        turn = await kit.begin("t2")
        assert turn.durable and kit.registry.quarantined("notes")
        result = await turn.assemble(HISTORY, pending=NOW)
        assert result.messages[0]["content"] == "from the engine"
        await turn.close()
        assert (await kit.host.begin_run(kit.request(None))).engine.is_legacy

    asyncio.run(scene())


@pytest.mark.parametrize(
    "answer", [None, {"messages": []}, PARTS.AssembleResult(None, 3), PARTS.AssembleResult(("text",), 3)]
)
def test_criterion_125_an_assembly_without_messages_is_an_error(memory: Memory, answer: Any) -> None:
    """The unmodified messages are used, and the engine is quarantined."""

    async def scene() -> None:
        kit = Kit(memory)
        kit.engine.answers["assemble"] = answer
        turn = await kit.begin("t1")
        result = await turn.assemble(HISTORY, pending=NOW)
        assert list(result.messages) == [*HISTORY, *NOW] and turn.degraded
        await turn.close()
        assert kit.registry.quarantined("notes")

    asyncio.run(scene())


@pytest.mark.parametrize("method", ["assemble", "bootstrap", "compact", "prepare_subagent_spawn"])
def test_criterion_125_cancellation_never_quarantines(memory: Memory, method: str) -> None:
    """A caller's abort ends the call at once, also of an engine that takes no notice; that is no failure of it."""

    async def scene() -> None:
        kit = Kit(memory)
        gate = kit.engine.gates[method] = asyncio.Event()
        kit.engine.fails[method] = RuntimeError("after the abort")
        signal = AbortSignal()
        turn = await kit.begin("t1", session_file="s.jsonl", signal=signal)
        call = {
            "assemble": lambda: turn.assemble(HISTORY, pending=NOW),
            "bootstrap": turn.bootstrap,
            "compact": lambda: kit.host.compact({"session_id": "s", "session_key": "k"}, signal),
            "prepare_subagent_spawn": lambda: kit.host.prepare_subagent_spawn({"parent_session_key": "p"}, signal),
        }[method]
        waiting = asyncio.ensure_future(call())
        await kit.engine.asked(method)
        signal.abort()
        with pytest.raises(errors.Cancelled):
            await waiting
        if method == "compact":
            assert kit.engine.given(method)["abort_signal"].aborted
        gate.set()
        kit.time_is_over.set()
        await turn.close()
        assert kit.registry.quarantined("notes") is None
        with pytest.raises(errors.Cancelled):
            await kit.begin("t2", signal=signal)

    asyncio.run(scene())


def test_criterion_125_a_failure_after_the_callers_abort_is_the_abort(memory: Memory) -> None:
    """Whatever the engine raises once nobody wants an answer any more: the caller hears ``Cancelled``."""

    async def scene() -> None:
        kit = Kit(memory)
        signal = AbortSignal()

        async def assemble(**params: Any) -> Any:
            signal.abort()
            raise RuntimeError("no")

        kit.engine.assemble = assemble
        turn = await kit.begin("t1", signal=signal)
        with pytest.raises(errors.Cancelled):
            await turn.assemble(HISTORY, pending=[{"role": "user", "content": object()}])
        await turn.close()
        assert kit.registry.quarantined("notes") is None and turn.degraded is None

    asyncio.run(scene())


def test_criterion_125_cancelling_the_callers_task_is_the_callers_abort_and_an_engine_that_cancels_itself_fails(
    memory: Memory,
) -> None:
    """The difference is who cancelled: only the caller's own is no failure."""

    async def scene() -> None:
        kit = Kit(memory)
        kit.engine.gates["assemble"] = asyncio.Event()
        turn = await kit.begin("t1")
        waiting = asyncio.ensure_future(turn.assemble(HISTORY, pending=NOW))
        await kit.engine.asked("assemble")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await turn.close()
        assert kit.registry.quarantined("notes") is None
        kit.engine.gates.clear()
        kit.engine.fails["assemble"] = asyncio.CancelledError()
        turn = await kit.begin("t2")
        assert list((await turn.assemble(HISTORY, pending=NOW)).messages) == [*HISTORY, *NOW]
        await turn.close()
        assert kit.registry.quarantined("notes")

    asyncio.run(scene())


@pytest.mark.parametrize("method", ["factory", "bootstrap", "assemble", "commit_turn", "maintain"])
def test_criterion_125_what_is_no_exception_does_not_end_the_users_turn(memory: Memory, method: str) -> None:
    """An engine that raises past every ``except Exception`` fails like any other: the turn completes, and a commit that
    failed so counts as an attempt."""

    class Odd(BaseException):
        pass

    async def scene() -> None:
        kit = Kit(memory)
        kit.engine.fails[method] = Odd()

        def factory(context: FactoryContext) -> Any:
            raise Odd

        if method == "factory":
            kit.registry.register("notes", factory, plugin_id="notes-plugin")
        turn = await kit.begin("t1", session_file="s.jsonl")
        await turn.bootstrap()
        result = await turn.assemble(HISTORY, pending=NOW)
        assert list(result.messages)[-3:] == [*HISTORY, *NOW]
        await turn.finish(kit.well(kit.answer()))
        await turn.close()
        assert kit.registry.quarantined("notes")
        row = kit.outbox.row("t1")
        assert (None if row is None else row.attempts) == (1 if method == "commit_turn" else None)

    asyncio.run(scene())


@pytest.mark.parametrize("requirements", ["x", 5, {"agent-run": 5, "manual-compact": 5}])
def test_criterion_125_declarations_that_cannot_be_read_are_the_engines_failure(
    memory: Memory, requirements: Any
) -> None:
    """Turns, runs and compactions go on without it, and it is disposed of."""

    async def scene() -> None:
        kit = Kit(memory, Engine(host_requirements=requirements))
        turn = await kit.whole("t1")
        assert turn.degraded == "what it declares cannot be read"
        kit.engine = Engine(host_requirements=requirements)
        assert (await kit.host.begin_run(kit.request(None))).engine.is_legacy and kit.registry.quarantined("notes")
        assert (await kit.host.compact({"session_id": "s", "session_key": "k"})).ok is False
        await kit.engine.asked("dispose")

    asyncio.run(scene())


def test_criterion_125_an_assembly_of_a_class_of_its_own_is_taken(memory: Memory) -> None:
    """With the fields that it has; the number of its tokens must be one."""

    async def scene() -> None:
        kit = Kit(memory)
        kit.engine.answers["assemble"] = SimpleNamespace(
            messages=[*HISTORY], estimated_tokens=3, system_prompt_addition="more", own="x"
        )
        turn = await kit.begin("t1")
        result = await turn.assemble(HISTORY, pending=NOW, count=lambda messages: 1)
        assert result == PARTS.AssembleResult((*HISTORY, *NOW), 4, system_prompt_addition="more")
        await turn.close()
        for tokens in (None, -1, True, 2.5):
            kit.engine.answers["assemble"] = SimpleNamespace(messages=[], estimated_tokens=tokens)
            turn = await kit.begin("t2")
            assert list((await turn.assemble(HISTORY, pending=NOW)).messages) == [*HISTORY, *NOW] and turn.degraded
            await turn.close()

    asyncio.run(scene())


@pytest.mark.parametrize("operation", ["turn", "run", "compact", "spawn"])
def test_criterion_125_an_abort_ends_the_waiting_for_a_factory(memory: Memory, operation: str) -> None:
    """A factory that hangs holds nobody who no longer wants to wait; the engine that it makes all the same is disposed
    of, and the abort is no failure of it."""

    async def scene() -> None:
        kit = Kit(memory)
        signal, inside, go_on = AbortSignal(), asyncio.Event(), asyncio.Event()

        async def factory(context: FactoryContext) -> Any:
            inside.set()
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                await go_on.wait()
            return kit.engine

        kit.registry.register("notes", factory, plugin_id="notes-plugin")
        call = {
            "turn": lambda: kit.begin("t1", signal=signal),
            "run": lambda: kit.host.begin_run(kit.request(None, signal=signal)),
            "compact": lambda: kit.host.compact({"session_id": "s", "session_key": "k"}, signal),
            "spawn": lambda: kit.host.prepare_subagent_spawn({"parent_session_key": "p"}, signal),
        }[operation]
        waiting = asyncio.ensure_future(call())
        await inside.wait()
        signal.abort()
        try:
            with pytest.raises(errors.Cancelled):
                await waiting
            assert kit.registry.quarantined("notes") is None and kit.kept("t1") is None
        finally:
            go_on.set()  # whatever this test comes to, the factory comes to an end
        await kit.engine.asked("dispose")
        assert kit.engine.methods == ["dispose"]

    asyncio.run(scene())


def test_criterion_127_a_turn_that_is_cancelled_while_it_begins_leaves_nothing_behind(memory: Memory) -> None:
    """The host's task is cancelled while it waits for an earlier delivery: no fence stands, the engine is let go."""

    async def scene() -> None:
        kit = Kit(memory)
        gate = kit.engine.gates["commit_turn"] = asyncio.Event()
        first = await kit.begin("t1")
        finishing = asyncio.ensure_future(first.finish(kit.well(kit.answer())))
        await kit.engine.asked("commit_turn")
        finishing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await finishing
        kit.engine = Engine()
        beginning = asyncio.ensure_future(kit.begin("t2"))
        await kit.happenings.until(lambda: len(kit.waited) == 2)
        assert kit.host.fence_of("main", PARTS.SESSION) is not None
        beginning.cancel()
        with pytest.raises(asyncio.CancelledError):
            await beginning
        assert kit.host.fence_of("main", PARTS.SESSION) is None and not kit.host._running
        await kit.engine.asked("dispose")
        gate.set()
        await kit.host.settle()
        await first.close()

    asyncio.run(scene())


@pytest.mark.parametrize("method", ["compact", "prepare_subagent_spawn"])
def test_criterion_125_compaction_and_spawning_raise_again(memory: Memory, method: str) -> None:
    """They quarantine and are not hidden behind legacy; afterwards the same call goes to legacy."""

    async def scene() -> None:
        kit = Kit(memory)
        kit.engine.fails[method] = RuntimeError("no")
        call = getattr(kit.host, method)
        params = {"session_id": "s", "session_key": "k"}
        with pytest.raises(RuntimeError):
            await call(params)
        assert kit.registry.quarantined("notes") and kit.engine.methods == [method, "dispose"]
        after = await call(params)
        assert after is None or after.reason == "the host has no compaction"
        kit = Kit(memory)
        kit.engine.fails["on_subagent_ended"] = RuntimeError("no")
        await kit.host.on_subagent_ended("child", "completed")
        assert kit.engine.calls[0] == ("on_subagent_ended", {"child_session_key": "child", "reason": "completed"})
        assert kit.registry.quarantined("notes")

    asyncio.run(scene())


def test_missing_host_capability_is_told_before_a_run(memory: Memory) -> None:
    """Outside logical turns it is an error, in the engine's own words where it has some."""

    async def scene() -> None:
        needs = {
            "agent-run": HostRequirement(("assemble-before-prompt", "compact"), "Notes needs an embedded run."),
            "manual-compact": HostRequirement(("compact",)),
        }
        kit = Kit(memory, Engine(host_requirements=needs), capabilities=COMMAND_LINE)
        with pytest.raises(errors.ProviderRefused, match=r"^Notes needs an embedded run\.$"):
            await kit.host.begin_run(kit.request(None))
        with pytest.raises(errors.ProviderRefused, match="the host lacks compact"):
            await kit.host.compact({"session_id": "s", "session_key": "k"})
        assert (await kit.begin("t1")).degraded == "Notes needs an embedded run."
        assert kit.registry.quarantined("notes") is None

    asyncio.run(scene())


def test_runtime_settings_have_the_contracts_form() -> None:
    """Every field is there; what is not known is ``None``."""
    settings = runtime_settings(selected="notes", source="config", model={"provider": "ollama", "secret": "x"})
    assert settings == {
        "schemaVersion": 1,
        "runtime": {"host": "openclaw", "mode": "normal", "harnessId": None, "runtimeId": None},
        "model": {"requested": None, "resolved": None, "provider": "ollama", "family": None},
        "contextEngineSelection": {"selectedId": "notes", "source": "config"},
        "executionHost": {"id": None, "label": None},
        "limits": {"promptTokenBudget": None, "maxOutputTokens": None},
        "diagnostics": {"fallbackReason": None, "degradedReason": None},
    }
