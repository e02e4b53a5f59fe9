"""What shows that a flush did its work: a persistence tool that succeeded, or an answer that there was nothing to keep.

A call counts once it has come back without an error: pending, raised and error-marked ones do not, nor do lookups.
Not here: which tools are watched (``arms``), what is recorded (``records``). Called by ``run``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from memory_sqlite.host.flush.shapes import Arm, FlushTurnResult
from memory_sqlite.host.flush.silent import is_silent
from memory_sqlite.runtime.plugins import ToolResult

NO_EVIDENCE: Final = "no persistence tool call succeeded"


class Evidence:
    """The persistence calls of one flush that succeeded."""

    def __init__(self) -> None:
        self._persisted = 0

    @property
    def persisted(self) -> int:
        """How many succeeded."""
        return self._persisted

    def take(self, result: ToolResult) -> None:
        """A persistence tool came back."""
        if not is_error(result):
            self._persisted += 1

    def failure(self, arm: Arm, result: FlushTurnResult) -> str | None:
        """Why the flush failed, ``None`` when it is complete. A run's error fails it, whatever was persisted."""
        if result.error is not None:
            return f"run error: {result.error}"
        if arm == "file" or self._persisted or is_silent(result.final_output):
            return None
        return NO_EVIDENCE


def is_error(result: ToolResult) -> bool:
    """Whether a tool's result is a failure: marked so, or with an error status in its details."""
    details = result.details if isinstance(result.details, Mapping) else {}
    return bool(result.is_error) or details.get("status") in ("error", "failed") or details.get("isError") is True
