"""Opening SQLite files: one function per kind of file, each pragma with its reason.

Nothing else in the package calls ``apsw.Connection``. Not here: schema (``migrate``) and what is in the tables.
"""

from __future__ import annotations

import os
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


def _connect(path: Path | str, flags: int, key: FileKey | None, *, immutable: bool = False) -> apsw.Connection:
    """A connection that can read the file: a key must be the first thing it hears of."""
    if immutable:
        path, flags = f"{Path(path).absolute().as_uri()}?immutable=1", flags | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(str(path), flags=flags)
    try:
        if key is not None:
            # the cipher is not in the file: each connection names it (right key, wrong cipher = not a database)
            connection.pragma("cipher", key.cipher)
            if key.cipher == "sqlcipher":
                # page for page as SQLCipher 4 writes; without it eight bytes of the header stay in clear
                connection.pragma("legacy", 4)
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


def open_store_reader(path: Path, key: FileKey | None = None, *, immutable: bool = False) -> apsw.Connection:
    """The store for reading only; never migrates, never writes a page. ``immutable``: see ``read_only_media``."""
    with translated("the store"):
        connection = _connect(path, apsw.SQLITE_OPEN_READONLY, key, immutable=immutable)
        _common(connection)
        connection.pragma("query_only", True)
    return connection


def create_copy(path: Path, key: FileKey | None = None) -> apsw.Connection:
    """A new file of mode 0600 that a store is copied into. Not synced: its maker does that when it is whole."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    connection = _connect(path, apsw.SQLITE_OPEN_READWRITE, key)
    _common(connection)
    connection.pragma("synchronous", "OFF")
    return connection


def open_query(store: Path | None, key: FileKey | None = None) -> apsw.Connection:
    """A connection for SQL that others wrote: the store for reading only, or no file at all.

    Not yet bounded and not yet without the right to make temporary views: that is ``query.opening``'s to do.
    """
    with translated("the store"):
        connection = apsw.Connection(":memory:") if store is None else _connect(store, apsw.SQLITE_OPEN_READONLY, key)
        _common(connection)
        # no shadow table and no schema can be reached, whatever the SQL is
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    return connection


def attach_index(connection: apsw.Connection, path: Path, name: str) -> None:
    """Attach a generation under ``name``, as the connection's main database was opened: for reading, with its key.

    The first read takes the hold, as in ``open_index_reader``.
    """
    with translated_index():
        connection.execute(f"ATTACH ? AS {name}", (str(path),)).fetchall()
        connection.execute(f"SELECT count(*) FROM {name}.meta").fetchall()


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


def open_index_reader(path: Path, key: FileKey | None = None, *, immutable: bool = False) -> apsw.Connection:
    """A generation for reading. The first read takes the hold: the open connection keeps the file from retirement,
    unless it is ``immutable`` (``read_only_media``), where nothing can be retired either."""
    with translated_index():
        connection = _connect(path, apsw.SQLITE_OPEN_READONLY, key, immutable=immutable)
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


def open_scratch() -> apsw.Connection:
    """An empty database in memory, e.g. for a fresh schema to compare one with."""
    connection = apsw.Connection(":memory:")
    _common(connection)
    return connection


def open_salvaged(path: Path, key: FileKey | None = None) -> apsw.Connection:
    """A private copy of a damaged store, for its pages: neither a damaged schema nor a file cut short is refused.

    Nothing is read yet, so nothing can fail but the file itself. SQLite's own recovery sets ``writable_schema`` too.
    """
    with translated("the copy of the store"):
        connection = _connect(path, apsw.SQLITE_OPEN_READWRITE, key)
        connection.config(apsw.SQLITE_DBCONFIG_WRITABLE_SCHEMA, 1)
    return connection


def open_blank(path: Path, key: FileKey) -> apsw.Connection:
    """A new encrypted file that nobody will miss: no journal, no sync."""
    with translated("a temporary file"):
        connection = _connect(path, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE, key)
        connection.pragma("journal_mode", "off")
        connection.pragma("synchronous", "OFF")
    return connection


def open_trial(path: Path, key: FileKey | None = None, *, immutable: bool = False) -> apsw.Connection:
    """A file for one look at whether this key reads it. Raises ``apsw.Error`` as it comes."""
    connection = _connect(path, apsw.SQLITE_OPEN_READONLY, key, immutable=immutable)
    try:
        _common(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def open_alone(path: Path, key: FileKey | None = None) -> apsw.Connection:
    """A file that nobody else has open and that nobody can open until this is closed.

    Its statements take URIs (``VACUUM INTO``). Raises ``StoreBusy`` while anybody has it open, and the store's errors.
    """
    with translated("the file"):
        connection = _connect(path, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI, key)
        try:
            _common(connection)
            connection.set_busy_timeout(0)  # who has the directory alone waits for nobody
            connection.pragma("locking_mode", "exclusive")
            connection.execute("BEGIN EXCLUSIVE").fetchall()
            connection.execute("COMMIT").fetchall()  # the exclusive lock stays: that is what the locking mode means
            connection.pragma("cache_size", -64 * 1024)
        except BaseException:
            connection.close()
            raise
    return connection


def open_copied(path: Path, key: FileKey | None = None) -> apsw.Connection:
    """A copy that is not in its place yet, for checking it and for its last changes: in WAL mode as all files are."""
    with translated("the copy"):
        connection = _connect(path, apsw.SQLITE_OPEN_READWRITE, key)
        try:
            _common(connection)
            _to_wal(connection)
            connection.pragma("synchronous", "FULL")
            _cache(connection, 64, key)
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
