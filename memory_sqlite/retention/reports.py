"""What a run of retention did or would do, and what placing a hold did. Called by ``run``, ``holding`` and the door."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from memory_sqlite.forget_report import ForgottenGeneration
from memory_sqlite.values import dataclass, field


@dataclass(frozen=True, slots=True)
class ExpiredSession:
    """One session of which something was too old. ``last_at`` (ISO-8601 UTC) is what its age counted from: the later of
    its last activity and of its import; ``gone``: the session itself went too, for nothing of it was left."""

    session: str
    token: str
    last_at: str
    layers: tuple[str, ...]
    turns: int = 0
    messages: int = 0
    records: int = 0
    gone: bool = False


@dataclass(frozen=True, slots=True)
class PruneReport:
    """What expired, or would (``planned``).

    ``unfinished``: what was too old is gone from the store, but a file could not be cleaned yet, or the memory was
    closed; the next open goes on. ``clock``: nothing was done, for the clock cannot be believed (``clock`` says why).
    """

    status: Literal["pruned", "planned", "nothing", "unfinished", "clock", "disabled"]
    dry_run: bool = False
    rule: Literal["standard", "layered-memory"] = "standard"
    days: Mapping[str, int | None] = field(default_factory=dict)
    """How long each layer is kept; ``None``: for ever."""
    sessions: int = 0
    """Sessions that went with everything that was in them."""
    turns: int = 0
    messages: int = 0
    episodes: int = 0
    scenarios: int = 0
    facts: int = 0
    facts_kept: int = 0
    """Facts whose turn expired and that stay: they name their session and who said it, but no turn any more."""
    waiting: int = 0
    """Turns that waited in a host's turn outbox for longer than a conversation is kept."""
    day_files: int = 0
    """In compatible mode: day files that were deleted, as that product counts them."""
    tombstones: int = 0
    expired: tuple[ExpiredSession, ...] = ()
    """The oldest first, the first 200."""
    held: int = 0
    pinned: int = 0
    running: int = 0
    """Sessions that are too old and stay: under a legal hold, pinned, with a turn under way."""
    old_notes: tuple[str, ...] = ()
    """Dated notes that are as old. Notes are the user's files: they are told and never touched."""
    clock: Literal["ok", "ahead", "behind"] = "ok"
    """``ahead``: nothing was recorded for so long before this moment that the clock may have jumped; ``behind``: an
    earlier run saw a later time."""
    generations: tuple[ForgottenGeneration, ...] = ()
    searched_for: int = 0
    """Pieces of what expired that were looked for in the files."""
    verified: bool | None = None
    """``None`` in a dry run, and where nothing expired."""
    reasons: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class HoldReport:
    """What placing or releasing a hold did. ``kept`` and ``free``: it was so already."""

    status: Literal["held", "kept", "released", "free", "disabled"]
    session: str
    token: str = ""
    kind: Literal["legal", "pin"] = "legal"
    reason: str | None = None
