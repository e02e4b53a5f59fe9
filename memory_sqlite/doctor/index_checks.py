"""Findings about the current generation: does it fit the store, does it answer, is everything forgotten gone from it.

Called by ``verify``. Not here: generations that are no longer current.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import apsw

from memory_sqlite import errors
from memory_sqlite.doctor import vector_checks
from memory_sqlite.doctor.finding import Finding
from memory_sqlite.forgetting.generations import unknown_documents
from memory_sqlite.generations import layout
from memory_sqlite.generations.registry import Generation
from memory_sqlite.indexing import identity, rows
from memory_sqlite.sources import conversation
from memory_sqlite.storage import change_log, tombstones
from memory_sqlite.storage import connection as connections
from memory_sqlite.storage.fetch import all_rows, one_row
from memory_sqlite.transcripts import sessions

_REBUILD: Final = "Run `memory-sqlite index --full`; the index is derived and can always be rebuilt."
_UPDATE: Final = "Run `memory-sqlite index`."


def check(store: apsw.Connection, path: Path, current: Generation, key: bytes | None) -> list[Finding]:
    """Everything about one generation file. A file that cannot be read is one finding."""
    if not path.exists():
        return [Finding("index_file_missing", "warning", {"file": path.name}, _UPDATE)]
    try:
        index = connections.open_index(path)
    except errors.MemorySqliteError as error:
        return [Finding("index_damaged", "warning", {"file": path.name, "reason": error.code}, _REBUILD)]
    try:
        return _check(store, index, path, current, key)
    except (apsw.CorruptError, apsw.NotADBError, apsw.SQLError) as error:
        return [Finding("index_damaged", "warning", {"file": path.name, "reason": type(error).__name__}, _REBUILD)]
    finally:
        index.close()


def _check(
    store: apsw.Connection, index: apsw.Connection, path: Path, current: Generation, key: bytes | None
) -> list[Finding]:
    problems = [str(row[0]) for row in all_rows(index, "PRAGMA integrity_check(20)")]
    if problems != ["ok"]:
        return [Finding("index_damaged", "warning", {"file": path.name, "problems": len(problems)}, _REBUILD)]
    found = []
    meta = layout.read_meta(index)
    if meta.get("identity") != identity.expected() or current.identity != identity.expected():
        found.append(Finding("index_outdated", "warning", {"file": path.name}, _REBUILD))
    lag = change_log.newest(store) - int(meta.get("applied_seq", 0))
    if lag:
        code = "index_behind" if lag > 0 else "index_of_another_store"
        found.append(Finding(code, "warning", {"changes": lag}, _UPDATE if lag > 0 else _REBUILD))
    problem = rows.inconsistency(index)
    if problem is not None:
        found.append(Finding("index_inconsistent", "error", {"file": path.name, "problem": problem}, _REBUILD))
    found += vector_checks.check(index, path.name)
    return [*found, *_answers(index, path), *_forgotten(store, index, key), *_missing(store, index, lag)]


def _answers(index: apsw.Connection, path: Path) -> list[Finding]:
    """A ranked question about every kind of document there is must have an answer."""
    for (kind,) in all_rows(index, "SELECT DISTINCT kind FROM documents d JOIN chunks c ON c.document_id = d.id"):
        asked = f'"kind={kind}."'
        row = one_row(index, "SELECT rowid FROM lexical WHERE lexical MATCH ? ORDER BY bm25(lexical) LIMIT 1", (asked,))
        if row is None:
            return [Finding("index_does_not_answer", "error", {"file": path.name, "kind": str(kind)}, _REBUILD)]
    return []


def _missing(store: apsw.Connection, index: apsw.Connection, lag: int) -> list[Finding]:
    """What the store would have searched and the index does not hold, when it claims to be up to date."""
    if lag:
        return []
    held = {(str(kind), str(key)) for kind, key in all_rows(index, "SELECT kind, key FROM documents")}
    missing = 0
    for session in sessions.listing(store, limit=-1):
        if not session.is_internal:
            for document in conversation.session_documents(store, session):
                missing += (document.kind, document.key) not in held
    return [Finding("index_incomplete", "error", {"documents": missing}, _REBUILD)] if missing else []


def _forgotten(store: apsw.Connection, index: apsw.Connection, key: bytes | None) -> list[Finding]:
    found = []
    unknown = len(unknown_documents(store, index))
    notes = 0
    if key is not None:
        for path, digest in all_rows(index, "SELECT key, hash FROM documents WHERE kind = 'note'"):
            notes += bool(tombstones.bounds(store, "note", tombstones.subject(key, "note", path, digest)))
    if unknown or notes:
        evidence = {"documents": unknown, "notes": notes}
        found.append(Finding("forgotten_in_index", "error", evidence, _REBUILD))
    return found
