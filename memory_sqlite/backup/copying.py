"""One store copied while others write: SQLite's backup interface under one read snapshot, then proved.

Measured for 210 MB on ext4 (tests/benchmarks/bench_backup.py): the backup interface 0.18 s of CPU, ``VACUUM INTO``
0.26 (encrypted 0.27 and 0.35). It is the faster one, copies under the snapshot that the rows were counted in, so that
the copy can be held against it, and says how far it is. Nothing begins anew when somebody writes meanwhile, however
often. Called by ``making``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import apsw

from memory_sqlite import errors, limits
from memory_sqlite.backup import checking, files
from memory_sqlite.backup.reports import AgentCopy
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.storage import connection as connections
from memory_sqlite.storage.failures import translated
from memory_sqlite.storage.read_only_media import Media

_READING: Final = (apsw.SQLITE_IOERR_READ, apsw.SQLITE_IOERR_SHORT_READ)
"""Failures of the store, which is only read; the others are of the copy."""

Copied = Callable[[int], None]
"""Hears how many bytes of the store have been copied."""


@contextmanager
def opened(path: Path, key: FileKey | None) -> Iterator[apsw.Connection]:
    """A store for reading, also on media that cannot be written. SQLite's errors become the store's."""
    media = Media()
    try:
        with translated("the store"):
            reader = media.open(path, key, connections.open_store_reader)
            try:
                yield reader
            finally:
                reader.close()
    finally:
        media.close()


@contextmanager
def finished(path: Path, key: FileKey | None) -> Iterator[apsw.Connection]:
    """A store's file that nobody writes any more, as in a backup: read without locks and without files beside it. What
    lies in a log or a journal beside it is not looked at. SQLite's errors become the store's."""
    with translated("the store"):
        reader = connections.open_store_reader(path, key, immutable=True)
        try:
            yield reader
        finally:
            reader.close()


def copy_store(
    source: Path, target: Path, directory: str, session_key: bytes, key: FileKey | None, heard: Copied
) -> AgentCopy:
    """Copy and prove one store; ``target`` must not exist. Its mode is 0600, and it is on disk when this returns.

    Raises ``DiskFull``, ``StoreDamaged`` when source or copy is, ``SchemaTooNew``, and what opening raises.
    """
    with opened(source, key) as reader:
        reader.execute("BEGIN DEFERRED").fetchall()
        counted = checking.counts(reader)  # the first read takes the snapshot
        _copy(reader, target, key, heard)
    files.sync(target)
    with finished(target, key) as copy:
        found = checking.look(copy, directory, session_key)
    if found.counts != counted:
        raise errors.StoreDamaged("the copy of the store has other rows than the store")
    return found


def _copy(reader: apsw.Connection, target: Path, key: FileKey | None, heard: Copied) -> None:
    try:
        copy = connections.create_copy(target, key)
        try:
            size = reader.pragma("page_size")
            assert isinstance(size, int)
            with copy.backup("main", reader, "main") as going:
                while not going.done:
                    going.step(limits.BACKUP_STEP_PAGES)
                    heard((going.page_count - going.remaining) * size)
            # a file that says "WAL" cannot be read from media that cannot be written
            if copy.pragma("journal_mode", "delete") != "delete":
                raise errors.StoreDamaged("the copy of the store could not be finished")
        finally:
            copy.close()
    except apsw.FullError as error:
        raise errors.DiskFull("the disk is full; the backup was not made") from error
    except apsw.IOError as error:
        code = getattr(error, "extendedresult", 0)
        if code == apsw.SQLITE_IOERR_WRITE:  # a quota, a limit of file sizes
            raise errors.DiskFull("the backup could not be written further; it was not made") from error
        if code in _READING:
            raise
        raise errors.StoreReadOnly("the backup cannot be written; it was not made") from error
