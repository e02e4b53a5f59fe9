"""Run by ``test_forget_faults``: each write, sync or truncate of a forgetting fails in turn; prints what came of it.

A process of its own, because a VFS becomes the default of a whole process. After each fault the memory is opened again,
which goes on with what was begun, and the same forgetting is asked for once more.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import apsw

from memory_sqlite import Memory, errors
from memory_sqlite.config import Settings
from memory_sqlite.doctor import verify
from memory_sqlite.paths import agent_directory

BASE = apsw.vfs_names()[0]
ERROR = {"write": apsw.FullError, "sync": apsw.IOError, "truncate": apsw.IOError}
_TURNS = 4


class Faults:
    """Fails the ``at``-th call of one kind; 0 fails none."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.at = 0
        self.count = 0

    def check(self, kind: str) -> None:
        if kind != self.kind or not self.at:
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


def fill(memory: Memory, number: int) -> None:
    for turn in range(_TURNS):
        text = f"I love pebble{number}stone number {turn}."
        memory.remember(
            session=f"s{number}",
            chat_type="direct",
            sender_is_owner=True,
            messages=[{"role": "user", "content": text}, {"role": "assistant", "content": f"Noted: {text}"}],
        )


def attempt(memory: Memory, number: int) -> str:
    try:
        return memory.forget(sessions=[f"s{number}"]).status
    except errors.MemorySqliteError as error:
        return error.code
    except apsw.Error as error:
        return f"raw {type(error).__name__}"


def told(memory: Memory, number: int) -> int:
    """How many messages of that session can be found and read."""
    hits = memory.search(f"pebble{number}stone", max_results=50, sources=("sessions",)).hits
    return sum(f"pebble{number}stone" in hit.excerpt for hit in hits)


def main(data_dir: str, kind: str, step: str) -> None:
    faults = Faults(kind)
    disk = FaultyDisk(faults)
    settings = Settings(data_dir=Path(data_dir))
    outcomes: list[list[object]] = []
    memory = Memory.open(settings=settings)
    fill(memory, 0)  # stays
    number, reached = 0, True
    while reached:
        number += 1
        fill(memory, number)
        faults.count, faults.at = 0, 1 + (number - 1) * int(step)
        outcome = attempt(memory, number)
        reached = faults.count >= faults.at
        faults.at = 0
        try:
            memory.close()
        except apsw.Error as error:
            outcome += f" (close: {type(error).__name__})"
        memory = Memory.open(settings=settings)
        after = told(memory, number)
        again = attempt(memory, number)
        outcomes.append([outcome, after, again, told(memory, number), told(memory, 0)])
    memory.close()
    findings = [finding.code for finding in verify(agent_directory(Path(data_dir), "main"))]
    del disk
    print(json.dumps({"outcomes": outcomes, "findings": findings}))


if __name__ == "__main__":
    main(*sys.argv[1:])
