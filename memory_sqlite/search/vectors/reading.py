"""What a resident reads of the tables: numbers of rows, some vectors, and the rows that came after the last one.

Called by ``resident``; NumPy arrays throughout.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import apsw

from memory_sqlite.generations.vector_rows import Space

if TYPE_CHECKING:
    from numpy.typing import NDArray


def whole_numbers(text: str | None) -> NDArray[Any]:
    """Numbers parted by commas, as SQLite's ``group_concat`` gives them: a quarter of the cost of rows."""
    import numpy as np

    return np.fromstring(text, dtype=np.int64, sep=",") if text else np.empty(0, np.int64)


def row_numbers(connection: apsw.Connection, space: Space) -> NDArray[Any]:
    """The numbers of all rows of a space, ascending (200,000: 8 ms)."""
    import numpy as np

    statement = "SELECT group_concat(id) FROM vectors WHERE space_id = ?"
    row: Any = connection.execute(statement, (space.id,)).fetchone()
    return np.sort(whole_numbers(row[0]))


def row_count(connection: apsw.Connection, space: Space) -> int:
    """How many rows a space has, from an index (200,000: 4 ms)."""
    row: Any = connection.execute("SELECT count(*) FROM vectors WHERE space_id = ?", (space.id,)).fetchone()
    return int(row[0])


def matrix(blobs: list[bytes], dimensions: int) -> NDArray[Any]:
    """Stored vectors as float32, one a row; every blob has the size of the space."""
    import numpy as np

    if not blobs:
        return np.empty((0, dimensions), np.float32)
    return np.frombuffer(b"".join(blobs), dtype="<f4").reshape(len(blobs), dimensions)


def some(connection: apsw.Connection, space: Space, numbers: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rows by number: their numbers and vectors, without those that are no vectors."""
    import numpy as np

    rows: Any = connection.execute(
        "SELECT id, vector FROM vectors NOT INDEXED "
        "WHERE id IN (SELECT value FROM json_each(?)) AND length(vector) = ?",
        (json.dumps(numbers.tolist()), 4 * space.dimensions),
    ).fetchall()
    vectors = matrix([row[1] for row in rows], space.dimensions)
    good = np.isfinite(vectors).all(axis=1)
    return np.array([row[0] for row in rows], np.int64)[good], vectors[good]


def after(connection: apsw.Connection, space: Space, last: int, at_once: int) -> Iterator[list[Any]]:
    """Rows with numbers above ``last``, ascending, as (number, chunk id, vector), so many at a time."""
    # by number: the planner would rather take the index on the space and sort
    rows: Any = connection.execute(
        "SELECT id, chunk_id, vector FROM vectors NOT INDEXED "
        "WHERE id > ? AND space_id = ? AND length(vector) = ? ORDER BY id",
        (last, space.id, 4 * space.dimensions),
    )
    while batch := list(islice(rows, at_once)):
        yield batch
