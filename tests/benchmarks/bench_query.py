"""SQL over JSONL: lines a second through filters of several kinds, and the memory of the query's process.

    python tests/benchmarks/bench_query.py [--mib 1024] [--line 400] [--profile] [--json]

The file is invented: lines of an agent's transcript of about ``--line`` bytes, ten thousand different ones over and
over. It is written to the temporary directory and removed again, and read once before anything is measured, so that the
disk is not. Each query runs as users run it, in its own process; figures are of that process's CPU time, since the
machine may be shared, and of wall time from opening to the last row. ``--profile`` runs one query in this process and
prints where the time goes.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import random
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from common import Figure, report

from memory_sqlite import limits
from memory_sqlite.config import Settings
from memory_sqlite.query.asking import Asker
from memory_sqlite.query.collecting import Question, ask
from memory_sqlite.query.reading import Reading
from memory_sqlite.query.running import Asked, run

BLOCK = 10_000
AIM = "≥ 300,000 on 2 cores"
QUERIES = {
    "count lines": "SELECT count(*) FROM {table}",
    "raw GLOB, 1 in 10,000": "SELECT count(*) FROM {table} WHERE raw GLOB '*needle-7f3a*'",
    "raw LIKE, 1 in 10,000": "SELECT count(*) FROM {table} WHERE raw LIKE '%NEEDLE-7f3a%'",
    "key =, 1 in 10,000": "SELECT count(*) FROM {table} WHERE kind = 'needle-7f3a'",
    "key =, 1 in 3": "SELECT count(*) FROM {table} WHERE type = 'user'",
    "key >, every line parsed": "SELECT count(*) FROM {table} WHERE n > 9990",
    "key LIKE, 1 in 10": "SELECT count(*) FROM {table} WHERE message LIKE '%granite pier%'",
    "value ->>, every line parsed": "SELECT count(*) FROM {table} WHERE value ->> '$.message.role' = 'nobody'",
}
GROUPED = "SELECT type, count(*) FROM {table} GROUP BY type"
"""SQLite sorts before it groups, in memory: this is what --memory bounds."""


def write(path: Path, size: int, length: int) -> int:
    """Write the file; the number of its lines."""
    rng = random.Random(7)
    words = ["the", "harbour", "pier", "crane", "ledger", "cursor", "slate", "basalt", "morning", "喜欢", "router"]
    lines = []
    for number in range(BLOCK):
        text = " ".join(rng.choices(words, k=max(1, (length - 190) // 7)))
        if number % 10 == 0:
            text += " granite pier"
        record = {
            "type": ("user", "assistant", "progress")[number % 3],
            "uuid": f"{rng.getrandbits(128):032x}",
            "timestamp": "2026-03-01T10:00:00.000Z",
            "kind": "needle-7f3a" if number == 5_000 else "plain",
            "message": {"role": "user", "content": text + "\n"},
            "n": number,
        }
        lines.append(json.dumps(record, ensure_ascii=False).encode() + b"\n")
    block = b"".join(lines)
    times = max(1, size // len(block))
    with path.open("wb") as file:
        for _ in range(times):
            file.write(block)
    return times * BLOCK


def peak(asker: Asker) -> float:
    """MiB that the idle query process has held at most (Linux)."""
    (process,) = asker._idle
    status = Path(f"/proc/{process._process.pid}/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:", 1)[1].split()[0]) / 1024


def cpu(asker: Asker) -> float:
    """CPU seconds of the idle query process (Linux)."""
    (process,) = asker._idle
    fields = Path(f"/proc/{process._process.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def question(sql: str) -> Question:
    return Question(sql, None, 1_000, limits.QUERY_TIMEOUT_S[1], limits.QUERY_MEMORY_BYTES[2])


def at_once(path: Path, lines: int, settings: Settings) -> Figure:
    """Two queries in two processes, each over the whole file."""
    asker = Asker(None, None)
    sql = QUERIES["key >, every line parsed"].format(table=f"jsonl('{path}')")
    threads = [threading.Thread(target=lambda: ask(asker, question(sql), settings, None, None, None)) for _ in range(2)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - started
    asker.close()
    return Figure("two queries at once, every line parsed, together", 2 * lines / seconds, "lines/s", AIM)


def profiled(path: Path) -> None:
    """One query in this process, under the profiler."""
    reading = Reading(3_600.0, lambda _done: None, redact=False)
    sql = QUERIES["key >, every line parsed"].format(table=f"jsonl('{path}')")
    profiler = cProfile.Profile()
    profiler.enable()
    run(Asked(sql, (), 10, None), None, None, reading, lambda _names: None, lambda _rows, _size: None)
    profiler.disable()
    pstats.Stats(profiler, stream=sys.stderr).sort_stats("tottime").print_stats(15)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=1_024)
    parser.add_argument("--line", type=int, default=400)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "lines.jsonl"
        lines = write(path, options.mib * limits.MIB, options.line)
        size = path.stat().st_size
        settings = Settings(data_dir=Path(place) / "data")
        if options.profile:
            profiled(path)
        asker = Asker(None, None)
        first: Any = ask(asker, question(f"SELECT 1 FROM jsonl('{path}') LIMIT 1"), settings, None, None, None)
        assert first.row_count == 1
        start = peak(asker)
        for name, sql in QUERIES.items():
            before = cpu(asker)
            done = ask(asker, question(sql.format(table=f"jsonl('{path}')")), settings, None, None, None)
            aim = AIM if name != "count lines" else ""
            used = cpu(asker) - before
            figures.append(Figure(name, lines / used, "lines/CPU s", aim))
            figures.append(Figure(f"{name}: wall", lines / done.seconds, "lines/s"))
        figures.append(Figure("bytes of a line", size / lines, "B"))
        figures.append(Figure("the last of these", size / used / limits.MIB, "MiB/CPU s"))
        figures.append(Figure("peak memory before", start, "MiB"))
        figures.append(Figure("peak memory after all of these", peak(asker), "MiB", "flat"))
        done = ask(asker, question(GROUPED.format(table=f"jsonl('{path}')")), settings, None, None, None)
        figures.append(Figure("group by a key: wall", lines / done.seconds, "lines/s"))
        figures.append(Figure("peak memory after it", peak(asker), "MiB"))
        asker.close()
        figures.append(at_once(path, lines, settings))
    report(figures)


if __name__ == "__main__":
    main()
