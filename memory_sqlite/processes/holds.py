"""The generations a worker has open. The open connection is the hold: as long as it is open the file is not retired.

A connection is kept between requests with its caches and closed when the worker is told to let go, when another file
has taken the path's place, when a newer generation of the same agent is asked for, when it was not used for long, or
when too many are open. Opened read-only and never otherwise. Called by ``workers.retrieval``.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import apsw

from memory_sqlite import errors, paths
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.limits import WORKER_HOLDS_MAX, WORKER_IDLE_S
from memory_sqlite.processes.frames import WireError
from memory_sqlite.processes.gone import Gone
from memory_sqlite.storage.connection import open_index_reader
from memory_sqlite.storage.failures import translated_index
from memory_sqlite.values import dataclass

_LOST_RACE = (apsw.BusyError, apsw.LockedError, apsw.CantOpenError)
"""What a reader gets that opens a file while it is being retired; also ``SQLITE_IOERR_FSTAT``."""


@dataclass
class Hold:
    """One open generation. Device and inode tell whether the path still is the file that was opened."""

    connection: apsw.Connection
    number: int
    device: int
    inode: int
    used_at: float


class Holds:
    """Open generations by path, the one used last at the end. Used by one thread."""

    def __init__(
        self,
        opener: Callable[[Path, FileKey | None], apsw.Connection] = open_index_reader,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._opener = opener
        self._clock = clock
        self.key: FileKey | None = None
        """Opens the files; the parent tells it first."""
        self._open: OrderedDict[str, Hold] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def connection(self, path: str, number: int) -> apsw.Connection:
        """The connection to a generation. Raises ``Gone``, ``IndexUnavailable``, ``WireError`` for another file."""
        place = Path(path)
        if not place.is_absolute() or paths.generation_number(place.name) != number:
            raise WireError("the path is not the generation's")
        try:
            seen = place.stat()
        except (FileNotFoundError, NotADirectoryError):
            self.let_go(path)
            raise Gone from None
        hold = self._open.get(path)
        if hold is not None and (hold.device, hold.inode) != (seen.st_dev, seen.st_ino):
            self.let_go(path)
            hold = None
        if hold is None:
            hold = self._take(place, number, seen)
            self._open[path] = hold
        hold.used_at = self._clock()
        self._open.move_to_end(path)
        return hold.connection

    def _take(self, path: Path, number: int, seen: os.stat_result) -> Hold:
        older = [p for p, hold in self._open.items() if Path(p).parent == path.parent and hold.number < number]
        for other in older:  # its agent has moved on
            self.let_go(other)
        while len(self._open) >= WORKER_HOLDS_MAX:
            self.let_go(next(iter(self._open)))
        connection = None
        try:
            connection = self._opener(path, self.key)
            with translated_index():
                # the hold begins with the first read
                connection.execute("SELECT value FROM meta WHERE key = 'format'").fetchall()
            if not os.path.samestat(seen, path.stat()):
                raise Gone  # another file took its place while it was opened
            return Hold(connection, number, seen.st_dev, seen.st_ino, self._clock())
        except BaseException as error:
            if connection is not None:
                connection.close()
            if isinstance(error, apsw.SQLError):
                raise errors.IndexUnavailable("the search index has no tables") from error
            if _is_lost_race(error) or (isinstance(error, errors.MemorySqliteError) and not path.exists()):
                raise Gone from error
            raise

    def let_go(self, path: str) -> bool:
        """Close a generation; whether it was open."""
        hold = self._open.pop(path, None)
        if hold is not None:
            hold.connection.close()
        return hold is not None

    def let_go_idle(self) -> None:
        """Close what was not used for ``WORKER_IDLE_S``."""
        oldest = self._clock() - WORKER_IDLE_S
        for path in [path for path, hold in self._open.items() if hold.used_at <= oldest]:
            self.let_go(path)

    def close(self) -> None:
        """Close everything."""
        for path in list(self._open):
            self.let_go(path)


def _is_lost_race(error: BaseException | None) -> bool:
    """Whether SQLite's own word, however often it was translated since, is one of those."""
    while error is not None:
        if isinstance(error, (FileNotFoundError, *_LOST_RACE)):
            return True
        if isinstance(error, apsw.IOError) and getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_FSTAT:
            return True
        error = error.__cause__
    return False
