"""Findings about the machine: SQLite and what is beside it, the file system, room, the clock, watches of folders.

Called by ``examine``. Not here: anything in the agent's files but their sizes and newest times.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from memory_sqlite import library, limits, paths
from memory_sqlite.agent.note_folders import NoteFolders
from memory_sqlite.doctor import holders
from memory_sqlite.doctor.finding import Evidence, Finding
from memory_sqlite.doctor.place import Place, Skipped
from memory_sqlite.storage import file_system
from memory_sqlite.storage.fetch import all_rows, integer

ROOM_BYTES: Final = 64 * limits.MIB
"""Room that must be left beside a second copy of the index: what a write-ahead log may grow to (``connection``)."""
CLOCK_SLACK_MS: Final = 24 * 60 * 60 * 1000
"""A clock that is off by less than a day is set by the system, and hosts disagree about zones."""
INOTIFY: Final = Path("/proc/sys/fs/inotify/max_user_watches")


def libraries(place: Place) -> list[Finding]:
    """Two wheels that overwrite each other, and a second SQLite in a process that has the store open."""
    found = []
    if library.describe()["problem"] is not None:
        found.append(Finding("library_two_copies", {"distributions": ", ".join(library.distributions())}))
    if place.has_store():
        shared = []
        for number in (os.getpid(), *holders.of([place.store_path]).processes):
            if holders.libraries(number) == {"apsw", "sqlite3"}:
                shared.append(number)
        if shared:
            found.append(Finding("library_shared", {"processes": ", ".join(str(number) for number in shared)}))
    return found


def disk(place: Place) -> list[Finding]:
    """On what kind of file system the directory is, and whether the index could be built anew there."""
    found = []
    system = file_system.of(place.data_dir)
    if system.kind == "network":
        found.append(Finding("file_system_network", {"type": system.type}))
    elif system.kind == "unsuitable":
        found.append(Finding("file_system_unsuitable", {"type": system.type}))
    if place.directory.is_dir():
        needed = ROOM_BYTES + _largest_index(place.directory)
        free = shutil.disk_usage(place.directory).free
        if free < needed:
            found.append(Finding("disk_low", {"free_bytes": free, "needed_bytes": needed}))
    return found


def clock(place: Place) -> list[Finding]:
    """Whether time goes forward, and whether hosts say when things were said."""
    with place.store() as store:
        rows = all_rows(store, "SELECT coalesce(max(recorded_at), 0), coalesce(max(at), 0) FROM turns")
        newest, _ = rows[0]
        now = place.clock.now_ms()
        latest = max(now, newest) + CLOCK_SLACK_MS
        ahead = integer(store, "SELECT count(*) FROM turns WHERE at > ?", (latest,))
    found = []
    if newest > now + CLOCK_SLACK_MS:
        found.append(Finding("clock_behind", {"hours": (newest - now) // 3_600_000}))
    if ahead:
        found.append(Finding("times_ahead", {"turns": ahead}))
    return found


def watches(place: Place) -> list[Finding]:
    """Whether every folder of notes could be watched."""
    workspace = known_workspace(place)
    if workspace is None or not workspace.is_dir():
        raise Skipped("there is no workspace")
    try:
        most = int(INOTIFY.read_text("ascii"))
    except (OSError, ValueError):
        raise Skipped("this system does not say how much can be watched") from None
    folders = len(NoteFolders(workspace, place.settings.extra_paths).folders)
    evidence: Evidence = {"folders": folders, "watches": most}
    return [Finding("watch_capacity", evidence)] if folders > most else []


def known_workspace(place: Place) -> Path | None:
    """The workspace of the settings, else the one last given, which the store keeps."""
    if place.settings.workspace is not None:
        return place.settings.workspace
    if not place.has_store():
        return None
    with place.store() as store:
        known = store.execute("SELECT value FROM store_info WHERE key = 'workspace'").get
    return Path(known) if isinstance(known, str) else None


def _largest_index(directory: Path) -> int:
    sizes = [
        entry.stat(follow_symlinks=False).st_size
        for entry in os.scandir(directory)
        if paths.generation_number(entry.name) is not None and entry.is_file(follow_symlinks=False)
    ]
    return max(sizes, default=0)
