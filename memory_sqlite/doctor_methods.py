"""The door's methods for diagnostics.

Part of ``Memory``, in a module of its own so that the door stays a page. Not here: the work. Inherited by
``memory.Memory``, used by nobody else.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from memory_sqlite.agent.opened import Opened
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings

if TYPE_CHECKING:
    from memory_sqlite.doctor.bundle import BundleReport
    from memory_sqlite.doctor.report import DoctorReport

Progress = Callable[[str, int, int | None], None]


class DoctorMethods:
    """What ``Memory`` can do of this kind."""

    _settings: Settings
    _clock: Clock
    _lock: threading.RLock

    if TYPE_CHECKING:  # this is ``Memory``'s own

        def _enter(self) -> Opened | None: ...

    def doctor(self, *, fix: bool = False, deep: bool = False, progress: Progress | None = None) -> DoctorReport:
        """Look everything over, and with ``fix`` mend what can be mended without losing anything.

        ``deep`` also asks the embedding provider, if that costs nothing, and reads every note and imported transcript.
        Where a memory does not open, ``doctor.examine(settings, clock)`` does the same without one.
        What is wrong is in the report; nothing that a check meets is raised.
        """
        from memory_sqlite.doctor import examination

        self._enter()
        with self._lock:
            return examination(self._settings, self._clock, fix=fix, deep=deep, progress=progress)

    def support_bundle(
        self, path: str | os.PathLike[str], *, overwrite: bool = False, progress: Progress | None = None
    ) -> BundleReport:
        """Write diagnostics to one zip file, mode 0600, without a word of what is remembered, noted or asked.

        Where a memory does not open, ``doctor.bundle.write(settings, clock, path)`` does the same without one.
        Raises ``OutputExists``, ``StoreReadOnly``, ``DiskFull``.
        """
        from memory_sqlite.doctor import bundle

        target = Path(path).expanduser().absolute()
        if self._enter() is None:
            return bundle.BundleReport("disabled", str(target))
        with self._lock:
            return bundle.write(self._settings, self._clock, target, overwrite=overwrite, progress=progress)
