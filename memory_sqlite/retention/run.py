"""One run of retention from beginning to end: may the clock be believed, what is too old, rows, files, proof.

Small transactions, each under the memory's lock alone, so that no turn waits for more than one of them; cleaning the
files comes once, at the end, and only where something went. Killed at any point it leaves nothing to repair: what is
too old still is, and what was deleted is noted for the next open to clean. Called by the door and by ``daily``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Final

from memory_sqlite import errors, limits
from memory_sqlite.agent.opened import Opened
from memory_sqlite.clock import Clock, iso
from memory_sqlite.config import Settings
from memory_sqlite.forgetting import rows
from memory_sqlite.forgetting import run as forgetting
from memory_sqlite.forgetting.run import Erased
from memory_sqlite.layers import layered_retention as by_days
from memory_sqlite.layers import retention_rule as rule
from memory_sqlite.layers.retention_rule import Due
from memory_sqlite.retention import clock_check, expiring
from memory_sqlite.retention.clock_check import Verdict
from memory_sqlite.retention.expiring import Gone
from memory_sqlite.retention.reports import ExpiredSession, PruneReport
from memory_sqlite.storage.failures import translated, translated_index
from memory_sqlite.storage.fetch import all_rows
from memory_sqlite.values import dataclass, field

Gate = Callable[[], AbstractContextManager[bool]]
"""Holds the memory's lock for one step; gives ``False`` when the memory is being closed."""
Progress = Callable[[str, int, int | None], None]

_CLOSED: Final = "the memory was closed before it was done"


class _DryRun(Exception):
    """Takes a dry run's transaction back; never leaves this module."""


class _Closing(Exception):
    """The memory is being closed; never leaves this module."""


@dataclass
class _Run:
    """What became of one run, as it grows. ``number`` notes in the store that files are to be cleaned."""

    gone: Gone = field(default_factory=Gone)
    expired: list[ExpiredSession] = field(default_factory=list)
    protected: dict[str, int] = field(default_factory=lambda: {"held": 0, "pinned": 0, "running": 0})
    day_files: int = 0
    number: int | None = None


def prune(
    opened: Opened,
    settings: Settings,
    clock: Clock,
    gate: Gate,
    *,
    dry_run: bool = False,
    trust_clock: bool = False,
    progress: Progress | None = None,
) -> PruneReport:
    """Delete what is older than it is kept, or say exactly what that would be.

    ``trust_clock``: a person has looked at the clock. Raises the store's errors; what had expired by then is gone, and
    the rest goes with the next run.
    """
    started = clock.monotonic()
    now = clock.now_ms()
    run = _Run()
    with translated("the store"), gate() as mine:
        verdict: Verdict = clock_check.judge(opened.store.connection, now) if mine else "ok"
        if mine and dry_run:
            _try(opened, settings, now, run)
            return _report(opened, settings, now, run, verdict, None, True, clock.monotonic() - started)
        if mine and not _believe(opened, now, verdict, trust_clock):
            return _report(opened, settings, now, run, verdict, None, False, clock.monotonic() - started)
    erased = Erased()
    try:
        _carry_out(opened, settings, now, run, gate, progress)
        if run.number is not None:
            erased = forgetting.clean(opened, run.number, run.gone.samples, partial(_mine, gate))
        else:
            with _mine(gate):
                _go_on(opened, settings, clock, erased)
    except _Closing:
        erased.reasons.append(_CLOSED)
    return _report(opened, settings, now, run, "ok", erased, False, clock.monotonic() - started)


def _go_on(opened: Opened, settings: Settings, clock: Clock, erased: Erased) -> None:
    """With what an earlier run, or forgetting, left: files that somebody had open."""
    if opened.has_unfinished_forgetting():
        forgetting.resume(opened, settings, clock)
        if opened.has_unfinished_forgetting():
            erased.reasons.append("what was deleted before could not be cleaned from every file yet")


def _believe(opened: Opened, now: int, verdict: Verdict, trust: bool) -> bool:
    """Whether to go on; what is thought of the clock is noted for the next run."""
    connection = opened.store.connection
    if verdict == "ok" and not trust and not clock_check.needs_note(connection, now):
        return True
    with opened.store.transaction():
        if verdict == "ok" or trust:
            clock_check.believe(connection, now)
            return True
        clock_check.doubt(connection, now)
    return False


def _carry_out(opened: Opened, settings: Settings, now: int, run: _Run, gate: Gate, progress: Progress | None) -> None:
    if settings.compatibility == "layered-memory":
        with _mine(gate):
            days = by_days.old_days(opened.store.connection, settings, now)
        for done, day in enumerate(days):
            with _mine(gate), opened.store.transaction():
                run.day_files += _delete_day(opened, settings, day, now, run)
            if progress is not None:
                progress("expiring", done + 1, len(days))
        return
    with _mine(gate):
        found = _due(opened, settings, now, run)
    for done, one in enumerate(found):
        before = _counts(run.gone)
        more = True
        while more:
            with _mine(gate), opened.store.transaction():
                more = _step(opened, settings, one, now, run)
        _tell(run, one, before)
        if progress is not None:
            progress("expiring", done + 1, len(found))
    more = True
    while more:
        with _mine(gate), opened.store.transaction():
            more = _expire_waiting(opened, settings, now, run)


def _try(opened: Opened, settings: Settings, now: int, run: _Run) -> None:
    """Do it all in one transaction and take that back: a dry run cannot differ from the real one."""
    connection = opened.store.connection
    connection.pragma("cache_spill", 0)  # a page that will never be committed shall not even reach the WAL
    try:
        with opened.store.transaction():
            if settings.compatibility == "layered-memory":
                for day in by_days.old_days(connection, settings, now):
                    run.day_files += _delete_day(opened, settings, day, now, run)
                raise _DryRun
            for one in _due(opened, settings, now, run):
                before = _counts(run.gone)
                while _step(opened, settings, one, now, run):
                    pass
                _tell(run, one, before)
            while _expire_waiting(opened, settings, now, run):
                pass
            raise _DryRun
    except _DryRun:
        return
    finally:
        connection.pragma("cache_spill", 1)


def _due(opened: Opened, settings: Settings, now: int, run: _Run) -> list[Due]:
    """What goes; what is as old and stays is counted."""
    connection = opened.store.connection
    found = []
    for one in rule.due(connection, settings, now):
        reason = rule.protection(connection, one.session_id, now)
        if reason is None:
            found.append(one)
        else:
            run.protected[reason] += 1
    return found


def _step(opened: Opened, settings: Settings, one: Due, now: int, run: _Run) -> bool:
    """One batch, and the note that files are to be cleaned of it, in the caller's transaction."""
    connection = opened.store.connection
    before = connection.total_changes()
    more = expiring.step(opened.store, settings, one.session_id, now, run.gone)
    if connection.total_changes() != before:
        run.number = rows.owe(connection, "index", run.number, now)
    return more


def _expire_waiting(opened: Opened, settings: Settings, now: int, run: _Run) -> bool:
    before = run.gone.tally.waiting
    more = expiring.expire_waiting(opened.store, settings, now, run.gone)
    if run.gone.tally.waiting != before:
        run.number = rows.owe(opened.store.connection, "index", run.number, now)
    return more


def _delete_day(opened: Opened, settings: Settings, day: str, now: int, run: _Run) -> int:
    run.number = rows.owe(opened.store.connection, "index", run.number, now)
    return by_days.delete_day(opened.store.connection, day, settings.profile_scope)


@contextmanager
def _mine(gate: Gate) -> Iterator[None]:
    """The gate, passed, or left by ``_Closing``."""
    with gate() as mine:
        if not mine:
            raise _Closing
        yield


def _counts(gone: Gone) -> tuple[int, int, int, int]:
    tally = gone.tally
    return tally.sessions, tally.turns, tally.messages, sum(tally.records.values())


def _tell(run: _Run, one: Due, before: tuple[int, int, int, int]) -> None:
    sessions, turns, messages, records = (now - then for now, then in zip(_counts(run.gone), before, strict=True))
    if sessions or turns or records:
        run.expired.append(
            ExpiredSession(one.key, one.token, iso(one.last_at), one.layers, turns, messages, records, sessions > 0)
        )


def _old_notes(opened: Opened, settings: Settings, now: int) -> tuple[str, ...]:
    """Indexed notes whose name or front matter says an older day than a conversation is kept."""
    cut = rule.cutoffs(settings, now).get("L0")
    if cut is None:
        return ()
    try:
        with opened.keeper.reader() as index, translated_index():
            found = all_rows(
                index,
                "SELECT path FROM documents WHERE kind = 'note' AND at < ? ORDER BY at, path LIMIT ?",
                (cut, limits.REPORTED_PROBLEMS_MAX),
            )
    except errors.IndexUnavailable:
        return ()
    return tuple(str(path) for (path,) in found)


def _report(
    opened: Opened,
    settings: Settings,
    now: int,
    run: _Run,
    verdict: Verdict,
    erased: Erased | None,
    dry_run: bool,
    seconds: float,
) -> PruneReport:
    compatible = settings.compatibility == "layered-memory"
    tally = run.gone.tally
    doubted = verdict != "ok" and erased is None and not dry_run
    changed = bool(run.number is not None)
    reasons = tuple(erased.reasons) if erased is not None else ()
    status = "unfinished" if reasons else ("planned" if dry_run else "pruned") if changed else "nothing"
    return PruneReport(
        "clock" if doubted else status,  # type: ignore[arg-type]
        dry_run=dry_run,
        rule="layered-memory" if compatible else "standard",
        days={layer: settings.retention_days if compatible else rule.days(settings, layer) for layer in rule.LAYERS},
        sessions=tally.sessions,
        turns=tally.turns,
        messages=tally.messages,
        episodes=tally.records["L1"],
        scenarios=tally.records["L2"],
        facts=tally.records["L3"],
        facts_kept=run.gone.facts_kept,
        waiting=tally.waiting,
        day_files=run.day_files,
        tombstones=tally.tombstones,
        expired=tuple(run.expired[: limits.REPORTED_PROBLEMS_MAX]),
        **run.protected,
        old_notes=() if doubted or compatible else _old_notes(opened, settings, now),
        clock=verdict,
        generations=tuple(erased.generations) if erased is not None else (),
        searched_for=erased.searched_for if erased is not None else 0,
        verified=None if erased is None or not changed else not reasons,
        reasons=reasons,
        seconds=round(seconds, 3),
    )
