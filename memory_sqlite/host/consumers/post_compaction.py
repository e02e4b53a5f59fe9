"""After a compaction the memory may look at what is new: the provider refreshes, and the host does not depend on it.

That a provider has no refresh, denies it or fails is logged and nothing else. Opening is awaited, because it needs the
turn's authority; what the provider then does is its own, and goes on without the turn unless the host waits for it. Not
here: the compaction, the flush before it (``flush``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from memory_sqlite.host.consumers import legacy_lane
from memory_sqlite.host.consumers.lease import always_current, host_operation, leased
from memory_sqlite.host.memory_host import MemoryHost
from memory_sqlite.host.racing import calling
from memory_sqlite.runtime.callers import CallerContext, MemoryAudience, SessionAuthority
from memory_sqlite.runtime.manager_shapes import SyncSession

OPERATION: Final = "post-compaction-refresh"
Mode = Literal["off", "async", "await"]
_log = logging.getLogger("memory_sqlite.host.consumers.post_compaction")
_running: set[asyncio.Task[None]] = set()
"""Refreshes that nobody waits for; the event loop holds tasks weakly."""


@dataclass(frozen=True)
class Compacted:
    """A session that was compacted. ``assert_active`` is the turn's own check."""

    agent_id: str
    session_key: str | None = None
    session_id: str | None = None
    sandboxed: bool = False
    audience: MemoryAudience | None = None
    assert_active: Callable[[], None] | None = None


def mode_of(config: Mapping[str, Any]) -> Mode:
    """``agents.defaults.compaction.postIndexSync``: ``off``, ``async`` (also when it says something else) or
    ``await``."""
    at: Any = config
    for name in ("agents", "defaults", "compaction"):
        at = at.get(name) if isinstance(at, Mapping) else None
    said = at.get("postIndexSync") if isinstance(at, Mapping) else None
    if said == "off":
        return "off"
    return "await" if said == "await" else "async"


async def refresh_after_compaction(host: MemoryHost, session: Compacted, mode: Mode | None = None) -> None:
    """Let the memory refresh. Returns at once (``off``), when the provider has been told (``async``), or when it is
    done (``await``). Never raises but for being cancelled."""
    mode = mode_of(host.config) if mode is None else mode
    if mode == "off":
        return
    told = asyncio.Event()
    task = asyncio.ensure_future(_refresh(host, session, told))
    _running.add(task)
    task.add_done_callback(_running.discard)
    waiting = asyncio.ensure_future(told.wait())
    try:
        ends = {task} if mode == "await" else {task, waiting}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        if not told.is_set():
            task.cancel()
        raise
    finally:
        waiting.cancel()


async def settled() -> None:
    """Return when no refresh of this event loop is under way: before a host ends."""
    loop = asyncio.get_running_loop()
    while ours := {task for task in _running if task.get_loop() is loop}:
        await asyncio.wait(ours)


async def _refresh(host: MemoryHost, session: Compacted, told: asyncio.Event) -> None:
    try:
        if (owner := legacy_lane.legacy_owner(host)) is not None:
            manager = await legacy_lane.manager_for(host, owner, session.agent_id)
            _assert(session)
            if callable(getattr(manager, "sync", None)):
                told.set()
                await calling(lambda: manager.sync(reason="post-compaction", sessions=_sessions(session)))
            return
        async with leased(host, session.agent_id, _caller(session)) as lease:
            _assert(session)
            refresh = getattr(lease.handle, "refresh", None)
            if lease.handle is None:
                _log.debug("the memory was not refreshed after compaction: there is no provider")
            elif refresh is None:
                _log.debug("the memory was not refreshed after compaction: its provider has no refresh")
            else:
                told.set()
                await refresh()
    except Exception as error:
        _log.debug("the memory was not refreshed after compaction: %s", type(error).__name__)


def _caller(session: Compacted) -> CallerContext:
    if session.audience is None or not session.session_key:
        return host_operation(OPERATION)
    authority = SessionAuthority(session.session_key, session.sandboxed, session.session_id, session.audience)
    return CallerContext(authority, always_current)


def _assert(session: Compacted) -> None:
    if session.assert_active is not None:
        session.assert_active()


def _sessions(session: Compacted) -> tuple[SyncSession, ...]:
    if not session.session_id:
        return ()
    return (SyncSession(session.session_id, session.agent_id, session.session_key),)
