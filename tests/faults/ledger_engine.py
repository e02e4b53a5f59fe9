"""An engine that keeps its turns in a file of its own, and a host over it, for child processes of the outbox's tests:
loaded by path with ``runpy``, because they import nothing but what is installed.

The transcript is the same in every process: turn N of a session is the user's message N and the answer to it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from memory_sqlite import Memory
from memory_sqlite.context.shapes import (
    ADVANCEMENT_IDEMPOTENCY,
    CURRENT_TURN_FENCE,
    AssembleResult,
    CommitResult,
    CompactResult,
    EngineInfo,
    TranscriptSemantics,
)
from memory_sqlite.host.engines.engine_host import EngineHost
from memory_sqlite.host.engines.memory_transcripts import MemoryTranscripts
from memory_sqlite.host.engines.registry import EngineRegistry
from memory_sqlite.host.engines.turn import TurnOutcome, TurnRequest
from memory_sqlite.host.engines.turn_rows import AdmittedTurn

SCHEMA = """
CREATE TABLE IF NOT EXISTS turns (place INTEGER PRIMARY KEY, key TEXT UNIQUE, session TEXT, messages TEXT)
"""


def session_id(session: str) -> str:
    return f"10000000-0000-4000-8000-{sum(session.encode()):012d}"


class Ledger:
    """Key and turn in one transaction, or neither."""

    def __init__(self, path: Path) -> None:
        self.connection = apsw.Connection(str(path))
        self.connection.set_busy_timeout(120_000)
        self.connection.pragma("journal_mode", "wal")
        self.connection.pragma("synchronous", "FULL")
        self.connection.execute(SCHEMA)

    def commit(self, key: str, session: str, messages: Any) -> str:
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            self.connection.execute(
                "INSERT OR IGNORE INTO turns (key, session, messages) VALUES (?, ?, ?)",
                (key, session, json.dumps([message["content"] for message in messages])),
            )
            stored = self.connection.changes()
            self.connection.execute("COMMIT")
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise
        return "committed" if stored else "duplicate"

    def close(self) -> None:
        self.connection.close()

    def rows(self) -> list[tuple[str, str, list[str]]]:
        found = self.connection.execute("SELECT session, key, messages FROM turns ORDER BY place")
        return [(str(session), str(key), json.loads(str(messages))) for session, key, messages in found]


class OwnLedger:
    """The same questions, to what our own engine has stored: it keeps its turns in the memory itself."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    def rows(self) -> list[tuple[str, str, list[str]]]:
        rooms = self.memory.rooms()
        assert rooms is not None
        with rooms.opened.store.readers.borrow() as connection:
            turns = connection.execute(
                "SELECT t.id, s.key, t.advancement_key FROM turns t JOIN sessions s ON s.id = t.session_id"
                " ORDER BY t.session_id, t.ordinal"
            ).fetchall()
            said = "SELECT text FROM messages WHERE turn_id = ? ORDER BY position"
            return [
                (str(session), str(key), [str(text) for (text,) in connection.execute(said, (turn_id,))])
                for turn_id, session, key in turns
            ]

    def close(self) -> None:
        """The memory is closed by whoever opened it."""


class Engine:
    info = EngineInfo(
        "ledger", "Ledger", transcript_semantics=TranscriptSemantics(CURRENT_TURN_FENCE, ADVANCEMENT_IDEMPOTENCY)
    )

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    async def ingest(self, **params: Any) -> Any:
        return {"ingested": False}

    async def assemble(self, **params: Any) -> Any:
        return AssembleResult(tuple(params["messages"]), 0)

    async def compact(self, **params: Any) -> Any:
        return CompactResult(False, False)

    async def commit_turn(self, **params: Any) -> Any:
        messages = params["messages"]
        status = await asyncio.to_thread(self.ledger.commit, params["advancement_key"], params["session_key"], messages)
        return CommitResult(status)  # type: ignore[arg-type]


class Scene:
    """A host over one memory and one ledger, with the first ``turns`` turns of some sessions in its transcripts."""

    def __init__(self, memory: Memory, ledger: Ledger | OwnLedger) -> None:
        self.outbox = memory.turn_outbox()
        self.transcripts = MemoryTranscripts("main")
        self.anchors: dict[str, tuple[AdmittedTurn, Any]] = {}
        registry = EngineRegistry()
        registry.register("ledger", lambda context: self.make(memory, ledger), plugin_id="ledger-plugin")
        config = {"plugins": {"slots": {"contextEngine": "ledger"}}}
        self.host = EngineHost(registry, config, outbox=self.outbox, transcripts=self.transcripts)

    @staticmethod
    def make(memory: Memory, ledger: Ledger | OwnLedger) -> Any:
        return Engine(ledger) if isinstance(ledger, Ledger) else memory.context_engine()

    def tell(self, session: str, first: int, last: int) -> None:
        """Write turns ``first`` to ``last`` into the session's transcript; the first ones begin it."""
        if first == 1:
            self.transcripts.begin(session, session_id(session))
        for number in range(first, last + 1):
            key = f"{session}/{number}"
            user = {"role": "user", "content": f"pebble {number} of {session}"}
            admission = self.transcripts.admit(session, user, key)
            end = self.transcripts.append(session, {"role": "assistant", "content": f"noted {number}"})
            self.anchors[key] = (AdmittedTurn(admission, "ledger", "ledger-plugin"), end)

    def enqueue(self, key: str) -> None:
        turn, end = self.anchors[key]
        self.outbox.admit(turn)
        assert self.outbox.accept(turn, end)

    async def turn(self, key: str, accepted: Callable[[], None] = lambda: None) -> None:
        """A whole turn of the host, from its beginning to the disposal of its engine."""
        turn, end = self.anchors[key]
        anchor = turn.admission.anchor
        keep = self.outbox.accept

        def accept(*given: Any, **named: Any) -> bool:
            kept = keep(*given, **named)
            if kept:
                accepted()
            return kept

        self.outbox.accept = accept  # type: ignore[method-assign]
        try:
            request = TurnRequest("main", anchor.session_key, anchor.session_id, anchor.store_path, turn.admission)
            begun = await self.host.begin_turn(request)
            await begun.finish(TurnOutcome(True, end))
            await begun.close()
        finally:
            self.outbox.accept = keep  # type: ignore[method-assign]


def texts(session: str, number: int) -> list[str]:
    return [f"pebble {number} of {session}", f"noted {number}"]


def open_ledger(memory: Memory, path: str | Path) -> Ledger | OwnLedger:
    """The ledger at a path; ``own`` is the memory with our engine."""
    return OwnLedger(memory) if str(path) == "own" else Ledger(Path(path))
