"""What a flush is made from and what becomes of it: the source turn, the turn the host runs, its result, the outcome.

Shapes only. Not here: gates (``gates``), running (``run``). A host fills ``FlushSourceTurn``, gives a function that
runs a ``FlushTurn`` with its model, and reads the ``FlushOutcome``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from memory_sqlite.host.session_rows import FlushRecord
from memory_sqlite.runtime.plugins import Tool, ToolContext, ToolResult
from memory_sqlite.runtime.signals import AbortSignal

Arm = Literal["file", "tools"]
Status = Literal["completed", "failed", "exhausted", "skipped"]


def _everything(_: str) -> bool:
    return True


@dataclass(frozen=True)
class FlushSourceTurn:
    """The turn whose session is about to be compacted: trusted facts, as the host knew them when the turn ended.

    ``session_id`` and ``lifecycle_revision`` name the life of the session that is flushed: a flush that is run later
    is skipped when another has begun. ``prompt_tokens``, ``last_output_tokens`` and ``incoming_tokens`` project what
    the next prompt takes; ``transcript_bytes`` are those a model sees.
    """

    agent_id: str
    session_key: str
    session_id: str
    lifecycle_revision: str | None = None
    sender_is_owner: bool = False
    sandboxed: bool = False
    context_window_tokens: int | None = None
    prompt_tokens: int = 0
    last_output_tokens: int = 0
    incoming_tokens: int = 0
    transcript_bytes: int = 0
    transcript: Sequence[Mapping[str, Any]] = ()
    transcript_tainted: bool = False
    extra_system_prompt: str = ""
    provider: str | None = None
    model: str | None = None
    fallbacks: tuple[str, ...] = ()
    workspace: Path | None = None
    workspace_writable: bool = False
    heartbeat: bool = False
    cli_runtime: bool = False
    native_compaction: bool = False
    """The runtime compacts by itself, so nothing may come before it."""
    host_tools: tuple[Tool, ...] = ()
    """The host's own tools; of these a flush shows ``read`` alone."""
    carries_write: bool = True
    """Whether the transport has a ``write`` at all: where it has none, a lost writer is no news."""
    allows: Callable[[str], bool] = _everything
    """The source's tool policy (message, model, sandbox, allowlist, authorization) for a tool's name."""
    active_project_keys: tuple[str, ...] = ()
    signal: AbortSignal | None = None

    @property
    def incarnation(self) -> tuple[str, str | None]:
        """Which life of the session is flushed."""
        return self.session_id, self.lifecycle_revision


@dataclass(frozen=True)
class BoundTool:
    """A tool as the flush's model sees it: its context is fixed, and nothing of it comes from arguments.

    ``call`` raises what the tool raises, and a typed error once the flush is over or its audience has lapsed.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    call: Callable[[Mapping[str, Any]], Awaitable[ToolResult]]


@dataclass(frozen=True)
class FlushTurn:
    """The silent turn a host is asked to run, in a session of its own that no transcript keeps.

    ``transcript`` is a bounded copy of the source's. With ``model`` pinned, ``fallbacks`` is empty. An empty reply is
    taken as a silent one.
    """

    agent_id: str
    session_key: str
    session_id: str
    policy_session_key: str
    """Whose sandbox and policy hold: the source's."""
    sandboxed: bool
    transcript: tuple[Mapping[str, Any], ...]
    prompt: str
    system_prompt: str
    tools: tuple[BoundTool, ...]
    tool_context: ToolContext
    provider: str | None
    model: str | None
    fallbacks: tuple[str, ...]
    tainted: bool
    signal: AbortSignal | None
    transcript_prompt: str = ""
    trigger: Literal["memory"] = "memory"
    sender_is_owner: Literal[False] = False
    silent_expected: Literal[True] = True


@dataclass(frozen=True)
class FlushTurnResult:
    """What came of it. ``error`` names a failure (never text of a memory); ``payloads`` are the texts it answered."""

    visible_text: str | None = None
    raw_text: str | None = None
    payloads: tuple[str, ...] = ()
    error: str | None = None

    @property
    def final_output(self) -> str | None:
        """The visible final text, else the raw one, else the last payload."""
        return self.visible_text or self.raw_text or (self.payloads[-1] if self.payloads else None)


RunTurn = Callable[[FlushTurn], Awaitable[FlushTurnResult]]


@dataclass(frozen=True)
class FlushOutcome:
    """What became of a flush. Whatever it is, compaction may go on.

    ``exhausted``: failed for the third time in a row, so that this cycle is not tried again; a host may tell its user.
    ``record`` is what the session's row says now, ``None`` where the row was left alone.
    """

    status: Status
    reason: str | None = None
    plugin_id: str | None = None
    arm: Arm | None = None
    flush_id: str | None = None
    record: FlushRecord | None = None
    warnings: tuple[str, ...] = field(default=())
