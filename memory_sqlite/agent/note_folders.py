"""The folders a watch follows: those that hold notes, and none of those that discovery ignores.

Each folder is followed by itself and not with everything below it, so that a dependency tree of 20,000 files under
``memory/`` costs no watch. Not here: which files are notes in the end (``sources.discovery`` decides). Called by
``watching``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from memory_sqlite import limits
from memory_sqlite.sources.discovery import locate_extra
from memory_sqlite.sources.places import FOLDER, SUFFIX, ExtraPath, is_ignored_file, is_ignored_folder


class NoteFolders:
    """What is there now. ``folders`` is empty when the workspace is not."""

    def __init__(self, workspace: Path, extra_paths: Sequence[ExtraPath]) -> None:
        self.folders: dict[str, bool] = {}
        """Absolute path to whether files of any name may be notes there (an extra path with a pattern of its own)."""
        self.inodes: set[tuple[str, int]] = set()
        """The same folders as the disk knows them: one that was replaced under its name must be followed anew."""
        if not workspace.is_dir():
            return
        root = os.path.abspath(workspace)  # noqa: PTH100 - `resolve` would follow links
        self._add(root, False)
        self._add_tree(f"{root}/{FOLDER}", False)
        for extra in extra_paths:
            base, relative, _ = locate_extra(root, extra.path)
            place = f"{base}/{relative}" if relative else base
            any_name = extra.glob is not None or not place.casefold().endswith(SUFFIX)
            if os.path.isdir(place):  # noqa: PTH112 - strings, as in discovery
                self._add_tree(place, extra.glob is not None)
            else:
                parent = os.path.dirname(place)  # noqa: PTH120
                if os.path.isdir(parent):  # noqa: PTH112
                    self._add(parent, any_name)

    def _add(self, folder: str, any_name: bool) -> None:
        try:
            self.inodes.add((folder, Path(folder).stat().st_ino))
        except OSError:
            return  # gone again, or not to be looked at; discovery says so
        self.folders[folder] = self.folders.get(folder, False) or any_name

    def _add_tree(self, top: str, any_name: bool) -> None:
        todo = [(top, 0)]
        while todo:
            folder, depth = todo.pop()
            try:
                with os.scandir(folder) as entries:
                    below = [
                        entry.path
                        for entry in entries
                        if entry.is_dir(follow_symlinks=False) and not is_ignored_folder(entry.name)
                    ]
            except OSError:
                continue  # not there yet, or not to be looked at
            self._add(folder, any_name)
            if depth < limits.FOLDER_DEPTH_MAX:
                todo += [(path, depth + 1) for path in below]

    def concerns(self, path: str, *, created: bool) -> bool:
        """Whether a change of ``path`` can mean that a note came, went or changed."""
        if path in self.folders:
            return True
        folder, _, name = path.rpartition("/")
        if is_ignored_file(name) or is_ignored_folder(name):
            return False
        if name.casefold().endswith(SUFFIX) or self.folders.get(folder, False):
            return True
        return created and os.path.isdir(path)  # noqa: PTH112
