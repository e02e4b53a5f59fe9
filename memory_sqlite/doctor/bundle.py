"""A support bundle: what somebody who helps has to know of a memory, and not a word of what is in it.

Nothing is taken over because it looks harmless: each file is made of numbers, states and names of our own, chosen one
by one. What people name (agents, sessions, notes, folders, models, addresses) is left out, or is a short digest that
tells two of them apart. Works from settings alone, where a memory does not open. Called by ``Memory`` and the command
line.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import stat
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import apsw

from memory_sqlite import errors, library, paths
from memory_sqlite.clock import Clock, iso
from memory_sqlite.config import Settings
from memory_sqlite.config_fields import FIELDS
from memory_sqlite.doctor import examination
from memory_sqlite.doctor.bundle_status import known_identity, status
from memory_sqlite.doctor.place import Place, Skipped
from memory_sqlite.doctor.tree_shapes import shapes
from memory_sqlite.generations import files as generation_files
from memory_sqlite.storage import migrate, session_key
from memory_sqlite.storage.failures import is_full
from memory_sqlite.storage.fetch import all_rows, integer
from memory_sqlite.values import dataclass
from memory_sqlite.version import VERSION

FORMAT: Final = 1
Progress = Callable[[str, int, int | None], None]
_EXPLANATION: Final = """What memory-sqlite tells about itself, for whoever helps.
It holds versions, settings without names, paths or keys, findings of `memory-sqlite doctor`, counts, sizes and states.
It holds nothing that was said or noted, no session, no sender, no query, no file name of yours and no log.
Digests only tell two things apart.
"""
_SHOWN_KINDS: Final = frozenset({"boolean", "integer", "number"})


@dataclass(frozen=True, slots=True)
class BundleReport:
    """The bundle that was written: a zip file of ``files`` with ``bytes`` in all. ``disabled``: nothing was written."""

    status: Literal["ok", "disabled"]
    path: str
    files: tuple[str, ...] = ()
    bytes: int = 0


def write(
    settings: Settings, clock: Clock, out: Path, *, overwrite: bool = False, progress: Progress | None = None
) -> BundleReport:
    """Write the bundle to ``out``, mode 0600, whole or not at all. What cannot be found out is named in it by its error
    code. Raises ``OutputExists``, ``StoreReadOnly`` and ``DiskFull``."""
    import zipfile

    if out.exists() and not overwrite:
        raise errors.OutputExists("there is a file of that name already")
    parts = _parts(settings, clock, progress)
    beside = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                    for name, content in parts.items():
                        archive.writestr(name, content)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(out)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        session_key.sync_directory(out.parent)
        size = out.stat().st_size
    except OSError as error:
        if is_full(error):
            raise errors.DiskFull("the disk is full; the bundle was not written") from error
        raise errors.StoreReadOnly(f"the bundle cannot be written ({error.strerror})") from error
    return BundleReport("ok", str(out), tuple(parts), size)


def digest(name: str) -> str:
    """Eight hex digits that tell two names of people apart, and say neither."""
    return hashlib.sha256(b"memory-sqlite bundle\0" + name.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def _parts(settings: Settings, clock: Clock, progress: Progress | None) -> dict[str, str]:
    place = Place(settings, clock)
    looks: dict[str, Callable[[], Any]] = {
        "about.json": lambda: _about(clock),
        "settings.json": lambda: _settings(settings),
        "doctor.json": lambda: examination(settings, clock, progress=progress).as_json(names=False),
        "status.json": lambda: status(settings, clock, digest),
        "schema.json": lambda: _schema(place),
        "generations.json": lambda: _generations(place),
        "files.json": lambda: _files(place),
    }
    parts = {"README.txt": _EXPLANATION}
    for done, (name, look) in enumerate(looks.items()):
        if progress is not None:
            progress("bundle", done, len(looks))
        parts[name] = json.dumps(_looked(look), indent=1, sort_keys=True) + "\n"
    return parts


def _looked(look: Callable[[], Any]) -> Any:
    """Every part is there even if another fails; of an error its code or its type, never its words."""
    try:
        return look()
    except errors.MemorySqliteError as error:
        return {"error": error.code}
    except Skipped:
        return {"error": "nothing_there"}
    except (OSError, apsw.Error) as error:
        return {"error": type(error).__name__}


def _about(clock: Clock) -> dict[str, Any]:
    return {
        "bundle": FORMAT,
        "made_at": iso(clock.now_ms()),
        "memory_sqlite": VERSION,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": platform.system(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "encoding": sys.getfilesystemencoding(),
        "library": library.describe(),
    }


def _settings(settings: Settings) -> dict[str, Any]:
    """Numbers, yes or no, and choices of ours as they are; of everything else whether it is set."""
    said: dict[str, Any] = {}
    for field in FIELDS:
        value = getattr(settings, field.name)
        is_ours = field.kind in _SHOWN_KINDS or (bool(field.choices) and value in field.choices)
        said[field.name] = value if value is None or is_ours else "set" if value else "empty"
    return said


def _schema(place: Place) -> dict[str, Any]:
    """The version, and rows of each table that is ours; of others how many there are."""
    with place.store() as store:
        version = integer(store, "PRAGMA user_version")
        known = {shape.table for shape in shapes(min(max(version, 1), migrate.latest())).values()}
        tables = [str(name) for (name,) in all_rows(store, "SELECT name FROM sqlite_schema WHERE type = 'table'")]
        ours = [name for name in tables if name in known]
        rows = {name: integer(store, f'SELECT count(*) FROM "{name}"') for name in ours}
        return {
            "version": version,
            "newest": migrate.latest(),
            "rows": rows,
            "missing": sorted(known.difference(tables) - {"sqlite_schema"}),
            "foreign_tables": len(tables) - len(ours),
        }


def _generations(place: Place) -> list[dict[str, Any]]:
    sql = "SELECT number, state, identity, created_at, published_at, retired_at FROM generations ORDER BY number"
    with place.store() as store:
        found = all_rows(store, sql)
    return [
        {
            "number": number,
            "state": state,
            "identity": known_identity(json.loads(identity)),
            "created_at": iso(created),
            "published_at": None if published is None else iso(published),
            "retired_at": None if retired is None else iso(retired),
            "file": _file(paths.generation_file(place.directory, number)),
        }
        for number, state, identity, created, published, retired in found
    ]


def _files(place: Place) -> dict[str, Any]:
    """Files of ours by their names, of others how many."""
    numbers = generation_files.numbers(place.directory)
    ours = {paths.STORE_FILE, *(paths.generation_file(place.directory, number).name for number in numbers)}
    wanted = sorted(name + end for name in ours for end in ("", "-wal", "-shm", "-journal"))
    there = [entry.name for entry in os.scandir(place.directory)]
    return {
        "agent": digest(place.settings.agent),
        "agents": sum(1 for _ in (place.data_dir / paths.AGENTS_DIRECTORY).iterdir()),
        "session_key": _file(place.data_dir / paths.SESSION_KEY_FILE),
        "keyring": _file(place.data_dir / paths.KEYRING_FILE),
        "files": {name: _file(place.directory / name) for name in wanted if name in there},
        "other_files": len(set(there).difference(wanted)),
    }


def _file(path: Path) -> Mapping[str, Any] | None:
    try:
        seen = path.lstat()
    except FileNotFoundError:
        return None
    return {
        "bytes": seen.st_size,
        "mode": oct(stat.S_IMODE(seen.st_mode)),
        "regular": stat.S_ISREG(seen.st_mode),
        "changed_at": iso(seen.st_mtime_ns // 1_000_000),
    }
