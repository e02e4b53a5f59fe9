"""Our engine in our host: a conversation of durable turns, found once, forgotten, compacted by the host."""

from __future__ import annotations

import asyncio
import logging
import runpy
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.context import compaction
from memory_sqlite.context.shapes import CompactResult
from memory_sqlite.host.engines import host_params
from memory_sqlite.host.engines.turn_rows import AdmittedTurn
from memory_sqlite.runtime.signals import AbortSignal

PARTS: Any = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("engine_parts.py"))))
SESSION = PARTS.SESSION


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "data") as opened:
        yield opened


def our_kit(memory: Memory, **more: Any) -> Any:
    kit = PARTS.Kit(memory, config={"plugins": {"slots": {"contextEngine": "memory-sqlite"}}}, **more)
    kit.registry.register("memory-sqlite", lambda context: memory.context_engine(), plugin_id="memory-sqlite")
    return kit


def test_a_conversation_is_committed_turn_by_turn_and_found_once(
    memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    """Ten turns through admission, assembly, acceptance and commit: each message is in memory once, in order, within
    the budget, and nothing is degraded or left in the outbox."""

    async def scene() -> None:
        kit = our_kit(memory)
        for number in range(10):
            history = kit.transcripts.messages(SESSION)
            turn = await kit.begin(f"t{number}", f"I love pebble{number} very much.")
            pending = kit.transcripts.messages(SESSION)[len(history) :]
            result = await turn.assemble(history, pending=pending, token_budget=4_000)
            assert result.messages[-1] == pending[0] and result.estimated_tokens <= 4_000
            await turn.finish(kit.well(kit.answer(f"Noted, pebble{number}."), facts={"provider": "ollama"}))
            assert memory.status()["turns"] == number + 1
            await turn.close()
            assert turn.degraded is None and kit.kept(f"t{number}") is None
        assert kit.registry.quarantined("memory-sqlite") is None
        assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
        page = memory.transcript_delta(session_key=SESSION, session_id=PARTS.SESSION_ID)
        said = [entry.message["content"] for entry in page.entries]  # type: ignore[union-attr]
        assert said == [message["content"] for message in kit.transcripts.messages(SESSION)]
        for number in range(10):
            hits = memory.search(f"love pebble{number}", sources=("sessions",), max_results=20).hits
            assert f"pebble{number} very" in hits[0].excerpt
            assert len({hit.reference for hit in hits}) == len(hits)

    asyncio.run(scene())


def test_a_turn_that_was_delivered_twice_is_there_once_and_forgotten_for_ever(memory: Memory) -> None:
    """A crash between commit and acknowledgement is a ``duplicate``; after forgetting the session the row is gone."""

    async def scene() -> None:
        kit = our_kit(memory)
        keep = kit.outbox.acknowledge

        def lost(key: str) -> bool:
            raise errors.StoreBusy("locked")

        kit.outbox.acknowledge = lost
        await kit.whole("t1", "The granite key lies under the mat.")
        assert kit.kept("t1") == "ready" and memory.status()["turns"] == 1
        kit.outbox.acknowledge = keep
        assert (await kit.host.drain()).duplicate == ["t1"]
        assert memory.status()["turns"] == 1 and kit.kept("t1") is None
        kit.outbox.acknowledge = lost
        await kit.whole("t2", "The slate key lies under the tub.")
        kit.outbox.acknowledge = keep
        report = memory.forget(sessions=[SESSION])
        assert (report.turns, report.waiting, report.verified) == (2, 1, True)
        assert kit.kept("t2") is None and not (await kit.host.drain()).advanced
        assert memory.status()["turns"] == 0

    asyncio.run(scene())


@pytest.mark.parametrize("named", ["message", "transcript"])
def test_forgetting_a_committed_turn_takes_its_copy_that_waits(memory: Memory, named: str) -> None:
    """By a reference to what it said, or to its whole transcript; the other turn's copy stays in the first case."""

    async def scene() -> None:
        kit = our_kit(memory)
        kit.outbox.acknowledge = lambda key: None

        def enqueue(number: int) -> None:
            turn, end = kit.admit(f"t{number}", f"I love pebble{number} very much."), kit.answer(f"Noted {number}.")
            admitted = AdmittedTurn(turn, "memory-sqlite", "memory-sqlite")
            kit.outbox.admit(admitted)
            kit.outbox.accept(admitted, end)

        enqueue(1)
        enqueue(2)
        await kit.host.drain()
        enqueue(3)
        assert [kit.kept(f"t{number}") for number in (1, 2, 3)] == ["ready", "ready", "accepted"]
        assert memory.status()["turns"] == 2
        hit = memory.search("love pebble2", sources=("sessions",)).hits[0]
        reference = hit.reference if named == "message" else hit.path.partition("#")[0]
        report = memory.forget(references=[reference])
        assert (report.turns, report.waiting) == ((1, 1) if named == "message" else (2, 3))
        left = ["ready", None, "accepted"] if named == "message" else [None, None, None]
        assert [kit.kept(f"t{number}") for number in (1, 2, 3)] == left

    asyncio.run(scene())


def test_compaction_is_the_hosts_also_through_our_engine(memory: Memory) -> None:
    """The engine does not own compaction: it delegates to what the host gives it, and an abort ends both."""
    assert host_params.DELEGATE == compaction.DELEGATE

    async def scene() -> None:
        seen: list[dict[str, Any]] = []

        async def compact(**given: Any) -> CompactResult:
            seen.append(given)
            return CompactResult(True, True, result={"tokensBefore": 9})

        kit = our_kit(memory, compaction=compact)
        params = {"session_id": PARTS.SESSION_ID, "session_key": SESSION, "force": True}
        done = await kit.host.compact(params)
        assert done.compacted and seen[0]["force"] is True and seen[0]["session_key"] == SESSION
        stopped = AbortSignal()
        stopped.abort()
        with pytest.raises(errors.Cancelled):
            await kit.host.compact(params, stopped)
        assert len(seen) == 1 and kit.registry.quarantined("memory-sqlite") is None
        without = await our_kit(memory).host.compact(params)
        assert (without.ok, without.compacted) == (False, False) and without.reason

    asyncio.run(scene())


def test_a_budget_that_nothing_fits_into_leaves_the_turn_to_legacy(memory: Memory) -> None:
    """An engine that refuses is a failure like any other: the host's own path answers, and the turn is not kept."""

    async def scene() -> None:
        kit = our_kit(memory)
        turn = await kit.begin("t1")
        history = [{"role": "user", "content": "words " * 500}]
        result = await turn.assemble(history, pending=[], token_budget=10)
        assert list(result.messages) == history and turn.degraded
        await turn.finish(kit.well(kit.answer()))
        await turn.close()
        assert memory.status()["turns"] == 0
        assert (await kit.whole("t2")).degraded is None and memory.status()["turns"] == 1

    asyncio.run(scene())
