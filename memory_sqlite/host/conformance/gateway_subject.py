"""What a host implements so that its gateway is tested, a legacy runtime that does as it is told, and the stage.

Not here: the checks (``gateway_checks``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from memory_sqlite.host.conformance.subject import SLOT
from memory_sqlite.host.gateway.connections import Connection
from memory_sqlite.host.gateway.methods import GatewayMethods
from memory_sqlite.host.memory_host import MemoryHost
from memory_sqlite.host.scripted import EVERYTHING, ScriptedProvider
from memory_sqlite.host.slots import Plugin
from memory_sqlite.runtime.manager_shapes import ManagerResult, ManagerStatus, MemorySearchResult, SearchOptions
from memory_sqlite.runtime.plugins import MemoryCapability
from memory_sqlite.runtime.shapes import Capabilities
from memory_sqlite.runtime.signals import AbortSignal

NOTE = MemorySearchResult("memory/net.md", 3, 5, 0.8, "The router is upstairs.", "memory")


class GatewayUnderTest(Protocol):
    """A host's gateway, fresh, with the plugin ``scripted`` selected for the memory slot and nothing registered; the
    agents are ``main``, which is the default one, and ``Research``."""

    def register(self, plugin_id: str, capability: MemoryCapability) -> None:
        """A plugin of kind ``memory`` registers."""

    async def call(
        self, method: str, params: Mapping[str, Any], connection: Connection, signal: AbortSignal | None = None
    ) -> Mapping[str, Any]:
        """One request, ``signal`` aborted when it is no longer wanted: ``{"ok": true, "payload": …}`` or ``{"ok":
        false, "error": {"code": …, "message": …}}``. ``connection`` is the client as the gateway authenticated it: an
        adapter makes one of its own with these facts, and follows ``close`` and ``invalidate`` of this one."""


MakeGateway = Callable[[], GatewayUnderTest]


class OwnGateway:
    """``GatewayMethods`` over ``MemoryHost``."""

    def __init__(self) -> None:
        agents = {"list": [{"id": "main"}, {"id": "Research"}]}
        self.host = MemoryHost({"plugins": {"slots": {"memory": SLOT}}, "agents": agents})
        self.gateway = GatewayMethods(self.host)

    def register(self, plugin_id: str, capability: MemoryCapability) -> None:
        self.host.slot.register(Plugin(plugin_id, frozenset({"memory"})), capability)

    async def call(
        self, method: str, params: Mapping[str, Any], connection: Connection, signal: AbortSignal | None = None
    ) -> Mapping[str, Any]:
        return await self.gateway.call(method, params, connection, signal)


class ScriptedFiles:
    """A legacy runtime and its manager in one; ``opened`` and ``asked`` remember, ``hits`` is what is found."""

    def __init__(self) -> None:
        self.opened: list[Mapping[str, Any]] = []
        self.asked: list[tuple[str, SearchOptions | None]] = []
        self.hits: list[MemorySearchResult] = [NOTE]
        self.closed = 0

    async def get_memory_search_manager(self, **said: Any) -> ManagerResult:
        self.opened.append(said)
        return ManagerResult(self)

    async def authorize_search_hits(self, **said: Any) -> list[Any]:
        return list(said["hits"])

    async def search(self, query: str, options: SearchOptions | None = None) -> list[MemorySearchResult]:
        self.asked.append((query, options))
        return self.hits

    def status(self) -> ManagerStatus:
        return ManagerStatus("none", custom={"searchMode": "fts-only"})

    async def close(self) -> None:
        self.closed += 1


class GatewayStage:
    """One fresh gateway whose slot owner is the scripted provider, or with ``legacy`` the scripted legacy runtime."""

    def __init__(self, make: MakeGateway, *, legacy: bool = False, capabilities: Capabilities = EVERYTHING) -> None:
        self.gateway = make()
        self.provider = ScriptedProvider(SLOT, capabilities)
        self.files = ScriptedFiles()
        mine: dict[str, Any] = {"runtime": self.files} if legacy else {"provider_runtime": self.provider}
        self.gateway.register(SLOT, MemoryCapability(**mine))

    def call(
        self,
        method: str,
        params: Mapping[str, Any],
        connection: Connection | None = None,
        signal: AbortSignal | None = None,
    ) -> Mapping[str, Any]:
        """One request of an operator, or of ``connection``."""
        return asyncio.run(self.gateway.call(method, params, connection or client(), signal))

    @property
    def untouched(self) -> bool:
        """Whether no memory was asked for anything."""
        return not self.provider.calls and not self.files.opened


def client(**changes: Any) -> Connection:
    """An operator's command line."""
    said: dict[str, Any] = {"role": "operator", "conn_id": "c1", "scopes": ("operator.read",)}
    return Connection(**{**said, **changes})


def code(response: Mapping[str, Any]) -> str:
    """``ok``, or the code of the error."""
    return "ok" if response.get("ok") is True else str(response["error"]["code"])
