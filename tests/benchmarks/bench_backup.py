"""Backups: copying a store by the backup interface and by ``VACUUM INTO``, whole backups, proving, restoring, and what
a host that goes on remembering notices of one; in clear and, where this version can, encrypted.

    python tests/benchmarks/bench_backup.py [--mib 200] [--json]
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import Figure, p50, report

from memory_sqlite import Memory, paths
from memory_sqlite.backup import copying
from memory_sqlite.backup.making import make
from memory_sqlite.backup.restoring import restore
from memory_sqlite.backup.verifying import verify
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.storage import connection as connections

CLOCK = Clock()
ROUNDS = 3
VARIABLE = "MEMORY_SQLITE_BENCH_KEY"


def filled(settings: Settings, mib: int) -> tuple[Path, FileKey | None]:
    """A store of about so many MiB: turns of two messages, written straight into the tables."""
    rng = random.Random(5)
    words = [f"{rng.randrange(16**6):06x}" for _ in range(5_000)]
    with Memory.open(settings=settings) as memory:
        memory.remember(session="s", messages=[{"role": "user", "content": "I like tea."}], sender_is_owner=True)
        rooms = memory.rooms()
        assert rooms is not None
        store = rooms.opened.store
        path = store.directory / paths.STORE_FILE
        number = 1
        while path.stat().st_size < mib * 2**20:
            with store.transaction() as connection:
                for _ in range(5_000):
                    number += 1
                    connection.execute(
                        "INSERT INTO turns (session_id, ordinal, arrived_by, at, recorded_at)"
                        " VALUES (1, ?, 'import', 1, 1)",
                        (number,),
                    )
                    turn = connection.last_insert_rowid()
                    for position in (2 * number, 2 * number + 1):
                        text = " ".join(rng.choices(words, k=60))
                        connection.execute(
                            "INSERT INTO messages (session_id, turn_id, position, role, text, raw, at, origin,"
                            " text_digest) VALUES (1, ?, ?, 'user', ?, ?, 1, 'owner', ?)",
                            (turn, position, text, text, os.urandom(16)),
                        )
            store.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        key = store.file_key
    return path, key


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measured(work: Callable[[Path], Any], place: Path) -> tuple[float, float]:
    """CPU and wall seconds, the median of some rounds, each into a place of its own."""
    samples = []
    for number in range(ROUNDS):
        target = place / f"out{number}"
        busy, started = cpu(), time.perf_counter()
        work(target)
        samples.append((cpu() - busy, time.perf_counter() - started))
        shutil.rmtree(target, ignore_errors=True)
        target.unlink(missing_ok=True)
    return p50([one for one, _ in samples]), p50([one for _, one in samples])


def vacuum(path: Path, key: FileKey | None, target: Path) -> None:
    reader = connections.open_store_reader(path, key)
    reader.pragma("query_only", False)
    reader.execute("VACUUM INTO ?", (str(target),)).fetchall()
    reader.close()


def backed(path: Path, key: FileKey | None, target: Path) -> None:
    reader = connections.open_store_reader(path, key)
    reader.execute("BEGIN").fetchall()
    reader.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    copying._copy(reader, target, key, lambda size: None)
    reader.close()


def beside(settings: Settings, place: Path) -> tuple[list[float], list[float]]:
    """Milliseconds of each ``remember``, alone and while one backup after another is made."""
    stop = threading.Event()

    def back_up() -> None:
        number = 0
        while not stop.is_set():
            make(settings, place / f"beside{number}", CLOCK)
            shutil.rmtree(place / f"beside{number}")
            number += 1

    def remember(memory: Memory) -> list[float]:
        samples = []
        for number in range(150):
            started = time.perf_counter()
            memory.remember(session="own", messages=[{"role": "user", "content": f"I like pebble{number}."}])
            samples.append((time.perf_counter() - started) * 1000)
        return samples

    with Memory.open(settings=settings) as memory:
        alone = remember(memory)
        thread = threading.Thread(target=back_up)
        thread.start()
        during = remember(memory)
        stop.set()
        thread.join()
    return alone, during


def figures(place: Path, mib: int, name: str, settings: Settings) -> list[Figure]:
    path, key = filled(settings, mib)
    size = path.stat().st_size / 1e6
    found = [Figure(f"{name}: store", size, "MB")]
    for how, work in (
        ("backup interface", lambda target: backed(path, key, target)),
        ("VACUUM INTO", lambda target: vacuum(path, key, target)),
        ("whole backup", lambda target: make(settings, target, CLOCK)),
    ):
        busy, wall = measured(work, place)
        found += [Figure(f"{name}: {how}, CPU", busy, "s"), Figure(f"{name}: {how}, wall", wall, "s")]
    found.append(Figure(f"{name}: whole backup", size / wall, "MB/s wall"))
    make(settings, place / "b", CLOCK)
    busy, wall = measured(lambda target: verify(place / "b", settings, CLOCK), place)
    found += [Figure(f"{name}: verify, CPU", busy, "s"), Figure(f"{name}: verify, wall", wall, "s")]

    def put_back(target: Path) -> None:
        restore(place / "b", replaced(settings, target), CLOCK)

    busy, wall = measured(put_back, place)
    found += [Figure(f"{name}: restore, CPU", busy, "s"), Figure(f"{name}: restore, wall", wall, "s")]
    alone, during = beside(settings, place)
    found += [
        Figure(f"{name}: remember alone, p50", p50(alone), "ms"),
        Figure(f"{name}: remember during backups, p50", p50(during), "ms"),
        Figure(f"{name}: remember during backups, slowest of 150", max(during), "ms"),
    ]
    return found


def replaced(settings: Settings, data_dir: Path) -> Settings:
    return Settings(data_dir=data_dir, encryption_key_env=settings.encryption_key_env)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    os.environ[VARIABLE] = "benchmark key, thirty-two bytes and more"
    found = []
    for name in ("clear", "encrypted"):
        place = Path(tempfile.mkdtemp(prefix="memory-sqlite-bench-"))
        try:
            encrypted = VARIABLE if name == "encrypted" else None
            found += figures(place, chosen.mib, name, Settings(data_dir=place / "data", encryption_key_env=encrypted))
        finally:
            shutil.rmtree(place)
    report(found)


if __name__ == "__main__":
    main()
