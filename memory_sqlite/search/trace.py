"""What a search did, written down while it did it: for ``explain``, and for nobody else.

Lives here: the notebook that ``run``, ``retrieve`` and ``assemble`` write into when one is handed to them. Without one
they write nothing and pay nothing, so an explanation is of the search itself and not of a second one like it. Not here:
what the notes mean to a person (``explain``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from memory_sqlite.values import dataclass, field

if TYPE_CHECKING:
    from memory_sqlite.search.assemble import RankedHit
    from memory_sqlite.search.candidates import Candidate, Candidates
    from memory_sqlite.search.query import Query

Verdict = Literal[
    "hit", "duplicate", "overlap", "session_cap", "below_min_score", "below_time_floor", "beyond_max_results"
]
"""What became of a candidate with its text read. ``below_time_floor`` happens in answers sorted by time alone."""


@dataclass(slots=True)
class Outcome:
    """What became of one candidate, and which hit stands in its place (``duplicate``, ``overlap``)."""

    verdict: Verdict
    of: Candidate | None = None


@dataclass(slots=True)
class Trace:
    """The notes of one search, by chunk id where they are about candidates."""

    query: Query | None = None
    """As it was answered: a phrase that nothing holds is demanded no more."""
    match: str = ""
    """The expression that chose candidates, without the viewer's part, which names sessions."""
    chosen: int = 0
    """How many of the best rows of each lexical table were scored, at most."""
    scored: list[Candidate] = field(default_factory=list)
    """Everything that was scored, best first, before texts were read."""
    weak: frozenset[int] = frozenset()
    """Left out before scoring: rows with nothing but single characters or pieces, where others had more."""
    wanted: int = 0
    """How many of these have their text read, and can become a hit."""
    candidates: Candidates | None = None
    outcomes: dict[int, Outcome] = field(default_factory=dict)

    def settle(
        self,
        rows: Iterable[Candidate],
        kept: Iterable[Candidate],
        *,
        min_score: float,
        hits: Iterable[RankedHit],
        capped: Iterable[RankedHit],
        late: Iterable[RankedHit],
        overlaps: Iterable[tuple[Candidate, RankedHit]],
    ) -> None:
        """Write down what became of each row that the floors ``kept``, and of those they did not.

        ``capped`` are hits whose session had its share, ``late`` came after the last place; what stands under a hit is
        in its ``duplicates`` or in ``overlaps``; nobody looked at the rest, for the answer was full.
        """
        among = {row.chunk_id for row in kept}
        for row in rows:
            floor: Verdict = "below_min_score" if row.score < min_score or row.score <= 0.0 else "below_time_floor"
            self.outcomes[row.chunk_id] = Outcome("beyond_max_results" if row.chunk_id in among else floor)
        groups: tuple[tuple[Verdict, Iterable[RankedHit]], ...] = (
            ("beyond_max_results", late),
            ("session_cap", capped),
            ("hit", hits),
        )
        for verdict, group in groups:
            for hit in group:
                self.outcomes[hit.candidate.chunk_id] = Outcome(verdict)
                for copy in hit.duplicates:
                    self.outcomes[copy.chunk_id] = Outcome("duplicate", hit.candidate)
        for row, hit in overlaps:
            self.outcomes[row.chunk_id] = Outcome("overlap", hit.candidate)
