"""The owner's grip on the current generation: one writing connection, fresh reading ones, changes applied.

One keeper per ``Memory``. Not thread-safe by itself: the writing side is used under the Memory's lock; readers are
handed out one per thread at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from memory_sqlite import errors, paths
from memory_sqlite.clock import Clock
from memory_sqlite.generations import layout, registry
from memory_sqlite.indexing import apply, identity, rebuild, resume
from memory_sqlite.storage import change_log
from memory_sqlite.storage import connection as connections
from memory_sqlite.storage.failures import translated_index
from memory_sqlite.storage.store import Store

FillNotes = Callable[[apsw.Connection], None]

_MAX_IDLE_READERS = 4


def _hold(connection: apsw.Connection) -> None:
    """The hold begins with the first read, which also tells a generation from a file that only has its name."""
    try:
        connection.execute("SELECT value FROM meta WHERE key = 'format'").fetchall()
    except apsw.SQLError as error:
        raise errors.IndexUnavailable("the file of the current search index is not one") from error


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # retired, or tidied away, by another thread or process since it was named
        return 0


class IndexKeeper:
    """Opens what the store says is current and follows it when another is published."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._writer: apsw.Connection | None = None
        self._writer_number = 0
        self._idle: list[tuple[int, apsw.Connection]] = []
        self._lock = threading.Lock()
        self._closed = False
        self._damaged = 0
        self.before_retiring: list[Callable[[Path], object]] = []
        """Told the path of a generation that is current no more, before its file is tried to be taken away."""

    def number(self) -> int | None:
        """The current generation's number as the store says now; any thread may ask."""
        with self._store.readers.borrow() as connection:
            generation = registry.current(connection)
        return generation.number if generation else None

    def is_usable(self) -> bool:
        """True when there is a current generation of this code's identity and its file answers and is of this store."""
        generation = registry.current(self._store.connection)
        return generation is not None and generation.identity == identity.expected() and self._answers(generation)

    def can_answer(self) -> bool:
        """True when the current generation is not what this code would build, and yet has tables that it can read and
        write: those of another tokenizer or chunker. Searches go on with it while the next one is built."""
        generation = registry.current(self._store.connection)
        return (
            generation is not None
            and generation.identity != identity.expected()
            and generation.identity.get("format") == layout.FORMAT
            and self._answers(generation)
        )

    def _answers(self, generation: registry.Generation) -> bool:
        if generation.number == self._damaged:
            return False
        try:
            with self.reader() as connection:
                meta = layout.read_meta(connection)
        except (errors.IndexUnavailable, ValueError):
            return False
        # an index that knows more changes than the store belongs to a store that is no more (a restored backup)
        newest = change_log.newest(self._store.connection)
        return meta.get("identity") == generation.identity and int(meta.get("applied_seq", -1)) <= newest

    def ensure(self, fill_notes: FillNotes, progress: rebuild.Progress | None = None) -> None:
        """Build a generation when there is none that this code can use; take leftovers away.

        Of several processes that find none at once, one builds and the others wait for it.
        """
        if not self.is_usable():
            self._let_go()
            rebuild.rebuild(self._store, self._clock, fill_notes, progress, unless=self.is_usable)
        rebuild.tidy(self._store)

    def has_unfinished(self) -> bool:
        """Whether a full build was interrupted or killed and can be gone on with."""
        return resume.unfinished(self._store.directory, self._store.connection, self._store.file_key) is not None

    def rebuild(self, fill_notes: FillNotes, progress: rebuild.Progress | None = None) -> None:
        """Build and publish the next generation, letting go of the old one."""
        before = self.number()
        self._let_go()
        rebuild.rebuild(self._store, self._clock, fill_notes, progress)
        # searches of other threads went on reading the old one meanwhile
        self.leave(before)

    def drop(self) -> None:
        """Close everything and take every generation away that nobody else has open. Raises ``StoreBusy``."""
        number = self.number()
        self._let_go()
        if number is not None:
            for tell in self.before_retiring:
                tell(paths.generation_file(self._store.directory, number))
        rebuild.drop(self._store)

    def leave(self, number: int | None) -> None:
        """Another generation has taken this one's place: let go of it, and take its file away if nobody has it."""
        self._let_go()
        if number is not None:
            for tell in self.before_retiring:
                tell(paths.generation_file(self._store.directory, number))
        rebuild.tidy(self._store)

    def writer(self) -> apsw.Connection:
        """The writing connection of the current generation. Raises ``IndexUnavailable``."""
        number = self.number()
        if number is None:
            raise errors.IndexUnavailable("there is no search index yet")
        if self._writer is None or number != self._writer_number:
            self._drop_writer()
            path = paths.generation_file(self._store.directory, number)
            if not path.exists():
                raise errors.IndexUnavailable("the file of the current search index is missing")
            self._writer = connections.open_index(path, self._store.file_key)
            self._writer_number = number
        return self._writer

    def apply(self) -> int:
        """Bring the current generation up to the store; returns how many changes were applied.

        Looks at the current number again afterwards: a generation published meanwhile must have them too.
        """
        total = 0
        while True:
            index = self.writer()
            with self._watching(self._writer_number):
                total += apply.apply_changes(self._store.connection, index)
            if self.number() == self._writer_number:
                return total

    @contextmanager
    def reader(self) -> Iterator[apsw.Connection]:
        """A reading connection to the current generation, for one thread until the block ends.

        Raises ``IndexUnavailable``. The connection is kept for the next caller as long as its generation is current.
        """
        connection, number = self._take()
        healthy = False
        try:
            with self._watching(number):
                yield connection
            healthy = True
        finally:
            with self._lock:
                keep = healthy and not self._closed and len(self._idle) < _MAX_IDLE_READERS
                if keep:
                    self._idle.append((number, connection))
            if not keep:
                connection.close()

    def _take(self) -> tuple[apsw.Connection, int]:
        for _ in range(8):
            number = self.number()
            if number is None:
                raise errors.IndexUnavailable("there is no search index yet")
            with self._lock:
                stale = [c for n, c in self._idle if n != number]
                self._idle = [(n, c) for n, c in self._idle if n == number]
                connection = self._idle.pop()[1] if self._idle else None
            for old in stale:
                old.close()
            if connection is not None:
                return connection, number
            connection = None
            try:
                path = paths.generation_file(self._store.directory, number)
                with translated_index():
                    connection = self._opened(path)
                    _hold(connection)
                return connection, number
            except errors.MemorySqliteError:
                if connection is not None:
                    connection.close()
                if self.number() == number:
                    raise
        raise errors.IndexUnavailable("the search index changed faster than it could be opened")

    def _opened(self, path: Path) -> apsw.Connection:
        if self._store.read_only:
            return self._store.media.open(path, self._store.file_key, connections.open_index_reader)
        return connections.open_index_reader(path, self._store.file_key)

    def drop_readers(self) -> None:
        """Close the idle reading connections, so that their generation can be retired."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    @contextmanager
    def _watching(self, number: int) -> Iterator[None]:
        """Errors in the words of the catalogue; a generation that turns out to be damaged is remembered as such."""
        try:
            with translated_index():
                yield
        except errors.IndexUnavailable:
            self._damaged = number
            raise

    def _let_go(self) -> None:
        # readers first: the last connection to close tidies the WAL away, and a reading one cannot
        self.drop_readers()
        self._drop_writer()

    def leave_old(self) -> None:
        """Close what is open of a generation that is current no more, though nothing was written since."""
        if self._writer is not None and self.number() != self._writer_number:
            self._let_go()

    def _drop_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def close(self) -> None:
        """Let go of every connection; one that is being read with is closed when its block ends, not kept."""
        with self._lock:
            self._closed = True
        self._let_go()

    def file_sizes(self) -> dict[str, int]:
        """Bytes of the current generation's file and its WAL."""
        number = self.number()
        if number is None:
            return {"index": 0, "index_wal": 0}
        path = paths.generation_file(self._store.directory, number)
        wal = path.with_name(path.name + "-wal")
        return {"index": _size(path), "index_wal": _size(wal)}
