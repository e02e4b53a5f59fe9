"""Delivering accepted turns to their engines: read, keep, commit, acknowledge; in order for each session.

Deliveries are at least once; the engine's own idempotency makes them once. A row that fails stops its session for this
drain, and nobody else. Several processes may drain at once: whoever is second is told ``duplicate``. Not here: when to
drain (``engine_host``), what is kept (``outbox``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from memory_sqlite import errors, limits
from memory_sqlite.host.engines.hosted import HostedEngine
from memory_sqlite.host.engines.outbox import TurnOutbox
from memory_sqlite.host.engines.requirements import undeclared
from memory_sqlite.host.engines.transcript_reader import TranscriptReader, read_turn
from memory_sqlite.host.engines.turn_rows import AdmittedTurn, OutboxRow, session_target

_log: Final = logging.getLogger("memory_sqlite.host.engines.drain")

EngineFor = Callable[[AdmittedTurn], Awaitable[HostedEngine | None]]
"""The engine that a turn is meant for, or ``None`` when it is not there (any more)."""
Acknowledged = Callable[[OutboxRow, HostedEngine], Awaitable[None]]
"""Told of each turn that has reached its engine; whatever it raises changes nothing of that."""

Delivered = Literal["committed", "duplicate", "blocked", "failed", "unavailable", "gone"]


@dataclass
class DrainReport:
    """What became of the rows of one drain: their keys. ``failed`` and ``unavailable`` ones stay queued."""

    committed: list[str] = field(default_factory=list)
    duplicate: list[str] = field(default_factory=list)
    blocked: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    unavailable: list[str] = field(default_factory=list)
    """Their engine is not there (any more), or does not commit turns (any more)."""
    gone: list[str] = field(default_factory=list)

    @property
    def advanced(self) -> bool:
        """Whether anything left the queue: then there may be more to deliver."""
        return bool(self.committed or self.duplicate or self.blocked or self.gone)


class Drain:
    """Delivers rows of one outbox."""

    def __init__(
        self, outbox: TurnOutbox, reader: TranscriptReader, engine_for: EngineFor, acknowledged: Acknowledged
    ) -> None:
        self._outbox = outbox
        self._reader = reader
        self._engine_for = engine_for
        self._acknowledged = acknowledged

    async def run(self, session_key: str | None = None, limit: int = limits.OUTBOX_DRAIN_ROWS) -> DrainReport:
        """Deliver up to ``limit`` rows, of one session or of all in turn. Raises the store's errors for the list of
        them; what fails for one row is in the report."""
        report = DrainReport()
        stopped: set[tuple[str, ...]] = set()
        for due in await asyncio.to_thread(self._outbox.due, session_key, limit):
            session, engine = (due.session_key,), (due.session_key, due.engine_id, due.owner_id)
            if session in stopped or engine in stopped:
                continue
            became = await self.deliver(due.key)
            getattr(report, became).append(due.key)
            if became == "failed":
                stopped.add(session)
            elif became == "unavailable":  # an engine that was replaced must not hold up its successor
                stopped.add(engine)
        return report

    async def deliver(self, key: str) -> Delivered:
        """Bring one row as far as it goes now."""
        try:
            row = await asyncio.to_thread(self._outbox.row, key)
            if row is not None and row.state == "accepted":
                row = await self._read(row)
            if row is None or row.state == "admitted":
                return "gone"
            if row.state == "blocked":
                return "blocked"
            return await self._commit(row)
        except Exception as error:  # also what a host's transcript raises: it is this row's failure and nobody else's
            return await self._failed(key, getattr(error, "code", type(error).__name__))

    async def _read(self, row: OutboxRow) -> OutboxRow | None:
        """The row with the turn's messages, or blocked. Raises ``TurnUnreadable`` when it is worth trying again."""
        assert row.terminal is not None, "an accepted turn has an end"
        try:
            messages = await asyncio.to_thread(read_turn, self._reader, row.turn.admission, row.terminal)
        except errors.TurnUnreadable as error:
            if error.is_transient:
                raise
            if await asyncio.to_thread(self._outbox.block, row.turn.key, error.kind):
                _log.warning("a turn can never be given to context engine %r (%s)", row.turn.engine_id, error.kind)
        else:
            await asyncio.to_thread(self._outbox.make_ready, row.turn.key, messages)
        # what is delivered is what is kept, also when somebody else was faster
        return await asyncio.to_thread(self._outbox.row, row.turn.key)

    async def _commit(self, row: OutboxRow) -> Delivered:
        engine = await self._engine_for(row.turn)
        if engine is None or undeclared(engine.engine) is not None:
            await self._failed(row.turn.key, "engine-unavailable")
            return "unavailable"
        if not await asyncio.to_thread(self._outbox.is_ready, row.turn.key):
            return "gone"  # it was forgotten, or somebody else delivered it, while the engine was made
        try:
            status = await engine.call("commit_turn", _commit_params(row), _status)
        except Exception as error:
            return await self._failed(row.turn.key, type(error).__name__)
        if status not in ("committed", "duplicate"):
            return await self._failed(row.turn.key, "unknown-status")
        await asyncio.to_thread(self._outbox.acknowledge, row.turn.key)
        try:
            await self._acknowledged(row, engine)
        except Exception as error:
            _log.warning("an observer of committed turns failed (%s)", type(error).__name__)
        return "committed" if status == "committed" else "duplicate"

    async def _failed(self, key: str, reason: str) -> Delivered:
        try:
            await asyncio.to_thread(self._outbox.count_attempt, key, reason)
        except Exception as error:
            _log.warning("an attempt to deliver a turn could not be counted (%s)", type(error).__name__)
        _log.info("a turn stays queued for its context engine (%s)", reason)
        return "failed"


def _commit_params(row: OutboxRow) -> dict[str, Any]:
    """What ``commit_turn`` is given: the inclusive turn and persisted facts, no live capability of a host."""
    anchor = row.turn.admission.anchor
    return {
        "advancement_key": row.turn.key,
        "admission": row.turn.admission,
        "terminal": row.terminal,
        "messages": row.messages,
        "session_id": anchor.session_id,
        "is_heartbeat": row.heartbeat,
        "session_key": anchor.session_key,
        "session_target": session_target(anchor),
        "runtime_context": dict(row.facts),
    }


def _status(answer: Any) -> Any:
    return answer.get("status") if isinstance(answer, Mapping) else getattr(answer, "status", None)
