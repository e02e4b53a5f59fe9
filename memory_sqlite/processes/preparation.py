"""Preparing through the preparation workers: the typed face of their pool, which is never the one that searches use.

Called by ``indexing`` where there is enough to prepare. What no worker can do is prepared here, in the caller's process
and by the same functions: a note or an answer that is larger than a frame, and what a worker was lost with. So nothing
is lost with a worker, and a note that kills each of them is told by the caller's own end at the latest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

from memory_sqlite import errors
from memory_sqlite.limits import PREPARATION_REQUEST_BYTES
from memory_sqlite.processes import prepare, prepared
from memory_sqlite.processes.frames import FrameTooLarge
from memory_sqlite.processes.pending import Pending, WorkerDefect
from memory_sqlite.processes.pool import Pool
from memory_sqlite.processes.prepare import ChunkWords, PreparedNote, WordsOf
from memory_sqlite.processes.prepared import Note
from memory_sqlite.processes.slots import Bounds

WORKER = "preparation"
_AHEAD = 3
"""Requests under way for each worker: one that works, one that waits for it, one being answered."""

T = TypeVar("T")
Words = tuple[ChunkWords, ...]
_Work = tuple[Callable[[], Pending], Callable[[], tuple[T, ...]]]
"""Asking a worker, and doing the same here."""


class Preparation:
    """The preparation workers of one piece of work; end them with ``close``."""

    def __init__(self, pool: Pool | None = None, *, bounds: Bounds | None = None) -> None:
        self._bounds = bounds or Bounds()
        self.pool = pool or Pool(WORKER, bounds=self._bounds)

    @property
    def available(self) -> bool:
        """Whether workers can be had here and there is a core for one beside the caller's."""
        return self._bounds.workers > 1 and self.pool.available

    def notes(self, notes: Iterable[Note], *, redact: bool = True) -> Iterator[PreparedNote]:
        """Notes prepared, in the order given; ``notes`` is read only a little ahead of what is taken."""
        batches = _batches(notes, lambda note: len(note[1]))
        return self._in_order(
            (partial(self.submit_notes, batch, redact=redact), partial(_notes_here, batch, redact)) for batch in batches
        )

    def words(self, documents: Iterable[WordsOf]) -> Iterator[Words]:
        """The words of documents, in the order given; ``documents`` is read only a little ahead of what is taken."""
        batches = _batches(documents, lambda document: document.size)
        return self._in_order((partial(self.submit_words, batch), partial(_words_here, batch)) for batch in batches)

    def submit_notes(self, notes: tuple[Note, ...], *, redact: bool = True) -> Pending:
        """A ``PreparedNote`` of each of these, later. Raises ``FrameTooLarge``, as its ``result`` may, and what
        ``Pool.submit`` raises."""

        def check(answer: dict[str, Any], blob: bytes) -> tuple[PreparedNote, ...]:
            return prepared.prepared_of(answer, blob, [place for place, _ in notes])

        body, blob = prepared.notes_json(notes, redact)
        return self.pool.submit("notes", body, check, blob=blob)

    def submit_words(self, documents: tuple[WordsOf, ...]) -> Pending:
        """The words of each of these documents, later. Raises as ``submit_notes`` does."""

        def check(answer: dict[str, Any], blob: bytes) -> tuple[Words, ...]:
            return prepared.words_of(answer, blob, documents)

        body, blob = prepared.asked_json(documents)
        return self.pool.submit("words", body, check, blob=blob)

    def close(self) -> None:
        """End the workers."""
        self.pool.close()

    def _in_order(self, work: Iterable[_Work[T]]) -> Iterator[T]:
        under_way: deque[tuple[Pending | None, Callable[[], tuple[T, ...]]]] = deque()
        try:
            for submit, here in work:
                try:
                    under_way.append((submit(), here))
                except (FrameTooLarge, errors.WorkerLost, errors.Overloaded):
                    under_way.append((None, here))
                if len(under_way) >= _AHEAD * self._bounds.workers:
                    yield from _taken(*under_way.popleft())
            while under_way:
                yield from _taken(*under_way.popleft())
        finally:
            for pending, _ in under_way:  # the caller has stopped early
                if pending is not None:
                    pending.cancel()


def _batches(work: Iterable[T], size: Callable[[T], int]) -> Iterator[tuple[T, ...]]:
    batch: list[T] = []
    total = 0
    for one in work:
        batch.append(one)
        total += size(one)
        if total >= PREPARATION_REQUEST_BYTES:
            yield tuple(batch)
            batch, total = [], 0
    if batch:
        yield tuple(batch)


def _notes_here(notes: tuple[Note, ...], redact: bool) -> tuple[PreparedNote, ...]:
    return tuple([prepare.prepare_note(place, data, redact=redact) for place, data in notes])


def _words_here(documents: tuple[WordsOf, ...]) -> tuple[Words, ...]:
    return tuple([prepare.words(document) for document in documents])


def _taken(pending: Pending | None, here: Callable[[], tuple[T, ...]]) -> tuple[T, ...]:
    if pending is None:
        return here()
    try:
        answer: tuple[T, ...] = pending.result()
    except (FrameTooLarge, errors.WorkerLost, WorkerDefect):
        return here()
    return answer
