"""Opening a JSON-lines file, compressed or not: gzip and zstd are known by their first bytes, never by a name.

What is unpacked is streamed and never held: a small file that claims to hold much costs time, not memory. Called by
``jsonl`` and by the tables of queries (``query.blocks``).
"""

from __future__ import annotations

import gzip
import io
import stat
from collections.abc import Generator
from io import BufferedReader
from pathlib import Path
from typing import Any, Final, cast

from memory_sqlite import limits
from memory_sqlite.errors import ExtraMissing, InvalidArgument

_GZIP_MAGIC: Final = b"\x1f\x8b"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_PASSED_OVER: Final = b"\x2a\x4d\x18"
"""What a frame that holds no data begins with, after a byte of its own."""
_ZSTD_PART_MAX: Final = 4
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
        self._frames = _Frames(self._file)
        self._stream = unpacking.stream_reader(cast(Any, self._frames))  # frame by frame: one before damage is given

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Raises ``EOFError`` for data that is damaged or ends early."""
        try:
            size = self._stream.readinto(buffer)
        except self._error as error:
            raise EOFError("the compressed data is damaged") from error
        if not size and not self._frames.are_whole():
            raise EOFError("the compressed data ends early")
        return size

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


class _Frames:
    """A file that is read, and whether it ends where a frame of zstd (RFC 8878) does: the package does not say."""

    def __init__(self, file: BufferedReader) -> None:
        self._file = file
        self._parts = _parts()
        self._left = -next(self._parts)
        self._held = b""
        self._is_between = True

    def read(self, size: int) -> bytes:
        """As of the file."""
        data = self._file.read(size)
        at = 0
        while at < len(data):
            end = min(len(data), at + self._left)
            if len(self._held) < _ZSTD_PART_MAX:  # what is longer is passed over
                self._held += data[at : min(end, at + _ZSTD_PART_MAX)]
            self._left -= end - at
            at, self._is_between = end, False
            while not self._left:
                wanted = self._parts.send(self._held)
                self._held, self._left, self._is_between = b"", abs(wanted), wanted < 0
        return data

    def are_whole(self) -> bool:
        """Whether what was read ends with a frame."""
        return self._is_between


def _parts() -> Generator[int, bytes, None]:
    """The sizes of the parts of frames, given what is in each; that of a frame's first part is negative."""
    while True:
        magic = yield -4
        if magic[1:] == _ZSTD_PASSED_OVER:
            yield int.from_bytes((yield 4), "little")
            continue
        said = (yield 1)[0]
        is_single = said >> 5 & 1
        yield 1 - is_single + (0, 1, 2, 4)[said & 3] + (is_single, 2, 4, 8)[said >> 6]
        is_last = False
        while not is_last:
            block = int.from_bytes((yield 3), "little")
            is_last = bool(block & 1)
            yield 1 if block >> 1 & 3 == 1 else block >> 3
        if said & 4:
            yield 4
