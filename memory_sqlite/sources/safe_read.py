"""Reading note files on a disk that others write to: no link is followed, no pipe is waited for, no size is trusted.

A file is opened from its root directory name by name, each without following links, so that a name swapped for a link
between listing and opening is refused by the system and not by a check that could be raced; then the open descriptor is
asked what it is. Lives here: opening, decoding, ranges of lines. Not here: which files may be read (``notes``).
"""

from __future__ import annotations

import errno
import hashlib
import os
from typing import Final

from memory_sqlite import limits
from memory_sqlite.model import SourceProblem
from memory_sqlite.sources.discovery import changed_ns, not_a_file, reason_of
from memory_sqlite.sources.places import NotePlace, shown
from memory_sqlite.values import dataclass

VANISHED: Final = "vanished between listing and reading"
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_BOMS: Final = (
    # UTF-32 before UTF-16: its little-endian mark begins with the other's
    (b"\xff\xfe\x00\x00", "utf-32-le", "UTF-32"),
    (b"\x00\x00\xfe\xff", "utf-32-be", "UTF-32"),
    (b"\xff\xfe", "utf-16-le", "UTF-16"),
    (b"\xfe\xff", "utf-16-be", "UTF-16"),
)
_NUL_SHARE: Final = 0.2
"""Text in UTF-16 without a mark is about half NUL bytes, a stray NUL in UTF-8 is one in thousands."""


@dataclass(frozen=True, slots=True)
class NoteText:
    """The text of a note and the file it was read from (``fstat`` of the open descriptor, not of the listing)."""

    text: str
    hash: str
    """SHA-256 of the bytes, in hex."""
    encoding_problem: str | None
    size: int
    mtime_ns: int
    """As ``discovery.changed_ns`` tells it."""
    inode: int
    device: int


def read_note(place: NotePlace) -> NoteText | SourceProblem:
    """Read a note that was listed; a ``SourceProblem`` when it cannot be read.

    A file that is gone is such a problem too (reason ``VANISHED``): one lost file never ends a run. A file that was
    replaced by another regular file is read as it now is; its identity is in the result.
    """
    read = read_bytes(place)
    if isinstance(read, SourceProblem):
        return read
    data, seen = read
    text, problem = decode(data)
    if text is None:
        return SourceProblem(shown(place.path), problem or "is not text")
    digest = hashlib.sha256(data).hexdigest()
    return NoteText(text, digest, problem, len(data), changed_ns(seen), seen.st_ino, seen.st_dev)


def read_bytes(place: NotePlace) -> tuple[bytes, os.stat_result] | SourceProblem:
    """The bytes of a note and what the open descriptor is; a ``SourceProblem`` as ``read_note`` has it."""
    try:
        descriptor = _open(place)
    except FileNotFoundError:
        return SourceProblem(shown(place.path), VANISHED)
    except OSError as error:
        return SourceProblem(shown(place.path), _refusal(error))
    try:
        seen = os.fstat(descriptor)
        reason = not_a_file(seen)
        if reason is None and seen.st_size > limits.NOTE_MAX_BYTES:
            reason = f"is larger than {limits.NOTE_MAX_BYTES} bytes"
        if reason is not None:
            return SourceProblem(shown(place.path), reason)
        data = _read_all(descriptor)
    except OSError as error:
        return SourceProblem(shown(place.path), _refusal(error))
    finally:
        os.close(descriptor)
    if len(data) > limits.NOTE_MAX_BYTES:
        return SourceProblem(shown(place.path), f"is larger than {limits.NOTE_MAX_BYTES} bytes")
    return data, seen


def open_folder(place: NotePlace) -> int:
    """The folder of a note, opened without following any link below the root. Raises ``OSError``."""
    at = os.open(place.root, _FOLDER)
    for folder in place.relative.split("/")[:-1]:
        try:
            below = os.open(folder, _FOLDER | os.O_NOFOLLOW, dir_fd=at)
        finally:
            os.close(at)
        at = below
    return at


def _open(place: NotePlace) -> int:
    """Open without following any link below the root. Raises ``OSError``."""
    folder = open_folder(place)
    try:
        return os.open(place.relative.rpartition("/")[2], _FILE, dir_fd=folder)
    finally:
        os.close(folder)


def _read_all(descriptor: int) -> bytes:
    """The bytes there are, at most one more than a note may have: a file may grow while it is read."""
    with open(descriptor, "rb", closefd=False) as file:
        return file.read(limits.NOTE_MAX_BYTES + 1)


def _refusal(error: OSError) -> str:
    if error.errno in (errno.ELOOP, errno.EMLINK):
        return "is a link, which is not followed"
    if error.errno == errno.ENOTDIR:  # what Linux says of a link where a folder should be
        return "goes through a link, which is not followed"
    if error.errno == errno.ENXIO:
        return "is not a regular file (pipe, socket or device)"
    return f"cannot be read: {reason_of(error)}"


def decode(data: bytes) -> tuple[str | None, str | None]:
    """Text of the bytes of a note, and what was odd about them; no text when they are none.

    UTF-8 with or without a mark is the rule; a UTF-16 or UTF-32 mark is believed; any other byte becomes U+FFFD, and so
    does NUL (CommonMark, section 2.3).
    """
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    for mark, encoding, name in _BOMS:
        if data.startswith(mark):
            text = data[len(mark) :].decode(encoding, "replace")
            return text.replace("\0", "\ufffd"), f"is {name}, not UTF-8; read as {name}"
    zeros = data.count(0)
    if zeros > len(data) * _NUL_SHARE:
        return _without_mark(data, zeros)
    try:
        text, problem = data.decode("utf-8"), None
    except UnicodeDecodeError:
        text, problem = data.decode("utf-8", "replace"), "is not valid UTF-8; undecodable bytes were replaced"
    if zeros:
        text = text.replace("\0", "\ufffd")
        problem = problem or "contains NUL characters; they were replaced"
    return text, problem


def _without_mark(data: bytes, zeros: int) -> tuple[str | None, str]:
    """UTF-16 without a mark, told by where its zeros are; anything else with so many zeros is binary."""
    odd = data[1::2].count(0)
    for share, encoding in ((odd, "utf-16-le"), (zeros - odd, "utf-16-be")):
        if share > zeros * 0.9:
            try:
                return data.decode(encoding).replace("\0", "\ufffd"), "is UTF-16 without a mark; read as UTF-16"
            except UnicodeDecodeError:
                break
    return None, "is not text"
