"""Retention beside what a memory serves: when it is opened, and once a day from then on.

``agent.upkeep`` calls it at each of its turns; here is remembered when the next run is due. By the clock on the wall:
one that does not go back stands still while a machine sleeps. Called by ``Memory.open(serving=True)``.
"""

from __future__ import annotations

from typing import Final

from memory_sqlite import limits
from memory_sqlite.agent.opened import Opened
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.retention import run
from memory_sqlite.retention.run import Gate

_EVERY_MS: Final = int(limits.RETENTION_EVERY_S * 1000)
_RETRY_MS: Final = int(limits.RETENTION_RETRY_S * 1000)


class Daily:
    """A run when it is due. One that raised is due again at the next turn of the upkeep."""

    def __init__(self, opened: Opened, settings: Settings, clock: Clock) -> None:
        self._opened = opened
        self._settings = settings
        self._clock = clock
        self._ran: tuple[int, int] | None = None
        """When it last ran and when it is due again, ms."""

    def __call__(self, gate: Gate) -> None:
        """Run, where it is due. Raises the store's errors."""
        now = self._clock.now_ms()
        if self._ran is not None and self._ran[0] <= now < self._ran[1]:
            return
        report = run.prune(self._opened, self._settings, self._clock, gate)
        self._ran = now, now + (_RETRY_MS if report.status == "unfinished" else _EVERY_MS)
