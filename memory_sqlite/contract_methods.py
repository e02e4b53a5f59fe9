"""The door's methods for hosts that speak the provider and context-engine contracts.

Part of ``Memory``, in a module of its own so that the door stays a page. Not here: any of what they return
(``runtime``, ``context``). Inherited by ``memory.Memory``, used by nobody else.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Self

from memory_sqlite.agent.opened import Opened
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings

if TYPE_CHECKING:
    from memory_sqlite.context.budget import CountTokens
    from memory_sqlite.context.compaction import Compaction
    from memory_sqlite.context.engine import MemoryContextEngine
    from memory_sqlite.context.following import ReadDelta
    from memory_sqlite.context.host_sessions import Describe
    from memory_sqlite.context.shapes import DeltaResult, TurnAnchor
    from memory_sqlite.host.engines.outbox import TurnOutbox
    from memory_sqlite.runtime.agents import AgentRooms, Agents
    from memory_sqlite.runtime.callers import Purpose
    from memory_sqlite.runtime.capability import MemoryPlugin
    from memory_sqlite.runtime.manager import Manager
    from memory_sqlite.runtime.plugins import MemoryCapability
    from memory_sqlite.runtime.provider import Provider


class ContractMethods:
    """What ``Memory`` gives to hosts of the contracts."""

    _settings: Settings
    _clock: Clock
    _lock: threading.RLock

    if TYPE_CHECKING:  # these are ``Memory``'s own

        @classmethod
        def open(cls, *args: Any, **kwargs: Any) -> Self: ...

        def _enter(self) -> Opened | None: ...

        @property
        def agent(self) -> str: ...

        def close(self) -> None: ...

    def rooms(self) -> AgentRooms | None:
        """The opened rooms of this agent, for what is built on them; ``None`` when memory is disabled.

        Raises ``MemoryClosed``.
        """
        from memory_sqlite.runtime.agents import AgentRooms

        if (opened := self._enter()) is None:
            return None
        return AgentRooms(opened, self._settings, self._clock, self._lock)

    def provider_runtime(self) -> Provider:
        """This memory as a provider of the neutral runtime, for this agent alone; it ends when this memory is closed.

        Raises ``MemoryClosed``.
        """
        from memory_sqlite.runtime.provider import Provider

        self._enter()
        return Provider(self._only_this_agent())

    @classmethod
    def serve_agents(
        cls,
        data_dir: str | os.PathLike[str] | None = None,
        *,
        agents: Collection[str] | None = None,
        workspaces: Mapping[str, str | os.PathLike[str]] | None = None,
        settings: Settings | None = None,
        serving: bool = True,
        clock: Clock | None = None,
    ) -> Provider:
        """A provider for many agents, each memory opened when it is first asked for and closed with the provider
        (``close_all_memory_search_managers``).

        ``agents`` are those served (``None``: any, a memory being made for one that is new), ``workspaces`` the
        directory of each one's notes; the rest is as ``Memory.open`` has it.
        """
        from memory_sqlite import errors
        from memory_sqlite.runtime.agents import Agents
        from memory_sqlite.runtime.provider import Provider

        def one(agent_id: str) -> ContractMethods:
            if agents is not None and agent_id not in agents:
                raise errors.ProviderUnavailable("this agent is not served here")
            workspace = (workspaces or {}).get(agent_id)
            return cls.open(data_dir, agent_id, workspace, settings=settings, serving=serving, clock=clock)

        return Provider(Agents(one))

    def capability(self) -> MemoryCapability:
        """What a memory plugin over this agent's memory registers for the memory slot; it ends when this memory is
        closed. Its async parts may be used from any event loop.

        Raises ``MemoryClosed``.
        """
        return self.plugin().capability

    def plugin(self, config: Mapping[str, Any] | None = None) -> MemoryPlugin:
        """The same with our tools: all that a host registers. ``config`` is the host's, in its camelCase form.

        Raises ``MemoryClosed``.
        """
        from memory_sqlite.runtime import capability

        agents, runtime = self._only_this_agent(), self.provider_runtime()
        return capability.plugin(agents, runtime, self._clock, config or {}, agent_ids=lambda config: [self.agent])

    @classmethod
    def serve_plugin(
        cls,
        config: Mapping[str, Any],
        data_dir: str | os.PathLike[str] | None = None,
        *,
        agents: Collection[str] | None = None,
        workspaces: Mapping[str, str | os.PathLike[str]] | None = None,
        settings: Settings | None = None,
        serving: bool = True,
        clock: Clock | None = None,
    ) -> MemoryPlugin:
        """What ``plugin`` gives, for many agents: over a provider of ``serve_agents``, which ends with it.

        Artifacts are those of ``agents``, else of the agents in the host's ``config``.
        """
        from memory_sqlite.runtime import capability
        from memory_sqlite.runtime.public_artifacts import configured_agents

        runtime = cls.serve_agents(
            data_dir, agents=agents, workspaces=workspaces, settings=settings, serving=serving, clock=clock
        )

        def listed(config: Mapping[str, Any]) -> list[str]:
            return configured_agents(config) if agents is None else sorted(agents)

        return capability.plugin(runtime.agents, runtime, clock or Clock(), config, agent_ids=listed)

    def search_manager(self, purpose: Purpose = "default") -> Manager:
        """This memory as the file-shaped search manager of older hosts. Its hits are raw: hosts that have more callers
        than one go by ``capability().runtime``, which says who may see them.

        Raises ``MemoryClosed``, and ``ProviderUnavailable`` when memory is disabled.
        """
        from memory_sqlite.runtime.legacy_runtime import LegacyRuntime

        self._enter()
        return LegacyRuntime(self._only_this_agent()).manager(self.agent, purpose)

    def turn_outbox(self) -> TurnOutbox:
        """Where a host keeps accepted turns until its context engine has them.

        Its methods raise ``MemoryClosed``, and ``ProviderUnavailable`` when memory is disabled.
        """
        from memory_sqlite import errors
        from memory_sqlite.host.engines.outbox import OutboxPlace, TurnOutbox

        def place() -> OutboxPlace:
            if (opened := self._enter()) is None:
                raise errors.ProviderUnavailable("memory is disabled for this agent")
            return OutboxPlace(opened.store, self._clock, self._lock, self._settings.redact_secrets)

        return TurnOutbox(place)

    def context_engine(
        self,
        *,
        count_tokens: CountTokens | None = None,
        image_tokens: int | None = None,
        compaction: Compaction | None = None,
        describe: Describe | None = None,
        read_delta: ReadDelta | None = None,
    ) -> MemoryContextEngine:
        """This memory as a context engine, for this agent alone; it ends when this memory is closed.

        ``count_tokens`` is the model's tokenizer (without one, an upper bound counts), ``image_tokens`` the most that
        an image costs there; ``compaction`` is the host's own; ``describe`` says what a session is, by its key and id;
        ``read_delta`` reads the host's transcript, for history from before. Raises ``MemoryClosed``.
        """
        from memory_sqlite import limits
        from memory_sqlite.context.engine import MemoryContextEngine

        self._enter()
        return MemoryContextEngine(
            self._only_this_agent(),
            self.agent,
            count_tokens=count_tokens,
            image_tokens=limits.IMAGE_TOKENS_MAX if image_tokens is None else image_tokens,
            compaction=compaction,
            describe=describe,
            read_delta=read_delta,
        )

    def transcript_delta(
        self,
        *,
        session_key: str,
        session_id: str,
        cursor: str | None = None,
        max_messages: int | None = None,
        max_bytes: int | None = None,
        store_path: str | None = None,
        fence: TurnAnchor | None = None,
    ) -> DeltaResult:
        """A stored transcript read on from ``cursor``: at most ``max_messages`` (1,000; at most 10,000) and
        ``max_bytes`` of JSON (1,000,000; at most 64 MiB), oldest first. With a ``fence`` it ends before that entry.

        Raises ``InvalidArgument`` for limits out of range, ``FenceBroken``, and the store's errors.
        """
        from memory_sqlite import limits
        from memory_sqlite.context.deltas import read_delta
        from memory_sqlite.context.shapes import DeltaMissing

        if (rooms := self.rooms()) is None:
            return DeltaMissing()
        return read_delta(
            rooms,
            session_key=session_key,
            session_id=session_id,
            cursor=cursor,
            max_messages=limits.DELTA_MESSAGES[2] if max_messages is None else max_messages,
            max_bytes=limits.DELTA_BYTES[2] if max_bytes is None else max_bytes,
            store_path=store_path,
            fence=fence,
        )

    def _only_this_agent(self) -> Agents:
        """This agent alone, for a provider that ends when this memory does."""
        from memory_sqlite import errors
        from memory_sqlite.runtime.agents import Agents

        def one(agent_id: str) -> ContractMethods:
            if agent_id != self.agent:
                raise errors.ProviderUnavailable("this memory serves another agent")
            return self

        return Agents(one, owned=False)
