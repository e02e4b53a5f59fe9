"""Vectors that are there already: of an equal text in this generation, or in the one before it.

Lives here: taking vectors over by space and hash of the input, when a document is replaced, when chunks are filled and
when a generation is built. Nothing is embedded here. Called by ``rows``, ``rebuild`` and ``vector_filing``. What it
does not find is embedded later; so a generation that cannot be read costs vectors, never words.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import apsw

from memory_sqlite import errors, paths
from memory_sqlite.generations import registry, vector_rows
from memory_sqlite.generations.vector_rows import Space
from memory_sqlite.indexing import vector_inputs
from memory_sqlite.indexing.vector_inputs import Input
from memory_sqlite.model import Document
from memory_sqlite.storage import connection as connections
from memory_sqlite.storage.connection import writing
from memory_sqlite.storage.fetch import all_rows
from memory_sqlite.storage.store import Store
from memory_sqlite.text.units import valid_unicode

Progress = Callable[[str, int, int | None], None]
Kept = tuple[int, Space, bytes, bytes]
"""Ordinal of a chunk in its document, space, hash of its input, vector."""

_BATCH: Final = 500
"""Chunks a transaction: 0.8 MB of vectors at 384 dimensions."""


class _Unreadable(Exception):
    """The older generation cannot be read (any further); never leaves this module."""


def of_equal_texts(connection: apsw.Connection, document: Document) -> list[Kept]:
    """The vectors that the chunks of a document could have at once, before its earlier version is taken out."""
    spaces = vector_rows.spaces(connection)
    if not spaces:
        return []
    title, path = valid_unicode(document.title), valid_unicode(document.path)
    digests = []
    for chunk in document.chunks:
        heading, text = valid_unicode(chunk.heading), valid_unicode(chunk.text)
        whole = vector_inputs.embedding_input(document.kind, path, title, document.speaker, heading, text)
        digests.append(vector_inputs.digest(whole))
    kept: list[Kept] = []
    for space in spaces:
        found = vector_rows.by_input(connection, space, digests)
        kept += [(n, space, digest, found[digest]) for n, digest in enumerate(digests) if digest in found]
    return kept


def keep(connection: apsw.Connection, document_id: int, kept: Sequence[Kept]) -> None:
    """Give the chunks of a document that was just put what ``of_equal_texts`` found for them."""
    if not kept:
        return
    ids: dict[int, int] = dict(
        all_rows(connection, "SELECT ordinal, id FROM chunks WHERE document_id = ?", (document_id,))
    )
    for ordinal, space, digest, vector in kept:
        vector_rows.put(connection, space, [(ids[ordinal], digest, vector)])


@contextmanager
def current_generation(store: Store) -> Iterator[apsw.Connection | None]:
    """The generation that is current, open for reading; ``None`` where there is none that has vectors to give."""
    current = registry.current(store.connection)
    connection: apsw.Connection | None = None
    try:
        if current is not None:
            path = paths.generation_file(store.directory, current.number)
            connection = connections.open_index_reader(path, store.file_key)
            connection.execute("SELECT count(*) FROM vector_spaces").fetchall()
    except (errors.MemorySqliteError, apsw.Error):
        # gone, damaged, or of a format without vectors
        if connection is not None:
            connection.close()
            connection = None
    try:
        yield connection
    finally:
        if connection is not None:
            connection.close()


def take_over(index: apsw.Connection, old: apsw.Connection | None, progress: Progress | None = None) -> int:
    """Give the chunks of a new generation the vectors of equal texts of an old one; returns how many.

    Doing it again takes over what was filed there meanwhile. Each batch is a transaction of its own.
    """
    if old is None:
        return 0
    try:
        with _reading():
            spaces = vector_rows.spaces(old)
        return sum(_space(index, old, space, progress) for space in spaces)
    except _Unreadable:
        return 0  # what is missing is embedded again


def take_over_late(index: apsw.Connection, old: apsw.Connection | None) -> None:
    """What was embedded into the old generation while the new one was built, which is published by now: a failure
    takes nothing back."""
    try:
        take_over(index, old)
    except apsw.Error:
        pass  # what is missing is embedded again


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        raise _Unreadable from error


def _space(index: apsw.Connection, old: apsw.Connection, source: Space, progress: Progress | None) -> int:
    with writing(index):
        weight = json.loads(source.weight)
        space = vector_rows.make_space(index, source.identity, source.dimensions, weight, source.cost)
        vector_rows.set_state(index, space, source.state)
    taken, done, newest = 0, 0, vector_inputs.NEWEST
    total = vector_rows.missing(index, space)
    while done < total and (batch := vector_inputs.without_vector(index, space, newest, min(_BATCH, total - done))):
        newest = batch[-1].chunk_id
        with _reading():
            found = vector_rows.by_input(old, source, [one.digest for one in batch])
        if found:
            with writing(index):
                taken += _put_sound(index, space, batch, found)
        done += len(batch)
        if progress is not None:
            progress("vectors kept", done, total)
    return taken


def _put_sound(index: apsw.Connection, space: Space, batch: Sequence[Input], found: Mapping[bytes, bytes]) -> int:
    try:
        return put(index, space, batch, found)
    except errors.InvalidArgument:  # damaged where it was: all but those, which are embedded again
        return put(index, space, batch, {digest: one for digest, one in found.items() if is_sound(one, space)})


def is_sound(vector: bytes, space: Space) -> bool:
    """Whether this may be filed as a vector of a space."""
    try:
        vector_rows.check(vector, space.dimensions)
    except errors.InvalidArgument:
        return False
    return True


def put(index: apsw.Connection, space: Space, inputs: Sequence[Input], vectors: Mapping[bytes, bytes]) -> int:
    """File vectors, by the hash of their input, where the chunk still says the same; inside the caller's transaction.

    Returns how many; what another process has filed already stays as it is.
    """
    still = vector_inputs.unchanged(index, [one for one in inputs if one.digest in vectors])
    return vector_rows.put(index, space, [(one.chunk_id, one.digest, vectors[one.digest]) for one in still])
