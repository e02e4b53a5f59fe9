"""Findings about what lies in the data directory and the agent's: whose it is, who may read it, what is not ours.

Nothing is opened: names and ``lstat`` alone. Called by ``examine``. Not here: what is in the files.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from memory_sqlite import paths
from memory_sqlite.doctor.finding import Evidence, Finding
from memory_sqlite.doctor.place import Place, Skipped
from memory_sqlite.doctor.quarantine import PREFIX, made_at
from memory_sqlite.sources.places import shown
from memory_sqlite.storage import headers
from memory_sqlite.storage.fetch import integer

_TOP: Final = frozenset({paths.SESSION_KEY_FILE, paths.KEYRING_FILE, paths.AGENTS_DIRECTORY})
_SIDECARS: Final = ("", "-wal", "-shm", "-journal")
_TEMPORARY: Final = re.compile(r"^\.(?:session\.key|keyring\.json|memory\.sqlite|index-\d{6,}\.sqlite)\..*$")
"""What is written beside under another name and then renamed; a process id may follow (``.session.key.PID.hex``)."""
_PARTIAL: Final = re.compile(r"^\..+\.([0-9]+)\.[0-9a-f]{12}\.partial$")
"""A file or folder that an export, a backup, a salvage was to become (``interop.output``, ``backup.placing``), with the
process id: a copy of what was said."""
_LAYERED: Final = re.compile(
    r"^(?:conversations|memories|scenarios|profiles|records|sessions|agent-profiles|\.legacy-backup|\.isolation-key"
    r"|\.encryption-check)$"
)
"""Names of the layered-memory product, which ``legacy_found`` tells about."""
_SETTLED_S: Final = 3600.0
"""A temporary file of a process that cannot be asked is taken for left over after so long."""


def permissions(place: Place) -> list[Finding]:
    """Modes and owners of everything of ours."""
    _there(place)
    here = [(path, seen) for path in _ours(place) if (seen := _seen(path)) is not None]
    openly = [path for path, seen in here if _is_open(seen)]
    me = os.geteuid()
    others = [path for path, seen in here if me not in (0, seen.st_uid)]
    found = []
    if openly:
        found.append(Finding("permissions_open", {"files": len(openly)}, [_name(place, path) for path in openly]))
    if others:
        found.append(Finding("owner_differs", {"files": len(others)}, [_name(place, path) for path in others]))
    if place.store_path.is_file() and not os.access(place.store_path, os.R_OK):
        found.append(Finding("file_unreadable", {"file": paths.STORE_FILE}))
    elif place.has_store() and not (os.access(place.directory, os.W_OK) and os.access(place.store_path, os.W_OK)):
        found.append(Finding("directory_read_only", names=[place.directory.name]))
    return found


def foreign(place: Place) -> list[Finding]:
    """What no part of this program made, what it began and did not end, and what was set aside."""
    _there(place)
    strays, strange, leftovers = [], [], []
    for path in _strange(place):
        if _LAYERED.match(path.name):
            continue
        if _is_temporary(path):
            if is_left_over(place, path):
                leftovers.append(path)
        elif path.is_file() and ".sqlite" in path.name and not path.is_symlink():
            strays.append(path)
        else:
            strange.append(path)
    found = []
    for code, there in (("stray_database", strays), ("foreign_file", strange), ("temporary_leftover", leftovers)):
        if there:
            evidence: Evidence = {"files": len(there), "bytes": _bytes(there)}
            found.append(Finding(code, evidence, [_name(place, path) for path in there]))
    return found


def set_aside(place: Place) -> list[Finding]:
    """Quarantine folders, and whether something was forgotten since."""
    _there(place)
    folders = [path for path in _entries(place.directory) if path.name.startswith(PREFIX) and path.is_dir()]
    if not folders:
        return []
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    evidence: Evidence = {
        "folders": len(folders),
        "files": len(files),
        "bytes": _bytes(files),
    }
    names = [folder.name for folder in folders]
    with place.store() as store:
        forgot = integer(store, "SELECT coalesce(max(at), 0) FROM tombstones")
    clear = [path for path in files if _is_in_clear(path)]
    outlived = [folder.name for folder in folders if made_at(folder) <= forgot or _holds_older(folder, forgot)]
    found = [Finding("quarantine_kept", evidence, names)]
    if outlived:
        found.append(Finding("quarantine_outlived", {"folders": len(outlived)}, outlived))
    if clear and place.file_key() is not None:
        found.append(Finding("quarantine_in_clear", {"files": len(clear)}, [_folder_of(place, path) for path in clear]))
    return found


def _holds_older(folder: Path, forgot: int) -> bool:
    """Whether what was being made was last written before that: forgetting does not look into such files."""
    there = [path for path in _entries(folder) if _own_name(path).startswith(".")]
    inside = [one for path in there for one in (path, *(path.rglob("*") if path.is_dir() else ()))]
    return any(seen.st_mtime * 1000 <= forgot for path in inside if (seen := _seen(path)) is not None)


def _is_in_clear(path: Path) -> bool:
    """A database in clear, or a file that an export was to become, which is always in clear."""
    if ".sqlite" in path.name:
        return headers.kind(path) == "plain"
    return _PARTIAL.match(_own_name(path)) is not None and path.is_file()


def _own_name(path: Path) -> str:
    """Without what the quarantine puts before a name that is taken there."""
    return re.sub(r"^\d+-", "", path.name)


def _folder_of(place: Place, path: Path) -> str:
    return path.relative_to(place.directory).parts[0]


def temporary(place: Place) -> list[Path]:
    """Files and folders that ``temporary_leftover`` counts."""
    return [path for path in _strange(place) if _is_temporary(path) and is_left_over(place, path)]


def open_to_others(place: Place) -> list[Path]:
    """Files and directories that ``permissions_open`` counts."""
    return [path for path in _ours(place) if (seen := _seen(path)) is not None and _is_open(seen)]


def is_left_over(place: Place, path: Path) -> bool:
    """Whether who began a temporary file is gone. A process that may live, and a file of this hour, count as not."""
    partial = _PARTIAL.match(path.name)
    numbers = [partial[1]] if partial else re.findall(r"\.(\d+)(?=\.|$)", path.name)
    if numbers and _lives(int(numbers[0])):
        return False
    seen = _seen(path)
    return seen is not None and (bool(numbers) or place.clock.now_ms() / 1000 - seen.st_mtime > _SETTLED_S)


def _is_temporary(path: Path) -> bool:
    if path.is_symlink():
        return False
    if _PARTIAL.match(path.name):
        return path.is_file() or path.is_dir()
    return _TEMPORARY.match(path.name) is not None and path.is_file()


def _seen(path: Path) -> os.stat_result | None:
    """What ``lstat`` says; ``None`` for what has gone meanwhile, and for a link, which has no mode of its own."""
    try:
        seen = path.lstat()
    except OSError:
        return None
    return None if stat.S_ISLNK(seen.st_mode) else seen


def _is_open(seen: os.stat_result) -> bool:
    return bool(stat.S_IMODE(seen.st_mode) & 0o077)


def _bytes(there: list[Path]) -> int:
    inside = [one for path in there if path.is_dir() and not path.is_symlink() for one in path.rglob("*")]
    return sum(
        seen.st_size for path in (*there, *inside) if (seen := _seen(path)) is not None and stat.S_ISREG(seen.st_mode)
    )


def _lives(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _there(place: Place) -> None:
    if not place.data_dir.is_dir():
        raise Skipped("there is no data directory")


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(Path(entry.path) for entry in os.scandir(directory))
    except OSError:
        return []


def _is_ours(name: str) -> bool:
    for ending in _SIDECARS:
        plain = name.removesuffix(ending) if ending else name
        if plain == paths.STORE_FILE or paths.generation_number(plain) is not None:
            return True
    return name.startswith(PREFIX)


def _ours(place: Place) -> Iterator[Path]:
    """The data directory, its own files, the agent's directory and its files; quarantine folders whole."""
    yield place.data_dir
    agents = place.data_dir / paths.AGENTS_DIRECTORY
    yield from (path for path in _entries(place.data_dir) if path.name in _TOP)
    if agents.is_dir() and place.directory.is_dir():
        yield place.directory
        for path in _entries(place.directory):
            if _is_ours(path.name):
                yield path
                if path.name.startswith(PREFIX) and path.is_dir() and not path.is_symlink():
                    yield from path.rglob("*")


def _strange(place: Place) -> Iterator[Path]:
    yield from (path for path in _entries(place.data_dir) if path.name not in _TOP)
    for path in _entries(place.directory):
        plain = path.is_dir() if path.name.startswith(PREFIX) else path.is_file()
        if not _is_ours(path.name) or not plain or path.is_symlink():
            yield path


def _name(place: Place, path: Path) -> str:
    return shown("." if path == place.data_dir else str(path.relative_to(place.data_dir)))
