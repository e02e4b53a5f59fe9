"""What a provider plans for the turn that saves memory before compaction: to a file, or through its own tools.

Shapes only. Not here: timing, gates, running the turn (``host.flush``), our own plans (``runtime.plans``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class FlushFilePlan:
    """A complete plan of the file arm: what the released ``flush_plan_resolver`` returns. Tokens and bytes."""

    soft_threshold_tokens: float
    force_flush_transcript_bytes: float
    reserve_tokens_floor: float
    prompt: str
    system_prompt: str
    relative_path: str
    model: str | None = None


@dataclass(frozen=True)
class FlushFileDraft:
    """A plan of the file arm that the host completes. ``None`` is left to the host; zero is an override."""

    prompt: str
    system_prompt: str
    relative_path: str
    soft_threshold_tokens: float | None = None
    force_flush_transcript_bytes: float | None = None
    reserve_tokens_floor: float | None = None
    model: str | None = None


@dataclass(frozen=True)
class FlushToolsPlan:
    """A plan of the tools arm, for the slot owner alone. The lookup tools cannot persist anything."""

    prompt: str
    system_prompt: str
    persistence_tool_names: tuple[str, ...]
    lookup_tool_names: tuple[str, ...] | None = None
    soft_threshold_tokens: float | None = None
    force_flush_transcript_bytes: float | None = None
    reserve_tokens_floor: float | None = None
    model: str | None = None


FlushPlan = FlushFilePlan | FlushFileDraft | FlushToolsPlan


@dataclass(frozen=True)
class FlushPlanRequest:
    """What a resolver is told. ``now_ms`` only when an attempt is prepared, not when the threshold is looked at."""

    config: Mapping[str, Any] = field(default_factory=dict)
    now_ms: int | None = None
    context_window_tokens: int | None = None
