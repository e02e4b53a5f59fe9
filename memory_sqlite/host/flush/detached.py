"""The session of a flush's own: a key that no row has, and the source's audience delegated to it while it runs.

Not here: what its tools are (``arms``), what is run in it (``turns``). Called by ``run``.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from memory_sqlite import errors
from memory_sqlite.host.flush import arms
from memory_sqlite.host.flush.ports import Authorities, Instance
from memory_sqlite.host.flush.shapes import FlushSourceTurn
from memory_sqlite.runtime.callers import MemoryAudience
from memory_sqlite.runtime.plugins import MemoryFlushContext, ToolContext

KeyOf = Callable[[str, str], str]
"""Makes a session key of an agent's id and a session's id; it must name a session of that agent."""


def default_key(agent_id: str, session_id: str) -> str:
    """In the product's form."""
    return f"agent:{agent_id}:memory-flush:{session_id}"


@asynccontextmanager
async def detached(
    source: FlushSourceTurn,
    key_of: KeyOf,
    *,
    audiences: Authorities | None = None,
    cycle: str | None = None,
    owner: Instance | None = None,
) -> AsyncIterator[arms.Binding]:
    """A session of the flush's own, with an audience delegated from the source's where ``audiences`` are given; both
    end with it. ``owner`` is whose tools are called: they are not once it was retired.

    Raises ``AudienceDenied``, ``CallerNotCurrent``.
    """
    session_id = str(uuid.uuid4())
    key = key_of(source.agent_id, session_id)
    over = False
    parent: MemoryAudience | None = None
    child: MemoryAudience | None = None

    def assert_current() -> None:
        if over:
            raise errors.ProviderUnavailable("the flush is over")
        if child is not None and audiences is not None:
            audiences.assert_current(child, key)

    async def check() -> None:
        if audiences is not None:
            await audiences.joined(child)  # a session that is being written is waited for
        if owner is not None:
            owner.assert_alive()
        assert_current()

    try:
        if audiences is not None:
            parent = await audiences.resolve(
                agent_id=source.agent_id,
                session_key=source.session_key,
                session_id=source.session_id,
                sender_is_owner=source.sender_is_owner,
            )
            child = await audiences.delegate(parent, child_key=key, detached=True)
        yield arms.Binding(
            ToolContext(
                agent_id=source.agent_id,
                session_key=key,
                session_id=session_id,
                sandboxed=source.sandboxed,
                sender_is_owner=False,
                memory_audience=child,
                assert_memory_audience_current=assert_current if child is not None else None,
                memory_flush=MemoryFlushContext(cycle) if cycle is not None else None,
                active_project_keys=source.active_project_keys,
            ),
            check,
        )
    finally:
        over = True
        for audience in (child, parent):
            if audience is not None and audiences is not None:
                audiences.release(audience)
