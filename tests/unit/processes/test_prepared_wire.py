"""Notes and words on their way to a preparation worker: nothing is lost, and nothing else than was agreed is taken."""

from __future__ import annotations

import copy
import os
from typing import Any

import pytest

from memory_sqlite.model import Chunk, Document, SourceProblem
from memory_sqlite.processes import frames, packing, prepared
from memory_sqlite.processes.frames import FrameReader, WireError
from memory_sqlite.processes.prepare import ChunkWords, PreparedNote, WordsOf
from memory_sqlite.sources.places import NotePlace

PLACE = NotePlace("memory/a.md", "/w", "memory/a.md", 10, 5, 6, 7)
OTHER = NotePlace("memory/b \ud800.md", "/w", "memory/b.md", 0, -5, 0, 2**60)
WORDS = ChunkWords("a b", 2, b"\0\0\0\0\1\0\0\0", "", "h", "p", "t", "", 0, b"\1" * 16)
SAID = ChunkWords("今 今天 天", 3, b"", "q \ud83d", "", "", "", "w\u2028", 3, b"\0" * 16)
NOTE = Document(
    "note", "memory/a.md", "memory", "memory/a.md",
    (Chunk("a\nb", 1, 2, "h", ("t", "\n"), 3, ("p",), None), Chunk("\ud800今\0", 3, 3, supersedes="r#1")), "ff", 5,
    title="t", owner_private=True, details={"tags": ("x", "y")}, size=10, mtime_ns=5, inode=6, device=7,
)  # fmt: skip
READ = PreparedNote(NOTE, (SourceProblem("memory/a.md", "odd", 3),), (WORDS, SAID))
UNREAD = PreparedNote(None, (SourceProblem("memory/b.md", "is not text"),), ())
EMPTY = PreparedNote(Document("note", PLACE.path, "memory", PLACE.path, (), "ff", None), (), ())


def sent(message: packing.Message) -> packing.Message:
    """A message as the other side gets it."""
    read, write = os.pipe()
    try:
        os.write(write, frames.pack(message[0], message[1]))
        frame = FrameReader(read).read()
        assert frame is not None
        return frame.header, frame.blob
    finally:
        os.close(read)
        os.close(write)


@pytest.mark.parametrize("redact", [True, False])
def test_notes_that_are_asked_for_survive_the_way(redact: bool) -> None:
    """Which file each is, its bytes whatever they are, and whether secrets are masked."""
    notes = [(PLACE, b"\xff\0bytes"), (OTHER, b""), (PLACE, "今".encode())]
    assert prepared.notes_of(*sent(prepared.notes_json(notes, redact))) == (notes, redact)
    assert prepared.notes_of(*sent(prepared.notes_json([], redact))) == ([], redact)


def test_prepared_notes_survive_the_way() -> None:
    """With their words, without a document, without a chunk: each in its own types, lone surrogates too."""
    notes = (READ, UNREAD, EMPTY, READ)
    places = [PLACE, OTHER, PLACE, PLACE]
    assert prepared.prepared_of(*sent(prepared.prepared_json(notes)), places) == notes
    assert prepared.prepared_of(*sent(prepared.prepared_json(())), []) == ()


def test_words_survive_the_way() -> None:
    """Documents with none, one and two chunks, and the words of each."""
    documents = (WordsOf.of(NOTE), WordsOf("message", "", "s", ()), WordsOf("record", "\ud800", "", (("x", "", ""),)))
    assert prepared.asked_of(*sent(prepared.asked_json(documents))) == documents
    words = ((WORDS, SAID), (), (WORDS,))
    assert prepared.words_of(*sent(prepared.words_json(words)), documents) == words


@pytest.mark.parametrize(
    ("notes", "places"),
    [
        ((READ,), [OTHER]),
        ((READ,), [PLACE, PLACE]),
        ((READ, READ), [PLACE]),
        ((PreparedNote(NOTE, (), (WORDS,)),), [PLACE]),
        ((PreparedNote(NOTE, (), (WORDS, SAID, SAID)),), [PLACE]),
        ((PreparedNote(None, (), (WORDS,)),), [PLACE]),
    ],
    ids=["another", "too few", "too many", "words short", "words over", "words of nothing"],
)
def test_other_notes_than_were_asked_for_are_refused(notes: tuple[PreparedNote, ...], places: list[NotePlace]) -> None:
    """Names, and numbers of notes and chunks, must fit."""
    with pytest.raises(WireError):
        prepared.prepared_of(*prepared.prepared_json(notes), places)


def test_other_words_than_were_asked_for_are_refused() -> None:
    """As many as there are chunks."""
    documents = (WordsOf("note", "", "n", (("x", "", ""), ("y", "", ""))),)
    for words in (((WORDS,),), ((WORDS, WORDS, WORDS),), ()):
        with pytest.raises(WireError):
            prepared.words_of(*prepared.words_json(words), documents)


CHANGES: list[Any] = [None, -1, 10**6, "x", [], {}, True]


def damaged(message: packing.Message) -> list[packing.Message]:
    """The message with every value in it replaced by each of some others, and with other bytes."""
    body, blob = message
    made: list[packing.Message] = [(body, blob[:-1]), (body, blob + b"x"), (body, b""), (body, b"\xff" * len(blob))]

    def inside(value: Any, path: tuple[Any, ...]) -> None:
        children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for name, child in children:
            inside(child, (*path, name))
        for change in CHANGES:
            if path and not (type(change) is type(value) and change == value):
                other = copy.deepcopy(body)
                holder: Any = other
                for name in path[:-1]:
                    holder = holder[name]
                holder[path[-1]] = change
                made.append((other, blob))

    inside(body, ())
    return made


def test_a_damaged_message_is_refused_or_is_one_of_the_same_shape() -> None:
    """Whatever stands where something else was agreed: a ``WireError``, and never another error or a wrong number."""
    documents = (WordsOf.of(NOTE),)
    refused = 0
    for body, blob in damaged(prepared.prepared_json((READ, UNREAD))):
        try:
            notes = prepared.prepared_of(body, blob, [PLACE, OTHER])
        except WireError:
            refused += 1
            continue
        for note in notes:
            assert len(note.words) == (len(note.document.chunks) if note.document else 0)
    for body, blob in damaged(prepared.words_json(((WORDS, SAID),))):
        try:
            assert [len(words) for words in prepared.words_of(body, blob, documents)] == [2]
        except WireError:
            refused += 1
    for body, blob in damaged(prepared.asked_json(documents)):
        try:
            prepared.asked_of(body, blob)
        except WireError:
            refused += 1
    for body, blob in damaged(prepared.notes_json([(PLACE, b"ab"), (OTHER, b"c")], True)):
        try:
            prepared.notes_of(body, blob)
        except WireError:
            refused += 1
    assert refused > 500
