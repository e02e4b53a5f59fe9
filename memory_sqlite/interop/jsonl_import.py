"""Importing an export: the whole file is checked, then merged into the store in one transaction, then indexed.

One transaction, because then a kill, a full disk or a file that changes meanwhile leaves the store as it was, whatever
the moment; the price is that others wait with writing until it is done. Where that is too long, in steps: whole
sessions first, and everything that rests on them in the last one. What is here already is recognised, so that a second
import adds nothing, and one that was interrupted between two steps is gone on with. Not here: the checks
(``jsonl_check``), the rows (``jsonl_sessions``, ``jsonl_records``, ``jsonl_rest``). Called by ``Memory.import_jsonl``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final

from memory_sqlite import errors
from memory_sqlite.agent.opened import Opened
from memory_sqlite.agent.turns import apply_quietly
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.indexing import rows
from memory_sqlite.interop import jsonl_check
from memory_sqlite.interop.jsonl_check import EVERY, Checked
from memory_sqlite.interop.jsonl_files import Source, decode
from memory_sqlite.interop.jsonl_forgotten import Forgotten
from memory_sqlite.interop.jsonl_format import KINDS, SECTIONS, Record
from memory_sqlite.interop.jsonl_records import RecordMerger
from memory_sqlite.interop.jsonl_reports import ExportImportReport
from memory_sqlite.interop.jsonl_rest import RestMerger
from memory_sqlite.interop.jsonl_sessions import SessionMerger
from memory_sqlite.interop.jsonl_tally import OUTCOMES, Tally
from memory_sqlite.layers import retention_rule
from memory_sqlite.model import Expiry
from memory_sqlite.storage.connection import writing
from memory_sqlite.storage.store import Store
from memory_sqlite.transcripts import arrivals

Progress = Callable[[str, int, int | None], None]

_BULK_CHANGES: Final = 5_000
"""After this many changes the index is tidied as after a build, like after a transcript import."""

_STEP_LINES: Final = 2_000
"""Lines after which a step ends before the next session: about a second."""


class _DryRun(Exception):
    """Takes a dry run's transaction back; never leaves this module."""


def import_export(
    opened: Opened,
    path: Path,
    settings: Settings,
    clock: Clock,
    progress: Progress | None,
    *,
    dry_run: bool,
    steps: bool = False,
) -> ExportImportReport:
    """Import an export, or say exactly what that would do; with ``steps`` in several transactions.

    Raises ``UnknownFormat``, ``ExportInvalid``, ``InvalidArgument`` and the store's errors: then nothing was imported,
    or with ``steps`` what the steps before it brought.
    """
    started = clock.monotonic()
    tally = Tally(str(path))
    expires: Expiry
    with Source(path) as source:
        checked = jsonl_check.check(source, opened.store, clock, progress)
        try:
            with _Steps(opened.store, clock.now_ms()) as run:
                step = run.step if steps and not dry_run else None
                _merge(source, checked, opened.store, settings, tally, progress, step)
                expires = retention_rule.expiry(opened.store.connection, settings, run.touched(), run.now)
                if dry_run:
                    raise _DryRun
        except _DryRun:
            pass
    warning = None if dry_run else _index(opened, tally, progress)
    if warning is not None:
        tally.problem(warning, None)
    return _report(checked, tally, dry_run, warning is None, round(clock.monotonic() - started, 3), expires)


class _Steps:
    """The transaction that is under way, and what the import has brought so far."""

    def __init__(self, store: Store, now: int) -> None:
        self.now = now
        self._store = store
        self._stack = ExitStack()
        self._touched: dict[str, None] = {}

    def __enter__(self) -> _Steps:
        self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._stack.__exit__(kind, error, trace)

    def _begin(self) -> None:
        self._connection = self._stack.enter_context(self._store.transaction())
        self._before = arrivals.newest(self._connection)

    def step(self) -> None:
        """What was stored so far is on disk, and others may write before it goes on."""
        self.touched()
        self._stack.close()
        self._begin()

    def touched(self) -> list[str]:
        """The sessions that something was brought to; noted as imported now."""
        self._touched |= dict.fromkeys(arrivals.note(self._connection, self._before, self.now))
        return list(self._touched)


def _merge(
    source: Source,
    checked: Checked,
    store: Store,
    settings: Settings,
    tally: Tally,
    progress: Progress | None,
    step: Callable[[], None] | None,
) -> None:
    """Every line into the store, inside the caller's transaction. The checksum is taken once more: what is stored is
    what was checked. ``step`` ends that transaction and begins another: only before a session, since one that came in
    part would look like one of which the rest was forgotten."""
    forgotten = Forgotten(store, tally, same_key=checked.same_key)
    merged = SessionMerger(store, forgotten, settings, tally, same_key=checked.same_key)
    records = RecordMerger(store, forgotten, merged, settings, tally)
    rest = RestMerger(store, forgotten, merged, settings, tally, same_key=checked.same_key)

    def tombstone(line: Record, number: int) -> None:
        forgotten.take(line)

    take = {
        "tombstone": tombstone,
        "session": merged.session,
        "turn": merged.turn,
        "message": merged.message,
        "record": records.record,
        "record_source": records.source,
        "accepted_run": rest.accepted_run,
        "accepted_advancement": rest.accepted_advancement,
        "outbox": rest.outbox,
        "recall": rest.recall,
        "hold": rest.hold,
    }
    digest = hashlib.sha256()
    number = stepped = 0
    for number, data in source.lines():
        if number == checked.lines:
            break
        digest.update(data)
        if number == 1:
            continue
        line = decode(data, number)
        kind = line.get("kind")
        if not isinstance(kind, str) or kind not in take:
            raise _changed(number)
        if SECTIONS[kind] > SECTIONS["session"]:
            merged.finish()
        if SECTIONS[kind] > SECTIONS["record"]:
            records.finish()
        if step is not None and kind == "session" and number - stepped >= _STEP_LINES:
            merged.finish()
            forgotten.close_file()
            step()
            forgotten.look_again()
            stepped = number
        take[kind](line, number)
        if progress is not None and number % EVERY == 0:
            progress("importing", number, checked.lines)
    merged.finish()
    records.finish()
    rest.finish()
    if number != checked.lines or digest.hexdigest() != checked.sha256:
        raise _changed(number)


def _changed(number: int) -> errors.ExportInvalid:
    return errors.ExportInvalid("the file was changed while it was read", number)


def _index(opened: Opened, tally: Tally, progress: Progress | None) -> str | None:
    if progress is not None:
        progress("indexing", 0, None)
    warning = apply_quietly(opened)
    added = tally.counts["added"]
    if warning is None and added["message"] + added["record"] >= _BULK_CHANGES:
        index = opened.keeper.writer()
        with writing(index):
            rows.finish(index)
    return warning


def _report(
    checked: Checked, tally: Tally, dry_run: bool, searchable: bool, seconds: float, expires: Expiry
) -> ExportImportReport:
    by_kind = {outcome: {kind: tally.counts[outcome][kind] for kind in KINDS} for outcome in OUTCOMES}
    differs = any(by_kind["conflicts"].values()) or any(by_kind["left"].values()) or bool(tally.problems)
    return ExportImportReport(
        "partial" if differs else "ok",
        dry_run=dry_run,
        agent=checked.header["agent"],
        exported_at=checked.header["exported_at"],
        same_key=checked.same_key,
        lines=checked.lines,
        **by_kind,
        moved=tally.moved,
        redactions=tally.redactions,
        searchable=searchable,
        seconds=seconds,
        problems=tuple(tally.problems),
        expires=expires,
    )
