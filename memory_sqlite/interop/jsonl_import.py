"""Importing an export: the whole file is checked, then merged into the store in one transaction, then indexed.

One transaction, because then a kill, a full disk or a file that changes meanwhile leaves the store as it was, whatever
the moment; the price is that others wait with writing until it is done. What is here already is recognised, so that a
second import adds nothing. Not here: the checks (``jsonl_check``), the rows (``jsonl_sessions``, ``jsonl_records``,
``jsonl_rest``). Called by ``Memory.import_jsonl``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
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
from memory_sqlite.storage.connection import writing
from memory_sqlite.storage.store import Store

Progress = Callable[[str, int, int | None], None]

_BULK_CHANGES: Final = 5_000
"""After this many changes the index is tidied as after a build, like after a transcript import."""


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
) -> ExportImportReport:
    """Import an export, or say exactly what that would do.

    Raises ``UnknownFormat``, ``ExportInvalid``, ``InvalidArgument`` and the store's errors: then nothing was imported.
    """
    started = clock.monotonic()
    tally = Tally(str(path))
    with Source(path) as source:
        checked = jsonl_check.check(source, opened.store, clock, progress)
        try:
            with opened.store.transaction():
                _merge(source, checked, opened.store, settings, tally, progress)
                if dry_run:
                    raise _DryRun
        except _DryRun:
            pass
    warning = None if dry_run else _index(opened, tally, progress)
    if warning is not None:
        tally.problem(warning, None)
    return _report(checked, tally, dry_run, warning is None, round(clock.monotonic() - started, 3))


def _merge(
    source: Source, checked: Checked, store: Store, settings: Settings, tally: Tally, progress: Progress | None
) -> None:
    """Every line into the store, inside the caller's transaction. The checksum is taken once more: what is stored is
    what was checked."""
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
    }
    digest = hashlib.sha256()
    number = 0
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


def _report(checked: Checked, tally: Tally, dry_run: bool, searchable: bool, seconds: float) -> ExportImportReport:
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
    )
