"""A signal that somebody no longer wants an answer: thread-safe, one way, once.

The Python form of the contract's abort signal. Not here: whether a caller is still who it was (``assert_current`` of
``callers``), which revocation changes and this signal does not. Called by hosts, providers and engines.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from memory_sqlite import errors


class AbortSignal:
    """``abort`` it in any thread; whoever holds it asks ``aborted``, waits, or is called back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._event = threading.Event()
        self._reason = "the caller no longer wants an answer"
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._next = 0

    @property
    def aborted(self) -> bool:
        """Whether ``abort`` was called."""
        return self._event.is_set()

    @property
    def event(self) -> threading.Event:
        """Set when aborted: what the search's ``cancelled`` argument takes."""
        return self._event

    def abort(self, reason: str | None = None) -> None:
        """Say it; the first time counts. Callbacks run in this thread."""
        with self._lock:
            if self._event.is_set():
                return
            if reason is not None:
                self._reason = reason
            self._event.set()
            callbacks = list(self._callbacks.values())
            self._callbacks.clear()
        for callback in callbacks:
            callback()

    def on_abort(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback`` once when aborted, at once if that has happened; returns what takes it back."""
        with self._lock:
            if not self._event.is_set():
                number = self._next
                self._next += 1
                self._callbacks[number] = callback

                def remove() -> None:
                    with self._lock:
                        self._callbacks.pop(number, None)

                return remove
        callback()
        return lambda: None

    def raise_if_aborted(self) -> None:
        """Raise ``Cancelled`` when aborted."""
        if self._event.is_set():
            raise errors.Cancelled(self._reason)

    async def wait(self) -> None:
        """Return when aborted."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[None] = loop.create_future()

        def settle() -> None:
            if not waiting.done():
                waiting.set_result(None)

        def tell() -> None:
            loop.call_soon_threadsafe(settle)

        remove = self.on_abort(tell)
        try:
            await waiting
        finally:
            remove()
