"""The schema of a generation file: documents, chunks, lexical tables, and what the file says about itself.

Lives here: every table of ``index-000042.sqlite`` and its ``meta`` rows. Not here: pragmas, file names, publishing
(the caller's), what goes into the tables (``indexing.rows``) and how they are asked (``search``). Derived data: a file
of another ``FORMAT`` or identity is rebuilt, never migrated.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any, Final

import apsw

from memory_sqlite.text.project_keys import project_key

FORMAT: Final = 2
"""Raised with every change of the tables below."""

FTS_TOKENIZER: Final = "porter unicode61 remove_diacritics 0 categories 'L* N* M* P* S* C*'"
"""FTS5 splits our joined tokens at spaces only and stems them: everything but a separator is a token character."""

LEXICAL_COLUMNS: Final = ("body", "question", "heading", "path", "trigger", "filter")
"""Columns of ``lexical``. ``question`` holds the question sentences of a message, so that a question is not taken for
its answer: they count a third (the recipe that found most of LoCoMo's evidence leaves them out of a message's own
text). ``filter`` holds tokens that end in a full stop, which no token of a text does; its weight is 0."""

CONTEXT_COLUMNS: Final = ("body", "before", "after", "far", "filter")
"""Columns of ``lexical_context``: the whole message, its neighbours next to it, and those one further away."""

_TABLES: Final = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID",
    """CREATE TABLE documents (
        id INTEGER PRIMARY KEY,
        kind TEXT NOT NULL CHECK (kind IN ('note', 'record', 'message')),
        key TEXT NOT NULL,
        source TEXT NOT NULL CHECK (source IN ('memory', 'sessions')),
        path TEXT NOT NULL,
        hash TEXT NOT NULL,
        at INTEGER,
        layer TEXT CHECK (layer IN ('L0', 'L1', 'L2', 'L3')),
        title TEXT NOT NULL,
        session_id INTEGER,
        owner_private INTEGER NOT NULL CHECK (owner_private IN (0, 1)),
        origin TEXT NOT NULL,
        role TEXT,
        speaker TEXT,
        record_kind TEXT,
        position INTEGER,
        details TEXT NOT NULL,
        size INTEGER,
        mtime_ns INTEGER,
        inode INTEGER,
        device INTEGER,
        UNIQUE (kind, key)
    ) STRICT""",
    """CREATE INDEX documents_by_session ON documents (session_id, position) WHERE session_id IS NOT NULL""",
    """CREATE TABLE chunks (
        id INTEGER PRIMARY KEY,
        document_id INTEGER NOT NULL REFERENCES documents (id) ON DELETE CASCADE,
        ordinal INTEGER NOT NULL,
        start_line INTEGER NOT NULL,
        end_line INTEGER NOT NULL,
        text TEXT NOT NULL,
        heading TEXT NOT NULL,
        triggers TEXT NOT NULL,
        importance INTEGER,
        projects TEXT NOT NULL,
        supersedes TEXT,
        text_hash BLOB NOT NULL,
        tokens INTEGER NOT NULL,
        line_starts BLOB NOT NULL,
        flags INTEGER NOT NULL,
        UNIQUE (document_id, ordinal)
    ) STRICT""",
    "CREATE TABLE statistics (name TEXT PRIMARY KEY, row_count INTEGER NOT NULL, tokens INTEGER NOT NULL) STRICT",
    "CREATE TABLE common_terms (term TEXT PRIMARY KEY, documents INTEGER NOT NULL) STRICT, WITHOUT ROWID",
    f"""CREATE VIRTUAL TABLE lexical USING fts5(
        {", ".join(LEXICAL_COLUMNS)}, content='', contentless_delete=1, tokenize="{FTS_TOKENIZER}")""",
    f"""CREATE VIRTUAL TABLE lexical_context USING fts5(
        {", ".join(CONTEXT_COLUMNS)}, content='', contentless_delete=1, tokenize="{FTS_TOKENIZER}")""",
    """CREATE TABLE vector_spaces (
        id INTEGER PRIMARY KEY,
        identity TEXT NOT NULL UNIQUE,
        dimensions INTEGER NOT NULL CHECK (dimensions > 0),
        weight TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('filling', 'complete')),
        cost TEXT NOT NULL DEFAULT 'free' CHECK (cost IN ('free', 'paid'))
    ) STRICT""",
    """CREATE TABLE vectors (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        space_id INTEGER NOT NULL REFERENCES vector_spaces (id) ON DELETE CASCADE,
        chunk_id INTEGER NOT NULL REFERENCES chunks (id) ON DELETE CASCADE,
        input_hash BLOB NOT NULL,
        vector BLOB NOT NULL,
        UNIQUE (chunk_id, space_id)
    ) STRICT""",
    "CREATE INDEX vectors_by_input ON vectors (space_id, input_hash)",
    "CREATE VIRTUAL TABLE lexical_vocabulary USING fts5vocab('lexical', 'row')",
    "CREATE VIRTUAL TABLE lexical_context_vocabulary USING fts5vocab('lexical_context', 'row')",
)
"""``lexical`` has one row per chunk (same rowid); ``lexical_context`` one per message document (rowid = document id):
the message and its two neighbours on each side. ``line_starts`` is the token number at which each line of a chunk
begins, as native unsigned 32-bit numbers. ``statistics`` keeps rows and tokens per kind and for the contexts, because
a message of 20 tokens and a note chunk of 400 must not share one average length.

``vectors`` holds the truth of the vector leg: one row for each chunk and space, ``vector`` the little-endian float32
numbers of a vector of length 1, ``input_hash`` over the text that was embedded, so that an equal text need not be
embedded again. They go with their chunk. Numbers of rows are never used twice, so that a reader that holds some of them
in memory sees what came and what went. A space is what one embedding identity (JSON) has filled; ``weight`` is JSON;
``cost`` is that of the provider, so that vectors that were paid for are known without it."""


def create(connection: apsw.Connection, identity: Mapping[str, Any]) -> None:
    """Make all tables in an empty file; pragmas and the transaction are the caller's."""
    for statement in _TABLES:
        connection.execute(statement).fetchall()
    for key, value in (("format", FORMAT), ("identity", dict(identity)), ("applied_seq", 0)):
        write_meta(connection, key, value)


def read_meta(connection: apsw.Connection) -> dict[str, Any]:
    """Everything the file says about itself: ``format``, ``identity``, ``applied_seq`` and what others wrote there."""
    return {str(key): json.loads(str(value)) for key, value in connection.execute("SELECT key, value FROM meta")}


def write_meta(connection: apsw.Connection, key: str, value: Any) -> None:
    """Set one key and leave the others; the value is anything that JSON can hold."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    connection.execute(
        "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (key, text),
    ).fetchall()


def filter_tokens(
    *,
    kind: str,
    source: str,
    layer: str | None,
    session_id: int | None,
    owner_private: bool,
    projects: Iterable[str] = (),
) -> str:
    """The ``filter`` column of a row: one token for each property that a search may filter by."""
    tokens = [f"kind={kind}.", f"source={source}."]
    if layer is not None:
        tokens.append(f"layer={layer.lower()}.")
    if session_id is not None:
        tokens.append(session_token(session_id))
    if owner_private:
        tokens.append(PRIVATE_TOKEN)
    tokens.extend(project_token(project) for project in projects)
    return " ".join(tokens)


PRIVATE_TOKEN: Final = "private."
PROJECT_PREFIX: Final = "project="
"""What every project's token begins with: a row without one belongs to no project."""


def session_token(session_id: int) -> str:
    """Filter token of a session, by the store's number (never by its key, which is user text)."""
    return f"session={session_id}."


def project_token(project: str) -> str:
    """Filter token of a project key: a digest, because a key is user text."""
    key = project_key(project).encode("utf-8", "replace")
    return f"{PROJECT_PREFIX}{blake2b(key, digest_size=8).hexdigest()}."
