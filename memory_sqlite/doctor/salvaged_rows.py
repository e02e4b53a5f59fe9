"""Putting what can be read of a damaged store into a new one: whole rows, rows from indexes, the parents they need.

A row whose page is lost is put together from the indexes that hold its columns. Sessions and turns are made anew where
only what belongs to them is left, with what is known of them and nothing that would let anybody see more than before: a
session nobody knows is of unknown kind, which only the operator reads. Called by ``salvage``.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import apsw

from memory_sqlite import paths
from memory_sqlite.doctor import tree_walk
from memory_sqlite.doctor.tree_pages import Reader, Value
from memory_sqlite.doctor.tree_shapes import Shape
from memory_sqlite.doctor.tree_walk import Forest
from memory_sqlite.storage.fetch import all_rows
from memory_sqlite.values import dataclass

LEFT_OUT: Final = frozenset({"generations", "sqlite_schema", "sqlite_sequence", "sqlite_stat1", "sqlite_stat4"})
"""Generations are files that are not taken along; the last three are SQLite's own."""
_FIRST: Final = ("store_info", "sessions", "turns", "messages", "records", "tombstones")

_LOST_TURNS: Final = "SELECT DISTINCT turn_id FROM messages WHERE turn_id NOT IN (SELECT id FROM turns)"
_LOST_SESSIONS: Final = (
    "SELECT session_id FROM turns UNION SELECT session_id FROM messages UNION SELECT session_id FROM records"
    " EXCEPT SELECT id FROM sessions"
)
COUNTS: Final = ("rows", "from_indexes", "made", "refused", "lost", "unfounded", "broken")


@dataclass
class Salvaged:
    """What became of one table: ``rows`` read whole, ``from_indexes`` put together from indexes, ``made`` anew as the
    parent of others, ``refused`` by the schema's own rules, ``lost`` that an index still names, ``unfounded`` without
    the row that they belong to, ``broken`` cells of its pages that cannot be read."""

    rows: int = 0
    from_indexes: int = 0
    made: int = 0
    refused: int = 0
    lost: int = 0
    unfounded: int = 0
    broken: int = 0


class Filling:
    """Fills one empty store, whose foreign keys are off until ``mend`` has seen to them."""

    def __init__(
        self, target: apsw.Connection, reader: Reader, forest: Forest, shapes: dict[str, Shape], key: bytes, now: int
    ) -> None:
        self._target = target
        self._reader, self._forest, self._shapes = reader, forest, shapes
        self._key, self._now = key, now
        self._known: dict[str, dict[Value, dict[str, Value]]] = {"turns": {}, "sessions": {}}
        tables = [shape.table for shape in shapes.values() if shape.is_table and shape.table not in LEFT_OUT]
        self.tables = [*_FIRST, *sorted(set(tables).difference(_FIRST))]
        self.report = {table: Salvaged() for table in self.tables}
        self._keys = {table: self._primary(table) for table in self.tables}

    def _primary(self, table: str) -> list[str]:
        rows = all_rows(self._target, "SELECT name FROM pragma_table_info(?) WHERE pk ORDER BY pk", (table,))
        return [str(name) for (name,) in rows]

    def table(self, table: str) -> None:
        """Everything of one table: its rows, then what its indexes know besides where it is not whole."""
        report = self.report[table]
        for row in tree_walk.rows(self._reader, self._forest, self._shapes[table]):
            if self._insert(table, row):
                report.rows += 1
            elif not self._has(table, row):  # the same row on two pages is one row
                report.refused += 1
        report.broken = self._forest.broken_cells.get(table, 0)
        if table in self._forest.incomplete:
            self._from_indexes(table)

    def _from_indexes(self, table: str) -> None:
        parts: dict[tuple[Value, ...], dict[str, Value]] = defaultdict(dict)
        for shape in self._shapes.values():
            if shape.table == table and not shape.is_table:
                for row in tree_walk.rows(self._reader, self._forest, shape):
                    key = tuple(row.get(name) for name in self._keys[table])
                    if None not in key and not self._has(table, row):
                        parts[key].update(row)
        for row in parts.values():
            if self._insert(table, row):
                self.report[table].from_indexes += 1
            elif table in self._known:
                self._known[table][row["id"]] = row  # made anew when what belongs to it is there
            else:
                self.report[table].lost += 1

    def _has(self, table: str, row: dict[str, Value]) -> bool:
        where = " AND ".join(f"{name} = ?" for name in self._keys[table])
        values = tuple(row.get(name) for name in self._keys[table])
        return self._target.execute(f"SELECT 1 FROM {table} WHERE {where}", values).fetchone() is not None

    def _insert(self, table: str, row: dict[str, Value]) -> bool:
        names = ", ".join(row)
        marks = ", ".join("?" * len(row))
        try:
            self._target.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(row.values())).fetchall()
        except apsw.ConstraintError:
            return False
        return True

    def parents(self) -> None:
        """Turns, then sessions, of which an index knows a part or only what belongs to them is left."""
        for table, wanted, make in (("turns", _LOST_TURNS, self._turn), ("sessions", _LOST_SESSIONS, self._session)):
            known = self._known[table]
            for (number,) in all_rows(self._target, wanted):
                known.setdefault(number, {"id": number})
            for row in known.values():
                made = make(row)
                if made is not None and self._insert(table, made):
                    self.report[table].made += 1
                else:
                    self.report[table].lost += 1
        self._target.execute(
            "UPDATE sessions AS s SET"
            " turn_count = max(turn_count, (SELECT coalesce(max(ordinal), 0) FROM turns WHERE session_id = s.id)),"
            " message_count ="
            " max(message_count, (SELECT coalesce(max(position), 0) FROM messages WHERE session_id = s.id))"
        ).fetchall()

    def _turn(self, known: dict[str, Value]) -> dict[str, Value] | None:
        session, at = _one(self._target, "SELECT min(session_id), min(at) FROM messages WHERE turn_id = ?", known["id"])
        session = known.get("session_id", session)
        if session is None:
            return None
        free, _ = _one(self._target, "SELECT coalesce(max(ordinal), 0) + 1, 0 FROM turns WHERE session_id = ?", session)
        times = {"at": at or self._now, "recorded_at": at or self._now}
        return {"ordinal": free, **known, "session_id": session, "arrived_by": "salvage", **times}

    def _session(self, known: dict[str, Value]) -> dict[str, Value]:
        """What a session was decides who may see it, and that is lost: of unknown kind it is the operator's alone. It
        counts as imported now, so that it is not at once too old to be kept."""
        key = str(known.get("key") or f"salvaged-{known['id']!r}")
        token = known.get("token") or paths.session_token(self._key, key)
        first, last = _one(self._target, "SELECT min(at), max(at) FROM turns WHERE session_id = ?", known["id"])
        if "session_imports" in self.report:
            self._insert("session_imports", {"session_id": known["id"], "at": self._now})
        times = {"started_at": first or self._now, "active_at": last or self._now, "recorded_at": first or self._now}
        return {"id": known["id"], "key": key, "token": token, **times}

    def mend(self) -> None:
        """Every reference to a row that is lost goes: set to nothing where the schema does so, else with its row."""
        changed = True
        while changed:
            changed = False
            for table in self.tables:
                for parent, column, other, action in all_rows(
                    self._target, 'SELECT "table", "from", "to", on_delete FROM pragma_foreign_key_list(?)', (table,)
                ):
                    other = other or self._keys[str(parent)][0]
                    where = f"{column} IS NOT NULL AND {column} NOT IN (SELECT {other} FROM {parent})"
                    if action == "SET NULL":
                        self._target.execute(f"UPDATE {table} SET {column} = NULL WHERE {where}").fetchall()
                    else:
                        self._target.execute(f"DELETE FROM {table} WHERE {where}").fetchall()
                        self.report[table].unfounded += self._target.changes()
                    changed = changed or bool(self._target.changes())

    def numbers(self) -> None:
        """Numbers that were given out are not given out again: what SQLite kept of them, table by table."""
        for row in tree_walk.rows(self._reader, self._forest, self._shapes["sqlite_sequence"]):
            name, last = row["name"], row["seq"]
            self._target.execute(
                "UPDATE sqlite_sequence SET seq = max(seq, ?2) WHERE name = ?1", (name, last)
            ).fetchall()
            if not self._target.changes():
                self._target.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (name, last)).fetchall()

    def counted(self) -> dict[str, dict[str, int]]:
        """What became of each table, in the order in which they were filled."""
        return {table: {name: getattr(one, name) for name in COUNTS} for table, one in self.report.items()}


def _one(connection: apsw.Connection, sql: str, value: Value) -> tuple[Value, Value]:
    row = connection.execute(sql, (value,)).fetchone()
    assert row is not None, "an aggregate always has a row"
    return row[0], row[1]
