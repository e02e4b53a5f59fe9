"""A directory that is there whole or not at all: made beside its place under another name, and renamed.

What a killed process left beside is taken away by the next one that writes to the same place: a lock on it tells
whether its maker lives. Called by ``making`` and ``restoring``.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from memory_sqlite import errors
from memory_sqlite.backup import files
from memory_sqlite.clock import Clock
from memory_sqlite.crypto import directory_lock
from memory_sqlite.storage.failures import is_full
from memory_sqlite.storage.session_key import sync_directory

_SUFFIX: Final = ".partial"
_NAME_CHARS: Final = 100
_TAKEN: Final = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EISDIR)


@contextmanager
def placed(target: Path, clock: Clock, what: str) -> Iterator[Path]:
    """A new directory, mode 0700, to be filled; it becomes ``target`` when the block ends well, and else goes.

    ``target`` must not exist, or be an empty directory. ``what`` names it in errors.
    Raises ``OutputExists``, ``InvalidArgument``, ``DiskFull``, ``StoreReadOnly``.
    """
    _refuse_taken(target)
    if not target.parent.is_dir():
        raise errors.InvalidArgument(f"the folder that the {what} should be in does not exist")
    beside = target.with_name(f"{_stem(target)}{os.getpid()}.{clock.token_bytes(6).hex()}{_SUFFIX}")
    held: directory_lock.Hold | None = None
    try:
        _sweep(target)
        beside.mkdir(mode=0o700)
        held = directory_lock.hold(beside)
        yield beside
        files.sync_folders(beside)
        _take_name(beside, target)
        sync_directory(target.parent)
    except OSError as error:
        if is_full(error):
            raise errors.DiskFull(f"the disk is full; the {what} was not made") from error
        raise errors.StoreReadOnly(
            f"the {what} cannot be written ({error.strerror})", hint="Name a place in a folder that you may write."
        ) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        if held is not None:
            held.close()


def _refuse_taken(target: Path) -> None:
    """Raises ``OutputExists`` for a place where anything but an empty directory is."""
    try:
        if target.is_symlink() or any(True for _ in os.scandir(target)):
            raise errors.OutputExists(
                "there is something at that place already", hint="Name a place that is empty or not there yet."
            )
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise errors.OutputExists(
            "there is a file at that place already", hint="Name a place that is empty or not there yet."
        ) from None
    except OSError as error:
        raise errors.StoreReadOnly(f"the place cannot be looked into ({error.strerror})") from error


def _stem(target: Path) -> str:
    return f".{target.name[:_NAME_CHARS]}."


def _sweep(target: Path) -> None:
    """Take away what processes that were killed have left of earlier attempts."""
    for entry in os.scandir(target.parent):
        middle = entry.name.removeprefix(_stem(target)).removesuffix(_SUFFIX)
        if entry.name != f"{_stem(target)}{middle}{_SUFFIX}" or not entry.is_dir(follow_symlinks=False):
            continue
        number, _, random = middle.partition(".")
        if not (number.isdigit() and len(random) == 12):
            continue
        try:
            alone = directory_lock.alone(Path(entry.path))
        except (errors.DirectoryInUse, errors.StoreReadOnly):
            continue
        try:
            shutil.rmtree(entry.path, ignore_errors=True)
        finally:
            alone.close()


def _take_name(beside: Path, target: Path) -> None:
    try:
        beside.rename(target)  # over an empty directory, and over nothing else
    except OSError as error:
        if error.errno in _TAKEN:
            raise errors.OutputExists(
                "somebody else has put something at that place meanwhile", hint="Name another place."
            ) from error
        if error.errno == errno.EBUSY:
            raise errors.InvalidArgument(
                "the place is where a file system is mounted, and cannot be given at once",
                hint="Name a directory below it.",
            ) from error
        raise
