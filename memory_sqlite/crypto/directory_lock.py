"""The lock of a data directory: many have it open, or one has it alone to change its keys.

``flock`` on a descriptor of the directory itself: no file is made, read-only media have it too, and it ends with its
process. Not to be confused with the claim on an agent's directory (``indexing.vector_claim``). Called by
``storage.store``, which holds it as long as a store is open, and by whatever needs the directory alone.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path
from typing import Final

from memory_sqlite import errors

_POLL_S: Final = 0.05
_WITHOUT: Final = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
"""File systems without such locks: opening is not refused for it, ``doctor`` tells."""


class Hold:
    """A lock until ``close``; safe to close twice."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def close(self) -> None:
        """Let go."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _lock(data_dir: Path, how: int, wait_s: float, refused: str) -> Hold:
    try:
        descriptor = os.open(data_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise errors.StoreReadOnly(f"the data directory cannot be opened ({error.strerror})") from error
    until = time.monotonic() + wait_s
    try:
        while True:
            try:
                fcntl.flock(descriptor, how | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise errors.DirectoryInUse(refused) from None
                time.sleep(_POLL_S)
            except OSError as error:
                if error.errno not in _WITHOUT:
                    raise errors.StoreReadOnly(f"the data directory cannot be locked ({error.strerror})") from error
                return Hold(descriptor)
            else:
                return Hold(descriptor)
    except BaseException:
        os.close(descriptor)
        raise


def hold(data_dir: Path, wait_s: float = 10.0) -> Hold:
    """Have the directory open beside others. Raises ``DirectoryInUse`` while its keys are being changed for longer than
    ``wait_s`` seconds, ``StoreReadOnly`` when it cannot be opened."""
    return _lock(data_dir, fcntl.LOCK_SH, wait_s, "the keys of this data directory are being changed")


def alone(data_dir: Path, wait_s: float = 0.0) -> Hold:
    """Have the directory alone. Raises ``DirectoryInUse`` when others still have it open after ``wait_s`` seconds."""
    return _lock(data_dir, fcntl.LOCK_EX, wait_s, "another process has this data directory open")
