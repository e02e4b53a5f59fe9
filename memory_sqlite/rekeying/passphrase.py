"""Another key of the user for the same data keys: the keyring is wrapped anew, no database file is touched.

Whoever has the old keyring and the old key can still open the files; ``rotate`` is for that.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from memory_sqlite import errors
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.crypto import directory_lock, keyring, keyring_file
from memory_sqlite.crypto.secret import Secret
from memory_sqlite.rekeying import backups
from memory_sqlite.rekeying.reports import NEW, KeyReport
from memory_sqlite.rekeying.run import refuse_read_only, required_secret


def change_passphrase(
    settings: Settings,
    new: Secret,
    *,
    wait_s: float = 0.0,
    dry_run: bool = False,
    backup_paths: Sequence[str | os.PathLike[str]] = (),
    clock: Clock | None = None,
) -> KeyReport:
    """Wrap the data keys under the key that ``new`` names; that of the settings must open them.

    Raises ``StoreNotEncrypted`` for a directory in clear, ``EncryptionKeyWrong``, ``DirectoryInUse``, ``DiskFull``,
    ``StoreReadOnly``, ``InvalidConfiguration``; then the old key opens it as before.
    """
    clock = clock or Clock()
    secret = required_secret(settings)
    key = new.read()
    refuse_read_only(settings.data_dir)
    lock = directory_lock.alone(settings.data_dir, wait_s)
    try:
        ring = keyring_file.load(settings.data_dir)
        if ring is None:
            raise errors.StoreNotEncrypted("the data directory has no keyring.json; there is no passphrase to change")
        unlocked = keyring.unlock(ring, secret.read())
        again = unlocked.rewrapped(key, passphrase=new.passphrase, random=clock.token_bytes)
        keyring.unlock(again.ring, key)  # what is written opens, or the old one stays
        if not dry_run:
            keyring_file.sweep(settings.data_dir)
            keyring_file.place(settings.data_dir, again.ring, clock.token_bytes)
    finally:
        lock.close()
    current = ring.current if ring.change is None else ring.change.target
    return KeyReport(
        "change-passphrase",
        "planned" if dry_run else "done",
        ring.current,
        ring.current,
        None if current is None else ring.key(current).cipher,
        NEW if dry_run else again.ring.user_key,
        backups=backups.look(backup_paths, again.ring, current),
    )
