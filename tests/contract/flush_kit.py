"""A host with a fake memory plugin and a scripted model, for the tests of the flush before compaction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from memory_sqlite.clock import FixedClock
from memory_sqlite.host.flush.run import run_flush
from memory_sqlite.host.flush.shapes import BoundTool, FlushOutcome, FlushSourceTurn, FlushTurn, FlushTurnResult
from memory_sqlite.host.memory_host import MemoryHost
from memory_sqlite.host.session_rows import SessionRow
from memory_sqlite.host.slots import Plugin
from memory_sqlite.runtime.flush_plans import FlushFileDraft, FlushPlanRequest, FlushToolsPlan
from memory_sqlite.runtime.plugins import MemoryCapability, Tool, ToolContext, ToolResult

OWNER = "acme-memory"
SIDECAR = "sidecar-memory"
KEY = "agent:main:main"
SESSION_ID = "10000000-0000-4000-8000-000000000001"
REVISION = "incarnation-1"
ROW = SessionRow(KEY, SESSION_ID, REVISION, chat_type="direct")

TOOLS_PLAN = FlushToolsPlan("save what matters", "a silent turn", ("keep",), ("look",))
SILENT = FlushTurnResult(visible_text="NO_REPLY")
SPOKEN = FlushTurnResult(visible_text="All done.")


class Native:
    """A provider runtime that nobody opens here."""

    async def open(self, request: Any) -> Any:
        raise AssertionError("a flush opens no provider")


@dataclass
class Resolver:
    """Answers with what it was given, and remembers how it was asked."""

    answer: Any
    asked: list[FlushPlanRequest] = field(default_factory=list)

    def __call__(self, request: FlushPlanRequest) -> Any:
        self.asked.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer(request) if callable(self.answer) else self.answer


@dataclass
class Calls:
    """A plugin's tool that remembers its calls and answers as told."""

    name: str
    plugin_id: str = OWNER
    answer: Callable[[Mapping[str, Any], ToolContext], Awaitable[ToolResult]] | ToolResult | Exception = field(
        default_factory=lambda: ToolResult("done")
    )
    made: list[tuple[Mapping[str, Any], ToolContext]] = field(default_factory=list)

    def tool(self) -> Tool:
        async def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
            self.made.append((arguments, context))
            if isinstance(self.answer, Exception):
                raise self.answer
            if isinstance(self.answer, ToolResult):
                return self.answer
            return await self.answer(arguments, context)

        return Tool(self.name, f"{self.name} of {self.plugin_id}", {"type": "object"}, run, self.plugin_id)


READ = Calls("read", plugin_id="")


@dataclass
class Model:
    """The host's model call: ``script`` gets the turn and says what comes of it."""

    script: Any = SILENT
    turns: list[FlushTurn] = field(default_factory=list)

    async def __call__(self, turn: FlushTurn) -> FlushTurnResult:
        self.turns.append(turn)
        if isinstance(self.script, BaseException):
            raise self.script
        if isinstance(self.script, FlushTurnResult):
            return self.script
        result: FlushTurnResult = await self.script(turn)
        return result


def tool_of(turn: FlushTurn, name: str) -> BoundTool:
    """The tool of that name that a turn shows."""
    return next(tool for tool in turn.tools if tool.name == name)


def names_of(turn: FlushTurn) -> set[str]:
    """The names of the tools that a turn shows."""
    return {tool.name for tool in turn.tools}


def calling(name: str, then: FlushTurnResult = SPOKEN, **arguments: Any) -> Any:
    """A script that calls one tool, whatever comes of it, and then says something."""

    async def script(turn: FlushTurn) -> FlushTurnResult:
        try:
            await tool_of(turn, name).call(arguments)
        except Exception:
            return then
        return then

    return script


@dataclass
class Bench:
    """A host, its owner's resolver and tools, the source turn and the model."""

    host: MemoryHost
    resolver: Resolver
    source: FlushSourceTurn
    model: Model
    keep: Calls
    look: Calls
    clock: FixedClock = field(default_factory=FixedClock)

    def flush(self, **changes: Any) -> FlushOutcome:
        """Run one flush; ``changes`` are of the source turn."""
        source = replace(self.source, **changes)
        return asyncio.run(run_flush(self.host, source, run_turn=self.model, clock=self.clock))

    @property
    def row(self) -> SessionRow:
        """The source's row as it is."""
        row = self.host.rows.get(KEY)
        assert row is not None
        return row


def due(workspace: Path | None = None, **changes: Any) -> FlushSourceTurn:
    """A turn of the owner that has reached the threshold."""
    given: dict[str, Any] = {
        "agent_id": "main",
        "session_key": KEY,
        "session_id": SESSION_ID,
        "lifecycle_revision": REVISION,
        "sender_is_owner": True,
        "context_window_tokens": 100_000,
        "prompt_tokens": 90_000,
        "transcript": ({"role": "user", "content": "we chose lisbon"},),
        "provider": "anthropic",
        "model": "large",
        "fallbacks": ("small",),
        "host_tools": (READ.tool(),),
        "workspace": workspace,
        "workspace_writable": workspace is not None,
    }
    return FlushSourceTurn(**{**given, **changes})


def bench(
    plan: Any = TOOLS_PLAN,
    *,
    workspace: Path | None = None,
    flush_config: Mapping[str, Any] | None = None,
    native: bool = True,
    released: bool = False,
    row: SessionRow = ROW,
    **changes: Any,
) -> Bench:
    """A host whose slot owner supplies ``plan``, and a turn that is due."""
    config = {
        "plugins": {"slots": {"memory": OWNER}},
        "agents": {"defaults": {"compaction": {"memoryFlush": dict(flush_config or {})}}},
    }
    host = MemoryHost(config)
    host.rows.put(row)
    resolver = Resolver(plan)
    field_name = "flush_plan_resolver" if released else "provider_flush_plan_resolver"
    capability = MemoryCapability(**{field_name: resolver}, provider_runtime=Native() if native else None)
    host.slot.register(Plugin(OWNER, frozenset({"memory"})), capability)
    keep, look = Calls("keep"), Calls("look")
    for calls in (keep, look):
        host.tools.register(calls.tool())
    return Bench(host, resolver, due(workspace, **changes), Model(), keep, look)


def draft(**changes: Any) -> FlushFileDraft:
    """A draft of the file arm."""
    given: dict[str, Any] = {
        "prompt": "save what matters",
        "system_prompt": "a silent turn",
        "relative_path": "memory/2026-07-15.md",
    }
    return FlushFileDraft(**{**given, **changes})
