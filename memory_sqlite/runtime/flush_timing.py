"""When a host flushes, as far as configuration and the context window say: thresholds in tokens, the trigger in bytes.

Provider-neutral: hosts complete plans with it (``host.flush``), and a provider's complete plan for hosts that know no
other is made of it (``plans``). Figures and formulas are the contract's (section 3.2). Not here: whether a turn has
reached a threshold (``host.flush.timing``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from memory_sqlite import limits

SOFT_THRESHOLD_TOKENS: Final = 4_000
FORCE_FLUSH_BYTES: Final = 2 * limits.MIB
RESERVE_TOKENS: Final = 20_000
_RESERVE_SHARE: Final = 0.25

_SIZE: Final = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*([a-z]*)", re.ASCII)
_UNITS: Final[dict[str, int]] = {"": 1, "b": 1} | {
    name: 1024**power
    for power, names in enumerate(("k kb kib", "m mb mib", "g gb gib", "t tb tib"), 1)
    for name in names.split()
}


@dataclass(frozen=True)
class HostTiming:
    """What a host adds where a plan says nothing. Tokens and bytes; ``model`` is for the tools arm alone."""

    enabled: bool
    soft_threshold_tokens: int
    force_flush_transcript_bytes: int
    reserve_tokens_floor: int
    model: str | None = None


def window_of(context_window_tokens: float | None) -> int:
    """The context window as the formulas take it: whole, not negative, 0 when it is unknown."""
    if not _is_number(context_window_tokens):
        return 0
    return max(0, math.floor(context_window_tokens))


def host_timing(config: Mapping[str, Any], context_window_tokens: float | None) -> HostTiming:
    """The timing of ``agents.defaults.compaction.memoryFlush`` for a context window; invalid values are defaults."""
    block = flush_config(config)
    window = window_of(context_window_tokens)
    soft = _tokens(block.get("softThresholdTokens"))
    reserve = RESERVE_TOKENS
    if window > 0:
        reserve = min(RESERVE_TOKENS, math.floor(window * _RESERVE_SHARE))
        soft = min(soft, (window - reserve) // 2)
    force = parse_bytes(block.get("forceFlushTranscriptBytes"))
    model = block.get("model")
    return HostTiming(
        enabled=block.get("enabled") is not False,
        soft_threshold_tokens=soft,
        force_flush_transcript_bytes=FORCE_FLUSH_BYTES if force is None else force,
        reserve_tokens_floor=reserve,
        model=(model.strip() or None) if isinstance(model, str) else None,
    )


def flush_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The block ``agents.defaults.compaction.memoryFlush``; empty where there is none."""
    block: Any = config
    for key in ("agents", "defaults", "compaction", "memoryFlush"):
        block = block.get(key) if isinstance(block, Mapping) else None
    return block if isinstance(block, Mapping) else {}


def parse_bytes(value: object) -> int | None:
    """A size: a whole number that is not negative, or text such as ``2mb`` (without a unit: bytes); else ``None``."""
    if isinstance(value, str):
        found = _SIZE.fullmatch(value.strip().lower())
        if found is None or found[2] not in _UNITS:
            return None
        return math.floor(float(found[1]) * _UNITS[found[2]])
    if not _is_number(value) or value < 0 or value != math.floor(value):
        return None
    return int(value)


def _tokens(value: object) -> int:
    if not _is_number(value) or value < 0:
        return SOFT_THRESHOLD_TOKENS
    return math.floor(value)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
