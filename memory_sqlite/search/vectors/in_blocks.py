"""The exact scan with NumPy: rows are read in blocks, multiplied, and forgotten; nothing stays in memory.

For processes that ask once and have NumPy but no sqlite-vec. Called by ``nearest``.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

import apsw

from memory_sqlite.generations.vector_rows import Space
from memory_sqlite.search.vectors import exact, top
from memory_sqlite.search.vectors.allowed import Allowed

BLOCK_ROWS: Final = 16_384
"""Rows of one block: 24 MiB at 384 dimensions, 40 ms to read. Cancelling is looked at between two blocks."""


def numpy_there() -> bool:
    """Whether NumPy can be imported; imports it (0.1 to 0.2 s)."""
    try:
        import numpy  # noqa: F401
    except ImportError:
        return False
    return True


def scan(
    connection: apsw.Connection, space: Space, query: bytes, allowed: Allowed, k: int, cancelled: exact.Cancel
) -> list[exact.Row]:
    """The ``k`` nearest allowed chunks (20,000 x 384: 48 ms; 200,000: 520 ms, nearly all of it reading rows)."""
    import numpy as np

    asked = np.frombuffer(query, dtype="<f4")
    condition, bindings = allowed.condition("chunk_id")
    rows: Any = connection.execute(
        f"SELECT id, chunk_id, vector FROM vectors WHERE space_id = ? AND length(vector) = ? AND {condition}",
        (space.id, len(query), *bindings),
    )
    numbers = np.empty(0, dtype=np.int64)
    chunks = np.empty(0, dtype=np.int64)
    scores = np.empty(0, dtype=np.float32)
    while True:
        exact.check_cancelled(cancelled)
        block = list(islice(rows, BLOCK_ROWS))
        if not block:
            break
        vectors = np.frombuffer(b"".join([row[2] for row in block]), dtype="<f4").reshape(len(block), -1)
        numbers = np.concatenate((numbers, np.fromiter((row[0] for row in block), np.int64, len(block))))
        chunks = np.concatenate((chunks, np.fromiter((row[1] for row in block), np.int64, len(block))))
        scores = np.concatenate((scores, vectors @ asked))
        kept = top.largest(scores, k, chunks)
        numbers, chunks, scores = numbers[kept], chunks[kept], scores[kept]
    return exact.rescored(connection, space, query, numbers.tolist(), k)
