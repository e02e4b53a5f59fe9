"""What a query may do: read what the views read, call functions that only compute. Everything else is refused.

SQLite asks the authorizer about each table, column and function while it compiles a statement. What may be read is a
list of columns, found by asking which ones the views themselves read. That a read comes from within a view of ours is
no ground: a query can name its own subquery like a view (tried: SQLite then gives that name). Called by ``running``.
"""

from __future__ import annotations

from typing import Final

import apsw

_NAMES: Final = """
    -> ->> abs acos acosh asin asinh atan atan2 atanh avg ceil ceiling char coalesce concat concat_ws cos cosh count
    cume_dist current_date current_time current_timestamp date datetime degrees dense_rank exp first_value floor format
    glob group_concat hex if ifnull iif instr json json_array json_array_insert json_array_length json_error_position
    json_extract json_group_array json_group_object json_insert json_object json_patch json_pretty json_quote
    json_remove json_replace json_set json_type json_valid jsonb jsonb_array jsonb_array_insert jsonb_extract
    jsonb_group_array jsonb_group_object jsonb_insert jsonb_object jsonb_patch jsonb_remove jsonb_replace jsonb_set
    julianday lag last_value lead length like likelihood likely ln log log10 log2 lower ltrim max median min mod
    nth_value ntile nullif octet_length percent_rank percentile percentile_cont percentile_disc pi pow power printf
    quote radians random randomblob rank replace round row_number rtrim sign sin sinh sqlite_version sqrt strftime
    string_agg substr substring sum tan tanh time timediff total trim trunc typeof unhex unicode unistr unistr_quote
    unixepoch unlikely upper zeroblob"""
_COMPUTING: Final = frozenset(_NAMES.split())
"""SQLite's functions that look at nothing but their arguments. Not among them: ``load_extension``, the cipher's
(``sqlite3mc_codec_data`` tells about keys), those of full-text tables, ``sqlite_log``."""

_PRAGMAS: Final = frozenset({"table_info", "table_xinfo"})
"""What a view's columns are; they change nothing."""
_TABLES: Final = frozenset({"json_each", "json_tree", "jsonb_each", "jsonb_tree", "pragma_table_info"})
_PLAIN: Final = frozenset({apsw.SQLITE_SELECT, apsw.SQLITE_RECURSIVE})


class Permitted:
    """An authorizer for one connection. ``allow`` first, then ``set``; ``refused`` says what a statement asked for."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._columns: set[tuple[str | None, str | None, str | None]] = set()
        self._tables = {(None, name) for name in _TABLES}
        self._real: set[str] = set()
        self.refused: str | None = None

    def allow_views(self, names: tuple[str, ...]) -> None:
        """Let the views be read, and of the tables what they read."""

        def record(action: int, table: str | None, column: str | None, schema: str | None, _: str | None) -> int:
            if action == apsw.SQLITE_READ:
                self._columns.add((schema, table, column))
            return apsw.SQLITE_OK

        self._connection.authorizer = record
        for name in names:
            # EXPLAIN compiles it, which asks about every column, and runs nothing
            self._connection.execute(f"EXPLAIN SELECT * FROM temp.{name}").fetchall()
        self._connection.authorizer = None
        for schema in [name for name in self._connection.db_names() if name != "temp"]:
            rows = self._connection.execute(f"SELECT name FROM {schema}.sqlite_schema")
            self._real.update(str(name).lower() for (name,) in rows)
        self._real.difference_update(names)  # a view may be counted, whatever the table is called

    def allow_table(self, name: str) -> None:
        """Let a virtual table of ours be read."""
        self._tables.add((None, name))

    def set(self) -> None:
        """From now on the connection refuses what is not allowed."""
        self._connection.authorizer = self._ask

    def _ask(self, action: int, one: str | None, two: str | None, schema: str | None, _: str | None) -> int:
        if action in _PLAIN:
            return apsw.SQLITE_OK
        if action == apsw.SQLITE_READ:
            if (schema, one, two) in self._columns or (None, one) in self._tables:
                return apsw.SQLITE_OK
            if two == "" and one is not None and not self._is_table(one):  # a subquery of which no column is read
                return apsw.SQLITE_OK
            self.refused = "that table or column is not open to queries"
        elif action == apsw.SQLITE_FUNCTION:
            if (two or "").lower() in _COMPUTING:
                return apsw.SQLITE_OK
            self.refused = "that function is not open to queries"
        elif action == apsw.SQLITE_PRAGMA:
            if (one or "").lower() in _PRAGMAS:
                return apsw.SQLITE_OK
            self.refused = "PRAGMA is not open to queries"
        else:
            self.refused = "a query only reads: it changes nothing and opens no database"
        return apsw.SQLITE_DENY

    def _is_table(self, name: str) -> bool:
        known = name.lower()
        return known in self._real or known.startswith(("sqlite_", "pragma_", "dbstat", "fts"))
