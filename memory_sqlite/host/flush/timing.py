"""Whether it is time: projected tokens against the threshold, or the transcript's bytes against theirs.

Formulas of section 3.2 of the contract. Not here: what a host says where a plan does not (``runtime.flush_timing``).
Called by ``gates``.
"""

from __future__ import annotations

import math

from memory_sqlite.host.flush.plans import CompletePlan
from memory_sqlite.host.flush.records import is_flushed
from memory_sqlite.host.flush.shapes import FlushSourceTurn
from memory_sqlite.host.session_rows import SessionRow
from memory_sqlite.runtime.flush_timing import window_of


def compaction_threshold(window: int, reserve: float) -> int:
    """Tokens from which the host compacts."""
    return max(0, max(1, window) - max(0, math.floor(reserve)))


def flush_threshold(window: int, reserve: float, soft: float) -> int:
    """Tokens from which it flushes; 0 says that tokens trigger nothing."""
    return max(0, compaction_threshold(window, reserve) - max(0, math.floor(soft)))


def is_time(plan: CompletePlan, source: FlushSourceTurn, row: SessionRow) -> bool:
    """Whether the turn has reached a threshold in a cycle that was not flushed yet."""
    if is_flushed(row):
        return False
    threshold = flush_threshold(
        window_of(source.context_window_tokens), plan.reserve_tokens_floor, plan.soft_threshold_tokens
    )
    projected = source.prompt_tokens + source.last_output_tokens + source.incoming_tokens
    if 0 < threshold <= projected:
        return True
    force = plan.force_flush_transcript_bytes
    return 0 < force <= source.transcript_bytes
