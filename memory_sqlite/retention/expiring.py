"""Deleting what is too old from the store, a batch a transaction, with the tombstones that keep it away.

Each function works inside the caller's transaction and asks the rule anew there: a session in which somebody has spoken
on meanwhile stays. Not here: what is too old (``layers.retention_rule``), generations and bytes (``forgetting``).
Called by ``run``, for a dry run inside a transaction that is rolled back.
"""

from __future__ import annotations

import json
from typing import Final

import apsw

from memory_sqlite import limits
from memory_sqlite.config import Settings
from memory_sqlite.forgetting import rows
from memory_sqlite.forgetting.rows import Tally
from memory_sqlite.forgetting.samples import Samples
from memory_sqlite.forgetting.waiting import drop
from memory_sqlite.layers import retention_rule as rule
from memory_sqlite.layers.layered_retention import DAY_MS
from memory_sqlite.layers.retention_rule import Due
from memory_sqlite.storage import change_log, tombstones
from memory_sqlite.storage.fetch import Row, all_rows
from memory_sqlite.storage.store import Store
from memory_sqlite.transcripts import arrivals, names
from memory_sqlite.values import dataclass, field

REASON: Final = "retention"


@dataclass
class Gone:
    """What went, as it grows. ``facts_kept``: facts that stay without the turn they were made from."""

    tally: Tally = field(default_factory=Tally)
    samples: Samples = field(default_factory=Samples)
    facts_kept: int = 0


def step(store: Store, settings: Settings, session_id: int, now: int, gone: Gone) -> bool:
    """Delete the next batch of one session; ``False`` when nothing of it is due (any more)."""
    connection = store.connection
    found = rule.due(connection, settings, now, only=session_id)
    if not found or rule.protection(connection, session_id, now) is not None:
        return False
    due = found[0]
    if "L0" in due.layers:
        _expire_turns(store, due, now, gone)
        return True
    for layer in due.layers:
        for row_id in _records(connection, due, layer, settings, now):
            # what it had superseded stays so: a newer word that has expired makes no older one true again
            rows.delete_record(connection, row_id, gone.tally, gone.samples, now, REASON)
        return True
    rows.delete_session(connection, session_id, gone.tally)
    return False


def _records(connection: apsw.Connection, due: Due, layer: str, settings: Settings, now: int) -> list[int]:
    if layer == "L3":
        cut = rule.cutoffs(settings, now)["L3"]
        return rule.old_facts(connection, due.session_id, cut, limit=limits.RETENTION_BATCH)
    return rule.record_ids(connection, due.session_id, layer, limit=limits.RETENTION_BATCH)


def _expire_turns(store: Store, due: Due, now: int, gone: Gone) -> None:
    connection = store.connection
    found = all_rows(
        connection,
        "SELECT t.id, min(m.at), max(m.at), max(m.at = t.recorded_at) FROM turns t LEFT JOIN messages m"
        " ON m.turn_id = t.id WHERE t.session_id = ? GROUP BY t.id ORDER BY t.at, t.id LIMIT ?",
        (due.session_id, limits.RETENTION_BATCH),
    )
    arrivals.count_from(connection, due.session_id, due.last_at)
    gone.tally.tombstones += _entomb(store, due, found, now)
    for turn_id, *_ in found:
        kept = all_rows(connection, "SELECT id, layer FROM records WHERE turn_id = ?", (turn_id,))
        rows.delete_turn(connection, turn_id, gone.tally, gone.samples)
        for row_id, layer in kept:  # they do not name the turn any more
            change_log.append(connection, "record", row_id)
            gone.facts_kept += layer == "L3" and "L3" not in due.layers


def _entomb(store: Store, due: Due, found: list[Row], now: int) -> int:
    """What keeps these turns away. What came with its own time, by that time: one tombstone for all of them, ending
    before whatever is still there. What it does not cover, what was given the time at which it was recorded, and the
    turns at the edges, which another transcript may time a little differently, by their entries and words."""
    connection, added = store.connection, 0
    low = min((low for _, low, _, _ in found if low is not None), default=now)
    high = min(
        max((high for _, _, high, _ in found if high is not None), default=now), _first_left(connection, due, found) - 1
    )
    if low <= high:
        called = (due.token, *(store.token(name) for name in names.further(connection, due.session_id)))
        for token in called:
            added += tombstones.add(connection, "session", token, reason=REASON, at=now, since=low, until=high)
    edges = {found[0][0], found[-1][0]}
    for turn_id, _, last, is_untimed in found:
        if is_untimed or turn_id in edges or (last is not None and last > high):
            added += rows.entomb_turn(store, turn_id, now, REASON)
    return added


def _first_left(connection: apsw.Connection, due: Due, found: list[Row]) -> int:
    """When the first of what stays for the next batch was said: the session may be spoken in before that one comes."""
    if len(found) < limits.RETENTION_BATCH:
        return tombstones.LAST
    going = json.dumps([turn_id for turn_id, *_ in found])
    first = connection.execute(
        "SELECT min(at) FROM messages WHERE session_id = ? AND turn_id NOT IN (SELECT value FROM json_each(?))",
        (due.session_id, going),
    ).get
    return first if isinstance(first, int) else tombstones.LAST


def expire_waiting(store: Store, settings: Settings, now: int, gone: Gone) -> bool:
    """Turns that wait in a host's turn outbox for longer than a conversation is kept: no engine gets them any more.
    Whether there may be more of them.

    They count as committed, as when they are forgotten. Those of a session that is held or pinned stay.
    """
    cut = rule.cutoffs(settings, now).get("L0")
    if cut is None:
        return False
    connection = store.connection
    before = min(cut, now - limits.RETENTION_RUNNING_DAYS * DAY_MS)
    kept = (
        "EXISTS (SELECT 1 FROM session_holds h JOIN sessions s ON s.id = h.session_id WHERE s.key IN (o.session_key,"
        " o.session_id) OR EXISTS (SELECT 1 FROM session_names n WHERE n.session_id = s.id AND n.name IN"
        " (o.session_key, o.session_id)))"
    )
    waiting = all_rows(
        connection,
        f"SELECT seq, advancement_key FROM turn_outbox o WHERE at < ? AND NOT {kept} ORDER BY seq LIMIT ?",
        (before, limits.RETENTION_BATCH),
    )
    for seq, key in waiting:
        # one turn's messages at a time: each may be megabytes
        kept = connection.execute("SELECT messages FROM turn_outbox WHERE seq = ?", (seq,)).get
        drop(connection, seq, key, json.loads(kept) if isinstance(kept, str) else [], gone.samples)
        gone.tally.waiting += 1
    return len(waiting) == limits.RETENTION_BATCH
