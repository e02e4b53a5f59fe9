"""Proving a backup, or the stores of a data directory: every file against the manifest, every store by SQLite.

Nothing is written. What cannot be read is never called sound: without the key this fails with the key's error. Called
by the command, and by ``restoring`` for what both ask of a backup's store.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from memory_sqlite import errors, limits, paths
from memory_sqlite.backup import checking, copying, files
from memory_sqlite.backup import manifest as manifests
from memory_sqlite.backup.manifest import Manifest
from memory_sqlite.backup.reports import AgentCopy, VerifyReport
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.crypto import directory_lock, keyring, keyring_file
from memory_sqlite.crypto import secret as secrets
from memory_sqlite.crypto.secret import Secret
from memory_sqlite.storage import session_key, unlocking
from memory_sqlite.storage import store as stores

Progress = Callable[[str, int, int | None], None]


def verify(path: Path, settings: Settings, clock: Clock, progress: Progress | None = None) -> VerifyReport:
    """Prove a backup or a data directory; the report lists everything that is wrong.

    Raises ``InvalidArgument`` for what is neither, ``BackupInvalid`` when the manifest itself cannot be used, and the
    errors of keys. Only the key is taken from the settings.
    """
    if not settings.enabled:
        return VerifyReport("disabled")
    secret = secrets.from_settings(settings)
    if not path.is_dir():
        raise errors.InvalidArgument("there is no such directory to verify")
    if manifests.is_backup(path):
        return _backup(path, secret, clock, progress)
    if not stores.agents(path):
        raise errors.InvalidArgument("the directory is neither a backup nor a data directory with a memory in it")
    return _data_directory(path, secret, clock, progress)


def _backup(path: Path, secret: Secret | None, clock: Clock, progress: Progress | None) -> VerifyReport:
    started = clock.monotonic()
    manifest = manifests.read(path)
    require_key(path, manifest, secret)
    problems: list[str] = []
    done = 0

    def heard(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress("reading", min(done, manifest.bytes), manifest.bytes)

    sound = set()
    for entry in manifest.files:
        try:
            if files.digest(path, entry.name, entry.bytes, heard) != (entry.bytes, entry.sha256):
                raise errors.BackupInvalid(f"{entry.name} is not what it was when the backup was made")
            sound.add(entry.name)
        except errors.BackupInvalid as error:
            problems.append(error.message)
    strange = islice(_foreign(path, manifest), limits.REPORTED_PROBLEMS_MAX)
    problems += [f"{name} does not belong to the backup" for name in strange]
    keys = {paths.SESSION_KEY_FILE, paths.KEYRING_FILE} & {entry.name for entry in manifest.files}
    found = []
    if keys <= sound:  # without its keys nothing can be said of a store but that it is the same
        key = files.read_small(path, paths.SESSION_KEY_FILE, limits.SESSION_KEY_BYTES)
        if session_key.fingerprint(key) != manifest.session_key:
            problems.append("session.key is not the one that the manifest names")
        for number, copy in enumerate(manifest.agents):
            if progress is not None:
                progress("checking", number, len(manifest.agents))
            if manifests.store_name(copy.directory) in sound:
                try:
                    found.append(check_copy(path, copy, key, secret, clock))
                except (errors.StoreDamaged, errors.SchemaTooNew) as error:
                    problems.append(f"{copy.directory}: {error.message}")
    return VerifyReport(
        "damaged" if problems else "ok", str(path), "backup", manifest.created_at, manifest.encrypted,
        manifest.key_ids, tuple(found), len(manifest.files) + 1, manifest.bytes,
        round(clock.monotonic() - started, 3), tuple(problems),
    )  # fmt: skip


def require_key(path: Path, manifest: Manifest, secret: Secret | None) -> None:
    """Ask for the key of an encrypted backup before anything else is looked at: without it nothing can be said.

    Raises ``EncryptionKeyRequired``, ``EncryptionKeyWrong``, ``InvalidConfiguration`` for one that cannot be read.
    """
    if not manifest.encrypted:
        return
    if secret is None:
        raise errors.EncryptionKeyRequired(
            "the backup is encrypted and no key is configured",
            hint="Set encryption_key_env, encryption_key_file or encryption_key_command to the key of that time.",
        )
    try:
        ring = keyring_file.load(path)
        if ring is not None:
            keyring.unlock(ring, secret.read())
    except errors.KeyringDamaged:
        pass  # it is told with the other files that are not what they were


def check_copy(root: Path, copy: AgentCopy, key: bytes, secret: Secret | None, clock: Clock) -> AgentCopy:
    """Look into one store of a backup, or of its copy, that nobody writes. Raises ``StoreDamaged``, also when it holds
    other rows than the manifest says, ``SchemaTooNew`` and the errors of keys."""
    folder = root / paths.AGENTS_DIRECTORY / copy.directory
    # a key that is configured for other memories says nothing against a backup in clear
    needed = secret if (root / paths.KEYRING_FILE).exists() else None
    file_key = unlocking.look(root, folder, needed).file_key(key, clock, write=False)
    with copying.finished(folder / paths.STORE_FILE, file_key) as connection:
        found = checking.look(connection, copy.directory, key)
    if found.counts != copy.counts or found.schema != copy.schema:
        raise errors.StoreDamaged("the store has other rows than the manifest says")
    return found


def _foreign(path: Path, manifest: Manifest) -> Iterator[str]:
    """What lies in a backup and is not named by its manifest: a log beside a store means that somebody opened it."""
    listed = {entry.name for entry in manifest.files} | {manifests.NAME}
    folders = {str(Path(name).parent) for name in listed} | {paths.AGENTS_DIRECTORY}
    for place, inner, names in os.walk(path):
        below = Path(place).relative_to(path)
        for name in sorted(names):
            if str(below / name) not in listed:
                yield str(below / name)
        for name in sorted(inner):
            if str(below / name) not in folders:
                yield str(below / name)
        inner[:] = [name for name in inner if str(below / name) in folders]


def _data_directory(path: Path, secret: Secret | None, clock: Clock, progress: Progress | None) -> VerifyReport:
    started = clock.monotonic()
    problems: list[str] = []
    found: list[AgentCopy] = []
    ids: set[str] = set()
    size = 0
    held = directory_lock.hold(path)
    try:
        key = session_key.load(path)
        names = stores.agents(path)
        for number, name in enumerate(names):
            if progress is not None:
                progress("checking", number, len(names))
            folder = path / paths.AGENTS_DIRECTORY / name
            file_key = unlocking.look(path, folder, secret).file_key(key, clock, write=False)
            if file_key is not None:
                ids.add(file_key.key_id)
            size += (folder / paths.STORE_FILE).stat().st_size
            try:
                with copying.opened(folder / paths.STORE_FILE, file_key) as connection:
                    found.append(checking.look(connection, name, key))
            except (errors.StoreDamaged, errors.SchemaTooNew, errors.StoreReadOnly) as error:
                problems.append(f"{name}: {error.message}")
    finally:
        held.close()
    return VerifyReport(
        "damaged" if problems else "ok", str(path), "data_directory", None, bool(ids), tuple(sorted(ids)),
        tuple(found), len(names), size, round(clock.monotonic() - started, 3), tuple(problems),
    )  # fmt: skip
