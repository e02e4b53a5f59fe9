"""Which processes have a file open: told by Linux, unknown elsewhere.

Reads ``/proc`` alone; no process is disturbed. Called by the checks that name who holds something.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from memory_sqlite.values import dataclass

PROC: Final = Path("/proc")
_LIBRARIES: Final = (("/apsw/", "apsw"), ("_sqlite3.", "sqlite3"))
"""What of a mapped file's path tells which SQLite a process has loaded."""


@dataclass(frozen=True, slots=True)
class Holders:
    """``processes`` are ids, ours left out. ``known`` is false where the system does not say. Processes of other users
    are seen by root alone; files of mode 0600 are opened by root and their owner alone."""

    processes: tuple[int, ...]
    known: bool

    def __bool__(self) -> bool:
        return bool(self.processes)

    def shown(self) -> str:
        """As evidence: ``12, 40``, ``none``, or ``unknown``."""
        told = ", ".join(str(one) for one in self.processes)
        return told or ("none" if self.known else "unknown")


def of(files: Iterable[Path], proc: Path = PROC) -> Holders:
    """The other processes that have one of these files open."""
    wanted = set()
    for path in files:
        try:
            seen = path.stat()
        except OSError:
            continue
        wanted.add((seen.st_dev, seen.st_ino))
    processes = _processes(proc)
    if processes is None:
        return Holders((), False)
    found = []
    for number in processes:
        try:
            if number != os.getpid() and any(_is_one(entry, wanted) for entry in os.scandir(proc / str(number) / "fd")):
                found.append(number)
        except OSError:
            pass  # it ended, or is another user's
    return Holders(tuple(sorted(found)), True)


def libraries(number: int, proc: Path = PROC) -> frozenset[str]:
    """Which SQLite libraries a process has loaded: ``apsw``, ``sqlite3``; empty where that cannot be told."""
    try:
        maps = (proc / str(number) / "maps").read_text("utf-8", "replace")
    except OSError:
        return frozenset()
    return frozenset(name for mark, name in _LIBRARIES if mark in maps)


def _processes(proc: Path) -> Iterator[int] | None:
    try:
        names = [entry.name for entry in os.scandir(proc)]
    except OSError:
        return None
    numbers = [int(name) for name in names if name.isdigit()]
    return iter(numbers) if numbers else None


def _is_one(entry: os.DirEntry[str], wanted: set[tuple[int, int]]) -> bool:
    try:
        seen = entry.stat()  # through the link: the open file itself, also under another name
    except OSError:
        return False
    return (seen.st_dev, seen.st_ino) in wanted
