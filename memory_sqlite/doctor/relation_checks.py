"""Findings about what rests on what in the store: records on turns, turns of the outbox on their engines.

Called by ``examine``. Not here: foreign keys and tombstones (``store_checks``).
"""

from __future__ import annotations

from typing import Final

import apsw

from memory_sqlite import retention
from memory_sqlite.doctor import store_checks
from memory_sqlite.doctor.finding import Evidence, Finding
from memory_sqlite.doctor.place import Place
from memory_sqlite.storage.fetch import all_rows, one_row
from memory_sqlite.transcripts.identity import text_digest

ATTEMPTS_MANY: Final = 5
"""A turn refused so often is not refused by chance: each delivery is tried anew only when a host drains its outbox."""
RETENTION_SLACK_MS: Final = 2 * 24 * 60 * 60 * 1000

_SOURCES: Final = """
WITH rests (record, turn) AS (
  SELECT id, turn_id FROM records WHERE turn_id IS NOT NULL
  UNION SELECT record_id, turn_id FROM record_sources
),
judged AS (
  SELECT r.record, EXISTS (SELECT 1 FROM messages m WHERE m.turn_id = r.turn) AS alive FROM rests r
)
SELECT r.record_id, r.layer, max(j.alive) FROM judged j JOIN records r ON r.id = j.record
GROUP BY j.record HAVING min(j.alive) = 0 ORDER BY r.layer, r.id
"""
"""Records of which a turn is gone or has lost its messages, and whether another of their turns is whole."""


def rows(place: Place) -> list[Finding]:
    """References, tombstones, forgettings under way, and what records rest on."""
    with place.store() as store:
        found = [
            one
            for one in store_checks.contents(store, place.session_key())
            if one.code != "forgetting_unfinished" or not _under_way(place, store)
        ]
        return [*found, *_texts(store), *_dangling(store)]


def _texts(store: apsw.Connection) -> list[Finding]:
    """Messages whose text has not the digest that was made of it: a file in clear has no other check of its bytes."""
    changed = 0
    for role, text, digest in store.execute("SELECT CAST(role AS BLOB), CAST(text AS BLOB), text_digest FROM messages"):
        try:
            changed += text_digest(bytes(role).decode(), bytes(text).decode()) != bytes(digest)
        except UnicodeDecodeError:
            changed += 1
    return [Finding("texts_changed", {"messages": changed})] if changed else []


def _under_way(place: Place, store: apsw.Connection) -> bool:
    row = one_row(store, "SELECT max(at) FROM forgettings")
    return row is not None and row[0] is not None and place.is_recent(int(row[0]))


def _dangling(store: apsw.Connection) -> list[Finding]:
    rows = all_rows(store, _SOURCES)
    if not rows:
        return []
    evidence: Evidence = {"records": len(rows)}
    for layer in ("L1", "L2", "L3"):
        number = sum(1 for row in rows if row[1] == layer)
        if number:
            evidence[layer] = number
    partly = sum(1 for row in rows if row[2])
    evidence |= {"without_any_source": len(rows) - partly, "partly_sourced": partly}
    bare = [str(row[0]) for row in rows if not row[2]]
    return [Finding("sources_dangling", evidence, [*bare, *(str(row[0]) for row in rows if row[2])])]


def expired(place: Place) -> list[Finding]:
    """What retention should have taken long since: a host that serves does so once a day, so two days are no debt."""
    now = place.clock.now_ms()
    with place.store() as store:
        if not retention.debt(store, place.settings, now - RETENTION_SLACK_MS)["sessions"]:
            return []
        due: Evidence = dict(retention.debt(store, place.settings, now))
    return [Finding("retention_due", due)]


def outbox(place: Place) -> list[Finding]:
    """Turns that their context engine will never have, or refuses every time."""
    with place.store() as store:
        blocked = all_rows(store, "SELECT engine_id, count(*) FROM turn_outbox WHERE state = 'blocked' GROUP BY 1")
        refused = all_rows(
            store,
            "SELECT engine_id, count(*), max(attempts) FROM turn_outbox WHERE state <> 'blocked' AND attempts >= ?"
            " GROUP BY 1",
            (ATTEMPTS_MANY,),
        )
    found = [Finding("outbox_blocked", {"turns": int(number)}, [str(engine)]) for engine, number in blocked]
    found += [
        Finding("outbox_refused", {"turns": int(number), "attempts": int(attempts)}, [str(engine)])
        for engine, number, attempts in refused
    ]
    return found
