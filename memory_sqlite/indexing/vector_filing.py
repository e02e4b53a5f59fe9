"""Filing vectors: chunks that have none are embedded batch by batch, and each batch is on disk before the next is made.

Lives here: one pass over one space of one generation. Not here: the provider (``embeddings``), what is embedded
(``vector_inputs``), when a pass is made and on which generation (``agent.embedding``). No embedding within a
transaction: a vector is filed only where its chunk is still there and still says the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import apsw

from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.embeddings.protocol import CostClass, EmbeddingIdentity, InputLimits, Weight
from memory_sqlite.generations import vector_rows
from memory_sqlite.generations.vector_rows import Space
from memory_sqlite.indexing import vector_inputs, vector_reuse
from memory_sqlite.indexing.vector_inputs import Input
from memory_sqlite.storage import connection as connections
from memory_sqlite.storage.connection import writing
from memory_sqlite.values import dataclass, field

Embed = Callable[[Sequence[str]], Sequence[bytes | None]]
"""Texts to vectors (normalised, little-endian float32), in order; ``None`` for a text that the provider refuses."""
Progress = Callable[[str, int, int | None], None]

_WINDOW: Final = 1_000
"""Chunks looked at together: their texts are batched by length, so that a model pads little."""
_DROPPED: Final = 1_000
"""Rows of an old space that one transaction deletes: some 20 ms at 384 dimensions, with secure deletion."""


class _SpaceGone(Exception):
    """Another process, with another model, has completed its space and deleted this one; never leaves this module."""


@dataclass
class Filling:
    """A pass and what it has done. ``refused`` outlives passes: texts the provider would not take are not asked again
    by the same process; ``recent`` holds the last batch, which is not paid for twice if its generation was retired."""

    embedded: int = 0
    reused: int = 0
    refused: set[bytes] = field(default_factory=set)
    recent: dict[bytes, bytes] = field(default_factory=dict)

    @property
    def made(self) -> int:
        """Grows with whatever a pass achieves."""
        return self.embedded + self.reused + len(self.refused)


def open_for_filing(path: Path, key: FileKey | None = None) -> apsw.Connection:
    """A connection to a generation for filing vectors, whose commits are on disk when they return: what was paid for
    is not lost to a power cut. Raises ``IndexUnavailable`` and the store's errors."""
    index = connections.open_index(path, key)
    index.pragma("synchronous", "FULL")
    return index


def open_space(index: apsw.Connection, identity: EmbeddingIdentity, weight: Weight, cost: CostClass) -> Space:
    """The space of an identity, made if there is none."""
    with writing(index):
        name = vector_rows.identity_text(identity.json())
        return vector_rows.make_space(index, name, identity.dimensions, asdict(weight), cost)


def fill(
    index: apsw.Connection,
    space: Space,
    bounds: InputLimits,
    embed: Embed,
    filling: Filling,
    *,
    stopped: Callable[[], bool],
    progress: Progress | None = None,
) -> bool:
    """Embed what has no vector yet, to the end or until ``stopped``; whether it came to the end.

    What ``embed`` raises ends the pass; what was filed before stays. At the end the space is complete, and others,
    which it replaces, are deleted.
    """
    try:
        while True:
            before = filling.made
            refused = _round(index, space, bounds, embed, filling, stopped, progress)
            if stopped():
                return False
            if vector_rows.missing(index, space) == refused:
                break
            if filling.made == before:
                return False  # others write the same chunks; whoever called looks again
        return _complete(index, space, filling.refused) and _drop_others(index, space, stopped)
    except _SpaceGone:
        return False


def _round(
    index: apsw.Connection,
    space: Space,
    bounds: InputLimits,
    embed: Embed,
    filling: Filling,
    stopped: Callable[[], bool],
    progress: Progress | None,
) -> int:
    """Once from the newest chunk to the oldest; returns for how many the provider refuses a vector. What comes
    meanwhile is newer, and the next round's."""
    total = vector_rows.missing(index, space)
    done, refused, newest = 0, 0, vector_inputs.NEWEST
    while done < total and not stopped():
        window = vector_inputs.without_vector(index, space, newest, min(_WINDOW, total - done))
        if not window:
            break
        newest = window[-1].chunk_id
        asked = _reuse(index, space, [one for one in window if one.digest not in filling.refused], filling)
        done += len(window) - len(asked)
        for batch in batches(asked, bounds):
            if stopped():
                break
            _embed(index, space, batch, bounds, embed, filling)
            done += len(batch)
            if progress is not None:
                progress("vectors", done, total)
        refused += sum(one.digest in filling.refused for one in window)
    return refused


def batches(inputs: Sequence[Input], bounds: InputLimits) -> Iterator[list[Input]]:
    """Inputs in batches that a provider takes, texts of like length together; equal texts are in one batch."""
    batch: list[Input] = []
    seen: set[bytes] = set()
    characters = 0
    for one in sorted(inputs, key=lambda one: (len(one.text), one.digest)):
        size = min(len(one.text), bounds.text_chars)
        new = one.digest not in seen
        full = len(seen) >= bounds.batch_texts or characters + size > bounds.batch_chars
        if batch and new and full:
            yield batch
            batch, seen, characters = [], set(), 0
        batch.append(one)
        if new:
            seen.add(one.digest)
            characters += size
    if batch:
        yield batch


def _reuse(index: apsw.Connection, space: Space, inputs: list[Input], filling: Filling) -> list[Input]:
    """Give chunks the vectors of equal texts; returns those for which there is none."""
    found = vector_rows.by_input(index, space, [one.digest for one in inputs])
    found |= {one.digest: filling.recent[one.digest] for one in inputs if one.digest in filling.recent}
    if found:
        filling.reused += _file(index, space, inputs, found)
    return [one for one in inputs if one.digest not in found]


def _embed(
    index: apsw.Connection, space: Space, batch: list[Input], bounds: InputLimits, embed: Embed, filling: Filling
) -> None:
    texts = {one.digest: one.text[: bounds.text_chars] for one in batch}
    vectors = embed(list(texts.values()))
    filling.recent = {}
    for digest, vector in zip(texts, vectors, strict=True):
        if vector is not None and vector_reuse.is_sound(vector, space):
            filling.recent[digest] = vector
        else:
            filling.refused.add(digest)
    filling.embedded += _file(index, space, batch, filling.recent)


def _file(index: apsw.Connection, space: Space, inputs: Sequence[Input], vectors: Mapping[bytes, bytes]) -> int:
    """File a batch, durably; returns how many. A chunk that is gone or changed, or that another process was faster
    with, is passed over."""
    with writing(index):
        now = vector_rows.find_space(index, space.identity)
        if now is None or now.id != space.id:
            raise _SpaceGone
        return vector_reuse.put(index, space, inputs, vectors)


def _complete(index: apsw.Connection, space: Space, refused: set[bytes]) -> bool:
    """Say that a space is complete if nothing is missing but what was refused; whether it is.

    Of a provider that refused more than it took nothing is said: its space must not replace another.
    """
    with writing(index):
        now = vector_rows.find_space(index, space.identity)
        if now is None or now.state == "complete":
            return now is not None
        left, newest = 0, vector_inputs.NEWEST
        while window := vector_inputs.without_vector(index, space, newest, _WINDOW):
            if any(one.digest not in refused for one in window):
                return False
            left, newest = left + len(window), window[-1].chunk_id
        if left > vector_rows.filed(index, space):
            return False
        vector_rows.set_state(index, space, "complete")
        return True


def _drop_others(index: apsw.Connection, space: Space, stopped: Callable[[], bool]) -> bool:
    """Delete the spaces that a complete one has replaced, a little at a time; whether it came to the end."""
    for other in vector_rows.spaces(index):
        while other.id != space.id:
            if stopped():
                return False
            with writing(index):
                few = "SELECT id FROM vectors WHERE space_id = ? LIMIT ?"
                index.execute(f"DELETE FROM vectors WHERE id IN ({few})", (other.id, _DROPPED))
                if index.changes() < _DROPPED:
                    vector_rows.delete_space(index, other)
                    break
    return True
