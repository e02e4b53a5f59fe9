"""Taking over the key of a layered-memory directory, so that session tokens, and with them citations, stay the same.

Called by the command line before the store is made, and by the importer to tell whether tokens stay. The directory
itself is only read.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from memory_sqlite import errors, limits
from memory_sqlite.clock import Clock
from memory_sqlite.interop.layered_files import KEY_FILE, is_layered_directory
from memory_sqlite.storage import session_key


def read_isolation_key(source: Path) -> bytes | None:
    """The 32 bytes of ``.isolation-key``; ``None`` where there is none (the oldest layouts had no tokens).

    Raises ``SessionKeyInvalid`` for anything that is not a plain file of 32 bytes.
    """
    try:
        descriptor = os.open(source / KEY_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise errors.SessionKeyInvalid(f"{KEY_FILE} cannot be read ({error.strerror})") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise errors.SessionKeyInvalid(f"{KEY_FILE} is not a regular file")
        key = os.read(descriptor, limits.SESSION_KEY_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(key) != limits.SESSION_KEY_BYTES:
        raise errors.SessionKeyInvalid(f"{KEY_FILE} must hold exactly {limits.SESSION_KEY_BYTES} bytes")
    return key


def unknown_source() -> errors.UnknownFormat:
    """The error for a directory that is not what the person thinks it is."""
    return errors.UnknownFormat(
        "the directory to import was not written by the layered-memory product",
        hint="Name the directory that holds .isolation-key and agents/.",
    )


def check_source(source: Path, data_dir: Path) -> bytes | None:
    """The source's key, if this data directory may be imported into; makes nothing.

    Raises ``UnknownFormat`` when the source is no layered-memory directory, ``LegacyLayout`` when the data directory
    lies in it, ``SessionKeyInvalid``.
    """
    if not is_layered_directory(source):
        raise unknown_source()
    if data_dir.resolve().is_relative_to(source.resolve()):
        raise errors.LegacyLayout("the data directory lies in the directory to import, which is never written")
    return read_isolation_key(source)


def adopt_session_key(source: Path, data_dir: Path, *, clock: Clock | None = None) -> None:
    """Make the source's key ``session.key`` of a data directory that has none yet; without a key there nothing happens.

    Raises as ``check_source``, ``SessionKeyChanged`` when the data directory already has another key, and the other
    session-key errors.
    """
    key = check_source(source, data_dir)
    if key is None:
        return
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        session_key.adopt(data_dir, key, clock or Clock())
    except OSError as error:
        raise errors.StoreReadOnly(f"session.key cannot be made ({error.strerror})") from error
