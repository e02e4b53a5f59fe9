"""How the keys of a data directory are, with or without the key; reads only, and without the directory's lock."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from memory_sqlite import errors, paths
from memory_sqlite.config import Settings
from memory_sqlite.crypto import keyring_file
from memory_sqlite.crypto import secret as secrets
from memory_sqlite.crypto.keyring import Keyring, Unlocked
from memory_sqlite.rekeying import backups
from memory_sqlite.rekeying.reports import KeyFile, KeyStatus
from memory_sqlite.storage import headers, unlocking


def status(settings: Settings, *, backup_paths: Sequence[str | os.PathLike[str]] = ()) -> KeyStatus:
    """Whether the directory is encrypted, with which key, whether the configured one opens it, and each file's state.

    Whatever is wrong is in the answer; nothing is raised for it.
    """
    data_dir = settings.data_dir
    files = tuple(
        KeyFile(name, headers.kind(path), path.stat().st_size if path.is_file() else 0)
        for name, path in unlocking.files(data_dir)
        if headers.kind(path) != "absent"
    )
    problem, ring = _problem(data_dir, settings)
    current = None if ring is None else ring.current if ring.change is None else ring.change.target
    change = None if ring is None or ring.change is None else {"from": ring.change.source, "to": ring.change.target}
    locked = ("encryption_key_required", "encryption_key_wrong", "invalid_configuration")
    has_key = secrets.from_settings(settings) is not None
    return KeyStatus(
        _state(files, ring, problem),
        problem not in locked if ring is not None and has_key else None,
        problem,
        current,
        None if ring is None else ring.user_key,
        None if ring is None or current is None else ring.key(current).cipher,
        None if ring is None else ring.kdf.name,
        change,
        files,
        backups.look(backup_paths, ring, current),
    )


def _problem(data_dir: Path, settings: Settings) -> tuple[str | None, Keyring | None]:
    """The code of what opening is refused with, and the keyring where it can be read."""
    ring = None
    try:
        ring = keyring_file.load(data_dir)
        unlocked = unlocking.look(data_dir, data_dir, secrets.from_settings(settings)).unlocked
        if unlocked is not None and not all(_opens(unlocked, one) for one in unlocking.agent_directories(data_dir)):
            return errors.KeyringDamaged.code, ring  # such as one from before a rotation, put back
    except errors.MemorySqliteError as error:
        return error.code, ring
    return None, ring


def _opens(unlocked: Unlocked, directory: Path) -> bool:
    """Whether a key of the keyring opens an agent's files, or they are none to be opened."""
    if headers.kind(directory / paths.STORE_FILE) != "encrypted":
        return True
    return unlocking.which(unlocked, directory) != "nothing"


def _state(files: Sequence[KeyFile], ring: Keyring | None, problem: str | None) -> str:
    kinds = {file.state for file in files} - {"empty", "unknown"}
    if problem == "keyring_missing":
        return "lost"
    if ring is not None and ring.change is not None:
        return "changing"
    if len(kinds) > 1 or (ring is not None and "plain" in kinds):
        return "mixed"
    if ring is not None:
        return "encrypted"
    return "plain" if "plain" in kinds else "empty"
