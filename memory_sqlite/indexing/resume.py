"""Going on with a build that was killed: whose file may be gone on with, and what in it is already done.

A build is written in WAL without sync. After the death of its process the file is whole, since the system still has
every write; after a power cut it may not be, so the same boot is asked for. What was filed then is brought up to date
by the change log like everything else, from the number the file says. Called by ``rebuild``, and by ``doctor`` to tell
such a file from a leftover.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import apsw

from memory_sqlite import paths
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.generations import layout, registry
from memory_sqlite.indexing import identity, rows
from memory_sqlite.storage import change_log
from memory_sqlite.storage import connection as connections

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
"""Linux: a random id of this boot (proc_sys_kernel(5)). Elsewhere nothing is gone on with."""
_KEY: Final = "boot"


def boot() -> str | None:
    """What tells this boot of the machine from every other; ``None`` where the system does not say."""
    try:
        return _BOOT.read_text("ascii").strip() or None
    except (OSError, ValueError):
        return None


def note_boot(index: apsw.Connection) -> None:
    """Say in a new file under which boot it is written; inside the caller's transaction."""
    layout.write_meta(index, _KEY, boot())


def unfinished(directory: Path, connection: apsw.Connection, key: FileKey | None = None) -> int | None:
    """The number of a killed build that can be gone on with: the newest one, if nobody builds and it fits.

    ``directory`` is the agent's, ``connection`` one to its store. Opens the file alone for a moment; its pages are
    looked at by ``is_sound``, once they are needed.
    """
    building = registry.by_state(connection, "building")
    if not building or building[-1].identity != identity.expected():
        return None
    path = paths.generation_file(directory, building[-1].number)
    try:
        probe = connections.open_index_probe(path, key) if path.exists() else None
    except apsw.Error:
        return None
    if probe is None:
        return None
    try:
        return building[-1].number if _fits(probe, change_log.newest(connection)) else None
    finally:
        probe.close()


def take_up(directory: Path, number: int, key: FileKey | None) -> apsw.Connection | None:
    """The file of a killed build, open for building under the lock that tells that a builder lives."""
    return connections.reopen_index(paths.generation_file(directory, number), key)


def is_sound(index: apsw.Connection) -> bool:
    """Whether the pages of the file and what stands in them fit together."""
    try:
        return index.pragma("quick_check") == "ok" and rows.inconsistency(index) is None
    except apsw.Error:
        return False


def filed_sessions(index: apsw.Connection) -> set[int]:
    """The sessions that are filed already. Each is filed in one transaction: whole, or not at all."""
    found: list[Any] = index.execute(
        "SELECT DISTINCT session_id FROM documents WHERE session_id IS NOT NULL"
    ).fetchall()
    return {int(session_id) for (session_id,) in found}


def _fits(index: apsw.Connection, newest: int) -> bool:
    """Its first transaction was committed, by this code, under this boot, from this store."""
    try:
        meta = layout.read_meta(index)
    except (apsw.Error, ValueError):
        return False
    known = boot()
    return (
        known is not None
        and meta.get(_KEY) == known
        and meta.get("identity") == identity.expected()
        and 0 <= int(meta.get("applied_seq", -1)) <= newest
    )
