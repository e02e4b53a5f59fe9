"""Waiting for somebody else's code without being at its mercy: whoever no longer wants the answer stops waiting.

The abandoned work is cancelled, what it still brings is thrown away (or given back), and nobody waits for it. Not here:
whether a caller may have the answer (``callers``).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from memory_sqlite import errors
from memory_sqlite.runtime.signals import AbortSignal

T = TypeVar("T")

_abandoned: set[asyncio.Future[Any]] = set()
"""The event loop holds tasks weakly; these are held until they settle."""


@dataclass(frozen=True)
class End:
    """A signal that ends waiting, and how it is said (raises)."""

    signal: AbortSignal
    say: Callable[[], None]


def ends_of(signal: AbortSignal | None) -> tuple[End, ...]:
    """The caller's own signal as an end: raises ``Cancelled``."""
    return () if signal is None else (End(signal, signal.raise_if_aborted),)


async def calling(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call somebody's function; what it returns is awaited where it can be."""
    answer = function(*arguments)
    return await answer if inspect.isawaitable(answer) else answer


async def raced(work: Awaitable[T], ends: Sequence[End], late: Callable[[T], Awaitable[None]] | None = None) -> T:
    """The work's result, or what the first end says. ``late`` is given a result that nobody waited for any more.

    Work that fails in a way that is no ``Exception`` fails as ``outcome`` says.
    """
    task = asyncio.ensure_future(work)
    try:
        await _until(task, ends)
    except BaseException:
        abandon(task, late)
        raise
    if not task.done():
        abandon(task, late)
        for end in ends:
            if end.signal.aborted:
                end.say()
    return outcome(task)


def outcome(task: asyncio.Future[T]) -> T:
    """What settled work of a plugin brought. A plugin can end neither its caller's task nor its caller's turn.

    Work that gave up by itself (``asyncio.CancelledError`` though nobody cancelled this caller) raises ``Cancelled``,
    and work that raised what is no ``Exception`` raises ``ProviderInvalid``.
    """
    if task.cancelled():
        raise errors.Cancelled("the plugin cancelled its own work")
    try:
        return task.result()
    except Exception:
        raise
    except BaseException as error:
        raise errors.ProviderInvalid(f"a plugin raised {type(error).__name__}, which is no Exception") from error


async def finished(work: Awaitable[Any], ends: Sequence[End]) -> None:
    """Begin work that goes on whatever happens, and return when it is done or an end is reached. Raises what it raises,
    unless nobody waits any more."""
    task = asyncio.ensure_future(work)
    _abandoned.add(task)
    task.add_done_callback(_settled)
    await asyncio.sleep(0)  # it has begun, even where an end is reached already
    await _until(task, ends)
    if task.done():
        outcome(task)


def abandon(task: asyncio.Future[T], late: Callable[[T], Awaitable[None]] | None) -> None:
    """Cancel work that nobody waits for, and take care of what it brings all the same."""
    _abandoned.add(task)

    def give_back(task: asyncio.Future[T]) -> None:
        if late is None or task.cancelled() or task.exception() is not None:
            return
        giving_back = asyncio.ensure_future(late(task.result()))
        _abandoned.add(giving_back)
        giving_back.add_done_callback(_settled)

    task.add_done_callback(_settled)
    task.add_done_callback(give_back)
    task.cancel()


def _settled(task: asyncio.Future[Any]) -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()  # looked at: nobody else will


async def _until(task: asyncio.Future[Any], ends: Sequence[End]) -> None:
    """Return when the task is done or an end is reached, whichever is first."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[Any] = loop.create_future()

    def settle() -> None:
        if not over.done():
            over.set_result(None)

    def tell() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle)

    removes = [end.signal.on_abort(tell) for end in ends]
    try:
        await asyncio.wait({task, over}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for remove in removes:
            remove()
        over.cancel()
