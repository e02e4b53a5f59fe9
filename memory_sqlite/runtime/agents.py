"""The agents a provider serves: each memory opened at first use, shared by all leases, closed with the provider.

Not here: opening a memory (``memory``), what a lease may read (``visibility``). Called by our provider, manager, tools
and context engine.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from memory_sqlite import errors
from memory_sqlite.agent.opened import Opened
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings

DISABLED: Final = "memory is disabled for this agent"


@dataclass(frozen=True)
class AgentRooms:
    """One agent, opened. ``lock`` is held for every write, as the door does."""

    opened: Opened
    settings: Settings
    clock: Clock
    lock: threading.RLock


class Served(Protocol):
    """A memory as far as it matters here: ``memory.Memory`` is one."""

    def rooms(self) -> AgentRooms | None: ...

    def close(self) -> None: ...


class Agents:
    """Agents by id. Any thread may ask."""

    def __init__(self, open_memory: Callable[[str], Served], *, owned: bool = True) -> None:
        """``open_memory`` opens the memory of an agent or raises; those opened are closed here when ``owned``."""
        self._open = open_memory
        self._owned = owned
        self._lock = threading.Lock()
        self._memories: dict[str, Served] = {}
        self._closed = False

    def rooms(self, agent_id: str) -> AgentRooms:
        """The agent's rooms. Raises ``ProviderUnavailable`` when its memory is disabled or this was closed, and what
        opening raises."""
        with self._lock:
            if self._closed:
                raise errors.ProviderUnavailable("memory provider instance is no longer current")
            memory = self._memories.get(agent_id)
            if memory is None:
                memory = self._memories[agent_id] = self._opened_now(agent_id)
        rooms = memory.rooms()
        if rooms is None:
            raise errors.ProviderUnavailable(DISABLED)
        return rooms

    def _opened_now(self, agent_id: str) -> Served:
        try:
            return self._open(agent_id)
        except errors.InvalidConfiguration as error:  # names files of the machine, and callers are told what is raised
            raise errors.InvalidConfiguration("the configuration of this memory is not valid") from error

    def opened(self) -> list[AgentRooms]:
        """The rooms of every agent that was opened so far and is not closed; opens none."""
        with self._lock:
            memories = list(self._memories.values())
        found = []
        for memory in memories:
            try:
                rooms = memory.rooms()
            except errors.MemoryClosed:
                continue
            if rooms is not None:
                found.append(rooms)
        return found

    def close(self) -> None:
        """Close what was opened here; safe to call twice."""
        with self._lock:
            self._closed = True
            memories = list(self._memories.values()) if self._owned else []
            self._memories.clear()
        for memory in memories:
            memory.close()
