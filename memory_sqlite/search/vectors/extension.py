"""sqlite-vec on a connection: loaded when a vector is first asked for, and done without where it will not load.

The extension is loaded by its path, which costs 0.1 ms; importing its Python package would import NumPy and sqlite3
(104 ms, and a second SQLite in the process). Loading is allowed for this one call and never from SQL. Called by
``nearest``.
"""

from __future__ import annotations

import os
import weakref
from typing import Final

import apsw

_loaded: Final[weakref.WeakKeyDictionary[apsw.Connection, bool]] = weakref.WeakKeyDictionary()


def load(connection: apsw.Connection) -> bool:
    """Whether the connection has sqlite-vec's functions; tried once for each connection.

    Not there: the package is not installed, its binary is for another machine, or this SQLite loads no extensions.
    """
    known = _loaded.get(connection)
    if known is None:
        known = _loaded[connection] = _load(connection)
    return known


def _load(connection: apsw.Connection) -> bool:
    place = path()
    if place is None:
        return False
    try:
        connection.enable_load_extension(True)
        try:
            connection.load_extension(place, "sqlite3_vec_init")
        finally:
            connection.enable_load_extension(False)
    except (apsw.Error, AttributeError, OSError):
        return False
    return True


def path() -> str | None:
    """Where the extension lies, without the ending that SQLite adds; ``None`` where it is not installed."""
    from importlib.util import find_spec

    try:
        spec = find_spec("sqlite_vec")
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None:
        return None
    return os.path.join(os.path.dirname(spec.origin), "vec0")  # noqa: PTH118, PTH120
