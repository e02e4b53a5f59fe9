"""The files of a backup: read within bounds and without following links, written durably, only for their owner.

Database files are read here as bytes. That is safe only for files that nobody in this process has open through SQLite:
a backup's own, and copies under a name that nobody else knows. Called by ``manifest``, ``making``, ``verifying`` and
``restoring``.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from memory_sqlite import errors, limits
from memory_sqlite.storage.session_key import sync_directory

Read = Callable[[int], None]
"""Hears how many bytes were read."""

_BLOCK: Final = 1 * limits.MIB


def open_below(root: Path, name: str) -> int:
    """A descriptor of a regular file below a directory; no link on the way there is followed.

    Raises ``BackupInvalid`` for what is not there, is a link, or no regular file.
    """
    *folders, last = name.split("/")
    directory = -1
    try:
        directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for folder in folders:
            deeper = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
            os.close(directory)
            directory = deeper
        # without O_NONBLOCK a pipe would be waited for
        found = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.ENOENT:
            raise errors.BackupInvalid(f"{name} is missing") from error
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise errors.BackupInvalid(f"{name} is a link or lies behind one") from error
        raise errors.BackupInvalid(f"{name} cannot be read ({error.strerror})") from error
    finally:
        if directory >= 0:
            os.close(directory)
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise errors.BackupInvalid(f"{name} is not a regular file")
    return found


def read_small(root: Path, name: str, most: int) -> bytes:
    """The whole of a small file. Raises ``BackupInvalid``, also for one of more than ``most`` bytes."""
    descriptor = open_below(root, name)
    with os.fdopen(descriptor, "rb") as file:
        try:
            data = file.read(most + 1)
        except OSError as error:
            raise errors.BackupInvalid(f"{name} cannot be read ({error.strerror})") from error
    if len(data) > most:
        raise errors.BackupInvalid(f"{name} is larger than {most} bytes")
    return data


def digest(root: Path, name: str, most: int, heard: Read | None = None, into: int | None = None) -> tuple[int, str]:
    """Size and SHA-256 of a file, read once and no further than one byte beyond ``most``; what is read is also written
    to the descriptor ``into``, so that what is kept is what was proved. Raises ``BackupInvalid``."""
    descriptor = open_below(root, name)
    summed, size = hashlib.sha256(), 0
    try:
        while size <= most:
            try:
                block = os.read(descriptor, min(_BLOCK, most + 1 - size))
            except OSError as error:
                raise errors.BackupInvalid(f"{name} cannot be read ({error.strerror})") from error
            if not block:
                break
            summed.update(block)
            size += len(block)
            if into is not None:
                write(into, block)
            if heard is not None:
                heard(len(block))
    finally:
        os.close(descriptor)
    return size, summed.hexdigest()


def write(descriptor: int, data: bytes) -> None:
    """All of it: a disk that is nearly full takes a part and says so only when asked again."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def create(path: Path) -> int:
    """A descriptor of a new empty file, mode 0600."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def write_whole(path: Path, data: bytes) -> None:
    """A new small file, on disk when this returns (its name is, once its folder has been synced)."""
    descriptor = create(path)
    try:
        write(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync(path: Path) -> None:
    """Make a file's bytes durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folders(root: Path) -> None:
    """Make every name below a directory durable, the innermost first."""
    for folder, _, _ in os.walk(root, topdown=False):
        sync_directory(Path(folder))
