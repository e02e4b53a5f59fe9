"""Calls of one server: so many at once, each in a thread, with progress, given up when its client gives it up.

A call that was cancelled before it began is dropped; a search that runs is stopped, in its worker too; a write that
runs is finished, or rolled back whole. Not here: what is called (``operations``, ``resources``), any protocol.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from memory_sqlite import errors, limits
from memory_sqlite.server.operations import Tell

T = TypeVar("T")
Report = Callable[[float, str], Awaitable[None]]
"""Hears of progress: a number that grows, and what is being done."""
_STILL: Final = "still at it"


class Calls:
    """What runs for the clients of one server, on its event loop."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(limits.SERVE_THREADS, thread_name_prefix="memory-sqlite-serve")
        self._lock = threading.Lock()
        self._inside = 0

    async def run(self, work: Callable[[threading.Event, Tell], T], report: Report | None = None) -> T:
        """Do the work in a thread. ``report`` hears of its stages, and once a second that it goes on.

        Raises ``Overloaded`` when too much is waiting, and what the work raises.
        """
        self._enter()
        loop = asyncio.get_running_loop()
        told: asyncio.Queue[str | None] = asyncio.Queue()
        cancelled = threading.Event()

        def tell(stage: str | None) -> None:
            try:
                loop.call_soon_threadsafe(told.put_nowait, stage)
            except RuntimeError:
                pass  # the loop has ended and nobody listens any more: the work goes on

        try:
            inner = self._threads.submit(work, cancelled, tell)
        except RuntimeError:
            self._leave()
            raise errors.MemoryClosed("this server is ending") from None
        inner.add_done_callback(lambda _: self._leave())  # by the thread: a call that was given up is inside until then
        inner.add_done_callback(lambda _: tell(None))
        outer = asyncio.wrap_future(inner)
        try:
            await _follow(told, report)
            return await outer
        except asyncio.CancelledError:
            cancelled.set()
            outer.cancel()
            raise

    def close(self) -> None:
        """Take no more calls, drop those that have not begun, wait for those that have."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _enter(self) -> None:
        with self._lock:
            if self._inside >= limits.SERVE_CALLS_MAX:
                raise errors.Overloaded("too many calls are waiting")
            self._inside += 1

    def _leave(self) -> None:
        with self._lock:
            self._inside -= 1


async def _follow(told: asyncio.Queue[str | None], report: Report | None) -> None:
    """Pass on what is told, until ``None`` says that nothing more will be."""
    step = 0
    while True:
        try:
            stage = await asyncio.wait_for(told.get(), limits.SERVE_PROGRESS_EVERY_S)
        except TimeoutError:
            stage = _STILL
        if stage is None:
            return
        if report is not None:
            step += 1
            await report(step, stage)
