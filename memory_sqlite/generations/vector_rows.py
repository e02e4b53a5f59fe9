"""The two tables of vectors in a generation: spaces, and one row for each chunk and space.

Lives here: every statement that writes ``vector_spaces`` and ``vectors``, and the check that nothing but a vector of
length 1 gets in. Not here: making vectors (``embeddings``), deciding what to file (``indexing``), asking which are
nearest (``search.vectors``). Writing runs inside the caller's transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from struct import Struct
from typing import Any, Final, Literal

import apsw

from memory_sqlite import errors
from memory_sqlite.values import dataclass

State = Literal["filling", "complete"]
Cost = Literal["free", "paid"]

LENGTH_TOLERANCE: Final = 1e-3
"""How far the squared length of a stored vector may be from 1. Rounding 4,096 numbers to float32 moves it by 1e-6; what
is further off was never normalised, and would spoil every comparison by distance."""

_BATCH: Final = 500
"""Hashes of one look-up."""


@dataclass(frozen=True, slots=True)
class Space:
    """What one embedding identity has filled. ``identity`` and ``weight`` are compact sorted JSON."""

    id: int
    identity: str
    dimensions: int
    weight: str
    state: State
    cost: Cost = "free"


def identity_text(identity: Mapping[str, Any]) -> str:
    """The identity of an embedding as it is kept and compared: compact JSON with sorted keys."""
    return json.dumps(dict(identity), ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def spaces(connection: apsw.Connection) -> list[Space]:
    """All spaces of a generation, in the order they were made."""
    statement = f"SELECT {_COLUMNS} FROM vector_spaces ORDER BY id"
    return [_space(row) for row in connection.execute(statement)]


def find_space(connection: apsw.Connection, identity: str) -> Space | None:
    """The space of an identity (see ``identity_text``)."""
    row = connection.execute(f"SELECT {_COLUMNS} FROM vector_spaces WHERE identity = ?", (identity,)).fetchone()
    return None if row is None else _space(row)


def make_space(
    connection: apsw.Connection, identity: str, dimensions: int, weight: Mapping[str, Any], cost: Cost = "free"
) -> Space:
    """The space of an identity, made (``filling``) where there is none; a changed weight or cost is taken over.

    Raises ``InvalidArgument`` where it is known with another number of dimensions.
    """
    known = find_space(connection, identity)
    text = json.dumps(dict(weight), sort_keys=True, separators=(",", ":"))
    if known is not None and known.dimensions != dimensions:
        raise errors.InvalidArgument(f"dimensions: this identity has {known.dimensions}, not {dimensions}")
    connection.execute(
        "INSERT INTO vector_spaces (identity, dimensions, weight, state, cost) VALUES (?, ?, ?, 'filling', ?) "
        "ON CONFLICT (identity) DO UPDATE SET weight = excluded.weight, cost = excluded.cost "
        "WHERE weight <> excluded.weight OR cost <> excluded.cost",
        (identity, dimensions, text, cost),
    ).fetchall()
    made = find_space(connection, identity)
    assert made is not None
    return made


def set_state(connection: apsw.Connection, space: Space, state: State) -> None:
    """Say whether every chunk of the generation has its vector."""
    connection.execute("UPDATE vector_spaces SET state = ? WHERE id = ?", (state, space.id)).fetchall()


def delete_space(connection: apsw.Connection, space: Space) -> int:
    """Take a space out with all its vectors; returns how many those were."""
    connection.execute("DELETE FROM vectors WHERE space_id = ?", (space.id,)).fetchall()
    removed = connection.changes()
    connection.execute("DELETE FROM vector_spaces WHERE id = ?", (space.id,)).fetchall()
    return removed


def put(connection: apsw.Connection, space: Space, rows: Iterable[tuple[int, bytes, bytes]]) -> int:
    """File vectors, each as chunk id, hash of what was embedded, and vector; returns how many rows were written.

    A vector is the little-endian float32 numbers of length 1. A chunk that is no longer there is passed over, and so is
    one that has the vector of the same input already; a vector of another input is replaced, under a new number. Raises
    ``InvalidArgument`` for a vector of another size, with a number that is not finite, or not of length 1.
    """
    written = 0
    for chunk_id, input_hash, vector in rows:
        check(vector, space.dimensions)
        connection.execute(
            """INSERT OR REPLACE INTO vectors (space_id, chunk_id, input_hash, vector) SELECT ?1, ?2, ?3, ?4
            WHERE EXISTS (SELECT 1 FROM chunks WHERE id = ?2) AND NOT EXISTS
                (SELECT 1 FROM vectors WHERE chunk_id = ?2 AND space_id = ?1 AND input_hash = ?3)""",
            (space.id, chunk_id, input_hash, vector),
        ).fetchall()
        written += connection.changes()
    return written


def delete(connection: apsw.Connection, chunk_ids: Iterable[int]) -> None:
    """Take the vectors of chunks out of every space."""
    connection.executemany("DELETE FROM vectors WHERE chunk_id = ?", ((chunk_id,) for chunk_id in chunk_ids))


def by_input(connection: apsw.Connection, space: Space, hashes: Iterable[bytes]) -> dict[bytes, bytes]:
    """The vectors that are there for these inputs, so that an equal text is not embedded again."""
    found: dict[bytes, bytes] = {}
    wanted = list(dict.fromkeys(hashes))
    for first in range(0, len(wanted), _BATCH):
        part = wanted[first : first + _BATCH]
        marks = ",".join("?" * len(part))
        rows: Any = connection.execute(
            f"SELECT input_hash, vector FROM vectors WHERE space_id = ? AND input_hash IN ({marks})", (space.id, *part)
        )
        found.update(rows)
    return found


def filed(connection: apsw.Connection, space: Space) -> int:
    """How many chunks have a vector in this space."""
    return _number(connection, "SELECT count(*) FROM vectors WHERE space_id = ?", (space.id,))


def missing(connection: apsw.Connection, space: Space) -> int:
    """How many chunks have none."""
    return _number(connection, "SELECT count(*) FROM chunks", ()) - filed(connection, space)


def check(vector: bytes, dimensions: int) -> None:
    """Raise ``InvalidArgument`` unless this is a vector of length 1 in so many float32 numbers."""
    if len(vector) != 4 * dimensions:
        raise errors.InvalidArgument(f"vector: expected {4 * dimensions} bytes, got {len(vector)}")
    numbers = Struct(f"<{dimensions}f").unpack(vector)
    # a number that is not finite makes the sum so, and no comparison with that holds
    if not abs(sum([number * number for number in numbers]) - 1.0) <= LENGTH_TOLERANCE:
        raise errors.InvalidArgument("vector: not of length 1")


_COLUMNS: Final = "id, identity, dimensions, weight, state, cost"


def _space(row: Any) -> Space:
    return Space(*row)


def _number(connection: apsw.Connection, statement: str, bindings: tuple[int, ...]) -> int:
    row = connection.execute(statement, bindings).fetchone()
    return 0 if row is None else int(row[0])
