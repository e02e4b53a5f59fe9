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
_IN_USE: Final = "somebody else has this data directory open"


class Hold:
    """A lock until ``close``; safe to close twice."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def take_alone(self, wait_s: float = 0.0) -> None:
        """From having it beside others to having it alone. Others may have had it in between: look again.

        Raises ``DirectoryInUse`` when others have it open; this hold is gone then, too.
        """
        try:
            _flock(self._descriptor, fcntl.LOCK_EX, wait_s, _IN_USE)
        except BaseException:
            self.close()
            raise

    def share(self) -> None:
        """From having it alone to having it beside others."""
        _flock(self._descriptor, fcntl.LOCK_SH, 0.0, _IN_USE)

    def close(self) -> None:
        """Let go."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_UN)  # a forked copy of the descriptor would keep it
            except OSError:
                pass  # a file system without such locks
            finally:
                os.close(descriptor)


def _flock(descriptor: int, how: int, wait_s: float, refused: str) -> bool:
    """Lock it, waiting so long; ``False`` on a file system without such locks."""
    until = time.monotonic() + wait_s
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
            return False
        else:
            return True


def _lock(data_dir: Path, how: int, wait_s: float, refused: str) -> tuple[Hold, bool]:
    try:
        descriptor = os.open(data_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise errors.StoreReadOnly(f"the data directory cannot be opened ({error.strerror})") from error
    try:
        return Hold(descriptor), _flock(descriptor, how, wait_s, refused)
    except BaseException:
        os.close(descriptor)
        raise


def hold(data_dir: Path, wait_s: float = 10.0) -> Hold:
    """Have the directory open beside others. Raises ``DirectoryInUse`` while its keys are being changed for longer than
    ``wait_s`` seconds, ``StoreReadOnly`` when it cannot be opened."""
    return _lock(data_dir, fcntl.LOCK_SH, wait_s, "the keys of this data directory are being changed")[0]


def alone(data_dir: Path, wait_s: float = 0.0) -> Hold:
    """Have the directory alone. Raises ``DirectoryInUse`` when others still have it open after ``wait_s`` seconds, and
    ``FileSystemUnsuitable`` where nobody can tell."""
    found, locked = _lock(data_dir, fcntl.LOCK_EX, wait_s, _IN_USE)
    if not locked:
        found.close()
        raise errors.FileSystemUnsuitable(
            "the data directory is on a file system without locks, so nobody can tell who has it open",
            hint="Copy it to a local disk while nobody uses it, and do it there.",
        )
    return found
