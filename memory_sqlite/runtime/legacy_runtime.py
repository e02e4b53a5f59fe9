"""Our legacy, file-shaped runtime: search managers for a host, which of their hits may be seen, reload, closing.

Not here: the manager (``manager``), the neutral runtime (``provider``), what a host does with either (``host``).
Given to a host by ``capability``.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from memory_sqlite import errors
from memory_sqlite.runtime import authorizing, recall_log, visibility, workspace_paths
from memory_sqlite.runtime.agents import DISABLED, Agents
from memory_sqlite.runtime.callers import ConversationRecall, Purpose
from memory_sqlite.runtime.gate import Gate
from memory_sqlite.runtime.manager import Manager
from memory_sqlite.runtime.manager_shapes import (
    ClassifiedPath,
    CliSearchResult,
    ManagerResult,
    MemorySearchResult,
    ReadSource,
    SearchOptions,
)
from memory_sqlite.runtime.reloading import Drain

if TYPE_CHECKING:
    from memory_sqlite.agent.embedding import Embedding

_FOREIGN: Final = "the memory search manager is of another instance, another agent, or closed"
_CLI: Final = "cli"
_CATCH_UP: Final = "Run `memory-sqlite index`: not everything is searched yet."


class LegacyRuntime:
    """One instance over the agents it serves. Any thread and any loop may use it."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        self._gate = Gate()
        self._lock = threading.Lock()
        self._cached: dict[str, Manager] = {}
        self._given: weakref.WeakSet[Manager] = weakref.WeakSet()
        """Every manager of this instance that somebody has: by identity, which is what makes it ours."""

    # --- managers ------------------------------------------------------------------------------------------------

    async def get_memory_search_manager(
        self, *, config: Mapping[str, Any], agent_id: str, purpose: Purpose = "default", inspect_sources: bool = False
    ) -> ManagerResult:
        """A manager of the agent, or none and why. The one for ``default`` is kept and shared; those for ``cli`` and
        ``status`` are the caller's to close. What is searched is looked at anew by every search: ``inspect_sources``
        asks for nothing more."""
        del config, inspect_sources
        debug = {"backend": "builtin", "purpose": purpose}
        try:
            manager = await asyncio.to_thread(self.manager, agent_id, purpose)
        except errors.MemorySqliteError as error:
            return ManagerResult(None, error.message, {**debug, "disabled": error.message == DISABLED})
        return ManagerResult(manager, None, debug)

    def manager(self, agent_id: str, purpose: Purpose = "default") -> Manager:
        """The same for callers that may wait. Raises ``ProviderUnavailable`` and what opening a memory raises."""
        with self._gate.using():
            self._agents.rooms(agent_id)  # opens the memory, or says why not
            with self._lock:
                known = self._cached.get(agent_id) if purpose == "default" else None
                if known is not None and not known.closed:
                    return known
                made = Manager(self._agents, agent_id, purpose, self._gate)
                self._given.add(made)
                if purpose == "default":
                    self._cached[agent_id] = made
                return made

    def resolve_memory_backend_config(self, *, config: Mapping[str, Any], agent_id: str) -> Mapping[str, Any]:
        """Which backend serves the agent: there is one."""
        del config, agent_id
        return {"backend": "builtin"}

    # --- who may see what ----------------------------------------------------------------------------------------

    async def authorize_search_hits(
        self,
        *,
        config: Mapping[str, Any],
        agent_id: str,
        hits: Sequence[MemorySearchResult],
        requester_session_key: str | None = None,
        sandboxed: bool = False,
        trusted_agent_scope: bool = False,
        conversation_recall: ConversationRecall | None = None,
    ) -> list[MemorySearchResult]:
        """Those of the raw hits that the requester may see, in their order.

        Raises ``ProviderUnavailable`` and the store's errors: what cannot be decided is never shown. A sandboxed
        session sees nothing where the configuration denies it (``visibility.admits_sandboxed``).
        """
        if sandboxed and not visibility.admits_sandboxed(config):
            return []
        asking = authorizing.Asking(
            agent_id, requester_session_key, sandboxed, trusted_agent_scope, conversation_recall
        )

        def decide() -> list[MemorySearchResult]:
            with self._gate.using(), self._agents.rooms(agent_id).opened.store.readers.borrow() as store:
                return authorizing.allowed(store, asking, hits)

        return await asyncio.to_thread(decide)

    # --- files of the workspace ----------------------------------------------------------------------------------

    def supports_workspace_memory_read_sources(self) -> Literal[True]:
        """``classify_workspace_memory_paths`` takes ``read_sources``."""
        return True

    async def classify_workspace_memory_paths(
        self,
        *,
        config: Mapping[str, Any],
        agent_id: str,
        workspace_dir: str,
        relative_paths: Sequence[str],
        read_sources: Sequence[ReadSource] | None = None,
    ) -> list[ClassifiedPath]:
        """Whose words each path holds: the owner's for a note of this agent's own workspace, else nobody's we trust."""
        del config

        def classify() -> list[ClassifiedPath]:
            with self._gate.using():
                opened = self._agents.rooms(agent_id).opened
                return workspace_paths.classify(opened, workspace_dir, relative_paths, read_sources or ())

        return await asyncio.to_thread(classify)

    # --- the command line ----------------------------------------------------------------------------------------

    async def search_for_cli(
        self,
        *,
        manager: Any,
        agent_id: str,
        query: str,
        assert_current: Callable[[], None],
        config: Mapping[str, Any] | None = None,
        max_results: int | None = None,
        min_score: float | None = None,
    ) -> CliSearchResult:
        """Search as the operator with a manager of this instance, and record what was recalled before answering.

        ``assert_current`` is called before the search and again immediately before the record is written; when it
        raises, nothing is written. Raises ``ProviderRefused`` for a manager that is not this instance's.
        """
        del config
        if not isinstance(manager, Manager) or not self._is_ours(manager, agent_id):
            raise errors.ProviderRefused(_FOREIGN, hint="Get a manager of this runtime for this agent.")
        assert_current()
        found = await manager.search_page(query, SearchOptions(max_results=max_results, min_score=min_score))
        pairs = list(zip(found.references, found.results, strict=True))

        def keep() -> None:
            with self._gate.using():
                recall_log.record(self._agents.rooms(agent_id), _CLI, query, pairs, assert_current)

        await asyncio.to_thread(keep)
        return CliSearchResult(
            found.results,
            stale=found.stale,
            warning="; ".join(found.warnings) or None,
            action=_CATCH_UP if found.stale else None,
        )

    def _is_ours(self, manager: Manager, agent_id: str) -> bool:
        with self._lock:
            return manager in self._given and not manager.closed and manager.agent_id == agent_id

    # --- reload and closing --------------------------------------------------------------------------------------

    def prepare_reload(self, *, retire_runtime: bool, retiring_embedding_providers: Sequence[str] = ()) -> Drain:
        """What a host does before a reload: ``drain`` lets nobody in any more and waits for those inside, ``resume``
        goes on. Nothing is shut where neither this runtime retires nor an embedding provider that it uses."""
        retiring = frozenset(retiring_embedding_providers)

        def affected() -> list[Embedding]:
            using = [rooms.opened for rooms in self._agents.opened() if rooms.settings.embedding_provider in retiring]
            return [opened.embedding for opened in using if opened.embedding is not None]

        return Drain(self._gate, affected, self._close_managers, retires=retire_runtime)

    async def close_memory_search_manager(self, *, config: Mapping[str, Any], agent_id: str) -> None:
        """Close the agent's managers. Its memory stays open for others; the next manager is a new one."""
        del config
        await self._close_managers(agent_id)

    async def close_all_memory_search_managers(self) -> None:
        """Close every manager of this instance."""
        await self._close_managers(None)

    async def _close_managers(self, agent_id: str | None) -> None:
        with self._lock:
            closing = [one for one in self._given if agent_id is None or one.agent_id == agent_id]
            for one in closing:
                self._given.discard(one)
                if self._cached.get(one.agent_id) is one:
                    del self._cached[one.agent_id]
        for one in closing:
            await one.close()
