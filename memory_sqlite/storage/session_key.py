"""``session.key``: 32 random bytes under which session keys become tokens. Made once, never silently made anew."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path

from memory_sqlite import errors, limits, paths
from memory_sqlite.clock import Clock


def _read(path: Path) -> bytes | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise errors.SessionKeyInvalid(f"session.key cannot be read ({error.strerror})") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise errors.SessionKeyInvalid("session.key is not a regular file")
        content = os.read(descriptor, limits.SESSION_KEY_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(content) != limits.SESSION_KEY_BYTES:
        raise errors.SessionKeyInvalid(f"session.key must hold exactly {limits.SESSION_KEY_BYTES} bytes")
    return content


def _agents_exist(data_dir: Path) -> bool:
    agents = data_dir / paths.AGENTS_DIRECTORY
    try:
        return any((entry / paths.STORE_FILE).exists() for entry in agents.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return False


def load(data_dir: Path) -> bytes:
    """The key of an existing data directory. Raises ``SessionKeyMissing`` or ``SessionKeyInvalid``."""
    key = _read(data_dir / paths.SESSION_KEY_FILE)
    if key is None:
        raise errors.SessionKeyMissing("session.key is missing from the data directory")
    return key


def load_or_create(data_dir: Path, clock: Clock) -> bytes:
    """The key, made on first use. Written whole under another name and linked into place, so that a crash while it is
    made leaves no short key behind, and of two processes one wins and both use its key.

    Raises ``SessionKeyMissing`` when stores exist but the key does not, ``SessionKeyInvalid`` for anything unusable.
    """
    path = data_dir / paths.SESSION_KEY_FILE
    key = _read(path)
    if key is not None:
        return key
    if _agents_exist(data_dir):
        # re-read: another process may have made key and store between our two looks
        key = _read(path)
        if key is not None:
            return key
        raise errors.SessionKeyMissing("session.key is missing although agents exist in this data directory")
    _place(path, clock.token_bytes(limits.SESSION_KEY_BYTES), clock)
    return load(data_dir)


def adopt(data_dir: Path, key: bytes, clock: Clock) -> None:
    """Make ``key`` the key of a data directory that has none and no agents; the same key again changes nothing.

    Raises ``SessionKeyChanged`` when the directory has another, ``SessionKeyMissing`` when its own is lost,
    ``SessionKeyInvalid`` for a key of another length.
    """
    if len(key) != limits.SESSION_KEY_BYTES:
        raise errors.SessionKeyInvalid(f"a session key must hold exactly {limits.SESSION_KEY_BYTES} bytes")
    path = data_dir / paths.SESSION_KEY_FILE
    if _read(path) is None:
        if _agents_exist(data_dir):
            raise errors.SessionKeyMissing("session.key is missing although agents exist in this data directory")
        _place(path, key, clock)
    if load(data_dir) != key:
        raise errors.SessionKeyChanged(
            "this data directory already has another session.key",
            hint="Pass --data-dir with a new directory, so that session tokens stay what they were.",
        )


def _place(path: Path, content: bytes, clock: Clock) -> None:
    """Write the key whole under another name and link it into place; a key that is already there stays."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{clock.token_bytes(6).hex()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            written = os.write(descriptor, content)
            if written != len(content):  # the last bytes of a disk: a short key must never be linked
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        try:
            os.link(temporary, path)
        except FileExistsError:
            pass  # the other process won: its key is the key
    finally:
        temporary.unlink(missing_ok=True)
    sync_directory(path.parent)


def fingerprint(key: bytes) -> str:
    """What a store keeps of the key: enough to tell another key, too little to make a token."""
    return hashlib.sha256(b"memory-sqlite session key\0" + key).hexdigest()[:32]


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
