"""Findings about whether the store opens: its file, its keys, its schema; and which of its tables can be read.

Called by ``examine``. Every way of not opening has a code of its own, so that a wrong key is never called damage. Not
here: what is in the tables (``store_checks``, ``relation_checks``).
"""

from __future__ import annotations

import os
from typing import Final

import apsw

from memory_sqlite import errors, paths
from memory_sqlite.doctor import holders, schema, store_checks
from memory_sqlite.doctor.catalogue import FINDINGS
from memory_sqlite.doctor.finding import Evidence, Finding
from memory_sqlite.doctor.place import Place, Skipped
from memory_sqlite.storage import connection as connections
from memory_sqlite.storage import migrate, session_key
from memory_sqlite.storage.fetch import all_rows

WAL_MOST: Final = 128 * 1024 * 1024
"""Twice what a log is cut back to at a checkpoint (``connection``): beyond it, checkpoints do not get through."""
_SMALLEST: Final = 512
"""Bytes of the smallest page that SQLite knows."""


def keys(place: Place) -> list[Finding]:
    """``session.key``, and whether the key that is configured opens what is here."""
    if not place.data_dir.is_dir():
        raise Skipped("there is no data directory")
    found = []
    try:
        if (place.data_dir / paths.SESSION_KEY_FILE).exists() or place.has_store():
            session_key.load(place.data_dir)
    except errors.MemorySqliteError as error:
        found.append(Finding(error.code))
    try:
        place.file_key()
    except errors.MemorySqliteError as error:
        found.append(_told(error))
    if place.keys_change:
        found.append(Finding("key_change_unfinished"))
    return found


def file(place: Place) -> list[Finding]:
    """Whether there is a store, and whether it is one."""
    path = place.store_path
    if not place.directory.is_dir():
        return [Finding("agent_absent", names=[place.directory.name])]
    try:
        size = path.lstat().st_size
    except FileNotFoundError:
        others = any(entry.is_file() for entry in os.scandir(place.directory))
        return [Finding("store_missing" if others else "agent_absent", names=[place.directory.name])]
    if path.is_symlink() or not path.is_file():
        return [Finding("store_not_a_file")]
    if not size:
        wal = path.with_name(path.name + "-wal")
        was = wal.is_file() and wal.stat().st_size > 0
        was = was or any(paths.generation_number(entry.name) is not None for entry in os.scandir(path.parent))
        return [Finding("store_emptied" if was else "agent_absent", names=[place.directory.name])]
    if size < _SMALLEST:
        return [store_checks.damaged("too_short")]
    return _opens(place)


def _opens(place: Place) -> list[Finding]:
    try:
        with place.store() as store:
            version = migrate.check(store)
            found = []
            if version < migrate.latest():
                found.append(Finding("schema_older", {"schema": version, "newest": migrate.latest()}))
            return [*found, *schema.differences(store, version), *_identity(place, store)]
    except errors.StoreDamaged as error:
        if error.__cause__ is None:  # it opened, and says itself that it is somebody else's
            return [Finding("store_foreign")]
        return [store_checks.damaged(type(error.__cause__).__name__)]
    except (apsw.NotADBError, apsw.CorruptError) as error:
        return [store_checks.damaged(type(error).__name__)]
    except errors.StoreBusy as error:
        raise Skipped(error.code) from None
    except errors.StoreReadOnly as error:
        if os.access(place.store_path, os.R_OK):
            return [Finding("check_failed", {"check": "store", "reason": error.code})]
        raise Skipped(error.code) from None  # ``file_unreadable`` says it
    except errors.MemorySqliteError as error:
        if error.code in FINDINGS and error.code in KEY_CODES:
            raise Skipped(error.code) from None  # the check of keys says it
        return [_told(error)]


KEY_CODES: Final = frozenset({
    "encryption_unavailable", "encryption_key_required", "encryption_key_wrong", "store_not_encrypted",
    "keyring_missing", "keyring_damaged", "encryption_mixed", "key_changed", "invalid_configuration",
})  # fmt: skip
"""Errors that the check of keys tells of, so that others need not."""


def _told(error: errors.MemorySqliteError) -> Finding:
    """A typed error as a finding: of its own code where there is one."""
    if error.code in FINDINGS:
        return Finding(error.code)
    if isinstance(error, errors.InvalidConfiguration):
        return Finding("configuration_invalid", {"reason": error.message})
    return Finding("check_failed", {"check": "store", "reason": error.code})


def _identity(place: Place, store: apsw.Connection) -> list[Finding]:
    said = {str(name): str(value) for name, value in all_rows(store, "SELECT key, value FROM store_info")}
    found = []
    key = place.session_key()
    known = said.get("session_key_fingerprint")
    if key is not None and known is not None and known != session_key.fingerprint(key):
        found.append(Finding("session_key_changed"))
    agent = said.get("agent")
    if agent is not None and paths.agent_directory_name(agent) != place.directory.name:
        found.append(Finding("store_of_another_agent", names=[place.directory.name]))
    return found


def pages(place: Place) -> list[Finding]:
    """Every page of the store; where some are damaged, which tables they belong to, and how far each can be read."""
    with place.store() as store:
        try:
            problems = [str(row[0]) for row in all_rows(store, "PRAGMA integrity_check(20)")]
        except (apsw.CorruptError, apsw.NotADBError) as error:
            problems = [type(error).__name__]
        if problems == ["ok"]:
            return store_checks.constrained(store)
        evidence: Evidence = {"problems": len(problems)}
        broken, whole, rows = _tables(store)
        evidence["tables"] = schema.told(broken) or "unknown"
        evidence["readable_tables"] = whole
        for name in rows.keys() & schema.own_tables():
            evidence[f"readable_rows_{name}"] = rows[name]
        return [Finding("store_damaged", evidence)]


def _tables(store: apsw.Connection) -> tuple[set[str], int, dict[str, int]]:
    """Tables that are not sound, the number of those that are, and of the others how many rows a scan gives."""
    try:
        names = [str(row[0]) for row in all_rows(store, "SELECT name FROM sqlite_schema WHERE type = 'table'")]
    except (apsw.CorruptError, apsw.NotADBError):
        return {"sqlite_schema"}, 0, {}
    broken, rows = set(), {}
    for name in names:
        if name.startswith("sqlite_") or not name.isidentifier():
            continue
        if not _is_sound(store, name):
            broken.add(name)
            rows[name] = _readable(store, name)
    return broken, len([name for name in names if name.isidentifier()]) - len(broken), rows


def _is_sound(store: apsw.Connection, name: str) -> bool:
    try:
        return all_rows(store, f"PRAGMA integrity_check('{name}')") == [("ok",)]
    except (apsw.CorruptError, apsw.NotADBError):
        return False


def _readable(store: apsw.Connection, name: str) -> int:
    """Rows that a scan from the beginning gives before it meets a damaged page; salvage finds those behind it too."""
    count = 0
    try:
        for _ in store.execute(f"SELECT * FROM {name} NOT INDEXED"):
            count += 1
    except (apsw.CorruptError, apsw.NotADBError):
        pass
    return count


def logs(place: Place) -> list[Finding]:
    """Write-ahead logs that are far beyond their bound, with how much of the store's is written back."""
    found = []
    for path in sorted(place.directory.glob("*.sqlite-wal")):
        size = path.stat().st_size
        name = path.name.removesuffix("-wal")
        if size <= WAL_MOST or not (name == paths.STORE_FILE or paths.generation_number(name) is not None):
            continue
        evidence: Evidence = {"file": path.name, "bytes": size}
        if name == paths.STORE_FILE:
            evidence |= _written_back(place)
        found.append(Finding("wal_large", evidence))
    return found


def _written_back(place: Place) -> Evidence:
    mode = getattr(apsw, "SQLITE_CHECKPOINT_NOOP", None)  # looks and does nothing; since SQLite 3.51
    if mode is None or not place.has_store():
        return {}
    connection = connections.open_store_reader(place.store_path, place.file_key())
    try:
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        frames, done = connection.wal_checkpoint(mode=mode)
    except apsw.Error:
        return {}
    finally:
        connection.close()
    return {"frames": frames, "written_back": done}


def in_use(place: Place) -> list[Finding]:
    """Who else has the store open."""
    if not place.has_store():
        raise Skipped("there is no store")
    who = holders.of([place.store_path])
    return [Finding("store_in_use", {"processes": who.shown()})] if who else []
