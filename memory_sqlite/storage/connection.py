"""Opening SQLite files: one function per kind of file, each pragma with its reason.

Nothing else in the package calls ``apsw.Connection``. Not here: schema (``migrate``) and what is in the tables.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import apsw

from memory_sqlite import errors, library, limits
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.storage.failures import translated, translated_index

_WAL_RETRY_S: Final = 0.01

library.require()  # an old SQLite is told at once and by its name, not by a syntax error in the middle


def _connect(path: Path, flags: int, key: FileKey | None) -> apsw.Connection:
    """A connection that can read the file: a key must be the first thing it hears of."""
    connection = apsw.Connection(str(path), flags=flags)
    try:
        if key is not None:
            # the cipher is not in the file: each connection names it (right key, wrong cipher = not a database)
            connection.pragma("cipher", key.cipher)
            # as it is, without a derivation: 0.1 ms an open. A pragma and no URI: SQLite keeps the URI
            connection.pragma("key", f"raw:{key.raw.hex()}")
    except BaseException:
        connection.close()
        raise
    return connection


def _cache(connection: apsw.Connection, mebibytes: int, key: FileKey | None) -> None:
    # a page that is read again is decrypted again (measured: a scan of 50,000 vectors 1.6 times, with room 0.6)
    connection.pragma("cache_size", -1024 * (mebibytes if key is None else max(mebibytes, 64)))


def _common(connection: apsw.Connection) -> None:
    connection.set_busy_timeout(limits.BUSY_TIMEOUT_MS)
    connection.transaction_mode = "IMMEDIATE"
    # deleted text must not stay readable in free pages; plain apsw has this off
    connection.pragma("secure_delete", True)
    # sorters and temporary tables hold text: never spill them to a temporary file in clear
    connection.pragma("temp_store", 2)
    # the schema is ours, but a hostile file must not run functions through views or triggers
    connection.pragma("trusted_schema", False)
    # a misspelt column must be an error, not a string
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)


def _to_wal(connection: apsw.Connection) -> None:
    """Switch to WAL. The switch ignores the busy handler, so the wait is ours.

    Raises ``FileSystemUnsuitable``.
    """
    deadline = time.monotonic() + limits.BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            mode = connection.pragma("journal_mode", "wal")
        except (apsw.BusyError, apsw.LockedError):
            if time.monotonic() >= deadline:
                raise
            time.sleep(_WAL_RETRY_S)
            continue
        if mode != "wal":  # where it cannot, SQLite only answers with the mode that it stays in
            raise errors.FileSystemUnsuitable("SQLite cannot keep a write-ahead log in the data directory")
        return


def open_store(path: Path, key: FileKey | None = None) -> apsw.Connection:
    """The store for reading and writing; the file must exist. A commit is on disk when it returns.

    Raises ``StoreBusy``, ``StoreReadOnly``, ``StoreDamaged``, ``FileSystemUnsuitable``.
    """
    with translated("the store"):
        connection = _connect(path, apsw.SQLITE_OPEN_READWRITE, key)
        _common(connection)
        _to_wal(connection)
        # "remembered" means on disk: one sync a turn (measured: 0.3 ms more than NORMAL on a quiet disk)
        connection.pragma("synchronous", "FULL")
        connection.pragma("foreign_keys", True)
        # a WAL that once grew is cut back to this at the next checkpoint
        connection.pragma("journal_size_limit", 64 * limits.MIB)
        _cache(connection, 16, key)
    return connection


def open_store_reader(path: Path, key: FileKey | None = None) -> apsw.Connection:
    """The store for reading only; never migrates, never writes a page."""
    with translated("the store"):
        connection = _connect(path, apsw.SQLITE_OPEN_READONLY, key)
        _common(connection)
        connection.pragma("query_only", True)
    return connection


def open_index(path: Path, key: FileKey | None = None) -> apsw.Connection:
    """A generation for small changes. Derived, so a commit need not be on disk: the change log brings it back."""
    with translated_index():
        connection = _connect(path, apsw.SQLITE_OPEN_READWRITE, key)
        _common(connection)
        _to_wal(connection)
        connection.pragma("synchronous", "NORMAL")
        connection.pragma("journal_size_limit", 64 * limits.MIB)
        _cache(connection, 16, key)
    return connection


def create_index(path: Path, key: FileKey | None) -> apsw.Connection:
    """A new generation for bulk building: WAL without sync, under an exclusive lock that tells that a builder lives.

    With the journal off, 1 of 25 kills corrupted the file; in WAL none did, for 12 % more CPU.
    """
    with translated_index():
        connection = _connect(path, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE, key)
        _common(connection)
        connection.pragma("page_size", 4096)
        connection.pragma("locking_mode", "exclusive")
        _to_wal(connection)
        connection.pragma("synchronous", "OFF")
        connection.pragma("cache_size", -64 * 1024)
    return connection


def reopen_index(path: Path, key: FileKey | None = None) -> apsw.Connection | None:
    """A generation that a killed process left half-built, as ``create_index`` had it; ``None`` while anybody has it."""
    with translated_index():
        connection = open_index_probe(path, key)
        if connection is None:
            return None
        try:
            connection.execute("COMMIT").fetchall()  # the exclusive lock stays: that is what the locking mode means
            _common(connection)
            connection.pragma("synchronous", "OFF")
            connection.pragma("cache_size", -64 * 1024)
        except BaseException:
            connection.close()
            raise
    return connection


def open_index_reader(path: Path, key: FileKey | None = None) -> apsw.Connection:
    """A generation for reading. The first read takes the hold: the open connection keeps the file from retirement."""
    with translated_index():
        connection = _connect(path, apsw.SQLITE_OPEN_READONLY, key)
        _common(connection)
        connection.pragma("query_only", True)
        connection.pragma("mmap_size", 256 * limits.MIB)  # does nothing for an encrypted file
        _cache(connection, 16, key)
    return connection


def open_index_probe(path: Path, key: FileKey | None = None) -> apsw.Connection | None:
    """A generation alone: an open exclusive transaction, or ``None`` while anybody has the file open.

    In exclusive locking mode ``BEGIN EXCLUSIVE`` fails while any connection in any process, also this one, has the WAL
    file open (measured), and succeeds the moment the last one closes; a killed reader's hold vanishes with it. Raises
    ``apsw.Error`` for a file that is no database.
    """
    connection = _connect(path, apsw.SQLITE_OPEN_READWRITE, key)
    try:
        connection.pragma("locking_mode", "exclusive")
        connection.execute("BEGIN EXCLUSIVE").fetchall()
    except (apsw.BusyError, apsw.LockedError):
        connection.close()
        return None
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def writing(connection: apsw.Connection) -> Iterator[None]:
    """One write transaction. Waiting for the lock and syncing the commit leave the other threads running.

    apsw's own ``with connection`` holds the GIL while it does both (measured: half a second of waiting stopped every
    thread of the process, and two connections of one process waited for each other until the busy timeout).
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk, for one, has rolled back already
            connection.execute("ROLLBACK")
        raise
