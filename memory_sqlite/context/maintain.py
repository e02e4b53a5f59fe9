"""``maintain``: what an engine does between turns, in small steps: retention, the index brought up, the write-ahead
logs cut back.

Each step is short and safe to leave out; between two of them an abort is heard. Not here: what retention deletes
(``layers.layered_retention``; only compatible mode has such a rule). Called by the engine, in a thread.
"""

from __future__ import annotations

from pathlib import Path

import apsw

from memory_sqlite import limits
from memory_sqlite.agent import freshness
from memory_sqlite.context.shapes import MaintainResult
from memory_sqlite.layers.layered_retention import delete_old_days
from memory_sqlite.runtime.agents import AgentRooms
from memory_sqlite.runtime.signals import AbortSignal
from memory_sqlite.storage.failures import translated, translated_index

ABORTED = "aborted"


def maintain(rooms: AgentRooms, signal: AbortSignal | None) -> MaintainResult:
    """Delete what is older than is kept, bring the index up to the store and the notes, give back the room of the logs.

    ``bytes_freed`` is what the log files lost. ``reason`` is ``aborted`` when the steps after an abort were left out,
    or what the index could not take. Raises the store's errors.
    """
    if rooms.opened.store.read_only:
        return MaintainResult(False, reason="opened for reading only")
    changed, freed, reasons = False, 0, []
    for step in (_expire, _bring_up, _cut_back):
        if signal is not None and signal.aborted:
            reasons.append(ABORTED)
            break
        done, bytes_of_it, why = step(rooms)
        changed, freed = changed or done, freed + bytes_of_it
        reasons += [why] if why is not None else []
    return MaintainResult(changed, freed, reason="; ".join(reasons) or None)


def _expire(rooms: AgentRooms) -> tuple[bool, int, str | None]:
    if rooms.settings.compatibility != "layered-memory":
        return False, 0, None
    with rooms.lock:
        deleted = delete_old_days(rooms.opened.store, rooms.settings, rooms.clock)
    return deleted > 0, 0, None


def _bring_up(rooms: AgentRooms) -> tuple[bool, int, str | None]:
    opened = rooms.opened
    with rooms.lock:
        before = _changes(rooms)
        fresh = freshness.freshen(opened, rooms.clock, rooms.lock, limits.FRESHNESS_BUDGET_S)
        changed = _changes(rooms) != before
    return changed, 0, fresh.warnings[0] if fresh.stale and fresh.warnings else None


def _changes(rooms: AgentRooms) -> int:
    with translated_index():
        return rooms.opened.keeper.writer().total_changes()


def _cut_back(rooms: AgentRooms) -> tuple[bool, int, str | None]:
    """Checkpoints that wait for nobody: what a reader still needs stays in the log until the next time."""
    with rooms.lock:
        with translated("the store"):
            freed = _checkpoint(rooms.opened.store.connection)
        with translated_index():
            freed += _checkpoint(rooms.opened.keeper.writer())
    return freed > 0, freed, None


def _checkpoint(connection: apsw.Connection) -> int:
    log = Path(f"{connection.filename}-wal")
    before = _size(log)
    if not before:
        return 0
    connection.set_busy_timeout(0)
    try:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except apsw.BusyError:
        return 0
    finally:
        connection.set_busy_timeout(limits.BUSY_TIMEOUT_MS)
    return max(0, before - _size(log))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
