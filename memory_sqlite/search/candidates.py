"""What retrieval hands to ranking: resolved terms, and rows with what was found in them.

Plain data that can cross a pipe. Called by ``retrieve`` (makes them), ``rank`` and ``assemble`` (read them).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from memory_sqlite.model import Coverage
from memory_sqlite.search.query import Term
from memory_sqlite.values import dataclass, field

Places = list[list[int]]
"""Token positions of one phrase, one list for each column of the table."""

Reading = Literal["exact", "completed", "one edit", "two edits"]
"""How a term was read: as it was typed, as the beginning of words, or as words that are nearly the same."""


@dataclass(slots=True)
class Resolved:
    """A term as this index knows it: its probes as FTS phrases, how rare it is, how far it was stretched."""

    term: Term
    probes: tuple[tuple[str, ...], ...]
    count: int
    """Rows it occurs in (for a phrase: at most)."""
    idf: float
    trust: float = 1.0
    """Below 1 for completions and near words of a term that occurs nowhere."""
    window_idf: float = 0.0
    """Its rarity among the windows of messages."""
    chosen: bool = True
    """False for a common term that was left out of choosing candidates and is counted on their text instead."""
    reading: Reading = "exact"


@dataclass(slots=True)
class Candidate:
    """One row that matched. ``own`` and ``window`` map the index of a resolved term to where it was found."""

    document_id: int
    chunk_id: int
    own: dict[int, Places] = field(default_factory=dict)
    whole: frozenset[int] = frozenset()
    """Terms of ``own`` that were found as one token, not as a sequence of parts."""
    window: dict[int, Places] = field(default_factory=dict)
    length: int = 0
    window_length: int = 0
    kind: str = "note"
    key: str = ""
    source: str = "memory"
    path: str = ""
    at: int | None = None
    layer: str | None = None
    title: str = ""
    session_id: int | None = None
    origin: str = "owner"
    speaker: str | None = None
    record_kind: str | None = None
    position: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    start_line: int = 1
    end_line: int = 1
    heading: str = ""
    triggers: tuple[str, ...] = ()
    importance: int | None = None
    projects: tuple[str, ...] = ()
    supersedes: str | None = None
    text_hash: bytes = b""
    line_starts: bytes = b""
    flags: int = 0
    text: str = ""
    meaning: float = 0.0
    """How near its vector is to the query's, from 0 to 1, where there is a vector leg."""
    guessed: bool = False
    """Found by its vector alone, and not near enough to be an answer without others."""
    score: float = 0.0
    parts: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Meaning:
    """What the vector leg says beside the shares of candidates. ``weight`` 0: it says nothing; ``messages`` is the
    times that it counts for messages. ``route`` is how the nearest were found; ``partial``: not every text could be
    looked at."""

    weight: float = 0.0
    messages: float = 1.0
    route: str | None = None
    warning: str | None = None
    partial: bool = False


@dataclass(slots=True)
class Candidates:
    """The answer of retrieval, best first, with texts."""

    terms: tuple[Resolved, ...]
    rows: list[Candidate]
    coverage: Coverage = "complete"
    withheld: int = 0
    warnings: tuple[str, ...] = ()
    routes: tuple[str, ...] = ("lexical",)
