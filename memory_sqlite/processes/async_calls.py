"""Awaiting a request from an event loop. Only for asynchronous hosts: asyncio is not on the path of a search."""

from __future__ import annotations

import asyncio
from typing import Any

from memory_sqlite.processes.pending import Pending


async def outcome(pending: Pending) -> Any:
    """The answer, or the error, of a request; see ``Pending.result``.

    When the task that awaits it is cancelled, so is the request, and the task ends when the worker is free or gone.
    """
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def tell() -> None:
        try:
            loop.call_soon_threadsafe(done.set)
        except RuntimeError:
            pass  # the loop was closed under the request: nobody waits any more

    pending.when_done(tell)
    try:
        await done.wait()
    except asyncio.CancelledError:
        pending.cancel()
        while not done.is_set():
            try:
                await done.wait()
            except asyncio.CancelledError:
                continue  # once is enough: the pool's grace bounds this wait
        raise
    return pending.result()
