"""What a resolver returned, checked and completed: one arm, whole prompts, timing from the host where it says nothing.

A plan may be one of ``runtime.flush_plans`` or a mapping in the contract's own camelCase form. Not here: calling the
resolver and who may supply what (``gates``), where a file plan writes (``arms``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from memory_sqlite import errors
from memory_sqlite.host.flush.shapes import Arm
from memory_sqlite.runtime.flush_timing import HostTiming

_CAMEL: Final = {
    "soft_threshold_tokens": "softThresholdTokens",
    "force_flush_transcript_bytes": "forceFlushTranscriptBytes",
    "reserve_tokens_floor": "reserveTokensFloor",
    "model": "model",
    "prompt": "prompt",
    "system_prompt": "systemPrompt",
    "relative_path": "relativePath",
    "persistence_tool_names": "persistenceToolNames",
    "lookup_tool_names": "lookupToolNames",
}
_TIMING: Final = ("soft_threshold_tokens", "force_flush_transcript_bytes", "reserve_tokens_floor")


@dataclass(frozen=True)
class CompletePlan:
    """A plan with nothing left to the host. ``relative_path`` is the file arm's, the tool names are the tools arm's."""

    arm: Arm
    prompt: str
    system_prompt: str
    soft_threshold_tokens: float
    force_flush_transcript_bytes: float
    reserve_tokens_floor: float
    model: str | None = None
    relative_path: str = ""
    persistence_tool_names: tuple[str, ...] = ()
    lookup_tool_names: tuple[str, ...] = ()

    @property
    def overlap(self) -> tuple[str, ...]:
        """Names that are declared for persistence and for lookup."""
        return tuple(name for name in self.persistence_tool_names if name in self.lookup_tool_names)


def complete(value: object, timing: HostTiming, *, released: bool) -> CompletePlan:
    """The plan, completed. Raises ``ProviderInvalid`` for what is none, has both arms or neither.

    ``released``: it comes from the released resolver, whose plans are of the file arm and say everything themselves.
    A value that is defined overrides the host's, zero included; the model of the host is for the tools arm alone.
    """
    fields = {name: _field(value, name) for name in _CAMEL}
    tools = fields["persistence_tool_names"] is not None or fields["lookup_tool_names"] is not None
    if tools and fields["relative_path"] is not None:
        raise errors.ProviderInvalid("a flush plan has either relativePath or tool names, not both")
    if tools and fields["persistence_tool_names"] is None:
        raise errors.ProviderInvalid("a flush plan with lookupToolNames needs persistenceToolNames")
    if released and tools:
        raise errors.ProviderInvalid("a tools-arm plan comes from providerFlushPlanResolver alone")
    if released and any(fields[name] is None for name in _TIMING):
        raise errors.ProviderInvalid("a plan of flushPlanResolver states all of its timing")
    model = _model(fields["model"])
    return CompletePlan(
        arm="tools" if tools else "file",
        prompt=_text(fields["prompt"], "prompt"),
        system_prompt=_text(fields["system_prompt"], "systemPrompt"),
        soft_threshold_tokens=_number(fields, "soft_threshold_tokens", timing.soft_threshold_tokens),
        force_flush_transcript_bytes=_number(
            fields, "force_flush_transcript_bytes", timing.force_flush_transcript_bytes
        ),
        reserve_tokens_floor=_number(fields, "reserve_tokens_floor", timing.reserve_tokens_floor),
        model=timing.model if tools and model is None else model,
        relative_path="" if tools else _text(fields["relative_path"], "relativePath"),
        persistence_tool_names=_names(fields["persistence_tool_names"], "persistenceToolNames"),
        lookup_tool_names=_names(fields["lookup_tool_names"], "lookupToolNames"),
    )


def _field(value: object, name: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(_CAMEL[name])
    return getattr(value, name, None)


def _text(value: object, name: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise errors.ProviderInvalid(f"a flush plan needs {name}, text that is not blank")
    return value


def _model(value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise errors.ProviderInvalid("the model of a flush plan must be text")
    return (value.strip() or None) if value is not None else None


def _number(fields: Mapping[str, Any], name: str, otherwise: float) -> float:
    value = fields[name]
    if value is None:
        return otherwise
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise errors.ProviderInvalid(f"{_CAMEL[name]} of a flush plan must be a finite number")
    return value


def _names(value: object, name: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if (
        not isinstance(value, Sequence)
        or isinstance(value, str | bytes)
        or not all(isinstance(one, str) and one.strip() for one in value)
    ):
        raise errors.ProviderInvalid(f"{name} of a flush plan must be a list of tool names")
    return tuple(dict.fromkeys(value))
