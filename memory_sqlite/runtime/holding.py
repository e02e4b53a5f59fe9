"""The generations that a handle keeps open for its cursors: the open connection is the hold, for ten minutes at most.

Not here: the generations of a memory's own readers (``indexing.keeper``), what a cursor says (``cursors``). Any thread
may use it; each connection is used by one at a time.
"""

from __future__ import annotations

import threading
import weakref
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


class Budget:
    """How many generations all handles of one provider keep open together: of more, the oldest is let go."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: OrderedDict[bytes, weakref.ref[Holding]] = OrderedDict()

    def take(self, name: bytes, holding: Holding) -> None:
        """One more; what is too much is let go, whosever it is."""
        over: list[tuple[bytes, weakref.ref[Holding]]] = []
        with self._lock:
            self._taken[name] = weakref.ref(holding)
            while len(self._taken) > limits.CURSOR_HOLDS_ALL_MAX:
                over.append(self._taken.popitem(last=False))
        for oldest, whose in over:
            other = whose()
            if other is not None:
                other.drop([oldest])

    def give_back(self, names: list[bytes]) -> None:
        """These are open no more."""
        with self._lock:
            for name in names:
                self._taken.pop(name, None)


@dataclass
class _Held:
    connection: apsw.Connection
    number: int
    until: float
    busy: threading.Lock = field(default_factory=threading.Lock)


class Holding:
    """Generations by the names that cursors carry."""

    def __init__(self, opened: Opened, clock: Clock, budget: Budget) -> None:
        self._opened = opened
        self._budget = budget
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
            connection = connections.open_index_reader(
                paths.generation_file(self._opened.store.directory, number), self._opened.store.file_key
            )
            with translated_index():  # the hold begins with the first read
                connection.execute("SELECT value FROM meta WHERE key = 'format'").fetchall()
        except (errors.MemorySqliteError, apsw.Error):
            if connection is not None:
                connection.close()
            return name  # published or retired at this moment: the cursor goes on in what is current then
        with self._lock:
            self._held[name] = _Held(connection, number, self._clock.monotonic() + limits.CURSOR_HOLD_S)
            surplus = list(self._held)[: -limits.CURSOR_HOLDS_MAX]
        self._budget.take(name, self)
        self.drop([name] if self._closed else surplus)
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

    def due_s(self) -> float | None:
        """In how many seconds the next is to be let go; ``None`` when nothing is open."""
        with self._lock:
            ends = [held.until for held in self._held.values()]
        return max(0.0, min(ends) - self._clock.monotonic()) if ends else None

    def sweep(self) -> None:
        """Let go of what was kept for long enough."""
        now = self._clock.monotonic()
        with self._lock:
            over = [name for name, held in self._held.items() if held.until <= now]
        self.drop(over)

    def close(self) -> None:
        """Let go of everything and keep nothing any more; waits for whoever is reading."""
        with self._lock:
            self._closed = True
            every = list(self._held)
        self.drop(every)

    def drop(self, names: list[bytes]) -> None:
        """Let go of these; waits for whoever is reading."""
        with self._lock:
            gone = [self._held.pop(name) for name in names if name in self._held]
        self._budget.give_back(names)
        for held in gone:
            with held.busy:
                held.connection.close()
