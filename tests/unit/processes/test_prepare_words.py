"""Preparation gives what indexing by itself would have filed: same document, same tokens, same hashes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_sqlite.generations import layout
from memory_sqlite.indexing import rows
from memory_sqlite.limits import NOTE_MAX_BYTES
from memory_sqlite.model import Chunk, Document
from memory_sqlite.processes import prepare
from memory_sqlite.processes.prepare import ChunkWords, WordsOf
from memory_sqlite.sources.notes import note_document
from memory_sqlite.sources.places import NotePlace
from memory_sqlite.sources.safe_read import NoteText, read_note

NOTE = """---
title: Netz
date: 2026-01-02
tags: [a, b]
---
# Router

The router VLAN is 42. Call `resolveLedgerCursor` in src/ledger/cursor.ts.

- 今天讨论了数据库迁移方案 <!-- trigger: migration, 迁移 --> <!-- importance: 8 -->
- Does it work? Yes, since May.

## Code

```sh
tool --no-verify E_42
```
"""


def place_of(path: Path, name: str) -> NotePlace:
    seen = path.lstat()
    return NotePlace(name, str(path.parent), path.name, seen.st_size, seen.st_mtime_ns, seen.st_ino, seen.st_dev)


@pytest.mark.parametrize("name", ["MEMORY.md", "memory/net.md"])
@pytest.mark.parametrize(
    "data",
    [NOTE.encode(), b"\xef\xbb\xbf" + NOTE.encode(), NOTE.encode("utf-16"), b"bad \xff byte\n", b"", b"a\r\nb\r\n"],
    ids=["utf-8", "bom", "utf-16", "invalid", "empty", "crlf"],
)
def test_inv_046_a_note_from_bytes_is_the_note_from_the_file(tmp_path: Path, name: str, data: bytes) -> None:
    """The hash is that of the bytes that were chunked; decoding, chunks, problems are those of reading the file."""
    path = tmp_path / "note.md"
    path.write_bytes(data)
    place = place_of(path, name)
    read = read_note(place)
    assert isinstance(read, NoteText)
    document, problems = note_document(place, read)
    prepared = prepare.prepare_note(place, data)
    assert (prepared.document, list(prepared.problems)) == (document, problems)
    assert len(prepared.words) == len(document.chunks)


@pytest.mark.parametrize("data", [bytes(1000), b"x" * (NOTE_MAX_BYTES + 1)], ids=["binary", "too large"])
def test_what_is_no_note_has_a_reason_and_no_document(tmp_path: Path, data: bytes) -> None:
    """The same reason as reading the file gives."""
    path = tmp_path / "note.md"
    path.write_bytes(data)
    place = place_of(path, "memory/note.md")
    prepared = prepare.prepare_note(place, data)
    assert prepared.document is None and prepared.words == ()
    assert list(prepared.problems) == [read_note(place)]


def filed(document: Document) -> tuple[list[Any], dict[str, list[tuple[str, int, str, int]]]]:
    """What indexing writes for a document: the chunk rows, and every token with its row, column and place."""
    connection = apsw.Connection(":memory:")
    with connection:
        layout.create(connection, {})
        rows.put_document(connection, document)
        if document.position is not None and document.session_id is not None:
            rows.refresh_contexts(connection, document.session_id, [document.position])
    chunks = connection.execute("SELECT text_hash, tokens, line_starts, flags FROM chunks ORDER BY ordinal").fetchall()
    return chunks, {table: instances(connection, table) for table in ("lexical", "lexical_context")}


def instances(connection: apsw.Connection, table: str) -> list[Any]:
    connection.execute(f"CREATE VIRTUAL TABLE temp.seen USING fts5vocab(main, {table}, instance)")
    found = connection.execute("SELECT term, doc, col, offset FROM seen ORDER BY doc, col, offset").fetchall()
    connection.execute("DROP TABLE seen")
    return [row for row in found if row[2] != "filter"]


def filed_from_words(document: Document, words: tuple[ChunkWords, ...]) -> tuple[list[Any], dict[str, list[Any]]]:
    """The same, written from prepared words alone."""
    connection = apsw.Connection(":memory:")
    with connection:
        layout.create(connection, {})
        for number, chunk in enumerate(words, 1):
            connection.execute(
                "INSERT INTO lexical (rowid, body, question, heading, path, trigger) VALUES (?, ?, ?, ?, ?, ?)",
                (number, chunk.body, chunk.question, chunk.heading, chunk.path, chunk.trigger),
            )
        if document.kind == "message":
            whole = " ".join(chunk.whole for chunk in words)
            connection.execute("INSERT INTO lexical_context (rowid, body) VALUES (1, ?)", (whole,))
    chunks = [(w.text_hash, w.count, prepare.line_starts_blob(w.line_starts), w.flags) for w in words]
    return chunks, {table: instances(connection, table) for table in ("lexical", "lexical_context")}


DOCUMENTS = {
    "note": Document(
        "note", "memory/a.md", "memory", "memory/net-2026.md",
        (
            Chunk("The router\n\nVLAN is 42.\n今天", 1, 4, "Netz > Router", ("migration", "迁移 plan")),
            Chunk("one line", 5, 5, "Other"),
            Chunk("lone \ud800 surrogate", 6, 6),
        ),
        "h", None, title="Netz",
    ),
    "record": Document(
        "record", "r1", "memory", "sessions/t/L3/2026.jsonl", (Chunk("Likes tea? Yes.", 1, 1),), "h", None, layer="L3",
        session_id=1,
    ),
    "message": Document(
        "message", "m1", "sessions", "sessions/t",
        (Chunk("Did it work? It did, yesterday. And now?", 1, 1), Chunk("second part of it", 1, 1)),
        "h", 5, layer="L0", session_id=1, position=1, title="t",
    ),
    "long": Document("note", "l", "memory", "l.md", (Chunk("word " * 3000, 1, 1),), "h", None),
}  # fmt: skip


@pytest.mark.parametrize("name", DOCUMENTS)
def test_prepared_words_file_the_same_tokens(name: str) -> None:
    """Every token stands in the same column at the same place, and the columns beside the table are equal."""
    document = DOCUMENTS[name]
    expected_chunks, expected = filed(document)
    chunks, tokens = filed_from_words(document, prepare.words(WordsOf.of(document)))
    assert chunks == expected_chunks
    assert tokens == expected
    assert expected["lexical"]
