"""What became of each line of an import, as it grows; and the problems that are told. Called by the merging modules."""

from __future__ import annotations

from collections import Counter
from typing import Final, Literal

from memory_sqlite import limits
from memory_sqlite.model import SourceProblem
from memory_sqlite.values import dataclass, field

Outcome = Literal["added", "updated", "present", "conflicts", "forgotten", "left"]
OUTCOMES: Final[tuple[Outcome, ...]] = ("added", "updated", "present", "conflicts", "forgotten", "left")

CONFLICT: Final = "is here with other content, which was kept"


@dataclass
class Tally:
    """Lines by outcome and kind. ``path`` names the file in problems."""

    path: str
    counts: dict[str, Counter[str]] = field(default_factory=lambda: {outcome: Counter() for outcome in OUTCOMES})
    moved: int = 0
    redactions: int = 0
    problems: list[SourceProblem] = field(default_factory=list)

    def count(self, outcome: Outcome, kind: str, lines: int = 1) -> None:
        """So many more lines of a kind came to that."""
        self.counts[outcome][kind] += lines

    def problem(self, reason: str, line: int | None) -> None:
        """List one thing; the list is bounded, the counts are not."""
        if len(self.problems) < limits.REPORTED_PROBLEMS_MAX:
            self.problems.append(SourceProblem(self.path, reason, line))
