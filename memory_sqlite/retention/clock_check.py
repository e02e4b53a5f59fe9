"""Whether the clock can be believed before anything is deleted on its word.

A machine that starts without its battery, a container with a wrong date, a test that forgot to set it back: one jump
forward would make everything too old at once, and a backward one makes nothing so. What the store itself tells of time
is compared: when turns were recorded, and when retention last ran. A clock that is doubted and goes on for a week is
right after all (``limits.RETENTION_DOUBT_DAYS``): the agent had been left alone. Called by ``run``.
"""

from __future__ import annotations

from typing import Final, Literal

import apsw

from memory_sqlite import limits
from memory_sqlite.layers.layered_retention import DAY_MS

Verdict = Literal["ok", "ahead", "behind"]

_SEEN: Final = "retention_seen_at"
_DOUBTED: Final = "retention_doubted_at"
_GAP: Final = limits.RETENTION_GAP_DAYS * DAY_MS
_DOUBT: Final = limits.RETENTION_DOUBT_DAYS * DAY_MS
_RECORDED: Final = (
    "SELECT recorded_at AS at FROM turns UNION ALL SELECT recorded_at FROM sessions UNION ALL"
    " SELECT at FROM session_imports"
)


def judge(connection: apsw.Connection, now: int) -> Verdict:
    """What to think of the clock; reads only."""
    doubted = _mark(connection, _DOUBTED)
    if doubted is not None and doubted + _DOUBT <= now <= doubted + _DOUBT + _GAP:
        return "ok"
    seen = _mark(connection, _SEEN)
    if seen is not None and now < seen - limits.SAME_TURN_WINDOW_MS:
        return "behind"
    return "ahead" if _widest_gap(connection, seen, now) > _GAP else "ok"


def _widest_gap(connection: apsw.Connection, seen: int | None, now: int) -> int:
    """The longest time in which nothing was recorded, up to now, ms: since the last run, where there was one. A turn
    that a clock recorded after it had jumped does not hide the jump."""
    if seen is None:
        newest = connection.execute(f"SELECT max(at) FROM ({_RECORDED}) WHERE at <= ?", (now,)).get
        return now - newest if isinstance(newest, int) else 0
    if now - seen <= _GAP:
        return 0
    widest = connection.execute(
        "SELECT max(at - before) FROM (SELECT at, lag(at, 1, ?1) OVER (ORDER BY at) AS before FROM"
        f" (SELECT at FROM ({_RECORDED}) WHERE at > ?1 AND at < ?2 UNION ALL SELECT ?2))",
        (seen, now),
    ).get
    assert isinstance(widest, int), "now is one of them"
    return widest


def doubt(connection: apsw.Connection, now: int) -> None:
    """Note since when it is doubted, inside the caller's transaction; an older doubt that still counts stays."""
    doubted = _mark(connection, _DOUBTED)
    if doubted is None or not doubted <= now <= doubted + _DOUBT + _GAP:
        _set(connection, _DOUBTED, now)


def needs_note(connection: apsw.Connection, now: int) -> bool:
    """Whether ``believe`` has something to note: a run a day is noted, and the end of a doubt."""
    seen = _mark(connection, _SEEN)
    return seen is None or abs(now - seen) >= DAY_MS or _mark(connection, _DOUBTED) is not None


def believe(connection: apsw.Connection, now: int) -> None:
    """Note that the clock was believed at this time, inside the caller's transaction."""
    _set(connection, _SEEN, now)
    connection.execute("DELETE FROM store_info WHERE key = ?", (_DOUBTED,))


def _mark(connection: apsw.Connection, name: str) -> int | None:
    value = connection.execute("SELECT value FROM store_info WHERE key = ?", (name,)).get
    return int(value) if isinstance(value, str) else None


def _set(connection: apsw.Connection, name: str, at: int) -> None:
    connection.execute(
        "INSERT INTO store_info VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", (name, str(at))
    )
