"""SQLite's errors in the words of the catalogue. Who calls it: every place that opens or writes a database."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import apsw

from memory_sqlite import errors

_SHARED_MEMORY: Final = (apsw.SQLITE_IOERR_SHMOPEN, apsw.SQLITE_IOERR_SHMMAP, apsw.SQLITE_IOERR_SHMLOCK)
"""A mount that opens files and cannot map or lock the log's index: it is whole, and cannot be used from there."""


def is_full(error: OSError) -> bool:
    """Whether the system refused a write for want of room: on the disk, in a quota, or below a file size limit."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn SQLite's errors about the file itself into typed ones; ``what`` names the file's role, never its content.

    Errors that say our own SQL is wrong stay what they are: they are defects, not conditions.
    """
    try:
        yield
    except (apsw.BusyError, apsw.LockedError) as error:
        raise errors.StoreBusy(f"{what} is locked by another process") from error
    except (apsw.ReadOnlyError, apsw.PermissionsError) as error:
        raise errors.StoreReadOnly(f"{what} cannot be written") from error
    except apsw.FullError as error:
        raise errors.DiskFull(f"the disk is full; {what} was left as it was") from error
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise errors.StoreDamaged(f"{what} is damaged or not a database") from error
    except apsw.CantOpenError as error:
        raise errors.StoreReadOnly(f"{what} cannot be opened") from error
    except apsw.IOError as error:
        if getattr(error, "extendedresult", 0) in _SHARED_MEMORY:
            raise errors.FileSystemUnsuitable(
                f"{what} is on a file system without the shared memory that a write-ahead log needs"
            ) from error
        if getattr(error, "extendedresult", 0) in (apsw.SQLITE_IOERR_WRITE, apsw.SQLITE_IOERR_SHMSIZE):
            # only ENOSPC becomes FullError: a quota and a file size limit arrive as a failed write
            raise errors.DiskFull(f"{what} could not be written further; it was left as it was") from error
        raise errors.StoreDamaged(f"{what} could not be read or written ({type(error).__name__})") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        # what we wrote was text and JSON: a bit was turned in a file without a check of its pages
        raise errors.StoreDamaged(f"{what} holds a value that is not what was written") from error
    except apsw.InterruptError as error:
        raise errors.Cancelled("the operation was cancelled") from error


@contextmanager
def translated_index() -> Iterator[None]:
    """As ``translated``, for a generation: one that cannot be read is no loss of memory, it is built again."""
    try:
        with translated("the search index"):
            yield
    except errors.StoreDamaged as error:
        raise errors.IndexUnavailable("the search index is damaged") from error
    except errors.StoreReadOnly as error:
        if isinstance(error.__cause__, apsw.CantOpenError):
            raise errors.IndexUnavailable("the search index cannot be opened") from error
        raise
