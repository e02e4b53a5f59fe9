"""Where notes are: the types of discovery, and which names are notes at all.

Not here: looking at the disk (``discovery``), opening files (``safe_read``). Called by both and by ``notes``.
"""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Final

from memory_sqlite.config_fields import ExtraPath
from memory_sqlite.model import SourceProblem
from memory_sqlite.values import dataclass

CURATED: Final = ("MEMORY.md", "USER.md")
"""Files at the root of a workspace whose list entries are curated one by one."""
FOLDER: Final = "memory"
SUFFIX: Final = ".md"
DEFAULT_GLOB: Final = "**/*.md"
_SKIPPED_FOLDERS: Final = frozenset({"node_modules", "__pycache__"})
_LEFTOVERS: Final = ("~", ".tmp", ".temp", ".swp", ".swo", ".swx", ".bak", ".orig", ".part", ".crdownload", "#")
_UNPRINTABLE: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})

__all__ = ["CURATED", "DEFAULT_GLOB", "FOLDER", "SUFFIX", "Discovery", "ExtraPath", "NotePlace"]


@dataclass(frozen=True, slots=True)
class NotePlace:
    """One note file as ``lstat`` saw it.

    ``path`` is its key: relative to the workspace with ``/``, or absolute for an extra path outside of it. It is
    opened from ``root`` (reached through links if the owner named it so) along ``relative`` (no link is followed).
    ``mtime_ns`` is when it last changed in any way (``discovery.changed_ns``).
    """

    path: str
    root: str
    relative: str
    size: int
    mtime_ns: int
    inode: int
    device: int

    @property
    def absolute(self) -> Path:
        """Where the file is on this machine."""
        return Path(self.root) / self.relative

    @property
    def curated(self) -> bool:
        """Whether it is one of the two files whose entries are curated."""
        return self.path in CURATED


@dataclass(frozen=True, slots=True)
class Discovery:
    """The notes there are, sorted by path.

    ``skipped`` counts what looks like a note and is none (links, pipes, folders named ``*.md``, unusable names); each
    has a problem. ``complete`` is false when something could not be looked at: what is missing below
    ``unscanned`` may well exist, so nothing there may be taken for deleted.
    """

    places: list[NotePlace]
    problems: list[SourceProblem]
    skipped: int
    complete: bool
    unscanned: tuple[str, ...] = ()

    def may_exist(self, path: str) -> bool:
        """Whether ``path``, if it is not among ``places``, lies where the scan could not look."""
        return any(not top or path == top or path.startswith(top + "/") for top in self.unscanned)


def is_ignored_folder(name: str) -> bool:
    """Hidden folders (``.git``, ``.venv``, ``.obsidian``) and dependency trees hold nobody's memory."""
    return name.startswith(".") or name in _SKIPPED_FOLDERS


def is_ignored_file(name: str) -> bool:
    """Hidden files and what editors, downloads and crashed writers leave behind."""
    return name.startswith((".", "#")) or name.casefold().endswith(_LEFTOVERS)


def unusable_name(name: str) -> str | None:
    """Why a name cannot be a key: not UTF-8, or with characters that would break a citation or a terminal line."""
    if name.isascii() and name.isprintable() and "\\" not in name:
        return None
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return "name is not valid UTF-8"
    if any(unicodedata.category(character) in _UNPRINTABLE for character in name):
        return "name contains control characters"
    return "name contains a backslash" if "\\" in name else None


def shown(path: str) -> str:
    """``path`` as text that can always be printed: undecodable bytes and control characters become U+FFFD."""
    return "".join("\ufffd" if unicodedata.category(c) in _UNPRINTABLE else c for c in path)
