"""Run by ``test_backup_faults``: backups and restores in a process whose disk fails, or that is killed, at one call.

child_backup_faults.py disk DATA WORK KIND     every call of SQLite of that kind fails in turn, in one process
child_backup_faults.py kill DATA WORK WHAT AT  killed at that step of a backup or a restore; AT 0 counts the steps
child_backup_faults.py full DATA WORK WHAT     no file may grow beyond 100 kB
"""

from __future__ import annotations

import json
import os
import resource
import runpy
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from memory_sqlite import errors, limits
from memory_sqlite.backup.making import make
from memory_sqlite.backup.restoring import restore
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings

DISK = runpy.run_path(str(Path(__file__).with_name("faulty_vfs.py")))
limits.BACKUP_STEP_PAGES = 20  # type: ignore[misc]


def outcome(work: Callable[[], Any]) -> str:
    try:
        return str(work().status)
    except errors.MemorySqliteError as error:
        return error.code
    except apsw.Error as error:
        return f"raw {type(error).__name__}"


def work(data: Path, place: Path, what: str, progress: Any = None) -> Callable[[], Any]:
    if what == "backup":
        return lambda: make(Settings(data_dir=data), place / "target", Clock(), progress)
    settings = Settings(data_dir=place / "target")
    return lambda: restore(place / "b", settings, Clock(), progress, tombstones_from=[data])


def disk(data: str, place: str, kind: str) -> None:
    faults = DISK["Faults"](kind)
    kept = DISK["FaultyDisk"](faults)
    found, at = [], 0
    reached = True
    while reached:
        at += 1
        target = Path(place) / str(at)
        target.mkdir()
        faults.arm(at)
        said = outcome(work(Path(data), target, "backup"))
        _, reached = faults.disarm()
        found.append([said, sorted(path.name for path in target.iterdir()), reached])
    del kept
    print(json.dumps(found))


def kill(data: str, place: str, what: str, at: str) -> None:
    """Killed before the step of that number: a call of the system, or a word about progress."""
    steps = 0

    def step(*said: Any) -> None:
        nonlocal steps
        steps += 1
        if steps == int(at):
            os.kill(os.getpid(), signal.SIGKILL)

    for name in ("open", "write", "fsync", "mkdir", "rename"):
        real = getattr(os, name)

        def stepped(*arguments: Any, _real: Any = real, **more: Any) -> Any:
            step()
            return _real(*arguments, **more)

        setattr(os, name, stepped)
    said = outcome(work(Path(data), Path(place), what, step))
    print(json.dumps({"outcome": said, "steps": steps}))


def full(data: str, place: str, what: str) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    print(json.dumps(outcome(work(Path(data), Path(place), what))))


if __name__ == "__main__":
    {"disk": disk, "kill": kill, "full": full}[sys.argv[1]](*sys.argv[2:])
