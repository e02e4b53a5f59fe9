"""Whole commands: indexing the 2,001-note corpus, and a cold search process over 10,000 chunks.

    python tests/benchmarks/bench_cli.py [--json]

Uses the ``memory-sqlite`` command beside this Python: install the wheel first. Peak memory is the largest of the runs.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import Figure, p50, report

COMMAND = str(Path(sys.executable).parent / "memory-sqlite")
ROUNDS = 25


def main() -> None:
    directory = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        report([*index_corpus(directory / "a"), *cold_search(directory / "b")])
    finally:
        shutil.rmtree(directory)


def notes(workspace: Path, files: int, lines: int) -> None:
    """Dated notes of ``lines`` bullet lines, like the corpus generator's."""
    rng = random.Random(42)
    words = [
        "router",
        "gateway",
        "ledger",
        "invoice",
        "harbor",
        "sensor",
        "cluster",
        "backup",
        "meeting",
        "contract",
        "budget",
        "deploy",
        "release",
    ]
    (workspace / "memory").mkdir(parents=True)
    for number in range(files):
        text = [f"# note {number}"]
        for line in range(lines):
            chosen = " ".join(rng.choice(words) for _ in range(8))
            text.append(f"- {chosen}; ticket TCK-{number:04d}-{line:02d}, code {rng.getrandbits(32):08x}.")
        (workspace / "memory" / f"n{number:05d}.md").write_text("\n".join(text) + "\n", encoding="utf-8")


def index_corpus(directory: Path) -> list[Figure]:
    """2,001 files of 14 lines, 3 MB: the shape of ``make_bigcorpus.py``."""
    workspace = directory / "workspace"
    notes(workspace, 2_001, 20)
    seconds = []
    for round_number in range(3):
        started = time.perf_counter()
        subprocess.run(
            [COMMAND, "--data-dir", str(directory / f"data{round_number}"), "--workspace", str(workspace), "index"],
            check=True,
            capture_output=True,
        )
        seconds.append(time.perf_counter() - started)
    return [Figure("index 2,001 notes, wall", p50(seconds), "s", "<= 4; peer 59")]


def cold_search(directory: Path) -> list[Figure]:
    """Search processes one after another. Everything large happens in other processes: Linux counts the size of whoever
    starts a program as the program's own peak."""
    workspace, data = directory / "workspace", ["--data-dir", str(directory / "data")]
    notes(workspace, 1_670, 80)
    subprocess.run([COMMAND, *data, "--workspace", str(workspace), "index"], check=True, capture_output=True)
    status = subprocess.run([COMMAND, *data, "status", "--json"], check=True, capture_output=True)
    chunks = json.loads(status.stdout)["index"]["chunks"]
    wall, cpu, peak = [], [], 0
    for number in range(ROUNDS):
        started = time.perf_counter()
        process = subprocess.Popen(
            [COMMAND, *data, "search", f"TCK-{number:04d}-07 ledger budget", "--json"], stdout=subprocess.DEVNULL
        )
        _, status_code, usage = os.wait4(process.pid, 0)
        wall.append(time.perf_counter() - started)
        cpu.append(usage.ru_utime + usage.ru_stime)
        assert status_code == 0
        peak = max(peak, usage.ru_maxrss)
    python = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        python.append(time.perf_counter() - started)
    return [
        Figure("chunks in the index", chunks, ""),
        Figure("cold search, wall p50", p50(wall), "s", "<= 0.20; peers 0.19, 7.8, 6.8"),
        Figure("cold search, CPU p50", p50(cpu), "s"),
        Figure("of which the bare interpreter, wall p50", p50(python), "s"),
        Figure("cold search, peak memory", peak / 1024, "MiB", "<= 60; peers 73, 255, 513"),
    ]


if __name__ == "__main__":
    main()
