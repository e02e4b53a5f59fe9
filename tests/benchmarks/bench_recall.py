"""Recall while its search hangs, in real time: it gives up at ``auto_recall_timeout_ms`` and the reply goes on.

    python tests/benchmarks/bench_recall.py [--json]

The fault is injected where recall asks the index: once as a statement that never ends (it can be interrupted), once as
a call that sleeps (nothing can). Also: what recall costs when nothing is wrong.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from common import Figure, p50, report

from memory_sqlite import Memory
from memory_sqlite.config import Settings
from memory_sqlite.search import run

TIMEOUTS_MS = (50, 200, 1_000)
ROUNDS = {50: 24, 200: 12, 1_000: 5}
"""Fewer than the searches that recall lets run at once: beyond that it refuses instead of waiting."""
ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
QUERY = "Should I order tea or coffee?"
RELEASE = threading.Event()


def endless_statement(connection: Any, *_: Any, **__: Any) -> Any:
    """A search whose statement never ends."""
    connection.execute(ENDLESS).fetchall()


def endless_sleep(*_: Any, **__: Any) -> Any:
    """A search that is deaf: it ends only when the benchmark does."""
    RELEASE.wait()


def made(directory: Path, timeout_ms: int) -> Memory:
    memory = Memory.open(settings=Settings(data_dir=directory, auto_recall_timeout_ms=timeout_ms))
    memory.remember(
        session="s1",
        run_id="r1",
        chat_type="direct",
        sender_is_owner=True,
        messages=[{"role": "user", "content": "I love tea. I never drink coffee."}],
    )
    return memory


def waited(memory: Memory, rounds: int, reason: str) -> list[float]:
    """Milliseconds of each recall; every one must end for that reason."""
    samples = []
    for _ in range(rounds):
        started = time.perf_counter()
        found = memory.recall(QUERY, session="s1")
        samples.append((time.perf_counter() - started) * 1000)
        assert found.reason == reason, (found.reason, found.warnings)
        assert bool(found.text) == (reason == "ok")
    return samples


def main() -> None:
    directory = Path(tempfile.mkdtemp(prefix="bench-"))
    figures = []
    room: Any = run
    search = room.search
    try:
        with made(directory, 1_000) as memory:
            waited(memory, 3, "ok")
            figures.append(Figure("recall, nothing wrong, p50", p50(waited(memory, 50, "ok")), "ms"))
        for name, fault in (("endless statement", endless_statement), ("deaf search", endless_sleep)):
            room.search = fault
            for timeout_ms in TIMEOUTS_MS:
                with made(directory, timeout_ms) as memory:
                    samples = waited(memory, ROUNDS[timeout_ms], "timeout")
                    RELEASE.set()
                    RELEASE.clear()
                aim = f"<= {timeout_ms * 1.2:.0f}"
                figures.append(Figure(f"{name}, {timeout_ms} ms allowed, slowest", max(samples), "ms", aim))
    finally:
        room.search = search
        RELEASE.set()
        shutil.rmtree(directory, ignore_errors=True)
    report(figures)


if __name__ == "__main__":
    main()
