"""``kill -9`` at random moments of a stream of committed turns: a key is there with its whole turn, or not at all."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_sqlite import Memory
from memory_sqlite.config import Settings

HARNESS = Path(__file__).with_name("child_commit_faults.py")
CHILD = """
import asyncio, runpy, sys
from pathlib import Path
from memory_sqlite import Memory
from memory_sqlite.config import Settings
from memory_sqlite.model import SessionInfo

turn = runpy.run_path(sys.argv[2])["turn"]
print("started", flush=True)
with Memory.open(settings=Settings(data_dir=Path(sys.argv[1]))) as memory:
    engine = memory.context_engine(describe=lambda key, id: SessionInfo("", "direct", "interactive", True))
    for number in range(int(sys.argv[3]), int(sys.argv[4])):
        status = asyncio.run(engine.commit_turn(**turn(number))).status
        print(number, status, flush=True)
"""
TURNS = """
SELECT t.advancement_key, (SELECT count(*) FROM accepted_advancements a WHERE a.turn_id = t.id),
  (SELECT count(*) FROM messages m WHERE m.turn_id = t.id),
  (SELECT count(*) FROM records r WHERE r.turn_id = t.id AND r.layer = 'L1'),
  (SELECT count(*) FROM records r WHERE r.turn_id = t.id AND r.layer = 'L3')
FROM turns t ORDER BY t.ordinal
"""


def killed(data: Path, first: int, seconds: float) -> dict[int, str]:
    """Commit from ``first`` on until it is killed; what had been answered by then."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(data), str(HARNESS), str(first), str(first + 10_000)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "started\n"
    time.sleep(seconds)  # the moment of the kill, which may be any
    child.send_signal(signal.SIGKILL)
    lines = [line.split() for line in child.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
    child.wait()
    child.stdout.close()
    return {int(number): status for number, status in lines}


def check(data: Path, answered: set[int]) -> int:
    with Memory.open(settings=Settings(data_dir=data)) as memory:
        connection = apsw.Connection(memory.status()["store"], flags=apsw.SQLITE_OPEN_READONLY)
        try:
            rows: list[Any] = connection.execute(TURNS).fetchall()
            keys = connection.execute("SELECT count(*), count(turn_id) FROM accepted_advancements").fetchall()
            assert connection.pragma("integrity_check") == "ok"
        finally:
            connection.close()
    assert keys == [(len(rows), len(rows))]
    assert [row[1:] for row in rows] == [(1, 2, 1, 1)] * len(rows)
    numbers = [int(row[0].removeprefix("turn-")) for row in rows]
    assert numbers == sorted(set(numbers))
    assert answered <= set(numbers)
    assert len(numbers) <= len(answered) + 1, "at most the turn in flight is there without its answer"
    return len(numbers)


def sweep(data: Path, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    answered: set[int] = set()
    there = 0
    for _ in range(kills):
        first = max(answered, default=-1) + 1
        told = killed(data, first, rng.uniform(0, 0.3))
        # the turn that was in flight at the last kill is sent again: committed if it was not there, else a duplicate
        if told:
            assert told[first] == ("duplicate" if there > len(answered) else "committed")
            assert all(status == "committed" for number, status in told.items() if number != first)
        answered |= set(told)
        there = check(data, answered)


def test_criterion_115_kill_nine_leaves_key_and_turn_or_neither(tmp_path: Path) -> None:
    """Ten kills in one stream of commits, each resumed where the answers ended."""
    sweep(tmp_path / "data", 10, seed=20260731)


@pytest.mark.sweep
@pytest.mark.skipif("MEMORY_SQLITE_SWEEP" not in os.environ, reason="long: set MEMORY_SQLITE_SWEEP, e.g. to 200")
def test_criterion_115_kill_nine_sweep(tmp_path: Path) -> None:
    """The same at as many moments as ``MEMORY_SQLITE_SWEEP`` says, 50 to a store."""
    kills = int(os.environ["MEMORY_SQLITE_SWEEP"])
    for number, left in enumerate(range(kills, 0, -50)):
        sweep(tmp_path / f"data{number}", min(50, left), seed=number)
