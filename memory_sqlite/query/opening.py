"""A connection that a query may be given: store and index for reading, the views, and every bound that SQLite keeps.

Called by ``running``, once a query: what is open is let go with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import apsw

from memory_sqlite import errors, limits, paths
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.generations import registry
from memory_sqlite.query import views
from memory_sqlite.query.permitted import Permitted
from memory_sqlite.storage.connection import attach_index, open_query
from memory_sqlite.storage.failures import translated

_TRIES: Final = 3
"""A generation may be retired between asking for its number and opening it; then there is another one."""
_BOUNDS: Final = {
    apsw.SQLITE_LIMIT_LENGTH: limits.QUERY_VALUE_MAX_BYTES,
    apsw.SQLITE_LIMIT_SQL_LENGTH: 4 * limits.QUERY_SQL_MAX_CHARS,
    apsw.SQLITE_LIMIT_COLUMN: limits.QUERY_COLUMNS_MAX,
    apsw.SQLITE_LIMIT_EXPR_DEPTH: limits.QUERY_EXPRESSION_DEPTH,
    apsw.SQLITE_LIMIT_COMPOUND_SELECT: limits.QUERY_COMPOUND_MAX,
    apsw.SQLITE_LIMIT_VDBE_OP: limits.QUERY_PROGRAM_MAX,
    apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: limits.QUERY_LIKE_MAX_CHARS,
    apsw.SQLITE_LIMIT_VARIABLE_NUMBER: limits.QUERY_PARAMETERS_MAX,
    apsw.SQLITE_LIMIT_ATTACHED: 0,
    apsw.SQLITE_LIMIT_TRIGGER_DEPTH: 0,
    apsw.SQLITE_LIMIT_WORKER_THREADS: 0,
}


def open_for_query(store: Path | None, key: FileKey | None) -> tuple[apsw.Connection, Permitted, bool]:
    """Connection, its authorizer (not yet in force: tables over files come first), and whether an index was there.

    Raises the errors of opening a store and ``IndexUnavailable``.
    """
    connection = open_query(store, key)
    try:
        permitted = Permitted(connection)
        has_index = False
        if store is not None:
            with translated("the store"):
                has_index = _attach_current(connection, store.parent)
                selects = views.statements(with_index=has_index)
                for name, select in selects.items():
                    connection.execute(f"CREATE TEMP VIEW {name} AS {select}").fetchall()
                permitted.allow_views(tuple(selects))
        _cover(connection)
        connection.pragma("query_only", True)
        for bound, value in _BOUNDS.items():
            connection.limit(bound, value)
    except BaseException:
        connection.close()
        raise
    return connection, permitted, has_index


def _cover(connection: apsw.Connection) -> None:
    """A view that is always refused in place of each table and module that no query may name.

    The authorizer alone is not enough: SQLite asks it nothing about a column that only USING or NATURAL compares.
    """
    named: set[str] = {"carray"}  # a module that is there without being listed
    for schema in connection.db_names():
        rows = connection.execute(f"SELECT name FROM {schema}.sqlite_schema WHERE type = 'table'")
        named.update(str(name) for (name,) in rows)
    named.update(str(name) for (name,) in connection.execute("PRAGMA module_list"))
    views_there = {str(name) for (name,) in connection.execute("SELECT name FROM temp.sqlite_schema")}
    for name in sorted(named - views_there):
        if not name.startswith(("sqlite_", "pragma_")):
            connection.execute(f'CREATE TEMP VIEW "{name}" AS SELECT sql FROM main.sqlite_schema').fetchall()


def _attach_current(connection: apsw.Connection, directory: Path) -> bool:
    for left in reversed(range(_TRIES)):
        current = registry.current(connection)
        if current is None:
            return False
        try:
            attach_index(connection, paths.generation_file(directory, current.number), views.INDEX)
        except (errors.IndexUnavailable, errors.StoreBusy):
            if views.INDEX in connection.db_names():
                connection.execute(f"DETACH {views.INDEX}").fetchall()
            if not left:
                return False  # a query of the store is answered without it, and says so
        else:
            return True
    return False
