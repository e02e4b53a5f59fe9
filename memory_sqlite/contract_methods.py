"""The door's methods for hosts that speak the provider and context-engine contracts.

Part of ``Memory``, in a module of its own so that the door stays a page. Not here: any of what they return
(``runtime``, ``context``). Inherited by ``memory.Memory``, used by nobody else.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from memory_sqlite.agent.opened import Opened
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings

if TYPE_CHECKING:
    from memory_sqlite.runtime.agents import AgentRooms, Agents


class ContractMethods:
    """What ``Memory`` gives to hosts of the contracts."""

    _settings: Settings
    _clock: Clock
    _lock: threading.RLock

    if TYPE_CHECKING:  # these are ``Memory``'s own

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

    def _only_this_agent(self) -> Agents:
        """This agent alone, for a provider that ends when this memory does."""
        from memory_sqlite import errors
        from memory_sqlite.runtime.agents import Agents

        def one(agent_id: str) -> ContractMethods:
            if agent_id != self.agent:
                raise errors.ProviderUnavailable("this memory serves another agent")
            return self

        return Agents(one, owned=False)
