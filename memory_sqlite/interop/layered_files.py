"""Which files of a layered-memory directory hold something, layout by layout; nothing is opened but directories.

Facts: that product's directory. G0 keeps day files below the data directory itself, G1 below each agent, G2 below each
session's token; ``agent-profiles`` are the agent's own, ``.legacy-backup`` holds what G2 took out of G1. Only names of
the right form count, links are never followed. Not here: what the lines say (``layered_directory``), the keys
(``layered_key``, ``layered_cipher``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

from memory_sqlite.model import Layer
from memory_sqlite.paths import AGENTS_DIRECTORY, agent_directory_name
from memory_sqlite.values import dataclass

KEY_FILE: Final = ".isolation-key"
"""32 raw bytes: the HMAC key of its session tokens, the same that ``session.key`` holds here."""
CHECK_FILE: Final = ".encryption-check"
"""One line that says whether the lines are encrypted, encrypted itself when they are."""
BACKUP_DIRECTORY: Final = ".legacy-backup"
PROFILES_DIRECTORY: Final = "agent-profiles"
SESSIONS_DIRECTORY: Final = "sessions"
DEFAULT_AGENT: Final = "main"
"""Whose the files of the oldest layout are."""

LAYER_DIRECTORIES: Final[Mapping[str, Layer]] = {
    "conversations": "L0",
    "memories": "L1",
    "scenarios": "L2",
    "profiles": "L3",
}
_G0_DIRECTORIES: Final = ("conversations", "records")
_DAY_FILE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\.jsonl")

Layout = Literal["G0", "G1", "G2"]


@dataclass(frozen=True, slots=True)
class DayFile:
    """One file of one day. ``root`` is what that product cites it from: the agent's directory, for G0 the data
    directory. ``is_link``: it is a link, and not to be opened."""

    path: Path
    root: Path
    layout: Layout
    is_backup: bool = False
    is_link: bool = False

    @property
    def cited(self) -> str:
        """The path that citations have; of a backup the one it had before it was moved there."""
        return self.path.relative_to(self.root / BACKUP_DIRECTORY if self.is_backup else self.root).as_posix()


def is_layered_directory(path: Path) -> bool:
    """Whether ``path`` was written by that product: it holds its key, or day files in its layer directories."""
    if (path / KEY_FILE).is_file():
        return True
    return any(not file.is_link for file in day_files(path))


def has_agent(path: Path, agent: str) -> bool:
    """Whether an agent has a directory there (``main`` also through G0 files)."""
    if any(_is_of(agent, root) for root in agent_directories(path)):
        return True
    return agent == DEFAULT_AGENT and next(_of_oldest_layout(path), None) is not None


def agent_directories(path: Path) -> list[Path]:
    """The directories of agents, by name."""
    return _folders(path / AGENTS_DIRECTORY)


def day_files(path: Path, agent: str | None = None, *, backups: bool = False) -> Iterator[DayFile]:
    """Every day file, of one agent where one is named: sessions by token, layers from L0 up, days in order, then what
    lies outside of sessions. So where a crash left a record in both places, the one that is cited comes first.

    With ``backups`` also what ``.legacy-backup`` keeps. Raises ``OSError`` when a directory cannot be listed.
    """
    if agent is None or agent == DEFAULT_AGENT:
        yield from _of_oldest_layout(path)
    for root in agent_directories(path):
        if agent is not None and not _is_of(agent, root):
            continue
        for session in _folders(root / SESSIONS_DIRECTORY):
            for name in LAYER_DIRECTORIES:
                yield from _days(session / name, root, "G2")
        yield from _days(root / PROFILES_DIRECTORY, root, "G2")
        for name in LAYER_DIRECTORIES:
            yield from _days(root / name, root, "G1")
        if backups and _is_folder(root / BACKUP_DIRECTORY):
            for name in LAYER_DIRECTORIES:
                yield from _days(root / BACKUP_DIRECTORY / name, root, "G1", is_backup=True)


def linked_folders(path: Path, agent: str) -> Iterator[Path]:
    """Links that stand where an agent's directories should be: they are not followed, and that should be told."""
    if agent == DEFAULT_AGENT:
        yield from (path / name for name in _G0_DIRECTORIES if (path / name).is_symlink())
    agents = path / AGENTS_DIRECTORY
    if agents.is_symlink():
        yield agents
        return
    for root in sorted(agents.iterdir()) if agents.is_dir() else ():
        if not _is_of(agent, root):
            continue
        if root.is_symlink():
            yield root
            continue
        sessions = root / SESSIONS_DIRECTORY
        inside = [root / name for name in (*LAYER_DIRECTORIES, PROFILES_DIRECTORY, SESSIONS_DIRECTORY)]
        if _is_folder(sessions):
            for session in sorted(sessions.iterdir()):
                inside += [session, *(session / name for name in LAYER_DIRECTORIES if not session.is_symlink())]
        yield from (folder for folder in inside if folder.is_symlink())


def _is_of(agent: str, root: Path) -> bool:
    """Whether ``root`` is that agent's directory: named with the hash, or, in the oldest layouts, without."""
    return root.name in (agent_directory_name(agent), agent)


def _of_oldest_layout(path: Path) -> Iterator[DayFile]:
    for name in _G0_DIRECTORIES:
        yield from _days(path / name, path, "G0")


def _days(folder: Path, root: Path, layout: Layout, *, is_backup: bool = False) -> Iterator[DayFile]:
    if _is_folder(folder):
        for item in sorted(folder.iterdir()):
            if _DAY_FILE.fullmatch(item.name):
                yield DayFile(item, root, layout, is_backup, item.is_symlink())


def _folders(path: Path) -> list[Path]:
    return sorted(item for item in path.iterdir() if _is_folder(item)) if _is_folder(path) else []


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
