"""Keeping the answers fresh: the change log applied, the notes looked at, within a budget; and the full ``index``.

A search looks at most once a second, by ``stat`` alone, applies small changes within half a second, and says ``stale``
when it could not finish.
"""

from __future__ import annotations

import threading
from typing import Final

import apsw

from memory_sqlite import errors, limits
from memory_sqlite.agent.opened import Opened
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.generations import registry
from memory_sqlite.indexing import apply, full_hash, notes
from memory_sqlite.indexing.notes import NotesReport, Plan, Progress
from memory_sqlite.model import IndexReport, SourceProblem
from memory_sqlite.storage import change_log
from memory_sqlite.storage.connection import writing
from memory_sqlite.storage.failures import translated_index
from memory_sqlite.values import dataclass


@dataclass(frozen=True, slots=True)
class Freshness:
    """Whether the index is as new as what it is derived from, and what to say if it is not."""

    stale: bool = False
    warnings: tuple[str, ...] = ()


_NO_WORKSPACE: Final = "the workspace is not there; its notes are searched as they were last seen, if at all"
_WAIT_S: Final = 0.05
"""How long a search waits for this process's own writer before it answers from what is indexed."""


def freshen(
    opened: Opened, clock: Clock, lock: threading.RLock, budget_s: float = limits.FRESHNESS_BUDGET_S
) -> Freshness:
    """What a search does first; never raises for what it could not refresh, never waits for a long write."""
    fresh = _freshened(opened, clock, lock, budget_s)
    caution = opened.store.caution
    return fresh if caution is None else Freshness(fresh.stale, (*fresh.warnings, caution))


def _freshened(opened: Opened, clock: Clock, lock: threading.RLock, budget_s: float) -> Freshness:
    if opened.store.read_only:
        return _look_only(opened)
    if not lock.acquire(timeout=_WAIT_S):
        return Freshness(True, ("a write is going on; its text is searched when it is done",))
    try:
        # closed while this read was waiting: it still answers, and opens nothing for writing again
        return Freshness() if opened.closed else _refresh(opened, clock, budget_s)
    finally:
        lock.release()


def _refresh(opened: Opened, clock: Clock, budget_s: float) -> Freshness:
    try:
        with translated_index():
            if apply.applied(opened.keeper.writer()) != change_log.newest(opened.store.connection):
                opened.keeper.apply()
                opened.brought()
            fresh = _freshen_notes(opened, clock, budget_s)
            opened.sync_error = None
            return fresh
    except errors.IndexUnavailable as error:
        opened.sync_error = error.code
        return Freshness(True, ("the search index is missing or damaged; run `memory-sqlite index --full`",))
    except errors.WorkspaceUnavailable as error:
        opened.sync_error = error.code
        return Freshness(True, (_NO_WORKSPACE,))
    except (errors.StoreBusy, errors.StoreReadOnly, errors.DiskFull) as error:
        opened.sync_error = error.code
        return Freshness(True, (f"the search index could not be refreshed ({error.code})",))


def _look_only(opened: Opened) -> Freshness:
    """A reader changes nothing: it only says whether there is more than the index knows."""
    with opened.store.readers.borrow() as store:
        newest = change_log.newest(store)
    with opened.keeper.reader() as index:
        behind = apply.applied(index) != newest
        if not behind and opened.workspace is not None and opened.workspace.is_dir():
            behind = not notes.plan(index, opened.workspace, opened.settings.extra_paths).is_empty
    return Freshness(behind, ("opened for reading only: newer text is not searched",) if behind else ())


def _freshen_notes(opened: Opened, clock: Clock, budget_s: float) -> Freshness:
    now = clock.monotonic()
    if opened.looked_at is not None and now - opened.looked_at < limits.FRESHNESS_INTERVAL_S:
        return Freshness(bool(opened.problems), tuple(opened.problems))
    if opened.workspace is None:
        return Freshness()
    if not opened.workspace.is_dir():
        return Freshness(True, (_NO_WORKSPACE,))
    report = _look(opened, clock, budget_s)
    if not report.finished:
        return Freshness(True, ("many notes have changed; run `memory-sqlite index` to take them all in",))
    return Freshness(bool(opened.problems), tuple(opened.problems))


def _look(opened: Opened, clock: Clock, budget_s: float) -> NotesReport:
    now = clock.monotonic()
    index = opened.keeper.writer()
    assert opened.workspace is not None, "looked for by the caller"
    work = notes.plan(index, opened.workspace, opened.settings.extra_paths)
    report = NotesReport(unchanged=work.unchanged, problems=list(work.discovery.problems))
    if not work.is_empty:
        report = notes.carry_out(
            index,
            work,
            deadline=lambda: clock.monotonic() - now > budget_s,
            forgotten=opened.is_forgotten_note,
            redact=opened.settings.redact_secrets,
        )
    if report.chunks:
        opened.brought()
    opened.looked_at = clock.monotonic() if report.finished and not report.changing else None
    opened.problems = _unseen(work, report)
    return report


def take_in(opened: Opened, clock: Clock, budget_s: float) -> NotesReport:
    """One slice of what a watch does, under the memory's lock: changed notes for about ``budget_s`` seconds.

    Raises ``WorkspaceUnavailable``, ``IndexUnavailable`` and the store's errors.
    """
    with translated_index():
        return _look(opened, clock, budget_s)


def _unseen(work: Plan, report: NotesReport) -> list[str]:
    """What a look could not see. Links and the like, which are never followed, are ``status``'s to tell."""
    warnings = []
    if not work.discovery.complete:
        warnings.append("part of the workspace could not be looked at; its notes are searched as they were last seen")
    if report.changing:
        warnings.append(f"{report.changing} notes were changing while they were read; the next search looks again")
    if report.unread:
        warnings.append(f"{report.unread} notes could not be read; `memory-sqlite status` names them")
    return warnings


def check_workspace(opened: Opened, settings: Settings) -> None:
    """Raises ``WorkspaceUnavailable`` when a workspace was given and is not there."""
    if opened.workspace is not None and settings.workspace is not None and not opened.workspace.is_dir():
        raise errors.WorkspaceUnavailable("the workspace is not a directory")


def index(opened: Opened, settings: Settings, clock: Clock, *, full: bool, progress: Progress | None) -> IndexReport:
    """Apply everything: the change log and every note that came, went or changed; ``full`` builds anew.

    A full build that was interrupted is gone on with, whatever ``full`` says: somebody wanted it.
    """
    try:
        report = _index(opened, settings, clock, full=full, progress=progress)
    except errors.MemorySqliteError as error:
        opened.sync_error = error.code
        raise
    opened.sync_error = None
    return report


def _index(opened: Opened, settings: Settings, clock: Clock, *, full: bool, progress: Progress | None) -> IndexReport:
    check_workspace(opened, settings)
    started = clock.monotonic()
    report = NotesReport()
    # without upkeep its successor is built here, unless another process has done so
    renew = opened.outdated is not None and opened.upkeep is None and not opened.keeper.is_usable()
    if full or renew or (opened.outdated is None and opened.keeper.has_unfinished()):
        opened.keeper.rebuild(lambda connection: _fill(opened, connection, report, progress), progress)
        opened.outdated = None
        applied = 0
        with opened.keeper.reader() as built:  # of the whole generation, not of its notes alone
            report.chunks = built.execute("SELECT count(*) FROM chunks").get
    else:
        if opened.outdated is None:  # else its successor is being built beside it
            opened.keeper.ensure(opened.fill_notes)
        applied = opened.keeper.apply()
        with translated_index():
            writer = opened.keeper.writer()
            began_ms = clock.now_ms()
            every = full_hash.is_due(writer, clock, limits.FULL_HASH_INDEX_S)
            _fill(opened, writer, report, progress, every=every)
            if every:
                with writing(writer):
                    full_hash.done(writer, began_ms)
    opened.looked_at = None if report.changing else clock.monotonic()
    current = registry.current(opened.store.connection)
    return IndexReport(
        "partial" if report.problems else "ok",
        current.number if current else None,
        added=report.added,
        changed=report.changed,
        removed=report.removed,
        unchanged=report.unchanged,
        chunks=report.chunks,
        applied_changes=applied,
        seconds=round(clock.monotonic() - started, 3),
        problems=tuple(report.problems),
    )


def _fill(
    opened: Opened, connection: apsw.Connection, report: NotesReport, progress: Progress | None, *, every: bool = False
) -> None:
    if opened.workspace is None:
        return
    if not opened.workspace.is_dir():
        report.problems = [SourceProblem(str(opened.workspace), "the workspace is not there")]
        return
    work = notes.plan(connection, opened.workspace, opened.settings.extra_paths, every=every)
    done = notes.carry_out(
        connection,
        work,
        progress=progress,
        forgotten=opened.is_forgotten_note,
        redact=opened.settings.redact_secrets,
    )
    report.include(done)
