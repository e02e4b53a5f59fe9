"""Notes and words on their way to a preparation worker and back. Called by ``preparation`` and ``workers.preparation``.

Texts and bytes travel joined, what there is of every chunk as columns (``packing``): a rebuild sends each text twice
and its tokens once. Not here: what is made of them (``prepare``), frames (``frames``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final, get_args

from memory_sqlite.model import LAYERS, ORIGIN_CLASSES, SOURCES, Chunk, Document, DocumentKind, SourceProblem
from memory_sqlite.processes import checks, packing
from memory_sqlite.processes.checks import Check
from memory_sqlite.processes.frames import WireError
from memory_sqlite.processes.packing import Message
from memory_sqlite.processes.prepare import ChunkWords, PreparedNote, WordsOf
from memory_sqlite.sources.places import NotePlace

Note = tuple[NotePlace, bytes]
"""A note to be prepared: what it is called, which file it is, and its bytes."""

_strings: Final = checks.several(checks.text)

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
    "start_line": checks.whole,
    "end_line": checks.whole,
    "triggers": _strings,
    "importance": checks.optional(checks.whole),
    "projects": _strings,
    "supersedes": checks.optional(checks.text),
}
"""Columns of chunks, beside ``CHUNK_TEXTS``."""
CHUNK_TEXTS: Final = ("text", "heading")
DOCUMENT: Final[dict[str, Check[Any]]] = {
    "kind": checks.one_of(*get_args(DocumentKind)),
    "key": checks.text,
    "source": checks.one_of(*SOURCES),
    "path": checks.text,
    "chunks": checks.count,
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
"""A document; its chunks, which travel as columns, are a number."""
WORDS: Final[dict[str, Check[Any]]] = {"count": checks.count, "flags": checks.count}
"""Columns of words, beside ``WORDS_TEXTS`` and ``WORDS_BYTES``."""
WORDS_TEXTS: Final = ("body", "question", "heading", "path", "trigger", "whole")
WORDS_BYTES: Final = ("line_starts", "text_hash")
WORDS_OF: Final[dict[str, Check[Any]]] = {
    "kind": checks.one_of(*get_args(DocumentKind)),
    "title": checks.text,
    "path": checks.text,
    "chunks": checks.count,
}
"""A document whose words are wanted; its chunks are a number, and travel as texts."""


# --- words ---------------------------------------------------------------------------------------------------------


def _words_json(words: Sequence[ChunkWords]) -> Message:
    texts, blob = packing.joined_texts([getattr(one, name) for one in words for name in WORDS_TEXTS])
    runs, more = packing.joined_bytes([getattr(one, name) for one in words for name in WORDS_BYTES])
    return {"texts": texts, "runs": runs, "columns": packing.columns(words, WORDS)}, blob + more


def _words_of(said: object, blob: bytes, start: int) -> list[ChunkWords]:
    """All words in ``blob`` from ``start`` to its end."""
    fields = checks.fields(said, {"texts": checks.mapping, "runs": checks.mapping, "columns": checks.mapping})
    texts, at = packing.parted_texts(fields["texts"], blob, start)
    runs, end = packing.parted_bytes(fields["runs"], blob, at)
    groups = packing.in_groups(texts, len(WORDS_TEXTS))
    if end != len(blob) or len(runs) != len(groups) * len(WORDS_BYTES):
        raise WireError("bytes that were not asked for")
    words = []
    for number, (group, row) in enumerate(
        zip(groups, packing.rows(fields["columns"], WORDS, len(groups)), strict=True)
    ):
        starts, digest = runs[number * 2 : number * 2 + 2]
        if len(starts) % 4 or len(digest) != 16:
            raise WireError("bytes of another length than agreed")
        body, question, heading, path, trigger, whole = group
        words.append(
            ChunkWords(body, row["count"], starts, question, heading, path, trigger, whole, row["flags"], digest)
        )
    return words


def asked_json(documents: Sequence[WordsOf]) -> Message:
    """Documents whose words are wanted, as they travel."""
    texts, blob = packing.joined_texts([text for document in documents for chunk in document.chunks for text in chunk])
    rows = [[document.kind, document.title, document.path, len(document.chunks)] for document in documents]
    return {"documents": rows, "texts": texts}, blob


def asked_of(body: object, blob: bytes) -> tuple[WordsOf, ...]:
    """The same as they were. Raises ``WireError``."""
    table = {"documents": checks.several(lambda value: checks.row(value, WORDS_OF)), "texts": checks.mapping}
    fields = checks.fields(body, table)
    texts, end = packing.parted_texts(fields["texts"], blob, 0)
    chunks = iter(packing.in_groups(texts, 3))
    asked = []
    for row in fields["documents"]:
        row["chunks"] = _next_of(chunks, row["chunks"])
        asked.append(WordsOf(**row))
    _nothing_left(chunks, end, blob)
    return tuple(asked)


def words_json(words: Sequence[tuple[ChunkWords, ...]]) -> Message:
    """The words of documents as they travel."""
    return _words_json([one for of_document in words for one in of_document])


def words_of(body: object, blob: bytes, documents: Sequence[WordsOf]) -> tuple[tuple[ChunkWords, ...], ...]:
    """The same as they were. Raises ``WireError``, also for another number of chunks than was asked for."""
    words = iter(_words_of(body, blob, 0))
    found = tuple([_next_of(words, len(document.chunks)) for document in documents])
    _nothing_left(words, len(blob), blob)
    return found


def _next_of(values: Iterator[Any], count: int) -> tuple[Any, ...]:
    taken = tuple(islice(values, count))
    if len(taken) != count:
        raise WireError("fewer chunks than agreed")
    return taken


def _nothing_left(values: Iterator[Any], end: int, blob: bytes) -> None:
    if end != len(blob) or next(values, None) is not None:
        raise WireError("more than was agreed")


# --- notes ---------------------------------------------------------------------------------------------------------


def notes_json(notes: Sequence[Note], redact: bool) -> Message:
    """Notes to be prepared, as they travel."""
    runs, blob = packing.joined_bytes([data for _, data in notes])
    return {"redact": redact, "notes": [_row(place, PLACE) for place, _ in notes], "runs": runs}, blob


def notes_of(body: object, blob: bytes) -> tuple[list[Note], bool]:
    """The same as they were, and whether secrets are to be masked. Raises ``WireError``."""
    table = {
        "redact": checks.truth,
        "notes": checks.several(lambda value: NotePlace(**checks.row(value, PLACE))),
        "runs": checks.mapping,
    }
    fields = checks.fields(body, table)
    data, end = packing.parted_bytes(fields["runs"], blob, 0)
    if end != len(blob) or len(data) != len(fields["notes"]):
        raise WireError("other bytes than agreed")
    return list(zip(fields["notes"], data, strict=True)), fields["redact"]


def prepared_json(notes: Sequence[PreparedNote]) -> Message:
    """Prepared notes as they travel."""
    rows: list[list[Any]] = []
    chunks: list[Chunk] = []
    for note in notes:
        row = None
        if note.document is not None:
            row = _row(note.document, DOCUMENT)
            row[_CHUNKS] = len(note.document.chunks)
            row[_DETAILS] = dict(note.document.details)
            chunks += note.document.chunks
        rows.append([row, [_row(problem, PROBLEM) for problem in note.problems]])
    texts, blob = packing.joined_texts([getattr(chunk, name) for chunk in chunks for name in CHUNK_TEXTS])
    words, more = _words_json([one for note in notes for one in note.words])
    return {"notes": rows, "texts": texts, "columns": packing.columns(chunks, CHUNK), "words": words}, blob + more


_ANSWERED: Final[dict[str, Check[Any]]] = {
    "document": checks.optional(lambda value: checks.row(value, DOCUMENT)),
    "problems": checks.several(lambda value: SourceProblem(**checks.row(value, PROBLEM))),
}
_ANSWER: Final[dict[str, Check[Any]]] = {
    "notes": checks.several(lambda value: checks.row(value, _ANSWERED)),
    "texts": checks.mapping,
    "columns": checks.mapping,
    "words": checks.mapping,
}


def prepared_of(body: object, blob: bytes, places: Sequence[NotePlace]) -> tuple[PreparedNote, ...]:
    """The same as they were. Raises ``WireError``, also for other notes than were asked for."""
    fields = checks.fields(body, _ANSWER)
    texts, end = packing.parted_texts(fields["texts"], blob, 0)
    groups = packing.in_groups(texts, len(CHUNK_TEXTS))
    rows = packing.rows(fields["columns"], CHUNK, len(groups))
    chunks = (Chunk(text=text, heading=heading, **row) for (text, heading), row in zip(groups, rows, strict=True))
    words = iter(_words_of(fields["words"], blob, end))
    if len(fields["notes"]) != len(places):
        raise WireError("other notes than were asked for")
    notes = []
    for place, row in zip(places, fields["notes"], strict=True):
        said = row["document"]
        if said is None:
            notes.append(PreparedNote(None, row["problems"], ()))
            continue
        if (said["kind"], said["key"]) != ("note", place.path):
            raise WireError("another note than was asked for")
        # lists are what tuples become on the way; tags are a tuple
        details = {name: tuple(v) if isinstance(v, list) else v for name, v in said["details"].items()}
        count = said["chunks"]
        document = Document(**{**said, "chunks": _next_of(chunks, count), "details": details})
        notes.append(PreparedNote(document, row["problems"], _next_of(words, count)))
    _nothing_left(words, len(blob), blob)
    _nothing_left(chunks, len(blob), blob)
    return tuple(notes)


_CHUNKS: Final = list(DOCUMENT).index("chunks")
_DETAILS: Final = list(DOCUMENT).index("details")


def _row(value: object, table: dict[str, Check[Any]]) -> list[Any]:
    return [getattr(value, name) for name in table]
