"""What the tables over files share while one query runs: whether to stop, what was read, what is worth a remark.

Called by ``running``, which makes one a query, and by the tables.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, Literal

from memory_sqlite import errors

StopReason = Literal["time", "cancelled"]
_PROGRESS_EVERY_S: Final = 0.25


class Reading:
    """One query's account. ``cancel`` may be called by another thread."""

    def __init__(self, timeout_s: float, progress: Callable[[int], None], *, redact: bool) -> None:
        self.redact = redact
        self.remarks: list[str] = []
        self.bytes_read = 0
        self.lines_read = 0
        self.files_read = 0
        self._until = time.monotonic() + timeout_s
        self._progress = progress
        self._told_at = 0.0
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """Stop as soon as may be."""
        self._cancelled.set()

    def waited(self, seconds: float) -> None:
        """Time that somebody else took does not count."""
        self._until += seconds

    def due(self) -> StopReason | None:
        """Why to stop now, if so."""
        if self._cancelled.is_set():
            return "cancelled"
        return "time" if time.monotonic() >= self._until else None

    def check(self) -> None:
        """Raises ``QueryLimit`` when the time is up, ``Cancelled`` when somebody said so."""
        reason = self.due()
        if reason == "time":
            raise errors.QueryLimit("time", "the query took longer than it may")
        if reason is not None:
            raise errors.Cancelled("the query was cancelled")

    def tick(self, size: int) -> None:
        """So many bytes more were read. Raises as ``check`` does."""
        self.check()
        self.bytes_read += size
        now = time.monotonic()
        if now - self._told_at >= _PROGRESS_EVERY_S:
            self._told_at = now
            self._progress(self.bytes_read)

    def remark(self, text: str) -> None:
        """Something that the answer's reader should know; said once."""
        if text not in self.remarks:
            self.remarks.append(text)
