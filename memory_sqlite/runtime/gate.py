"""Calls under way, counted, so that a runtime can be taken away under nobody's hands and come back.

Not here: who retires what (``host.reload``). Called by our legacy runtime and its managers.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from memory_sqlite import errors


class Gate:
    """Open until it is shut; ``drained`` waits for those inside. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._shut = 0
        self._empty: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    @contextmanager
    def using(self) -> Iterator[None]:
        """One call. Raises ``ProviderUnavailable`` while the gate is shut."""
        with self._lock:
            if self._shut:
                raise errors.ProviderUnavailable("memory provider instance is no longer current")
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                waiting = self._empty if not self._inside else []
                if not self._inside:
                    self._empty = []
            for loop, future in waiting:
                with suppress(RuntimeError):  # a loop that has ended waits for nobody any more
                    loop.call_soon_threadsafe(_settle, future)

    def shut(self) -> None:
        """Let nobody in any more, until ``open`` is called as often."""
        with self._lock:
            self._shut += 1

    def open(self) -> None:
        """Take one ``shut`` back."""
        with self._lock:
            self._shut = max(0, self._shut - 1)

    async def drained(self) -> None:
        """Return when nobody is inside."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        with self._lock:
            if not self._inside:
                return
            self._empty.append((loop, future))
        await future


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
