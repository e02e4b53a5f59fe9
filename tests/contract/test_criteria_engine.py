"""Acceptance criteria of the context-engine contract that our engine answers for: 112, 114, 115, 124, 126, 128, 129.

The crash of 115 is swept in ``tests/faults``; here is its promise in one transaction.
"""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import apsw
import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.clock import FixedClock
from memory_sqlite.config import Settings
from memory_sqlite.context import delta_cursors
from memory_sqlite.context.deltas import entry_bytes
from memory_sqlite.context.shapes import (
    CompactResult,
    DeltaEntry,
    DeltaMissing,
    DeltaPage,
    DeltaReset,
    DeltaResult,
    DeltaUnavailable,
    TurnAdmission,
    TurnAnchor,
)
from memory_sqlite.model import SessionInfo
from memory_sqlite.runtime.signals import AbortSignal

KEY, ID = "agent:main:main", "10000000-0000-4000-8000-000000000001"
OWNERS = SessionInfo("", "direct", "interactive", True)
T = TypeVar("T")
COUNTS = (
    "SELECT (SELECT count(*) FROM turns), (SELECT count(*) FROM messages),"
    " (SELECT count(*) FROM records WHERE layer = 'L1'), (SELECT count(*) FROM records WHERE layer = 'L3')"
)


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(settings=Settings(data_dir=tmp_path / "data"), clock=FixedClock()) as opened:
        yield opened


def rows(memory: Memory, sql: str) -> list[tuple[Any, ...]]:
    connection = apsw.Connection(memory.status()["store"], flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def write(memory: Memory, sql: str) -> None:
    """A change that no code of ours makes: as if the store had been taken back to a backup."""
    rooms = memory.rooms()
    assert rooms is not None
    with rooms.opened.store.transaction() as connection:
        connection.execute(sql).fetchall()


def anchor(entry: str, seq: int, **changes: Any) -> TurnAnchor:
    made = TurnAnchor("main", ID, KEY, "host.jsonl", "g1", entry, seq, None, seq)
    return replace(made, **changes)


def turn(number: int = 1, **changes: Any) -> dict[str, Any]:
    """What a host gives for one accepted turn."""
    key = f"turn-{number}"
    given = {
        "advancement_key": key,
        "admission": TurnAdmission(anchor(f"u{number}", 2 * number - 1), key),
        "terminal": anchor(f"a{number}", 2 * number),
        "messages": [
            {"role": "user", "content": f"I love pebble{number}.", "timestamp": 1_784_104_000_000 + number},
            {"role": "assistant", "content": f"Noted, pebble{number}.", "timestamp": 1_784_104_000_500 + number},
        ],
        "session_id": ID,
    }
    return {**given, **changes}


def delta(memory: Memory, cursor: str | None = None, **more: Any) -> DeltaResult:
    return memory.transcript_delta(**{"session_key": KEY, "session_id": ID, "cursor": cursor, **more})


def page(memory: Memory, cursor: str | None = None, **more: Any) -> DeltaPage:
    read = delta(memory, cursor, **more)
    assert isinstance(read, DeltaPage), read
    return read


def ids(read: DeltaPage) -> list[str]:
    return [entry.entry_id for entry in read.entries]


# --- 112, 114, 115: committing ---------------------------------------------------------------------------------------


def test_criterion_112_commit_takes_the_inclusive_range_under_the_logical_turns_key(memory: Memory) -> None:
    """The first and the last entry of the range are both stored, under their entry ids; a key that is not the logical
    turn's, an end before the beginning and a range without messages are refused, and nothing is stored."""
    engine = memory.context_engine()
    refused: list[dict[str, Any]] = [
        {"advancement_key": "another"},
        {"terminal": anchor("a1", 0)},
        {"messages": []},
        {"terminal": anchor("a1", 2, session_id="another")},
        {"terminal": anchor("a1", 2, agent_id="another")},
        {"session_id": "another"},
    ]
    for changes in refused:
        with pytest.raises(errors.InvalidArgument):
            run(engine.commit_turn(**turn(**changes)))
    assert rows(memory, COUNTS) == [(0, 0, 0, 0)]
    assert rows(memory, "SELECT count(*) FROM accepted_advancements") == [(0,)]
    assert run(engine.commit_turn(**turn())).status == "committed"
    assert ids(page(memory)) == ["u1", "a1"]
    assert rows(memory, "SELECT advancement_key, arrived_by FROM turns") == [("turn-1", "commit")]


def test_criterion_114_first_write_is_committed_and_every_repeat_a_duplicate(memory: Memory) -> None:
    """A repeat changes nothing, whatever it carries, by whatever engine, after any number of others."""
    engine = memory.context_engine(describe=lambda key, id: OWNERS)
    assert [run(engine.commit_turn(**turn(number))).status for number in (1, 2)] == ["committed"] * 2
    before = rows(memory, COUNTS), rows(memory, "SELECT max(seq) FROM change_log")
    other = [{"role": "user", "content": "I love something else."}]
    again = [
        run(engine.commit_turn(**turn(1))),
        run(memory.context_engine().commit_turn(**turn(1, messages=other))),
        run(engine.commit_turn(**turn(2, is_heartbeat=True))),
    ]
    assert [result.status for result in again] == ["duplicate"] * 3
    assert (rows(memory, COUNTS), rows(memory, "SELECT max(seq) FROM change_log")) == before
    assert before[0] == [(2, 4, 2, 2)]


@pytest.mark.parametrize("how", ["turn", "session", "retention"])
def test_criterion_114_a_turn_that_is_gone_stays_gone(memory: Memory, how: str) -> None:
    """Forgetting or expiry takes the turn and not the key: the repeat is a duplicate and brings nothing back. Also
    under another key what was forgotten is not stored."""
    engine = memory.context_engine(describe=lambda key, id: OWNERS)
    run(engine.commit_turn(**turn()))
    if how == "turn":
        [(message,)] = rows(memory, "SELECT id FROM messages WHERE role = 'user'")
        memory.forget(references=[f"message:{message}"])
    elif how == "session":
        memory.forget(sessions=[KEY])
    else:
        write(memory, "DELETE FROM turns")
    assert run(engine.commit_turn(**turn())).status == "duplicate"
    assert rows(memory, COUNTS)[0][:2] == (0, 0)
    if how != "retention":
        renamed = turn(advancement_key="renamed", admission=TurnAdmission(anchor("u1", 1), "renamed"))
        assert [run(engine.commit_turn(**renamed)).status for _ in range(2)] == ["committed", "duplicate"]
        assert rows(memory, COUNTS)[0][:2] == (0, 0)


def test_criterion_115_key_and_turn_are_one_transaction(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails after the turn's rows were written takes the key with it, and the reverse; then the same call goes
    through."""
    from memory_sqlite.transcripts import turns

    engine = memory.context_engine()
    real, fail = turns.advance, [True]

    def advance(*args: Any) -> None:
        real(*args)
        if fail[0]:
            raise apsw.FullError("injected")

    monkeypatch.setattr(turns, "advance", advance)
    with pytest.raises(errors.DiskFull):
        run(engine.commit_turn(**turn()))
    assert rows(memory, COUNTS) == [(0, 0, 0, 0)]
    assert rows(memory, "SELECT count(*) FROM accepted_advancements") == [(0,)]
    fail[0] = False
    assert run(engine.commit_turn(**turn())).status == "committed"
    assert rows(memory, "SELECT count(*) FROM accepted_advancements WHERE turn_id IS NOT NULL") == [(1,)]


def test_criterion_114_one_of_many_at_once_is_committed(memory: Memory) -> None:
    """Eight commits of each of three keys at the same time, by two engines: each key once."""
    engines = [memory.context_engine(), memory.context_engine()]

    async def scenario() -> list[str]:
        calls = [engines[place % 2].commit_turn(**turn(number)) for place in range(8) for number in (1, 2, 3)]
        return [result.status for result in await asyncio.gather(*calls)]

    assert sorted(run(scenario())) == ["committed"] * 3 + ["duplicate"] * 21
    assert rows(memory, COUNTS)[0][:2] == (3, 6)


def test_a_session_that_was_reset_goes_on_under_its_key(memory: Memory) -> None:
    """A new id under a known key is the same session here; an id whose transcript was imported keeps that one."""
    run(memory.context_engine().commit_turn(**turn(1)))

    def under(name: str, number: int) -> dict[str, Any]:
        start, end = (anchor(f"{side}{number}", 2 * number, session_id=name) for side in "ua")
        key = f"turn-{number}"
        return turn(number, session_id=name, admission=TurnAdmission(start, key), terminal=end)

    run(memory.context_engine().commit_turn(**under("second", 2)))
    assert rows(memory, "SELECT key, turn_count FROM sessions") == [(KEY, 2)]
    assert rows(memory, "SELECT name FROM session_names ORDER BY 1") == [(ID,), ("second",)]
    memory.remember(session="third", messages=[{"role": "user", "content": "I love pebble3.", "id": "u3"}])
    run(memory.context_engine().commit_turn(**under("third", 3)))
    assert rows(memory, "SELECT key, turn_count FROM sessions ORDER BY id") == [(KEY, 2), ("third", 1)]


def test_a_turn_that_came_before_is_recognised_and_gets_the_key(memory: Memory) -> None:
    """Remembered or imported first, under the session's key or its id: the key is filed with that turn, nothing is
    stored twice. A second key for the same turn is committed once as well."""
    memory.remember(session=KEY, messages=[{**message, "at": message["timestamp"]} for message in turn()["messages"]])
    before = rows(memory, COUNTS)
    engine = memory.context_engine()
    assert run(engine.commit_turn(**turn())).status == "committed"
    second = turn(advancement_key="k2", admission=TurnAdmission(anchor("u1", 1), "k2"))
    assert [run(engine.commit_turn(**second)).status for _ in range(2)] == ["committed", "duplicate"]
    assert rows(memory, COUNTS) == before == [(1, 2, 1, 1)]
    assert rows(memory, "SELECT advancement_key FROM turns") == [("turn-1",)]


def test_messages_without_ids_and_times_are_known_again(memory: Memory) -> None:
    """A turn's middle messages need neither: another key for it stores none of them twice."""
    said = [
        {"role": "user", "content": "Look."},
        {"role": "toolResult", "toolCallId": "c", "content": "ok"},
        {"role": "toolResult", "toolCallId": "d", "content": "ok"},
        {"role": "assistant", "content": "Done."},
    ]
    engine = memory.context_engine()
    run(engine.commit_turn(**turn(messages=said)))
    run(engine.commit_turn(**turn(messages=said, advancement_key="k2", admission=TurnAdmission(anchor("u1", 1), "k2"))))
    assert rows(memory, "SELECT role, text FROM messages ORDER BY position") == [
        ("user", "Look."),
        ("tool", "ok"),
        ("tool", "ok"),
        ("assistant", "Done."),
    ]


def test_a_heartbeat_is_no_persons_turn(memory: Memory) -> None:
    """The host speaks in it: it is kept as L0 and makes no episode and no fact; "nothing to say" is not kept."""
    engine = memory.context_engine(describe=lambda key, id: OWNERS)
    said = [{"role": "user", "content": "I love checks."}, {"role": "assistant", "content": "HEARTBEAT_OK"}]
    run(engine.commit_turn(**turn(messages=said, is_heartbeat=True)))
    assert rows(memory, COUNTS) == [(1, 1, 0, 0)]
    assert rows(memory, "SELECT role, origin FROM messages") == [("system", "system")]
    assert not memory.search("checks").hits


def test_sessions_of_the_host_itself_make_no_records(memory: Memory) -> None:
    """A sub-agent's, cron's or heartbeat's key says so; what a session may see never follows from a key."""
    engine = memory.context_engine()
    for name, id in (("agent:main:subagent:x", "sub"), ("agent:main:main", ID)):
        start = anchor("u1", 1, session_key=name, session_id=id)
        key = f"turn of {name}"
        given = turn(
            advancement_key=key,
            admission=TurnAdmission(start, key),
            terminal=anchor("a1", 2, session_key=name, session_id=id),
            session_id=id,
        )
        run(engine.commit_turn(**given))
    kinds = {row["session"]: (row["kind"], row["chat_type"], row["sender_is_owner"]) for row in memory.sessions()}
    assert kinds == {
        "agent:main:subagent:x": ("subagent", "unknown", None),
        "agent:main:main": ("unknown", "unknown", None),
    }
    assert rows(memory, "SELECT count(*) FROM records WHERE layer = 'L1'") == [(1,)]


@pytest.mark.parametrize("key", ["", " ", "a\0b", "\ud800", "k" * 513, 7, None])
def test_advancement_keys_that_cannot_be_kept_are_refused(memory: Memory, key: Any) -> None:
    """Before anything is stored; the message names the argument."""
    engine = memory.context_engine()
    with pytest.raises(errors.InvalidArgument, match="advancement_key"):
        run(engine.commit_turn(**turn(advancement_key=key, admission=TurnAdmission(anchor("u1", 1), key))))
    assert rows(memory, COUNTS) == [(0, 0, 0, 0)]


# --- 124: assembling --------------------------------------------------------------------------------------------------


def talk(count: int, words: int = 12) -> list[dict[str, Any]]:
    said = []
    for number in range(count):
        said.append({"role": "user", "content": f"Question {number} " + "about the harbour " * words})
        said.append({"role": "assistant", "content": f"Answer {number} " + "of the harbour " * words})
    return said


def test_criterion_124_assemble_gives_messages_within_the_budget_and_an_estimate(memory: Memory) -> None:
    """The newest turns whole, in order; the estimate covers the messages and the addition, and is within the budget."""
    engine = memory.context_engine(count_tokens=lambda text: len(text.split()))
    messages = talk(10)
    for budget in (150, 300, 700, 100_000, None):
        result = run(engine.assemble(session_id=ID, session_key=KEY, messages=messages, token_budget=budget))
        kept = list(result.messages)
        assert kept == messages[len(messages) - len(kept) :] and len(kept) % 2 == 0
        counted = sum(len(str(message["content"]).split()) for message in kept)
        assert counted <= result.estimated_tokens <= (budget or 10**9)
        assert (len(kept) == len(messages)) == (budget in (None, 100_000))
    assert kept[-1] == messages[-1]


def test_criterion_124_memory_and_earlier_messages_are_counted_too(memory: Memory) -> None:
    """What is recalled goes into the system prompt in its frame, within the budget; what does not fit is left out."""
    engine = memory.context_engine(describe=lambda key, id: OWNERS)
    memory.remember(
        session="elsewhere",
        chat_type="direct",
        sender_is_owner=True,
        messages=[{"role": "user", "content": "I prefer window seats on trains."}],
    )
    run(engine.commit_turn(**turn(1, messages=[{"role": "user", "content": "The quay crane code is 7731."}])))
    asked = {"role": "user", "content": "Which window seats do I prefer, and what is the quay crane code?"}
    messages = [{"role": "user", "content": "The quay crane code is 7731."}, *talk(4), asked]
    result = run(engine.assemble(session_id=ID, session_key=KEY, messages=messages, token_budget=2_200))
    added = result.system_prompt_addition
    assert added is not None and "window seats" in added and "7731" in added
    assert messages[0] not in result.messages
    used = sum(len(str(m["content"]).encode()) for m in result.messages) + len(added.encode())
    assert used <= result.estimated_tokens <= 2_200
    little = run(engine.assemble(session_id=ID, session_key=KEY, messages=[asked], token_budget=120))
    assert little.system_prompt_addition is None and little.estimated_tokens <= 120
    # what the prompt shows is not recalled beside it, also what was taken in because memory left room
    roomy = run(engine.assemble(session_id=ID, session_key=KEY, messages=messages, token_budget=2_500))
    assert messages[0] in roomy.messages
    assert "window seats" in str(roomy.system_prompt_addition) and "7731" not in str(roomy.system_prompt_addition)
    whole = run(engine.assemble(session_id=ID, session_key=KEY, messages=messages))
    assert (whole.system_prompt_addition or "").count("L0") == 0


def test_criterion_124_a_newest_turn_that_is_too_large_loses_tool_output_then_is_refused(memory: Memory) -> None:
    """As little as is needed is cut, with a mark; what was said never. Then it is ``BudgetTooSmall``."""
    engine = memory.context_engine()
    newest: list[dict[str, Any]] = [
        {"role": "user", "content": "What does the log say?"},
        {"role": "assistant", "content": [{"type": "toolCall", "id": "c1", "name": "read", "arguments": {}}]},
        {"role": "toolResult", "toolCallId": "c1", "content": [{"type": "text", "text": "line " * 4_000}]},
        {"role": "assistant", "content": "It says line."},
    ]
    result = run(engine.assemble(session_id=ID, messages=[*talk(3), *newest], token_budget=2_000))
    assert [message["role"] for message in result.messages] == [message["role"] for message in newest]
    text = result.messages[2]["content"][0]["text"]
    assert text.endswith("[shortened: 20000 bytes before]") and text.startswith("line line")
    assert 1_900 < result.estimated_tokens <= 2_000
    assert (result.messages[0], result.messages[3]) == (newest[0], newest[3])
    with pytest.raises(errors.BudgetTooSmall, match="20 tokens"):
        run(engine.assemble(session_id=ID, messages=newest, token_budget=20))
    with pytest.raises(errors.BudgetTooSmall):  # the prompt is this turn's own, or the turn has not ended
        run(engine.assemble(session_id=ID, messages=newest, token_budget=20, prompt=newest[0]["content"]))
    with pytest.raises(errors.BudgetTooSmall):
        run(engine.assemble(session_id=ID, messages=newest[:3], token_budget=20, prompt="And now?"))


def test_criterion_124_history_that_does_not_fit_is_left_out(memory: Memory) -> None:
    """Where the host adds the prompt itself, all messages are history: what fits of them, however little room there is,
    and nothing older than what was left out."""
    engine = memory.context_engine()
    history = [*talk(1, words=1), {"role": "user", "content": "Long? " * 99}, {"role": "assistant", "content": "Long."}]
    for budget in (1, 50, 300):
        result = run(engine.assemble(session_id=ID, messages=history, token_budget=budget, prompt="And now?"))
        assert (result.messages, result.estimated_tokens) == ((), 0)
    assert len(run(engine.assemble(session_id=ID, messages=history, token_budget=700, prompt="And now?")).messages) == 2


def test_assemble_recalls_for_whom_the_host_says_it_is(memory: Memory) -> None:
    """In the first turn of a session that nobody has stored yet: the owner's memory for the owner in a direct chat, and
    nothing for a group, for a stranger, or where the host does not say. Where recall is off there is none."""
    said = [{"role": "user", "content": "I prefer window seats on trains."}]
    memory.remember(session="elsewhere", chat_type="direct", sender_is_owner=True, messages=said)
    asked = [{"role": "user", "content": "Which window seats do I prefer on trains?"}]

    def added(info: SessionInfo | None) -> str | None:
        engine = memory.context_engine(describe=lambda key, id: info)
        return run(engine.assemble(session_id=ID, session_key=KEY, messages=asked)).system_prompt_addition

    assert "window seats" in (added(OWNERS) or "")
    group, stranger = SessionInfo("", "group", None, True), SessionInfo("", "direct", None, False)
    assert [added(info) for info in (group, stranger, None)] == [None] * 3
    rooms = memory.rooms()
    assert rooms is not None
    object.__setattr__(rooms.settings, "auto_recall", False)
    assert added(OWNERS) is None


def test_assemble_keeps_calls_with_their_results(memory: Memory) -> None:
    """A result that came a turn later holds both turns together: both are there, or neither."""
    engine = memory.context_engine(count_tokens=lambda text: 1)
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "found"}]}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Look."},
        call,
        {"role": "user", "content": "Are you there?"},
        result,
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": "Thanks."},
    ]
    seen = set()
    for budget in range(10, 120):
        kept = list(run(engine.assemble(session_id=ID, messages=messages, token_budget=budget)).messages)
        assert (call in kept) == (result in kept)
        seen.add(len(kept))
    assert seen == {1, 6}


class ImpatientClock(FixedClock):
    """For whom every wait is over before what was waited for has come."""

    def wait(self, event: threading.Event, seconds: float) -> bool:
        return False


def test_assemble_goes_on_without_recall_that_is_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recall that never comes back in time costs the block, nothing else."""
    release = threading.Event()

    def hangs(*args: Any, **kwargs: Any) -> Any:
        release.wait()
        raise AssertionError("its answer is dropped")

    monkeypatch.setattr("memory_sqlite.recall.block._find", hangs)
    monkeypatch.setattr("memory_sqlite.context.recalled._earlier", hangs)
    with Memory.open(settings=Settings(data_dir=tmp_path / "late"), clock=ImpatientClock()) as memory:
        engine = memory.context_engine()
        run(engine.commit_turn(**turn()))
        summary = {"role": "compactionSummary", "summary": "before"}
        messages = [summary, *talk(1)]
        try:
            result = run(engine.assemble(session_id=ID, session_key=KEY, messages=messages, prompt="seats"))
        finally:
            release.set()
    assert (list(result.messages), result.system_prompt_addition) == (messages, None)


def test_assemble_is_cancelled_by_its_signal(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, though a thread still works on it."""
    begun, release = threading.Event(), threading.Event()

    def hangs(*args: Any) -> Any:
        begun.set()
        release.wait()
        return ()

    monkeypatch.setattr("memory_sqlite.context.assemble.recall", hangs)
    signal = AbortSignal()

    async def scenario() -> None:
        engine = memory.context_engine()
        making = asyncio.ensure_future(engine.assemble(session_id=ID, messages=talk(1), abort_signal=signal))
        await asyncio.to_thread(begun.wait)
        signal.abort()
        try:
            with pytest.raises(errors.Cancelled):
                await making
        finally:
            release.set()

    run(scenario())
    with pytest.raises(errors.Cancelled):
        run(memory.context_engine().assemble(session_id=ID, messages=talk(1), abort_signal=signal))


# --- 126: compacting --------------------------------------------------------------------------------------------------


def test_criterion_126_compact_stops_promptly_on_abort(memory: Memory) -> None:
    """Though the host's compaction does not stop, and before it was asked when the abort came first."""
    asked: list[str] = []

    async def scenario() -> None:
        signal, begun, release = AbortSignal(), asyncio.Event(), asyncio.Event()

        async def stubborn(**given: Any) -> CompactResult:
            asked.append(given["session_id"])
            begun.set()
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue
            return CompactResult(True, True)

        engine = memory.context_engine(compaction=stubborn)
        compacting = asyncio.ensure_future(engine.compact(session_id=ID, session_key=KEY, abort_signal=signal))
        await begun.wait()
        signal.abort()
        with pytest.raises(errors.Cancelled):
            await compacting
        assert not release.is_set()
        with pytest.raises(errors.Cancelled):
            await engine.compact(session_id=ID, session_key=KEY, abort_signal=signal)
        release.set()

    run(scenario())
    assert asked == [ID]


def test_compact_delegates_and_never_claims_what_was_not_done(memory: Memory) -> None:
    """The call's own delegate comes before the engine's; without one nothing was compacted, and it says so."""

    async def engines(**given: Any) -> dict[str, Any]:
        return {"ok": True, "compacted": True, "result": {"tokensBefore": given["token_budget"]}}

    async def calls(**given: Any) -> CompactResult:
        return CompactResult(False, False, "nothing to compact")

    async def rubbish(**given: Any) -> Any:
        return {"ok": "yes"}

    engine = memory.context_engine(compaction=engines)
    given: dict[str, Any] = {"session_id": ID, "session_key": KEY, "token_budget": 9, "abort_signal": AbortSignal()}
    assert run(engine.compact(**given)).result == {"tokensBefore": 9}
    by_call = run(engine.compact(**given, runtime_context={"delegateCompactionToRuntime": calls}))
    assert by_call.reason == "nothing to compact"
    none = run(memory.context_engine().compact(**given))
    assert (none.ok, none.compacted, none.result) == (False, False, None) and "delegate" in (none.reason or "")
    with pytest.raises(errors.ProviderInvalid):
        run(memory.context_engine(compaction=rubbish).compact(**given))
    assert not engine.info.owns_compaction


# --- 128: reading on --------------------------------------------------------------------------------------------------


def commit(memory: Memory, *numbers: int) -> None:
    for number in numbers:
        run(memory.context_engine().commit_turn(**turn(number)))


def test_criterion_128_delta_reads_resume_after_appends(memory: Memory) -> None:
    """Pages in order without gap or overlap; a drained page still has a cursor, which sees what is added later."""
    assert delta(memory) == DeltaMissing()
    commit(memory, 1, 2)
    first = page(memory, max_messages=3)
    assert (ids(first), first.has_more) == (["u1", "a1", "u2"], True)
    second = page(memory, first.cursor)
    assert (ids(second), second.has_more, second.entries[0].parent_id) == (["a2"], False, "u2")
    drained = page(memory, second.cursor)
    assert (drained.entries, drained.has_more, drained.serialized_bytes) == ((), False, 0)
    commit(memory, 3)
    assert ids(page(memory, drained.cursor)) == ids(page(memory, second.cursor)) == ["u3", "a3"]
    assert [entry.seq for entry in page(memory).entries] == [1, 2, 3, 4, 5, 6]
    entry = first.entries[0]
    assert (entry.role, entry.message["content"], entry.parent_id) == ("user", "I love pebble1.", None)
    assert len(first.cursor) <= 4_096 and KEY not in str(base64.urlsafe_b64decode(first.cursor))


def test_criterion_128_bytes_are_counted_and_required_bytes_told(memory: Memory) -> None:
    """A page ends before it is too large; where its first entry alone is, it is empty and says how much that needs."""
    commit(memory, 1)
    sizes = [entry_bytes(entry) for entry in page(memory).entries]
    two = page(memory, max_bytes=sum(sizes))
    assert (len(two.entries), two.serialized_bytes, two.has_more) == (2, sum(sizes), False)
    one = page(memory, max_bytes=sum(sizes) - 1)
    assert (len(one.entries), one.serialized_bytes, one.has_more, one.required_bytes) == (1, sizes[0], True, None)
    none = page(memory, max_bytes=sizes[0] - 1)
    assert (none.entries, none.has_more, none.required_bytes) == ((), True, sizes[0])
    assert ids(page(memory, none.cursor, max_bytes=sizes[0])) == ["u1"]


@pytest.mark.parametrize("name", ["max_messages", "max_bytes"])
@pytest.mark.parametrize("value", [0, -1, 1.0, True, "5", 64 * 1024 * 1024 + 1])
def test_criterion_128_limits_out_of_range_are_refused(memory: Memory, name: str, value: Any) -> None:
    """Whether there is a transcript or not."""
    with pytest.raises(errors.InvalidArgument, match=name):
        delta(memory, **{name: value})


def _reset(memory: Memory, cursor: Any, reason: str, **more: Any) -> None:
    read = delta(memory, cursor, **more)
    assert isinstance(read, DeltaReset) and read.reason == reason, read
    fresh = page(memory, read.cursor, **more)
    assert [entry.seq for entry in fresh.entries] == [entry.seq for entry in page(memory, **more).entries]


DAMAGED: list[Callable[[str], Any]] = [
    lambda cursor: "",
    lambda cursor: cursor[:-9],
    lambda cursor: cursor + "A" * 5_000,
    lambda cursor: "x" * 5_000,
    lambda cursor: "ключ",
    lambda cursor: base64.urlsafe_b64encode(b"[1]").decode(),
    lambda cursor: base64.urlsafe_b64encode(b"[" * 3_000).decode(),
    lambda cursor: base64.urlsafe_b64encode(json.dumps([2, *_fields(cursor)[1:]]).encode()).decode(),
    lambda cursor: base64.urlsafe_b64encode(json.dumps([*_fields(cursor)[:3], -1, 1, ""]).encode()).decode(),
    lambda cursor: base64.urlsafe_b64encode(json.dumps([*_fields(cursor)[:3], 2**70, 1, "a" * 32]).encode()).decode(),
    lambda cursor: 7,
]


def _fields(cursor: str) -> list[Any]:
    fields: list[Any] = json.loads(base64.urlsafe_b64decode(cursor))
    return fields


@pytest.mark.parametrize("damage", DAMAGED)
def test_criterion_128_a_damaged_cursor_resets(memory: Memory, damage: Callable[[str], Any]) -> None:
    """Whatever is wrong with it: the answer is a reset with a cursor for the beginning, never an error."""
    commit(memory, 1)
    _reset(memory, damage(page(memory).cursor), "invalid_cursor")


def test_criterion_128_another_sessions_cursor_resets(memory: Memory) -> None:
    """A cursor is bound to the session it was given for, and to its id."""
    commit(memory, 1)
    cursor = page(memory).cursor
    memory.remember(session="other", messages=[{"role": "user", "content": "Hello."}])
    _reset(memory, cursor, "scope_mismatch", session_key="other", session_id="other")
    _reset(memory, cursor, "scope_mismatch", session_id="20000000-0000-4000-8000-000000000002")


def test_criterion_128_a_rewritten_transcript_resets(memory: Memory) -> None:
    """Forgotten messages, a forgotten session that began anew, and an answer that grew: each is another generation."""
    commit(memory, 1, 2)
    cursor = page(memory).cursor
    [(message,)] = rows(memory, "SELECT id FROM messages WHERE host_id = 'u1'")
    memory.forget(references=[f"message:{message}"])
    _reset(memory, cursor, "generation_mismatch")
    cursor = page(memory).cursor
    grown = [turn(2)["messages"][0], {"role": "assistant", "content": "Noted, pebble2. And more.", "id": "a2"}]
    run(
        memory.context_engine().commit_turn(
            **turn(2, messages=grown, advancement_key="k", admission=TurnAdmission(anchor("u2", 3), "k"))
        )
    )
    _reset(memory, cursor, "generation_mismatch")
    cursor = page(memory).cursor
    memory.forget(sessions=[KEY])
    assert delta(memory, cursor) == DeltaMissing()
    run(memory.context_engine().commit_turn(**turn(7, messages=[{"role": "user", "content": "Begun anew."}])))
    _reset(memory, cursor, "generation_mismatch")


def test_criterion_128_a_store_taken_back_resets(memory: Memory) -> None:
    """The message read last is not there any more, or another one has its place: as after restoring a backup."""
    commit(memory, 1, 2)
    cursor = page(memory).cursor
    write(memory, "UPDATE messages SET text_digest = zeroblob(16) WHERE host_id = 'a2'")
    _reset(memory, cursor, "anchor_moved")
    write(memory, "DELETE FROM messages WHERE host_id = 'a2'")
    _reset(memory, cursor, "anchor_missing")


def test_criterion_128_what_is_being_forgotten_is_unavailable(memory: Memory) -> None:
    """From the moment that something of the session is on the list of what goes; other sessions are readable."""
    commit(memory, 1)
    memory.remember(session="other", messages=[{"role": "user", "content": "Hello."}])
    write(memory, "INSERT INTO forgetting_targets SELECT 'turn', id FROM turns WHERE advancement_key = 'turn-1'")
    assert delta(memory) == DeltaUnavailable()
    assert page(memory, session_key="other", session_id="other").entries
    write(memory, "DELETE FROM forgetting_targets")
    write(memory, "INSERT INTO forgetting_targets SELECT 'session', id FROM sessions WHERE key = 'agent:main:main'")
    assert delta(memory) == DeltaUnavailable()


def test_criterion_128_a_busy_store_is_unavailable(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked again later, and nothing else is read instead."""
    commit(memory, 1)

    def busy(*args: Any) -> Any:
        raise apsw.BusyError("injected")

    with monkeypatch.context() as patched:
        patched.setattr("memory_sqlite.context.deltas._page", busy)
        assert delta(memory) == DeltaUnavailable()
    assert ids(page(memory)) == ["u1", "a1"]


def test_reads_end_before_a_fence(memory: Memory) -> None:
    """While a turn runs nothing from its admitted entry on is read; a cursor that has passed it, and an entry that is
    not where it was, break the fence."""
    commit(memory, 1, 2, 3)
    fence = anchor("u2", 3)
    fenced = page(memory, fence=fence)
    assert (ids(fenced), fenced.has_more) == (["u1", "a1"], False)
    assert ids(page(memory, fenced.cursor)) == ["u2", "a2", "u3", "a3"]
    assert ids(page(memory, fence=anchor("not yet here", 9))) == ["u1", "a1", "u2", "a2", "u3", "a3"]
    with pytest.raises(errors.FenceBroken):
        delta(memory, page(memory).cursor, fence=fence)
    with pytest.raises(errors.FenceBroken):
        delta(memory, fence=anchor("u2", 3, session_id="another"))
    store = memory.status()["store"]
    ours = anchor("u2", 3, store_path=store, generation="1.0")
    assert ids(page(memory, fence=ours)) == ["u1", "a1"]
    for changes in ({"raw_seq": 4}, {"entry_id": "gone"}, {"generation": "1.1"}, {"entry_id": "a2", "raw_seq": 4}):
        with pytest.raises(errors.FenceBroken):
            delta(memory, fence=replace(ours, **changes))
    assert delta(memory, store_path="elsewhere.sqlite") == DeltaMissing()
    assert page(memory, store_path=store).entries


def test_cursors_are_read_as_they_were_written() -> None:
    """And scopes tell agent, key and id apart however they are cut."""
    place = delta_cursors.Place(delta_cursors.scope_of("a", "b", "c"), "3.4", 9, 12, "ab" * 16)
    assert delta_cursors.read(delta_cursors.write(place)) == place
    scopes = {delta_cursors.scope_of(*names) for names in (("a", "b", "c"), ("ab", "", "c"), ("a", "bc", ""))}
    assert len(scopes) == 3


# --- 129: following a host's transcript -------------------------------------------------------------------------------


class HostTranscript:
    """A host's transcript that answers as it is told to, and notes with which cursor it was asked."""

    def __init__(self, entries: Sequence[DeltaEntry], answers: Sequence[DeltaResult | None] = ()) -> None:
        self.entries = list(entries)
        self.answers = list(answers)
        self.asked: list[str | None] = []
        self.size = 3

    async def read(self, *, cursor: str | None, **limits: Any) -> DeltaResult:
        self.asked.append(cursor)
        if self.answers and (answer := self.answers.pop(0)) is not None:
            return answer
        start = int(cursor or 0)
        taken = self.entries[start : start + self.size]
        return DeltaPage(str(start + len(taken)), tuple(taken), start + len(taken) < len(self.entries), 1)


def history(count: int) -> list[DeltaEntry]:
    said: list[DeltaEntry] = []
    for number in range(1, count + 1):
        for place, message in enumerate(turn(number)["messages"]):
            name = f"{'ua'[place]}{number}"
            said.append(DeltaEntry(name, None, len(said) + 1, message, message["role"]))
    return said


def test_bootstrap_takes_up_history_once(memory: Memory) -> None:
    """From the beginning, page by page, turns whole although pages cut them; then only what is new."""
    host = HostTranscript(history(4))
    engine = memory.context_engine(read_delta=host.read, describe=lambda key, id: OWNERS)
    first = run(engine.bootstrap(session_id=ID, session_key=KEY, session_file="s.jsonl"))
    assert (first.bootstrapped, first.imported_messages, first.reason) == (True, 8, None)
    assert rows(memory, COUNTS) == [(4, 8, 4, 4)]
    assert host.asked == [None, "3", "6"]
    commit(memory, 2)  # the same turn by another way
    host.entries += history(5)[8:]
    again = run(engine.bootstrap(session_id=ID, session_key=KEY))
    assert (again.imported_messages, host.asked[3:]) == (2, ["8"])
    assert rows(memory, COUNTS)[0][:3] == (5, 10, 5)
    own = run(memory.context_engine().bootstrap(session_id=ID, session_key=KEY))
    assert (own.bootstrapped, own.imported_messages) == (True, 0)


def test_criterion_129_on_reset_the_engine_rebuilds_from_the_new_cursor(memory: Memory) -> None:
    """What the transcript shows after it was rewritten is read from the cursor of the reset, nothing twice; a
    transcript that only ever resets is left for later."""
    host = HostTranscript(history(2))
    engine = memory.context_engine(read_delta=host.read)
    run(engine.bootstrap(session_id=ID, session_key=KEY))
    host.entries = history(3)[2:]
    host.answers = [DeltaReset("0", "generation_mismatch")]
    again = run(engine.bootstrap(session_id=ID, session_key=KEY))
    assert (again.bootstrapped, again.imported_messages) == (True, 2)
    assert host.asked == [None, "3", "4", "0", "3"]
    assert rows(memory, COUNTS)[0][:2] == (3, 6)
    host.answers = [DeltaReset("0", "anchor_moved")] * 9
    never = run(engine.bootstrap(session_id=ID, session_key=KEY))
    assert (never.bootstrapped, never.reason) == (False, "anchor_moved")


def test_criterion_129_on_unavailable_the_engine_retries_later(memory: Memory) -> None:
    """The bootstrap says that it could not; the next prompt, or maintenance, reads on from where it was."""
    for name in ("assemble", "maintain"):
        host = HostTranscript(history(3), [None, DeltaUnavailable(), DeltaUnavailable()])
        engine = memory.context_engine(read_delta=host.read)
        session: dict[str, Any] = {"session_id": f"{ID}-{name}", "session_key": f"{KEY}:{name}"}
        first = run(engine.bootstrap(**session))
        assert (first.bootstrapped, first.imported_messages, first.reason) == (False, 3, "projection_rebuilding")
        more = {"messages": talk(1)} if name == "assemble" else {}
        for _ in range(3):
            run(getattr(engine, name)(**session, **more))
        assert host.asked == [None, "3", "3", "3"]  # then it was there, and is not asked for again
        read = page(memory, session_key=session["session_key"], session_id=session["session_id"])
        assert len(read.entries) == 6


def test_criterion_129_an_oversized_entry_is_read_with_the_bytes_it_requires(memory: Memory) -> None:
    """And one that no page can hold ends the reading with a reason, never in a loop."""
    host = HostTranscript(history(1), [DeltaPage("0", (), True, 0, 3_000_000)])
    done = run(memory.context_engine(read_delta=host.read).bootstrap(session_id=ID))
    assert (done.bootstrapped, done.imported_messages) == (True, 2)
    never = HostTranscript(history(1), [DeltaPage("0", (), True, 0, 2**40)])
    assert run(memory.context_engine(read_delta=never.read).bootstrap(session_id="x")).bootstrapped is False
    empty = HostTranscript(history(1), [DeltaPage("0", (), True, 0)])
    assert run(memory.context_engine(read_delta=empty.read).bootstrap(session_id="y")).bootstrapped is False


# --- the rest of the engine -------------------------------------------------------------------------------------------


def test_ingest_stores_by_the_rules(memory: Memory) -> None:
    """One by one, in a batch, or after a turn: a message is stored once, an answer joins the turn of its question."""
    engine = memory.context_engine(describe=lambda key, id: OWNERS)
    said = turn()["messages"]
    session: dict[str, Any] = {"session_id": ID, "session_key": KEY}
    assert [run(engine.ingest(**session, message=message))["ingested"] for message in said] == [True, True]
    assert [run(engine.ingest(**session, message=message))["ingested"] for message in said] == [False, False]
    assert run(engine.ingest(**session, message={"role": "assistant", "content": "NO_REPLY"}))["ingested"] is False
    assert run(engine.ingest_batch(**session, messages=[*said, *turn(2)["messages"]]))["ingested_count"] == 2
    everything = [message for number in (1, 2, 3) for message in turn(number)["messages"]]
    run(engine.after_turn(**session, messages=everything, pre_prompt_message_count=4))
    assert rows(memory, COUNTS) == [(3, 6, 3, 3)]
    compacted = [{"role": "compactionSummary", "summary": "talk"}, *turn(4)["messages"]]
    run(engine.after_turn(**session, messages=compacted, pre_prompt_message_count=9))
    assert rows(memory, COUNTS)[0][:2] == (4, 8)
    run(engine.commit_turn(**turn(4)))
    assert rows(memory, COUNTS)[0][:2] == (4, 8)


def test_ingest_of_messages_without_ids_and_times(memory: Memory) -> None:
    """Each is new, and an answer still joins its question."""
    engine = memory.context_engine()
    for role, text in (("user", "One?"), ("toolResult", "1"), ("assistant", "One."), ("user", "Two?")):
        run(engine.ingest(session_id=ID, message={"role": role, "content": text}))
    assert rows(memory, "SELECT turn_id, count(*) FROM messages GROUP BY turn_id ORDER BY 1") == [(1, 3), (2, 1)]


def test_maintain_brings_the_index_up_and_says_what_it_freed(memory: Memory, tmp_path: Path) -> None:
    """The logs are cut back to nothing, the bytes are theirs; an abort leaves the steps after it out."""
    engine = memory.context_engine()
    for number in range(1, 30):
        run(engine.commit_turn(**turn(number)))
    logs = list((tmp_path / "data").rglob("*-wal"))
    before = sum(path.stat().st_size for path in logs)
    signal = AbortSignal()
    signal.abort()
    aborted = run(engine.maintain(session_id=ID, session_file="s", abort_signal=signal))
    assert (aborted.changed, aborted.bytes_freed, aborted.reason) == (False, 0, "aborted")
    done = run(engine.maintain(session_id=ID, session_file="s"))
    assert before > 0 and done.changed and done.bytes_freed == before
    assert sum(path.stat().st_size for path in logs if path.exists()) == 0
    assert run(engine.maintain(session_id=ID, session_file="s")) == type(done)(False)


def test_engine_tells_what_it_promises(memory: Memory) -> None:
    """All three of a durable engine; what is not used of the host's fields is not asked for."""
    info = memory.context_engine().info
    assert info.transcript_semantics is not None
    assert info.transcript_semantics.current_turn_fence == "before-current-turn-entry-v1"
    assert info.transcript_semantics.turn_advancement_idempotency == "atomic-idempotent-v1"
    assert info.accepted_host_params is not None and "runtimeSettings" not in info.accepted_host_params
    assert (info.id, info.turn_maintenance_mode) == ("memory-sqlite", "background")


def test_engine_is_of_one_agent_and_ends(memory: Memory) -> None:
    """Another agent's session is refused; a disposed engine answers nothing, and disposing twice is no error."""
    engine = memory.context_engine()
    with pytest.raises(errors.InvalidArgument, match="another agent"):
        run(engine.assemble(session_id=ID, messages=talk(1), session_target={"agentId": "other"}))
    for _ in range(2):
        run(engine.dispose())
    with pytest.raises(errors.ProviderUnavailable):
        run(engine.assemble(session_id=ID, messages=talk(1)))
    memory.search("still open")


def test_bad_arguments_are_named(memory: Memory) -> None:
    """Before anything is stored."""
    engine = memory.context_engine()
    for budget in (0, -1, 1.5, True, "9"):
        with pytest.raises(errors.InvalidArgument, match="token_budget"):
            run(engine.assemble(session_id=ID, messages=talk(1), token_budget=budget))  # type: ignore[arg-type]
    for messages in ("text", [1], [{"content": "x"}], None):
        with pytest.raises(errors.InvalidArgument, match="messages"):
            run(engine.assemble(session_id=ID, messages=messages))  # type: ignore[arg-type]
        with pytest.raises(errors.InvalidArgument, match="messages"):
            run(engine.ingest_batch(session_id=ID, messages=messages))  # type: ignore[arg-type]
    for count in (-1, True, "1"):
        with pytest.raises(errors.InvalidArgument, match="pre_prompt"):
            run(engine.after_turn(session_id=ID, messages=talk(1), pre_prompt_message_count=count))  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgument, match="session"):
        run(engine.ingest(session_id=" ", message=talk(1)[0]))
    assert rows(memory, COUNTS) == [(0, 0, 0, 0)]
