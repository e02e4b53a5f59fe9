"""The nearest rows chosen inside SQLite, by sqlite-vec's distance function over our own rows.

No table of sqlite-vec's own: that would keep every vector twice, take no more than 4,096 neighbours, and have a
deletion of its own to keep in step. Called by ``nearest`` where ``extension`` could be loaded.
"""

from __future__ import annotations

from typing import Any, Final

import apsw

from memory_sqlite.generations.vector_rows import Space
from memory_sqlite.search.vectors import exact, extension
from memory_sqlite.search.vectors.allowed import Allowed

SLACK: Final = 8
"""Rows taken beyond those wanted, because SQLite orders by float32 sums and the answer by float64 ones."""


def scan(
    connection: apsw.Connection, space: Space, query: bytes, allowed: Allowed, k: int, cancelled: exact.Cancel
) -> list[exact.Row]:
    """The ``k`` nearest allowed chunks (20,000 x 384: 16 ms; 200,000: 210 ms, of which 5 % allowed: 24 ms).

    All vectors have length 1, so the Euclidean distance orders like the cosine; it is the cheaper function. What is not
    a number comes last and is left out by the exact comparison.
    """
    extension.load(connection)
    exact.check_cancelled(cancelled)
    condition, bindings = allowed.condition("chunk_id")
    rows: Any = connection.execute(
        f"SELECT id FROM vectors WHERE space_id = ? AND length(vector) = ? AND {condition} "
        "ORDER BY vec_distance_L2(vector, ?) NULLS LAST, chunk_id LIMIT ?",
        (space.id, len(query), *bindings, query, k + SLACK),
    )
    numbers = [number for (number,) in rows]
    exact.check_cancelled(cancelled)
    return exact.rescored(connection, space, query, numbers, k)
