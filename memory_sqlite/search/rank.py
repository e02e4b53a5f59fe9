"""Scoring: from where terms were found to one number between 0 and 1.

Lives here: the formula and its constants. Not here: finding (``retrieve``), collapsing and caps (``assemble``). Pure.

A candidate's score is a mix of three shares, each of what a perfect answer would reach: BM25 weighted by rarity, the
rarity of the terms it holds at all, and the rarity of the terms its best single line holds. Boosts then move the odds
of that share, bounded, so that the order of two clearly different matches never turns.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Final

from memory_sqlite.search.candidates import Candidate, Meaning, Places, Resolved
from memory_sqlite.search.days import day_of
from memory_sqlite.search.query import Query
from memory_sqlite.search.sentences import ENDS_IN_QUESTION, HAS_TIME_WORD
from memory_sqlite.text.project_keys import project_key

K1: Final = 1.2
B: Final = 0.75
"""FTS5's own constants of BM25."""

COVERED_SHARE: Final = 0.1
LINE_SHARE: Final = 0.12
LINE_POWER: Final = 3
"""Mix of the three shares for notes and records. The third power lets a line that holds the whole query stand out and
leaves lines that hold half of it alone (bigcorpus: 152 of 160 first against 150 with the share itself; XQuAD-en .970,
SciFact .695 against .698). A larger share finds more sentences and fewer abstracts (.2: 154 first, SciFact .693)."""

COLUMN_WEIGHTS: Final = (1.0, 0.35, 1.5, 1.5, 2.0)
"""body, question sentences, title and headings, path, trigger."""

WINDOW_WEIGHTS: Final = (1.0, 1.2, 0.6, 0.5)
"""The message, the one before it (it may have asked), the one after it, those one further away."""

OWN_SHARE: Final = 0.4
WINDOW_COVERED_SHARE: Final = 0.03
OWN_COVERED_SHARE: Final = 0.05
B_MESSAGE: Final = 0.5
NAME_WEIGHT: Final = 0.5
"""For messages. Their own text counts this much beside the window; a speaker's name in the query says more about who
spoke than about what was said, so as a word it counts half (LoCoMo dev, with the weights of the window: R@10 .788 ->
.810, MRR .583 -> .605)."""

MESSAGE_MEANING_MOST: Final = 0.6
"""The most that meaning counts for messages where it counts more for them than for the rest: what LoCoMo dev was
measured with (multilingual-e5-small; on 2,001 notes the same weight put three answers behind others)."""

IDENTIFIER_TIER: Final = 0.5
"""For a query that is one identifier: what holds it whole stands in the upper half of the scores, the rest below. For a
query of many words it shrinks with the identifier's part in it (at full size SciFact loses .011: names like IL-6)."""

IN_PARTS: Final = 0.7
"""``TCK 0941 04`` in place of ``TCK-0941-04``, or ``LedgerCursor`` inside a longer name."""

SPEAKER_BOOST: Final = 1.2
DATE_BOOST: Final = 1.7
TIME_WORD_BOOST: Final = 1.3
QUESTION_MALUS: Final = 0.8
"""Each measured on LoCoMo dev by leaving it out: R@10 -.011, -.009, -.002, -.010."""

RECENCY_BOOST: Final = 1.03
RECENCY_HALF_LIFE_DAYS: Final = 30.0
IMPORTANCE_STEP: Final = 0.01
"""Per step away from 5 on the scale of 1 to 10."""
PROJECT_BOOST: Final = 1.05
UNTRUSTED_MALUS: Final = 0.97
"""What a stranger said, or nobody knows who, stands after what is otherwise as good."""


def idf(count: int, rows: int) -> float:
    """Rarity of a term that stands in ``count`` of ``rows`` rows; never negative, so that a common word still finds."""
    return math.log(1.0 + (rows - count + 0.5) / (count + 0.5)) if count < rows else math.log(1.0 + 0.5 / (count + 0.5))


def _bounded(share: float) -> float:
    """Shares above one half, which boosts may lift over 1, pressed smoothly below 1; the order stays."""
    return share if share <= 0.5 else 1.0 - 0.25 / share


def _frequency(places: Places, weights: tuple[float, ...] = COLUMN_WEIGHTS) -> float:
    return sum(weight * len(found) for weight, found in zip(weights, places, strict=False) if found)


class _Worth:
    """What each term is worth: its share of all that a query asks, and that share times the trust in its reading."""

    def __init__(self, worth: list[float], terms: tuple[Resolved, ...]) -> None:
        total = sum(worth) or 1.0
        self.shares = [value * term.trust / total for value, term in zip(worth, terms, strict=True)]

    def covered(self, found: Iterable[int]) -> float:
        """Share of the query that is there at all."""
        return sum(self.shares[index] for index in found)

    def bm25(
        self, found: Mapping[int, Places], weights: tuple[float, ...], length: int, average: float, b: float
    ) -> float:
        """BM25 as a share of what it could be at most."""
        norm = K1 * (1.0 - b + b * length / average)
        total = 0.0
        for index, places in found.items():
            frequency = _frequency(places, weights)
            total += self.shares[index] * frequency / (frequency + norm) if frequency else 0.0
        return total


class Scorer:
    """Scores the candidates of one query. ``averages`` are mean token counts by kind, and ``context`` for windows.
    ``meaning`` says what ``Candidate.meaning`` counts beside the words' 1."""

    def __init__(
        self,
        query: Query,
        terms: tuple[Resolved, ...],
        averages: Mapping[str, float],
        now_ms: int,
        projects: frozenset[str],
        speakers: frozenset[str] = frozenset(),
        meaning: Meaning | None = None,
    ) -> None:
        self._meaning = meaning or Meaning()
        self._query = query
        self._averages = averages
        self._now_ms = now_ms
        self._projects = frozenset(map(project_key, projects))
        self._worth = _Worth([term.term.weight * term.idf for term in terms], terms)
        named = [NAME_WEIGHT if term.term.text in speakers else 1.0 for term in terms]
        self._message_worth = _Worth(
            [factor * term.term.weight * term.idf for factor, term in zip(named, terms, strict=True)], terms
        )
        self._window_worth = _Worth(
            [factor * term.term.weight * term.window_idf for factor, term in zip(named, terms, strict=True)], terms
        )
        self._codes = [index for index, term in enumerate(terms) if term.term.is_code and term.count > 0]
        # in a question of many words an identifier is one word among them, alone it is the question
        others = sum(term.term.weight * term.idf for term in terms if term.term.kind != "part")
        code = sum(terms[index].term.weight * terms[index].idf for index in self._codes)
        self._tier = IDENTIFIER_TIER * code / others if others else 0.0

    def score(self, candidate: Candidate) -> float:
        """Set ``candidate.score`` and ``candidate.parts``; returns the score."""
        base, parts = self._message(candidate) if candidate.kind == "message" else self._passage(candidate)
        boost = 1.0
        for name, factor in self._boosts(candidate):
            if factor != 1.0:
                parts[name] = factor
                boost *= factor
        score = _bounded(base * boost)
        if self._codes:
            held = sum(self._held(candidate, index) for index in self._codes) / len(self._codes)
            score = self._tier * held + (1.0 - self._tier) * score
            parts["identifier"] = held
        if weight := self._meaning.weight:
            # a weighted mean: what words found first stays first unless something else is clearly nearer in meaning
            parts["meaning"] = candidate.meaning
            counted = weight
            if candidate.kind == "message":
                counted = min(weight * self._meaning.messages, max(weight, MESSAGE_MEANING_MOST))
            parts["meaning weight"] = counted
            score = (score + counted * candidate.meaning) / (1.0 + max(weight, counted))
        candidate.score = score
        candidate.parts = parts
        return score

    def _held(self, candidate: Candidate, index: int) -> float:
        if index in candidate.whole:
            return 1.0
        return IN_PARTS if index in candidate.own else 0.0

    def _passage(self, candidate: Candidate) -> tuple[float, dict[str, float]]:
        average = self._averages.get(candidate.kind) or 1.0
        words = self._worth.bm25(candidate.own, COLUMN_WEIGHTS, candidate.length, average, B)
        covered = self._worth.covered(candidate.own)
        line = self._best_line(candidate) if candidate.line_starts else covered
        base = (1.0 - COVERED_SHARE - LINE_SHARE) * words + COVERED_SHARE * covered + LINE_SHARE * line**LINE_POWER
        return base, {"words": words, "covered": covered, "line": line}

    def _message(self, candidate: Candidate) -> tuple[float, dict[str, float]]:
        own = self._message_worth.bm25(
            candidate.own, COLUMN_WEIGHTS, candidate.length, self._averages.get("message") or 1.0, B_MESSAGE
        )
        window = self._window_worth.bm25(
            candidate.window, WINDOW_WEIGHTS, candidate.window_length, self._averages.get("context") or 1.0, B
        )
        words = (OWN_SHARE * own + window) / (1.0 + OWN_SHARE)
        covered = self._window_worth.covered(candidate.window)
        line = self._message_worth.covered(candidate.own)
        base = (
            (1.0 - WINDOW_COVERED_SHARE - OWN_COVERED_SHARE) * words
            + WINDOW_COVERED_SHARE * covered
            + OWN_COVERED_SHARE * line
        )
        return base, {"words": own, "window": window, "covered": covered, "line": line}

    def _best_line(self, candidate: Candidate) -> float:
        """The share of the line that holds most."""
        starts = array("I")
        starts.frombytes(candidate.line_starts)
        lines: dict[int, float] = {}
        for index, places in candidate.own.items():
            worth = self._worth.shares[index]
            for line in {bisect_right(starts, position) for position in places[0]}:
                lines[line] = lines.get(line, 0.0) + worth
        return max(lines.values(), default=0.0)

    def _boosts(self, candidate: Candidate) -> list[tuple[str, float]]:
        boosts: list[tuple[str, float]] = []
        at = candidate.at
        if at is not None and self._query.dates:
            # a dated note has a day and no time: that day is the same everywhere
            day = day_of(at, "UTC" if candidate.kind == "note" else self._query.zone)
            agreement = max(named.agreement(day) for named in self._query.dates)
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
            boosts.append(("recency", self._recency(at)))
        if candidate.importance is not None:
            boosts.append(("importance", 1.0 + IMPORTANCE_STEP * (candidate.importance - 5)))
        if self._projects and not self._projects.isdisjoint(map(project_key, candidate.projects)):
            boosts.append(("project", PROJECT_BOOST))
        if candidate.origin == "untrusted":
            boosts.append(("trust", UNTRUSTED_MALUS))
        return boosts

    def _recency(self, at_ms: int) -> float:
        age = max(0.0, (self._now_ms - at_ms) / 86_400_000)
        return 1.0 + (RECENCY_BOOST - 1.0) * math.pow(0.5, age / RECENCY_HALF_LIFE_DAYS)
