"""Encrypted against plain: remembering, searching warm and cold, rebuilding; AEGIS-256 and SQLCipher's scheme.

    python tests/benchmarks/bench_encryption.py [--json] [--turns 3000]

Three data directories with the same conversations. Every operation is done by turns in all three, so that a noisy
neighbour hits them alike; figures are ratios of medians to the directory in clear. CPU time of the process where
nothing waits (searching, rebuilding), wall time where waiting for the disk is the point (remembering, a whole command).
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench_remember import WORDS, turn
from common import Figure, p50, report

from memory_sqlite import Memory
from memory_sqlite.config import Settings

KINDS: Final = ("plain", "aegis", "sqlcipher")
KEY: Final = "a key for measuring that has more than 32 bytes"
SEARCHES: Final = 300
COMMANDS: Final = 15
REBUILDS: Final = 3


def settings(directory: Path, kind: str) -> Settings:
    """Settings of one directory."""
    key = directory / "key"
    key.write_text(KEY)
    key.chmod(0o600)
    if kind == "plain":
        return Settings(data_dir=directory / kind)
    return Settings(data_dir=directory / kind, encryption_key_file=key, encryption_cipher=kind)  # type: ignore[arg-type]


def cold(directory: Path, kind: str, query: str) -> None:
    """A whole command in a process of its own."""
    environment = {**os.environ, "MEMORY_SQLITE_DATA_DIR": str(directory / kind), "HOME": str(directory)}
    if kind != "plain":
        environment["MEMORY_SQLITE_ENCRYPTION_KEY_FILE"] = str(directory / "key")
    command = [sys.executable, "-m", "memory_sqlite", "search", query, "--json"]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)


def by_turns(rounds: int, call: Callable[[str, int], None], clock: Callable[[], float]) -> dict[str, list[float]]:
    """Seconds of each call, all kinds taking turns, each round in another order."""
    took: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for number in range(rounds):
        for kind in KINDS[number % 3 :] + KINDS[: number % 3]:
            started = clock()
            call(kind, number)
            took[kind].append(clock() - started)
    return took


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=3000)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="bench-"))
    memories = {kind: Memory.open(settings=settings(directory, kind)) for kind in KINDS}
    try:
        turns = [turn(random.Random(number), number) for number in range(asked.turns)]
        queries = [" ".join(random.Random(-number).sample(WORDS, 3)) for number in range(1, SEARCHES + 1)]

        def remember(kind: str, number: int) -> None:
            memories[kind].remember(session=f"s{number % 20}", messages=turns[number])

        def search(kind: str, number: int) -> None:
            assert memories[kind].search(queries[number]).hits

        def rebuild(kind: str, number: int) -> None:
            memories[kind].index(full=True)

        measured = {
            "remember, wall": by_turns(len(turns), remember, time.perf_counter),
            "search warm, CPU": by_turns(SEARCHES, search, time.process_time),
            "rebuild, CPU": by_turns(REBUILDS, rebuild, time.process_time),
            "search cold (a command), wall": by_turns(
                COMMANDS, lambda kind, number: cold(directory, kind, queries[number]), time.perf_counter
            ),
        }
        figures = []
        for name, took in measured.items():
            plain = p50(took["plain"])
            figures.append(Figure(f"{name}: plain", plain * 1000, "ms"))
            for kind in KINDS[1:]:
                aim = "<= 1.25" if kind == "aegis" and name.startswith("search warm") else ""
                figures.append(Figure(f"{name}: {kind} / plain", p50(took[kind]) / plain, "x", aim))
        sizes = {kind: sum(path.stat().st_size for path in (directory / kind).rglob("*.sqlite")) for kind in KINDS}
        figures += [Figure(f"size: {kind} / plain", sizes[kind] / sizes["plain"], "x") for kind in KINDS[1:]]
        report(figures)
    finally:
        for memory in memories.values():
            memory.close()
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
