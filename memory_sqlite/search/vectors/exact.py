"""Exact cosines of single rows, and the scan that needs nothing but Python.

Lives here: reading vectors by number or by chunk and comparing them; every route ends here, so that all of them give
the same cosines and the same order. Not here: choosing among routes (``nearest``).
"""

from __future__ import annotations

import heapq
import json
import sys
from collections.abc import Callable, Iterable
from math import isfinite
from operator import mul
from struct import Struct
from typing import Any, Final

import apsw

from memory_sqlite.errors import Cancelled
from memory_sqlite.generations.vector_rows import Space
from memory_sqlite.search.vectors.allowed import Allowed

Row = tuple[int, float]
"""Chunk id and cosine."""

Cancel = Callable[[], bool]

DIGITS: Final = 9
"""Decimals of a cosine. The float32 numbers it is made of have seven."""

NUMPY_ROWS: Final = 16
"""From so many rows on NumPy is quicker, where it is loaded anyway (130 rows of 384: 0.2 against 1.7 ms)."""

_CHECK_EVERY: Final = 1_024
"""Rows between two looks at the cancel flag: 14 ms at 384 dimensions."""


def check_cancelled(cancelled: Cancel) -> None:
    """Raise ``Cancelled`` when the caller gave up."""
    if cancelled():
        raise Cancelled("the search was cancelled")


def comparing(query: bytes) -> Callable[[bytes], float | None]:
    """A function from a stored vector to its cosine with the query, -1 to 1; ``None`` for what is no vector of that
    size or holds a number that is not finite. Little-endian float32 on both sides (13 µs at 384 dimensions)."""
    numbers = Struct(f"<{len(query) // 4}f")
    asked = numbers.unpack(query)
    size = len(query)

    def cosine(vector: bytes) -> float | None:
        if len(vector) != size:
            return None
        value = sum(map(mul, asked, numbers.unpack(vector)))
        # rounded, so that equal vectors stay equal however they were added up
        return min(1.0, max(-1.0, round(value, DIGITS))) if isfinite(value) else None

    return cosine


def best(rows: Iterable[Row], k: int) -> list[Row]:
    """The ``k`` nearest, the nearest first; equal ones by chunk id."""
    return heapq.nsmallest(k, rows, key=lambda row: (-row[1], row[0]))


def rescored(connection: apsw.Connection, space: Space, query: bytes, numbers: Iterable[int], k: int) -> list[Row]:
    """The ``k`` nearest of the rows with these numbers, by exact cosines. Rows that are gone are passed over."""
    rows: Any = connection.execute(
        # by number: the planner would rather walk the index of the whole space (10 ms instead of 0.2 at 200,000 rows)
        "SELECT chunk_id, vector FROM vectors NOT INDEXED "
        "WHERE id IN (SELECT value FROM json_each(?)) AND space_id = ?",
        (json.dumps(list(numbers)), space.id),
    )
    return best(_compared(query, rows.fetchall()), k)


def cosines(connection: apsw.Connection, space: Space, query: bytes, chunk_ids: Iterable[int]) -> dict[int, float]:
    """The cosine of each of these chunks that has a vector in the space; none where the query has another size."""
    if len(query) != 4 * space.dimensions:
        return {}
    rows: Any = connection.execute(
        "SELECT chunk_id, vector FROM vectors WHERE chunk_id IN (SELECT value FROM json_each(?)) AND space_id = ?",
        (json.dumps(list(chunk_ids)), space.id),
    )
    return dict(_compared(query, rows.fetchall()))


def _compared(query: bytes, rows: list[tuple[int, bytes]]) -> list[Row]:
    """Chunk ids with their cosines, without what is no vector; by NumPy where that is loaded and pays."""
    if len(rows) >= NUMPY_ROWS and sys.modules.get("numpy") is not None:
        return _compared_at_once(query, [row for row in rows if len(row[1]) == len(query)])
    cosine = comparing(query)
    return [(chunk_id, value) for chunk_id, vector in rows if (value := cosine(vector)) is not None]


def _compared_at_once(query: bytes, rows: list[tuple[int, bytes]]) -> list[Row]:
    import numpy as np

    vectors = np.frombuffer(b"".join([vector for _, vector in rows]), dtype="<f4").reshape(len(rows), -1)
    # float64, as Python's own: the same cosine to the last digit that is kept
    values = np.round(vectors.astype(np.float64) @ np.frombuffer(query, dtype="<f4").astype(np.float64), DIGITS)
    return [
        (chunk_id, value)
        for (chunk_id, _), value in zip(rows, np.clip(values, -1.0, 1.0).tolist(), strict=True)
        if isfinite(value)
    ]


def scan(
    connection: apsw.Connection, space: Space, query: bytes, allowed: Allowed, k: int, cancelled: Cancel
) -> list[Row]:
    """The ``k`` nearest allowed chunks, every row compared in Python (20,000 x 384: 0.26 s)."""
    cosine = comparing(query)
    condition, bindings = allowed.condition("chunk_id")
    rows: Any = connection.execute(
        f"SELECT chunk_id, vector FROM vectors WHERE space_id = ? AND {condition}", (space.id, *bindings)
    )

    def compared() -> Iterable[Row]:
        for count, (chunk_id, vector) in enumerate(rows):
            if count % _CHECK_EVERY == 0:
                check_cancelled(cancelled)
            value = cosine(vector)
            if value is not None:
                yield chunk_id, value

    return best(compared(), k)
