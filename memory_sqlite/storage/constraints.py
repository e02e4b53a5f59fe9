"""Rows that break the rules of their own table: a flipped bit in a word that can be one of a few, for instance.

SQLite's ``integrity_check`` looks for them only through a connection that may write the file, and says nothing of it
(measured with 3.54). Reads only. Called by whatever proves a store: ``backup.checking`` and ``doctor``.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

import apsw

from memory_sqlite.storage import connection as connections
from memory_sqlite.storage import migrate
from memory_sqlite.storage.fetch import all_rows, integer

_CHECK: Final = re.compile(r"\bCHECK\s*\(", re.I)
_PART: Final = re.compile(r"'(?:[^']|'')*'|[()]")


def broken(connection: apsw.Connection, schema: int) -> dict[str, int]:
    """Rows that no store of that version can have, by table; tables without any are left out.

    A table that lacks columns is passed over: that is another fault. Raises SQLite's errors for pages it cannot read.
    """
    found = {}
    for table, rules in _rules(schema).items():
        where = " OR ".join(f"NOT ({rule})" for rule in rules)
        try:
            rows = integer(connection, f"SELECT count(*) FROM {table} WHERE {where}")
        except apsw.SQLError:
            continue
        if rows:
            found[table] = rows
    return found


@cache
def _rules(schema: int) -> dict[str, tuple[str, ...]]:
    """The rules of each table, from a fresh store and never from the file."""
    fresh = connections.open_scratch()
    try:
        for number, script in migrate.scripts():
            if number <= schema:
                fresh.execute(script).fetchall()
        tables = all_rows(fresh, "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND sql IS NOT NULL")
        return {str(name): rules for name, sql in tables if (rules := tuple(_rules_in(str(sql))))}
    finally:
        fresh.close()


def _rules_in(sql: str) -> list[str]:
    """What stands between the parentheses of each CHECK of a statement of ours."""
    found = []
    for begin in _CHECK.finditer(sql):
        depth = 1
        for part in _PART.finditer(sql, begin.end()):
            depth += {"(": 1, ")": -1}.get(part[0], 0)
            if not depth:
                found.append(sql[begin.end() : part.start()])
                break
    return found
