"""How long things are kept: the age of a session, what of it is too old, and until when the rest stays.

A session is old or young as a whole. Its age counts from the later of its last activity and the time it was imported;
an activity is never later than when it was recorded, so that a host whose clock is ahead keeps nothing for ever. A
pinned or held session, and one with a turn under way, is never too old. Reads only. Not here: deleting
(``retention``), the layered-memory product's rule (``layered_retention``). Called by ``retention``, ``interop`` (what
an import says) and ``doctor``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import apsw

from memory_sqlite import limits
from memory_sqlite.clock import iso
from memory_sqlite.config import Settings
from memory_sqlite.config_fields import SAME
from memory_sqlite.layers.labels import PINNED
from memory_sqlite.layers.layered_retention import DAY_MS
from memory_sqlite.model import Expiry
from memory_sqlite.storage.fetch import Row, all_rows
from memory_sqlite.values import dataclass

LAYERS: Final = ("L0", "L1", "L2", "L3")
_RECORD_LAYERS: Final = ("L1", "L2")

_AGED: Final = f"""
WITH aged AS (
  SELECT s.id, s.key, s.token, s.active_at,
    max(s.recorded_at, coalesce((SELECT max(t.recorded_at) FROM turns t WHERE t.session_id = s.id), s.recorded_at))
      AS recorded,
    coalesce((SELECT i.at FROM session_imports i WHERE i.session_id = s.id), s.recorded_at) AS imported
  FROM sessions s WHERE {{where}}
)
SELECT id, key, token, max(recorded, min(active_at, recorded + {limits.SAME_TURN_WINDOW_MS}), imported) AS last_at
FROM aged"""
_YOUNGEST_TURN: Final = (
    "coalesce((SELECT t.recorded_at FROM turns t WHERE t.session_id = s.id ORDER BY t.ordinal DESC LIMIT 1), 0)"
)
"""The session's last turn alone: most sessions are young, and one row of each says so."""
_RUNNING: Final = (
    "EXISTS (SELECT 1 FROM turn_outbox o WHERE o.at >= ?2 AND (o.session_key = s.key OR o.session_id = s.key"
    " OR EXISTS (SELECT 1 FROM session_names n WHERE n.session_id = s.id"
    " AND n.name IN (o.session_key, o.session_id))))"
)


@dataclass(frozen=True, slots=True)
class Due:
    """One session of which something is too old. ``layers`` are those that go, ``whole``: nothing of it is left then
    but for facts that are kept longer; ``last_at`` is what its age counts from, ms."""

    session_id: int
    key: str
    token: str
    last_at: int
    layers: tuple[str, ...]


def days(settings: Settings, layer: str) -> int | None:
    """How many days a layer (``L0`` to ``L3``) is kept; ``None``: for ever."""
    own = {
        "L0": settings.retention_days_l0,
        "L1": settings.retention_days_l1,
        "L2": settings.retention_days_l2,
        "L3": settings.retention_days_l3,
    }[layer]
    return settings.retention_days if own == SAME else own


def cutoffs(settings: Settings, now: int) -> dict[str, int]:
    """For each layer that is not kept for ever the moment before which it is too old, ms."""
    kept = {layer: days(settings, layer) for layer in LAYERS}
    return {layer: now - count * DAY_MS for layer, count in kept.items() if count is not None}


def due(connection: apsw.Connection, settings: Settings, now: int, only: int | None = None) -> list[Due]:
    """Sessions of which something is too old, the oldest first, whether or not they are kept; ``only`` asks about one.

    What a session does not have is not due: one whose layers have gone is not told again.
    """
    cut = cutoffs(settings, now)
    if not cut:
        return []
    found = []
    for session_id, key, token, last_at in _aged(connection, max(cut.values()), only):
        layers = tuple(
            layer
            for layer in LAYERS
            if layer in cut and last_at < cut[layer] and _has(connection, session_id, layer, cut)
        )
        empty = "L0" in cut and last_at < cut["L0"] and not layers and not _has_anything(connection, session_id)
        if layers or empty:
            found.append(Due(int(session_id), str(key), str(token), int(last_at), layers))
    return sorted(found, key=lambda one: (one.last_at, one.session_id))


def _aged(connection: apsw.Connection, cut: int, only: int | None) -> list[Row]:
    where = f"s.recorded_at < ?1 AND {_YOUNGEST_TURN} < ?1" + (" AND s.id = ?2" if only is not None else "")
    sql = f"{_AGED.format(where=where)} WHERE last_at < ?1"
    return all_rows(connection, sql, (cut,) if only is None else (cut, only))


def _has(connection: apsw.Connection, session_id: int, layer: str, cut: dict[str, int]) -> bool:
    if layer == "L0":
        return bool(connection.execute("SELECT EXISTS (SELECT 1 FROM turns WHERE session_id = ?)", (session_id,)).get)
    if layer == "L3":
        return bool(old_facts(connection, session_id, cut["L3"], limit=1))
    return bool(record_ids(connection, session_id, layer, limit=1))


def _has_anything(connection: apsw.Connection, session_id: int) -> bool:
    sql = (
        "SELECT EXISTS (SELECT 1 FROM turns WHERE session_id = ?1)"
        " OR EXISTS (SELECT 1 FROM records WHERE session_id = ?1 AND folder <> 'agent-profiles')"
        " OR EXISTS (SELECT 1 FROM records WHERE session_id = ?1 AND folder = 'agent-profiles')"
    )
    return bool(connection.execute(sql, (session_id,)).get)


def record_ids(connection: apsw.Connection, session_id: int, layer: str, *, limit: int) -> list[int]:
    """Episodes or scenarios of a session, also superseded ones, at most so many."""
    # the folder is said so that SQLite uses the index of places, which leaves the agent's profiles out
    sql = "SELECT id FROM records WHERE session_id = ? AND folder <> 'agent-profiles' AND layer = ? ORDER BY id LIMIT ?"
    return [int(row_id) for (row_id,) in all_rows(connection, sql, (session_id, layer, limit))]


def old_facts(connection: apsw.Connection, session_id: int, cut: int, *, limit: int) -> list[int]:
    """Facts of a session that were neither written nor said again since; never a pinned one."""
    sql = (
        "SELECT id FROM records WHERE session_id = ?1 AND layer = 'L3' AND importance IS NOT ?2"
        " AND max(created_at, min(coalesce(reinforced_at, created_at), max(created_at, ?3))) < ?3 ORDER BY id LIMIT ?4"
    )
    return [int(row_id) for (row_id,) in all_rows(connection, sql, (session_id, PINNED, cut, limit))]


def protection(connection: apsw.Connection, session_id: int, now: int) -> str | None:
    """Why a session is kept however old: ``held``, ``pinned``, ``running``; ``None`` where nothing keeps it."""
    kinds = {
        str(kind)
        for (kind,) in all_rows(connection, "SELECT kind FROM session_holds WHERE session_id = ?", (session_id,))
    }
    if kinds:
        return "held" if "legal" in kinds else "pinned"
    since = now - limits.RETENTION_RUNNING_DAYS * DAY_MS
    running = connection.execute(f"SELECT {_RUNNING} FROM sessions s WHERE s.id = ?1", (session_id, since)).get
    return "running" if running else None


def debt(connection: apsw.Connection, settings: Settings, now: int) -> dict[str, int]:
    """What is too old and still here: ``sessions`` (of which something is due), and those that are kept all the same
    (``held``, ``pinned``, ``running``). Reads a row or two of each session: some milliseconds at 1,000 of them.

    In compatible mode ``sessions`` are those with a turn recorded on a day that is over.
    """
    counts = {"sessions": 0, "held": 0, "pinned": 0, "running": 0}
    if settings.compatibility == "layered-memory":
        if settings.retention_days is not None:
            cut = (now - settings.retention_days * DAY_MS) // DAY_MS * DAY_MS
            sql = (
                "SELECT count(DISTINCT session_id) FROM turns WHERE recorded_at < ?"
                " AND session_id NOT IN (SELECT session_id FROM session_holds)"
            )
            counts["sessions"] = int(str(connection.execute(sql, (cut,)).get))
        return counts
    for one in due(connection, settings, now):
        counts[protection(connection, one.session_id, now) or "sessions"] += 1
    return counts


def expiry(connection: apsw.Connection, settings: Settings, keys: Iterable[str], now: int) -> Expiry:
    """Until when what is in these sessions is kept, if nothing more is said in them."""
    compatible = settings.compatibility == "layered-memory"
    kept = {layer: settings.retention_days if compatible else days(settings, layer) for layer in LAYERS}
    ages: list[int] = []
    count = 0
    for key in sorted(set(keys)):
        row = connection.execute("SELECT id FROM sessions WHERE key = ?", (key,)).get
        if not isinstance(row, int):
            continue
        count += 1
        if connection.execute("SELECT EXISTS (SELECT 1 FROM session_holds WHERE session_id = ?)", (row,)).get:
            continue
        if compatible:
            ages += _days_of(connection, row)
        else:
            ages += [int(last_at) for *_, last_at in all_rows(connection, _AGED.format(where="s.id = ?1"), (row,))]
    counted = [count for layer, count in kept.items() if count is not None and layer != "L3"]
    if not ages or not counted:
        return Expiry(kept, count)
    first = min(ages) + min(counted) * DAY_MS
    last = max(ages) + max(counted) * DAY_MS
    return Expiry(kept, count, iso(first), iso(last))


def _days_of(connection: apsw.Connection, session_id: int) -> list[int]:
    """In compatible mode: the beginning of the first and the last day on which something of it was recorded."""
    sql = "SELECT min(recorded_at), max(recorded_at) FROM turns WHERE session_id = ?"
    rows = all_rows(connection, sql, (session_id,))
    return [int(at) // DAY_MS * DAY_MS for at in rows[0] if at is not None]
