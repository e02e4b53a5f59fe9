"""What the first bytes of a database file say: in clear, encrypted, or neither. Reads and nothing else.

Through SQLite's own file layer: opening and closing a file by other means drops the locks that this process has on it.
Measured: 4 us. Not here: what follows from it (``unlocking``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import apsw

Kind = Literal["absent", "empty", "plain", "encrypted", "unknown"]
_MAGIC: Final = b"SQLite format 3\0"
_PAYLOAD_FRACTIONS: Final = b"\x40\x20\x20"
"""Bytes 21 to 23 of every database (sqlite.org/fileformat2); ``aegis`` leaves bytes 16 to 23 in clear."""
_BASE_VFS: Final = apsw.vfs_names()[0].removeprefix("multipleciphers-")
_PAGE: Final = 4096
_VARIED: Final = 200
"""Different bytes among 4,096: random ones have 256 (fewer than 240 once in a million), no page of ours has so many."""


def open_raw(path: Path, *, write: bool = False) -> apsw.VFSFile:
    """A file's bytes as they lie on disk, without a cipher. Raises ``apsw.Error``."""
    access = apsw.SQLITE_OPEN_READWRITE if write else apsw.SQLITE_OPEN_READONLY
    return apsw.VFSFile(_BASE_VFS, str(path.absolute()), [access | apsw.SQLITE_OPEN_MAIN_DB, 0])


def kind(path: Path) -> Kind:
    """What kind of file it is. A link or a directory is ``unknown``: whoever opens it says what is wrong."""
    if path.is_symlink() or not path.is_file():
        return "unknown" if path.is_symlink() or path.exists() else "absent"
    try:
        file = open_raw(path)
    except apsw.Error:
        return "unknown"
    try:
        size = file.xFileSize()
        start = file.xRead(min(size, _PAGE), 0)
    except apsw.Error:
        return "unknown"
    finally:
        file.xClose()
    if not size:
        return "empty"
    if start.startswith(_MAGIC):
        return "plain"
    if len(start) < _PAGE:
        return "unknown"
    if start[21:24] == _PAYLOAD_FRACTIONS or (size % _PAGE == 0 and len(set(start)) >= _VARIED):
        return "encrypted"  # of the cipher of SQLCipher nothing is in clear
    return "unknown"
