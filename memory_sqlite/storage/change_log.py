"""The store's change log: what happened to searchable rows, in commit order. Generations apply it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import apsw

from memory_sqlite.values import dataclass

Kind = Literal["message", "record", "session"]
Operation = Literal["put", "delete"]


@dataclass(frozen=True, slots=True)
class Change:
    """One row of the log; ``target`` is the row id of the message, record or session."""

    seq: int
    kind: Kind
    target: int
    op: Operation


def append(connection: apsw.Connection, kind: Kind, target: int, op: Operation = "put") -> None:
    """Note a change inside the caller's transaction."""
    connection.execute("INSERT INTO change_log (kind, target, op) VALUES (?, ?, ?)", (kind, target, op))


def newest(connection: apsw.Connection) -> int:
    """The last sequence number, 0 for an empty log."""
    value = connection.execute("SELECT coalesce(max(seq), 0) FROM change_log").get
    assert isinstance(value, int)
    return value


def since(connection: apsw.Connection, seq: int, limit: int) -> list[Change]:
    """Up to ``limit`` changes after ``seq``, oldest first."""
    rows = connection.execute(
        "SELECT seq, kind, target, op FROM change_log WHERE seq > ? ORDER BY seq LIMIT ?", (seq, limit)
    )
    return [Change(*row) for row in rows]


def collapsed(changes: list[Change]) -> Iterator[Change]:
    """The last change of each target, in order of that last change: what it was in between nobody needs to index."""
    last = {(change.kind, change.target): change for change in changes}
    return (change for change in changes if last[change.kind, change.target] is change)
