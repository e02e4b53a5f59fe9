"""What a session's row remembers of its flushes, so that a cycle is flushed once and given up after three failures.

A row that has begun another life meanwhile is left alone. Not here: what a failure is (``evidence``). Called by
``run``.
"""

from __future__ import annotations

from typing import Final

from memory_sqlite.host.flush.shapes import FlushSourceTurn
from memory_sqlite.host.session_rows import FlushRecord, SessionRow, SessionRows

FAILURES_MAX: Final = 3
"""Failures in a row after which a cycle is given up (contract, section 3.7)."""


def current(rows: SessionRows, source: FlushSourceTurn) -> SessionRow | None:
    """The source's row while it lives the life that the turn was of."""
    row = rows.get(source.session_key)
    return row if row is not None and row.incarnation == source.incarnation else None


def is_flushed(row: SessionRow) -> bool:
    """Whether this cycle of the session has been flushed, or was given up."""
    record = row.memory_flush
    return (
        record is not None and record.compaction_count is not None and record.compaction_count == row.compaction_count
    )


def completed(rows: SessionRows, source: FlushSourceTurn, compaction_count: int) -> FlushRecord | None:
    """Write that the cycle with this count at its start is flushed."""
    return _write(rows, source, FlushRecord("succeeded", compaction_count))


def failed(rows: SessionRows, source: FlushSourceTurn) -> tuple[bool, FlushRecord | None]:
    """Write a failure; ``True`` when it was the last that this cycle is allowed."""
    row = current(rows, source)
    if row is None or is_flushed(row):
        return False, None  # what a resolver raises in a cycle that is over counts no more
    before = row.memory_flush
    failures = 1 + (before.failure_count if before is not None and before.kind == "failed" else 0)
    if failures >= FAILURES_MAX:
        return True, _write(rows, source, FlushRecord("succeeded", row.compaction_count))
    known = before.compaction_count if before is not None else None
    return False, _write(rows, source, FlushRecord("failed", known, failures))


def _write(rows: SessionRows, source: FlushSourceTurn, record: FlushRecord) -> FlushRecord | None:
    if current(rows, source) is None:
        return None
    rows.update(source.session_key, memory_flush=record)
    return record
