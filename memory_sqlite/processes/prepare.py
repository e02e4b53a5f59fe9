"""Preparation: a note's bytes as a document, and the tokens of chunks as the lexical tables take them. Pure.

Decode, strip annotations, chunk, hash, tokenise: everything that costs time before a row is written, and nothing that
reads a disk or a database. Runs in preparation workers, and in the process itself where there are none. Called by
``workers.preparation`` and by whoever fills a generation.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from memory_sqlite import limits
from memory_sqlite.model import Document, DocumentKind, SourceProblem
from memory_sqlite.search.sentences import message_flags, split_questions
from memory_sqlite.search.tokens import tokenise
from memory_sqlite.sources.notes import note_document
from memory_sqlite.sources.places import NotePlace, shown
from memory_sqlite.sources.safe_read import NoteText, decode
from memory_sqlite.text.units import valid_unicode
from memory_sqlite.values import dataclass

_CACHED_CHARS: Final = 4_000
"""Short texts are remembered: overlapping chunks and the windows of messages repeat them."""


@dataclass(frozen=True, slots=True)
class ChunkWords:
    """One chunk as the lexical tables and the columns beside them take it: tokens joined by spaces.

    ``count`` is the number of tokens of ``body``, ``line_starts`` the token number at which each of its lines begins
    (empty for one line). ``whole`` is a message with its questions, for the windows around its neighbours; empty for
    other kinds. ``text_hash`` is over ``body``: chunks of equal words are equal.
    """

    body: str
    count: int
    line_starts: tuple[int, ...]
    question: str
    heading: str
    path: str
    trigger: str
    whole: str
    flags: int
    text_hash: bytes


@dataclass(frozen=True, slots=True)
class WordsOf:
    """What of a document has words: the part of it that travels when only its tokens are wanted."""

    kind: DocumentKind
    title: str
    path: str
    chunks: tuple[tuple[str, str, tuple[str, ...]], ...]
    """``(text, heading, triggers)`` of each chunk."""

    @classmethod
    def of(cls, document: Document) -> WordsOf:
        """The words of a document."""
        return cls(
            document.kind,
            document.title,
            document.path,
            tuple((chunk.text, chunk.heading, chunk.triggers) for chunk in document.chunks),
        )


@dataclass(frozen=True, slots=True)
class PreparedNote:
    """A note ready to be filed. Without a document it could not be read; ``problems`` say why."""

    document: Document | None
    problems: tuple[SourceProblem, ...]
    words: tuple[ChunkWords, ...]


def prepare_note(place: NotePlace, data: bytes) -> PreparedNote:
    """The document and the tokens of a note from its bytes; size is theirs, the rest of its identity ``place``'s."""
    if len(data) > limits.NOTE_MAX_BYTES:
        reason = f"is larger than {limits.NOTE_MAX_BYTES} bytes"
        return PreparedNote(None, (SourceProblem(shown(place.path), reason),), ())
    text, problem = decode(data)
    if text is None:
        return PreparedNote(None, (SourceProblem(shown(place.path), problem or "is not text"),), ())
    digest = hashlib.sha256(data).hexdigest()
    note = NoteText(text, digest, problem, len(data), place.mtime_ns, place.inode, place.device)
    document, problems = note_document(place, note)
    return PreparedNote(document, tuple(problems), words(WordsOf.of(document)))


def words(document: WordsOf) -> tuple[ChunkWords, ...]:
    """The tokens of every chunk of a document."""
    message = document.kind == "message"
    path = "" if message else joined(document.path)[0]
    return tuple(
        _words(text, document, heading, triggers, path, message) for text, heading, triggers in document.chunks
    )


def _words(text: str, document: WordsOf, heading: str, triggers: Iterable[str], path: str, message: bool) -> ChunkWords:
    text = valid_unicode(text)
    asked = ""
    starts: tuple[int, ...] = ()
    if message:
        told, asked = split_questions(text)
        body, count = joined(told)
    else:
        body, count, starts = _by_line(text)
    named = heading if not document.title or heading.startswith(document.title) else f"{document.title}\n{heading}"
    return ChunkWords(
        body=body,
        count=count,
        line_starts=starts,
        question=joined(asked)[0],
        heading=joined(named)[0],
        path=path,
        trigger=joined("\n".join(triggers))[0],
        whole=joined(text)[0] if message else "",
        flags=message_flags(text) if message else 0,
        text_hash=blake2b(body.encode(), digest_size=16).digest(),
    )


@lru_cache(maxsize=8192)
def _remembered(text: str) -> tuple[str, int]:
    tokens = tokenise(text)
    return " ".join(tokens), len(tokens)


def joined(text: str) -> tuple[str, int]:
    """The tokens of a text joined by spaces, and how many they are."""
    if not text:
        return "", 0
    if len(text) <= _CACHED_CHARS:
        return _remembered(text)
    tokens = tokenise(text)
    return " ".join(tokens), len(tokens)


def _by_line(text: str) -> tuple[str, int, tuple[int, ...]]:
    if "\n" not in text:
        return *joined(text), ()
    starts: list[int] = []
    parts: list[str] = []
    total = 0
    for line in text.split("\n"):
        starts.append(total)
        tokens, count = joined(line)
        if count:
            parts.append(tokens)
            total += count
    return " ".join(parts), total, tuple(starts)


def line_starts_blob(starts: Iterable[int]) -> bytes:
    """``chunks.line_starts`` as the file keeps it: native unsigned 32-bit numbers."""
    return array("I", starts).tobytes()
