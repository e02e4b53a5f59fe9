"""That something was recalled, where a host asked for that to be recorded: which references came back, best first.

Of the query only a digest is kept, keyed by the store's key, so that nobody can try out what it was; of the hits no
text. Bounded: of more than ``limits.RECALLS_KEPT`` the oldest go. What is forgotten goes from here too
(``forgetting.recalls``). Searching by itself records nothing. Called by ``legacy_runtime``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import apsw

from memory_sqlite import limits
from memory_sqlite.runtime.agents import AgentRooms
from memory_sqlite.runtime.manager_shapes import MemorySearchResult
from memory_sqlite.storage.fetch import all_rows
from memory_sqlite.storage.store import Store


@dataclass(frozen=True)
class RecalledHit:
    """One hit of a recorded recall. Lines are 1-based and inclusive."""

    reference: str
    path: str
    start_line: int
    end_line: int
    score: float


@dataclass(frozen=True)
class Recall:
    """One recorded recall. ``at`` is epoch milliseconds."""

    query_digest: bytes
    way: str
    at: int
    hits: tuple[RecalledHit, ...]


def query_digest(store: Store, query: str) -> bytes:
    """16 bytes that are the same for the same query in this data directory alone."""
    return blake2b(query.encode("utf-8", "surrogatepass"), digest_size=16, key=store.key).digest()


def record(
    rooms: AgentRooms,
    way: str,
    query: str,
    found: Sequence[tuple[str, MemorySearchResult]],
    assert_current: Callable[[], None],
) -> None:
    """Record one recall: ``way`` is who asked (``cli``), ``found`` references with their results.

    ``assert_current`` is called when the write is next, and nothing is written when it raises. Raises the store's
    errors, and what ``assert_current`` raises.
    """
    store = rooms.opened.store
    digest = query_digest(store, query)
    with rooms.lock:
        assert_current()  # not inside the transaction: no callback runs in one
        with store.transaction() as connection:
            connection.execute(
                "INSERT INTO recalls (query_digest, way, at) VALUES (?, ?, ?)", (digest, way, rooms.clock.now_ms())
            )
            number = connection.last_insert_rowid()
            connection.executemany(
                "INSERT INTO recall_hits (recall_id, rank, reference, path, start_line, end_line, score)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                [
                    (number, rank, reference, hit.path, hit.start_line, hit.end_line, hit.score)
                    for rank, (reference, hit) in enumerate(found, 1)
                ],
            )
            connection.execute("DELETE FROM recalls WHERE id <= ?", (number - limits.RECALLS_KEPT,))


def recent(connection: apsw.Connection, limit: int = 20) -> list[Recall]:
    """The newest recorded recalls, the newest first."""
    rows = all_rows(connection, "SELECT id, query_digest, way, at FROM recalls ORDER BY id DESC LIMIT ?", (limit,))
    return [Recall(bytes(digest), str(way), int(at), _hits(connection, number)) for number, digest, way, at in rows]


def _hits(connection: apsw.Connection, number: int) -> tuple[RecalledHit, ...]:
    rows = all_rows(
        connection,
        "SELECT reference, path, start_line, end_line, score FROM recall_hits WHERE recall_id = ? ORDER BY rank",
        (number,),
    )
    return tuple(RecalledHit(*row) for row in rows)
