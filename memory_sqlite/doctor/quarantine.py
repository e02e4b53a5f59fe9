"""Setting files aside instead of deleting them: one folder for each ``--fix``, private, in the agent's directory.

Called by ``fixing``, and by ``file_checks`` to tell of folders that are kept.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from memory_sqlite.clock import Clock
from memory_sqlite.storage.session_key import sync_directory

PREFIX: Final = "quarantine-"
_SIDECARS: Final = ("", "-wal", "-shm", "-journal")
_NAME: Final = re.compile(r"^quarantine-(\d{8}T\d{6})(\d{3})Z(?:-\d+)?$")


class Quarantine:
    """The folder of one run, made when the first file goes there."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self.folder: Path | None = None

    def move(self, path: Path) -> None:
        """Take a file with its sidecars, or a folder, out of its place, under the name it had."""
        self._each(path, os.rename)

    def keep(self, path: Path) -> None:
        """Give a database a second name there, so that it stays when its own name goes. Nothing is copied or opened."""
        self._each(path, os.link)

    def _each(self, path: Path, act: Callable[[Path, Path], object]) -> None:
        folder = self._made()
        name, number = path.name, 1
        while any((folder / (name + ending)).exists() for ending in _SIDECARS):
            number += 1
            name = f"{number}-{path.name}"
        for ending in _SIDECARS:
            source = path.with_name(path.name + ending)
            if not source.is_symlink() and (source.is_file() or (not ending and source.is_dir())):
                act(source, folder / (name + ending))
        sync_directory(folder)
        sync_directory(path.parent)

    def _made(self) -> Path:
        if self.folder is None:
            now = self._clock.now_ms()
            stamp = f"{datetime.fromtimestamp(now // 1000, UTC).strftime('%Y%m%dT%H%M%S')}{now % 1000:03d}Z"
            folder, number = self._directory / f"{PREFIX}{stamp}", 1
            while True:
                try:
                    folder.mkdir(mode=0o700)
                    break
                except FileExistsError:
                    number += 1
                    folder = self._directory / f"{PREFIX}{stamp}-{number}"
            self.folder = folder
        return self.folder


def made_at(folder: Path) -> int:
    """When a folder was made, in ms: its name says so; 0 for a name that does not, which counts as long ago."""
    match = _NAME.match(folder.name)
    if match is None:
        return 0
    return int(datetime.strptime(match[1], "%Y%m%dT%H%M%S").replace(tzinfo=UTC).timestamp()) * 1000 + int(match[2])
