"""Retention as the layered-memory product has it: whole day files, deleted when their day is older than the cutoff.

Facts: section 9 of that product's reference. The day of a record is its virtual file's, the day of a turn the UTC day
on which it was recorded. Run ids stay known for ever, so a replay adds nothing. Sessions that are held or pinned, which
that product does not know, are left out. Called by ``integrations.layered_memory``, ``context.maintain`` and
``retention`` in that mode only: the standard mode's rule is ``retention_rule``.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import apsw

from memory_sqlite.clock import Clock, utc_day
from memory_sqlite.config import Settings
from memory_sqlite.storage import change_log
from memory_sqlite.storage.fetch import all_rows
from memory_sqlite.storage.store import Store
from memory_sqlite.transcripts import rewritten

DAY_MS: Final = 86_400_000


def delete_old_days(store: Store, settings: Settings, clock: Clock) -> int:
    """Delete the day files whose day began strictly before now − ``retention_days``; returns how many files those were.

    One transaction a day. ``agent-profiles`` are only touched while they are in use (``profile_scope = "agent"``).
    Raises the store's errors; the days deleted before an error stay deleted.
    """
    deleted = 0
    for day in old_days(store.connection, settings, clock.now_ms()):
        with store.transaction() as connection:
            deleted += delete_day(connection, day, settings.profile_scope)
    return deleted


def old_days(connection: apsw.Connection, settings: Settings, now: int) -> list[str]:
    """Days that began strictly before now − ``retention_days``, the oldest first; reads only."""
    if settings.retention_days is None:
        return []
    cutoff = now - settings.retention_days * DAY_MS
    days = ((day, _begins(day)) for day in _days(connection, settings.profile_scope))
    return [day for day, begins in days if begins is not None and begins < cutoff]


def delete_day(connection: apsw.Connection, day: str, scope: str) -> int:
    """Delete the files of one day inside the caller's transaction; returns how many those were."""
    begins = _begins(day)
    assert begins is not None, "only days that exist are old"
    return _delete_records(connection, day, scope) + _delete_turns(connection, begins)


def _begins(day: str) -> int | None:
    """The first millisecond of a day, UTC. An imported file may be named for a day that does not exist: 30 February is
    2 March, as in the product; month 13 is no day (the product takes the file's own time) and is kept."""
    year, month, number = (int(part) for part in day.split("-"))
    try:
        begin = datetime(year, month, 1, tzinfo=UTC) + timedelta(days=number - 1)
    except (ValueError, OverflowError):
        return None
    return int(begin.timestamp()) * 1000


_NOT_KEPT: Final = "session_id NOT IN (SELECT session_id FROM session_holds)"


def _active(scope: str) -> str:
    return _NOT_KEPT if scope == "agent" else f"{_NOT_KEPT} AND folder <> 'agent-profiles'"


def _days(connection: apsw.Connection, scope: str) -> list[str]:
    days = {str(day) for (day,) in connection.execute(f"SELECT DISTINCT day FROM records WHERE {_active(scope)}")}
    days |= {
        utc_day(number * DAY_MS)
        for (number,) in connection.execute(f"SELECT DISTINCT recorded_at / {DAY_MS} FROM turns WHERE {_NOT_KEPT}")
    }
    return sorted(days)


def _delete_records(connection: apsw.Connection, day: str, scope: str) -> int:
    rows: list[tuple[Any, ...]] = connection.execute(
        f"SELECT id, folder, CASE folder WHEN 'agent-profiles' THEN 0 ELSE session_id END FROM records WHERE day = ?"
        f" AND {_active(scope)}",
        (day,),
    ).fetchall()
    for row_id, _, _ in rows:
        connection.execute("DELETE FROM records WHERE id = ?", (row_id,))
        change_log.append(connection, "record", row_id, "delete")
    return len({(folder, session_id) for _, folder, session_id in rows})


def _delete_turns(connection: apsw.Connection, begin: int) -> int:
    turns = all_rows(
        connection,
        f"SELECT id, session_id FROM turns WHERE recorded_at >= ? AND recorded_at < ? AND {_NOT_KEPT}",
        (begin, begin + DAY_MS),
    )
    for turn_id, session_id in turns:
        messages: list[tuple[Any, ...]] = connection.execute(
            "SELECT id FROM messages WHERE turn_id = ?", (turn_id,)
        ).fetchall()
        for (message_id,) in messages:
            change_log.append(connection, "message", message_id, "delete")
        connection.execute("DELETE FROM turns WHERE id = ?", (turn_id,))  # its messages go with it
        rewritten.note(connection, session_id)
    return len({session_id for _, session_id in turns})
