"""Our memory provider: opens caller-bound handles over the memories of one or many agents.

Not here: what a handle does (``handle``), which memories there are (``agents``), what a plugin registers beside it
(``capability``). Made by ``Memory.provider_runtime`` and ``Memory.serve_agents``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from memory_sqlite import errors
from memory_sqlite.agent import remembered
from memory_sqlite.runtime.agents import Agents
from memory_sqlite.runtime.gate import Gate
from memory_sqlite.runtime.handle import Handle, rooms_of
from memory_sqlite.runtime.holding import Budget
from memory_sqlite.runtime.reloading import Drain
from memory_sqlite.runtime.shapes import OpenRequest, OpenResult
from memory_sqlite.runtime.visibility import PROVIDER_ID, access_of
from memory_sqlite.storage import change_log

if TYPE_CHECKING:
    from memory_sqlite.agent.embedding import Embedding

_GONE = "memory provider instance is no longer current"
_PURPOSES = ("default", "status", "cli")


class Provider:
    """The provider-neutral runtime (``shapes.ProviderRuntime``)."""

    provider_id = PROVIDER_ID

    def __init__(self, agents: Agents, *, on_close: Callable[[], None] | None = None) -> None:
        """``agents`` are closed with it; ``on_close`` is called then."""
        self._agents = agents
        self._gate = Gate()
        self._budget = Budget()
        self._on_close = on_close
        self._closed = False

    @property
    def agents(self) -> Agents:
        """Whom it serves: for what a plugin registers beside it (``capability``)."""
        return self._agents

    async def open(self, request: OpenRequest) -> OpenResult:
        """A handle for the caller, or none and why (memory is disabled for this agent, or it is not served here).

        Who may read nothing gets a handle, too: ``health`` answers everybody. Raises ``CallerNotCurrent`` (no currency
        check, lapsed, an audience of another agent), ``InvalidArgument``, ``InvalidConfiguration``,
        ``ProviderUnavailable`` once closed or while reloading, and what opening a memory raises.
        """
        context = request.context
        if not callable(getattr(context, "assert_current", None)):
            raise errors.CallerNotCurrent("memory provider requires caller authority with assertCurrent")
        if not isinstance(request.agent_id, str) or not request.agent_id.strip():
            raise errors.InvalidArgument("agent_id must be a string that is not blank")
        if request.purpose not in _PURPOSES:
            raise errors.InvalidArgument(f"purpose must be one of {', '.join(_PURPOSES)}")
        if self._closed:
            raise errors.ProviderUnavailable(_GONE)
        context.assert_current()
        access = access_of(request.agent_id, context.authority, request.config)

        def look() -> str | None:
            with self._gate.using():
                context.assert_current()
                try:
                    rooms_of(self._agents, request.agent_id)
                except errors.ProviderUnavailable as error:
                    return error.message
                return None

        reason = await asyncio.to_thread(look)
        context.assert_current()
        if self._closed:
            raise errors.ProviderUnavailable(_GONE)
        if reason is not None:
            return OpenResult(None, reason, PROVIDER_ID)
        handle = Handle(self._agents, request.agent_id, context, access, self._gate, self._budget)
        return OpenResult(handle, None, PROVIDER_ID)

    async def forgotten_mark(self, agent_id: str) -> tuple[object, ...]:
        """A value that is another one once something of the agent was forgotten or came in: for who keeps answers.

        Raises ``ProviderUnavailable``, and what opening a memory raises.
        """

        def look() -> tuple[object, ...]:
            with self._gate.using():
                opened = rooms_of(self._agents, agent_id).opened
                with opened.store.readers.borrow() as store:
                    newest = change_log.newest(store)
                return (*remembered.mark(opened), newest)

        return await asyncio.to_thread(look)

    def prepare_reload(self, *, retire_runtime: bool, retiring_embedding_providers: Sequence[str] = ()) -> Drain:
        """What a host does before a reload: ``drain`` lets no call in any more and waits for those inside, ``resume``
        goes on. Nothing is shut where neither this runtime retires nor an embedding provider that it uses."""
        retiring = frozenset(retiring_embedding_providers)

        def affected() -> list[Embedding]:
            using = [rooms.opened for rooms in self._agents.opened() if rooms.settings.embedding_provider in retiring]
            return [opened.embedding for opened in using if opened.embedding is not None]

        return Drain(self._gate, affected, _nothing_more, retires=retire_runtime)

    async def close_all_memory_search_managers(self) -> None:
        """End the provider: close every memory that it opened. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        await asyncio.to_thread(self._agents.close)
        if self._on_close is not None:
            self._on_close()


async def _nothing_more(_: str | None) -> None:
    """Leases end with their callers, and memories with the provider."""
