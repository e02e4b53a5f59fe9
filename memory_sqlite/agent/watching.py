"""Watching the notes: what the system reports is taken into the index without anybody having to search first.

One thread per watch. It follows the folders that hold notes (``note_folders``), waits until writing has settled, and
lets ``freshness`` take the changes in, under the memory's lock and in slices, so that a turn never waits long. Where
the system has no watches left it looks now and then; a search looks for itself in any case. Called by ``Memory.watch``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from memory_sqlite import errors, limits
from memory_sqlite.agent import freshness
from memory_sqlite.agent.note_folders import NoteFolders
from memory_sqlite.agent.opened import Opened
from memory_sqlite.agent.turn import turn
from memory_sqlite.clock import Clock
from memory_sqlite.indexing.notes import NotesReport
from memory_sqlite.model import IndexReport

OnBatch = Callable[[IndexReport], object]
OnWarning = Callable[[str], object]

_TICK_MS: Final = 500
"""A new set of watches is looked behind after this long: what changed before it was in place is seen then."""
_BETWEEN_S: Final = 0.002
"""Between two slices, so that whoever waits for the lock gets it."""
_BLIND: Final = (
    f"the system cannot watch the notes (it has no watches left); every search looks for itself, and this watch every "
    f"{limits.WATCH_POLL_S:.0f} s"
)


def library() -> Any:
    """The package ``watchfiles``. Raises ``ExtraMissing`` with the command that installs it."""
    try:
        import watchfiles
    except ImportError as error:
        raise errors.ExtraMissing(
            "watching needs the package watchfiles", hint='pip install "memory-sqlite[watch]"'
        ) from error
    return watchfiles


class Watch:
    """A watch that runs until ``close`` (or the end of its ``with`` block, or of its memory)."""

    def __init__(
        self,
        opened: Opened,
        lock: threading.RLock,
        clock: Clock,
        on_batch: OnBatch | None = None,
        on_warning: OnWarning | None = None,
    ) -> None:
        self._watchfiles = library()
        if opened.store.read_only:
            raise errors.StoreReadOnly("a memory that was opened for reading only takes nothing into its index")
        if opened.workspace is None or not opened.workspace.is_dir():
            raise errors.WorkspaceUnavailable("there is no workspace to watch")
        self._opened = opened
        self._workspace: Path = opened.workspace
        self._lock = lock
        self._clock = clock
        self._on_batch = on_batch
        self._on_warning = on_warning
        self._warned: set[str] = set()
        self._ended = threading.Event()
        self._ready = threading.Event()
        self._failed = False
        self.native = True
        """Whether the system reports changes; ``False`` once it could not and the watch only looks now and then."""
        self.folders = 0
        """Folders that are followed."""
        opened.watches.append(self)
        self._thread = threading.Thread(target=self._run, name="memory-sqlite-watch", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether the watch still runs."""
        return self._thread.is_alive()

    def wait_ready(self, timeout_s: float | None = None) -> bool:
        """Wait until everything that was there at the start is in the index; whether it is."""
        return self._ready.wait(timeout_s)

    def close(self) -> None:
        """End the watch; returns when its thread has ended. Safe to call twice, and from ``on_batch``."""
        self._ended.set()
        if self in self._opened.watches:
            self._opened.watches.remove(self)
        if self._thread is not threading.current_thread():
            self._thread.join()

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        while not self._ended.is_set():
            here = NoteFolders(self._workspace, self._opened.settings.extra_paths)
            self.folders = len(here.folders)
            if not here.folders:
                self._take_in()  # says that the workspace is not there
                self._ended.wait(limits.WATCH_POLL_S)
                continue
            try:
                self._follow(here)
            except FileNotFoundError:
                self._ended.wait(_TICK_MS / 1000)  # a folder went while it was being added: list them again
            except (OSError, RuntimeError):
                # no errno reaches us: no watches left, no descriptors, or a system without them
                self._poll()

    def _follow(self, here: NoteFolders) -> None:
        """Take in what the system reports; returns when other folders are to be followed."""
        behind = True
        for changes in self._watchfiles.watch(
            *here.folders,
            watch_filter=lambda change, path: here.concerns(path, created=change == self._watchfiles.Change.added),
            # a batch ends when nothing was written for the settling time, or when that has not come for too long
            step=int(limits.WATCH_SETTLE_S * 1000),
            debounce=int(limits.WATCH_SETTLE_MAX_S * 1000),
            stop_event=self._ended,
            rust_timeout=_TICK_MS,
            yield_on_timeout=True,
            raise_interrupt=False,
            recursive=False,
        ):
            if not changes and not behind and not self._failed:
                continue
            self._take_in()
            if behind:
                behind = False
                self._ready.set()
            if NoteFolders(self._workspace, self._opened.settings.extra_paths).inodes != here.inodes:
                return

    def _poll(self) -> None:
        self.native = False
        self._warn("blind", _BLIND)
        while not self._ended.is_set():
            self._take_in()
            self._ready.set()
            self._ended.wait(limits.WATCH_POLL_S)

    def _take_in(self) -> None:
        """Look, and take in what there is; a failure is told once and tried again at the next tick."""
        started = time.monotonic()
        total = NotesReport()
        finished = False
        self._failed = False
        while not finished and not self._failed:
            with turn(self._opened, self._lock, self._ended) as mine:
                if not mine:
                    return
                try:
                    report = freshness.take_in(self._opened, self._clock, limits.WATCH_SLICE_S)
                except errors.MemorySqliteError as error:
                    self._failed = True
                    self._warn(error.code, f"changed notes could not be taken in ({error.code}): {error.message}")
                    continue
            finished = report.finished
            for name in ("added", "changed", "removed", "chunks"):
                setattr(total, name, getattr(total, name) + getattr(report, name))
            total.unchanged, total.problems = report.unchanged, report.problems
            self._ended.wait(_BETWEEN_S)
        if finished:
            self._warned &= {"blind"}
        if total.added or total.changed or total.removed:
            self._tell(total, time.monotonic() - started)

    def _tell(self, done: NotesReport, seconds: float) -> None:
        if self._on_batch is None:
            return
        report = IndexReport(
            "partial" if done.problems else "ok",
            self._opened.keeper.number(),
            added=done.added,
            changed=done.changed,
            removed=done.removed,
            unchanged=done.unchanged,
            chunks=done.chunks,
            seconds=round(seconds, 3),
            problems=tuple(done.problems),
        )
        try:
            self._on_batch(report)
        except Exception as error:  # the host's: it must not end the watch
            self._warn("on_batch", f"the host's on_batch failed ({type(error).__name__})")

    def _warn(self, about: str, text: str) -> None:
        """Say it, once until it has gone away."""
        if about in self._warned:
            return
        self._warned.add(about)
        if self._on_warning is not None:
            try:
                self._on_warning(text)
            except Exception:
                pass  # the host's, and there is nobody else to tell
