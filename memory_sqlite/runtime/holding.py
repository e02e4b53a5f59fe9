"""The generations that a handle keeps open for its cursors: the open connection is the hold, for ten minutes at most.

Not here: the generations of a memory's own readers (``indexing.keeper``), what a cursor says (``cursors``). Any thread
may use it; each connection is used by one at a time.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import apsw

from memory_sqlite import errors, limits, paths
from memory_sqlite.agent.opened import Opened
from memory_sqlite.clock import Clock
from memory_sqlite.runtime.cursors import NAME_BYTES
from memory_sqlite.storage import connection as connections
from memory_sqlite.storage.failures import translated_index


@dataclass
class _Held:
    connection: apsw.Connection
    number: int
    until: float
    busy: threading.Lock = field(default_factory=threading.Lock)


class Holding:
    """Generations by the names that cursors carry."""

    def __init__(self, opened: Opened, clock: Clock) -> None:
        self._opened = opened
        self._clock = clock
        self._lock = threading.Lock()
        self._held: OrderedDict[bytes, _Held] = OrderedDict()
        self._closed = False

    def take(self) -> bytes:
        """Keep the current generation open and give it a name; a name without anything behind it when it cannot be."""
        name = self._clock.token_bytes(NAME_BYTES)
        connection: apsw.Connection | None = None
        try:
            number = self._opened.keeper.number()
            if number is None:
                return name
            connection = connections.open_index_reader(paths.generation_file(self._opened.store.directory, number))
            with translated_index():  # the hold begins with the first read
                connection.execute("SELECT value FROM meta WHERE key = 'format'").fetchall()
        except (errors.MemorySqliteError, apsw.Error):
            if connection is not None:
                connection.close()
            return name  # published or retired at this moment: the cursor goes on in what is current then
        held = _Held(connection, number, self._clock.monotonic() + limits.CURSOR_HOLD_S)
        with self._lock:
            if not self._closed:
                self._held[name] = held
                surplus = [self._held.popitem(last=False)[1]] if len(self._held) > limits.CURSOR_HOLDS_MAX else []
            else:
                surplus = [held]
        _let_go(surplus)
        return name

    @contextmanager
    def using(self, name: bytes) -> Iterator[apsw.Connection | None]:
        """The connection behind a name for one thread until the block ends; ``None`` when it was let go."""
        self.sweep()
        with self._lock:
            held = self._held.get(name)
        if held is None:
            yield None
            return
        with held.busy:
            with self._lock:
                there = self._held.get(name) is held
            yield held.connection if there else None

    def numbers(self) -> list[int]:
        """The generations that are open."""
        with self._lock:
            return [held.number for held in self._held.values()]

    def sweep(self) -> None:
        """Let go of what was kept for long enough."""
        now = self._clock.monotonic()
        with self._lock:
            over = [name for name, held in self._held.items() if held.until <= now]
            gone = [self._held.pop(name) for name in over]
        _let_go(gone)

    def close(self) -> None:
        """Let go of everything and keep nothing any more; waits for whoever is reading."""
        with self._lock:
            self._closed = True
            gone = list(self._held.values())
            self._held.clear()
        _let_go(gone)


def _let_go(gone: list[_Held]) -> None:
    for held in gone:
        with held.busy:
            held.connection.close()
