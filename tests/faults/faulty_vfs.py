"""A disk whose calls fail on demand, for the child processes of the fault tests: loaded by path with ``runpy``, because
they import nothing but what is installed.

A VFS becomes the default of a whole process, so it is never used in the process of the tests. Writes to a WAL are the
commits; writes to a main file are checkpoints, whose failure SQLite itself ignores, but apsw raises what a VFS in
Python raised: there an error after the commit is the test's doing and says nothing.
"""

from __future__ import annotations

import apsw

BASE = apsw.vfs_names()[0]
ERROR = {"write": apsw.FullError, "sync": apsw.IOError, "truncate": apsw.IOError}
KINDS = [f"{place}-{call}" for place in ("wal", "main") for call in ERROR]
"""A kind of fault is a call to a kind of file."""


class Faults:
    """Fails the ``at``-th call of one kind; 0 fails none."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.at = 0
        self.count = 0

    def arm(self, at: int) -> None:
        """From now on count, and fail that call."""
        self.count, self.at = 0, at

    def disarm(self) -> tuple[int, bool]:
        """Fail nothing more; how many calls there were, and whether one of them failed."""
        calls, reached = self.count, 0 < self.at <= self.count
        self.at = 0
        return calls, reached

    def check(self, kind: str) -> None:
        if kind != self.kind:
            return
        self.count += 1
        if self.count == self.at:
            raise ERROR[kind.split("-")[1]]("injected")


class FaultyFile(apsw.VFSFile):
    def __init__(self, faults: Faults, name: object, flags: list[int]) -> None:
        self.faults = faults
        self.place = "wal" if flags[0] & apsw.SQLITE_OPEN_WAL else "main"
        super().__init__(BASE, name, flags)

    def xLock(self, level: int) -> None:
        try:
            super().xLock(level)
        except apsw.IOError:
            # a reading connection that closes last asks for a lock it cannot have; SQLite shrugs, apsw would raise it
            raise apsw.BusyError from None

    def xWrite(self, data: bytes, offset: int) -> None:
        self.faults.check(f"{self.place}-write")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self.faults.check(f"{self.place}-sync")
        super().xSync(flags)

    def xTruncate(self, size: int) -> None:
        self.faults.check(f"{self.place}-truncate")
        super().xTruncate(size)


class FaultyDisk(apsw.VFS):
    """Keep it as long as connections are open."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        super().__init__("faulty", BASE, makedefault=True)

    def xOpen(self, name: object, flags: list[int]) -> FaultyFile:
        return FaultyFile(self.faults, name, flags)


def spread(calls: int, points: int) -> list[int]:
    """Up to ``points`` of the numbers from 1 to ``calls``: the first, the last, and those between."""
    wanted = min(calls, points)
    return sorted({1 + point * (calls - 1) // max(1, wanted - 1) for point in range(wanted)})
