"""When work must be over, and how it is stopped: between two steps by asking, inside SQLite by an interrupt.

Not here: who waits for it (``recall.deadline``, the worker pool).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import apsw

from memory_sqlite import errors
from memory_sqlite.clock import Clock

_LOOK_S: Final = 0.02
"""How often a caller's cancellation is looked for: an event tells nobody that it was set."""
_STEPS: Final = 10_000
"""Steps of SQLite's machine between two looks at the deadline, about 1 ms; a look costs less than 1 us."""


FAR_S: Final = 86_400.0
"""A caller that gave no deadline but may cancel."""


class Deadline:
    """When work must be over, whether it is, and what to interrupt then. ``seconds`` run from its making."""

    def __init__(self, seconds: float, clock: Clock, cancelled: threading.Event | None = None) -> None:
        self.clock = clock
        self._ends = clock.monotonic() + seconds
        self._cancelled = cancelled
        self._over = threading.Event()
        self._connection: apsw.Connection | None = None
        self._lock = threading.Lock()

    def left(self) -> float:
        """Seconds until the end, never below 0."""
        return max(0.0, self._ends - self.clock.monotonic())

    def is_over(self) -> bool:
        """True once the work must stop: asked between steps of the search."""
        return self._over.is_set() or self.is_cancelled() or self.left() <= 0

    def is_set(self) -> bool:
        """The same by the name that waiting code asks an event by."""
        return self.is_over()

    def is_cancelled(self) -> bool:
        """True when the caller no longer wants an answer."""
        return self._cancelled is not None and self._cancelled.is_set()

    def check(self) -> None:
        """Raise ``Cancelled`` once the work must stop."""
        if self.is_over():
            raise errors.Cancelled("the deadline has passed")

    @contextmanager
    def interruptible(self, connection: apsw.Connection) -> Iterator[None]:
        """While the block runs, the connection is interrupted when the deadline passes; afterwards never.

        The end of the block comes before the connection serves anybody else. Raises ``Cancelled`` when it is too late.
        """
        with self._lock:
            self.check()
            self._connection = connection
        # an interrupt between two statements is lost: the next one has to ask for itself
        connection.set_progress_handler(self.is_over, _STEPS)
        try:
            yield
        finally:
            with self._lock:
                self._connection = None
            connection.set_progress_handler(None)

    def expire(self) -> None:
        """Stop the work now."""
        self._over.set()
        with self._lock:
            if self._connection is not None:
                self._connection.interrupt()

    def wait(self, done: threading.Event) -> bool:
        """Wait until the work is done, the time is over or the caller has cancelled; whether it is done."""
        if self._cancelled is None:
            return self.clock.wait(done, self.left())
        left = self.left()
        while left > 0 and not self._cancelled.is_set():
            slice_s = min(left, _LOOK_S)
            if self.clock.wait(done, slice_s):
                return True
            # counted as well as measured: a clock that stands still must not make this endless
            left = min(left - slice_s, self.left())
        return False
