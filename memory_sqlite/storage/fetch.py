"""Typed reads: apsw types a column as any SQL value; these say what a query's author knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

Row = tuple[Any, ...]


def all_rows(connection: apsw.Connection, sql: str, bindings: Sequence[Any] = ()) -> list[Row]:
    """Every row of a query."""
    return connection.execute(sql, tuple(bindings)).fetchall()


def one_row(connection: apsw.Connection, sql: str, bindings: Sequence[Any] = ()) -> Row | None:
    """The first row of a query, or ``None``."""
    return connection.execute(sql, tuple(bindings)).fetchone()


def integer(connection: apsw.Connection, sql: str, bindings: Sequence[Any] = ()) -> int:
    """The first column of the first row of a query that always gives a number."""
    value = connection.execute(sql, tuple(bindings)).get
    assert isinstance(value, int), "the query gives a number"
    return value
