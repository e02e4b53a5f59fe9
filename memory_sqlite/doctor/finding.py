"""One finding: a stable code, how grave it is, numbers and names as evidence, and what to run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from memory_sqlite.values import dataclass

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Finding:
    """``error``: something is lost, wrong, or was not forgotten. ``warning``: something is left undone. ``info``: so it
    may be. Evidence never holds text of a memory."""

    code: str
    severity: Severity
    evidence: Mapping[str, str | int]
    run: str
