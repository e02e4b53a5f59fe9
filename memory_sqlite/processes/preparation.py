"""Preparing through the preparation workers: the typed face of their pool, which is never the one that searches use.

Called by rebuilds and by indexing of many notes. A note or an answer that is larger than a frame is prepared here, in
the caller's process: the one thing that is, because there is no other place for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from memory_sqlite.processes import prepare, prepared
from memory_sqlite.processes.frames import FrameTooLarge, WireError
from memory_sqlite.processes.pending import Pending
from memory_sqlite.processes.pool import Pool
from memory_sqlite.processes.prepare import ChunkWords, PreparedNote, WordsOf
from memory_sqlite.processes.slots import Bounds
from memory_sqlite.sources.places import NotePlace

WORKER = "preparation"
_AHEAD = 3
"""Requests under way for each worker: one that works, one that waits for it, one being answered."""

T = TypeVar("T")
Words = tuple[tuple[ChunkWords, ...], ...]


class Preparation:
    """The preparation workers of a process. Raises ``Overloaded``, ``WorkerLost``."""

    def __init__(self, pool: Pool | None = None, *, bounds: Bounds | None = None) -> None:
        self._bounds = bounds or Bounds()
        self.pool = pool or Pool(WORKER, bounds=self._bounds)

    @property
    def available(self) -> bool:
        """Whether workers can be had here; if not, call ``prepare`` itself."""
        return self.pool.available

    def notes(self, notes: Iterable[tuple[NotePlace, bytes]]) -> Iterator[PreparedNote]:
        """Notes prepared, in the order given; ``notes`` is read only a little ahead of what is taken."""
        return self._in_order(
            (lambda one=one: self.submit_note(*one), lambda one=one: prepare.prepare_note(*one))  # type: ignore[misc]
            for one in notes
        )

    def words(self, batches: Iterable[tuple[WordsOf, ...]]) -> Iterator[Words]:
        """The words of batches of documents, in the order given; a batch of some 100 KiB of text is worth a request."""
        return self._in_order(
            (
                lambda one=one: self.submit_words(one),  # type: ignore[misc]
                lambda one=one: tuple(map(prepare.words, one)),  # type: ignore[misc]
            )
            for one in batches
        )

    def submit_note(self, place: NotePlace, data: bytes) -> Pending:
        """A ``PreparedNote`` of these bytes, later. Raises ``FrameTooLarge``, as its ``result`` may."""

        def check(answer: dict[str, Any], blob: bytes) -> PreparedNote:
            return prepared.note_of(_without(blob, answer), place)

        return self.pool.submit("note", prepared.place_json(place), check, blob=data)

    def submit_words(self, documents: tuple[WordsOf, ...]) -> Pending:
        """The words of these documents, later. Raises ``FrameTooLarge``, as its ``result`` may."""

        def check(answer: dict[str, Any], blob: bytes) -> Words:
            return prepared.words_of(_without(blob, answer), documents)

        return self.pool.submit("words", prepared.asked_json(documents), check)

    def close(self) -> None:
        """End the workers."""
        self.pool.close()

    def _in_order(self, work: Iterable[tuple[Callable[[], Pending], Callable[[], T]]]) -> Iterator[T]:
        under_way: deque[tuple[Pending | None, Callable[[], T]]] = deque()
        try:
            for submit, here in work:
                try:
                    under_way.append((submit(), here))
                except FrameTooLarge:
                    under_way.append((None, here))
                if len(under_way) >= _AHEAD * self._bounds.workers:
                    yield _taken(*under_way.popleft())
            while under_way:
                yield _taken(*under_way.popleft())
        finally:
            for pending, _ in under_way:  # the caller has stopped early
                if pending is not None:
                    pending.cancel()


def _taken(pending: Pending | None, here: Callable[[], T]) -> T:
    if pending is None:
        return here()
    try:
        answer: T = pending.result()
    except FrameTooLarge:
        return here()
    return answer


def _without(blob: bytes, answer: dict[str, Any]) -> dict[str, Any]:
    if blob:
        raise WireError("bytes that were not asked for")
    return answer
