"""What a host implements so that its flush is tested, and the stage on which the checks play. Not here: the checks
(``flush_checks``, ``flush_run_checks``)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from memory_sqlite.clock import FixedClock
from memory_sqlite.host.conformance.subject import KEY, SESSION_ID, SLOT
from memory_sqlite.host.flush.run import run_flush
from memory_sqlite.host.flush.shapes import FlushOutcome, FlushSourceTurn, FlushTurn, FlushTurnResult, RunTurn
from memory_sqlite.host.memory_host import MemoryHost
from memory_sqlite.host.scripted import ScriptedProvider
from memory_sqlite.host.session_rows import SessionRow
from memory_sqlite.host.slots import Plugin
from memory_sqlite.runtime.flush_plans import FlushPlanRequest, FlushToolsPlan
from memory_sqlite.runtime.plugins import MemoryCapability, Tool, ToolContext, ToolResult

SIDECAR = "sidecar"
REVISION = "r1"
PLAN = FlushToolsPlan("save what matters", "a silent turn", ("keep",), ("look",))
SILENT = FlushTurnResult(visible_text="NO_REPLY")
SPOKEN = FlushTurnResult(visible_text="All done.")


class FlushUnderTest(Protocol):
    """A host, fresh, with a configuration of its own and nothing registered. Shapes are those of ``host.flush``: an
    adapter translates where a host has others."""

    def register(self, plugin_id: str, capability: MemoryCapability) -> None:
        """A plugin of kind ``memory`` registers."""

    def add_tool(self, tool: Tool) -> None:
        """A plugin registers a tool."""

    def write(self, row: SessionRow) -> None:
        """Write a session's row."""

    def row(self, key: str) -> SessionRow | None:
        """A session's row as it is."""

    def assert_current(self, audience: Any, session_key: str) -> None:
        """Raise when an audience is not current for a session."""

    async def flush(self, source: FlushSourceTurn, run_turn: RunTurn) -> FlushOutcome:
        """Flush the session of a turn if it is time; ``run_turn`` is the model."""


MakeFlush = Callable[[Mapping[str, Any]], FlushUnderTest]
"""Makes a fresh host with this configuration (the contract's, in camelCase)."""


class OwnFlush:
    """``run_flush`` over ``MemoryHost``."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.host = MemoryHost(config)

    def register(self, plugin_id: str, capability: MemoryCapability) -> None:
        self.host.slot.register(Plugin(plugin_id, frozenset({"memory"})), capability)

    def add_tool(self, tool: Tool) -> None:
        self.host.tools.register(tool)

    def write(self, row: SessionRow) -> None:
        self.host.rows.put(row)

    def row(self, key: str) -> SessionRow | None:
        return self.host.rows.get(key)

    def assert_current(self, audience: Any, session_key: str) -> None:
        self.host.audiences.assert_current(audience, session_key)

    async def flush(self, source: FlushSourceTurn, run_turn: RunTurn) -> FlushOutcome:
        return await run_flush(self.host, source, run_turn=run_turn, clock=FixedClock())


class ScriptedTool:
    """A plugin's tool that answers as told and remembers its calls. ``during`` runs inside a call."""

    def __init__(self, name: str, plugin_id: str) -> None:
        self.name = name
        self.plugin_id = plugin_id
        self.answer: ToolResult | Exception = ToolResult("done")
        self.during: Callable[[ToolContext], None] | None = None
        self.made: list[tuple[Mapping[str, Any], ToolContext]] = []

    def tool(self) -> Tool:
        """As it is registered."""

        async def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
            self.made.append((arguments, context))
            if self.during is not None:
                self.during(context)
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

        return Tool(self.name, f"{self.name} of {self.plugin_id}", {"type": "object"}, run, self.plugin_id)


class FlushStage:
    """One fresh host whose slot owner has the tools ``keep`` and ``look`` and supplies ``plan``, with an owner's direct
    session. ``calls`` names the tools that the scripted model calls before it answers with ``says``."""

    def __init__(
        self,
        make: MakeFlush,
        plan: Any = PLAN,
        *,
        flush_config: Any = None,
        native: bool = True,
        supplier: str = SLOT,
    ) -> None:
        block = {} if flush_config is None else flush_config
        agents = {"defaults": {"compaction": {"memoryFlush": block}}}
        self.host = make({"plugins": {"slots": {"memory": SLOT}}, "agents": agents})
        self.plan = plan
        self.asked: list[FlushPlanRequest] = []
        self.turns: list[FlushTurn] = []
        self.calls: tuple[str, ...] = ()
        self.says: FlushTurnResult | Exception = SILENT
        self.keep, self.look = ScriptedTool("keep", SLOT), ScriptedTool("look", SLOT)
        self.read = ScriptedTool("read", "")
        mine: dict[str, Any] = {"provider_runtime": ScriptedProvider(SLOT) if native else None}
        plans: dict[str, Any] = {"provider_flush_plan_resolver": self._resolve}
        if supplier == SLOT:
            self.host.register(SLOT, MemoryCapability(**mine, **plans))
        else:
            self.host.register(SLOT, MemoryCapability(**mine))
            self.host.register(supplier, MemoryCapability(**plans))
        for scripted in (self.keep, self.look):
            self.host.add_tool(scripted.tool())
        self.host.write(SessionRow(KEY, SESSION_ID, REVISION, "direct"))

    def _resolve(self, request: FlushPlanRequest) -> Any:
        self.asked.append(request)
        return self.plan

    def source(self, workspace: Path | None = None, **changes: Any) -> FlushSourceTurn:
        """A turn of the owner that has reached the threshold."""
        due = FlushSourceTurn(
            agent_id="main",
            session_key=KEY,
            session_id=SESSION_ID,
            lifecycle_revision=REVISION,
            sender_is_owner=True,
            context_window_tokens=100_000,
            prompt_tokens=90_000,
            transcript=({"role": "user", "content": "we chose lisbon"},),
            provider="anthropic",
            model="large",
            fallbacks=("small",),
            host_tools=(self.read.tool(),),
            workspace=workspace,
            workspace_writable=workspace is not None,
        )
        return replace(due, **changes)

    def flush(self, workspace: Path | None = None, **changes: Any) -> FlushOutcome:
        """Run one flush."""
        return asyncio.run(self.host.flush(self.source(workspace, **changes), self._model))

    async def _model(self, turn: FlushTurn) -> FlushTurnResult:
        self.turns.append(turn)
        for name in self.calls:
            try:
                await next(tool for tool in turn.tools if tool.name == name).call({})
            except Exception as error:  # a model is told of it and goes on
                self.told = error
        if isinstance(self.says, Exception):
            raise self.says
        return self.says

    @property
    def shown(self) -> set[str]:
        """The names of the tools that the last turn showed."""
        return {tool.name for tool in self.turns[-1].tools}

    def again(self, **changes: Any) -> None:
        """The session's row changes, as after a compaction."""
        row = self.host.row(KEY)
        assert row is not None, "written before"
        self.host.write(replace(row, **changes))
