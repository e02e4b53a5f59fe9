"""One lease on the slot owner's provider, for one question: opened, used, and always given back.

Not here: what is asked, and what a consumer does when nothing can be had.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from memory_sqlite.host.bound_handle import BoundHandle
from memory_sqlite.host.caller_checks import BoundCaller
from memory_sqlite.host.memory_host import MemoryHost
from memory_sqlite.host.racing import ends_of, finished
from memory_sqlite.runtime.callers import CallerContext, HostAuthority, Purpose, SessionAuthority
from memory_sqlite.runtime.shapes import OpenRequest


@dataclass(frozen=True)
class Lease:
    """A bound handle, or none and why; and whose it is."""

    handle: BoundHandle | None
    provider_id: str | None
    error: str | None


@asynccontextmanager
async def leased(
    host: MemoryHost, agent_id: str, context: CallerContext, purpose: Purpose = "default"
) -> AsyncIterator[Lease]:
    """The owner's handle, closed in the end; an aborted caller does not wait for that. Raises what ``MemoryHost.open``
    and closing raise."""
    opened = await host.open(OpenRequest(agent_id, context, purpose))
    handle = opened.provider if isinstance(opened.provider, BoundHandle) else None
    try:
        yield Lease(handle, opened.provider_id, opened.error)
    finally:
        if handle is not None:
            await finished(handle.close(), ends_of(context.signal))


async def still_current(host: MemoryHost, context: CallerContext) -> None:
    """The whole check once more, when the lease is given back and an answer is about to be released."""
    await BoundCaller(host.audiences, context).current()


def host_operation(operation: str) -> CallerContext:
    """A caller who is the host itself: nobody's grant, so that nothing private is read for it."""
    return CallerContext(HostAuthority(operation), always_current)


def always_current() -> None:
    """The check of an operation that nobody can revoke."""


def session_of(context: CallerContext) -> SessionAuthority | None:
    """The session a caller speaks for, where it does."""
    return context.authority if isinstance(context.authority, SessionAuthority) else None
