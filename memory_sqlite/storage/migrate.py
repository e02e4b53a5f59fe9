"""Bringing a store to the current schema: numbered scripts, one transaction each, refused when the file is newer.

An upgraded store equals a fresh one (tested against ``schema.sql``). Who calls it: ``storage.store`` on open.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Final

import apsw

from memory_sqlite import errors

APPLICATION_ID: Final = 0x6D73716C  # "msql"
_NAME = re.compile(r"^(\d{4})_[a-z0-9_]+\.sql$")


@cache
def scripts() -> tuple[tuple[int, str], ...]:
    """The migrations as (number, SQL), ascending and without gaps."""
    found = []
    for entry in resources.files("memory_sqlite.migrations").iterdir():
        match = _NAME.match(entry.name)
        if match:
            found.append((int(match[1]), entry.read_text(encoding="utf-8")))
    found.sort()
    assert [number for number, _ in found] == list(range(1, len(found) + 1)), "migrations are numbered without gaps"
    return tuple(found)


def latest() -> int:
    """The schema version this code writes."""
    return scripts()[-1][0]


def check(connection: apsw.Connection) -> int:
    """The version of the file, or an error when it is not one we may touch. Reads only.

    Raises ``SchemaTooNew``, and ``StoreDamaged`` for a database of somebody else.
    """
    # one snapshot: between two reads another process may make the schema, and half of it looks like somebody else's
    snapshot = not connection.in_transaction
    if snapshot:
        connection.execute("BEGIN DEFERRED")
    try:
        has_tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
        application_id = connection.pragma("application_id")
        version = connection.pragma("user_version")
    finally:
        if snapshot and connection.in_transaction:
            connection.execute("ROLLBACK")
    assert isinstance(version, int)
    if application_id != APPLICATION_ID:
        if application_id or version or has_tables:
            raise errors.StoreDamaged("the file named memory.sqlite is not a store of memory-sqlite")
        return 0
    if version > latest():
        raise errors.SchemaTooNew(f"the store has schema {version}; this version knows schemas up to {latest()}")
    return version


def migrate(connection: apsw.Connection) -> int:
    """Apply what is missing; returns how many scripts ran. Safe when several processes open a new store at once."""
    applied = 0
    for number, sql in scripts():
        if check(connection) >= number:
            continue
        with connection:
            if check(connection) >= number:  # another process was faster
                continue
            for _ in connection.execute(sql):
                pass
            connection.pragma("application_id", APPLICATION_ID)
            connection.pragma("user_version", number)
            applied += 1
    return applied
