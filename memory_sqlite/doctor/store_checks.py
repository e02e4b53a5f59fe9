"""Findings about the store: is it whole, is everything forgotten gone, is nothing half done. Called by ``verify``."""

from __future__ import annotations

import apsw

from memory_sqlite.doctor import schema
from memory_sqlite.doctor.finding import Finding
from memory_sqlite.storage import constraints, tombstones
from memory_sqlite.storage.fetch import all_rows, integer


def damaged(reason: str) -> Finding:
    """The store cannot be read."""
    return Finding("store_damaged", {"reason": reason})


def check(store: apsw.Connection, key: bytes | None) -> list[Finding]:
    """Everything that can be told from the store alone."""
    problems = [str(row[0]) for row in all_rows(store, "PRAGMA integrity_check(20)")]
    if problems != ["ok"]:
        return [damaged(f"{len(problems)} integrity problems")]
    return [*constrained(store), *contents(store, key)]


def constrained(store: apsw.Connection) -> list[Finding]:
    """Rows that hold what none of their table can, in a store whose pages are sound."""
    broken = constraints.broken(store, integer(store, "PRAGMA user_version"))
    if not broken:
        return []
    return [Finding("store_damaged", {"rows": sum(broken.values()), "tables": ", ".join(sorted(broken))})]


def contents(store: apsw.Connection, key: bytes | None) -> list[Finding]:
    """The same of a store whose pages are sound."""
    return [*_references(store), *_generation_rows(store), *_unfinished(store), *_forgotten(store, key)]


def _references(store: apsw.Connection) -> list[Finding]:
    broken = all_rows(store, "PRAGMA foreign_key_check")
    if not broken:
        return []
    tables = schema.told({str(row[0]) for row in broken})
    return [Finding("store_foreign_keys", {"rows": len(broken), "tables": tables})]


def _generation_rows(store: apsw.Connection) -> list[Finding]:
    current = integer(store, "SELECT count(*) FROM generations WHERE state = 'current'")
    if current <= 1:
        return []
    return [Finding("index_several_current", {"generations": current})]


def _unfinished(store: apsw.Connection) -> list[Finding]:
    return [
        Finding("forgetting_unfinished", {"stage": str(stage), "forgettings": int(number)})
        for stage, number in all_rows(store, "SELECT stage, count(*) FROM forgettings GROUP BY stage")
    ]


def _forgotten(store: apsw.Connection, key: bytes | None) -> list[Finding]:
    """Rows that a tombstone speaks of. What was said in a forgotten session since is no trace of it."""
    unfinished = integer(store, "SELECT count(*) FROM forgettings WHERE stage = 'rows'")
    if unfinished:  # they are still to be deleted, and that is told already
        return []
    counts = {
        "records": integer(
            store,
            "SELECT count(*) FROM records r JOIN tombstones t ON t.kind = 'record' AND t.subject = r.record_id",
        ),
        "turns": integer(
            store,
            "SELECT count(DISTINCT m.turn_id) FROM tombstones t CROSS JOIN sessions s CROSS JOIN messages m"
            " ON m.session_id = s.id WHERE t.kind IN ('session', 'span') AND t.subject IN (s.token, ?1)"
            " AND m.at BETWEEN t.since_at AND t.until_at AND EXISTS (SELECT 1 FROM turns u WHERE u.id = m.turn_id"
            " AND u.recorded_at < t.at)",
            (tombstones.EVERYWHERE,),
        ),
    }
    if key is not None:
        counts["entries"] = _forgotten_entries(store, key)
    found = {name: number for name, number in counts.items() if number}
    return [Finding("forgotten_in_store", found)] if found else []


def _forgotten_entries(store: apsw.Connection, key: bytes) -> int:
    named = {str(subject) for (subject,) in all_rows(store, "SELECT subject FROM tombstones WHERE kind = 'entry'")}
    if not named:
        return 0
    found = 0
    for token, entry_id in store.execute(
        "SELECT s.token, e.entry_id FROM message_entries e JOIN sessions s ON s.id = e.session_id"
        " WHERE e.way = 'import'"  # what came live may have an old id for something new
    ):
        found += tombstones.entry(key, str(token), str(entry_id)) in named
    return found
