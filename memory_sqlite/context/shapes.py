"""The context-engine contract as types: what a host calls an engine with, and what it answers.

Engines of others are objects with these members; a host checks them by name (``info.id``, ``info.name``, ``ingest``,
``assemble``, ``compact``). All methods are async and take keyword arguments, since a host may leave out those that an
engine does not accept. Not here: selection and quarantine (``host``), our engine (``engine``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

CURRENT_TURN_FENCE = "before-current-turn-entry-v1"
ADVANCEMENT_IDEMPOTENCY = "atomic-idempotent-v1"

HOST_PARAMS = ("sessionKey", "prompt", "runtimeSettings", "sessionTarget", "runtimeContext", "abortSignal")
"""The fields a host adds, by their names on the wire; ``accepted_host_params`` may leave some out."""

ResetReason = Literal["invalid_cursor", "scope_mismatch", "generation_mismatch", "anchor_missing", "anchor_moved"]


@dataclass(frozen=True)
class TranscriptSemantics:
    """What an engine promises about turns; all of it is needed for durable turns, with ``commit_turn``."""

    current_turn_fence: str | None = None
    turn_advancement_idempotency: str | None = None


@dataclass(frozen=True)
class HostRequirement:
    """Capabilities a host must have for one operation, and what to say when it lacks them."""

    required_capabilities: tuple[str, ...]
    unsupported_message: str | None = None


@dataclass(frozen=True)
class EngineInfo:
    """What an engine says of itself. ``accepted_host_params`` of ``None``: it takes every host field."""

    id: str
    name: str
    version: str | None = None
    accepted_host_params: tuple[str, ...] | None = None
    transcript_semantics: TranscriptSemantics | None = None
    owns_compaction: bool = False
    turn_maintenance_mode: Literal["foreground", "background"] = "foreground"
    host_requirements: Mapping[str, HostRequirement] = field(default_factory=dict)


@dataclass(frozen=True)
class TurnAnchor:
    """One entry of a transcript on its active path, precisely enough to see that it was moved or rewritten."""

    agent_id: str
    session_id: str
    session_key: str
    store_path: str
    generation: str
    entry_id: str
    raw_seq: int
    effective_parent_id: str | None
    active_message_position: int
    idempotency_key: str | None = None


@dataclass(frozen=True)
class TurnAdmission:
    """The admitted user entry. The advancement key of the turn is ``logical_turn_id``."""

    anchor: TurnAnchor
    logical_turn_id: str
    role: Literal["user"] = "user"


@dataclass(frozen=True)
class AssembleResult:
    """Messages within the budget. ``estimated_tokens`` never says less than there are."""

    messages: tuple[Mapping[str, Any], ...]
    estimated_tokens: int
    system_prompt_addition: str | None = None
    prompt_authority: Literal["assembled", "preassembly_may_overflow"] | None = None
    context_projection: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class CommitResult:
    """``committed`` once, ``duplicate`` ever after."""

    status: Literal["committed", "duplicate"]


@dataclass(frozen=True)
class CompactResult:
    """What became of a compaction. ``result`` is as the host's own compaction gives it (``tokensBefore`` …)."""

    ok: bool
    compacted: bool
    reason: str | None = None
    result: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class MaintainResult:
    """What maintenance changed; bytes are those given back to the file system."""

    changed: bool
    bytes_freed: int = 0
    rewritten_entries: int = 0
    reason: str | None = None


@dataclass(frozen=True)
class BootstrapResult:
    """Whether an engine has taken up an existing session."""

    bootstrapped: bool
    imported_messages: int | None = None
    reason: str | None = None


@dataclass(frozen=True)
class DeltaEntry:
    """One visible message of a transcript's active branch."""

    entry_id: str
    parent_id: str | None
    seq: int
    message: Mapping[str, Any]
    role: str
    created_at: str | None = None
    idempotency_key: str | None = None


@dataclass(frozen=True)
class DeltaPage:
    """Entries after a cursor, oldest first. ``required_bytes``: the first entry alone exceeds ``max_bytes``."""

    cursor: str
    entries: tuple[DeltaEntry, ...]
    has_more: bool
    serialized_bytes: int
    required_bytes: int | None = None
    kind: Literal["page"] = "page"


@dataclass(frozen=True)
class DeltaReset:
    """The cursor cannot be read on from: rebuild from this one."""

    cursor: str
    reason: ResetReason
    kind: Literal["reset"] = "reset"


@dataclass(frozen=True)
class DeltaMissing:
    """There is no such transcript."""

    kind: Literal["missing"] = "missing"


@dataclass(frozen=True)
class DeltaUnavailable:
    """Not now: ask again later, and never read files instead."""

    reason: Literal["projection_rebuilding"] = "projection_rebuilding"
    kind: Literal["unavailable"] = "unavailable"


DeltaResult = DeltaPage | DeltaReset | DeltaMissing | DeltaUnavailable


class ContextEngine(Protocol):
    """The three methods that every engine has; the others (``bootstrap``, ``ingest_batch``, ``after_turn``,
    ``commit_turn``, ``maintain``, ``prepare_subagent_spawn``, ``on_subagent_ended``, ``dispose``) are looked up by
    name. Arguments are the contract's in snake_case; ``messages`` are mappings with ``role`` and ``content``."""

    @property
    def info(self) -> EngineInfo: ...

    async def ingest(self, *, session_id: str, message: Mapping[str, Any], **host: Any) -> Mapping[str, bool]: ...

    async def assemble(
        self, *, session_id: str, messages: Sequence[Mapping[str, Any]], **host: Any
    ) -> AssembleResult: ...

    async def compact(self, *, session_id: str, session_key: str, **host: Any) -> CompactResult: ...
