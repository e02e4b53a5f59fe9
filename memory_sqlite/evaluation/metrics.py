"""The measures of retrieval, over the answers to labelled questions.

Lives here: recall and hit rate at k, nDCG, MRR, percentiles. Pure. Not here: who asks (``measuring``), what is noise
(``comparing``). Called by ``memory-sqlite eval`` and by the project's own quality harness, so that both count alike.

All labels of a question are equally right (binary gains). Of several hits with one label the first counts.
Definitions: Järvelin and Kekäläinen 2002 (nDCG), Voorhees 1999 (MRR).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

HIT_RANKS: Final = (1, 3, 5)
"""Ranks beside k at which the share of questions with a right hit is told."""


@dataclass
class Scores:
    """Means over questions; the lists have one entry a question, in the order they were added."""

    ranks: list[int | None] = field(default_factory=list)
    """Rank of the first right label, ``None`` when it is not among the first k."""
    recalls: list[float] = field(default_factory=list)
    gains: list[float] = field(default_factory=list)

    def add(self, found: Iterable[str], expected: Iterable[str], k: int = 10) -> None:
        """Take one answer: the labels of its hits in order, and the labels that are right (at least one)."""
        wanted = set(expected)
        labels = list(dict.fromkeys(found))[:k]
        right = [rank for rank, label in enumerate(labels, 1) if label in wanted]
        self.ranks.append(right[0] if right else None)
        self.recalls.append(len(right) / len(wanted))
        best = sum(1 / math.log2(rank + 1) for rank in range(1, min(len(wanted), k) + 1))
        self.gains.append(sum(1 / math.log2(rank + 1) for rank in right) / best)

    @property
    def count(self) -> int:
        """How many questions."""
        return len(self.ranks)

    @property
    def recall(self) -> float:
        """Share of the right labels among the first k; the mean over questions."""
        return _mean(self.recalls)

    @property
    def ndcg(self) -> float:
        """Normalised discounted cumulative gain at k."""
        return _mean(self.gains)

    @property
    def mrr(self) -> float:
        """Mean reciprocal rank of the first right label; 0 for a question without one among the first k."""
        return _mean([1 / rank if rank else 0.0 for rank in self.ranks])

    def hit_at(self, k: int) -> int:
        """Questions with a right label among the first k."""
        return sum(1 for rank in self.ranks if rank is not None and rank <= k)

    def figures(self, k: int = 10) -> dict[str, float]:
        """All measures by name, rounded to four places; empty without questions."""
        if not self.ranks:
            return {}
        hits = {f"hit@{rank}": self.hit_at(rank) / self.count for rank in sorted({*HIT_RANKS, k}) if rank <= k}
        told = {f"recall@{k}": self.recall, **hits, f"ndcg@{k}": self.ndcg, "mrr": self.mrr}
        return {name: round(value, 4) for name, value in told.items()}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def percentile(values: Iterable[float], share: float) -> float:
    """The value that ``share`` (0 to 1) of the values do not exceed (nearest rank); 0 for none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0
