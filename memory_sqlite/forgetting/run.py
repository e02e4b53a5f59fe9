"""One forgetting from beginning to end: tombstones, rows, notes, generations, bytes, proof; and going on after a crash.

The order is what makes it safe: from the tombstones' transaction on nothing forgotten can be stored again, and the list
in the store says what is still to do, whoever opens it next. Called by the door.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Final

import apsw

from memory_sqlite import errors, paths
from memory_sqlite.agent.opened import Opened
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.forget_report import ForgetReport, ForgottenGeneration, ForgottenNote
from memory_sqlite.forgetting import compact, generations, note_file, notes, proof, recalls, rows, waiting
from memory_sqlite.forgetting.choose import Chosen, Tombstone, choose, derived_records
from memory_sqlite.forgetting.notes import Edit, NotePlan
from memory_sqlite.forgetting.rows import Tally
from memory_sqlite.forgetting.samples import Samples
from memory_sqlite.forgetting.selection import Asked
from memory_sqlite.indexing import notes as notes_index
from memory_sqlite.storage import tombstones
from memory_sqlite.storage.failures import translated, translated_index
from memory_sqlite.storage.fetch import all_rows
from memory_sqlite.transcripts import holds
from memory_sqlite.values import dataclass, field

_OUTCOMES: Final = {"done": "removed", "changed": "changed", "gone": "gone", "failed": "failed"}


class _DryRun(Exception):
    """Takes a dry run's transaction back; never leaves this module."""


@dataclass
class Erased:
    """What became of notes, generations and bytes. ``reasons``: why it cannot be said that nothing is left."""

    notes: list[ForgottenNote] = field(default_factory=list)
    generations: list[ForgottenGeneration] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    searched_for: int = 0
    log_held: bool = False
    """Somebody reads the store, so that its WAL could not be emptied."""


def forget(opened: Opened, asked: Asked, settings: Settings, clock: Clock, *, dry_run: bool) -> ForgetReport:
    """Forget what was asked for, or say exactly what that would be.

    Raises the store's errors. Before the tombstones are written nothing was done; after them the next open, or the next
    call, goes on where this one ended.
    """
    started = clock.monotonic()
    if not dry_run:
        resume(opened, settings, clock)
    now = clock.now_ms()
    with translated("the store"):
        chosen = _choose(opened, asked, now)
        texts = _texts(opened, chosen)
    planned = notes.plan(opened.workspace, settings.extra_paths, chosen.notes, texts, remove=asked.notes)
    tally, samples = Tally(), Samples()
    kept = _note_tombstones(opened, planned.edits)
    if dry_run:
        chosen = _try(opened, asked, kept, tally, settings, clock, now)
        return _report(chosen, planned, tally, None, clock.monotonic() - started)
    with opened.store.transaction():
        chosen = _choose(opened, asked, now)
        number = rows.begin(opened.store, chosen, kept, notes.to_json(planned.edits), tally, now)
        tally.waiting = waiting.forget(opened.store, asked, chosen, samples, now)
        recalls.forget_notes(opened.store.connection, [edit.path for edit in planned.edits])
    _delete_rows(opened, settings, clock, (number,), tally, samples)
    if not (tally.sessions or tally.turns or tally.records or tally.waiting or planned.edits):
        with opened.store.transaction() as connection:
            rows.finish(connection, (number,))
        return _report(chosen, planned, tally, Erased(), clock.monotonic() - started)
    erased = _clean(opened, settings, clock, (number,), planned.edits, samples, wait_s=generations.BUILDER_WAIT_S)
    return _report(chosen, planned, tally, erased, clock.monotonic() - started)


def _try(
    opened: Opened,
    asked: Asked,
    kept: list[Tombstone],
    tally: Tally,
    settings: Settings,
    clock: Clock,
    now: int,
) -> Chosen:
    """Do it all in one transaction and take that back: a dry run cannot differ from the real one."""
    connection = opened.store.connection
    connection.pragma("cache_spill", 0)  # a page that will never be committed shall not even reach the WAL
    try:
        with opened.store.transaction():
            chosen = _choose(opened, asked, now)
            rows.begin(opened.store, chosen, kept, "[]", tally, now)
            tally.waiting = waiting.forget(opened.store, asked, chosen, Samples(), now)
            while rows.step(opened.store, settings, clock, tally, Samples()):
                pass
            raise _DryRun
    except _DryRun:
        return chosen
    finally:
        connection.pragma("cache_spill", 1)


def _choose(opened: Opened, asked: Asked, now: int) -> Chosen:
    """What is named, unless a legal hold is on any of it: that wins. Raises ``SessionHeld``."""
    chosen = choose(opened.store, asked, now)
    holds.refuse(opened.store.connection, "forgetting", _sessions_of(opened, chosen))
    return chosen


def _sessions_of(opened: Opened, chosen: Chosen) -> set[int]:
    """The sessions that something of what was chosen belongs to: its turns, records, and what was made from them."""
    connection = opened.store.connection
    if connection.execute("SELECT EXISTS (SELECT 1 FROM session_holds WHERE kind = 'legal')").get == 0:
        return set()
    found = set(chosen.sessions)
    record_ids = {*chosen.records, *derived_records(connection, sorted(chosen.turns))}
    for table, ids in (("turns", chosen.turns), ("records", record_ids)):
        for row_id in ids:
            session_id = connection.execute(f"SELECT session_id FROM {table} WHERE id = ?", (row_id,)).get
            if isinstance(session_id, int):
                found.add(session_id)
    return found


def clean(opened: Opened, number: int, samples: Samples, step: Callable[[], AbstractContextManager[None]]) -> Erased:
    """After rows were deleted and that was noted (``rows.owe``): generations, bytes and proof, as after a forgetting.

    ``step`` holds the memory's lock for one part of it; the files are searched without. What is in the way (a reader, a
    build) is not waited for: it is told in ``reasons``, and left to the next open. Raises the store's errors.
    """
    erased = Erased()
    with step():
        alone = _erase_generations(opened, erased, wait_s=0, heavy=True)
    with step():
        store_done = _erase_store(opened, True, erased, wait=False)
    with opened.store.readers.borrow() as store:
        try:
            with opened.keeper.reader() as index:
                clean = _prove(opened, samples, erased, store, index)
        except errors.IndexUnavailable:
            clean = _prove(opened, samples, erased, store, None)
    with step():
        _settle(opened, (number,), erased, alone and clean and store_done)
    return erased


def resume(opened: Opened, settings: Settings, clock: Clock) -> bool:
    """Go on with what an earlier forgetting left unfinished; whether there was anything. Raises the store's errors."""
    with translated("the store"):
        waiting = rows.unfinished(opened.store.connection)
    if not waiting:
        return False
    numbers = tuple(one.number for one in waiting)
    heavy = any(one.stage != "bytes" for one in waiting)
    if any(one.stage == "rows" for one in waiting):
        _delete_rows(opened, settings, clock, numbers, Tally(), Samples())
    edits = [edit for one in waiting for edit in notes.from_json(one.notes)] if heavy else []
    _clean(opened, settings, clock, numbers, edits, Samples(), wait_s=0, heavy=heavy, resumed=True)
    return True


def resume_quietly(opened: Opened, settings: Settings, clock: Clock) -> None:
    """``resume`` where it is not what was asked for: what fails now is left to the next one."""
    try:
        resume(opened, settings, clock)
    except errors.MemorySqliteError:
        pass


def _delete_rows(
    opened: Opened, settings: Settings, clock: Clock, numbers: tuple[int, ...], tally: Tally, samples: Samples
) -> None:
    more = True
    while more:
        with opened.store.transaction() as connection:
            more = rows.step(opened.store, settings, clock, tally, samples)
            if not more:
                rows.reach(connection, numbers, "index")


def _clean(
    opened: Opened,
    settings: Settings,
    clock: Clock,
    numbers: tuple[int, ...],
    edits: Iterable[Edit],
    samples: Samples,
    *,
    wait_s: float,
    heavy: bool = True,
    resumed: bool = False,
) -> Erased:
    """Notes, generations, bytes and proof. Without ``heavy`` nothing is written anew: that was done, and only those who
    held a file had to be waited for. ``resumed``: a note that is not as it was may have been rewritten before."""
    erased = Erased()
    for edit in edits:
        _edit(opened, settings, clock, edit, samples, erased, resumed)
    alone = _erase_generations(opened, erased, wait_s=wait_s, heavy=heavy)
    store_done = _erase_store(opened, heavy, erased, wait=not resumed)
    clean = _search(opened, samples, erased)
    _settle(opened, numbers, erased, alone and clean and store_done)
    return erased


def _erase_generations(opened: Opened, erased: Erased, *, wait_s: float, heavy: bool) -> bool:
    """``False`` while another process builds one."""
    up_to = generations.newest(opened)
    alone = not heavy or generations.wait_for_builder(opened, up_to, wait_s)
    if not alone:
        erased.reasons.append("a new search index is being built")
    erased.generations = generations.erase(opened, up_to, heavy=heavy)
    erased.reasons += _generation_reasons(erased.generations)
    return alone


def _settle(opened: Opened, numbers: tuple[int, ...], erased: Erased, done: bool) -> None:
    """Note how far it has come. ``done``: nothing has to be written anew again, only readers are in the way."""
    with opened.store.transaction() as connection:
        if not erased.reasons:
            rows.finish(connection, numbers)
        elif done and all(one.erased for one in erased.generations if one.state == "current"):
            rows.reach(connection, numbers, "bytes")


def _texts(opened: Opened, chosen: Chosen) -> list[str]:
    """What is about to be forgotten, to look for in the notes."""
    connection = opened.store.connection
    if opened.workspace is None:
        return []
    found: list[str] = []
    turn_ids = sorted(chosen.turns)
    for turn_id in turn_ids:
        said = all_rows(connection, "SELECT text FROM messages WHERE turn_id = ? AND is_tool_output = 0", (turn_id,))
        found += [str(text) for (text,) in said]
    for row_id in {*derived_records(connection, turn_ids), *chosen.records}:
        content = all_rows(connection, "SELECT content FROM records WHERE id = ? AND layer <> 'L2'", (row_id,))
        found += [str(text) for (text,) in content]
    return found


def _note_tombstones(opened: Opened, edits: Iterable[Edit]) -> list[Tombstone]:
    """Each version of a note that something is taken out of must never be indexed again."""
    key = opened.store.key
    return [
        ("note", tombstones.subject(key, "note", edit.path, edit.digest), tombstones.FIRST, tombstones.LAST)
        for edit in edits
    ]


def _edit(
    opened: Opened, settings: Settings, clock: Clock, edit: Edit, samples: Samples, erased: Erased, resumed: bool
) -> None:
    outcome = note_file.apply(opened.workspace, settings.extra_paths, edit, clock, samples)
    said = "deleted" if outcome == "done" and edit.whole else _OUTCOMES[outcome]
    erased.notes.append(ForgottenNote(edit.path, _count(edit), said))  # type: ignore[arg-type]
    if outcome == "failed" or (outcome == "changed" and not resumed):
        erased.reasons.append(f"a note could not be rewritten ({said})")


def _count(edit: Edit) -> int:
    return sum(last - first + 1 for first, last in edit.lines)


def _generation_reasons(found: Iterable[ForgottenGeneration]) -> list[str]:
    reasons = []
    for one in found:
        if not one.erased and one.state != "building":  # of one that is being built the reason was told
            reasons.append(f"search index {one.number} could not be cleaned (it is in use or damaged)")
    return reasons


def _erase_store(opened: Opened, heavy: bool, erased: Erased, *, wait: bool) -> bool:
    """The store's own bytes; whether they are done but for a reader that still needs the WAL."""
    store = opened.store
    try:
        with translated("the store"):
            if heavy:
                emptied = compact.write_anew(store.connection, store.directory / paths.STORE_FILE, wait=wait)
            else:
                emptied = compact.empty_wal(store.connection, wait=False)
            if not emptied:
                erased.log_held = True
                erased.reasons.append("somebody is reading the store, so that its WAL could not be emptied")
        return True
    except (errors.StoreBusy, errors.DiskFull) as error:
        erased.reasons.append(f"the store could not be written anew ({error.code})")
        return False


def _search(opened: Opened, samples: Samples, erased: Erased) -> bool:
    """Bring the notes up to date, then as ``_prove``."""
    index = None
    try:
        index = opened.keeper.writer()
        if erased.notes and opened.workspace is not None and opened.workspace.is_dir():
            with translated_index():
                work = notes_index.plan(index, opened.workspace, opened.settings.extra_paths)
                notes_index.carry_out(
                    index, work, forgotten=opened.is_forgotten_note, redact=opened.settings.redact_secrets
                )
    except errors.IndexUnavailable:
        index = None
    return _prove(opened, samples, erased, opened.store.connection, index)


def _prove(
    opened: Opened, samples: Samples, erased: Erased, store: apsw.Connection, index: apsw.Connection | None
) -> bool:
    """Look into the files; ``False`` when there is a trace of what was forgotten."""
    with translated("the store"):
        found = proof.search_bytes(opened.store.directory, samples, store, index, opened.store.file_key)
    erased.searched_for = found.pieces
    if found.problem is not None:
        erased.reasons.append(found.problem)
    erased.reasons += [f"traces were found in {name}" for name in found.files]
    # what was written anew lies in the log until its reader goes, and over the old pages then: writing it anew again at
    # each open would only make the log grow
    waiting_for_log = {paths.STORE_FILE, f"{paths.STORE_FILE}-wal"} if erased.log_held else set()
    return not set(found.files) - waiting_for_log


def _report(chosen: Chosen, planned: NotePlan, tally: Tally, erased: Erased | None, seconds: float) -> ForgetReport:
    found = bool(tally.sessions or tally.turns or tally.records or tally.waiting or planned.edits)
    note_list = erased.notes if erased is not None else []
    if erased is None:
        note_list = [ForgottenNote(edit.path, _count(edit), "planned") for edit in planned.edits]
    status = "planned" if erased is None else "unfinished" if erased.reasons else "forgotten"
    return ForgetReport(
        status if found or (erased is not None and erased.reasons) else "nothing",  # type: ignore[arg-type]
        dry_run=erased is None,
        sessions=tally.sessions,
        turns=tally.turns,
        messages=tally.messages,
        episodes=tally.records["L1"],
        scenarios=tally.records["L2"],
        facts=tally.records["L3"],
        restated=tally.restated,
        revived=tally.revived,
        waiting=tally.waiting,
        mixed_turns=len(chosen.mixed),
        tombstones=tally.tombstones,
        unresolved=(*chosen.unresolved, *planned.unresolved),
        notes=tuple(note_list),
        notes_left=planned.left,
        problems=tuple(planned.problems),
        generations=tuple(erased.generations) if erased is not None else (),
        searched_for=erased.searched_for if erased is not None else 0,
        verified=None if erased is None or not found else not erased.reasons,
        reasons=tuple(erased.reasons) if erased is not None else (),
        seconds=round(seconds, 3),
    )
