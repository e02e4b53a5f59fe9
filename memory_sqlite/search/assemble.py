"""What an answer holds: near duplicates collapsed, one session not everything, a floor, an order.

Lives here: choosing among scored candidates. Not here: scoring (``rank``), excerpts and references (``run``). Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Literal

from memory_sqlite.search.candidates import Candidate, Candidates
from memory_sqlite.search.folding import search_form
from memory_sqlite.values import dataclass, field

if TYPE_CHECKING:
    from memory_sqlite.search.trace import Trace

Sort = Literal["score", "diverse", "newest", "oldest"]

NEAR_DUPLICATE: Final = 0.95
"""Share of common shingles from which two texts say the same."""
HEADED_CHARS: Final = 40
"""A passage with as much below its heading is compared without it."""
SHINGLE: Final = 3
SESSION_SHARE: Final = 0.8
"""One session may fill this much of an answer while others have something to say (a cap of three costs .07 R@10)."""
TIME_SORT_SHARE: Final = 0.5
"""Sorted by time, only hits with this share of the best score take part: the newest match, not the newest row."""
RELEVANCE_SHARE: Final = 0.7
"""Sorted ``diverse``, what a hit's own score counts beside its likeness to the hits before it: maximal marginal
relevance (Carbonell and Goldstein, SIGIR 1998) with a lambda on the side of relevance."""

_PRIORITY: Final = {"L3": 0, "L0": 2, "L1": 3, "L2": 4}


@dataclass(slots=True)
class RankedHit:
    """A candidate in the answer, and those collapsed into it."""

    candidate: Candidate
    score: float
    duplicates: list[Candidate] = field(default_factory=list)
    shingles: frozenset[str] = frozenset()


def assemble(
    candidates: Candidates,
    *,
    max_results: int,
    min_score: float = 0.0,
    sort: Sort = "score",
    sessions_only: bool = False,
    trace: Trace | None = None,
) -> list[RankedHit]:
    """Choose at most ``max_results`` hits with a score of at least ``min_score``, in the order asked for.

    What became of each candidate is written into ``trace``.
    """
    ranked = [row for row in candidates.rows if row.score >= min_score and row.score > 0.0]
    overlaps: list[tuple[Candidate, RankedHit]] = []
    if sort in ("newest", "oldest"):
        floor = ranked[0].score * TIME_SORT_SHARE if ranked else 0.0
        ranked = [row for row in ranked if row.score >= floor]
        hits, spare = _collapse(ranked, len(ranked), len(ranked), overlaps)
        sign = -1 if sort == "newest" else 1
        hits.sort(key=lambda hit: (hit.candidate.at is None, sign * (hit.candidate.at or 0)))
        hits, late = hits[:max_results], hits[max_results:]
    else:
        allowed = max_results if sessions_only else max(1, math.floor(max_results * SESSION_SHARE))
        wanted = len(ranked) if sort == "diverse" else max_results
        hits, spare = _collapse(ranked, wanted, allowed, overlaps)
        hits, spare, late = hits + spare[: max_results - len(hits)], spare[max_results - len(hits) :], []
        hits.sort(key=lambda hit: -hit.score)
    if sort == "diverse":
        hits, late = _diverse(hits, max_results)
    if trace is not None:
        trace.settle(
            candidates.rows, ranked, min_score=min_score, hits=hits, capped=spare, late=late, overlaps=overlaps
        )
    return hits


def _collapse(
    ranked: Iterable[Candidate], wanted: int, allowed: int, overlaps: list[tuple[Candidate, RankedHit]]
) -> tuple[list[RankedHit], list[RankedHit]]:
    """The first ``wanted`` hits that say different things, and those left out because their session has ``allowed``.

    Near-identical texts become one hit: the better layer, else the newest, with the best score of them. What overlaps
    a hit and adds nothing is put into ``overlaps``.
    """
    hits: list[RankedHit] = []
    spare: list[RankedHit] = []
    counts: dict[int, int] = {}
    for candidate in ranked:
        if len(hits) >= wanted:
            break
        hit = RankedHit(candidate, candidate.score, shingles=shingles(_below_heading(candidate.text)))
        known = (*hits, *spare)
        place = next((other for other in known if _same_place(other.candidate, candidate)), None)
        if place is not None:
            overlaps.append((candidate, place))
            continue
        twin = next((other for other in known if _says_the_same(other, hit)), None)
        if twin is None:
            session = candidate.session_id if candidate.kind == "message" else None
            if session is not None:
                counts[session] = counts.get(session, 0) + 1
            (hits if session is None or counts[session] <= allowed else spare).append(hit)
        elif _preferred(candidate, twin.candidate):
            twin.duplicates.append(twin.candidate)
            twin.candidate, twin.shingles = candidate, hit.shingles
        else:
            twin.duplicates.append(candidate)
    return hits, spare


def _diverse(hits: list[RankedHit], max_results: int) -> tuple[list[RankedHit], list[RankedHit]]:
    """The hits to show, each the best that is least like those before it, and the others."""
    left = [(hit, frozenset(search_form(hit.candidate.text).casefold().split())) for hit in hits]
    chosen: list[RankedHit] = []
    likeness = [0.0] * len(left)
    while left and len(chosen) < max_results:
        best = max(
            range(len(left)),
            key=lambda at: RELEVANCE_SHARE * left[at][0].score - (1.0 - RELEVANCE_SHARE) * likeness[at],
        )
        hit, words = left.pop(best)
        likeness.pop(best)
        chosen.append(hit)
        for at, (_, others) in enumerate(left):
            likeness[at] = max(likeness[at], len(words & others) / (len(words | others) or 1))
    return chosen, [hit for hit, _ in left]


def _same_place(first: Candidate, second: Candidate) -> bool:
    """Overlapping chunks of one document where the later one adds no term of the query."""
    return (
        first.document_id == second.document_id
        and first.chunk_id != second.chunk_id
        and first.start_line <= second.end_line
        and second.start_line <= first.end_line
        and second.own.keys() <= first.own.keys()
    )


def _says_the_same(known: RankedHit, hit: RankedHit) -> bool:
    first, second = known.candidate, hit.candidate
    if first.text_hash and first.text_hash == second.text_hash:
        return True
    left, right = known.shingles, hit.shingles
    if not left or not right:
        return False
    if left.isdisjoint(right):
        return False
    shared = len(left & right)
    if shared >= NEAR_DUPLICATE * len(left | right):
        return True
    # an episode quotes what was said: it is a copy when all of a shorter and better placed text is in it
    for copy, original, whole in ((second, first, left), (first, second, right)):
        if (
            copy.layer in ("L1", "L2")
            and original.layer not in ("L1", "L2")
            and copy.session_id == original.session_id
            and shared >= NEAR_DUPLICATE * len(whole)
            and copy.own.keys() <= original.own.keys()
        ):
            return True
    return False


def _below_heading(text: str) -> str:
    """A passage without the heading that it begins with, where enough is left: two notes may say the same under titles
    of their own. Of a short one the heading is half of what it says."""
    first, _, rest = text.partition("\n")
    is_enough = len(rest.strip()) >= HEADED_CHARS
    return rest if is_enough and first.startswith("#") else text


def _preferred(candidate: Candidate, known: Candidate) -> bool:
    left, right = _PRIORITY.get(candidate.layer or "", 1), _PRIORITY.get(known.layer or "", 1)
    if left != right:
        return left < right
    return (candidate.at or -(2**62)) > (known.at or -(2**62))


def shingles(text: str) -> frozenset[str]:
    """Overlapping runs of three words; of three characters where there are hardly any spaces."""
    words = search_form(text).casefold().split()
    if len(words) * 12 < len(text):
        squeezed = "".join(words)
        return frozenset(squeezed[at : at + SHINGLE] for at in range(max(1, len(squeezed) - SHINGLE + 1)))
    if len(words) <= SHINGLE:
        return frozenset([" ".join(words)])
    return frozenset(" ".join(words[at : at + SHINGLE]) for at in range(len(words) - SHINGLE + 1))
