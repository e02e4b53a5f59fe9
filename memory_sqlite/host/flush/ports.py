"""What a flush needs of a host, part by part: ``host.memory_host.MemoryHost`` has them, and so may anybody else's host.

Shapes only. Called by ``gates``, ``detached`` and ``run``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from memory_sqlite.host.session_rows import SessionRows
from memory_sqlite.runtime.callers import MemoryAudience
from memory_sqlite.runtime.flush_plans import FlushPlanRequest
from memory_sqlite.runtime.plugins import MemoryCapability, Tool


class PlanSource(Protocol):
    """Whose resolver is in force (``host.slots.FlushSource``)."""

    @property
    def plugin_id(self) -> str: ...

    @property
    def resolver(self) -> Callable[[FlushPlanRequest], Any]: ...

    @property
    def kind(self) -> Any: ...

    @property
    def slot_owner(self) -> bool: ...


class Instance(Protocol):
    """A plugin as it is loaded (``host.instances.PluginInstance``)."""

    def assert_alive(self) -> None: ...


class Active(Protocol):
    """The active memory (``host.slots.ActiveMemory``)."""

    @property
    def plugin_id(self) -> str: ...

    @property
    def capability(self) -> MemoryCapability: ...

    @property
    def flush_source(self) -> PlanSource | None: ...

    @property
    def instance(self) -> Instance: ...


class Slot(Protocol):
    """``host.slots.MemorySlot``, as far as a flush asks it."""

    def active(self) -> Active | None: ...


class Authorities(Protocol):
    """``host.audiences.Audiences``, as far as a flush asks it."""

    async def resolve(
        self, *, agent_id: str, session_key: str, session_id: str, sender_is_owner: bool
    ) -> MemoryAudience: ...

    async def delegate(self, parent: MemoryAudience, *, child_key: str, detached: bool = False) -> MemoryAudience: ...

    def assert_current(self, audience: MemoryAudience, session_key: str) -> None: ...

    async def joined(self, audience: MemoryAudience | None) -> None: ...

    def release(self, audience: MemoryAudience) -> None: ...


class Registered(Protocol):
    """``host.tools.ToolRegistry``, as far as a flush asks it."""

    def owned_by(self, plugin_id: str) -> Mapping[str, Tool]: ...


class FlushHost(Protocol):
    """What a flush needs of a host: ``host.memory_host.MemoryHost`` is one."""

    @property
    def slot(self) -> Slot: ...

    @property
    def rows(self) -> SessionRows: ...

    @property
    def audiences(self) -> Authorities: ...

    @property
    def tools(self) -> Registered: ...

    @property
    def config(self) -> Mapping[str, Any]: ...
