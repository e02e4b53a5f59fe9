"""The file that a file-arm flush may add to: found inside the workspace, made in advance, appended to, nothing else.

Every folder on the way is opened without following links, relative to the one before, so that nothing that is moved or
linked meanwhile leads outside. What is written is added at the end, whatever the model asked for: a write that would
have replaced the file becomes an addition. Not here: the tool the model sees (``arms``).
"""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath
from typing import Final

from memory_sqlite import errors, limits

_FILE_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_APPEND: Final = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Target:
    """One file below a workspace. Threads may append; the system keeps additions of several processes apart."""

    def __init__(self, workspace: Path, relative_path: str) -> None:
        """Raises ``PathNotAllowed`` for a path that is empty, absolute, or leaves the workspace by its wording."""
        self.workspace = workspace
        self.parts = _parts(relative_path)
        self.relative_path = "/".join(self.parts)

    def make(self) -> None:
        """Make folders and file where they are missing; a file that is there stays as it is.

        Raises ``PathNotAllowed`` when a link or something else than a file or folder is in the way, else ``OSError``.
        """
        os.close(self._open())

    def append(self, text: str) -> int:
        """Add text at the end, on lines of its own; returns how many bytes. Raises as ``make``, and
        ``RecordTooLarge`` for more than one write or one note may hold."""
        given = text.encode("utf-8", "replace")
        if len(given) > limits.FLUSH_WRITE_MAX_BYTES:
            raise errors.RecordTooLarge(f"one write may hold at most {limits.FLUSH_WRITE_MAX_BYTES} bytes")
        handle = self._open()
        try:
            size = os.fstat(handle).st_size
            if size + len(given) > limits.NOTE_MAX_BYTES:
                raise errors.RecordTooLarge(f"the flush target may hold at most {limits.NOTE_MAX_BYTES} bytes")
            before = b"\n" if size and os.pread(handle, 1, size - 1) != b"\n" else b""
            added = before + given + (b"" if given.endswith(b"\n") else b"\n")
            _write_all(handle, added)
            os.fsync(handle)
        finally:
            os.close(handle)
        return len(added)

    def names(self, path: str) -> bool:
        """Whether a path, as a model gives it, means this file: relative to the workspace, or absolute."""
        given = PurePosixPath(path)
        if given.is_absolute():
            roots = {self.workspace.absolute(), self.workspace.resolve()}
            return any(given == PurePosixPath(root, *self.parts) for root in roots)
        return given.parts == self.parts

    def _open(self) -> int:
        # the workspace itself may be reached through a link: that is its owner's affair
        folder = os.open(self.workspace, _FOLDER & ~os.O_NOFOLLOW)
        try:
            for name in self.parts[:-1]:
                below = _folder(folder, name)
                os.close(folder)
                folder = below
            return _file(folder, self.parts[-1])
        finally:
            os.close(folder)


def _parts(relative_path: str) -> tuple[str, ...]:
    if not relative_path.strip() or "\0" in relative_path or "\\" in relative_path:
        raise errors.PathNotAllowed("a flush target must be a relative path")
    path = PurePosixPath(relative_path)
    if path.is_absolute() or relative_path.startswith("~"):
        raise errors.PathNotAllowed("a flush target must be a relative path")
    if ".." in path.parts or not path.parts or relative_path.endswith("/"):
        raise errors.PathNotAllowed("a flush target must be a file inside the workspace")
    return path.parts


def _folder(parent: int, name: str) -> int:
    try:
        os.mkdir(name, _FOLDER_MODE, dir_fd=parent)
    except FileExistsError:
        pass
    try:
        return os.open(name, _FOLDER, dir_fd=parent)
    except OSError as error:
        raise _refused(parent, name) or error from None


def _file(parent: int, name: str) -> int:
    try:
        handle = os.open(name, _APPEND | os.O_CREAT, _FILE_MODE, dir_fd=parent)
    except OSError as error:
        raise _refused(parent, name) or error from None
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        os.close(handle)
        raise errors.PathNotAllowed("the flush target is not a file")
    if found.st_nlink > 1:  # what is added here would be added there too, wherever that is
        os.close(handle)
        raise errors.PathNotAllowed("the flush target has a second name (a hard link)")
    return handle


def _refused(parent: int, name: str) -> errors.PathNotAllowed | None:
    """Why something could not be opened, when what is there is a link or of the wrong kind."""
    mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    if stat.S_ISLNK(mode):
        return errors.PathNotAllowed("the way to the flush target goes through a link")
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        return errors.PathNotAllowed("the flush target is not a file")
    return None


def _write_all(handle: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(handle, view) :]
