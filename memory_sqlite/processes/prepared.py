"""Prepared notes and words as JSON, and back. Called by ``preparation`` (parent) and ``workers.preparation``."""

from __future__ import annotations

from typing import Any, Final

from memory_sqlite.model import LAYERS, ORIGIN_CLASSES, SOURCES, Chunk, Document, SourceProblem
from memory_sqlite.processes import checks
from memory_sqlite.processes.checks import Check
from memory_sqlite.processes.frames import WireError
from memory_sqlite.processes.hits import KINDS
from memory_sqlite.processes.prepare import ChunkWords, PreparedNote, WordsOf
from memory_sqlite.sources.places import NotePlace

_strings: Final = checks.several(checks.text)


def _hash(value: object) -> bytes:
    try:
        return bytes.fromhex(checks.text(value))
    except ValueError:
        raise WireError("not hexadecimal") from None


PLACE: Final[dict[str, Check[Any]]] = {
    "path": checks.text,
    "root": checks.text,
    "relative": checks.text,
    "size": checks.count,
    "mtime_ns": checks.whole,
    "inode": checks.count,
    "device": checks.count,
}
PROBLEM: Final[dict[str, Check[Any]]] = {
    "path": checks.text,
    "reason": checks.text,
    "line": checks.optional(checks.whole),
}
CHUNK: Final[dict[str, Check[Any]]] = {
    "text": checks.text,
    "start_line": checks.whole,
    "end_line": checks.whole,
    "heading": checks.text,
    "triggers": _strings,
    "importance": checks.optional(checks.whole),
    "projects": _strings,
    "supersedes": checks.optional(checks.text),
}
DOCUMENT: Final[dict[str, Check[Any]]] = {
    "kind": checks.one_of(*KINDS),
    "key": checks.text,
    "source": checks.one_of(*SOURCES),
    "path": checks.text,
    "chunks": checks.several(lambda value: Chunk(**checks.row(value, CHUNK))),
    "hash": checks.text,
    "at": checks.optional(checks.whole),
    "layer": checks.optional(checks.one_of(*LAYERS)),
    "title": checks.text,
    "session_id": checks.optional(checks.whole),
    "owner_private": checks.truth,
    "origin": checks.one_of(*ORIGIN_CLASSES),
    "role": checks.optional(checks.text),
    "speaker": checks.optional(checks.text),
    "record_kind": checks.optional(checks.text),
    "position": checks.optional(checks.whole),
    "details": checks.mapping,
    "size": checks.optional(checks.count),
    "mtime_ns": checks.optional(checks.whole),
    "inode": checks.optional(checks.count),
    "device": checks.optional(checks.count),
}
WORDS: Final[dict[str, Check[Any]]] = {
    "body": checks.text,
    "count": checks.count,
    "line_starts": checks.several(checks.count),
    "question": checks.text,
    "heading": checks.text,
    "path": checks.text,
    "trigger": checks.text,
    "whole": checks.text,
    "flags": checks.count,
    "text_hash": _hash,
}
_OF_CHUNK: Final[dict[str, Check[Any]]] = {"text": checks.text, "heading": checks.text, "triggers": _strings}
WORDS_OF: Final[dict[str, Check[Any]]] = {
    "kind": checks.one_of(*KINDS),
    "title": checks.text,
    "path": checks.text,
    "chunks": checks.several(lambda value: tuple(checks.row(value, _OF_CHUNK).values())),
}
_words_rows: Final = checks.several(lambda value: ChunkWords(**checks.row(value, WORDS)))
_NOTE_ANSWER: Final[dict[str, Check[Any]]] = {
    "document": checks.optional(lambda value: Document(**checks.row(value, DOCUMENT))),
    "problems": checks.several(lambda value: SourceProblem(**checks.row(value, PROBLEM))),
    "words": _words_rows,
}


def place_json(place: NotePlace) -> dict[str, Any]:
    """What a note is called and which file it is."""
    return {name: getattr(place, name) for name in PLACE}


def place_of(body: object) -> NotePlace:
    """The same from JSON. Raises ``WireError``."""
    return NotePlace(**checks.fields(body, PLACE))


def note_json(note: PreparedNote) -> dict[str, Any]:
    """A prepared note as JSON."""
    document = None
    if note.document is not None:
        document = _row(note.document, DOCUMENT)
        document[_CHUNKS] = [_row(chunk, CHUNK) for chunk in note.document.chunks]
        document[_DETAILS] = dict(note.document.details)
    return {
        "document": document,
        "problems": [_row(problem, PROBLEM) for problem in note.problems],
        "words": _words_json(note.words),
    }


def note_of(body: object, place: NotePlace) -> PreparedNote:
    """A prepared note from JSON. Raises ``WireError``, also for another note than was asked for."""
    note = PreparedNote(**checks.fields(body, _NOTE_ANSWER))
    document = note.document
    if document is not None and (document.kind, document.key) != ("note", place.path):
        raise WireError("another note than was asked for")
    if len(note.words) != (0 if document is None else len(document.chunks)):
        raise WireError("not the words of these chunks")
    if document is not None:
        # a mapping travels as lists; tags are a tuple
        details = {name: tuple(v) if isinstance(v, list) else v for name, v in document.details.items()}
        object.__setattr__(document, "details", details)
    return note


def asked_json(documents: tuple[WordsOf, ...]) -> dict[str, Any]:
    """Documents whose words are wanted, as JSON."""
    return {"documents": [_row(document, WORDS_OF) for document in documents]}


def asked_of(body: object) -> tuple[WordsOf, ...]:
    """The same from JSON. Raises ``WireError``."""
    table = {"documents": checks.several(lambda value: WordsOf(**checks.row(value, WORDS_OF)))}
    return tuple(checks.fields(body, table)["documents"])


def words_json(words: tuple[tuple[ChunkWords, ...], ...]) -> dict[str, Any]:
    """The words of documents as JSON."""
    return {"words": [_words_json(of_document) for of_document in words]}


def words_of(body: object, documents: tuple[WordsOf, ...]) -> tuple[tuple[ChunkWords, ...], ...]:
    """The same from JSON. Raises ``WireError``, also for another number of documents or chunks."""
    words = tuple(checks.fields(body, {"words": checks.several(_words_rows)})["words"])
    if [len(of_document) for of_document in words] != [len(document.chunks) for document in documents]:
        raise WireError("not the words of these documents")
    return words


def _words_json(words: tuple[ChunkWords, ...]) -> list[list[Any]]:
    rows = [_row(one, WORDS) for one in words]
    for row in rows:
        row[_TEXT_HASH] = row[_TEXT_HASH].hex()
    return rows


_CHUNKS: Final = list(DOCUMENT).index("chunks")
_DETAILS: Final = list(DOCUMENT).index("details")
_TEXT_HASH: Final = list(WORDS).index("text_hash")


def _row(value: object, table: dict[str, Check[Any]]) -> list[Any]:
    return [getattr(value, name) for name in table]
