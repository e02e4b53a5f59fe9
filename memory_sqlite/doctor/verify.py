"""Looking an agent's directory over: nothing is repaired, and no text of a memory is told.

Lives here: the order of the checks, and opening what they look at. The checks are in ``store_checks`` and
``index_checks``. Called by people through the command line, by tests, and at the end of every sweep of faults.
"""

from __future__ import annotations

from pathlib import Path

import apsw

from memory_sqlite import errors, paths
from memory_sqlite.agent.opened import Opened
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.doctor import index_checks, store_checks
from memory_sqlite.doctor.finding import Evidence, Finding
from memory_sqlite.generations import files, registry
from memory_sqlite.indexing import resume
from memory_sqlite.storage import connection as connections
from memory_sqlite.storage import session_key

__all__ = ["Finding", "verify"]


def verify(place: Path | Opened) -> list[Finding]:
    """Every finding about one agent's directory (that of ``memory.sqlite``), the gravest first; none means clean.

    ``place`` is that directory, or the agent opened, which is then looked at through connections of its own.

    The store is opened for reading only. A generation is opened for writing, since that is how FTS5 checks itself, and
    left as it was. What several processes are doing at this moment may show as a finding that is gone a moment later.
    """
    directory, file_key = (place, None) if isinstance(place, Path) else (place.store.directory, place.store.file_key)
    path = directory / paths.STORE_FILE
    if not path.is_file():
        return [Finding("store_missing", {"file": path.name})]
    try:
        store = connections.open_store_reader(path, file_key)
    except errors.MemorySqliteError as error:
        return [store_checks.damaged(error.code)]
    try:
        found = store_checks.check(store, _key(directory))
        if any(one.code == "store_damaged" for one in found):
            return found
        found += _generations(store, directory, file_key)
    except (apsw.NotADBError, apsw.CorruptError):
        return [store_checks.damaged("not_a_database")]
    finally:
        store.close()
    return sorted(found, key=lambda one: one.severity != "error")


def _key(directory: Path) -> bytes | None:
    try:
        return session_key.load(directory.parent.parent)
    except errors.MemorySqliteError:
        return None  # opening says so in its own words; tombstones of entries cannot be compared


def _generations(store: apsw.Connection, directory: Path, file_key: FileKey | None) -> list[Finding]:
    current = registry.current(store)
    others = [number for number in files.numbers(directory) if current is None or number != current.number]
    found = [leftover(store, directory, number, file_key) for number in others]
    if current is None:
        return [Finding("index_missing"), *found]
    path = paths.generation_file(directory, current.number)
    return [*found, *index_checks.check(store, path, current, _key(directory), file_key)]


def leftover(store: apsw.Connection, directory: Path, number: int, file_key: FileKey | None) -> Finding:
    """A generation's file that is not the current one's: somebody's, an unfinished build, or left over."""
    path = paths.generation_file(directory, number)
    state = store.execute("SELECT state FROM generations WHERE number = ?", (number,)).get
    if files.is_held(path, file_key):
        code = "index_held"  # a reader or a builder that lives; it goes by itself
    elif number == resume.unfinished(directory, store, file_key):
        code = "index_unfinished"  # a build that was killed; the next `index` goes on with it
    else:
        code = "index_leftover"
    evidence: Evidence = {
        "file": path.name,
        "state": state if isinstance(state, str) else "unknown",
        "bytes": sum(_size(path.with_name(path.name + ending)) for ending in ("", "-wal", "-shm")),
    }
    return Finding(code, evidence)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
