"""The store's schema against a fresh one: tables, columns and indexes that are missing, changed or not ours.

A fresh one is made in memory by the same numbered scripts, up to the store's own version. Called by ``store_state``,
and by ``fixing`` for the indexes that can be made again. Not here: applying migrations to a file.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import apsw

from memory_sqlite.doctor.finding import Evidence, Finding
from memory_sqlite.storage import connection as connections
from memory_sqlite.storage import migrate
from memory_sqlite.storage.fetch import all_rows

_OBJECTS: Final = (
    "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
)
_REPLICATORS: Final = frozenset({"_litestream_seq", "_litestream_lock"})
"""Tables that a program makes which copies the log elsewhere (docs/backup.md): welcome, and no fault."""
Schema = dict[tuple[str, str], str]


def differences(store: apsw.Connection, version: int) -> list[Finding]:
    """One finding with the names of our own objects that are missing or changed; strange ones are counted only."""
    if version == 0:
        return []
    there, fresh = _read(store), _fresh(version)
    missing = sorted(name for kind, name in fresh if (kind, name) not in there)
    changed = sorted(name for (kind, name), sql in fresh.items() if there.get((kind, name), sql) != sql)
    strange = sum(1 for kind, name in there.keys() - fresh.keys() if name not in _REPLICATORS)
    if not missing and not changed and not strange:
        return []
    evidence: Evidence = {"schema": version}
    if missing:
        evidence["missing"] = ", ".join(missing)
    if changed:
        evidence["changed"] = ", ".join(changed)
    if strange:
        evidence["strange"] = strange
    return [Finding("schema_differs", evidence)]


def missing_indexes(store: apsw.Connection, version: int) -> list[str]:
    """The statements that make the indexes again which are not there."""
    there = _read(store)
    return [sql for (kind, name), sql in _fresh(version).items() if kind == "index" and (kind, name) not in there]


def own_tables() -> frozenset[str]:
    """Tables that stores of ours have. Any other may be called as a person pleased, and is never told by its name."""
    return frozenset(name for kind, name in _fresh(migrate.latest()) if kind == "table") | {"sqlite_schema"}


def told(tables: Collection[str]) -> str:
    """Tables as evidence: ours by their names, of others how many."""
    own = own_tables()
    names = sorted(name for name in tables if name in own)
    others = sum(1 for name in tables if name not in own)
    return ", ".join([*names, *([f"{others} not ours"] if others else [])])


def _read(connection: apsw.Connection) -> Schema:
    return {(str(kind), str(name)): " ".join(str(sql).split()) for kind, name, sql in all_rows(connection, _OBJECTS)}


def _fresh(version: int) -> Schema:
    connection = connections.open_scratch()
    try:
        for number, sql in migrate.scripts():
            if number <= version:
                for _ in connection.execute(sql):
                    pass
        return _read(connection)
    finally:
        connection.close()
