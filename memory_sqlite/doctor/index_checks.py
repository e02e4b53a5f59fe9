"""Findings about the current generation: does it fit the store, does it answer, is everything forgotten gone from it.

Called by ``verify`` and by ``index_state``. Not here: generations that are no longer current.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import apsw

from memory_sqlite import errors
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.doctor import vector_checks
from memory_sqlite.doctor.finding import Evidence, Finding
from memory_sqlite.forgetting.generations import unknown_documents
from memory_sqlite.generations import layout
from memory_sqlite.generations.registry import Generation
from memory_sqlite.indexing import identity, rows
from memory_sqlite.sources import conversation
from memory_sqlite.storage import change_log, tombstones
from memory_sqlite.storage import connection as connections
from memory_sqlite.storage.fetch import all_rows, integer, one_row
from memory_sqlite.transcripts import sessions


def check(
    store: apsw.Connection, path: Path, current: Generation, key: bytes | None, file_key: FileKey | None = None
) -> list[Finding]:
    """Everything about one generation file. A file that cannot be read is one finding.

    ``key`` is that of the session tokens, ``file_key`` the one the files are encrypted with.
    """
    if not path.exists():
        return [Finding("index_file_missing", {"file": path.name})]
    try:
        index = connections.open_index(path, file_key)
    except errors.MemorySqliteError as error:
        return [Finding("index_damaged", {"file": path.name, "reason": error.code})]
    try:
        return contents(store, index, path.name, current, key)
    finally:
        index.close()


def contents(
    store: apsw.Connection, index: apsw.Connection, file: str, current: Generation, key: bytes | None
) -> list[Finding]:
    """Everything about what is in one generation; ``index`` may be a connection for reading only."""
    try:
        return _contents(store, index, file, current, key)
    except (apsw.CorruptError, apsw.NotADBError, apsw.SQLError) as error:
        return [Finding("index_damaged", {"file": file, "reason": type(error).__name__})]


def _contents(
    store: apsw.Connection, index: apsw.Connection, file: str, current: Generation, key: bytes | None
) -> list[Finding]:
    problems = [str(row[0]) for row in all_rows(index, "PRAGMA integrity_check(20)")]
    if problems != ["ok"]:
        return [Finding("index_damaged", {"file": file, "problems": len(problems), "objects": _named(index, problems)})]
    found = []
    meta = layout.read_meta(index)
    if meta.get("identity") != identity.expected() or current.identity != identity.expected():
        found.append(_outdated(index, file))
    lag = change_log.newest(store) - int(meta.get("applied_seq", 0))
    if lag:
        found.append(Finding("index_behind" if lag > 0 else "index_of_another_store", {"changes": lag}))
    problem = rows.inconsistency(index, reading=index.readonly("main"))
    if problem is not None:
        found.append(Finding("index_inconsistent", {"file": file, "problem": problem}))
    found += vector_checks.check(index, file)
    return [*found, *_answers(index, file), *_forgotten(store, index, key), *_missing(store, index, lag)]


def _named(index: apsw.Connection, problems: Sequence[str]) -> str:
    """Which of its tables and indexes SQLite's words are about; they are our own names, the words are not repeated."""
    try:
        names = [str(row[0]) for row in all_rows(index, "SELECT name FROM sqlite_schema")]
    except (apsw.CorruptError, apsw.NotADBError):
        return "sqlite_schema"
    words = {word for problem in problems for word in re.findall(r"\w+", problem)}
    own = _own_names()
    found = [name for name in names if name in words]
    others = sum(1 for name in found if name not in own)
    told = [*(name for name in found if name in own), *([f"{others} not ours"] if others else [])]
    return ", ".join(told) or "unknown"


def _own_names() -> frozenset[str]:
    """Of everything in a generation that is ours; what others add may be called as a person pleased."""
    fresh = connections.open_scratch()
    try:
        layout.create(fresh, identity.expected())
        return frozenset(str(name) for (name,) in all_rows(fresh, "SELECT name FROM sqlite_schema"))
    finally:
        fresh.close()


def _outdated(index: apsw.Connection, file: str) -> Finding:
    """With what building it anew costs: chunks to prepare, and vectors that were paid for, which are taken over where
    the text of their chunk stays the same."""
    evidence: Evidence = {
        "file": file,
        "chunks": integer(index, "SELECT count(*) FROM chunks"),
        "vectors": integer(index, "SELECT count(*) FROM vectors"),
        "paid_vectors": integer(
            index,
            "SELECT count(*) FROM vectors v JOIN vector_spaces s ON s.id = v.space_id WHERE s.cost = 'paid'",
        ),
    }
    return Finding("index_outdated", evidence)


def _answers(index: apsw.Connection, file: str) -> list[Finding]:
    """A ranked question about every kind of document there is must have an answer."""
    for (kind,) in all_rows(index, "SELECT DISTINCT kind FROM documents d JOIN chunks c ON c.document_id = d.id"):
        asked = f'"kind={kind}."'
        row = one_row(index, "SELECT rowid FROM lexical WHERE lexical MATCH ? ORDER BY bm25(lexical) LIMIT 1", (asked,))
        if row is None:
            return [Finding("index_does_not_answer", {"file": file, "kind": str(kind)})]
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
    return [Finding("index_incomplete", {"documents": missing})] if missing else []


def _forgotten(store: apsw.Connection, index: apsw.Connection, key: bytes | None) -> list[Finding]:
    found = []
    unknown = len(unknown_documents(store, index))
    notes = 0
    if key is not None:
        for path, digest in all_rows(index, "SELECT key, hash FROM documents WHERE kind = 'note'"):
            notes += bool(tombstones.bounds(store, "note", tombstones.subject(key, "note", path, digest)))
    if unknown or notes:
        found.append(Finding("forgotten_in_index", {"documents": unknown, "notes": notes}))
    return found
