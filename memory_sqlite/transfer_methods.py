"""The door's two methods for taking everything along: out of one memory and into another.

Part of ``Memory``, in a module of its own so that the door stays a page. Not here: the format and the work
(``interop``). Inherited by ``memory.Memory``, used by nobody else.
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
    from memory_sqlite.interop.jsonl_reports import ExportImportReport, ExportReport


class TransferMethods:
    """What ``Memory`` can do with exports."""

    _settings: Settings
    _clock: Clock
    _lock: threading.RLock

    if TYPE_CHECKING:  # this is ``Memory``'s own

        def _enter(self) -> Opened | None: ...

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        progress: Callable[[str, int, int | None], None] | None = None,
    ) -> ExportReport:
        """Write everything canonical to one JSONL file (compressed where its name ends in ``.gz``), mode 0600.

        It shows one moment; others write on meanwhile. It is there whole or not at all, and never in place of another
        file unless ``overwrite``. Notes are files of the workspace and not in it. Raises ``OutputExists``,
        ``InvalidArgument``, ``DiskFull``, ``StoreReadOnly``; ``StoreBusy`` while a forgetting is under way.
        """
        from memory_sqlite.interop import jsonl_export, jsonl_reports

        if (opened := self._enter()) is None:
            return jsonl_reports.ExportReport("disabled")
        target = Path(path).expanduser().absolute()
        return jsonl_export.export(opened, target, self._clock, progress, overwrite=overwrite)

    def import_jsonl(
        self,
        path: str | os.PathLike[str],
        *,
        dry_run: bool = False,
        progress: Callable[[str, int, int | None], None] | None = None,
    ) -> ExportImportReport:
        """Merge what ``export`` wrote into this memory: all of it in one transaction, or none of it.

        The file is checked whole first. What is here already is recognised, what differs is kept as it is here, and
        what was forgotten here stays away: the report counts each. With ``dry_run`` nothing is stored.
        Raises ``UnknownFormat``, ``ExportInvalid`` (with the line), ``InvalidArgument`` and the store's errors.
        """
        from memory_sqlite.interop import jsonl_reports

        if (opened := self._enter()) is None:
            return jsonl_reports.ExportImportReport("disabled", dry_run)
        from memory_sqlite.interop import jsonl_import

        source = Path(path).expanduser().absolute()
        with self._lock:
            return jsonl_import.import_export(opened, source, self._settings, self._clock, progress, dry_run=dry_run)
