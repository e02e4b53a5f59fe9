"""Two runs of one set beside each other: what changed, and what of it is a loss.

Lives here: the rule of noise. Called by the quality harness, and whoever keeps figures of ``memory-sqlite eval``.

A search is deterministic: the same code, index and clock give the same order. So there is no sampling noise between two
runs of one set, and what is let through is a change so small that nobody can tell it from chance on other questions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

TOLERANCE: Final = 0.003
"""The bound that this project sets itself for any model beside words alone: nowhere below by more than this. On 1,000
questions it is three that are answered worse; the standard error of a share near 0.8 is 0.013 there."""


def tolerance(questions: int) -> float:
    """How much a mean over so many questions may fall: ``TOLERANCE``, or one question of a small set."""
    return max(TOLERANCE, 1.0 / questions) if questions else TOLERANCE


def differences(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """After minus before, for every measure that both have."""
    return {name: round(after[name] - before[name], 4) for name in after if name in before}


def lost(before: Mapping[str, float], after: Mapping[str, float], questions: int) -> tuple[str, ...]:
    """The measures that fell by more than the tolerance."""
    allowed = math.ceil(tolerance(questions) * 10_000) / 10_000 + 1e-9  # the figures are rounded to four places
    return tuple(name for name, change in differences(before, after).items() if change < -allowed)
