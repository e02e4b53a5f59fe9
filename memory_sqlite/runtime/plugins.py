"""What a memory plugin registers with a host: one capability object, and the context its tools run in.

Shapes only. Not here: who may contribute which field (``host.slots``), what ours registers (``runtime.capability``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from memory_sqlite.runtime.callers import ConversationRecall, MemoryAudience
from memory_sqlite.runtime.flush_plans import FlushFilePlan, FlushPlan, FlushPlanRequest
from memory_sqlite.runtime.shapes import ProviderRuntime

CitationsMode = Literal["auto", "on", "off"]


@dataclass(frozen=True)
class PromptRequest:
    """What a prompt builder is told."""

    available_tools: frozenset[str]
    citations_mode: CitationsMode | None = None
    agent_id: str | None = None
    agent_session_key: str | None = None
    sandboxed: bool | None = None


@dataclass(frozen=True, order=True)
class PublicArtifact:
    """A file that others may know of. All six are required; the order is the contract's."""

    workspace_dir: str
    relative_path: str
    kind: str
    content_type: Literal["markdown", "json", "text"]
    agent_ids: tuple[str, ...]
    absolute_path: str


class PublicArtifacts(Protocol):
    """What a plugin registers as ``public_artifacts``."""

    async def list_artifacts(self, config: Mapping[str, Any]) -> Sequence[PublicArtifact]: ...


@dataclass(frozen=True)
class MemoryCapability:
    """The unified memory capability. ``None``: not declared.

    ``runtime`` is the legacy, file-shaped one (``get_memory_search_manager`` …), ``provider_runtime`` the neutral one.
    Slot-owner-only: ``runtime``, ``provider_runtime``, ``recall_tool_names``, ``deterministic_recall_tool_name``,
    ``supports_private_transcript_recall``.
    """

    prompt_builder: Callable[[PromptRequest], Sequence[str]] | None = None
    flush_plan_resolver: Callable[[FlushPlanRequest], FlushFilePlan | None] | None = None
    provider_flush_plan_resolver: Callable[[FlushPlanRequest], FlushPlan | None] | None = None
    runtime: Any = None
    provider_runtime: ProviderRuntime | None = None
    public_artifacts: PublicArtifacts | None = None
    recall_tool_names: tuple[str, ...] | None = None
    deterministic_recall_tool_name: str | None = None
    supports_private_transcript_recall: bool | None = None


@dataclass(frozen=True)
class MemoryFlushContext:
    """All that a tool learns of the flush it runs in: the id that makes retries recognisable. No authority."""

    flush_id: str


@dataclass(frozen=True)
class ToolContext:
    """The trusted facts of the turn a plugin's tool runs in; none of them comes from a model's arguments.

    ``assert_memory_audience_current`` raises when ``memory_audience`` has lapsed.
    """

    agent_id: str
    session_key: str
    session_id: str | None = None
    sandboxed: bool = False
    sender_is_owner: bool = False
    memory_audience: MemoryAudience | None = None
    assert_memory_audience_current: Callable[[], None] | None = None
    conversation_recall: ConversationRecall | None = None
    memory_flush: MemoryFlushContext | None = None
    active_project_keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class ToolResult:
    """What a tool answers: text for the model, details for the host; ``is_error`` marks a failure."""

    text: str
    details: Mapping[str, Any] = field(default_factory=dict)
    is_error: bool = False


@dataclass(frozen=True)
class Tool:
    """A registered tool: its schema is JSON Schema of the arguments. ``plugin_id`` says whose it is."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    run: Callable[[Mapping[str, Any], ToolContext], Awaitable[ToolResult]]
    plugin_id: str
