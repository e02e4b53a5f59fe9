"""What an export and an import of one say when they are done. Called by ``jsonl_export`` and ``jsonl_import``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from memory_sqlite.model import Expiry, SourceProblem
from memory_sqlite.values import dataclass, field


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What was written. ``lines`` counts header and end too, ``bytes`` is the size of the file, ``counts`` lines by
    kind."""

    status: Literal["ok", "disabled"]
    path: str = ""
    agent: str = ""
    lines: int = 0
    bytes: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ExportImportReport:
    """What one import of an export did, by kind of line. ``partial``: something differs or was left, see ``problems``.

    With ``dry_run`` it is what would have been done. Every line is in exactly one of the six mappings; accepted
    runs of a turn that came are no lines of their own, and are counted only where they are left.
    """

    status: Literal["ok", "partial", "disabled"]
    dry_run: bool = False
    agent: str = ""
    """The agent that was exported."""
    exported_at: int | None = None
    """When, in ms."""
    same_key: bool = True
    """Whether it came from a data directory with the same ``session.key``."""
    lines: int = 0
    added: Mapping[str, int] = field(default_factory=dict)
    updated: Mapping[str, int] = field(default_factory=dict)
    """Was here as it was before something replaced it, or without its run: that was filled in."""
    present: Mapping[str, int] = field(default_factory=dict)
    """Was here already, and equal."""
    conflicts: Mapping[str, int] = field(default_factory=dict)
    """Is here with other content, which was kept."""
    forgotten: Mapping[str, int] = field(default_factory=dict)
    """Was forgotten or has expired here, and stays away."""
    left: Mapping[str, int] = field(default_factory=dict)
    """Means nothing under this data directory's key."""
    moved: int = 0
    """Records whose line was taken here: their citation is another one."""
    redactions: int = 0
    searchable: bool = True
    seconds: float = 0.0
    problems: tuple[SourceProblem, ...] = ()
    expires: Expiry | None = None
    """Until when what came is kept, counted from this import; ``None`` when disabled."""
