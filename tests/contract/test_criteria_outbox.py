"""Criteria 116 to 120 of the contract, and the turn outbox: what is kept, delivered, recovered, forgotten."""

from __future__ import annotations

import asyncio
import logging
import runpy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from memory_sqlite import Memory, errors, limits
from memory_sqlite.clock import FixedClock
from memory_sqlite.config import Settings
from memory_sqlite.host.engines import drain as drains
from memory_sqlite.host.engines import recovery
from memory_sqlite.host.engines.transcript_reader import read_turn
from memory_sqlite.host.engines.turn_rows import AdmittedTurn

PARTS: Any = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("engine_parts.py"))))
Engine, Kit, SESSION = PARTS.Engine, PARTS.Kit, PARTS.SESSION


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "data") as opened:
        yield opened


def meant_for(admission: Any, engine: str = "notes", owner: str = "notes-plugin") -> AdmittedTurn:
    return AdmittedTurn(admission, engine, owner)


def another(kit: Any, number: int) -> str:
    """A further session of the host."""
    key = f"agent:main:direct:other-{number}"
    kit.transcripts.begin(key, f"20000000-0000-4000-8000-{number:012d}")
    return key


def enqueue(kit: Any, turn_id: str, session: str = SESSION, text: str = "hello") -> AdmittedTurn:
    """An accepted turn that nobody has delivered."""
    turn = meant_for(kit.admit(turn_id, text, session))
    kit.outbox.admit(turn)
    assert kit.outbox.accept(turn, kit.answer(f"answer to {text}", session))
    return turn


def committed(kit: Any) -> list[str]:
    return [params["advancement_key"] for method, params in kit.engine.calls if method == "commit_turn"]


# --- acknowledgement -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [None, "stored", {"status": "ok"}, SimpleNamespace(status=True), {}])
def test_criterion_116_unknown_status_keeps_the_row_and_counts_an_attempt(memory: Memory, status: Any) -> None:
    """Only ``committed`` and ``duplicate`` acknowledge; anything else is tried again by the next drain."""

    async def scene() -> None:
        kit = Kit(memory)
        enqueue(kit, "t1")
        kit.engine.answers["commit_turn"] = status
        kit.engine.ledger["t1"] = ()
        for attempts in (1, 2, 3):
            assert (await kit.host.drain()).failed == ["t1"]
            row = kit.outbox.row("t1")
            assert (row.state, row.attempts, row.reason) == ("ready", attempts, "unknown-status")
        assert "maintain" not in kit.engine.methods
        del kit.engine.answers["commit_turn"]
        assert (await kit.host.drain()).duplicate == ["t1"]
        assert kit.outbox.row("t1") is None and "maintain" in kit.engine.methods

    asyncio.run(scene())


@pytest.mark.parametrize("answer", [{"status": "committed"}, PARTS.CommitResult("duplicate")])
def test_criterion_116_committed_and_duplicate_acknowledge(memory: Memory, answer: Any) -> None:
    """Also as a mapping; the row is gone, once for all."""

    async def scene() -> None:
        kit = Kit(memory)
        enqueue(kit, "t1")
        kit.engine.answers["commit_turn"] = answer
        await kit.host.drain()
        assert kit.outbox.row("t1") is None and not kit.outbox.acknowledge("t1")
        assert not (await kit.host.drain()).advanced and committed(kit) == ["t1"]

    asyncio.run(scene())


@pytest.mark.parametrize("fault", ["raises", "not registered", "another owner", "no longer durable"])
def test_criterion_116_an_engine_that_cannot_take_it_keeps_the_row(memory: Memory, fault: str) -> None:
    """Failure, absence and a plugin that took the id over are attempts; nobody else's engine is given the turn."""

    async def scene() -> None:
        kit = Kit(memory)
        enqueue(kit, "t1")
        if fault == "raises":
            kit.engine.fails["commit_turn"] = errors.StoreBusy("locked")
        elif fault == "no longer durable":
            kit.engine.info = replace(kit.engine.info, transcript_semantics=None)
        else:
            kit.registry.unregister("notes", plugin_id="notes-plugin")
            if fault == "another owner":
                kit.registry.register("notes", lambda context: kit.engine, plugin_id="squatter")
        report = await kit.host.drain()
        assert (report.failed, report.unavailable) == ((["t1"], []) if fault == "raises" else ([], ["t1"]))
        row = kit.outbox.row("t1")
        assert (row.state, row.attempts) == ("ready", 1)
        assert row.reason == ("StoreBusy" if fault == "raises" else "engine-unavailable")
        assert kit.engine.ledger == {}

    asyncio.run(scene())


def test_an_engine_that_was_replaced_does_not_hold_up_its_successor(memory: Memory) -> None:
    """Turns for an engine that is gone stay queued, in order, for its return; the session's next turns are another
    engine's and reach it. An operator can give them up."""

    async def scene() -> None:
        kit = Kit(memory)
        for number in (1, 2, 3):
            turn = meant_for(kit.admit(f"old{number}"), "old", "old-plugin")
            kit.outbox.admit(turn)
            kit.outbox.accept(turn, kit.answer())
        turn = await kit.whole("t1")
        assert turn.degraded is None and committed(kit) == ["t1"]
        assert kit.outbox.is_pending(SESSION) and not kit.outbox.is_pending(SESSION, "notes", "notes-plugin")
        assert [kit.outbox.row(f"old{number}").attempts > 0 for number in (1, 2, 3)] == [True, False, False]
        assert kit.outbox.give_up("old2") and not kit.outbox.give_up("old2")
        old = Engine()
        kit.registry.register("old", lambda context: old, plugin_id="old-plugin")
        await kit.host.drain()
        assert list(old.ledger) == ["old1", "old3"] and committed(kit) == ["t1"]

    asyncio.run(scene())


def test_an_observer_that_fails_never_requeues(memory: Memory) -> None:
    """Maintenance comes after the acknowledgement, and whatever it does the turn is delivered."""

    async def scene() -> None:
        kit = Kit(memory)
        enqueue(kit, "t1")

        async def fails(row: Any, engine: Any) -> None:
            raise RuntimeError("no")

        async def engine_for(turn: Any) -> Any:
            return await kit.host._selection.of(turn.engine_id, turn.owner_id)

        report = await drains.Drain(kit.outbox, kit.transcripts, engine_for, fails).run()
        assert report.committed == ["t1"] and kit.outbox.row("t1") is None

    asyncio.run(scene())


# --- order -----------------------------------------------------------------------------------------------------------


def test_criterion_117_order_of_a_session_and_a_failure_that_stops_it_alone(memory: Memory) -> None:
    """Rows commit as they were enqueued; after one that fails its session is left, the others go on."""

    async def scene() -> None:
        kit = Kit(memory)
        other = another(kit, 1)
        for number in (1, 2, 3):
            enqueue(kit, f"a{number}")
            enqueue(kit, f"b{number}", other)
        taken, fails = kit.engine.commit_turn, {"a2"}

        async def commit_turn(**params: Any) -> Any:
            if params["advancement_key"] in fails:
                kit.engine.calls.append(("commit_turn", params))
                raise RuntimeError("no")
            return await taken(**params)

        kit.engine.commit_turn = commit_turn
        report = await kit.host.drain()
        assert committed(kit) == ["a1", "b1", "a2", "b2", "b3"]
        assert (report.failed, report.committed) == (["a2"], ["a1", "b1", "b2", "b3"])
        assert [kit.kept(key) for key in ("a2", "a3", "b3")] == ["ready", "accepted", None]
        fails.clear()
        await kit.host.drain()
        assert committed(kit)[-2:] == ["a2", "a3"]

    asyncio.run(scene())


def test_criterion_117_a_drain_takes_sixteen_rows_in_turn_over_sessions(memory: Memory) -> None:
    """The oldest of each session before the second of any; at most 16 at a time."""

    async def scene() -> None:
        kit = Kit(memory)
        enqueue_many = [(f"a{number:02d}", SESSION) for number in range(20)]
        sessions = [another(kit, number) for number in range(3)]
        enqueue_many += [
            (f"{name}{number:02d}", key) for name, key in zip("bcd", sessions, strict=True) for number in (0, 1)
        ]
        for turn_id, session in enqueue_many:
            enqueue(kit, turn_id, session)
        await kit.host.drain()
        first = ["a00", "b00", "c00", "d00", "a01", "b01", "c01", "d01"]
        assert committed(kit) == [*first, *(f"a{number:02d}" for number in range(2, 10))]
        assert len(committed(kit)) == limits.OUTBOX_DRAIN_ROWS == 16
        await kit.host.drain()
        assert len(committed(kit)) == 26

    asyncio.run(scene())


def test_criterion_117_sessions_that_always_fail_never_keep_others_from_their_place(memory: Memory) -> None:
    """More failing sessions than one drain takes: somebody new is still served by the next drain."""

    async def scene() -> None:
        kit = Kit(memory)
        for number in range(limits.OUTBOX_DRAIN_ROWS + 4):
            enqueue(kit, f"f{number:02d}", another(kit, number))
        kit.engine.fails["commit_turn"] = RuntimeError("no")
        for _ in range(3):
            await kit.host.drain()
        kit.engine.calls.clear()
        enqueue(kit, "new")
        await kit.host.drain()
        assert "new" in committed(kit)

    asyncio.run(scene())


def test_criterion_117_a_turn_that_is_only_admitted_holds_those_after_it(memory: Memory) -> None:
    """It may be accepted yet, and its place in the order is the one it was enqueued at."""

    async def scene() -> None:
        kit = Kit(memory)
        first = meant_for(kit.admit("t1"))
        kit.outbox.admit(first)
        end = kit.answer()
        enqueue(kit, "t2")
        assert not (await kit.host.drain()).advanced
        assert kit.outbox.accept(first, end)
        await kit.host.drain()
        assert committed(kit) == ["t1", "t2"]

    asyncio.run(scene())


# --- what cannot be read ---------------------------------------------------------------------------------------------


def make_unreadable(kit: Any, kind: str, turn: AdmittedTurn, monkeypatch: pytest.MonkeyPatch) -> None:
    anchor = turn.admission.anchor
    if kind == "session-rebound":
        kit.transcripts.begin(SESSION, "30000000-0000-4000-8000-000000000003")
    elif kind == "stale":
        kit.transcripts.rewrite(SESSION, anchor.entry_id, {"role": "user", "content": "other words"})
    elif kind == "too-large":
        monkeypatch.setattr(drains, "read_turn", lambda *given: read_turn(*given, max_bytes=10))


@pytest.mark.parametrize("kind", ["session-rebound", "stale", "non-descendant", "too-large"])
def test_criterion_118_a_blocked_row_never_delays_later_turns(
    memory: Memory, kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A turn that can never be read is blocked with a warning that holds none of its text; the session goes on."""

    async def scene() -> None:
        kit = Kit(memory)
        if kind == "non-descendant":
            end = kit.answer("before the turn")
            turn = meant_for(kit.admit("t1", "granite"))
            kit.outbox.admit(turn)
            kit.outbox.accept(turn, end)
        else:
            turn = enqueue(kit, "t1", text="granite")
            make_unreadable(kit, kind, turn, monkeypatch)
        assert (await kit.host.drain()).blocked == ["t1"]
        row = kit.outbox.row("t1")
        assert (row.state, row.reason, row.messages) == ("blocked", kind, None)
        assert kind in caplog.text and "granite" not in caplog.text
        monkeypatch.undo()
        caplog.clear()
        if kind == "session-rebound":
            kit.transcripts.begin(SESSION, PARTS.SESSION_ID)
        second = await kit.whole("t2")
        assert second.degraded is None and list(kit.engine.ledger) == ["t2"]
        assert "blocked" in caplog.text, "recovery tells of it again"
        assert kit.outbox.blocked() == [("t1", kind)]
        assert kit.outbox.discard("t1") and kit.outbox.blocked() == []

    asyncio.run(scene())


def test_a_transcript_that_is_being_rebuilt_is_read_again(memory: Memory) -> None:
    """``projection-unavailable`` is the one failure that is tried again; the turn stays accepted, its session waits."""

    class Rebuilding:
        def __init__(self, real: Any) -> None:
            self.real, self.ready = real, False

        def view(self, agent_id: str, session_key: str) -> Any:
            if not self.ready:
                raise errors.TurnUnreadable("projection-unavailable")
            return self.real.view(agent_id, session_key)

    async def scene() -> None:
        kit = Kit(memory)
        reader = Rebuilding(kit.transcripts)
        kit = Kit(memory, transcripts=reader)
        reader.real = kit.transcripts
        enqueue(kit, "t1")
        enqueue(kit, "t2")
        assert (await kit.host.drain()).failed == ["t1"]
        row = kit.outbox.row("t1")
        assert (row.state, row.attempts, row.reason) == ("accepted", 1, "turn_unreadable")
        turn = await kit.begin("t3")
        assert turn.degraded, "no fence can be put either"
        reader.ready = True
        await kit.host.drain()
        assert committed(kit) == ["t1", "t2"]

    asyncio.run(scene())


def test_a_transcript_that_fails_is_the_failure_of_one_row(memory: Memory) -> None:
    """Whatever a host's reader raises: an attempt is counted, the session stops, the others go on."""

    class Broken:
        real: Any = None

        def view(self, agent_id: str, session_key: str) -> Any:
            if session_key == SESSION:
                raise OSError("the user said: granite")
            return self.real.view(agent_id, session_key)

    async def scene() -> None:
        reader = Broken()
        kit = Kit(memory, transcripts=reader)
        reader.real = kit.transcripts
        enqueue(kit, "t1")
        enqueue(kit, "t2")
        enqueue(kit, "u1", another(kit, 1))
        report = await kit.host.drain()
        assert (report.failed, report.committed) == (["t1"], ["u1"])
        row = kit.outbox.row("t1")
        assert (row.state, row.attempts, row.reason) == ("accepted", 1, "OSError")

    asyncio.run(scene())


def changed(entry: Any, **fields: Any) -> Any:
    return replace(entry, **fields)


ANCHOR_FIELDS = {
    "raw_seq": 99,
    "effective_parent_id": "another",
    "active_message_position": 99,
    "idempotency_key": "k",
    "entry_id": "none",
}


@pytest.mark.parametrize("end", ["admission", "terminal"])
@pytest.mark.parametrize("field", ANCHOR_FIELDS)
def test_the_range_is_read_only_between_its_own_ends(memory: Memory, end: str, field: str) -> None:
    """Each field of either anchor must be as it was admitted, else the turn is stale."""
    kit = Kit(memory)
    kit.answer("earlier")
    admission, terminal = kit.admit("t1"), kit.answer("done")
    texts = [message["content"] for message in read_turn(kit.transcripts, admission, terminal)]
    assert texts == ["hello", "done"]
    if end == "admission":
        admission = replace(admission, anchor=replace(admission.anchor, **{field: ANCHOR_FIELDS[field]}))
    else:
        terminal = replace(terminal, **{field: ANCHOR_FIELDS[field]})
    with pytest.raises(errors.TurnUnreadable, match="stale"):
        read_turn(kit.transcripts, admission, terminal)


def test_the_range_is_bounded_in_entries_and_bytes(memory: Memory) -> None:
    """20,000 entries and 8 MiB of JSON, both included; one more is too large. Another session's end is no end."""
    kit = Kit(memory)
    admission, terminal = kit.admit("t1", "é"), kit.answer("ü")
    size = len('{"role":"user","content":"é"}{"role":"assistant","content":"ü"}'.encode())
    read_turn(kit.transcripts, admission, terminal, max_entries=2, max_bytes=size)
    for bounds in ({"max_entries": 1}, {"max_bytes": size - 1}):
        with pytest.raises(errors.TurnUnreadable, match="too-large"):
            read_turn(kit.transcripts, admission, terminal, **bounds)
    assert (limits.TURN_ENTRIES_MAX, limits.TURN_BYTES_MAX) == (20_000, 8 * 1024 * 1024)
    with pytest.raises(errors.TurnUnreadable, match="non-descendant"):
        read_turn(kit.transcripts, admission, replace(terminal, session_id="another"))
    with pytest.raises(errors.TurnUnreadable, match="session-rebound"):
        moved = replace(admission, anchor=replace(admission.anchor, store_path="elsewhere"))
        read_turn(kit.transcripts, moved, terminal)


def test_a_path_that_does_not_lead_from_one_end_to_the_other_is_refused(memory: Memory) -> None:
    """Each entry of the range stands below the one before it, whatever the host's view says of positions."""
    kit = Kit(memory)
    admission = kit.admit("t1")
    kit.answer("between")
    terminal = kit.answer("done")

    class Torn:
        @contextmanager
        def view(self, agent_id: str, session_key: str) -> Iterator[Any]:
            with kit.transcripts.view(agent_id, session_key) as view:
                entries = list(view.between(1, 3))
                entries[1] = changed(entries[1], parent_id="somewhere else")
                yield SimpleNamespace(
                    session_id=view.session_id,
                    store_path=view.store_path,
                    generation=view.generation,
                    entry=view.entry,
                    between=lambda first, last: entries,
                )

    with pytest.raises(errors.TurnUnreadable, match="non-descendant"):
        read_turn(Torn(), admission, terminal)


# --- recovery --------------------------------------------------------------------------------------------------------


def test_criterion_119_an_only_admitted_row_is_discarded_at_recovery(memory: Memory) -> None:
    """Dispatch is not acceptance: after a crash the turn is not the engine's; accepted and ready ones are delivered."""

    async def scene() -> None:
        crashed = Kit(memory)
        enqueue(crashed, "accepted")
        kept = enqueue(crashed, "ready")
        crashed.outbox.make_ready(
            "ready", read_turn(crashed.transcripts, kept.admission, crashed.outbox.row("ready").terminal)
        )
        crashed.outbox.admit(meant_for(crashed.admit("admitted")))
        kit = Kit(memory, transcripts=crashed.transcripts)  # another process, as far as the store can tell
        kit.transcripts = crashed.transcripts
        turn = await kit.begin("next")
        assert turn.durable and committed(kit) == ["accepted", "ready"]
        assert kit.outbox.row("admitted") is None
        await turn.close()

    asyncio.run(scene())


def test_criterion_119_turns_that_run_here_and_other_sessions_are_left_alone(memory: Memory) -> None:
    """A recovery is for the session that is about to run; a host that starts alone recovers all at once."""

    async def scene() -> None:
        kit = Kit(memory)
        other = another(kit, 1)
        elsewhere = meant_for(kit.admit("elsewhere", session=other))
        kit.outbox.admit(elsewhere)
        running = await kit.begin("running")
        again = await kit.host.begin_turn(running.request)  # its retry
        assert again.durable and kit.kept("running") == kit.kept("elsewhere") == "admitted"
        await kit.host.recover_all()
        assert kit.kept("running") == "admitted" and kit.kept("elsewhere") is None
        await again.finish(kit.well(kit.answer()))
        await running.close()
        assert committed(kit) == ["running"]
        assert await recovery.discard_unaccepted(kit.outbox) == 0

    asyncio.run(scene())


def test_criterion_119_a_turn_that_begins_beside_another_does_not_discard_it(memory: Memory) -> None:
    """Both run in one session, and both are committed, in the order they were admitted in."""

    async def scene() -> None:
        kit = Kit(memory)
        first, second = await kit.begin("t1"), await kit.begin("t2")
        assert first.durable and second.durable and kit.kept("t1") == kit.kept("t2") == "admitted"
        for turn in (second, first):
            await turn.finish(kit.well(kit.answer()))
            await turn.close()
        assert committed(kit) == ["t1", "t2"]

    asyncio.run(scene())


def test_a_failure_of_the_store_leaves_the_turn_to_the_user(memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    """A store that cannot be written degrades the turn, and one that fails at the end loses only the engine's copy."""

    async def scene() -> None:
        kit = Kit(memory)

        def full(*_: Any, **__: Any) -> Any:
            raise errors.DiskFull("the disk is full")

        outbox, kit.outbox.admit = kit.outbox, full
        turn = await kit.begin("t1")
        assert turn.degraded == "the turn cannot be kept for it (disk_full)"
        await turn.close()
        del outbox.admit
        turn = await kit.begin("t2")
        outbox.accept = full
        await turn.finish(kit.well(kit.answer()))
        await turn.close()
        assert "disk_full" in caplog.text and committed(kit) == []
        del outbox.accept
        outbox.due = full
        turn = await kit.begin("t3")
        await turn.finish(kit.well(kit.answer()))
        await turn.close()
        del outbox.due
        await kit.host.drain()
        assert committed(kit) == ["t3"], "what was accepted is delivered when the store can be read again"

    asyncio.run(scene())


# --- keys ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["admitted", "accepted", "ready"])
@pytest.mark.parametrize("other", ["engine", "owner", "admission", "terminal", "messages"])
def test_criterion_120_same_key_under_another_engine_owner_or_payload_collides(
    memory: Memory, state: str, other: str
) -> None:
    """In every state; the row stays what it was. The same again is no collision, and changes nothing."""
    kit = Kit(memory)
    turn = meant_for(kit.admit("t1"))
    end, later = kit.answer(), kit.answer("later")
    messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    kit.outbox.admit(turn)
    if state != "admitted":
        kit.outbox.accept(turn, end, {"provider": "p"})
    if state == "ready":
        assert kit.outbox.make_ready("t1", messages)
    before = kit.outbox.row("t1")
    assert before.state == state
    if other == "engine":
        wrong = meant_for(turn.admission, engine="other")
    elif other == "owner":
        wrong = meant_for(turn.admission, owner="other")
    else:
        wrong = meant_for(replace(turn.admission, anchor=later))
    if other in ("engine", "owner", "admission"):
        with pytest.raises(errors.AdvancementCollision):
            kit.outbox.admit(wrong)
        with pytest.raises(errors.AdvancementCollision):
            kit.outbox.accept(wrong, end)
    elif other == "terminal" and state != "admitted":
        with pytest.raises(errors.AdvancementCollision, match="another end"):
            kit.outbox.accept(turn, later)
    elif other == "messages" and state == "ready":
        with pytest.raises(errors.AdvancementCollision, match="other messages"):
            kit.outbox.make_ready("t1", messages[:1])
    elif other == "messages":
        assert kit.outbox.make_ready("t1", messages) == (state != "admitted")
        return
    assert kit.outbox.row("t1") == before
    kit.outbox.admit(turn)
    if state != "admitted":
        assert kit.outbox.accept(turn, end, {"provider": "another time"})
    if state == "ready":
        assert kit.outbox.make_ready("t1", messages)
    assert kit.outbox.row("t1") == before


def test_criterion_120_a_collision_leaves_the_user_his_turn(memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    """The host raises it to nobody who speaks with it: the turn runs on legacy, and the log says error."""

    async def scene() -> None:
        kit = Kit(memory)
        other = another(kit, 1)
        kit.outbox.admit(meant_for(kit.admit("t1", session=other)))
        turn = await kit.begin("t1")
        assert turn.degraded and turn.engine.is_legacy
        assert [record.levelno for record in caplog.records].count(logging.ERROR) == 1
        await turn.close()
        assert kit.kept("t1") == "admitted", "the other turn's row is its own"

    asyncio.run(scene())


# --- what is kept ----------------------------------------------------------------------------------------------------


def test_every_state_is_kept_over_a_new_opening(tmp_path: Path) -> None:
    """What a method has returned from is on disk: another opening of the memory finds it and goes on."""
    clock = FixedClock()
    settings = Settings(data_dir=tmp_path / "data")
    with Memory.open(settings=settings, clock=clock) as memory:
        kit = Kit(memory)
        turn = meant_for(kit.admit("t1", "hello \ud800 é"))
        end = kit.answer()
        kit.outbox.admit(turn)
    for step in ("accept", "ready", "attempt", "acknowledge"):
        with Memory.open(settings=settings, clock=clock) as memory:
            outbox = memory.turn_outbox()
            row = outbox.row("t1")
            assert row is not None and row.turn == turn and row.at == clock.now_ms()
            if step == "accept":
                assert not outbox.acknowledge("t1") and not outbox.block("t1", "x")
                assert outbox.accept(turn, end, {"provider": "p", "tokenBudget": 5, "llm": "live"}, heartbeat=True)
            elif step == "ready":
                assert row.terminal == end and row.facts == {"provider": "p", "tokenBudget": 5} and row.heartbeat
                assert not outbox.discard("t1") and not outbox.acknowledge("t1")
                assert outbox.make_ready("t1", [dict(message) for message in kit.transcripts.messages(SESSION)])
            elif step == "attempt":
                assert [message["content"] for message in row.messages or ()] == ["hello \ud800 é", "hi"]
                assert outbox.count_attempt("t1", "busy") and not outbox.block("t1", "x") and not outbox.discard("t1")
            else:
                assert (row.attempts, row.reason) == (1, "busy")
                assert outbox.acknowledge("t1")
    with Memory.open(settings=settings, clock=clock) as memory:
        outbox = memory.turn_outbox()
        assert outbox.row("t1") is None and not outbox.accept(turn, end)
        assert not outbox.make_ready("t1", []) and not outbox.count_attempt("t1", "x")
    with pytest.raises(errors.MemoryClosed):
        outbox.row("t1")


@pytest.mark.parametrize("redact", [True, False])
def test_secrets_in_a_kept_turn_are_masked_as_in_messages(tmp_path: Path, redact: bool) -> None:
    """With ``redact_secrets`` neither the outbox nor the engine is given one; without it the turn is as it was."""

    async def scene() -> None:
        token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
        settings = Settings(data_dir=tmp_path / "data", redact_secrets=redact)
        with Memory.open(settings=settings) as memory:
            kit = Kit(memory)
            kit.engine.fails["commit_turn"] = RuntimeError("no")
            await kit.whole("t1", f"my token is {token}", facts={"provider": f"key {token}"})
            row = kit.outbox.row("t1")
            said = f"{row.messages}{row.facts}"
            assert (token in said) == (not redact)
            del kit.engine.fails["commit_turn"]
            await kit.host.drain()
            assert (token in f"{kit.engine.ledger}") == (not redact)

    asyncio.run(scene())


def test_messages_that_are_not_json_are_refused(memory: Memory) -> None:
    """What cannot be kept is not half kept; at delivery it is no endless failure but a block."""

    async def scene() -> None:
        kit = Kit(memory)
        enqueue(kit, "t1")
        for wrong in ({"role": "user", "content": object()}, {"role": "user", "content": float("nan")}):
            with pytest.raises(errors.InvalidArgument, match="not JSON"):
                kit.outbox.make_ready("t1", [wrong])
        assert kit.kept("t1") == "accepted"
        turn = meant_for(kit.admit("t2"))
        kit.outbox.admit(turn)
        kit.outbox.accept(turn, kit.transcripts.append(SESSION, {"role": "assistant", "content": object()}))
        report = await kit.host.drain()
        assert (report.committed, report.blocked) == (["t1"], ["t2"])

    asyncio.run(scene())


# --- forgetting ------------------------------------------------------------------------------------------------------

TEXT = "The granite key lies under the red mat."


def waiting(memory: Memory, state: str = "ready") -> Any:
    kit = Kit(memory)
    turn = enqueue(kit, "t1", text=TEXT)
    if state == "ready":
        kit.outbox.make_ready("t1", read_turn(kit.transcripts, turn.admission, kit.outbox.row("t1").terminal))
    kit.other = another(kit, 1)
    enqueue(kit, "kept", kit.other)
    return kit


@pytest.mark.parametrize("state", ["accepted", "ready"])
@pytest.mark.parametrize("named", ["key", "token", "session id"])
def test_forgetting_a_session_takes_its_waiting_turns(memory: Memory, tmp_path: Path, state: str, named: str) -> None:
    """From the outbox and from the files; no engine is given it any more; other sessions' turns stay."""

    async def scene() -> None:
        kit = waiting(memory, state)
        rooms = memory.rooms()
        assert rooms is not None
        name = {"key": SESSION, "token": rooms.opened.store.token(SESSION), "session id": PARTS.SESSION_ID}[named]
        planned = memory.forget(sessions=[name], dry_run=True)
        assert (planned.status, planned.waiting) == ("planned", 1) and kit.kept("t1") == state
        report = memory.forget(sessions=[name])
        assert (report.status, report.waiting, report.verified) == ("forgotten", 1, True)
        assert report.searched_for > 0 or state == "accepted"
        assert kit.kept("t1") is None and kit.kept("kept") == "accepted"
        left = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
        assert b"granite key" not in left
        await kit.host.drain()
        assert committed(kit) == ["kept"]

    asyncio.run(scene())


def test_forgetting_takes_waiting_turns_by_time_person_and_turn(tmp_path: Path) -> None:
    """A stretch of time takes what was admitted or said in it, a person what he speaks in, a turn its own copy."""
    clock = FixedClock()
    with Memory.open(settings=Settings(data_dir=tmp_path / "data"), clock=clock) as memory:
        kit = waiting(memory)
        hour = 3_600_000

        def moment(ms: int) -> float:
            return ms / 1000

        early = memory.forget(since=moment(clock.ms - 2 * hour), until=moment(clock.ms - hour))
        assert early.waiting == 0
        assert memory.forget(sessions=[SESSION], until=moment(clock.ms)).waiting == 0
        assert memory.forget(sessions=[SESSION], since=moment(clock.ms), until=moment(clock.ms + 1)).waiting == 1
        spoken = meant_for(kit.admit("t2", session=kit.other))
        kit.outbox.admit(spoken)
        kit.outbox.accept(spoken, kit.answer(session=kit.other))
        said = [{"role": "user", "content": TEXT, "sender": "bob", "at": "2020-01-01T00:00:00Z"}]
        kit.outbox.make_ready("t2", said)
        assert memory.forget(participants=["ann"]).waiting == 0
        assert memory.forget(since="2019-12-31", until="2020-01-02", participants=["bob"]).waiting == 1
        assert memory.forget(hook_sources=["mail"]).waiting == 0
        hook = "agent:main:hook:mail:1"
        kit.transcripts.begin(hook, "40000000-0000-4000-8000-000000000004")
        enqueue(kit, "t3", hook)
        assert memory.forget(hook_sources=["post"]).waiting == 0
        assert memory.forget(hook_sources=["mail"]).waiting == 1
        assert kit.kept("kept") == "accepted"
        assert memory.forget(since=moment(clock.ms - hour), until=moment(clock.ms + hour)).waiting == 1


def test_a_turn_that_is_forgotten_while_it_runs_is_not_kept(memory: Memory) -> None:
    """Its end finds no row: nothing is committed, and the user's turn is none the wiser."""

    async def scene() -> None:
        kit = Kit(memory)
        turn = await kit.begin("t1")
        assert memory.forget(sessions=[SESSION]).waiting == 1
        await turn.finish(kit.well(kit.answer()))
        await turn.close()
        assert turn.degraded is None and committed(kit) == []
        await kit.whole("t2")
        assert committed(kit) == ["t2"]

    asyncio.run(scene())


@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize("when", ["while its engine is made", "while it is committed"])
def test_a_turn_that_is_forgotten_while_it_is_delivered_is_not_remembered(
    memory: Memory, ours: bool, when: str
) -> None:
    """No engine is called any more with what was forgotten; ours, called a moment before, stores nothing of it."""

    async def scene() -> None:
        kit = Kit(memory)
        engine = memory.context_engine() if ours else kit.engine
        plain = engine.commit_turn

        async def forget() -> None:
            assert (await asyncio.to_thread(memory.forget, sessions=[SESSION])).waiting == 1

        async def factory(context: Any) -> Any:
            if when == "while its engine is made":
                await forget()
            return engine

        async def commit_turn(**given: Any) -> Any:
            if when == "while it is committed":
                await forget()
            return await plain(**given)

        engine.commit_turn = commit_turn
        kit.registry.register("notes", factory, plugin_id="notes-plugin")
        enqueue(kit, "t1", text=TEXT)
        report = await kit.host.drain()
        assert kit.kept("t1") is None
        assert report.gone == (["t1"] if when == "while its engine is made" else [])
        assert report.duplicate == (["t1"] if ours and when == "while it is committed" else [])
        if ours:
            assert memory.status()["turns"] == 0 and not memory.search("granite key").hits
        else:
            assert committed(kit) == ([] if when == "while its engine is made" else ["t1"])

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("named", "goes"),
    [
        ({"participants": ["bob"]}, True),
        ({"participants": ["ann"]}, False),
        ({"since": "2020-01-01", "until": "2020-01-02"}, True),
        ({"since": "2020-01-02", "until": "2020-01-03"}, False),
    ],
)
def test_forgetting_before_a_turn_was_read_counts_when_it_is(memory: Memory, named: Any, goes: bool) -> None:
    """An accepted turn of which nobody has read yet who speaks in it and when: its engine does not get it, either."""

    async def scene() -> None:
        kit = Kit(memory)
        said = {"role": "user", "content": TEXT, "sender": "bob", "at": "2020-01-01T12:00:00Z"}
        turn = meant_for(kit.transcripts.admit(SESSION, said, "t1"))
        kit.outbox.admit(turn)
        kit.outbox.accept(turn, kit.answer())
        memory.forget(**named)
        enqueue(kit, "t2")
        report = await kit.host.drain()
        assert (report.gone, report.committed) == ((["t1"], ["t2"]) if goes else ([], ["t1", "t2"]))
        assert kit.outbox.row("t1") is None and committed(kit) == report.committed

    asyncio.run(scene())


def test_forgetting_takes_the_copy_of_a_turn_and_a_session_by_all_its_names(memory: Memory) -> None:
    """A turn that was committed and not acknowledged goes with the turn it became; one that waits under a session's
    key goes when the session is named by an id that it had before."""

    async def scene() -> None:
        kit = Kit(memory)
        kit.registry.register("notes", lambda context: memory.context_engine(), plugin_id="notes-plugin")
        acknowledge = kit.outbox.acknowledge

        def lost(key: str) -> bool:
            raise errors.StoreBusy("locked")

        kit.outbox.acknowledge = lost
        await kit.whole("t1", TEXT)
        kit.outbox.acknowledge = acknowledge
        assert kit.kept("t1") == "ready"
        (hit, *_) = memory.search("granite key", sources=("sessions",)).hits
        report = memory.forget(references=[hit.reference])
        assert (report.turns, report.waiting) == (1, 1) and kit.kept("t1") is None
        await kit.whole("t2", TEXT)
        kit.transcripts.begin(SESSION, "30000000-0000-4000-8000-000000000003")
        enqueue(kit, "t3", text=TEXT)
        report = memory.forget(sessions=[PARTS.SESSION_ID])
        assert (report.turns, report.waiting) == (1, 1) and kit.kept("t3") is None

    asyncio.run(scene())
