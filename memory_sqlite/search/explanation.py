"""What an explanation says: plain data, JSON-ready, without any text of a memory.

Lives here: the types. Not here: how they are filled (``explain``, ``explain_target``). Shown by the command line,
returned by the door.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from memory_sqlite.model import Coverage, Layer, Source
from memory_sqlite.search.trace import Verdict
from memory_sqlite.values import dataclass, field

ReadAs = Literal["exact", "completed", "one edit", "two edits", "dropped"]

Reason = Literal[
    Verdict,
    "empty_query",
    "filtered",
    "no_term",
    "phrase_missing",
    "not_chosen",
    "weak_match",
    "not_read",
    "not_indexed",
    "superseded",
    "unknown",
    "not_visible",
    "not_explained",
]
"""Why something was found or not. Each has a sentence in ``explain_target`` or ``agent.explaining``, and a row in
``docs/searching.md``."""


@dataclass(frozen=True, slots=True)
class TermReading:
    """One term of the query, as this index knows it."""

    text: str
    kind: str
    """``word``, ``number``, ``identifier``, ``part``, ``cjk``, ``character``, ``run``, ``symbol``, ``phrase``,
    ``prefix``, ``date``."""
    reading: ReadAs
    words: tuple[str, ...]
    """What was looked for: the term itself, or the words it was completed or corrected to."""
    weight: float
    documents: int
    """Passages, records and messages with one of the words, among those that whoever asks may see."""
    rarity: float | None
    """What makes rare words count more (inverse document frequency). ``None`` for a session: it is counted over the
    whole index."""
    required: bool = False
    """A quoted phrase: what does not hold it is no answer."""
    chosen: bool = True
    """False for a word so common that it was counted only on what rarer words had found."""


@dataclass(frozen=True, slots=True)
class CandidateReading:
    """One row that was scored. ``rank`` is its place by score, ``place`` the one in the answer."""

    rank: int
    reference: str
    citation: str
    source: Source
    layer: Layer | None
    score: float
    parts: Mapping[str, float]
    """Shares of the score, and the factors by which it was raised or lowered (``search --explain``)."""
    terms: tuple[str, ...]
    """Terms of the query that it holds."""
    nearby: tuple[str, ...]
    """For a message: terms that stand in it or in the messages around it."""
    verdict: Verdict
    place: int | None = None
    of: str | None = None
    """Citation of the hit that stands in its place, for ``duplicate`` and ``overlap``."""


@dataclass(frozen=True, slots=True)
class TargetReading:
    """Why what was asked about was found or not. With several passages it is about the one that came farthest."""

    reference: str
    found: bool
    reason: Reason
    detail: str
    """The reason as a sentence for people."""
    passages: int = 0
    """How many indexed passages, records or messages were meant."""
    citation: str | None = None
    rank: int | None = None
    place: int | None = None
    score: float | None = None
    parts: Mapping[str, float] = field(default_factory=dict)
    terms: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """Terms of the query that it does not hold."""
    filters: tuple[str, ...] = ()
    """With ``filtered``: which of ``source``, ``layer``, ``kind``, ``session``, ``project``, ``since``, ``until``,
    ``audience`` keep it out."""
    of: str | None = None
    """With ``duplicate``, ``overlap`` and ``superseded``: what stands in its place."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a search read its query, what it scored, and what became of that."""

    query: str
    now: str
    """The clock that gave relative dates their meaning (ISO-8601)."""
    zone: str
    tokens: tuple[str, ...] = ()
    """The query as the index would hold it."""
    left_out: tuple[str, ...] = ()
    """Tokens that are no terms: stop words, and what was cut."""
    terms: tuple[TermReading, ...] = ()
    dates: tuple[Mapping[str, Any], ...] = ()
    """Dates and ranges that were understood, with the fields that were said."""
    filters: Mapping[str, Any] = field(default_factory=dict)
    """The caller's restrictions and ``expression``, which applies them; ``viewer`` says on whose behalf."""
    match: str = ""
    """The expression that chose candidates."""
    routes: tuple[str, ...] = ()
    scored: int = 0
    candidates: tuple[CandidateReading, ...] = ()
    """The best of them, at most ``limits.EXPLAINED_CANDIDATES_MAX``."""
    target: TargetReading | None = None
    coverage: Coverage = "complete"
    stale: bool = False
    warnings: tuple[str, ...] = ()
    withheld: int = 0
    disabled: bool = False
