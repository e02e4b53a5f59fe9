"""Writing documents into a generation: rows, lexical rows, contexts of messages.

Lives here: what one document becomes in the tables of ``generations.layout``. Not here: which documents changed
(``sources``, ``indexing``), transactions, files. Everything runs inside the caller's transaction. A document is
replaced whole or not at all.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any, Final

import apsw

from memory_sqlite.generations.layout import filter_tokens
from memory_sqlite.indexing.contexts import refresh_contexts as refresh_contexts
from memory_sqlite.indexing.lexical import body_tokens, heading_tokens, joined_tokens
from memory_sqlite.model import Chunk, Document
from memory_sqlite.search.sentences import message_flags, split_questions
from memory_sqlite.text.units import valid_unicode

COMMON_SHARE: Final = 0.1
"""A term in more than this share of the rows is a common term (its document count is not free to ask for)."""

_INSERT_LEXICAL: Final = (
    "INSERT INTO lexical (rowid, body, question, heading, path, trigger, filter) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_CHUNK: Final = """INSERT INTO chunks
    (document_id, ordinal, start_line, end_line, text, heading, triggers, importance, projects, supersedes,
     text_hash, tokens, line_starts, flags)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id"""
_INSERT_DOCUMENT: Final = """INSERT INTO documents
    (id, kind, key, source, path, hash, at, layer, title, session_id, owner_private, origin, role, speaker,
     record_kind, position, details, size, mtime_ns, inode, device)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id"""


def put_document(connection: apsw.Connection, document: Document) -> int:
    """Replace a document whole; returns the number of its chunks. Contexts of messages: ``refresh_contexts``."""
    known = _remove(connection, document.kind, document.key)
    document_id = _one(
        connection,
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
    total = 0
    for ordinal, chunk in enumerate(document.chunks):
        total += _put_chunk(connection, document, document_id, ordinal, chunk)
    _count(connection, document.kind, len(document.chunks), total)
    return len(document.chunks)


def _put_chunk(connection: apsw.Connection, document: Document, document_id: int, ordinal: int, chunk: Chunk) -> int:
    text = valid_unicode(chunk.text)
    asked = ""
    if document.kind == "message":
        told, asked = split_questions(text)
        body, count, starts = *joined_tokens(told), b""
    else:
        body, count, starts = body_tokens(text)
    chunk_id = _one(
        connection,
        _INSERT_CHUNK,
        (
            document_id,
            ordinal,
            chunk.start_line,
            chunk.end_line,
            text,
            valid_unicode(chunk.heading),
            json.dumps(chunk.triggers) if chunk.triggers else "[]",
            chunk.importance,
            json.dumps(chunk.projects) if chunk.projects else "[]",
            chunk.supersedes,
            blake2b(body.encode(), digest_size=16).digest(),
            count,
            starts,
            message_flags(text) if document.kind == "message" else 0,
        ),
    )
    connection.execute(
        _INSERT_LEXICAL,
        (
            chunk_id,
            body,
            joined_tokens(asked)[0],
            heading_tokens(document.title, chunk.heading),
            "" if document.kind == "message" else joined_tokens(document.path)[0],
            joined_tokens("\n".join(chunk.triggers))[0] if chunk.triggers else "",
            filter_tokens(
                kind=document.kind,
                source=document.source,
                layer=document.layer,
                session_id=document.session_id,
                owner_private=document.owner_private,
                projects=chunk.projects,
            ),
        ),
    )
    return count


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
        told, asked = split_questions(text) if kind == "message" else (text, "")
        connection.execute("DELETE FROM lexical WHERE rowid = ?", (chunk_id,))
        connection.execute(
            _INSERT_LEXICAL,
            (
                chunk_id,
                body_tokens(told)[0],
                joined_tokens(asked)[0],
                heading_tokens(title, heading),
                "" if kind == "message" else joined_tokens(path)[0],
                joined_tokens("\n".join(json.loads(triggers)))[0],
                filter_tokens(
                    kind=kind,
                    source=source,
                    layer=layer,
                    session_id=session_id,
                    owner_private=owner_private,
                    projects=json.loads(projects),
                ),
            ),
        )
    refresh_contexts(connection, session_id, positions)


def finish(connection: apsw.Connection) -> None:
    """End of a bulk build: merge the lexical tables into one segment each and note the common terms.

    Measured (design, section 7): before the merge short queries cost 2 to 4 times more.
    """
    for table in ("lexical", "lexical_context"):
        connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
    refresh_common_terms(connection)


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


def inconsistency(connection: apsw.Connection) -> str | None:
    """What is wrong with the file's own bookkeeping, in words without any text of a memory; ``None`` when all fits."""
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
    for table in ("lexical", "lexical_context"):
        try:
            connection.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")
        except apsw.CorruptError:
            return f"the table {table} is damaged"
    return None


def _one(connection: apsw.Connection, statement: str, bindings: tuple[object, ...]) -> int:
    row = connection.execute(statement, bindings).fetchone()
    assert row is not None
    return int(row[0])
