"""Where a search is carried out: by a worker process when this memory serves, else here; the same function either way.

The parent sends the generation's path and number with each request; a worker that finds it gone says so, and the
store is asked again which one is current. Who calls it: ``agent.answer``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final, Protocol

import apsw

from memory_sqlite import errors, paths
from memory_sqlite.agent.deadline import Deadline
from memory_sqlite.agent.opened import Opened
from memory_sqlite.model import Hit
from memory_sqlite.search import run
from memory_sqlite.search.filters import Filters
from memory_sqlite.search.vectors.query_vector import QueryVector
from memory_sqlite.storage.failures import translated_index
from memory_sqlite.values import dataclass

_TRIES: Final = 8
"""A generation is published once in a long while; to meet eight new ones in a row something is badly wrong."""
_LOOK_S: Final = 1.0
"""How often a serving process looks for another generation, so that no idle worker holds an old one."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One search, ready to be carried out anywhere."""

    text: str
    filters: Filters
    now_ms: int
    zone: str
    max_results: int
    max_bytes: int
    min_score: float
    sort: Any
    explain: bool
    vector: QueryVector | None = None


def search(
    opened: Opened, wanted: Wanted, guard: Deadline | None, held: apsw.Connection | None = None
) -> tuple[list[Hit], run.SearchInfo]:
    """Search the current generation, or here the one that the caller has open (``held``).

    Raises ``IndexUnavailable``, ``Cancelled``, ``Overloaded``, ``WorkerLost``.
    """
    if guard is not None:
        guard.check()
    if held is None and opened.workers is not None and opened.workers.available:
        return _by_worker(opened, wanted, guard)
    cancelled: Callable[[], bool] | None = guard.is_over if guard is not None else None
    reading = opened.keeper.reader() if held is None else nullcontext(held)
    with translated_index(), reading as connection, _interruptible(connection, guard):
        return run.search(
            connection,
            wanted.text,
            wanted.filters,
            now_ms=wanted.now_ms,
            zone=wanted.zone,
            max_results=wanted.max_results,
            min_score=wanted.min_score,
            max_bytes=wanted.max_bytes,
            sort=wanted.sort,
            explain=wanted.explain,
            cancelled=cancelled,
            vector=wanted.vector,
        )


def _interruptible(connection: apsw.Connection, guard: Deadline | None) -> AbstractContextManager[None]:
    return nullcontext() if guard is None else guard.interruptible(connection)


def _by_worker(opened: Opened, wanted: Wanted, guard: Deadline | None) -> tuple[list[Hit], run.SearchInfo]:
    from memory_sqlite.processes.gone import Gone
    from memory_sqlite.processes.hits import SearchRequest

    assert opened.workers is not None
    asked = SearchRequest(
        wanted.text,
        wanted.filters,
        wanted.now_ms,
        wanted.max_results,
        wanted.max_bytes,
        wanted.min_score,
        wanted.sort,
        wanted.explain,
        wanted.vector,
        wanted.zone,
    )
    number = opened.keeper.number()
    for _ in range(_TRIES):
        if number is None:
            raise errors.IndexUnavailable("there is no search index yet")
        path = paths.generation_file(opened.store.directory, number)
        try:
            return opened.workers.search(
                path,
                number,
                asked,
                deadline_s=guard.left() if guard is not None else None,
                abort=guard,
            )
        except Gone:
            before, number = number, opened.keeper.number()
            if number == before:
                raise errors.IndexUnavailable("the file of the current search index is missing") from None
    raise errors.IndexUnavailable("the search index changed faster than it could be opened")


class Releasing(Protocol):
    """What can be told to close a generation."""

    def let_go(self, path: Path) -> int: ...


class Follower:
    """While a memory serves: once a second, whether another generation is current; if so, let the old one go."""

    def __init__(self, opened: Opened, workers: Releasing) -> None:
        self._opened = opened
        self._workers = workers
        self._ended = threading.Event()
        self._number = opened.keeper.number()
        self._thread = threading.Thread(target=self._follow, name="memory-sqlite-follower", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        while not self._ended.wait(_LOOK_S):
            try:
                number = self._opened.keeper.number()
                if number != self._number:
                    before, self._number = self._number, number
                    self._opened.keeper.drop_readers()
                    if before is not None:
                        self._workers.let_go(paths.generation_file(self._opened.store.directory, before))
            except errors.MemorySqliteError:
                continue  # closing, or a busy moment: the next look is a second away

    def close(self) -> None:
        """Stop looking; returns when the thread has ended."""
        self._ended.set()
        self._thread.join()
