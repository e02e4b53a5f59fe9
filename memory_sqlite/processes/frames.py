"""Frames: how a message travels over a pipe, whole or not at all.

A frame is four bytes of length (big-endian, of what follows), four bytes of header length, the header as one JSON
object in UTF-8, and then bytes as they are: vectors, files. No pickle: a frame can carry data and nothing else.
Lives here: bytes. Not here: what a header may say (``envelopes``). Called by both sides.
"""

from __future__ import annotations

import json
import os
import select
import struct
from typing import Any, Final

from memory_sqlite.limits import FRAME_MAX_BYTES
from memory_sqlite.values import dataclass

_LENGTHS: Final = struct.Struct(">II")
_READ_BYTES: Final = 1 << 16
"""What a pipe holds on Linux."""


class WireError(ValueError):
    """What arrived is not what was agreed. Names positions and fields, never their content."""


class FrameTooLarge(ValueError):
    """A message is larger than one frame may be; it was not sent, and nobody was disturbed."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message: a JSON object and bytes."""

    header: dict[str, Any]
    blob: bytes = b""


def pack(header: dict[str, Any], blob: bytes = b"") -> bytes:
    """The bytes of a frame. Raises ``FrameTooLarge``; lone surrogates travel as they are."""
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    body = text.encode("utf-8", "surrogatepass")
    size = 4 + len(body) + len(blob)
    if size > FRAME_MAX_BYTES:
        raise FrameTooLarge(f"a message of {size} bytes; one frame holds {FRAME_MAX_BYTES}")
    return b"".join((_LENGTHS.pack(size, len(body)), body, blob))


def write(descriptor: int, data: bytes) -> None:
    """Write all of it, however the system portions it. Raises ``OSError`` when nobody reads any more."""
    sent = os.write(descriptor, data)
    if sent < len(data):
        view = memoryview(data)
        while sent < len(data):
            sent += os.write(descriptor, view[sent:])


class FrameReader:
    """Frames from a pipe, one reader a pipe. Not thread-safe."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = bytearray()
        self._poll: select.poll | None = None

    def read(self, timeout: float | None = None) -> Frame | None:
        """The next frame, or ``None`` when none has begun to arrive in ``timeout`` seconds.

        Raises ``EOFError`` at the end of the pipe, also in the middle of a frame, and ``WireError`` for what is no
        frame.
        """
        waited = False
        while True:
            frame = self._take()
            if frame is not None:
                return frame
            if timeout is not None and not waited and not self._readable(timeout):
                return None
            waited = bool(self._buffer)
            data = os.read(self._descriptor, _READ_BYTES)
            if not data:
                raise EOFError
            self._buffer += data

    def _readable(self, timeout: float) -> bool:
        if self._poll is None:  # not ``select``: a host may have more descriptors open than that can number
            self._poll = select.poll()
            self._poll.register(self._descriptor, select.POLLIN | select.POLLHUP | select.POLLERR)
        return bool(self._poll.poll(timeout * 1000))

    def _take(self) -> Frame | None:
        buffer = self._buffer
        if len(buffer) < _LENGTHS.size:
            return None
        size, length = _LENGTHS.unpack_from(buffer)
        if size > FRAME_MAX_BYTES or length > size - 4:
            raise WireError("the length of a frame is out of bounds")
        end = 4 + size
        if len(buffer) < end:
            return None
        body = bytes(buffer[_LENGTHS.size : _LENGTHS.size + length])
        blob = bytes(buffer[_LENGTHS.size + length : end])
        del buffer[:end]
        try:
            header = json.loads(body.decode("utf-8", "surrogatepass"))
        except (ValueError, RecursionError) as error:
            raise WireError("a frame holds no JSON") from error
        if not isinstance(header, dict):
            raise WireError("a frame holds no JSON object")
        return Frame(header, blob)
