"""What an export of transcripts, or in another product's form, says when it is done. Called by those exports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from memory_sqlite.values import dataclass, field


@dataclass(frozen=True, slots=True)
class LayeredExportReport:
    """What was written as a layered-memory directory. ``counts`` are lines by layer; ``left_out`` counts by kind what
    that format cannot hold and what is therefore not in it (docs/compatible-mode.md)."""

    status: Literal["ok", "disabled"]
    path: str = ""
    agent: str = ""
    encrypted: bool = False
    files: int = 0
    bytes: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    moved: int = 0
    """Records whose citation changes, because too many before them are gone."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class TranscriptExportReport:
    """What was written as transcripts. ``masked``, ``shortened`` and ``without_data`` count messages whose line is not
    the one that came in: a secret was masked in it, it was cut to its bound, or base64 was taken out of it."""

    status: Literal["ok", "disabled"]
    path: str = ""
    agent: str = ""
    sessions: int = 0
    """Files in the folder, one for each session in which something was said; 1 where one was chosen."""
    lines: int = 0
    bytes: int = 0
    messages: int = 0
    masked: int = 0
    shortened: int = 0
    without_data: int = 0
    seconds: float = 0.0
