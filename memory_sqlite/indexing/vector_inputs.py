"""What of a chunk is embedded, and the hash by which an equal input is known again.

Lives here: the one function that makes the text, its hash, and reading it from a generation's rows. Not here: when it
is embedded (``vector_filing``) and taken over (``vector_reuse``).
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from pathlib import PurePosixPath
from typing import Any, Final

import apsw

from memory_sqlite import limits
from memory_sqlite.generations import vector_rows
from memory_sqlite.generations.vector_rows import Space
from memory_sqlite.storage.fetch import all_rows, integer
from memory_sqlite.text.units import valid_unicode
from memory_sqlite.values import dataclass

_COLUMNS: Final = "c.id, d.kind, d.path, d.title, d.speaker, c.heading, c.text"
_FROM: Final = "FROM chunks AS c JOIN documents AS d ON d.id = c.document_id"
NEWEST: Final = 2**63 - 1
"""Above every id of a chunk."""
_WITHOUT: Final = "NOT EXISTS (SELECT 1 FROM vectors AS v WHERE v.chunk_id = c.id AND v.space_id = ?)"


@dataclass(frozen=True, slots=True)
class Input:
    """What is to be embedded for one chunk. ``digest`` is over the whole text, whatever a model can read of it."""

    chunk_id: int
    text: str
    digest: bytes


def embedding_input(kind: str, path: str, title: str, speaker: str | None, heading: str, text: str) -> str:
    """The text that stands for a chunk: of a message who said it and what, else title, headings and text.

    A title that is only the file's name is left out, so that a renamed note keeps its vectors.
    """
    if kind == "message":
        return f"{speaker}: {text}" if speaker else text
    parts = [text]
    if heading:
        parts.insert(0, heading)
    if title and not heading.startswith(title) and title != PurePosixPath(path).stem:
        parts.insert(0, title)
    return "\n".join(parts)


def digest(text: str) -> bytes:
    """What ``vectors.input_hash`` holds: 16 bytes of BLAKE2b over the input, whichever model reads it."""
    return blake2b(valid_unicode(text).encode("utf-8"), digest_size=16).digest()


def _input(row: tuple[Any, ...]) -> Input:
    text = embedding_input(*row[1:])
    return Input(row[0], text, digest(text))


def without_vector(index: apsw.Connection, space: Space, before: int, most: int) -> list[Input]:
    """Chunks with a smaller id than ``before`` that have no vector in a space yet, the newest first; at most so many.

    Whoever knows how many are missing asks for no more: then the search ends with the last of them, which among new
    texts is soon, instead of looking at every chunk.
    """
    rows = all_rows(
        index,
        f"SELECT {_COLUMNS} {_FROM} WHERE c.id < ? AND {_WITHOUT} ORDER BY c.id DESC LIMIT ?",
        (before, space.id, most),
    )
    return [_input(row) for row in rows]


def count_without_vector(index: apsw.Connection, space: Space, newest: int) -> int:
    """How many chunks up to this id have no vector in a space. Reads all of them: not for every batch."""
    return integer(index, f"SELECT count(*) FROM chunks AS c WHERE c.id <= ? AND {_WITHOUT}", (newest, space.id))


def newest_chunk(index: apsw.Connection) -> int:
    """The highest id of a chunk; 0 where there is none."""
    return integer(index, "SELECT coalesce(max(id), 0) FROM chunks")


def unchanged(index: apsw.Connection, inputs: Iterable[Input]) -> list[Input]:
    """Those whose chunk is still there and says the same; inside the transaction that files their vectors."""
    kept = []
    for one in inputs:
        rows = all_rows(index, f"SELECT {_COLUMNS} {_FROM} WHERE c.id = ?", (one.chunk_id,))
        if rows and _input(rows[0]).digest == one.digest:
            kept.append(one)
    return kept


def outdated(index: apsw.Connection) -> int:
    """How many vectors are of another text than their chunk says: none, unless the file was meddled with."""
    rows = index.execute(f"SELECT v.input_hash, {_COLUMNS} {_FROM} JOIN vectors AS v ON v.chunk_id = c.id")
    return sum(bytes(row[0]) != _input(row[1:]).digest for row in rows)


@dataclass(frozen=True, slots=True)
class Missing:
    """How much has no vector yet: chunks, and about how many characters that is (equal texts counted each time)."""

    texts: int
    characters: int


def missing(index: apsw.Connection, space: Space | None) -> Missing:
    """What has no vector in a space; with ``None``, which is no space, all of it."""
    if space is None:
        texts, space_id = integer(index, "SELECT count(*) FROM chunks"), None
    else:
        texts, space_id = vector_rows.missing(index, space), space.id
    characters = integer(
        index,
        "SELECT coalesce(sum(size), 0) FROM (SELECT length(c.text) + length(c.heading) + length(d.title)"
        f" + coalesce(length(d.speaker), 0) AS size {_FROM} WHERE {_WITHOUT} ORDER BY c.id DESC LIMIT ?)",
        (space_id, texts),
    )
    return Missing(texts, characters)


def is_small(left: Missing) -> bool:
    """Whether so much may be sent to a provider that charges without somebody having said so."""
    return left.texts <= limits.EMBEDDING_UNASKED_TEXTS and left.characters <= limits.EMBEDDING_UNASKED_CHARS
