"""Which key a data directory and an agent's files need, told apart before the first byte is written.

Every state and every mismatch has its own error. Not here: changing keys (``rekeying``), the keyring's format
(``crypto.keyring``). Called by ``storage.store``, by ``doctor`` and by ``rekeying``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import apsw

from memory_sqlite import errors, paths
from memory_sqlite.clock import Clock
from memory_sqlite.crypto import derivation, directory_lock, keyring, keyring_file
from memory_sqlite.crypto.directory_lock import Hold
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.crypto.keyring import Change, Unlocked
from memory_sqlite.crypto.secret import Secret
from memory_sqlite.storage import connection as connections
from memory_sqlite.storage import headers, reencryption, session_key
from memory_sqlite.storage.failures import translated

_OWN_ROWS: Final = ("store_info", "generations", "sqlite_sequence", "sqlite_schema", "sqlite_stat1", "sqlite_stat4")
"""Tables whose rows say nothing that anybody said; a store with rows in no other table is empty."""


class Unlocking:
    """What was found out about a directory's keys; ``file_key`` gives the agent's."""

    def __init__(self, data_dir: Path, directory: Path, secret: Secret | None, unlocked: Unlocked | None) -> None:
        self._data_dir = data_dir
        self._directory = directory
        self._secret = secret
        self.unlocked: Final = unlocked
        """The opened keyring, ``None`` for a directory in clear and for one that has no files yet."""

    def file_key(self, key: bytes, clock: Clock, *, write: bool, hold: Hold | None = None) -> FileKey | None:
        """The key of the agent's files, ``None`` for files in clear; ``key`` is that of session tokens.

        With ``write`` a directory that holds nothing yet gets its keyring, and stores in clear that hold nothing become
        encrypted; ``hold`` is the caller's own hold of the directory, which must be alone for that.
        Raises ``KeyringDamaged``, ``StoreDamaged``, ``DirectoryInUse``, ``DiskFull``, ``StoreReadOnly``.
        """
        unlocked = self.unlocked
        if unlocked is None:
            if self._secret is None or not write:
                return None
            unlocked = _begin(self._data_dir, self._secret, key, clock, hold)
        if unlocked.ring.session_key != derivation.fingerprint(key):
            raise errors.KeyringDamaged("keyring.json was made for another data directory than this session.key")
        return self._fitting(unlocked)

    def _fitting(self, unlocked: Unlocked) -> FileKey | None:
        ring, path = unlocked.ring, self._directory / paths.STORE_FILE
        if headers.kind(path) in ("absent", "empty"):
            self._refuse_older_keyring(unlocked)
            wanted = ring.current if ring.change is None else ring.change.target
            return key_of(unlocked, wanted, self._directory)
        found = which(unlocked, self._directory)
        if not isinstance(found, str):
            return found
        if found == "index":
            raise errors.StoreDamaged("the store is damaged, or was encrypted with a key that is not in keyring.json")
        raise errors.KeyringDamaged(
            "keyring.json does not hold the key of this agent's store, or the store's first page is damaged",
            hint="Put keyring.json back from the newest backup; `memory-sqlite doctor` says more.",
        )

    def _refuse_older_keyring(self, unlocked: Unlocked) -> None:
        """A new agent is not begun with keys that open none of the others' stores: those of a keyring from before a
        rotation, put back."""
        others = [
            directory
            for directory in agent_directories(self._data_dir)
            if headers.kind(directory / paths.STORE_FILE) == "encrypted"
        ]
        if others and not any(_may_open(unlocked, directory) for directory in others):
            raise errors.KeyringDamaged(
                "keyring.json holds the key of none of the stores that are there, so nothing new is made with it",
                hint="Put keyring.json back from the newest backup; `memory-sqlite doctor` says more.",
            )


def key_of(unlocked: Unlocked, key_id: str | None, directory: Path) -> FileKey | None:
    """An agent's key from the data key of that id; ``None`` for ``None``, which stands for files in clear."""
    return None if key_id is None else unlocked.file_key(key_id, directory.name)


def which(unlocked: Unlocked, directory: Path) -> FileKey | str | None:
    """Which of the keys an agent's store has now, ``None`` for none: found by trying (0.2 ms each).

    ``"index"`` when only a generation can be read, ``"nothing"`` when nothing can.
    """
    path = directory / paths.STORE_FILE
    for candidate in candidates(unlocked, directory):
        with translated("the store"):
            if reencryption.fits(path, candidate):
                return candidate
    for candidate in candidates(unlocked, directory):
        for index in generation_files(directory):
            try:
                if reencryption.fits(index, candidate):
                    return "index"
            except apsw.Error:
                continue
    return "nothing"


def _may_open(unlocked: Unlocked, directory: Path) -> bool:
    """Whether one of the keys opens an agent's files, also when nobody can say, as of another user's."""
    try:
        return which(unlocked, directory) != "nothing"
    except errors.MemorySqliteError:
        return True


def candidates(unlocked: Unlocked, directory: Path) -> list[FileKey | None]:
    """The keys that an agent's files may have, the most likely first. In clear only while a change says so."""
    ring = unlocked.ring
    ids: list[str | None] = [ring.current]
    if ring.change is not None:
        ids = [ring.change.target, ring.change.source, *(one.id for one in ring.keys)]
        if may_be_clear(ring.change):
            ids.append(None)
    return [key_of(unlocked, key_id, directory) for key_id in dict.fromkeys(ids)]


def may_be_clear(change: Change | None) -> bool:
    """Whether files in clear belong to a directory with a keyring: not in a rotation, where one was put there.

    From a key to itself is how a mixed directory becomes encrypted.
    """
    return change is not None and (None in (change.source, change.target) or change.source == change.target)


def look(data_dir: Path, agent_directory: Path, secret: Secret | None) -> Unlocking:
    """Find out what is there and whether ``secret`` opens it; makes nothing.

    Raises ``EncryptionKeyRequired``, ``EncryptionKeyWrong``, ``StoreNotEncrypted``, ``KeyringMissing``,
    ``KeyringDamaged``, ``EncryptionMixed``; ``InvalidConfiguration`` for a key that cannot be read.
    """
    ring = keyring_file.load(data_dir)
    if ring is None:
        if secret is not None:
            secret.read()  # one that cannot be read is told before anything is made
        # the common case costs nothing for other agents (40 us each): one in clear that is there opens as it did
        if secret is not None or headers.kind(agent_directory / paths.STORE_FILE) != "plain":
            _refuse_without_keyring(data_dir, secret)
        return Unlocking(data_dir, agent_directory, secret, None)
    if secret is None:
        raise errors.EncryptionKeyRequired(
            "encryption key validation failed: the data directory is encrypted and no key is configured"
        )
    try:
        own = session_key.load(data_dir)
    except (errors.SessionKeyMissing, errors.SessionKeyInvalid):
        own = None  # its own error comes from whoever needs it
    if own is not None and ring.session_key != derivation.fingerprint(own):
        raise errors.KeyringDamaged("keyring.json was made for another data directory than this session.key")
    unlocked = keyring.unlock(ring, secret.read())
    if not may_be_clear(ring.change):
        clear = [name for name, path in files(data_dir) if headers.kind(path) == "plain"]
        if clear:
            raise errors.EncryptionMixed(
                f"the data directory is encrypted, but {len(clear)} of its files are in clear (the first is {clear[0]})"
            )
    return Unlocking(data_dir, agent_directory, secret, unlocked)


def _refuse_without_keyring(data_dir: Path, secret: Secret | None) -> None:
    for name, path in files(data_dir):
        kind = headers.kind(path)
        if kind == "encrypted":
            raise errors.KeyringMissing(f"{name} is encrypted, or no database, and keyring.json is not there")
        if secret is not None and kind == "plain" and not _is_empty(path):
            raise errors.StoreNotEncrypted(
                f"encryption key validation failed: a key is configured, but {name} is in clear"
            )


def files(data_dir: Path) -> Iterator[tuple[str, Path]]:
    """Every store and generation of a data directory, with its name below it; stores first."""
    for directory in agent_directories(data_dir):
        for path in (directory / paths.STORE_FILE, *generation_files(directory)):
            yield f"{paths.AGENTS_DIRECTORY}/{directory.name}/{path.name}", path


def agent_directories(data_dir: Path) -> list[Path]:
    """The directories that may hold an agent's files."""
    try:
        with os.scandir(data_dir / paths.AGENTS_DIRECTORY) as entries:
            return sorted(Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []


def generation_files(directory: Path) -> list[Path]:
    """The files of an agent's generations, those that no store knows too."""
    try:
        with os.scandir(directory) as entries:
            return sorted(
                Path(entry.path)
                for entry in entries
                if paths.generation_number(entry.name) is not None and entry.is_file(follow_symlinks=False)
            )
    except (FileNotFoundError, PermissionError):
        return []


def _is_empty(path: Path) -> bool:
    """Whether a file in clear holds nothing that was said: then it may become encrypted without being asked.

    Of generations only vectors count, for they may have cost money; the rest is made again from the notes.
    """
    connection = connections.open_trial(path)
    try:
        with translated("the store"):
            tables = [
                str(name)
                for (name,) in connection.execute(
                    "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
                ).fetchall()
                if name not in _OWN_ROWS
            ]
            if path.name != paths.STORE_FILE:
                tables = [name for name in tables if name == "vectors"]
            return not any(connection.execute(f'SELECT EXISTS (SELECT 1 FROM "{name}")').get for name in tables)
    finally:
        connection.close()


def _begin(data_dir: Path, secret: Secret, key: bytes, clock: Clock, hold: Hold | None) -> Unlocked:
    """The keyring of a directory that has none: made for what comes, after what is there has become encrypted."""
    bare, key_id = keyring.create(
        derivation.fingerprint(key), secret.read(), passphrase=secret.passphrase, random=clock.token_bytes
    ).with_new_key(secret.cipher, clock.token_bytes)
    if not any(headers.kind(path) == "plain" for _, path in files(data_dir)):
        keyring_file.place(data_dir, bare.changed(key_id, None).ring, clock.token_bytes, new=True)
        return _placed(data_dir, secret)
    lock = hold if hold is not None else directory_lock.hold(data_dir)
    try:
        lock.take_alone()
        if keyring_file.load(data_dir) is not None:  # another process has done it while this one waited
            return _placed(data_dir, secret)
        _refuse_without_keyring(data_dir, secret)  # nor has anything been said since
        begun = bare.changed(None, Change(None, key_id))
        keyring_file.place(data_dir, begun.ring, clock.token_bytes, new=True)
        for directory in agent_directories(data_dir):
            _encrypt_empty(directory, begun.file_key(key_id, directory.name))
        keyring_file.place(data_dir, begun.changed(key_id, None).ring, clock.token_bytes)
        lock.share()
    finally:
        if hold is None:
            lock.close()
    return _placed(data_dir, secret)


def _placed(data_dir: Path, secret: Secret) -> Unlocked:
    """The keyring that is there: of two processes one was faster, and both use its own."""
    ring = keyring_file.load(data_dir)
    if ring is None:
        raise errors.KeyringMissing("keyring.json went while it was being made")
    return keyring.unlock(ring, secret.read())


def _encrypt_empty(directory: Path, key: FileKey) -> None:
    """A store that holds nothing, encrypted; its generations are made anew."""
    path = directory / paths.STORE_FILE
    if headers.kind(path) == "plain":
        copied = reencryption.beside(path)
        with reencryption.alone(path, None) as source, translated("the copy"):
            reencryption.copy(source, copied, key)
            with reencryption.copied(copied, key) as target:
                reencryption.verify(reencryption.digests(source), target)
                target.execute("DELETE FROM generations").fetchall()
            reencryption.finish(copied)
            reencryption.put_in_place(copied, path)
    for index in generation_files(directory):
        reencryption.erase(index)


def is_current(data_dir: Path, key: FileKey | None) -> bool:
    """Whether files of a directory may still have this key: ``False`` after an encryption, decryption or rotation."""
    try:
        ring = keyring_file.load(data_dir)
    except errors.KeyringDamaged:
        return True  # that is another trouble
    if ring is None:
        return key is None
    if key is None:
        return ring.change is not None
    return any(one.id == key.key_id for one in ring.keys)


@contextmanager
def noticing_changes(path: Path, key: FileKey | None) -> Iterator[None]:
    """For opening a store once more that was opened with ``key`` before: ``KeyChanged`` when it has another one now,
    else the store's errors."""
    with translated("the store"):
        try:
            yield
        except apsw.NotADBError:
            if is_current(path.parent.parent.parent, key):
                raise
            raise errors.KeyChanged("the data directory was given another key since this process opened it") from None
