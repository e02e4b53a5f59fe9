"""What the rows of each b-tree of a store look like: taken from a fresh store of the same version, never from the file.

Lives here: tables and indexes with their columns in the order in which a file holds them, and whether a row can be one
of theirs. Called by ``tree_walk`` and ``salvaged_rows``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import apsw

from memory_sqlite.doctor.tree_pages import Value
from memory_sqlite.storage import connection as connections
from memory_sqlite.storage import migrate
from memory_sqlite.storage.fetch import all_rows
from memory_sqlite.values import dataclass

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "TEXT": (str,),
    "INTEGER": (int,),
    "REAL": (int, float),
    "BLOB": (bytes,),
}
"""Types of a STRICT table. SQLite keeps a real without a fraction as an integer."""


@dataclass(frozen=True, slots=True)
class Column:
    """``kinds`` are the Python types of its values; ``nullable`` says whether it may hold none."""

    name: str
    kinds: tuple[type, ...]
    nullable: bool


@dataclass(frozen=True, slots=True)
class Shape:
    """One b-tree. ``rowid`` is the column that is the row's number: not among the values of a table's row, and the last
    value of an index's; ``None`` for a table without one. ``is_table``: its rows are whole rows of ``table``."""

    name: str
    table: str
    columns: tuple[Column, ...]
    rowid: str | None
    is_table: bool
    is_index_tree: bool
    least: int
    """Values that a row has at least: the newest columns of a table may be missing from rows of an older version."""

    def fits(self, rowid: int, values: Sequence[Value]) -> bool:
        """Whether this can be one of its rows."""
        if not self.least <= len(values) <= len(self.columns):
            return False
        return all(
            column.nullable if value is None else isinstance(value, column.kinds)
            for column, value in zip(self.columns, values, strict=False)
        )

    def named(self, rowid: int, values: Sequence[Value]) -> dict[str, Value]:
        """The row by its columns' names."""
        row = {column.name: value for column, value in zip(self.columns, values, strict=False)}
        if self.rowid is not None and not self.is_index_tree:
            row[self.rowid] = rowid
        return row


def fresh(connection: apsw.Connection, version: int) -> None:
    """Make the schema of that version in an empty database."""
    for number, sql in migrate.scripts()[:version]:
        connection.execute(sql).fetchall()
        connection.pragma("application_id", migrate.APPLICATION_ID)
        connection.pragma("user_version", number)


def shapes(version: int) -> dict[str, Shape]:
    """Every b-tree of a store of that version by its name; ``sqlite_schema`` among them."""
    connection = connections.open_scratch()
    try:
        fresh(connection, version)
        text, number = Column("", (str,), True), Column("", (int,), True)
        found = {
            "sqlite_schema": Shape(
                "sqlite_schema", "sqlite_schema", (text, text, text, number, text), None, True, False, 5
            )
        }
        for name, kind, without_rowid in all_rows(
            connection, "SELECT name, type, wr FROM pragma_table_list WHERE schema = 'main' AND name <> 'sqlite_schema'"
        ):
            if kind == "table":
                _add(found, connection, str(name), bool(without_rowid))
        return found
    finally:
        connection.close()


def _add(found: dict[str, Shape], connection: apsw.Connection, table: str, without_rowid: bool) -> None:
    rows = all_rows(connection, 'SELECT name, type, "notnull", pk, dflt_value FROM pragma_table_info(?)', (table,))
    keys = [str(name) for name, kind, _, pk, _ in rows if pk and kind == "INTEGER"]
    rowid = keys[0] if not without_rowid and len(keys) == 1 and sum(bool(row[3]) for row in rows) == 1 else None
    columns = {
        str(name): Column(str(name), _kinds(table, str(name), str(kind)), not required and not (pk and without_rowid))
        for name, kind, required, pk, _ in rows
    }
    if not without_rowid:
        stored = tuple(Column(c.name, (), True) if c.name == rowid else c for c in columns.values())
        needed = [place for place, (_, _, required, _, default) in enumerate(rows, 1) if required and default is None]
        found[table] = Shape(table, table, stored, rowid, True, False, max(needed, default=len(rows)))
    whole = dict(columns)
    if rowid is not None:
        whole[rowid] = Column(rowid, (int,), False)
    for name, origin in all_rows(connection, "SELECT name, origin FROM pragma_index_list(?)", (table,)):
        held = all_rows(connection, "SELECT cid, name FROM pragma_index_xinfo(?) ORDER BY seqno", (name,))
        names = [rowid if cid == -1 else str(column) for cid, column in held]
        if any(column is None for column in names):
            continue  # of a table whose row number is no column: nothing of ours
        stored = tuple(whole[str(column)] for column in names)
        if without_rowid and origin == "pk":
            found[table] = Shape(table, table, stored, None, True, True, len(stored))
        else:
            found[str(name)] = Shape(str(name), table, stored, rowid, False, True, len(stored))


def _kinds(table: str, column: str, kind: str) -> tuple[type, ...]:
    if table == "sqlite_sequence":  # SQLite's own, which says no types
        return (str,) if column == "name" else (int,)
    return _TYPES[kind]
