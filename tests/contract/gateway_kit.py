"""A host with a scripted provider or a legacy owner, its gateway and clients: for tests of gateway and consumers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from memory_sqlite import Memory, errors
from memory_sqlite.host.consumers.recall_turn import RecallTurn
from memory_sqlite.host.gateway.connections import Connection, StateOwner
from memory_sqlite.host.gateway.methods import GatewayMethods
from memory_sqlite.host.memory_host import MemoryHost
from memory_sqlite.host.scripted import EVERYTHING, ScriptedProvider
from memory_sqlite.host.session_rows import SessionRow
from memory_sqlite.host.slots import Plugin
from memory_sqlite.runtime.callers import CallerContext, OperatorAuthority
from memory_sqlite.runtime.manager_shapes import (
    EmbeddingProbe,
    ManagerResult,
    ManagerStatus,
    MemorySearchResult,
    ReadText,
    ResultProvenance,
    SearchOptions,
)
from memory_sqlite.runtime.plugins import MemoryCapability, ToolContext
from memory_sqlite.runtime.shapes import (
    AutomaticRecall,
    Capabilities,
    Citation,
    ProviderHit,
    Reference,
)
from memory_sqlite.runtime.signals import AbortSignal

T = TypeVar("T")
MEMORY = frozenset({"memory"})
KEY = "agent:main:direct:a"
SESSION_ID = "10000000-0000-4000-8000-000000000001"
GROUP = "agent:main:hall:group:1"
GROUP_ID = "20000000-0000-4000-8000-000000000002"


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


def config(slot: str, **more: Any) -> dict[str, Any]:
    agents = {"list": [{"id": "main"}, {"id": "Research"}]}
    return {"plugins": {"slots": {"memory": slot}}, "agents": agents, **more}


def client(**changes: Any) -> Connection:
    """A token-authenticated command line."""
    said: dict[str, Any] = {"role": "operator", "conn_id": "c1", "scopes": ("operator.read",)}
    return Connection(**{**said, **changes})


@dataclass
class Native:
    """A host whose owner is a scripted native provider."""

    capabilities: Capabilities = EVERYTHING
    recall_tools: tuple[str, ...] | None = ("memory_search",)
    more: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.provider = ScriptedProvider("records", self.capabilities)
        self.host = MemoryHost(config("records", **self.more))
        self.instance = self.host.slot.register(
            Plugin("records", MEMORY),
            MemoryCapability(provider_runtime=self.provider, recall_tool_names=self.recall_tools),
        )
        self.gateway = GatewayMethods(self.host)
        self.host.rows.put(SessionRow(KEY, SESSION_ID, "one", "direct"))
        self.host.rows.put(SessionRow(GROUP, GROUP_ID, "one", "group"))

    def call(
        self, method: str, params: Mapping[str, Any], connection: Connection | None = None, signal: Any = None
    ) -> Any:
        return run(self.gateway.call(method, params, connection or client(), signal))

    async def facts(self, key: str = KEY, session_id: str = SESSION_ID, **more: Any) -> ToolContext:
        """The trusted facts of a turn of the owner, with its audience."""
        audience = await self.host.turn_audience(
            agent_id="main", session_key=key, session_id=session_id, sender_is_owner=True
        )
        return self.host.tool_context(ToolContext("main", key, session_id, **more), audience)


def hit(
    name: str,
    excerpt: str = "An entry.",
    *,
    score: float | None = None,
    eligible: Any = True,
    triggers: str | None = None,
    projects: tuple[str, ...] | None = None,
    importance: float | None = None,
    provider: str = "records",
    **more: Any,
) -> ProviderHit:
    """A hit with recall metadata."""
    recall = AutomaticRecall(eligible, projects, triggers, importance)
    reference = Reference(provider, name, more.pop("revision", None), more.pop("fragment", None))
    cited = (Citation(f"place of {name}"),)
    return ProviderHit(reference, excerpt, score, more.pop("source", "memory"), cited, recall)


NOTE = MemorySearchResult(
    "memory/net.md",
    3,
    5,
    0.8,
    "The router is upstairs.",
    "memory",
    importance=7,
    triggers="router",
    project_key="harbor",
    citation="memory/net.md#L3-L5",
    provenance=ResultProvenance("owner", "unknown"),
)
SAID = MemorySearchResult("sessions/abc.jsonl", 1, 1, 0.7, "user: where is it?", "sessions")


class Manager:
    """A foreign manager; keeps what it was asked."""

    def __init__(self, status: Any = None) -> None:
        self.hits: list[Any] = [NOTE, SAID]
        self.said = status or ManagerStatus("none", custom={"searchMode": "fts-only"})
        self.asked: list[Any] = []
        self.synced: list[Any] = []
        self.closed = 0
        self.close_error: Exception | None = None
        self.before: Any = None

    async def search(self, query: str, options: SearchOptions | None = None) -> Any:
        self.asked.append((query, options))
        if self.before is not None:
            await self.before()
        return self.hits

    async def list_trigger_candidates(self, limit: int | None = None, active_project_keys: Any = ()) -> Any:
        self.asked.append(("triggers", limit, tuple(active_project_keys)))
        return [NOTE]

    async def list_curated_project_candidates(self, active_project_keys: Any, limit: int | None = None) -> Any:
        self.asked.append(("projects", limit, tuple(active_project_keys)))
        return [NOTE, SAID]

    async def read_file(self, path: str, from_line: int | None = None, lines: int | None = None) -> Any:
        self.asked.append((path, from_line, lines))
        return ReadText("The router is upstairs.", path)

    def status(self) -> Any:
        return self.said

    async def sync(self, **said: Any) -> None:
        self.synced.append(said)

    def get_cached_embedding_availability(self) -> Any:
        return None

    async def probe_embedding_availability(self) -> EmbeddingProbe:
        self.asked.append("probe")
        return EmbeddingProbe(True, checked=True)

    async def close(self) -> None:
        self.closed += 1
        if self.close_error is not None:
            raise self.close_error


@dataclass
class Files:
    """A host whose owner has nothing but a legacy runtime."""

    deterministic: str | None = "memory_search"
    private: bool = True
    status: Any = None
    owner: StateOwner | None = None

    def __post_init__(self) -> None:
        self.manager = Manager(self.status)
        self.given = ManagerResult(self.manager)
        self.opened: list[Mapping[str, Any]] = []
        self.authorized: list[Mapping[str, Any]] = []
        self.host = MemoryHost(config("files"))
        capability = MemoryCapability(
            runtime=self,
            deterministic_recall_tool_name=self.deterministic,
            supports_private_transcript_recall=self.private,
        )
        self.instance = self.host.slot.register(Plugin("files", MEMORY), capability)
        self.gateway = GatewayMethods(self.host, self.owner)

    async def get_memory_search_manager(self, **said: Any) -> Any:
        self.opened.append(said)
        return self.given

    async def authorize_search_hits(self, **said: Any) -> list[Any]:
        self.authorized.append(said)
        return list(said["hits"])

    def call(
        self, method: str, params: Mapping[str, Any], connection: Connection | None = None, signal: Any = None
    ) -> Any:
        return run(self.gateway.call(method, params, connection or client(), signal))


TOOLS = frozenset({"memory_search", "memory_get"})


def operator(check: Callable[[], None] = lambda: None, signal: AbortSignal | None = None) -> CallerContext:
    return CallerContext(OperatorAuthority(("operator.read",)), check, signal)


def lapsed() -> None:
    raise errors.CallerNotCurrent("the caller has lapsed")


def fails() -> None:
    raise RuntimeError("broken")


def nothing() -> None:
    return None


async def turn_of(world: Any, message: str = "Is the router on?", **more: Any) -> RecallTurn:
    if isinstance(world, Native):
        facts = await world.facts(active_project_keys=more.pop("keys", ()))
    else:
        facts = ToolContext("main", KEY, SESSION_ID, active_project_keys=more.pop("keys", ()))
    return RecallTurn(more.pop("run_id", "run 1"), message, facts, more.pop("tools", TOOLS), **more)


def our_host(memory: Memory, workspace: Path) -> MemoryHost:
    """A host with our own plugin, and a note that has a trigger and a project."""
    (workspace / "memory" / "net.md").write_text(
        "# Net\n\n<!-- trigger: wifi, router -->\n<!-- importance: 8 -->\n<!-- project: harbor -->\n"
        "The granite router is <upstairs>.\n",
        encoding="utf-8",
    )
    memory.index()
    host = MemoryHost(config("memory-sqlite"))
    host.slot.register(Plugin("memory-sqlite", MEMORY), memory.capability())
    host.rows.put(SessionRow(KEY, SESSION_ID, "one", "direct"))
    host.rows.put(SessionRow(GROUP, GROUP_ID, "one", "group"))
    return host
