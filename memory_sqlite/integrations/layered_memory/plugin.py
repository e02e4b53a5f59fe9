"""The whole face for one host: configuration in, manager, hooks, tool and command out, one store an agent.

Sharing one store between several registrations (section 6.4 of the layered-memory reference) is not here: each plugin
has its own, and several may have one data directory open at once. Called by hosts.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Set
from typing import Any

from memory_sqlite import errors
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.config_layered import from_layered
from memory_sqlite.integrations.layered_memory.agents import AgentMemory
from memory_sqlite.integrations.layered_memory.caller import agent_of
from memory_sqlite.integrations.layered_memory.hooks import LayeredHooks, Warn
from memory_sqlite.integrations.layered_memory.manager import LayeredManager
from memory_sqlite.integrations.layered_memory.surfaces import LayeredTool, prompt_section, search_command

_LOGGER = logging.getLogger("memory_sqlite.layered_memory")


class LayeredPlugin:
    """Made ``from_configuration`` (the product's camelCase object) or with ``Settings``; ``close`` it at the end."""

    def __init__(self, settings: Settings, *, clock: Clock | None = None, warn: Warn | None = None) -> None:
        if settings.compatibility != "layered-memory":
            raise errors.InvalidConfiguration('the layered-memory face needs compatibility = "layered-memory"')
        self.settings = settings
        self._clock = clock or Clock()
        self._lock = threading.Lock()
        self._memories: dict[str, AgentMemory] = {}
        self._closed = False
        self.hooks = LayeredHooks(settings, self._clock, self.memory, warn or _LOGGER.warning)

    @classmethod
    def from_configuration(
        cls, configuration: Mapping[str, Any], *, clock: Clock | None = None, warn: Warn | None = None
    ) -> LayeredPlugin:
        """Raises ``InvalidConfiguration`` with the product's messages, also when it is disabled."""
        return cls(from_layered(configuration), clock=clock, warn=warn)

    def memory(self, agent: str) -> AgentMemory:
        """The memory of an agent, opened when it is first used. Raises ``MemoryClosed`` after ``close``."""
        name = agent_of(agent)
        with self._lock:
            if self._closed:
                raise errors.MemoryClosed("[memory] store is closed")
            if name not in self._memories:
                self._memories[name] = AgentMemory(name, self.settings, self._clock)
            return self._memories[name]

    def manager(self, agent: str = "main") -> LayeredManager:
        """The search manager of an agent."""
        name = agent_of(agent)
        return LayeredManager(self.memory(name), self._clock, lambda: self._release(name))

    def tool(self, context: Mapping[str, Any] | None) -> LayeredTool | None:
        """The tool for a run with this trusted context; ``None`` once the plugin is closed."""
        return None if self._closed else LayeredTool(context, self.memory)

    def search_command(
        self,
        query: str,
        *,
        agent: str | None = None,
        session: str | None = None,
        max_results: int | None = None,
        as_json: bool = False,
    ) -> str:
        """What the command ``memory search`` prints. Raises ``InvalidArgument``."""
        return search_command(
            self.memory, self.settings, query, agent=agent, session=session, max_results=max_results, as_json=as_json
        )

    def prompt_section(self, available_tools: Set[str]) -> list[str]:
        """Lines for the system prompt."""
        return prompt_section(available_tools)

    def _release(self, agent: str) -> None:
        with self._lock:
            memory = self._memories.pop(agent, None)
        if memory is not None:
            memory.close()

    def close(self) -> None:
        """Take no more turns, wait for those that are being stored, let go of every file; safe to call twice."""
        with self._lock:
            self._closed = True
            memories = list(self._memories.values())
            self._memories.clear()
        for memory in memories:
            memory.close()

    def __enter__(self) -> LayeredPlugin:
        return self

    def __exit__(self, *ended: object) -> None:
        self.close()
