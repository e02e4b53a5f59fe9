"""Run by ``test_faulty_disk``: each write, sync or truncate of an operation fails in turn; prints what came of it.

It is a process of its own because a VFS becomes the default of a whole process. Writes to a WAL are the commits; writes
to a main file are checkpoints, whose failure SQLite itself ignores, but apsw raises what a VFS in Python raised: there
an error after the commit is this test's doing and says nothing.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import apsw

from memory_sqlite import Memory, errors
from memory_sqlite.config import Settings

BASE = apsw.vfs_names()[0]
ERROR = {"write": apsw.FullError, "sync": apsw.IOError, "truncate": apsw.IOError}
"""A kind of fault is one of these behind ``wal-`` or ``main-``."""


class Faults:
    """Fails the ``at``-th call of one kind; 0 fails none."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.at = 0
        self.count = 0

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
    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        super().__init__("faulty", BASE, makedefault=True)

    def xOpen(self, name: object, flags: list[int]) -> FaultyFile:
        return FaultyFile(self.faults, name, flags)


def turn(number: int) -> dict[str, object]:
    return {
        "session": "s",
        "run_id": f"r{number}",
        "messages": [
            {"role": "user", "content": f"I love pebble{number} very much."},
            {"role": "assistant", "content": f"Noted, pebble{number}."},
        ],
        "chat_type": "direct",
        "sender_is_owner": True,
    }


def main(data_dir: str, kind: str, operation: str, step: str) -> None:
    faults = Faults(kind)
    disk = FaultyDisk(faults)
    outcomes: list[list[object]] = []
    memory = Memory.open(settings=Settings(data_dir=Path(data_dir)))
    number = 0
    while True:
        number += 1
        at = 1 + (number - 1) * int(step)
        if operation == "checkpoint":
            memory.close()
            memory = Memory.open(settings=Settings(data_dir=Path(data_dir)))
        faults.count, faults.at = 0, at
        outcome = "ok"
        try:
            if operation == "rebuild":
                memory.index(full=True)
            elif operation == "checkpoint":
                memory.remember(**turn(number))  # type: ignore[arg-type]
                memory.close()
            else:
                receipt = memory.remember(**turn(number))  # type: ignore[arg-type]
                outcome = receipt.status if receipt.searchable else "stored, not searchable"
        except errors.MemorySqliteError as error:
            outcome = error.code
        except apsw.Error as error:
            outcome = f"raw {type(error).__name__}"
        reached = faults.count >= faults.at
        faults.at = 0
        if operation == "checkpoint":
            memory.close()
            memory = Memory.open(settings=Settings(data_dir=Path(data_dir)))
        again = memory.remember(**turn(number))  # type: ignore[arg-type]
        found = memory.search(f"pebble{number}", sources=("sessions",), max_results=2).hits
        counts = memory.status()
        outcomes.append(
            [
                outcome,
                again.status,
                again.searchable,
                sum(f"pebble{number}" in h.excerpt for h in found),
                counts["turns"],
                counts["messages"],
            ]
        )
        if not reached:
            break
    generation = memory.status()["index"]
    memory.close()
    del disk
    print(json.dumps({"outcomes": outcomes, "lag": generation["lag"], "generation": generation["generation"]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
