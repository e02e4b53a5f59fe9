"""Consumers over an owner with nothing but a file-shaped runtime: its manager is called as ever, on itself.

What the manager finds passes the runtime's own authorisation, and keeps the label that the manager gave it. Not here:
the neutral way (``lease``), the adapter for everybody else (``host.legacy``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from memory_sqlite import errors
from memory_sqlite.host import legacy_hits
from memory_sqlite.host.binding import NO_PLUGIN
from memory_sqlite.host.caller_checks import BoundCaller
from memory_sqlite.host.consumers.lease import session_of
from memory_sqlite.host.hit_authorization import authorized, listed
from memory_sqlite.host.legacy_open import manager_of
from memory_sqlite.host.memory_host import MemoryHost
from memory_sqlite.host.racing import End, calling, raced
from memory_sqlite.host.slots import ActiveMemory
from memory_sqlite.runtime.callers import CallerContext
from memory_sqlite.runtime.manager_shapes import SearchOptions
from memory_sqlite.runtime.shapes import ProviderHit

T = TypeVar("T")
Ask = Callable[[Any], Awaitable[Sequence[Any]]]
"""Asks a manager something; what comes back are raw hits."""


def legacy_owner(host: MemoryHost) -> ActiveMemory | None:
    """The slot's owner where it has a file-shaped runtime and no neutral one."""
    owner = host.slot.owner()
    if owner is None or owner.capability.provider_runtime is not None or owner.capability.runtime is None:
        return None
    return owner


async def manager_hits(
    host: MemoryHost, owner: ActiveMemory, agent_id: str, context: CallerContext, ask: Ask
) -> list[ProviderHit]:
    """What the manager finds and the caller may see, as hits.

    Raises ``ProviderUnavailable`` without a manager, ``Cancelled``, ``ProviderInvalid``, what the caller's check
    raises, and what the runtime raises.
    """
    caller = BoundCaller(host.audiences, context)

    async def work() -> list[ProviderHit]:
        manager = await manager_for(host, owner, agent_id)
        await caller.current()
        raw = await ask(manager)
        await caller.current()
        allowed = await authorized(
            owner.capability.runtime, raw, config=host.config, agent_id=agent_id, session=session_of(context)
        )
        return [legacy_hits.hit(one, owner.plugin_id) for one in allowed]

    return await between_checks(owner, caller, work)


async def between_checks(owner: ActiveMemory, caller: BoundCaller, work: Callable[[], Awaitable[T]]) -> T:
    """What the work brings, if caller and plugin are current before and after it; the end of either ends the waiting.
    Raises what their checks and the work raise."""
    ends = (*caller.ends, End(owner.instance.lifecycle, owner.instance.assert_alive))
    await caller.current(ends)
    owner.instance.assert_alive()
    found = await raced(work(), ends)
    await caller.current(ends)
    owner.instance.assert_alive()
    return found


async def manager_for(host: MemoryHost, owner: ActiveMemory, agent_id: str) -> Any:
    """The manager that the runtime keeps for the agent: it is shared, and not the caller's to close.

    Raises ``ProviderUnavailable`` when there is none.
    """
    found = await manager_of(owner.capability.runtime, config=host.config, agent_id=agent_id)
    if found.manager is None:
        raise errors.ProviderUnavailable(found.error or NO_PLUGIN)
    return found.manager


async def search(manager: Any, query: str, options: SearchOptions) -> Sequence[Any]:
    """A manager's raw hits. Raises ``ProviderInvalid``."""
    return listed(await calling(manager.search, query, options), "search")


async def candidates(manager: Any, method: str, **asked: Any) -> Sequence[Any]:
    """A manager's raw candidates; none where it cannot list any. Raises ``ProviderInvalid``."""
    listing = getattr(manager, method, None)
    if not callable(listing):
        return []
    return listed(await calling(lambda: listing(**asked)), method)
