"""Waiting for work that must not be cut short: until it settles, somebody aborts, or the time is over.

The work itself is never cancelled by a wait that ends: an engine may ignore every signal, and what it is doing to its
own store must come to its end. Time is injected, so that a test decides when it is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from memory_sqlite import limits

Timer = Callable[[float], Awaitable[None]]
"""Returns after so many seconds."""


@dataclass(frozen=True)
class Waits:
    """How long a host waits for its engines."""

    compaction_s: float = limits.COMPACTION_TIMEOUT_S
    foreground_s: float = limits.ENGINE_FOREGROUND_WAIT_S
    timer: Timer = asyncio.sleep


_alive: set[asyncio.Task[Any]] = set()
"""An event loop holds its tasks weakly: what nobody awaits must be held by somebody."""

_Done = TypeVar("_Done")


def keep(work: Coroutine[Any, Any, _Done]) -> asyncio.Task[_Done]:
    """Begin work that goes on by itself until it settles, whoever waits for it."""
    task = asyncio.ensure_future(work)
    _alive.add(task)
    task.add_done_callback(_settled)
    return task


def _settled(task: asyncio.Task[Any]) -> None:
    _alive.discard(task)
    if not task.cancelled():
        task.exception()  # whoever gave up waiting has been told so; the loop need not complain


class Retained:
    """Work that goes on by itself and keeps its engine alive until it settles."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Begin it; whoever wants its result awaits the task."""
        task = keep(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    @property
    def busy(self) -> bool:
        """Whether anything has not settled."""
        return bool(self._tasks)

    async def settle(self) -> None:
        """Return when everything has settled, also what was begun meanwhile. Raises nothing of it."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))


async def first(task: asyncio.Future[Any], *others: Awaitable[Any]) -> bool:
    """Wait for a task or for any of the others; whether the task has settled. The others are cancelled, it is not."""
    waiting = [asyncio.ensure_future(other) for other in others]
    try:
        await asyncio.wait([task, *waiting], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for other in waiting:
            other.cancel()
    return task.done()
