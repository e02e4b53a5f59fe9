"""Writing documents into a generation: rows, lexical rows, contexts of messages.

Lives here: what one document becomes in the tables of ``generations.layout``. Not here: which documents changed
(``sources``, ``indexing``), their tokens (``processes.prepare``), transactions, files. Everything runs inside the
caller's transaction. A document is replaced whole or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import apsw

from memory_sqlite.generations.layout import filter_tokens
from memory_sqlite.indexing import vector_reuse
from memory_sqlite.indexing.contexts import refresh_contexts as refresh_contexts
from memory_sqlite.model import Document
from memory_sqlite.processes import prepare
from memory_sqlite.processes.prepare import ChunkWords, WordsOf
from memory_sqlite.text.units import valid_unicode

COMMON_SHARE: Final = 0.1
"""A term in more than this share of the rows is a common term (its document count is not free to ask for)."""

_INSERT_LEXICAL: Final = (
    "INSERT INTO lexical (rowid, body, question, heading, path, trigger, filter) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_CHUNK: Final = """INSERT INTO chunks
    (id, document_id, ordinal, start_line, end_line, text, heading, triggers, importance, projects, supersedes,
     text_hash, tokens, line_starts, flags)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_INSERT_DOCUMENT: Final = """INSERT INTO documents
    (id, kind, key, source, path, hash, at, layer, title, session_id, owner_private, origin, role, speaker,
     record_kind, position, details, size, mtime_ns, inode, device)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""


def put_document(connection: apsw.Connection, document: Document, words: Sequence[ChunkWords] | None = None) -> int:
    """Replace a document whole; returns the number of its chunks. Contexts of messages: ``refresh_contexts``.

    ``words`` are those of its chunks, one each, where they are prepared already; else they are made here.
    """
    if words is None:
        words = prepare.words(WordsOf.of(document))
    kept = vector_reuse.of_equal_texts(connection, document)
    document_id = _put_row(connection, document, _remove(connection, document.kind, document.key))
    # numbers are given here: RETURNING makes a table in memory for each statement (measured: half of a rebuild's SQL)
    first = _one(connection, "SELECT coalesce(max(id), 0) + 1 FROM chunks", ())
    chunks = []
    lexical = []
    for ordinal, (chunk, one) in enumerate(zip(document.chunks, words, strict=True)):
        chunks.append(
            (
                first + ordinal,
                document_id,
                ordinal,
                chunk.start_line,
                chunk.end_line,
                valid_unicode(chunk.text),
                valid_unicode(chunk.heading),
                json.dumps(chunk.triggers) if chunk.triggers else "[]",
                chunk.importance,
                json.dumps(chunk.projects) if chunk.projects else "[]",
                chunk.supersedes,
                one.text_hash,
                one.count,
                one.line_starts,
                one.flags,
            )
        )
        properties = filter_tokens(
            kind=document.kind,
            source=document.source,
            layer=document.layer,
            session_id=document.session_id,
            owner_private=document.owner_private,
            projects=chunk.projects,
        )
        lexical.append((first + ordinal, one.body, one.question, one.heading, one.path, one.trigger, properties))
    connection.executemany(_INSERT_CHUNK, chunks)
    connection.executemany(_INSERT_LEXICAL, lexical)
    vector_reuse.keep(connection, document_id, kept)
    _count(connection, document.kind, len(chunks), sum([one.count for one in words]))
    return len(chunks)


def _put_row(connection: apsw.Connection, document: Document, known: int | None) -> int:
    """The row of a document, under the number it had if it had one; returns that number."""
    connection.execute(
        _INSERT_DOCUMENT,
        (
            known,
            document.kind,
            document.key,
            document.source,
            valid_unicode(document.path),
            document.hash,
            document.at,
            document.layer,
            valid_unicode(document.title),
            document.session_id,
            int(document.owner_private),
            document.origin,
            document.role,
            document.speaker,
            document.record_kind,
            document.position,
            json.dumps(dict(document.details), separators=(",", ":")),
            document.size,
            document.mtime_ns,
            document.inode,
            document.device,
        ),
    )
    return connection.last_insert_rowid() if known is None else known


def delete_document(connection: apsw.Connection, kind: str, key: str) -> bool:
    """Take a document and all its rows out; ``False`` when there was none. Contexts of neighbours stay as they are."""
    document_id = _remove(connection, kind, key)
    if document_id is not None and kind == "message":
        connection.execute("DELETE FROM lexical_context WHERE rowid = ?", (document_id,))
    return document_id is not None


def _remove(connection: apsw.Connection, kind: str, key: str) -> int | None:
    row = connection.execute("SELECT id FROM documents WHERE kind = ? AND key = ?", (kind, key)).fetchone()
    if row is None:
        return None
    document_id = int(row[0])
    chunks: list[Any] = connection.execute(
        "SELECT id, tokens FROM chunks WHERE document_id = ?", (document_id,)
    ).fetchall()
    for chunk_id, _ in chunks:
        connection.execute("DELETE FROM lexical WHERE rowid = ?", (chunk_id,))
        connection.execute("DELETE FROM vectors WHERE chunk_id = ?", (chunk_id,))
    connection.execute("DELETE FROM chunks WHERE document_id = ?", (document_id,))
    connection.execute("DELETE FROM documents WHERE id = ?", (document_id,))
    _count(connection, kind, -len(chunks), -sum(tokens for _, tokens in chunks))
    return document_id


def _count(connection: apsw.Connection, name: str, rows: int, tokens: int) -> None:
    connection.execute(
        "INSERT INTO statistics (name, row_count, tokens) VALUES (?1, ?2, ?3) ON CONFLICT (name) DO UPDATE SET "
        "row_count = row_count + excluded.row_count, tokens = tokens + excluded.tokens",
        (name, rows, tokens),
    )


def document_states(
    connection: apsw.Connection, kind: str
) -> dict[str, tuple[str, int | None, int | None, int | None, int | None]]:
    """``key -> (hash, size, mtime_ns, inode, device)`` of every document of a kind."""
    return {
        str(key): (str(digest), size, mtime_ns, inode, device)
        for key, digest, size, mtime_ns, inode, device in connection.execute(
            "SELECT key, hash, size, mtime_ns, inode, device FROM documents WHERE kind = ?", (kind,)
        )
    }


def document_hash(connection: apsw.Connection, kind: str, key: str) -> str | None:
    """The hash of a document as it is filed now; ``None`` when it is not."""
    found = connection.execute("SELECT hash FROM documents WHERE kind = ? AND key = ?", (kind, key)).get
    return None if found is None else str(found)


def set_session_audience(connection: apsw.Connection, session_id: int, owner_private: bool) -> None:
    """File all documents of a session under another audience: private to the owner's direct sessions, or not."""
    rows: list[Any] = connection.execute(
        """SELECT c.id, d.kind, d.source, d.layer, d.title, d.path, c.text, c.heading, c.triggers, c.projects
        FROM documents AS d JOIN chunks AS c ON c.document_id = d.id
        WHERE d.session_id = ? AND d.owner_private <> ?""",
        (session_id, int(owner_private)),
    ).fetchall()
    positions: list[Any] = [
        row[0]
        for row in connection.execute(
            "SELECT position FROM documents WHERE session_id = ? AND owner_private <> ? AND kind = 'message'",
            (session_id, int(owner_private)),
        )
    ]
    connection.execute("UPDATE documents SET owner_private = ? WHERE session_id = ?", (int(owner_private), session_id))
    for chunk_id, kind, source, layer, title, path, text, heading, triggers, projects in rows:
        (words,) = prepare.words(WordsOf(kind, title, path, ((text, heading, "\n".join(json.loads(triggers))),)))
        properties = filter_tokens(
            kind=kind,
            source=source,
            layer=layer,
            session_id=session_id,
            owner_private=owner_private,
            projects=json.loads(projects),
        )
        connection.execute("DELETE FROM lexical WHERE rowid = ?", (chunk_id,))
        connection.execute(
            _INSERT_LEXICAL,
            (chunk_id, words.body, words.question, words.heading, words.path, words.trigger, properties),
        )
    refresh_contexts(connection, session_id, positions)


_LEXICAL_TABLES: Final = ("lexical", "lexical_context")
_ALWAYS: Final = {"automerge": 4, "crisismerge": 16, "hashsize": 1 << 20}
"""FTS5's own settings (its documentation, section 6)."""
_WHILE_BUILDING: Final = {"automerge": 0, "crisismerge": 64, "hashsize": 16 << 20}
"""Nobody reads what is being built, so its segments wait for the merge at the end; not all of them, because FTS5 takes
at most 2,000."""


def begin(connection: apsw.Connection) -> None:
    """Beginning of a bulk build: words are merged once, at its end, and not again and again as they come."""
    _set(connection, _WHILE_BUILDING)


def finish(connection: apsw.Connection) -> None:
    """End of a bulk build: merge the lexical tables into one segment each and note the common terms.

    Measured (design, section 7): before the merge short queries cost 2 to 4 times more.
    """
    for table in _LEXICAL_TABLES:
        connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
    _set(connection, _ALWAYS)
    refresh_common_terms(connection)


def _set(connection: apsw.Connection, settings: Mapping[str, int]) -> None:
    for table in _LEXICAL_TABLES:
        for name, value in settings.items():
            connection.execute(f"INSERT INTO {table} ({table}, rank) VALUES (?, ?)", (name, value))


def refresh_common_terms(connection: apsw.Connection) -> None:
    """Note again which terms stand in more than ``COMMON_SHARE`` of all rows, with their document counts."""
    total = int(_one(connection, "SELECT count(*) FROM chunks", ()))
    connection.execute("DELETE FROM common_terms")
    connection.execute(
        "INSERT INTO common_terms (term, documents) SELECT term, doc FROM lexical_vocabulary WHERE doc > ? "
        "AND term NOT LIKE '%.'",
        (max(20, int(total * COMMON_SHARE)),),
    )


def message_place(connection: apsw.Connection, key: str) -> tuple[int, int] | None:
    """``(session_id, position)`` of an indexed message, or ``None``."""
    row = connection.execute(
        "SELECT session_id, position FROM documents WHERE kind = 'message' AND key = ?", (key,)
    ).fetchone()
    return None if row is None or row[0] is None or row[1] is None else (int(row[0]), int(row[1]))


def delete_session(connection: apsw.Connection, session_id: int) -> int:
    """Take every document of a session out; returns how many there were."""
    found = connection.execute("SELECT kind, key FROM documents WHERE session_id = ?", (session_id,)).fetchall()
    for kind, key in found:
        delete_document(connection, str(kind), str(key))
    return len(found)


def inconsistency(connection: apsw.Connection, *, reading: bool = False) -> str | None:
    """What is wrong with the file's own bookkeeping, in words without any text of a memory; ``None`` when all fits.

    FTS5's check of itself is written to the table, so ``reading`` leaves it to ``PRAGMA integrity_check``."""
    checks = (
        ("chunks without a lexical row, or the other way round",
         "SELECT (SELECT count(*) FROM chunks) - (SELECT count(*) FROM lexical)"),
        ("chunks without a document",
         "SELECT count(*) FROM chunks WHERE document_id NOT IN (SELECT id FROM documents)"),
        ("messages without their context, or the other way round",
         "SELECT (SELECT count(*) FROM documents WHERE kind = 'message' AND position IS NOT NULL "
         "AND session_id IS NOT NULL) - (SELECT count(*) FROM lexical_context)"),
        ("statistics that do not add up",
         "SELECT (SELECT count(*) FROM chunks) - (SELECT coalesce(sum(row_count), 0) FROM statistics)"),
    )  # fmt: skip
    for problem, statement in checks:
        if _one(connection, statement, ()) != 0:
            return problem
    for table in () if reading else _LEXICAL_TABLES:
        try:
            connection.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")
        except apsw.CorruptError:
            return f"the table {table} is damaged"
    return None


def _one(connection: apsw.Connection, statement: str, bindings: tuple[object, ...]) -> int:
    row = connection.execute(statement, bindings).fetchone()
    assert row is not None
    return int(row[0])
