"""Writing documents into a generation: rows, lexical rows, contexts of messages.

Lives here: what one document becomes in the tables of ``generations.layout``. Not here: which documents changed
(``sources``, ``indexing``), transactions, files. Everything runs inside the caller's transaction. A document is
replaced whole or not at all.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

import apsw

from memory_sqlite.generations.layout import filter_tokens
from memory_sqlite.limits import CONTEXT_MESSAGES
from memory_sqlite.model import Chunk, Document
from memory_sqlite.search.sentences import message_flags, split_questions
from memory_sqlite.search.tokens import tokenise
from memory_sqlite.text.units import valid_unicode

COMMON_SHARE: Final = 0.1
"""A term in more than this share of the rows is a common term (its document count is not free to ask for)."""

_CACHED_CHARS: Final = 4_000

_INSERT_LEXICAL: Final = (
    "INSERT INTO lexical (rowid, body, question, heading, path, trigger, filter) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_CONTEXT: Final = (
    "INSERT INTO lexical_context (rowid, body, before, after, far, filter) VALUES (?, ?, ?, ?, ?, ?)"
)
_INSERT_CHUNK: Final = """INSERT INTO chunks
    (document_id, ordinal, start_line, end_line, text, heading, triggers, importance, projects, supersedes,
     text_hash, tokens, line_starts, flags)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id"""
_INSERT_DOCUMENT: Final = """INSERT INTO documents
    (id, kind, key, source, path, hash, at, layer, title, session_id, owner_private, origin, role, speaker,
     record_kind, position, details, size, mtime_ns, inode, device)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id"""


@lru_cache(maxsize=8192)
def _cached_tokens(text: str) -> tuple[str, int]:
    tokens = tokenise(text)
    return " ".join(tokens), len(tokens)


def _tokens(text: str) -> tuple[str, int]:
    """Joined tokens and their number. Short texts are remembered: overlapping chunks and windows repeat them."""
    if not text:
        return "", 0
    if len(text) <= _CACHED_CHARS:
        return _cached_tokens(text)
    tokens = tokenise(text)
    return " ".join(tokens), len(tokens)


def _body(text: str) -> tuple[str, int, bytes]:
    """Tokens of a text with the token number at which each line begins (empty for a single line)."""
    if "\n" not in text:
        joined, count = _tokens(text)
        return joined, count, b""
    starts = array("I")
    parts: list[str] = []
    total = 0
    for line in text.split("\n"):
        starts.append(total)
        joined, count = _tokens(line)
        if count:
            parts.append(joined)
            total += count
    return " ".join(parts), total, starts.tobytes()


def _heading(title: str, heading: str) -> str:
    if not title or heading.startswith(title):
        return _tokens(heading)[0]
    return _tokens(f"{title}\n{heading}")[0]


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
        body, count, starts = *_tokens(told), b""
    else:
        body, count, starts = _body(text)
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
            _tokens(asked)[0],
            _heading(document.title, chunk.heading),
            "" if document.kind == "message" else _tokens(document.path)[0],
            _tokens("\n".join(chunk.triggers))[0] if chunk.triggers else "",
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


def refresh_contexts(connection: apsw.Connection, session_id: int, positions: Iterable[int]) -> None:
    """Rewrite the context rows of these positions of a session and of their neighbours on each side.

    Call it after messages were put or deleted; texts come from the index. Neighbours are the nearest messages that are
    indexed: tool output between two of them does not part them.
    """
    changed = sorted(set(positions))
    if not changed:
        return
    owners: list[tuple[int, int, str, str | None, int]] = []
    texts: list[str] = []
    rows: list[Any] = connection.execute(
        """SELECT d.id, d.position, d.source, d.layer, d.owner_private, c.text FROM documents AS d
        JOIN chunks AS c ON c.document_id = d.id
        WHERE d.session_id = ? AND d.position BETWEEN ? AND ? AND d.kind = 'message' ORDER BY d.position, c.ordinal""",
        (session_id, *_reach(connection, session_id, changed[0], changed[-1])),
    ).fetchall()
    for document_id, position, source, layer, private, text in rows:
        if owners and owners[-1][0] == document_id:
            texts[-1] += "\n" + text
        else:
            owners.append((document_id, position, source, layer, private))
            texts.append(text)
    known = [owner[1] for owner in owners]
    for place in sorted(_touched(known, changed)):
        document_id, _, source, layer, private = owners[place]
        connection.execute("DELETE FROM lexical_context WHERE rowid = ?", (document_id,))
        steps = range(2, CONTEXT_MESSAGES + 1)
        far = [other for step in steps for other in (place - step, place + step)]
        connection.execute(
            _INSERT_CONTEXT,
            (
                document_id,
                *(_joined(texts, places) for places in ([place], [place - 1], [place + 1], far)),
                filter_tokens(
                    kind="message", source=source, layer=layer, session_id=session_id, owner_private=bool(private)
                ),
            ),
        )


def _reach(connection: apsw.Connection, session_id: int, first: int, last: int) -> tuple[int, int]:
    """Positions between which all texts lie that the windows around ``first`` to ``last`` are made of."""
    reach = 2 * CONTEXT_MESSAGES
    before: list[Any] = connection.execute(
        "SELECT position FROM documents WHERE session_id = ? AND position < ? ORDER BY position DESC LIMIT ?",
        (session_id, first, reach),
    ).fetchall()
    after: list[Any] = connection.execute(
        "SELECT position FROM documents WHERE session_id = ? AND position > ? ORDER BY position LIMIT ?",
        (session_id, last, reach),
    ).fetchall()
    return (before[-1][0] if before else first), (after[-1][0] if after else last)


def _touched(known: list[int], changed: Iterable[int]) -> set[int]:
    """Indexes into ``known`` of what lies within a window of a changed position, which may itself be gone."""
    touched: set[int] = set()
    for position in changed:
        place = bisect_left(known, position)
        present = place < len(known) and known[place] == position
        touched.update(range(place - CONTEXT_MESSAGES, place + CONTEXT_MESSAGES + present))
    return {place for place in touched if 0 <= place < len(known)}


def _joined(texts: list[str], places: Iterable[int]) -> str:
    return " ".join(_tokens(texts[place])[0] for place in places if 0 <= place < len(texts))


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
                _body(told)[0],
                _tokens(asked)[0],
                _heading(title, heading),
                "" if kind == "message" else _tokens(path)[0],
                _tokens("\n".join(json.loads(triggers)))[0],
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
