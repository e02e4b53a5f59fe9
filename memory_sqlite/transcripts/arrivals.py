"""When a session was brought in by an import that keeps the times things had elsewhere: retention counts from then.

Without it a memory that is moved would be too old on the day of the move. Rows of ``session_imports``, inside the
caller's transaction. Not here: imports that give turns the time of the import (transcripts). Called by ``interop`` and
``retention``.
"""

from __future__ import annotations

import apsw

from memory_sqlite.storage.fetch import all_rows, one_row

Mark = tuple[int, int, int]
"""The newest session, turn and record at some moment; numbers are never used twice."""


def newest(connection: apsw.Connection) -> Mark:
    """Taken before something is imported."""
    row = one_row(
        connection,
        "SELECT (SELECT coalesce(max(id), 0) FROM sessions), (SELECT coalesce(max(id), 0) FROM turns),"
        " (SELECT coalesce(max(id), 0) FROM records)",
    )
    assert row is not None, "counts are always there"
    return int(row[0]), int(row[1]), int(row[2])


def note(connection: apsw.Connection, since: Mark, at: int) -> list[str]:
    """Note that what is newer than ``since`` was imported at ``at`` (ms); returns the keys of its sessions."""
    touched = all_rows(
        connection,
        "SELECT id, key FROM sessions WHERE id > ?1 OR id IN (SELECT session_id FROM turns WHERE id > ?2)"
        " OR id IN (SELECT session_id FROM records WHERE id > ?3)",
        since,
    )
    for session_id, _ in touched:
        count_from(connection, int(session_id), at)
    return [str(key) for _, key in touched]


def count_from(connection: apsw.Connection, session_id: int, at: int) -> None:
    """A session is no older than this (ms), whatever its turns say: they may have expired before its records do."""
    connection.execute(
        "INSERT INTO session_imports (session_id, at) VALUES (?, ?) ON CONFLICT (session_id) DO UPDATE SET"
        " at = max(at, excluded.at)",
        (session_id, at),
    )
