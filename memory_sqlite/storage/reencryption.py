"""One database file under another key: copied whole into a new file, compared, put in the old one's place.

Never ``rekey``: it breaks readers, and a process that is killed leaves one file of two kinds. VACUUM INTO makes the
copy (measured: from clear to a key, from key to key, across ciphers, and back). Not here: which key (``unlocking``),
in which order the files of an agent go (``rekeying``).
"""

from __future__ import annotations

import hashlib
import marshal
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import apsw

from memory_sqlite import errors, limits
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.crypto.keyring_file import sync_directory
from memory_sqlite.storage import connection as connections
from memory_sqlite.storage import headers
from memory_sqlite.storage.failures import is_full, translated

SUFFIX: Final = ".rekey"
_MARSHAL: Final = 2
"""Of marshal's formats the newest that is a function of the values alone: later ones mark objects seen twice."""
_BLOCK: Final = 64 * limits.KIB
"""SQLite's file layer writes no more than 128 KiB at a time (measured: of a longer write the rest is left out)."""


@contextmanager
def alone(path: Path, key: FileKey | None) -> Iterator[apsw.Connection]:
    """A file that nobody else can open until the block ends; nothing of it is in its WAL. Raises ``StoreBusy``."""
    connection = connections.open_alone(path, key)
    with _closing(connection):
        _settle(connection)
        yield connection


@contextmanager
def copied(path: Path, key: FileKey | None) -> Iterator[apsw.Connection]:
    """A copy for its last changes; when the block ends all of it is in the one file that takes its original's place."""
    connection = connections.open_copied(path, key)
    with _closing(connection):
        yield connection
        _settle(connection)


@contextmanager
def _closing(connection: apsw.Connection) -> Iterator[None]:
    try:
        yield
    finally:
        with translated("the file"):
            connection.close()


def _settle(connection: apsw.Connection) -> None:
    # said and asked: SQLite's own checkpoint when it closes a file fails in silence, and what a WAL still holds would
    # be lost with the name of its file, or come up beside another
    with translated("the file"):
        if tuple(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() or ()) != (0, 0, 0):
            raise errors.StoreBusy("the write-ahead log of a file could not be emptied")


def beside(path: Path) -> Path:
    """Where the copy of a file is made; ``doctor`` knows such names as temporary files."""
    return path.with_name(f".{path.name}{SUFFIX}")


def fits(path: Path, key: FileKey | None) -> bool:
    """Whether a file can be read with this key, ``None`` for none (0.2 ms).

    Raises ``apsw.Error`` for whatever is not about the key.
    """
    try:
        return _fits(path, key, immutable=False)
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        # on read-only media; that its WAL is left out does not matter for a look at the first page
        return _fits(path, key, immutable=True)


def _fits(path: Path, key: FileKey | None, *, immutable: bool) -> bool:
    connection = connections.open_trial(path, key, immutable=immutable)
    try:
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    except apsw.NotADBError:
        return False
    finally:
        connection.close()
    return True


def copy(source: apsw.Connection, target: Path, key: FileKey | None) -> None:
    """Everything in ``source`` into the new file ``target``, encrypted with ``key``. Not synced: see ``finish``.

    Schema version and application id go along. What cannot be finished leaves no file. Raises the store's errors.
    """
    _make(target)
    problem: errors.MemorySqliteError | None = None
    try:
        with translated("the copy"):
            source.execute("VACUUM INTO ?", (_address(target, key),)).fetchall()
    except errors.MemorySqliteError as error:
        problem = type(error)(error.message)
    except apsw.Error as error:
        problem = errors.StoreDamaged(f"the copy could not be made ({type(error).__name__})")
    except BaseException:
        discard(target)
        raise
    if problem is not None:
        discard(target)
        # raised here, where it has no cause: SQLite's own words would name the address, and with it the key
        raise problem


def _address(path: Path, key: FileKey | None) -> str:
    """A URI, handed over as a bound value: what is bound is in no log."""
    if key is None:
        return f"{path.absolute().as_uri()}?key="
    more = "&legacy=4" if key.cipher == "sqlcipher" else ""
    return f"{path.absolute().as_uri()}?cipher={key.cipher}{more}&key=raw:{key.raw.hex()}"


def _make(path: Path) -> None:
    discard(path)
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise refused(error) from error


def finish(path: Path) -> None:
    """Put a copy on disk. Raises ``DiskFull``, ``StoreDamaged``."""
    with translated("the copy"):
        file = headers.open_raw(path, write=True)
        try:
            file.xSync(apsw.SQLITE_SYNC_FULL)
        finally:
            file.xClose()


def digests(connection: apsw.Connection) -> dict[str, tuple[int, bytes]]:
    """Of each table the number of its rows and a digest over all of them in their order; of the schema too.

    Virtual tables are what their shadow tables hold.
    """
    found: dict[str, tuple[int, bytes]] = {}
    tables = connection.execute(
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'shadow') ORDER BY name"
    )
    for (name,) in tables.fetchall():
        quoted = str(name).replace('"', '""')
        # the schema's own table holds page numbers, which a copy has others of
        columns = "type, name, tbl_name, sql" if name == "sqlite_schema" else "*"
        order = " ORDER BY type, name" if name == "sqlite_schema" else ""
        digest, rows = hashlib.blake2b(digest_size=32), 0
        for row in connection.execute(f'SELECT {columns} FROM "{quoted}"{order}'):
            digest.update(marshal.dumps(row, _MARSHAL))
            rows += 1
        found[str(name)] = (rows, digest.digest())
    return found


def verify(source: dict[str, tuple[int, bytes]], target: apsw.Connection) -> None:
    """Prove that a copy is whole and says what its source says. Raises ``StoreDamaged``: the copy is then useless."""
    with translated("the copy"):
        sound = target.execute("PRAGMA integrity_check").get
        if sound != "ok":
            raise errors.StoreDamaged("the copy that was made is not sound; the files are as they were")
        if digests(target) != source:
            raise errors.StoreDamaged("the copy that was made is not equal to its source; the files are as they were")


def put_in_place(copy_path: Path, path: Path) -> None:
    """The copy takes its original's name; the original's bytes are overwritten after that is on disk.

    The caller has the original alone and its WAL is empty. Whoever opened the original by its name just before finds
    no database in it any more, instead of writing where nobody reads. Raises ``StoreReadOnly``, ``DiskFull``.
    """
    old = _open_old(path)
    try:
        try:
            copy_path.replace(path)
            sync_directory(path.parent)
        except OSError as error:
            raise refused(error) from error
        if old is not None:
            _erase(old)
    finally:
        if old is not None:
            old.xClose()
    discard(path, ("-shm", "-journal"))


def erase(path: Path) -> None:
    """Take a file away with what lies beside it, its bytes first: names in clear text must not stay behind readable.

    What a file system keeps elsewhere of overwritten blocks is out of reach.
    """
    old = _open_old(path)
    if old is not None:
        try:
            _erase(old)
        finally:
            old.xClose()
    discard(path)


def sweep(directory: Path) -> None:
    """Copies that a killed change of keys left half-made, named by nobody: only for who has the directory alone, or
    holds it, so that no change is under way. Raises ``StoreReadOnly``."""
    for path in directory.iterdir():
        if path.name.startswith(".") and SUFFIX in path.name and path.is_file() and not path.is_symlink():
            erase(path)


def discard(path: Path, sides: Sequence[str] = ("", "-wal", "-shm", "-journal")) -> None:
    """Unlink a file and what SQLite keeps beside it. Raises ``StoreReadOnly``."""
    try:
        for side in sides:
            path.with_name(path.name + side).unlink(missing_ok=True)
    except OSError as error:
        raise refused(error) from error


def _open_old(path: Path) -> apsw.VFSFile | None:
    """The file whose bytes are to go; ``None`` when another name leads to it: somebody's copy by hard link."""
    try:
        if path.stat().st_nlink != 1:
            return None
        return headers.open_raw(path, write=True)
    except (OSError, apsw.Error):
        return None


def _erase(file: apsw.VFSFile) -> None:
    """Zeros from end to end. It helps where it can and stops nothing: the name is gone by now, or about to go."""
    try:
        size = file.xFileSize()
        for offset in range(0, size, _BLOCK):
            file.xWrite(bytes(min(_BLOCK, size - offset)), offset)
        file.xSync(apsw.SQLITE_SYNC_FULL)
    except apsw.Error:
        pass


def refused(error: OSError) -> errors.MemorySqliteError:
    """What the system said, in the words of the catalogue."""
    if is_full(error):
        return errors.DiskFull("the disk is full; the files are as they were")
    return errors.StoreReadOnly(f"the agent's directory cannot be written ({error.strerror})")
