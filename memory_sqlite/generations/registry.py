"""Rows of ``generations`` in the store: which number is current, the next one, publishing, retiring.

Publishing is one row flip inside the store's write transaction. Numbers are never used twice.
"""

from __future__ import annotations

import json
from typing import Any, Literal

import apsw

from memory_sqlite import errors
from memory_sqlite.values import dataclass

State = Literal["building", "current", "retired"]


@dataclass(frozen=True, slots=True)
class Generation:
    """One row of ``generations``."""

    number: int
    identity: dict[str, Any]
    state: State
    created_at: int
    published_at: int | None


def _generation(row: tuple[Any, ...]) -> Generation:
    return Generation(row[0], json.loads(row[1]), row[2], row[3], row[4])


def current(connection: apsw.Connection) -> Generation | None:
    """The generation that new readers open, or ``None`` before the first build."""
    row = connection.execute(
        "SELECT number, identity, state, created_at, published_at FROM generations WHERE state = 'current'"
    ).fetchone()
    return _generation(row) if row else None


def by_state(connection: apsw.Connection, state: State) -> list[Generation]:
    """All generations in a state, oldest first."""
    rows = connection.execute(
        "SELECT number, identity, state, created_at, published_at FROM generations WHERE state = ? ORDER BY number",
        (state,),
    )
    return [_generation(row) for row in rows]


def begin(connection: apsw.Connection, identity: dict[str, Any], now: int) -> int:
    """A new number in state ``building``; inside the caller's transaction."""
    connection.execute(
        "INSERT INTO generations (identity, state, created_at) VALUES (?, 'building', ?)", (json.dumps(identity), now)
    )
    return connection.last_insert_rowid()


def publish(connection: apsw.Connection, number: int, now: int) -> None:
    """Flip: the one that was current is retired, ``number`` becomes current; inside the caller's transaction.

    Raises ``IndexUnavailable`` when ``number`` is not being built (any more): the current one then stays.
    """
    connection.execute("UPDATE generations SET state = 'retired', retired_at = ? WHERE state = 'current'", (now,))
    connection.execute(
        "UPDATE generations SET state = 'current', published_at = ? WHERE number = ? AND state = 'building'",
        (now, number),
    )
    if connection.changes() != 1:
        raise errors.IndexUnavailable("the search index that was built is not known to the store any more")


def forsake(connection: apsw.Connection, number: int) -> None:
    """Drop the row of any generation whose file was taken away, also the current one: then there is none; inside the
    caller's transaction."""
    connection.execute("DELETE FROM generations WHERE number = ?", (number,))


def remove(connection: apsw.Connection, number: int) -> None:
    """Drop the row of a generation whose file is gone; its number stays used."""
    connection.execute("DELETE FROM generations WHERE number = ? AND state <> 'current'", (number,))
