"""Looking into one store's file through SQLite: whether it is sound, is ours, and what it holds.

Reads only. Not here: bytes and digests (``files``). Called by ``copying``, ``verifying`` and ``restoring``.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import apsw

from memory_sqlite import errors, paths
from memory_sqlite.backup.reports import AgentCopy
from memory_sqlite.storage import connection as connections
from memory_sqlite.storage import constraints, migrate
from memory_sqlite.storage.failures import translated
from memory_sqlite.storage.fetch import all_rows, integer
from memory_sqlite.storage.session_key import fingerprint

_COLUMNS: Final = (
    "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c"
    " WHERE t.type = 'table' AND t.sql NOT LIKE 'CREATE VIRTUAL%'"
)
_PROBLEMS_MOST: Final = 100
"""SQLite stops looking after so many; one is enough to know."""


def counts(connection: apsw.Connection) -> dict[str, int]:
    """Rows of every table, also of those that another program has added."""
    names = all_rows(
        connection,
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
        " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
    )
    return {name: integer(connection, f"SELECT count(*) FROM {_quoted(name)}") for (name,) in names}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _columns(connection: apsw.Connection) -> set[tuple[str, str]]:
    return {(str(table), str(column)) for table, column in all_rows(connection, _COLUMNS)}


@cache
def _columns_of(schema: int) -> set[tuple[str, str]]:
    """The tables and columns that the numbered scripts make up to that version."""
    connection = connections.open_scratch()
    try:
        for number, sql in migrate.scripts():
            if number <= schema:
                connection.execute(sql).fetchall()
        return _columns(connection)
    finally:
        connection.close()


def look(connection: apsw.Connection, directory: str, session_key: bytes) -> AgentCopy:
    """What a store holds that lies in the agent directory of that name, proved sound first.

    Raises ``StoreDamaged`` for a file that SQLite finds faults in, that holds what no store of ours has, belongs to
    another agent, or was made under another ``session.key``; ``SchemaTooNew``.
    """
    with translated("the store"):
        schema = migrate.check(connection)
        if schema == 0:
            raise errors.StoreDamaged("the store is empty")
        if lacking := len(_columns_of(schema) - _columns(connection)):
            raise errors.StoreDamaged(f"the store lacks {lacking} columns that its version has")
        # a trigger or a view of somebody else would run on our next write
        if integer(connection, "SELECT count(*) FROM sqlite_schema WHERE type IN ('trigger', 'view')"):
            raise errors.StoreDamaged("the store has triggers or views, which none of ours has")
        found = all_rows(connection, f"PRAGMA integrity_check({_PROBLEMS_MOST})")
        if found != [("ok",)]:
            raise errors.StoreDamaged(f"the store is damaged: SQLite finds {len(found)} faults")
        if rows := sum(constraints.broken(connection, schema).values()):
            raise errors.StoreDamaged(f"the store is damaged: {rows} rows hold what none of ours can")
        if broken := len(all_rows(connection, "PRAGMA foreign_key_check")):
            raise errors.StoreDamaged(f"the store is damaged: {broken} rows refer to what is not there")
        said: dict[str, str] = dict(all_rows(connection, "SELECT key, value FROM store_info"))
        agent = said.get("agent")
        if agent is not None and paths.agent_directory_name(agent) != directory:
            raise errors.StoreDamaged("the store belongs to another agent than its folder")
        if said.get("session_key_fingerprint", fingerprint(session_key)) != fingerprint(session_key):
            raise errors.StoreDamaged("the store was made under another session.key than the one beside it")
        return AgentCopy(directory, agent, schema, counts(connection))
