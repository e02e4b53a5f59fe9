"""What one forgetting did, as types. Made by ``forgetting``, shown by the surfaces."""

from __future__ import annotations

from typing import Literal

from memory_sqlite.model import SourceProblem
from memory_sqlite.values import dataclass


@dataclass(frozen=True, slots=True)
class ForgottenNote:
    """What became of one note: ``removed`` lines taken out, ``deleted`` whole, ``changed`` meanwhile or ``failed`` and
    so left as it is, ``planned`` in a dry run."""

    path: str
    lines: int
    outcome: Literal["planned", "removed", "deleted", "changed", "gone", "failed"]


@dataclass(frozen=True, slots=True)
class ForgottenGeneration:
    """One file of the search index after forgetting. ``held``: somebody has it open; ``erased``: neither rows nor words
    of what was forgotten are in it."""

    number: int
    state: Literal["current", "building", "retired"]
    held: bool
    erased: bool


@dataclass(frozen=True, slots=True)
class ForgetReport:
    """What one forgetting took, or would take (``planned``).

    ``unfinished``: what was said is gone from the store, but a file or a note could not be cleaned yet; the next open
    goes on. ``verified`` says whether the files were searched for it and nothing was found; ``reasons`` why not.
    """

    status: Literal["forgotten", "planned", "nothing", "unfinished", "disabled"]
    dry_run: bool = False
    sessions: int = 0
    turns: int = 0
    messages: int = 0
    episodes: int = 0
    scenarios: int = 0
    facts: int = 0
    restated: int = 0
    """Facts that were said elsewhere too: they stay, in the words of the turn that remains."""
    revived: int = 0
    """Facts in force again, because what had replaced them was forgotten."""
    waiting: int = 0
    """Turns that waited in a host's turn outbox for their context engine."""
    mixed_turns: int = 0
    """Turns of a participant in which others spoke too: they went whole."""
    tombstones: int = 0
    unresolved: tuple[str, ...] = ()
    """What was named and is not here, as it was given."""
    notes: tuple[ForgottenNote, ...] = ()
    notes_left: int = 0
    """Blocks of notes that say the same and were not asked to be removed."""
    problems: tuple[SourceProblem, ...] = ()
    generations: tuple[ForgottenGeneration, ...] = ()
    searched_for: int = 0
    """Pieces of what was forgotten that were looked for in the files."""
    verified: bool | None = None
    """``None`` in a dry run, and where nothing was forgotten."""
    reasons: tuple[str, ...] = ()
    seconds: float = 0.0
