"""Finding notes: directories are listed and files are ``lstat``-ed, nothing is opened.

A search does this before it answers, so it is fast; it runs over whatever a disk holds, so it never follows a link,
never waits for a pipe, and reports what it could not see. Not here: names (``places``), reading (``safe_read``).
Called through ``notes``.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath

from memory_sqlite import limits
from memory_sqlite.errors import WorkspaceUnavailable
from memory_sqlite.model import SourceProblem
from memory_sqlite.sources.places import (
    CURATED,
    DEFAULT_GLOB,
    FOLDER,
    SUFFIX,
    Discovery,
    ExtraPath,
    NotePlace,
    is_ignored_file,
    is_ignored_folder,
    shown,
    unusable_name,
)


def discover(workspace: Path, extra_paths: Sequence[ExtraPath]) -> Discovery:
    """All notes of a workspace: the two curated files, ``memory/**/*.md``, and the extra paths.

    Raises ``WorkspaceUnavailable`` when ``workspace`` is not a directory: that is no reason to forget its notes.
    Anything else that goes wrong is a problem in the result.
    """
    if not workspace.is_dir():
        raise WorkspaceUnavailable("the workspace is not a directory")
    scan = _Scan()
    root = os.path.abspath(workspace)  # noqa: PTH100 - `resolve` would follow links
    for name in CURATED:
        scan.file(root, name, "")
    scan.folder(root, FOLDER, "", None)
    for extra in extra_paths:
        base, relative, prefix = locate_extra(root, extra.path)
        pattern = extra.glob or DEFAULT_GLOB
        if relative and scan.is_folder(base, relative, prefix) is False:
            scan.file(base, relative, prefix)
        else:
            scan.folder(base, relative, prefix, pattern, wanted=True)
    places = [scan.found[path] for path in sorted(scan.found)]
    return Discovery(places, scan.problems, scan.skipped, not scan.unscanned, tuple(scan.unscanned))


def locate_extra(workspace: str, path: str) -> tuple[str, str, str]:
    """Where an extra path is opened from: ``(root, path below it, prefix of its keys)``.

    Inside the workspace it is opened from there, so that a link which an agent put there is not followed. Outside, the
    owner's configuration names the place itself, and links on the way to it are the owner's.
    """
    whole = os.path.normpath(os.path.join(workspace, os.path.expanduser(path)))  # noqa: PTH118, PTH111 - no `resolve`
    inside = os.path.relpath(whole, workspace)
    if inside == ".":
        return workspace, "", ""
    if inside != ".." and not inside.startswith("../"):
        return workspace, inside, ""
    parent, name = os.path.split(whole)
    if os.path.isdir(whole):  # noqa: PTH112 - strings throughout: a Path a file would double the scan's time
        return whole, "", whole + "/"
    return parent, name, parent.rstrip("/") + "/"


@lru_cache(maxsize=64)
def glob_pattern(glob: str) -> re.Pattern[str]:
    """A glob over ``/``-separated paths as an expression: ``**/`` any folders, ``*`` and ``?`` within a name."""
    parts: list[str] = []
    index = 0
    while index < len(glob):
        if glob.startswith("**/", index):
            parts.append("(?:[^/]+/)*")
            index += 3
        elif glob.startswith("**", index):
            parts.append(".*")
            index += 2
        else:
            character = glob[index]
            parts.append({"*": "[^/]*", "?": "[^/]"}.get(character, re.escape(character)))
            index += 1
    return re.compile("".join(parts), re.IGNORECASE | re.DOTALL)


class _Scan:
    def __init__(self) -> None:
        self.found: dict[str, NotePlace] = {}
        self.problems: list[SourceProblem] = []
        self.unscanned: list[str] = []
        self.skipped = 0

    def skip(self, path: str, reason: str) -> None:
        self.skipped += 1
        self.problems.append(SourceProblem(shown(path), reason))

    def unseen(self, path: str, error: OSError) -> None:
        self.unscanned.append(path.rstrip("/"))
        self.problems.append(SourceProblem(shown(path), f"cannot be looked at: {reason_of(error)}"))

    def is_folder(self, root: str, relative: str, prefix: str) -> bool | None:
        """Whether it is a folder; ``None`` when there is nothing or it cannot be seen."""
        try:
            return stat.S_ISDIR(os.lstat(f"{root}/{relative}").st_mode)
        except OSError:
            return None

    def file(self, root: str, relative: str, prefix: str) -> None:
        """One file that was named; there may be none."""
        path = prefix + relative
        try:
            seen = os.lstat(f"{root}/{relative}")
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            self.unseen(path, error)
            return
        self._take(root, relative, path, seen)

    def folder(self, root: str, top: str, prefix: str, glob: str | None, *, wanted: bool = False) -> None:
        """All notes below a folder; with ``wanted`` its absence is a problem and leaves it unscanned."""
        pattern = None if glob is None or glob == DEFAULT_GLOB else glob_pattern(glob)
        below = len(top) + 1 if top else 0
        first_path = prefix + top if top else prefix.rstrip("/")
        todo: list[tuple[str, int]] = [(top, 0)]
        try:
            if _crosses_link(root, top):
                self.skip(first_path, "is reached through a link, which is not followed")
                return
        except FileNotFoundError as error:
            if wanted:
                self.unseen(first_path, error)
            return
        except OSError as error:
            self.unseen(first_path, error)
            return
        while todo:
            relative, depth = todo.pop()
            at = f"{relative}/" if relative else ""
            try:
                with os.scandir(f"{root}/{relative}" if relative else root) as entries:
                    for entry in entries:
                        self._entry(entry, root, at, prefix, pattern, below, depth, todo)
            except OSError as error:
                self.unseen((prefix + at).rstrip("/"), error)

    def _entry(
        self,
        entry: os.DirEntry[str],
        root: str,
        at: str,
        prefix: str,
        pattern: re.Pattern[str] | None,
        below: int,
        depth: int,
        todo: list[tuple[str, int]],
    ) -> None:
        name = entry.name
        if entry.is_dir(follow_symlinks=False):
            if is_ignored_folder(name):
                return
            if name.casefold().endswith(SUFFIX):
                self.skip(prefix + at + name, "is a folder with the name of a note")
            elif (reason := unusable_name(name)) is not None:
                self.skip(prefix + at + name, reason)
            elif depth >= limits.FOLDER_DEPTH_MAX:
                self.skip(prefix + at + name, f"is more than {limits.FOLDER_DEPTH_MAX} folders deep")
            else:
                todo.append((at + name, depth + 1))
            return
        relative = at + name
        if is_ignored_file(name):
            return
        if name[-3:].casefold() == SUFFIX if pattern is None else pattern.fullmatch(relative, below):
            try:
                seen = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                return
            except OSError as error:
                self.unseen(prefix + relative, error)
                return
            self._take(root, relative, prefix + relative, seen)
        elif entry.is_symlink() and _is_folder_link(entry):
            self.skip(prefix + relative, "is a link to a folder, which is not followed")

    def _take(self, root: str, relative: str, path: str, seen: os.stat_result) -> None:
        reason = not_a_file(seen) or unusable_name(relative.rpartition("/")[2])
        if reason is not None:
            self.skip(path, reason)
            return
        self.found.setdefault(
            path, NotePlace(path, root, relative, seen.st_size, changed_ns(seen), seen.st_ino, seen.st_dev)
        )


def not_a_file(seen: os.stat_result) -> str | None:
    """Why what ``lstat`` saw is not a regular file; ``None`` when it is one."""
    mode = seen.st_mode
    if stat.S_ISREG(mode):
        return None
    if stat.S_ISLNK(mode):
        return "is a link, which is not followed"
    if stat.S_ISDIR(mode):
        return "is a folder with the name of a note"
    return "is not a regular file (pipe, socket or device)"


def changed_ns(seen: os.stat_result) -> int:
    """When a file last changed: the later of its modification and its change time.

    Whoever restores the modification time (copies, archives, editors) cannot restore the other one; what sets it alone
    (a new mode, a rename) costs one more hash.
    """
    return max(seen.st_mtime_ns, seen.st_ctime_ns)


def reason_of(error: OSError) -> str:
    """The system's words for an error, without the path it happened at."""
    return os.strerror(error.errno) if error.errno else type(error).__name__


def _crosses_link(root: str, relative: str) -> bool:
    """Whether ``relative`` or a folder above it, below ``root``, is a link."""
    parts = PurePosixPath(relative).parts
    return any(
        stat.S_ISLNK(os.lstat(os.path.join(root, *parts[: count + 1])).st_mode)  # noqa: PTH118 - see above
        for count in range(len(parts))
    )


def _is_folder_link(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
