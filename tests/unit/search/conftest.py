"""An index in memory, filled by hand: what every test of this folder asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import apsw
import pytest

from memory_sqlite.generations import layout
from memory_sqlite.indexing import rows
from memory_sqlite.model import Chunk, Document, Hit
from memory_sqlite.search.filters import Filters, Viewer
from memory_sqlite.search.run import SearchInfo, search

NOW_MS = 1_796_040_000_000
"""2026-11-30T12:00:00Z."""


class Index:
    """A generation in memory with the two questions a test has."""

    def __init__(self) -> None:
        self.connection = apsw.Connection(":memory:")
        with self.connection:
            layout.create(self.connection, {"test": True})

    def put(self, *documents: Document) -> None:
        touched: dict[int, list[int]] = {}
        with self.connection:
            for document in documents:
                rows.put_document(self.connection, document)
                if document.session_id is not None and document.position is not None:
                    touched.setdefault(document.session_id, []).append(document.position)
            for session_id, positions in touched.items():
                rows.refresh_contexts(self.connection, session_id, positions)

    def search(
        self,
        text: str,
        *,
        viewer: Viewer | None = None,
        max_results: int = 6,
        min_score: float = 0.0,
        max_bytes: int = 16 * 1024 * 1024,
        sort: Any = "score",
        explain: bool = False,
        cancelled: Callable[[], bool] | None = None,
        now_ms: int = NOW_MS,
        zone: str = "UTC",
        **filters: Any,
    ) -> tuple[list[Hit], SearchInfo]:
        return search(
            self.connection,
            text,
            Filters(viewer or Viewer(operator=True), **filters),
            now_ms=now_ms,
            zone=zone,
            max_results=max_results,
            min_score=min_score,
            max_bytes=max_bytes,
            sort=sort,
            explain=explain,
            cancelled=cancelled,
        )

    def paths(self, text: str, **arguments: Any) -> list[str]:
        """Names of the notes found, in order, without ``memory/``."""
        return [hit.path.removeprefix("memory/") for hit in self.search(text, **arguments)[0]]


def note(path: str, text: str, *, chunks: Iterable[Chunk] | None = None, **fields: Any) -> Document:
    """A note of one chunk, visible to the owner."""
    lines = text.rstrip("\n")
    made = tuple(chunks) if chunks is not None else (Chunk(lines, 1, lines.count("\n") + 1),)
    known: dict[str, Any] = {"hash": path, "at": None, "owner_private": True, "title": ""}
    return Document(kind="note", key=path, source="memory", path=path, chunks=made, **{**known, **fields})


def message(session: int, position: int, text: str, *, speaker: str = "Ann", **fields: Any) -> Document:
    """One message of a session."""
    key = f"s{session}m{position}"
    known: dict[str, Any] = {
        "hash": key,
        "at": 1_770_000_000_000 + position * 60_000,
        "layer": "L0",
        "role": "user",
        "details": {"session": f"session-{session}", "message_id": key},
    }
    return Document(
        kind="message",
        key=key,
        source="sessions",
        path=f"sessions/token{session}",
        chunks=(Chunk(text, position, position),),
        session_id=session,
        position=position,
        speaker=speaker,
        **{**known, **fields},
    )


def record(key: str, layer: Any, text: str, **fields: Any) -> Document:
    """A record of one line."""
    known: dict[str, Any] = {
        "hash": key,
        "at": 1_770_000_000_000,
        "session_id": 1,
        "details": {"record_id": f"rec-{key}", "session": "session-1"},
    }
    return Document(
        kind="record",
        key=key,
        source="memory",
        path=f"sessions/token1/{layer}/2026-02-02.jsonl",
        chunks=(Chunk(text, 1, 1),),
        layer=layer,
        **{**known, **fields},
    )


@pytest.fixture
def index() -> Index:
    """An empty index."""
    return Index()


@pytest.fixture
def make_index() -> Callable[[Mapping[str, str]], Index]:
    """An index of notes, from a mapping of path to text."""

    def make(files: Mapping[str, str]) -> Index:
        made = Index()
        made.put(*(note(path, text) for path, text in files.items()))
        return made

    return make


@pytest.fixture(name="note")
def _note() -> Callable[..., Document]:
    return note


@pytest.fixture(name="message")
def _message() -> Callable[..., Document]:
    return message


@pytest.fixture(name="record")
def _record() -> Callable[..., Document]:
    return record
