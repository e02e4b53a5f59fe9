"""Forgetting in every generation: the current one, one that is being built, retired ones that somebody still reads.

The current one applies the change log as always. A retired one whose readers hold it is scrubbed under them: its
documents that the store does not know any more are deleted, so that it cannot tell them to anybody. Called by ``run``.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import apsw

from memory_sqlite import errors, limits, paths
from memory_sqlite.agent.opened import Opened
from memory_sqlite.forget_report import ForgottenGeneration
from memory_sqlite.forgetting import compact
from memory_sqlite.generations import files, registry
from memory_sqlite.indexing import rebuild, rows
from memory_sqlite.storage import connection as connections
from memory_sqlite.storage import reencryption
from memory_sqlite.storage.connection import writing
from memory_sqlite.storage.failures import translated_index
from memory_sqlite.storage.fetch import all_rows

_POLL_S: Final = 0.05
_TRIES: Final = 5
"""Another process may publish while the current one is being cleaned: then the next one is looked at."""


def newest(opened: Opened) -> int:
    """The highest number that was ever given. What is built under a higher one reads a store, and notes, in which
    nothing of what is gone by now is left."""
    number = opened.store.connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'generations'").get
    return number if isinstance(number, int) else 0


def wait_for_builder(opened: Opened, up_to: int, wait_s: float) -> bool:
    """Wait for a rebuild of another process: what it read before may be in its file. ``False`` when it goes on."""
    deadline = time.monotonic() + wait_s
    while any(number <= up_to for number in _building(opened)):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _building(opened: Opened) -> list[int]:
    return [
        generation.number
        for generation in registry.by_state(opened.store.connection, "building")
        if files.is_held(paths.generation_file(opened.store.directory, generation.number), opened.store.file_key)
    ]


def erase(opened: Opened, up_to: int, *, heavy: bool) -> list[ForgottenGeneration]:
    """Take what the store does not know any more out of every file up to a number; ``heavy`` writes the current one
    anew too.

    Returns every generation file that is left, the current one first. One that could not be cleaned (locked, damaged,
    no room) is no reason to stop: it is told, and the next open tries again.
    """
    for _ in range(_TRIES):
        found = _erase_current(opened, up_to, heavy)
        current = registry.current(opened.store.connection)
        if current is None or not found or current.number == found[0].number:
            break
    # now that the writer has moved on, nothing of ours holds an older file
    opened.keeper.drop_readers()
    rebuild.tidy(opened.store, keep_unfinished=False)  # a killed build may hold what is forgotten
    if opened.store.hold is not None:
        reencryption.sweep(opened.store.directory)  # and so may a copy that a killed change of keys left
    building = _building(opened)
    for number in files.numbers(opened.store.directory):
        if any(number == one.number for one in found):
            continue
        if number in building or number > up_to:
            found.append(ForgottenGeneration(number, "building", held=True, erased=number > up_to))
        else:
            found.append(_erase_retired(opened, number))
    return found


def _erase_current(opened: Opened, up_to: int, heavy: bool) -> list[ForgottenGeneration]:
    current = registry.current(opened.store.connection)
    erased = False
    try:
        opened.keeper.apply()
        index = opened.keeper.writer()
        current = registry.current(opened.store.connection)
        assert current is not None, "it has a writer"
        with translated_index():
            if current.number > up_to:
                erased = True
            else:
                _drop_unknown(opened, index)
                path = paths.generation_file(opened.store.directory, current.number)
                erased = _clean(index, path) if heavy else compact.empty_wal(index, wait=False)
    except errors.MemorySqliteError:
        erased = False
    return [] if current is None else [ForgottenGeneration(current.number, "current", held=False, erased=erased)]


def _erase_retired(opened: Opened, number: int) -> ForgottenGeneration:
    path = paths.generation_file(opened.store.directory, number)
    erased = False
    try:
        index = connections.open_index(path, opened.store.file_key)
        try:
            with translated_index():
                _drop_unknown(opened, index)
                erased = _clean(index, path)
        finally:
            index.close()
    except (errors.MemorySqliteError, apsw.Error):
        # of another format, damaged, or locked: it is not touched, and told to be there
        erased = False
    rebuild.tidy(opened.store)
    return ForgottenGeneration(number, "retired", held=path.exists(), erased=erased or not path.exists())


def _clean(index: apsw.Connection, path: Path) -> bool:
    """Words and bytes of deleted rows; whether they are gone."""
    merged = compact.merge_deleted(index)
    return compact.write_anew(index, path) and merged


def _drop_unknown(opened: Opened, index: apsw.Connection) -> None:
    """Delete the documents of messages, records and versions of notes that were forgotten."""
    store = opened.store.connection
    with writing(index):
        touched: dict[int, set[int]] = {}
        for kind, key in unknown_documents(store, index):
            place = rows.message_place(index, key) if kind == "message" else None
            rows.delete_document(index, kind, key)
            if place is not None:
                touched.setdefault(place[0], set()).add(place[1])
        for session_id, positions in touched.items():
            rows.refresh_contexts(index, session_id, sorted(positions))
        for path, digest in all_rows(index, "SELECT key, hash FROM documents WHERE kind = 'note'"):
            if opened.is_forgotten_note(path, digest):
                rows.delete_document(index, "note", path)


def unknown_documents(store: apsw.Connection, index: apsw.Connection) -> list[tuple[str, str]]:
    """``(kind, key)`` of documents whose message or record the store does not hold."""
    found = []
    for kind, table in (("message", "messages"), ("record", "records")):
        # in this order: what the index has by now, the store had before
        keys = all_rows(index, "SELECT key FROM documents WHERE kind = ?", (kind,))
        known = {str(row_id) for (row_id,) in all_rows(store, f"SELECT id FROM {table}")}
        found += [(kind, str(key)) for (key,) in keys if key not in known]
    return found


BUILDER_WAIT_S: Final = limits.BUSY_TIMEOUT_MS / 1000
"""As long as any writer waits for another."""
