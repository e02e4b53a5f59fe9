"""Preparation, the one place where text becomes lexical columns: documents, masked secrets, tokens, hashes."""

from __future__ import annotations

from array import array
from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_sqlite.generations import layout
from memory_sqlite.indexing import rows
from memory_sqlite.limits import NOTE_MAX_BYTES
from memory_sqlite.model import Chunk, Document
from memory_sqlite.processes import prepare, prepared
from memory_sqlite.processes.prepare import ChunkWords, WordsOf
from memory_sqlite.search.sentences import message_flags
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
def test_a_note_from_bytes_is_the_note_from_the_file(tmp_path: Path, name: str, data: bytes) -> None:
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


SECRET = "ghp_" + "x8Kq2Zr9Lm4Wt7Yc1Vb6Nd3Hf5Jg0PsAaQeR1"


def test_a_secret_is_masked_before_anything_is_made_of_it(tmp_path: Path) -> None:
    """No chunk, no token, no title holds it; lines are counted as before, and the hash is that of the bytes."""
    path = tmp_path / "note.md"
    path.write_text(f"# Key {SECRET}\n\nPush with {SECRET} <!-- trigger: {SECRET} -->\n\nThe last line.\n")
    place, data = place_of(path, "memory/note.md"), path.read_bytes()
    masked = prepare.prepare_note(place, data, redact=True)
    assert SECRET.lower() not in repr(masked).lower()
    assert "[secret:" in repr(masked)
    plain = prepare.prepare_note(place, data, redact=False)
    assert SECRET in repr(plain)
    assert masked.document is not None and plain.document is not None
    assert masked.document.hash == plain.document.hash == sha256(data).hexdigest()
    assert [chunk.end_line for chunk in masked.document.chunks] == [chunk.end_line for chunk in plain.document.chunks]


def filed(document: Document, *words: tuple[ChunkWords, ...]) -> tuple[list[Any], dict[str, list[Any]]]:
    """What is written for a document: its chunk rows, and every token with its row, column and place."""
    connection = apsw.Connection(":memory:")
    with connection:
        layout.create(connection, {})
        rows.put_document(connection, document, *words)
        if document.position is not None and document.session_id is not None:
            said = {document.position: prepare.whole(words[0])} if words else {}
            rows.refresh_contexts(connection, document.session_id, [document.position], said)
    chunks = connection.execute("SELECT text_hash, tokens, line_starts, flags FROM chunks ORDER BY ordinal").fetchall()
    return chunks, {table: instances(connection, table) for table in ("lexical", "lexical_context")}


def instances(connection: apsw.Connection, table: str) -> list[Any]:
    connection.execute(f"CREATE VIRTUAL TABLE temp.seen USING fts5vocab(main, {table}, instance)")
    found = connection.execute("SELECT term, doc, col, offset FROM seen ORDER BY doc, col, offset").fetchall()
    connection.execute("DROP TABLE seen")
    return [row for row in found if row[2] != "filter"]


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
def test_words_made_elsewhere_are_filed_as_those_made_in_place(name: str) -> None:
    """Whoever made them, also with what they cross a pipe as: each token stands in the same column at the same place,
    and the columns beside the table are equal."""
    document = DOCUMENTS[name]
    expected = filed(document)
    assert expected[1]["lexical"]
    asked = prepared.asked_of(*prepared.asked_json([WordsOf.of(document)]))
    (words,) = prepared.words_of(*prepared.words_json([prepare.words(one) for one in asked]), asked)
    assert filed(document, words) == expected


def test_columns_hold_what_they_are_for() -> None:
    """Statements and questions of a message apart, both in ``whole``; title and headings once; where lines begin."""
    (first, second) = prepare.words(WordsOf.of(DOCUMENTS["message"]))
    assert (first.body, first.question) == ("it did yesterday", "did it work and now")
    assert first.whole == "did it work it did yesterday and now"
    assert first.flags == message_flags("Did it work? It did, yesterday. And now?")
    assert (second.whole, second.question, second.path, second.line_starts) == ("second part of it", "", "", b"")
    assert prepare.whole((first, second)) == f"{first.whole} {second.whole}"
    note, other = prepare.words(WordsOf.of(DOCUMENTS["note"]))[:2]
    assert (note.heading, other.heading) == ("netz router", "netz other")
    assert array("I", note.line_starts).tolist() == [0, 2, 2, 5]
    assert note.count == 8 and note.body.split()[5:] == ["今", "今天", "天"]
    assert note.trigger.startswith("migration") and "2026" in note.path
    assert (note.whole, note.question, note.flags) == ("", "", 0)
