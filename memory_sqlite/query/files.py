"""Which files a pattern names: ``~``, ``*``, ``?``, ``[…]``, ``**`` (any number of folders); sorted, regular files.

A pattern's root is what comes before its first wildcard. Links to folders are not followed, and a link to a file only
where that lies below the root; a file that is named without wildcards is taken whatever it is a link to. Names that
begin with a dot are found by a part of the pattern that begins with one. What the system makes up (``/proc``, where the
environment of other processes can be read, and ``/sys``) is no file here. Called by the tables over files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from fnmatch import translate
from pathlib import Path
from typing import Final

from memory_sqlite import limits
from memory_sqlite.errors import InvalidArgument

_WILD: Final = re.compile(r"[*?\[]")
_MADE_UP: Final = ("/proc/", "/sys/")


def named(pattern: str, check: Callable[[], None]) -> list[Path]:
    """The files that ``pattern`` names. ``check`` is called once a folder and raises when the time is up.

    Raises ``InvalidArgument`` for a folder, for a pattern that names nothing, and for one that names too many files.
    The messages do not repeat the pattern.
    """
    if not pattern.strip() or "\0" in pattern:
        raise InvalidArgument("a pattern that names files is missing")
    path = Path(os.path.expanduser(pattern))  # noqa: PTH111 - Path.expanduser raises for an unknown user
    if not path.is_absolute():
        path = Path.cwd() / path
    parts = path.parts
    wild = next((at for at, part in enumerate(parts) if _WILD.search(part)), len(parts))
    if wild == len(parts) or _exists(path):  # a file may have brackets in its name
        return [_single(path)]
    root = Path(*parts[:wild])
    found = set(_walk(root, parts[wild:], os.path.realpath(root), check))
    if not found:
        raise InvalidArgument("no file matches the pattern", hint="** stands for any number of folders.")
    return sorted(found, key=str)  # as SQLite sorts them; paths themselves are compared part by part


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name too long, or a folder that is not ours to look into
        return False


def _single(path: Path) -> Path:
    if not _exists(path):
        raise InvalidArgument("no file matches the pattern", hint="A relative path begins in the working directory.")
    if path.is_dir():
        raise InvalidArgument(
            "the pattern names a folder, not files", hint="Say which files, as in 'FOLDER/**/*.jsonl'."
        )
    if not path.is_file() or _is_made_up(path):
        raise InvalidArgument("the pattern names something that is not a regular file")
    return path


def _walk(folder: Path, parts: tuple[str, ...], root: str, check: Callable[[], None]) -> Iterator[Path]:
    """Files below ``folder`` for the remaining parts; folders are taken from a stack, so that depth is no limit."""
    count = 0
    waiting = [(folder, 0)]
    seen: set[tuple[Path, int]] = set()
    while waiting:
        here, at = waiting.pop()
        if (here, at) in seen:  # ** beside ** reaches a folder in more ways than one
            continue
        seen.add((here, at))
        check()
        if _is_made_up(here):
            continue
        part, is_last = parts[at], at + 1 == len(parts)
        if part == "**":
            if not is_last:
                waiting.append((here, at + 1))
            part, following = "*", at
        else:
            following = at + 1
        fits = re.compile(translate(part)).match
        for entry in _entries(here):
            if not fits(entry.name) or (entry.name.startswith(".") and not part.startswith(".")):
                continue
            if entry.is_dir(follow_symlinks=False):
                if following < len(parts):
                    waiting.append((here / entry.name, following))
            elif is_last and _is_inside(entry, root):
                count += 1
                if count > limits.QUERY_FILES_MAX:
                    raise InvalidArgument(f"the pattern names more than {limits.QUERY_FILES_MAX} files")
                yield here / entry.name


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:  # not a folder, gone meanwhile, or not ours to read: then it names nothing
        return []


def _is_inside(entry: os.DirEntry[str], root: str) -> bool:
    try:
        if not entry.is_file():
            return False
        if not entry.is_symlink():
            return True
        return os.path.realpath(entry.path).startswith(os.path.join(root, "")) and not _is_made_up(entry.path)  # noqa: PTH118
    except OSError:
        return False


def _is_made_up(path: str | Path) -> bool:
    return os.path.join(os.path.realpath(path), "").startswith(_MADE_UP)  # noqa: PTH118
