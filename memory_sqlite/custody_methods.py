"""The door's methods for keeping: retention, holds, backups.

Part of ``Memory``, in a module of its own so that the door stays a page. Not here: the work. Inherited by
``memory.Memory``, used by nobody else.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from memory_sqlite.agent.opened import Opened
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings

if TYPE_CHECKING:
    from memory_sqlite.backup.reports import BackupReport
    from memory_sqlite.retention.reports import HoldReport, PruneReport
    from memory_sqlite.transcripts.holds import Hold


class CustodyMethods:
    """What ``Memory`` can do of this kind."""

    _settings: Settings
    _clock: Clock
    _lock: threading.RLock

    if TYPE_CHECKING:  # this is ``Memory``'s own

        def _enter(self) -> Opened | None: ...

    def prune(
        self,
        *,
        dry_run: bool = False,
        trust_clock: bool = False,
        progress: Callable[[str, int, int | None], None] | None = None,
    ) -> PruneReport:
        """Delete what is older than it is kept (``retention_days``), from store, index and the files' bytes.

        A memory that serves does this by itself when it is opened and once a day. Sessions that are held, pinned or
        have a turn under way stay; facts do, unless ``retention_days_l3`` says otherwise. What expired does not come
        back by an import or a replay. Where the clock may have jumped nothing is done (status ``clock``) unless
        ``trust_clock``. With ``dry_run`` nothing is written. Raises the store's errors.
        """
        from memory_sqlite.retention import reports, run

        if (opened := self._enter()) is None:
            return reports.PruneReport("disabled", dry_run)

        @contextmanager
        def gate() -> Iterator[bool]:
            with self._lock:
                yield not opened.closed

        return run.prune(
            opened, self._settings, self._clock, gate, dry_run=dry_run, trust_clock=trust_clock, progress=progress
        )

    def hold(self, session: str, *, kind: Literal["legal", "pin"] = "legal", reason: str | None = None) -> HoldReport:
        """Keep a session, by key or token, whatever its age, until ``release``.

        Under a ``legal`` hold nothing of it can be forgotten either (``SessionHeld``); a ``pin`` only keeps it from
        retention. ``reason`` is kept and listed. Raises ``InvalidArgument`` and the store's errors.
        """
        from memory_sqlite.retention import holding, reports

        if (opened := self._enter()) is None:
            return reports.HoldReport("disabled", session)
        kept = holding.check_kind(kind)
        with self._lock:
            return holding.hold(opened.store, session, kept, reason, self._clock)

    def release(self, session: str, *, kind: Literal["legal", "pin"] = "legal") -> HoldReport:
        """End a hold or a pin: from now on the session's age counts again. Raises ``InvalidArgument`` and the store's
        errors."""
        from memory_sqlite.retention import holding, reports

        if (opened := self._enter()) is None:
            return reports.HoldReport("disabled", session)
        kept = holding.check_kind(kind)
        with self._lock:
            return holding.release(opened.store, session, kept)

    def holds(self) -> list[Hold]:
        """Every session that is held or pinned, the oldest hold first; reads only."""
        from memory_sqlite.retention import holding

        return [] if (opened := self._enter()) is None else holding.listing(opened.store)

    def backup(
        self,
        path: str | os.PathLike[str],
        *,
        every_agent: bool = True,
        progress: Callable[[str, int, int | None], None] | None = None,
    ) -> BackupReport:
        """Write a backup to the new directory ``path``: the stores, ``session.key``, the wrapped keyring, a manifest.

        It holds every agent of the data directory, or this one alone. Others write on meanwhile; each store shows one
        moment, is encrypted as it is here, and has been proved when this returns. It is there whole or not at all, and
        never in place of something else. Notes and the search index are not in it. Put it back with
        ``memory-sqlite restore``, prove it with ``verify``.
        Raises ``OutputExists``, ``InvalidArgument``, ``DiskFull``, ``StoreReadOnly``, ``StoreDamaged``; and
        ``DirectoryInUse`` while keys are being changed.
        """
        from memory_sqlite.backup import making, reports

        if (opened := self._enter()) is None:
            return reports.BackupReport("disabled")
        target = Path(path).expanduser().absolute()
        agents = None if every_agent else [opened.store.agent]
        return making.make(opened.settings, target, self._clock, progress, agents=agents)
