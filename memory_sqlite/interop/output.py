"""New files and folders for people: there whole or not at all, readable by their owner only, in nobody's place.

Lives here: the temporary name beside the wanted one and what a killed process left under such names, modes, syncing,
the rename, the errors. Not here: what is written. Called by every export.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from memory_sqlite import errors, limits
from memory_sqlite.clock import Clock
from memory_sqlite.storage.failures import is_full
from memory_sqlite.storage.session_key import sync_directory

_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""What file systems without hard links say."""
_SUFFIX: Final = ".partial"
_MIDDLE: Final = re.compile(r"[0-9]+\.[0-9a-f]{12}")
_TO_LOOK: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def new_file(path: Path, clock: Clock, *, overwrite: bool) -> Iterator[IO[bytes]]:
    """A file under another name, mode 0600, that takes its own name when the block ends well, and else goes.

    Raises ``OutputExists``, ``InvalidArgument``, ``DiskFull``, ``StoreReadOnly``.
    """
    _refuse_target(path, overwrite=overwrite)
    temporary = _beside(path, clock)
    made = False
    try:
        with _told():
            _sweep(path)
            descriptor = os.open(temporary, _NEW_FILE, 0o600)
            made = True
            _claim(descriptor)
            with os.fdopen(descriptor, "wb", buffering=limits.MIB) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            _take_name(temporary, path, overwrite=overwrite)
    finally:
        if made:
            temporary.unlink(missing_ok=True)


class Folder:
    """A folder in the making. ``files`` and ``bytes`` count what was written into it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.files = 0
        self.bytes = 0

    @contextmanager
    def file(self, name: str) -> Iterator[IO[bytes]]:
        """A new file at a relative path, mode 0600, in folders of mode 0700, on disk when the block ends."""
        path = self._root / name
        missing = [folder for folder in path.parents if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir(mode=0o700)
        with os.fdopen(os.open(path, _NEW_FILE, 0o600), "wb", buffering=64 * limits.KIB) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            self.bytes += file.tell()
        self.files += 1


@contextmanager
def new_folder(path: Path, clock: Clock) -> Iterator[Folder]:
    """A folder under another name, mode 0700, that takes its own name when the block ends well, and else goes.

    The name must be free, or an empty folder's. Raises ``OutputExists``, ``InvalidArgument``, ``DiskFull``,
    ``StoreReadOnly``.
    """
    _refuse_folder(path)
    temporary = _beside(path, clock)
    claimed = -1
    try:
        with _told():
            _sweep(path)
            temporary.mkdir(mode=0o700)
            claimed = os.open(temporary, _TO_LOOK | os.O_DIRECTORY)
            _claim(claimed)
            yield Folder(temporary)
            for folder, _, _ in os.walk(temporary):
                sync_directory(Path(folder))
            try:
                temporary.rename(path)  # over an empty folder; one that was filled meanwhile refuses
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    raise _folder_exists() from None
                raise
            sync_directory(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if claimed >= 0:
            os.close(claimed)


def _claim(descriptor: int) -> bool:
    """A lock that ends with its process: whether somebody who lives is at work on it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # somebody has it, or this file system has no locks: then nothing is swept
        return False
    return True


def _sweep(path: Path) -> None:
    """Take away what exports of that name have left that were killed: it is a copy of what was said."""
    try:
        there = list(os.scandir(path.parent))
    except OSError:  # a folder that may be written to and not be listed
        return
    for entry in there:
        middle = entry.name.removeprefix(_stem(path)).removesuffix(_SUFFIX)
        if entry.name != f"{_stem(path)}{middle}{_SUFFIX}" or _MIDDLE.fullmatch(middle) is None:
            continue
        try:
            descriptor = os.open(entry.path, _TO_LOOK)
        except OSError:
            continue
        try:
            if not _claim(descriptor):
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                Path(entry.path).unlink(missing_ok=True)
        finally:
            os.close(descriptor)


@contextmanager
def _told() -> Iterator[None]:
    """What the system refuses, in the words of the catalogue."""
    try:
        yield
    except OSError as error:
        if is_full(error):
            raise errors.DiskFull("the disk is full; the export was not made") from error
        raise errors.StoreReadOnly(
            f"the export cannot be written ({error.strerror})", hint="Name a place in a folder that you may write."
        ) from error


def _beside(path: Path, clock: Clock) -> Path:
    return path.with_name(f"{_stem(path)}{os.getpid()}.{clock.token_bytes(6).hex()}{_SUFFIX}")


def _stem(path: Path) -> str:
    return f".{path.name[:100]}."


def _refuse_target(path: Path, *, overwrite: bool) -> None:
    found = _found(path)
    if found is None:
        return
    if not overwrite:
        raise errors.OutputExists("there is a file of that name already")
    if not stat.S_ISREG(found.st_mode):
        raise errors.OutputExists("what is there already is no regular file", hint="Name another file.")


def _refuse_folder(path: Path) -> None:
    found = _found(path)
    if found is None:
        return
    if not stat.S_ISDIR(found.st_mode):
        raise errors.OutputExists("what is there already is no folder", hint="Name another folder.")
    try:
        is_empty = next(path.iterdir(), None) is None
    except OSError as error:
        raise errors.StoreReadOnly(f"the folder that is there cannot be read ({error.strerror})") from error
    if not is_empty:
        raise _folder_exists()


def _folder_exists() -> errors.OutputExists:
    return errors.OutputExists("the folder holds something already", hint="Name a new or an empty folder.")


def _found(path: Path) -> os.stat_result | None:
    if not path.parent.is_dir():
        raise errors.InvalidArgument("the folder that the export should be written to does not exist")
    try:
        return path.lstat()
    except FileNotFoundError:
        return None


def _take_name(temporary: Path, path: Path, *, overwrite: bool) -> None:
    if overwrite:
        temporary.replace(path)
    else:
        try:
            os.link(temporary, path)  # fails where somebody else was faster; a rename would write over theirs
        except FileExistsError:
            raise errors.OutputExists("there is a file of that name already") from None
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            _refuse_target(path, overwrite=False)
            temporary.replace(path)
    sync_directory(path.parent)
