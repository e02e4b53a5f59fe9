"""Preparation: a note's bytes as a document, and the tokens of chunks as the lexical tables take them. Pure.

Decode, mask secrets, strip annotations, chunk, hash, tokenise: everything that costs time before a row is written, and
nothing that reads a disk or a database. The one place where text becomes lexical columns: it runs in preparation
workers, and in the process itself where there is little to do or there are none. Called by ``workers.preparation``,
``preparation`` and ``indexing``.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b, sha256
from typing import Final

from memory_sqlite import limits
from memory_sqlite.model import Document, DocumentKind, SourceProblem
from memory_sqlite.search.sentences import message_flags, split_questions
from memory_sqlite.search.tokens import tokenise
from memory_sqlite.sources.places import NotePlace, shown
from memory_sqlite.text.units import valid_unicode
from memory_sqlite.values import dataclass

_CACHED_CHARS: Final = 4_000
"""Short texts are remembered: overlapping chunks and the windows of messages repeat them."""


@dataclass(frozen=True, slots=True)
class ChunkWords:
    """One chunk as the lexical tables and the columns beside them take it: tokens joined by spaces.

    ``count`` is the number of tokens of ``body``; ``line_starts`` the token number at which each of its lines begins,
    as native unsigned 32-bit numbers (empty for one line). ``whole`` is a message with its questions, for the windows
    around its neighbours; empty for other kinds. ``text_hash`` is over ``body``, 16 bytes: chunks of equal words are
    equal.
    """

    body: str
    count: int
    line_starts: bytes
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
    chunks: tuple[tuple[str, str, str], ...]
    """``(text, heading, triggers)`` of each chunk, one trigger a line."""

    @classmethod
    def of(cls, document: Document) -> WordsOf:
        """The words of a document."""
        return cls(
            document.kind,
            document.title,
            document.path,
            tuple([(chunk.text, chunk.heading, "\n".join(chunk.triggers)) for chunk in document.chunks]),
        )

    @property
    def size(self) -> int:
        """Characters of its chunks."""
        return sum([len(text) for text, _, _ in self.chunks])


@dataclass(frozen=True, slots=True)
class PreparedNote:
    """A note ready to be filed. Without a document it could not be read; ``problems`` say why."""

    document: Document | None
    problems: tuple[SourceProblem, ...]
    words: tuple[ChunkWords, ...]


def prepare_note(place: NotePlace, data: bytes, *, redact: bool = True) -> PreparedNote:
    """The document and the tokens of a note from its bytes; size is theirs, the rest of its identity ``place``'s.

    With ``redact`` a secret is masked before the text is chunked: nothing that is made here holds it. The hash is
    always that of the bytes.
    """
    # what reads notes is loaded with the first of them: whoever only files messages does without
    from memory_sqlite.sources.notes import note_document
    from memory_sqlite.sources.safe_read import NoteText, decode

    if len(data) > limits.NOTE_MAX_BYTES:
        reason = f"is larger than {limits.NOTE_MAX_BYTES} bytes"
        return PreparedNote(None, (SourceProblem(shown(place.path), reason),), ())
    text, problem = decode(data)
    if text is None:
        return PreparedNote(None, (SourceProblem(shown(place.path), problem or "is not text"),), ())
    if redact:
        from memory_sqlite.text.secrets import mask

        text = mask(text, keep_lines=True)[0]
    digest = sha256(data).hexdigest()
    note = NoteText(text, digest, problem, len(data), place.mtime_ns, place.inode, place.device)
    document, problems = note_document(place, note)
    return PreparedNote(document, tuple(problems), words(WordsOf.of(document)))


def words(document: WordsOf) -> tuple[ChunkWords, ...]:
    """The tokens of every chunk of a document."""
    message = document.kind == "message"
    path = "" if message else joined(document.path)[0]
    return tuple(
        [_words(text, document, heading, triggers, path, message) for text, heading, triggers in document.chunks]
    )


def whole(words: Iterable[ChunkWords]) -> str:
    """A message with its questions, as the windows around its neighbours take it."""
    return " ".join([one.whole for one in words])


def _words(text: str, document: WordsOf, heading: str, triggers: str, path: str, message: bool) -> ChunkWords:
    text = valid_unicode(text)
    asked, every, starts = "", "", b""
    if message:
        told, asked = split_questions(text)
        body, count = joined(told)
        every = body if told is text else joined(text)[0]
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
        trigger=joined(triggers)[0],
        whole=every,
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


def _by_line(text: str) -> tuple[str, int, bytes]:
    if "\n" not in text:
        return *joined(text), b""
    starts = array("I")
    parts: list[str] = []
    total = 0
    for line in text.split("\n"):
        starts.append(total)
        tokens, count = joined(line)
        if count:
            parts.append(tokens)
            total += count
    return " ".join(parts), total, starts.tobytes()
