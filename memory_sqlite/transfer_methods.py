"""The door's methods for taking everything along: out of one memory and into another, or another product's.

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
from memory_sqlite.model import ImportReport

if TYPE_CHECKING:
    from memory_sqlite.interop.export_reports import LayeredExportReport, TranscriptExportReport
    from memory_sqlite.interop.jsonl_reports import ExportImportReport, ExportReport


class TransferMethods:
    """What ``Memory`` can do with exports and with what other products wrote."""

    _settings: Settings
    _clock: Clock
    _lock: threading.RLock

    if TYPE_CHECKING:  # this is ``Memory``'s own

        def _enter(self) -> Opened | None: ...

        @property
        def agent(self) -> str: ...

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

    def export_layered(
        self,
        path: str | os.PathLike[str],
        *,
        secret: str | bytes | None = None,
        progress: Callable[[str, int, int | None], None] | None = None,
    ) -> LayeredExportReport:
        """Write what the layered-memory format can hold into a new or empty directory, as its product writes it.

        With ``secret`` (32 bytes or more) every line is encrypted as that product does. It holds the key of the session
        tokens, so that citations stay; ``left_out`` counts what that format cannot hold. There whole or not at all.
        Raises ``OutputExists``, ``InvalidArgument``, ``DiskFull``, ``StoreReadOnly``, ``StoreBusy``.
        """
        from memory_sqlite.interop import export_reports, layered_export

        if (opened := self._enter()) is None:
            return export_reports.LayeredExportReport("disabled")
        target = Path(path).expanduser().absolute()
        return layered_export.export(opened, target, self._clock, progress, secret=_bytes(secret))

    def export_transcripts(
        self,
        path: str | os.PathLike[str],
        *,
        session: str | None = None,
        overwrite: bool = False,
        progress: Callable[[str, int, int | None], None] | None = None,
    ) -> TranscriptExportReport:
        """Write the hosts' own records of all messages as JSONL: each session a file in a new or empty folder, or one
        ``session`` (key, further name or token) to one file, which only ``overwrite`` writes over.

        A record that came in as compact JSON leaves byte for byte; the report counts those that were masked, shortened
        or lost base64. Raises ``InvalidArgument``, ``OutputExists``, ``DiskFull``, ``StoreReadOnly``, ``StoreBusy``.
        """
        from memory_sqlite.interop import export_reports, transcripts_out

        if (opened := self._enter()) is None:
            return export_reports.TranscriptExportReport("disabled")
        target = Path(path).expanduser().absolute()
        return transcripts_out.export(opened, target, session, self._clock, progress, overwrite=overwrite)

    def import_jsonl(
        self,
        path: str | os.PathLike[str],
        *,
        dry_run: bool = False,
        steps: bool = False,
        progress: Callable[[str, int, int | None], None] | None = None,
    ) -> ExportImportReport:
        """Merge what ``export`` wrote into this memory: all of it in one transaction, or none of it.

        With ``steps`` it is stored session by session, and others may write in between; what is interrupted is gone on
        with by importing again. Until it has ended, what has come has no facts.

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
            return jsonl_import.import_export(
                opened, source, self._settings, self._clock, progress, dry_run=dry_run, steps=steps
            )

    def import_layered(
        self,
        path: str | os.PathLike[str],
        *,
        agent: str | None = None,
        secret: str | bytes | None = None,
        backups: bool = False,
        dry_run: bool = False,
        progress: Callable[[str, int, int | None], None] | None = None,
    ) -> ImportReport:
        """Read an agent of a layered-memory directory; ids, times and citations are kept, the directory unchanged.

        ``agent`` is the agent there, by default the one of this memory. ``secret`` is the value (32 bytes or more) that
        its lines are encrypted with. ``backups`` takes in what its ``.legacy-backup`` holds beyond the sessions. With
        ``dry_run`` nothing is stored. All of it is looked at before the first row; what a crash interrupted is gone on
        with by calling again.
        Raises ``UnknownFormat``, ``UnknownAgent``, ``EncryptionKeyRequired``, ``EncryptionKeyWrong``,
        ``StoreNotEncrypted`` (a secret for a directory in clear), ``InvalidArgument`` and the store's errors.
        """
        from memory_sqlite.interop import layered

        if (opened := self._enter()) is None:
            return ImportReport("disabled")
        with self._lock:
            return layered.import_directory(
                opened, Path(path), agent or self.agent, self._settings, self._clock, progress,
                secret=_bytes(secret), backups=backups, dry_run=dry_run,
            )  # fmt: skip


def _bytes(secret: str | bytes | None) -> bytes | None:
    """A secret as that product hashes it: the UTF-8 of its value."""
    return secret.encode("utf-8", "surrogateescape") if isinstance(secret, str) else secret
