"""The file ``keyring.json``: read bounded and without following links, written whole or not at all.

Not here: what it says (``keyring``).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

from memory_sqlite import errors, limits, paths
from memory_sqlite.crypto import keyring
from memory_sqlite.crypto.keyring import Keyring


def load(data_dir: Path) -> Keyring | None:
    """The keyring of a data directory, or of a backup; ``None`` where there is none. Raises ``KeyringDamaged``."""
    path = data_dir / paths.KEYRING_FILE
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise errors.KeyringDamaged(f"keyring.json cannot be read ({error.strerror})") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise errors.KeyringDamaged("keyring.json is not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            content = stream.read(limits.KEYRING_MAX_BYTES + 1)
    except OSError as error:
        raise errors.KeyringDamaged(f"keyring.json cannot be read ({error.strerror})") from error
    finally:
        os.close(descriptor)
    if len(content) > limits.KEYRING_MAX_BYTES:
        raise errors.KeyringDamaged("keyring.json is larger than any keyring")
    return keyring.decode(content)


def place(data_dir: Path, ring: Keyring, random: Callable[[int], bytes], *, new: bool = False) -> None:
    """Write it beside, sync it, rename it over; on disk when this returns. ``new`` leaves one that is there alone.

    Raises ``DiskFull`` and ``StoreReadOnly``: then the file is what it was.
    """
    path = data_dir / paths.KEYRING_FILE
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{random(6).hex()}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(keyring.encode(ring))
                stream.flush()
                os.fsync(stream.fileno())
            if new:
                try:
                    os.link(temporary, path)
                except FileExistsError:
                    pass  # the other process was faster: its keyring is the keyring
            else:
                temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_directory(data_dir)
    except OSError as error:
        raise refused(error) from error


def sweep(data_dir: Path) -> None:
    """Take away what killed processes left of keyrings they were writing: each holds the data key under a key that its
    user never came to use. Only for who has the directory alone. Raises ``StoreReadOnly``."""
    try:
        for left in data_dir.glob(f".{paths.KEYRING_FILE}.*"):
            if left.is_file() and not left.is_symlink():
                left.unlink(missing_ok=True)
    except OSError as error:
        raise refused(error) from error


def remove(data_dir: Path) -> None:
    """Take it away, on disk when this returns. Raises ``StoreReadOnly``."""
    try:
        (data_dir / paths.KEYRING_FILE).unlink(missing_ok=True)
        sync_directory(data_dir)
    except OSError as error:
        raise refused(error) from error


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def refused(error: OSError) -> errors.MemorySqliteError:
    """What the system said, in the words of the catalogue."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return errors.DiskFull("the disk is full; keyring.json could not be written")
    return errors.StoreReadOnly(f"keyring.json cannot be written ({error.strerror})")
