"""Which of the backups that somebody names need a key that the data directory does not have any more.

A backup holds its own keyring: it opens with the key that the user had when it was made. Read only; no key is needed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from memory_sqlite import errors
from memory_sqlite.backup import manifest
from memory_sqlite.crypto import keyring_file
from memory_sqlite.crypto.keyring import Keyring
from memory_sqlite.rekeying.reports import BackupKeys


def look(
    backup_paths: Sequence[str | os.PathLike[str]], ring: Keyring | None, current: str | None
) -> tuple[BackupKeys, ...]:
    """Each backup and what it needs, compared with the keyring as it is now and its data key."""
    return tuple(_look(Path(path), ring, current) for path in backup_paths)


def _look(path: Path, ring: Keyring | None, current: str | None) -> BackupKeys:
    name = os.fspath(path)
    try:
        ids = manifest.key_ids(path)
        theirs = keyring_file.load(path)
    except (errors.InvalidArgument, errors.BackupInvalid, errors.KeyringDamaged) as error:
        return BackupKeys(name, f"cannot be said ({error.code})", True)
    if not ids:
        return BackupKeys(name, "no key: it is in clear", False)
    if theirs is None:
        return BackupKeys(name, "a keyring that is not in it", True)
    if ring is not None and theirs.user_key == ring.user_key and set(ids) == {current}:
        return BackupKeys(name, f"the key of now ({current})", False)
    if ring is not None and theirs.user_key == ring.user_key:
        return BackupKeys(name, f"the user's key of now, for the data key before ({', '.join(ids)})", False)
    return BackupKeys(name, f"the user's key of then ({theirs.user_key}), for data key {', '.join(ids)}", True)
