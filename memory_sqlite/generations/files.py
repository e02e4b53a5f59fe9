"""The files of generations: made, probed for readers, removed. The open connection of a reader is its hold."""

from __future__ import annotations

import os
from pathlib import Path

import apsw

from memory_sqlite import paths
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.storage import connection as connections


def create(path: Path, key: FileKey | None) -> apsw.Connection:
    """An empty generation file with mode 0600, open for building; leftovers of the same name are removed first."""
    remove(path)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    return connections.create_index(path, key)


def is_strange(path: Path) -> bool:
    """Whether a link or a directory bears the name of a generation or a sidecar: nothing of ours (``numbers``)."""
    names = (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm"))
    return any(name.is_symlink() or name.is_dir() for name in names)


def seal(connection: apsw.Connection, path: Path) -> None:
    """End a bulk build: everything into the main file, shared locking again, file and directory on disk."""
    connection.pragma("synchronous", "FULL")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.pragma("locking_mode", "normal")
    connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # the lock is let go at the next read
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_held(path: Path, key: FileKey | None = None) -> bool:
    """True while any connection in any process has the file open (measured: also in this process)."""
    if not path.exists():
        return False
    try:
        probe = connections.open_index_probe(path, key)
    except (apsw.NotADBError, apsw.CorruptError):
        return False
    except apsw.Error:
        return path.exists()  # what cannot be told counts as held: nothing is deleted on a guess
    if probe is None:
        return True
    probe.close()
    return False


def remove_unless_held(path: Path, key: FileKey | None = None) -> bool:
    """Unlink a generation that nobody has open, while still holding it alone; whether it is gone."""
    if path.exists():
        try:
            probe = connections.open_index_probe(path, key)
        except (apsw.NotADBError, apsw.CorruptError):
            probe = None
        except apsw.Error:
            return not path.exists()
        else:
            if probe is None:
                return False
        try:
            remove(path)
        finally:
            if probe is not None:
                probe.close()
    remove(path)
    return True


def remove(path: Path) -> None:
    """Unlink a generation's file with its ``-wal`` and ``-shm``."""
    for name in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        name.unlink(missing_ok=True)


def numbers(directory: Path) -> list[int]:
    """The numbers of the generation files in an agent's directory, ascending; sidecars without their file count too.

    A directory or a link of such a name is nothing of ours: it is neither opened nor removed.
    """
    found = set()
    for entry in os.scandir(directory):
        if not entry.is_file(follow_symlinks=False):
            continue
        name = entry.name.removesuffix("-wal").removesuffix("-shm")
        number = paths.generation_number(name)
        if number is not None:
            found.add(number)
    return sorted(found)
