"""A generation with vectors and no texts: what the tests of the routes ask."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_sqlite.generations import layout, vector_rows
from memory_sqlite.generations.vector_rows import Space
from memory_sqlite.storage import connection as connections


def blob(numbers: Iterable[float]) -> bytes:
    """Little-endian float32, of length 1 when the numbers are not all zero."""
    values = list(numbers)
    length = sum(value * value for value in values) ** 0.5
    made = array("f", [value / length for value in values] if length else values)
    return made.tobytes()


class Store:
    """One space of a generation, with as many chunks as it was given vectors. Chunk ids count from 1."""

    def __init__(self, connection: apsw.Connection, dimensions: int) -> None:
        self.connection = connection
        with connection:
            layout.create(connection, {"test": True})
            identity = vector_rows.identity_text({"model": "test", "dimensions": dimensions})
            self.space: Space = vector_rows.make_space(connection, identity, dimensions, {})
        self.chunks = 0

    def add(self, vectors: Sequence[bytes], *, sessions: int = 4) -> list[int]:
        """A message with a vector for each; the session goes round, every other one is private. Returns chunk ids."""
        ids = []
        with self.connection:
            for vector in vectors:
                self.chunks += 1
                number = self.chunks
                self.add_chunk(number, session=number % sessions, private=number % 2 == 0, at=number * 1_000)
                vector_rows.put(self.connection, self.space, [(number, number.to_bytes(16, "big"), vector)])
                ids.append(number)
        return ids

    def add_chunk(
        self,
        number: int,
        *,
        session: int | None = None,
        private: bool = False,
        at: int | None = None,
        kind: str = "message",
        source: str = "sessions",
        layer: str | None = "L0",
        projects: Sequence[str] = (),
    ) -> None:
        """A document with one chunk of this id and its lexical row."""
        run = self.connection.execute
        run(
            "INSERT INTO documents (id, kind, key, source, path, hash, at, layer, title, session_id, owner_private, "
            "origin, details) VALUES (?, ?, ?, ?, 'p', '', ?, ?, '', ?, ?, 'owner', '{}')",
            (number, kind, f"k{number}", source, at, layer, session, int(private)),
        )
        run(
            "INSERT INTO chunks (id, document_id, ordinal, start_line, end_line, text, heading, triggers, projects, "
            "text_hash, tokens, line_starts, flags) VALUES (?, ?, 0, 1, 1, 'text', '', '[]', '[]', x'', 1, x'', 0)",
            (number, number),
        )
        tokens = layout.filter_tokens(
            kind=kind, source=source, layer=layer, session_id=session, owner_private=private, projects=projects
        )
        run("INSERT INTO lexical (rowid, body, filter) VALUES (?, 'text', ?)", (number, tokens))

    def file(self, chunk_id: int, vector: bytes, input_hash: bytes = b"other") -> None:
        """Another vector for a chunk."""
        with self.connection:
            vector_rows.put(self.connection, self.space, [(chunk_id, input_hash, vector)])

    def remove(self, *chunk_ids: int) -> None:
        """Take chunks out with their vectors and lexical rows."""
        with self.connection:
            vector_rows.delete(self.connection, chunk_ids)
            for table, column in (("lexical", "rowid"), ("chunks", "id"), ("documents", "id")):
                self.connection.executemany(f"DELETE FROM {table} WHERE {column} = ?", ((i,) for i in chunk_ids))

    def raw(self, chunk_id: int, vector: bytes) -> None:
        """Write what ``put`` refuses, as a damaged file would hold it."""
        self.connection.execute("UPDATE vectors SET vector = ? WHERE chunk_id = ?", (vector, chunk_id)).fetchall()


def clustered(rows: int, dimensions: int, seed: int, centres: int = 40) -> list[bytes]:
    """Vectors as models make them: around topics, and all of them to one side."""
    rng = random.Random(seed)
    places = [[rng.gauss(0.4, 1) for _ in range(dimensions)] for _ in range(centres)]
    made = []
    for _ in range(rows):
        centre = rng.choice(places)
        made.append(blob([value + rng.gauss(0, 0.6) for value in centre]))
    return made


def noise(rows: int, dimensions: int, seed: int) -> list[bytes]:
    """Vectors without any neighbourhood."""
    rng = random.Random(seed)
    return [blob([rng.gauss(0, 1) for _ in range(dimensions)]) for _ in range(rows)]


@pytest.fixture
def make_store() -> Callable[[int], Store]:
    """A store in memory, of so many dimensions."""
    return lambda dimensions: Store(apsw.Connection(":memory:"), dimensions)


@pytest.fixture
def filed(tmp_path: Path) -> Iterator[Callable[[int], tuple[Store, apsw.Connection]]]:
    """A store in a file, and another connection to it that only reads."""
    opened: list[apsw.Connection] = []

    def make(dimensions: int) -> tuple[Store, apsw.Connection]:
        path = tmp_path / f"index-{len(opened):06d}.sqlite"
        connections.create_index(path, None).close()
        connection = connections.open_index(path)
        store = Store(connection, dimensions)
        opened.extend((connection, connections.open_index_reader(path)))
        return store, opened[-1]

    yield make
    for connection in opened:
        connection.close()


@pytest.fixture(name="blob")
def _blob() -> Callable[[Iterable[float]], bytes]:
    return blob


@pytest.fixture(name="clustered")
def _clustered() -> Callable[..., list[bytes]]:
    return clustered


@pytest.fixture(name="noise")
def _noise() -> Callable[..., list[bytes]]:
    return noise


@pytest.fixture
def never() -> Callable[[], bool]:
    """A cancel flag that is never set."""
    return lambda: False


@pytest.fixture
def no_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    """sqlite-vec cannot be loaded."""
    from memory_sqlite.search.vectors import extension

    monkeypatch.setattr(extension, "path", lambda: None)
    monkeypatch.setattr(extension, "_loaded", {})


@pytest.fixture
def no_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy cannot be imported."""
    import sys

    hidden: Any = None
    monkeypatch.setitem(sys.modules, "numpy", hidden)
