"""Scoring: from where terms were found to one number between 0 and 1.

Lives here: the formula and its constants. Not here: finding (``retrieve``), collapsing and caps (``assemble``). Pure.

A candidate's score is a mix of three shares, each of what a perfect answer would reach: BM25 weighted by rarity, the
rarity of the terms it holds at all, and the rarity of the terms its best single line holds. Boosts then move the odds
of that share, bounded, so that the order of two clearly different matches never turns.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from datetime import date
from typing import Final

from memory_sqlite.search.candidates import Candidate, Places, Resolved
from memory_sqlite.search.dates import day_of
from memory_sqlite.search.query import Query
from memory_sqlite.search.sentences import ENDS_IN_QUESTION, HAS_TIME_WORD

K1: Final = 1.2
B: Final = 0.75
"""FTS5's own constants of BM25."""

COVERED_SHARE: Final = 0.1
LINE_SHARE: Final = 0.2
"""Mix of the three shares (measured: these meet LoCoMo, XQuAD, SciFact, both workspaces at once)."""

COLUMN_WEIGHTS: Final = (1.0, 0.35, 1.5, 1.5, 2.0)
"""body, question sentences, title and headings, path, trigger."""

OWN_SHARE: Final = 0.5
"""A message's own text counts this much beside its window of two before and after (LoCoMo R@10 .638 -> .786)."""

IDENTIFIER_TIER: Final = 0.5
"""For a query that is one identifier: what holds it whole stands in the upper half of the scores, the rest below. For a
query of many words it shrinks with the identifier's part in it (at full size SciFact loses .011, to names like IL-6)."""

SPEAKER_BOOST: Final = 1.2
DATE_BOOST: Final = 1.5
TIME_WORD_BOOST: Final = 1.2
QUESTION_MALUS: Final = 0.8
"""LoCoMo dev R@10 .786 -> .812 with these four (issue "Finding")."""

RECENCY_BOOST: Final = 1.03
RECENCY_HALF_LIFE_DAYS: Final = 30.0
IMPORTANCE_STEP: Final = 0.01
"""Per step away from 5 on the scale of 1 to 10."""
PROJECT_BOOST: Final = 1.05


def idf(count: int, rows: int) -> float:
    """Rarity of a term that stands in ``count`` of ``rows`` rows; never negative, so that a common word still finds."""
    return math.log(1.0 + (rows - count + 0.5) / (count + 0.5)) if count < rows else math.log(1.0 + 0.5 / (count + 0.5))


def _bounded(share: float) -> float:
    """Shares above one half, which boosts may lift over 1, pressed smoothly below 1; the order stays."""
    return share if share <= 0.5 else 1.0 - 0.25 / share


def _saturation(frequency: float, length: float, average: float) -> float:
    """BM25's share of what a term can bring at most, 0 to 1."""
    return frequency / (frequency + K1 * (1.0 - B + B * length / average)) if frequency > 0.0 else 0.0


def _frequency(places: Places) -> float:
    return sum(weight * len(found) for weight, found in zip(COLUMN_WEIGHTS, places, strict=False) if found)


class Scorer:
    """Scores the candidates of one query. ``averages`` are mean token counts by kind, and ``context`` for windows."""

    def __init__(
        self, query: Query, terms: tuple[Resolved, ...], averages: Mapping[str, float], now_ms: int, projects: frozenset[str]
    ) -> None:
        self._query = query
        self._averages = averages
        self._now_ms = now_ms
        self._projects = projects
        self._worth = [term.term.weight * term.idf for term in terms]
        self._trust = [term.trust for term in terms]
        self._total = sum(self._worth) or 1.0
        self._identifiers = [
            index for index, term in enumerate(terms) if term.term.is_code and term.count > 0
        ]
        # in a question of many words an identifier is one word among them, alone it is the question
        others = sum(self._worth[index] for index, term in enumerate(terms) if term.term.kind != "part")
        named = sum(self._worth[index] for index in self._identifiers)
        self._tier = IDENTIFIER_TIER * named / others if others else 0.0

    def score(self, candidate: Candidate) -> float:
        """Set ``candidate.score`` and ``candidate.parts``; returns the score."""
        message = candidate.kind == "message"
        own = self._bm25(candidate)
        covered = self._covered(candidate.own.keys())
        if message:
            around = self._window(candidate)
            share = (OWN_SHARE * own + around) / (1.0 + OWN_SHARE)
            line = covered
            covered = self._covered(candidate.own.keys() | candidate.window.keys())
        else:
            share = own
            line = self._best_line(candidate)
        base = (1.0 - COVERED_SHARE - LINE_SHARE) * share + COVERED_SHARE * covered + LINE_SHARE * line
        parts = {"words": share, "covered": covered, "line": line}
        odds = 1.0
        for name, factor in self._boosts(candidate):
            if factor != 1.0:
                parts[name] = factor
                odds *= factor
        score = _bounded(base * odds)
        if self._identifiers:
            whole = sum(self._trust[index] for index in self._identifiers if self._holds_whole(candidate, index))
            tier = whole / len(self._identifiers)
            score = self._tier * tier + (1.0 - self._tier) * score
            parts["identifier"] = tier
        candidate.score = score
        candidate.parts = parts
        return score

    def _holds_whole(self, candidate: Candidate, index: int) -> bool:
        return index in candidate.own

    def _bm25(self, candidate: Candidate) -> float:
        average = self._averages.get(candidate.kind) or 1.0
        return (
            sum(
                self._worth[index]
                * self._trust[index]
                * _saturation(_frequency(places), candidate.length, average)
                for index, places in candidate.own.items()
            )
            / self._total
        )

    def _window(self, candidate: Candidate) -> float:
        average = self._averages.get("context") or 1.0
        return (
            sum(
                self._worth[index] * self._trust[index] * _saturation(count, candidate.window_length, average)
                for index, count in candidate.window.items()
            )
            / self._total
        )

    def _covered(self, found: object) -> float:
        return sum(self._worth[index] * self._trust[index] for index in found) / self._total  # type: ignore[attr-defined]

    def _best_line(self, candidate: Candidate) -> float:
        """The share of the line that holds most; a chunk of one line is that line."""
        if not candidate.line_starts:
            return self._covered(candidate.own.keys())
        starts = array("I")
        starts.frombytes(candidate.line_starts)
        lines: dict[int, float] = {}
        for index, places in candidate.own.items():
            worth = self._worth[index] * self._trust[index]
            for line in {_line_of(starts, position) for position in places[0]}:
                lines[line] = lines.get(line, 0.0) + worth
        return max(lines.values(), default=0.0) / self._total

    def _boosts(self, candidate: Candidate) -> list[tuple[str, float]]:
        boosts: list[tuple[str, float]] = []
        at = day_of(candidate.at) if candidate.at is not None else None
        if at is not None and self._query.dates:
            agreement = max(named.agreement(at) for named in self._query.dates)
            boosts.append(("date", 1.0 + (DATE_BOOST - 1.0) * agreement))
        if candidate.kind == "message":
            speaker = (candidate.speaker or "").casefold()
            if speaker and not self._query.names.isdisjoint(speaker.split()):
                boosts.append(("speaker", SPEAKER_BOOST))
            if candidate.flags & ENDS_IN_QUESTION:
                boosts.append(("asks", QUESTION_MALUS))
            if self._query.asks_when and candidate.flags & HAS_TIME_WORD:
                boosts.append(("time word", TIME_WORD_BOOST))
        if at is not None:
            boosts.append(("recency", self._recency(candidate.at or 0, at)))
        if candidate.importance is not None:
            boosts.append(("importance", 1.0 + IMPORTANCE_STEP * (candidate.importance - 5)))
        if self._projects and not self._projects.isdisjoint(candidate.projects):
            boosts.append(("project", PROJECT_BOOST))
        return boosts

    def _recency(self, at_ms: int, at: date) -> float:
        age = max(0.0, (self._now_ms - at_ms) / 86_400_000)
        return 1.0 + (RECENCY_BOOST - 1.0) * 0.5 ** (age / RECENCY_HALF_LIFE_DAYS)


def _line_of(starts: array[int], position: int) -> int:
    """Index of the line that holds a token position."""
    low, high = 0, len(starts)
    while low < high:
        middle = (low + high) // 2
        if starts[middle] <= position:
            low = middle + 1
        else:
            high = middle
    return low - 1
