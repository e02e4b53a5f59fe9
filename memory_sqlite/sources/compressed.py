"""Opening a JSON-lines file, compressed or not: gzip and zstd are known by their first bytes, never by a name.

What is unpacked is streamed and never held: a small file that claims to hold much costs time, not memory. Called by
``jsonl`` and by the tables of queries (``query.blocks``).
"""

from __future__ import annotations

import gzip
import io
import stat
from io import BufferedReader
from pathlib import Path
from typing import Any, Final

from memory_sqlite import limits
from memory_sqlite.errors import ExtraMissing, InvalidArgument

_GZIP_MAGIC: Final = b"\x1f\x8b"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_WINDOW_MAX: Final = 128 * limits.MIB
"""What a frame may ask for to be unpacked: what ``zstd --long`` writes and reads without being told."""


def open_binary(path: Path) -> BufferedReader | gzip.GzipFile:
    """Open a regular file for reading, through gzip or zstd when it starts with the magic bytes.

    Raises ``InvalidArgument`` for a directory, pipe or device (a pipe would block for ever), ``ExtraMissing`` for zstd
    without the package, ``OSError`` when it cannot be opened. Reading raises ``EOFError``, ``zlib.error`` or
    ``gzip.BadGzipFile`` where the compressed data is damaged.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise InvalidArgument(f"{path} is not a regular file")
    with path.open("rb") as probe:
        magic = probe.read(4)
    if magic[:2] == _GZIP_MAGIC:
        return gzip.open(path, "rb")
    return BufferedReader(_Zstd(path)) if magic == _ZSTD_MAGIC else path.open("rb")


class _Zstd(io.RawIOBase):
    """A zstd file as a raw stream, of one frame or several. Only forwards."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        try:
            import zstandard
        except ImportError as error:
            raise ExtraMissing(
                "a file is compressed with zstd, and the package for it is not installed",
                hint="Install it with `pip install 'memory-sqlite[zstd]'`.",
            ) from error
        self._error: type[Exception] = zstandard.ZstdError
        self._file = path.open("rb")
        unpacking = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_MAX)
        self._stream = unpacking.stream_reader(self._file, read_across_frames=True)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Raises ``EOFError`` for damaged data."""
        try:
            return self._stream.readinto(buffer)
        except self._error as error:
            raise EOFError("the compressed data is damaged") from error

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()
