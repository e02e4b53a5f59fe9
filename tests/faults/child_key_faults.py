"""Key changes on a disk that fails, and killed in the middle: run by ``test_key_faults.py`` as a process of its own.

``child_key_faults.py PLACE ACTION MODE POINTS SEED`` with MODE ``disk`` (the n-th write, sync or truncation of SQLite
fails), ``system`` (the n-th fsync, rename, link, open or unlink fails) or ``kill`` (the process ends at the n-th of all
of these). Each run is on a copy of one directory; prints what came of each as JSON.
"""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

MARKER = b"marker-whiskey-55"
CALLS = 0
AT = 0
KILL = False
WHAT: set[str] = set()
REACHED = False


def call(kind: str) -> None:
    """One call to the disk."""
    global CALLS, REACHED
    if kind not in WHAT:
        return
    CALLS += 1
    if CALLS == AT:
        REACHED = True
        if KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "disk-write":
            raise apsw.FullError("injected")
        if kind.startswith("disk"):
            raise apsw.IOError("injected")
        raise OSError(errno.ENOSPC if kind == "system-open" else errno.EIO, "injected")


class File(apsw.VFSFile):
    def __init__(self, name: Any, flags: Any) -> None:
        super().__init__("unix", name, flags)

    def xLock(self, level: int) -> None:
        try:
            super().xLock(level)
        except apsw.IOError:
            raise apsw.BusyError from None  # a reading connection that closes last asks for a lock it cannot have

    def xWrite(self, data: bytes, offset: int) -> None:
        call("disk-write")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        call("disk-sync")
        super().xSync(flags)

    def xTruncate(self, size: int) -> None:
        call("disk-truncate")
        super().xTruncate(size)


class Disk(apsw.VFS):
    def __init__(self) -> None:
        super().__init__("faulty", "unix")

    def xOpen(self, name: Any, flags: Any) -> File:
        return File(name, flags)


DISK = Disk()
# encryption lies above the disk: so what fails and what is counted is what reaches the files
apsw.Connection(":memory:", vfs="multipleciphers-faulty").close()
apsw.set_default_vfs("multipleciphers-faulty")

from memory_sqlite import Memory, errors, rekeying  # noqa: E402
from memory_sqlite.config import Settings  # noqa: E402
from memory_sqlite.storage import headers, unlocking  # noqa: E402

assert headers._BASE_VFS == "faulty"


def failing(kind: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*arguments: Any, **more: Any) -> Any:
        call(kind)
        return real(*arguments, **more)

    return wrapper


def settings(data: Path, *, key: bool, agent: str = "main") -> Settings:
    return Settings(data_dir=data, agent=agent, encryption_key_env="THE_KEY" if key else None)


def fill(data: Path) -> None:
    for agent in ("main", "beta"):
        with Memory.open(settings=settings(data, key=False, agent=agent)) as memory:
            for turn in range(2):
                text = f"{MARKER.decode()} of {agent} is {turn}"
                memory.remember(session="s", run_id=f"r{turn}", messages=[{"role": "user", "content": text}])


def readable(data: Path) -> list[str]:
    """Files with the marker in clear; nothing of this process has them open."""
    return sorted(path.name for path in data.rglob("*") if path.is_file() and MARKER in path.read_bytes().lower())


def answers(data: Path, *, key: bool) -> list[list[Any]]:
    found = []
    for agent in ("main", "beta"):
        with Memory.open(settings=settings(data, key=key, agent=agent)) as memory:
            hits = memory.search(MARKER.decode()).hits
            found.append([agent, len(hits), hits[0].reference if hits else None])
            again = memory.remember(session="s", run_id="r1", messages=[{"role": "user", "content": "again"}])
            found[-1].append(again.status)
    return found


def outcome(data: Path, action: str) -> str:
    try:
        return str(getattr(rekeying, action)(settings(data, key=True)).status)
    except errors.MemorySqliteError as error:
        return error.code
    except apsw.Error as error:
        return f"raw {type(error).__name__}"
    except OSError as error:
        return f"raw {type(error).__name__}"


def checked(data: Path, action: str) -> dict[str, Any]:
    """After whatever came: everything opens, and the same command comes to its end."""
    with_key = (data / "keyring.json").exists()
    between = readable(data) if action == "rotate" else []  # from key to key nothing is ever in clear
    after = answers(data, key=with_key)
    ended = outcome(data, action)
    final_key = action != "decrypt"
    return {
        "between": between,
        "after": after,
        "ended": ended,
        "final": answers(data, key=final_key),
        "kinds": sorted({headers.kind(path) for _, path in unlocking.files(data)}),
        "readable": readable(data) if final_key else [],
        "keyring": (data / "keyring.json").exists(),
        "left": sorted(p.name for p in data.rglob("*") if ".rekey" in p.name or p.name.endswith("-journal")),
    }


def run(template: Path, place: Path, action: str, mode: str, at: int) -> tuple[str, bool, int]:
    """One change with the fault at call ``at``; what it said, whether the call was reached, and how many there were."""
    global CALLS, AT, REACHED, KILL
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(template, place)
    WHAT.clear()
    if mode != "kill":
        WHAT.update(
            f"{mode}-{one}" for one in ("write", "sync", "truncate", "fsync", "rename", "link", "open", "unlink")
        )
    else:
        for one in ("disk-write", "disk-sync", "system-fsync", "system-rename", "system-link", "system-unlink"):
            WHAT.add(one)
    CALLS, AT, REACHED, KILL = 0, at, False, mode == "kill"
    if mode == "kill" and at:
        child = os.fork()  # nothing is open in this process
        if not child:
            outcome(place, action)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        AT = 0
        return "killed" if os.WIFSIGNALED(status) else "ended", os.WIFSIGNALED(status), at
    said = outcome(place, action)
    AT = 0
    return said, REACHED, CALLS


def main() -> None:
    base, action, mode, points, seed = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
    os.environ["THE_KEY"] = "a key of at least thirty-two bytes for tests"
    template, place = base / "template", base / "data"
    fill(template)
    if action != "encrypt":
        rekeying.encrypt(settings(template, key=True))
    os.fsync = failing("system-fsync", os.fsync)
    os.rename = failing("system-rename", os.rename)
    os.replace = failing("system-rename", os.replace)
    os.link = failing("system-link", os.link)
    os.open = failing("system-open", os.open)
    os.unlink = failing("system-unlink", os.unlink)
    said, _, calls = run(template, place, action, mode, 0)
    whole = {"said": said, **checked(place, action)}
    chosen = (
        random.Random(seed).sample(range(1, calls + 1), min(points, calls)) if mode == "kill" else spread(calls, points)
    )
    outcomes = []
    for at in chosen:
        said, reached, _ = run(template, place, action, mode, at)
        outcomes.append({"at": at, "said": said, "reached": reached, **checked(place, action)})
    print(json.dumps({"calls": calls, "whole": whole, "outcomes": outcomes}))


def spread(calls: int, points: int) -> list[int]:
    wanted = min(calls, points)
    return sorted({1 + point * (calls - 1) // max(1, wanted - 1) for point in range(wanted)})


main()
