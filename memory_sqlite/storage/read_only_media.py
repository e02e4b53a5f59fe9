"""Reading where nothing may be written: a database in WAL mode needs files beside it, unless one goes another way.

First as everywhere. Where SQLite cannot make its ``-shm``: with ``immutable``, but only when there is no WAL with
something in it, since that would silently be left out; else from a private copy, which is taken away again. Whoever
opens for reading goes this way: ``storage.store`` and the keeper of generations. Not here: the pragmas of a reader.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Final, Protocol

import apsw

from memory_sqlite import errors
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.storage.failures import is_full
from memory_sqlite.values import dataclass

_READ: Final = 1024 * 1024


class Opener(Protocol):
    """``connection.open_store_reader`` or ``open_index_reader``."""

    def __call__(self, path: Path, key: FileKey | None, *, immutable: bool = False) -> apsw.Connection: ...


@dataclass(frozen=True, slots=True)
class _Place:
    path: Path
    immutable: bool


class Media:
    """How the files of one agent are opened for reading; found out once for each file. Thread-safe."""

    def __init__(self) -> None:
        self._places: dict[Path, _Place] = {}
        self._copies: Path | None = None
        self._lock = threading.Lock()
        self._closed = False

    @property
    def is_read_only(self) -> bool:
        """Whether a file could not be opened as everywhere."""
        return bool(self._places)

    def open(self, path: Path, key: FileKey | None, opener: Opener) -> apsw.Connection:
        """A connection that has read once. Raises what the opener raises, and of its first read SQLite's own errors;
        ``StoreReadOnly``, ``StoreBusy`` and ``DiskFull`` where a private copy cannot be made."""
        place = self._places.get(path)
        if place is None:
            try:
                return _opened(path, key, opener)
            except (apsw.Error, errors.MemorySqliteError) as error:
                if not path.exists() or not _is_refused(error):
                    raise
            place = self._find(path)
        return opener(place.path, key, immutable=place.immutable)

    def _find(self, path: Path) -> _Place:
        with self._lock:
            if path not in self._places:
                alone = not _size(_wal(path))
                self._places[path] = _Place(path, True) if alone else _Place(self._copy(path), False)
            return self._places[path]

    def _copy(self, path: Path) -> Path:
        """A copy of file and WAL in a directory of mode 0700."""
        import tempfile

        if self._closed:
            raise errors.MemoryClosed("this memory was closed")
        before = _signature(path)
        try:
            if self._copies is None:
                self._copies = Path(tempfile.mkdtemp(prefix="memory-sqlite-"))
            copy = self._copies / path.name
            _take(path, copy)
            _take(_wal(path), _wal(copy))
        except OSError as error:
            if is_full(error):
                raise errors.DiskFull("there is no room for a copy of what cannot be read in place") from error
            raise errors.StoreReadOnly(f"{path.name} can be read neither in place nor from a copy") from error
        if _signature(path) != before:
            raise errors.StoreBusy(f"{path.name} was written to while it was copied")
        return copy

    def close(self) -> None:
        """Take the copies away; safe to call twice. Connections to them should be closed before."""
        with self._lock:
            self._closed = True
            copies, self._copies = self._copies, None
            if copies is not None:
                import shutil  # here, as ``tempfile``: hardly anybody needs them, and a search would pay for both

                self._places.clear()
                shutil.rmtree(copies, ignore_errors=True)


def _opened(path: Path, key: FileKey | None, opener: Opener) -> apsw.Connection:
    connection = opener(path, key)
    try:
        connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def _is_refused(error: BaseException) -> bool:
    """Whether SQLite, asked by us or in the opener, could not make what it needs beside the file."""
    while error.__cause__ is not None:  # the opener's errors are those of the catalogue, from SQLite's
        error = error.__cause__
    return isinstance(error, apsw.CantOpenError | apsw.ReadOnlyError)


def _wal(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _signature(path: Path) -> list[tuple[int, int]]:
    return [(status.st_size, status.st_mtime_ns) for status in (path.stat(), _wal(path).stat())]


def _take(source: Path, target: Path) -> None:
    """Through SQLite's file layer: closing in another way a file that this process has open would drop its locks."""
    try:
        file = apsw.VFSFile("", str(source), [apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB, 0])
        try:
            size = file.xFileSize()
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as out:
                for at in range(0, size, _READ):
                    out.write(file.xRead(min(_READ, size - at), at))
        finally:
            file.xClose()
    except apsw.Error as error:
        raise OSError(f"{source.name} cannot be read") from error
