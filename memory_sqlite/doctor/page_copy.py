"""The pages of a damaged store, in clear, with what its WAL holds: read from a private copy, so that it stays as it is.

A plain copy is read straight from its file. Of an encrypted one SQLite decrypts the pages and hands them over in
memory, never on disk; it gives up all pages after the first that fails its check (measured), so each such page is
replaced by a valid one of nothing, under the same key, until all others come. Called by ``salvage``.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Final

import apsw

from memory_sqlite import errors, limits
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.doctor.tree_pages import Page, Reader
from memory_sqlite.storage import connection as connections
from memory_sqlite.values import dataclass

PAGE: Final = 4096
"""Bytes of a page of every store: SQLite's default since 3.12, and nobody sets another."""
_SALT: Final = 16
"""Bytes at the beginning of an encrypted file that are in clear."""
_READ: Final = 256 * PAGE


@dataclass
class Pages:
    """``unreadable`` are pages that are not there or that fail their check; a plain file has no check."""

    reader: Reader
    unreadable: set[int]


@contextmanager
def pages(store: Path, key: FileKey | None, scratch: Path) -> Iterator[Pages]:
    """The pages of ``store``, by way of a copy in ``scratch``, a directory that is the caller's to take away.

    Raises ``StoreDamaged`` where there is not one whole page, or too much to decrypt in memory; ``StoreBusy`` where
    somebody writes meanwhile; ``EncryptionKeyWrong``.
    """
    copy = scratch / "copy.sqlite"
    wal = store.with_name(store.name + "-wal")
    before = _signature(store, wal)
    _copy(store, copy)
    if wal.exists():
        _copy(wal, copy.with_name(copy.name + "-wal"))
    if _signature(store, wal) != before:
        raise errors.StoreBusy("memory.sqlite was written to while it was copied")
    if copy.stat().st_size < PAGE:
        raise errors.StoreDamaged("memory.sqlite does not hold one whole page")
    if key is None:
        _take_wal_in(copy)
        with copy.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as content:
            count = len(content) // PAGE
            yield Pages(Reader(_page_of(content, count), count, PAGE), set())
        return
    clear, unreadable = _decrypted(copy, key, scratch)
    count = len(clear) // PAGE
    yield Pages(Reader(_page_of(clear, count, unreadable), count, PAGE - clear[20]), unreadable)


def _page_of(content: bytes | mmap.mmap, count: int, without: set[int] | None = None) -> Page:
    def page(number: int) -> bytes | None:
        if not 1 <= number <= count or (without and number in without):
            return None
        return content[(number - 1) * PAGE : number * PAGE]

    return page


def _signature(*files: Path) -> list[tuple[int, int]]:
    return [(seen.st_size, seen.st_mtime_ns) for seen in (file.stat() for file in files if file.exists())]


def _copy(source: Path, target: Path) -> None:
    """Byte for byte, read through SQLite's own file layer: closing a file that this process has open through SQLite in
    any other way drops its locks."""
    file = apsw.VFSFile("", str(source), [apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB, 0])
    try:
        size = file.xFileSize()
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as out:
            for at in range(0, size, _READ):
                out.write(_read(file, min(_READ, size - at), at))
    finally:
        file.xClose()


def _read(file: apsw.VFSFile, size: int, at: int) -> bytes:
    """A stretch; where the medium gives an error, page by page, with nothing for those that cannot be read."""
    try:
        return file.xRead(size, at)
    except apsw.IOError:
        if size <= PAGE:
            return bytes(size)
        return b"".join(_read(file, min(PAGE, size - more), at + more) for more in range(0, size, PAGE))


def _take_wal_in(copy: Path, key: FileKey | None = None) -> None:
    """What was committed to the WAL goes into the copy; what of it is damaged, and all after that, is not committed."""
    if not copy.with_name(copy.name + "-wal").exists():
        return
    try:
        connection = connections.open_salvaged(copy, key)
    except errors.MemorySqliteError:
        return
    try:
        # the first read opens the WAL, and closing takes it in: also where the first page is lost or is none (tested)
        connection.execute("PRAGMA user_version").fetchall()
    except apsw.Error:
        pass
    finally:
        connection.close()


def _decrypted(copy: Path, key: FileKey, scratch: Path) -> tuple[bytes, set[int]]:
    size = copy.stat().st_size // PAGE * PAGE
    if size > limits.SALVAGE_DECRYPTED_MAX_BYTES:
        raise errors.StoreDamaged("the store is too large to be decrypted in memory; restore it from a backup")
    with copy.open("r+b") as file:
        file.truncate(size)  # half a page fails its check
        salt = file.read(_SALT)
        file.seek(0)
        raw = file.read()
    nothing = bytes(PAGE)
    unreadable = {at // PAGE + 1 for at in range(0, size, PAGE) if raw[at : at + PAGE] == nothing}
    blank = _Blank(scratch / "blank.sqlite", replace(key, raw=key.raw + salt), size)
    blank.place(copy, unreadable)
    _take_wal_in(copy, key)
    unreadable = blank.those_in(copy, unreadable)  # of the others the WAL had a newer one
    sound = 1
    while True:
        failed = _first_failing(copy, key, scratch / "probe.sqlite", sound)
        if failed is None:
            break
        if failed in unreadable or len(unreadable) >= limits.SALVAGE_UNREADABLE_PAGES_MAX:
            raise errors.EncryptionKeyWrong("hardly a page of memory.sqlite opens with this key")
        unreadable.add(failed)
        sound = failed
        blank.place(copy, {failed})
    connection = connections.open_salvaged(copy, key)
    try:
        content = connection.serialize("main")
    finally:
        connection.close()
    assert content is not None, "every page has just been read"
    return content, unreadable


def _first_failing(copy: Path, key: FileKey, target: Path, sound: int) -> int | None:
    """The first page that fails its check: SQLite's backup reads them in order and stops there. The first ``sound``
    pages are known to be good; the others are read one by one, since a step that fails does not say how far it came."""
    target.unlink(missing_ok=True)
    source, probe = connections.open_salvaged(copy, key), connections.open_blank(target, key)
    try:
        backup = probe.backup("main", source, "main")
        try:
            backup.step(sound)
            while not backup.done:
                backup.step(1)
        except apsw.Error:
            return backup.page_count - backup.remaining + 1
        finally:
            backup.close(force=True)
    finally:
        probe.close()
        source.close()
        target.unlink(missing_ok=True)
    return None


class _Blank:
    """A file of the same size and key with nothing in it, made when the first page of it is wanted."""

    def __init__(self, path: Path, key: FileKey, size: int) -> None:
        self._path, self._key, self._size = path, key, size

    def those_in(self, copy: Path, numbers: set[int]) -> set[int]:
        """Which of these pages of the copy are still its own."""
        if not numbers:
            return numbers
        with self._path.open("rb") as blank, copy.open("rb") as file:
            return {number for number in numbers if _page_at(blank, number) == _page_at(file, number)}

    def place(self, copy: Path, numbers: set[int]) -> None:
        """Put its pages in place of those of the copy."""
        if not numbers:
            return
        if not self._path.exists():
            connection = connections.open_blank(self._path, self._key)
            try:
                connection.execute("CREATE TABLE blank (filler BLOB)").fetchall()
                connection.execute("INSERT INTO blank VALUES (zeroblob(?))", (self._size + 16 * PAGE,)).fetchall()
            finally:
                connection.close()
        with self._path.open("rb") as blank, copy.open("r+b") as file:
            for number in sorted(numbers):
                page = _page_at(blank, number)
                file.seek((number - 1) * PAGE)
                file.write(page)


def _page_at(file: BinaryIO, number: int) -> bytes:
    file.seek((number - 1) * PAGE)
    return file.read(PAGE)
