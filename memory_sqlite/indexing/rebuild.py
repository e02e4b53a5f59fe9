"""Building a whole generation beside the current one and publishing it.

Nothing is copied into place and nobody waits: the file is built under another name, brought up to date, checked, and
one row in the store says that it is the current one. The old file goes when its last reader has closed it. A build that
was interrupted or killed is gone on with by the next one (``resume``).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Final

import apsw

from memory_sqlite import errors, limits, paths
from memory_sqlite.clock import Clock
from memory_sqlite.generations import files, layout, registry
from memory_sqlite.indexing import apply, full_hash, identity, preparing, resume, rows, vector_reuse
from memory_sqlite.model import Document
from memory_sqlite.processes import prepare
from memory_sqlite.processes.prepare import WordsOf
from memory_sqlite.sources import conversation
from memory_sqlite.storage import change_log
from memory_sqlite.storage.connection import writing
from memory_sqlite.storage.failures import translated_index
from memory_sqlite.storage.store import Store
from memory_sqlite.transcripts import sessions

Progress = Callable[[str, int, int | None], None]
FillNotes = Callable[[apsw.Connection], None]

_BUILDER_POLL_S: Final = 0.05
_LEAVING: Final[tuple[registry.State, ...]] = ("building", "retired")


class Paused(Exception):
    """Raised by a ``progress`` callback: the build ends here, and another goes on with what is there."""


def rebuild(
    store: Store,
    clock: Clock,
    fill_notes: FillNotes,
    progress: Progress | None = None,
    *,
    unless: Callable[[], bool] | None = None,
) -> int | None:
    """Build, verify and publish the next generation; returns its number, or ``None`` when ``unless`` became true while
    another process was building.

    ``fill_notes`` puts the notes into the connection it is given; it is called twice, the second time for what has
    changed since. Raises ``StoreBusy`` when another process goes on
    building, ``IndexUnavailable`` when the build does not pass its own checks.
    """
    begun = _begin(store, clock, unless)
    if begun is None:
        return None
    number, index = begun
    path = paths.generation_file(store.directory, number)
    try:
        with translated_index():
            try:
                with vector_reuse.current_generation(store) as before:
                    _fill(store, index, fill_notes, progress, clock)
                    vector_reuse.take_over(index, before, progress)
                    verify(store, index)
                    files.seal(index, path)
                    _publish(store, index, number, clock)
                    vector_reuse.take_over_late(index, before)
            finally:
                index.close()
    except Exception as error:  # not what ends the process: then the file stays, to be gone on with
        if not isinstance(error, Paused):
            _abandon(store, number)
        raise
    return number


def _begin(store: Store, clock: Clock, unless: Callable[[], bool] | None) -> tuple[int, apsw.Connection] | None:
    """The next number with its empty file, locked by us before anybody can see its row; or the file of a killed build.
    Waits for another builder.

    Raises ``StoreBusy`` when the other one is still building after the busy timeout.
    """
    deadline = time.monotonic() + limits.BUSY_TIMEOUT_MS / 1000
    while True:
        index: apsw.Connection | None = None
        number: int | None = None
        try:
            with store.transaction() as connection:
                lives = _builder_lives(store)
                if not lives and unless is not None and unless():
                    return None
                if not lives:
                    number = resume.unfinished(store.directory, connection, store.file_key)
                    index = resume.take_up(store.directory, number, store.file_key) if number is not None else None
                if not lives and index is None:
                    number = registry.begin(connection, identity.expected(), clock.now_ms())
                    while files.is_strange(paths.generation_file(store.directory, number)):
                        registry.remove(connection, number)
                        number = registry.begin(connection, identity.expected(), clock.now_ms())
                    # within the transaction: a row without a file that is held would look like a dead builder's
                    index = files.create(paths.generation_file(store.directory, number), store.file_key)
        except BaseException:
            if index is not None:
                index.close()
            raise
        if index is not None and number is not None:
            if _is_new(index) or resume.is_sound(index):
                return number, index
            index.close()
            _abandon(store, number)
            continue
        if time.monotonic() >= deadline:
            raise errors.StoreBusy("another process is rebuilding the search index")
        time.sleep(_BUILDER_POLL_S)


def _is_new(index: apsw.Connection) -> bool:
    return not index.execute("SELECT count(*) FROM sqlite_schema").get


def _builder_lives(store: Store) -> bool:
    return any(
        files.is_held(paths.generation_file(store.directory, generation.number), store.file_key)
        for generation in registry.by_state(store.connection, "building")
    )


def _abandon(store: Store, number: int) -> None:
    """Take back what was begun, unless it was published or another process goes on with it. Where even that fails (a
    full disk) the next sweep does it."""
    try:
        with store.transaction() as connection:
            begun = any(generation.number == number for generation in registry.by_state(connection, "building"))
            if begun and files.remove_unless_held(paths.generation_file(store.directory, number), store.file_key):
                registry.remove(connection, number)
    except (errors.MemorySqliteError, OSError):
        pass


def _fill(store: Store, index: apsw.Connection, fill_notes: FillNotes, progress: Progress | None, clock: Clock) -> None:
    if _is_new(index):
        seq = change_log.newest(store.connection)
        with writing(index):
            layout.create(index, identity.expected())
            layout.write_meta(index, "applied_seq", seq)
            full_hash.done(index, clock.now_ms())  # its notes are all read now
            resume.note_boot(index)
            rows.begin(index)
    _fill_sessions(store, index, progress)
    fill_notes(index)
    apply.apply_changes(store.connection, index)
    if progress is not None:
        progress("finishing", 0, None)
    with writing(index):
        rows.finish(index)
    fill_notes(index)  # what came, went or changed since: a look by `stat`, unless there is something


def _fill_sessions(store: Store, index: apsw.Connection, progress: Progress | None) -> None:
    """Every session that is not filed yet, each in a transaction of its own."""
    filed = resume.filed_sessions(index)
    every = sessions.listing(store.connection, limit=-1)
    todo = [session for session in every if not session.is_internal and session.id not in filed]
    read: deque[tuple[int, Document]] = deque()

    def documents() -> Iterator[WordsOf]:
        for session in todo:
            for document in conversation.session_documents(store.connection, session):
                read.append((session.id, document))
                yield WordsOf.of(document)

    done = len(every) - len(todo)
    with preparing.words(documents()) as made:
        ready = ((*read.popleft(), words) for words in made)
        for session_id, group in groupby(ready, key=itemgetter(0)):
            with writing(index):
                said = {}
                for _, document, words in group:
                    rows.put_document(index, document, words)
                    if document.position is not None:
                        said[document.position] = prepare.whole(words)
                rows.refresh_contexts(index, session_id, said, said)
            done += 1
            if progress is not None:
                progress("sessions", done, len(every))
    if progress is not None and done < len(every):  # there was nothing to file in the others
        progress("sessions", len(every), len(every))


def _publish(store: Store, index: apsw.Connection, number: int, clock: Clock) -> None:
    """The last changes are applied under the store's write lock, so that nothing committed before is missing."""
    with store.transaction() as connection:
        apply.apply_changes(connection, index)
        registry.publish(connection, number, clock.now_ms())


def verify(store: Store, index: apsw.Connection) -> None:
    """What a generation must show before anybody reads it. Raises ``IndexUnavailable``."""
    problem = rows.inconsistency(index)
    if problem is None:
        orphan = index.execute(
            "SELECT count(*) FROM documents WHERE kind = 'message' AND CAST(key AS INTEGER) > ?",
            (
                store.connection.execute(
                    "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'messages'"
                ).get,
            ),
        ).get
        problem = "documents of unknown messages" if orphan else None
    if problem is not None:
        raise errors.IndexUnavailable(f"the new search index did not pass its check: {problem}")


def sweep(store: Store, *, keep_unfinished: bool = True) -> list[int]:
    """Remove what no reader can want and nobody has open: retired generations, what dead builders left, files that the
    store does not know. Returns their numbers; a file that is held stays for a later sweep, and a build that can be
    gone on with for the next ``index``, unless ``keep_unfinished`` is false.
    """
    connection = store.connection
    if not _leftovers(store):
        return []
    removed = []
    with store.transaction():  # no generation is begun or published while we look
        kept = resume.unfinished(store.directory, connection, store.file_key) if keep_unfinished else None
        for number in _leftovers(store):
            if number != kept and files.remove_unless_held(
                paths.generation_file(store.directory, number), store.file_key
            ):
                registry.remove(connection, number)
                removed.append(number)
    return removed


def drop(store: Store) -> None:
    """Take every generation away that nobody has open, the current one too. One that is held stays what it is, so that
    whoever reads it goes on until its successor is published.

    Raises ``StoreBusy``, and drops nothing, while another process is building.
    """
    with store.transaction() as connection:
        if _builder_lives(store):
            raise errors.StoreBusy("another process is rebuilding the search index")
        current = registry.current(connection)
        for number in [*_leftovers(store), *([current.number] if current is not None else [])]:
            if files.remove_unless_held(paths.generation_file(store.directory, number), store.file_key):
                registry.forsake(connection, number)


def tidy(store: Store, *, keep_unfinished: bool = True) -> None:
    """``sweep``, where it is not what was asked for: a locked store leaves it to the next one."""
    try:
        sweep(store, keep_unfinished=keep_unfinished)
    except errors.MemorySqliteError:
        pass


def _leftovers(store: Store) -> list[int]:
    generation = registry.current(store.connection)
    rows = [g.number for state in _LEAVING for g in registry.by_state(store.connection, state)]
    here = files.numbers(store.directory)
    return sorted({number for number in (*rows, *here) if generation is None or number != generation.number})
