"""Reading connections to one file for many threads: each is used by one thread at a time and kept for the next."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import apsw

from memory_sqlite.storage.failures import translated

_MAX_IDLE: Final = 4


class ReaderPool:
    """Borrow a connection, give it back; more than a few idle ones are closed."""

    def __init__(self, opener: Callable[[], apsw.Connection], what: str) -> None:
        self._opener = opener
        self._what = what
        self._idle: list[apsw.Connection] = []
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def borrow(self) -> Iterator[apsw.Connection]:
        """A connection that nobody else uses until the block ends; after an error it is closed, not kept.

        SQLite's errors become those of the catalogue, naming the file by ``what``.
        """
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = self._opener()
        healthy = False
        try:
            with translated(self._what):
                yield connection
            healthy = True
        finally:
            with self._lock:
                keep = healthy and not self._closed and len(self._idle) < _MAX_IDLE
                if keep:
                    self._idle.append(connection)
            if not keep:
                connection.close()

    def close(self) -> None:
        """Close the idle connections and keep none of those that come back."""
        with self._lock:
            idle, self._idle, self._closed = self._idle, [], True
        for connection in idle:
            connection.close()
