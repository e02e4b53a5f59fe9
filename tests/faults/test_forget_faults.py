"""A disk that fails, or a process that is killed, in the middle of a forgetting: it ends at the next open, whole."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory
from memory_sqlite.config import Settings
from memory_sqlite.doctor import verify
from memory_sqlite.paths import agent_directory

CHILD = Path(__file__).with_name("child_forget_faults.py")
POINTS = int(os.environ.get("MEMORY_SQLITE_SWEEP", "8"))
"""Calls of a kind that fail, each in a forgetting of its own: from a few hundred on it is every one."""
ENDS = {"forgotten", "unfinished", "disk_full", "store_damaged", "index_unavailable", "store_busy"}
WHOLE = 8
"""Messages of a session that is there."""
SCAN = """
import re, sys
from pathlib import Path
found = set()
for path in Path(sys.argv[1]).iterdir():
    found |= {int(word) for word in re.findall(rb"pebble(\\d+)ston", path.read_bytes().lower())}
print(*sorted(found))
"""


def words_in_files(directory: Path) -> set[int]:
    done = subprocess.run([sys.executable, "-c", SCAN, str(directory)], capture_output=True, text=True, check=True)
    return {int(word) for word in done.stdout.split()}


@pytest.mark.sweep
@pytest.mark.parametrize("kind", ["wal-write", "wal-sync", "wal-truncate", "main-write", "main-sync", "main-truncate"])
def test_inv_090_a_disk_that_fails_once_while_forgetting(tmp_path: Path, kind: str) -> None:
    """Whatever one call to the disk fails: a typed error or an honest report; after the next open nothing is left."""
    done = subprocess.run(
        [sys.executable, str(CHILD), str(tmp_path / "data"), kind, str(POINTS)],
        capture_output=True,
        text=True,
        timeout=1_200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    assert answer["unharmed"] == [False, "forgotten", 0, "nothing", 0, WHOLE]
    assert sum(reached for reached, *_ in answer["outcomes"]) >= min(answer["calls"], POINTS) // 2 + 1
    for _, outcome, after, again, left, kept in answer["outcomes"]:
        # all of it is there, because nothing was begun; or none, because the open went on with what was
        assert after in (0, WHOLE), outcome
        assert after == 0 or outcome not in ("forgotten", "unfinished"), outcome
        assert (again in ("forgotten", "nothing"), left, kept) == (True, 0, WHOLE), (outcome, again)
        if kind.startswith("wal"):
            assert outcome.split(" (")[0] in ENDS, outcome
    assert answer["findings"] == []
    assert words_in_files(agent_directory(tmp_path / "data", "main")) == {0}


FORGETTER = """
import sys
from pathlib import Path
from memory_sqlite import Memory
from memory_sqlite.config import Settings

with Memory.open(settings=Settings(data_dir=Path(sys.argv[1]))) as memory:
    print("started", flush=True)
    for number in range(int(sys.argv[2]), int(sys.argv[3])):
        memory.forget(sessions=[f"s{number}"])
        print(number, flush=True)
print("done", flush=True)
"""


def remember(memory: Memory, first: int, last: int) -> None:
    for number in range(first, last):
        text = f"I love pebble{number}stone."
        memory.remember(
            session=f"s{number}",
            chat_type="direct",
            sender_is_owner=True,
            messages=[{"role": "user", "content": text}, {"role": "assistant", "content": f"Noted: {text}"}],
        )


def sweep(data: Path, kills: int, seed: int) -> None:
    """Kill at random moments; after each kill and the next open the directory is clean, what was acknowledged is gone,
    and every other session is there whole or gone whole."""
    rng = random.Random(seed)
    directory = agent_directory(data, "main")
    gone = 0
    with Memory.open(settings=Settings(data_dir=data)) as memory:
        remember(memory, 0, 60)
        top = 60
    for _ in range(kills):
        child = subprocess.Popen(
            [sys.executable, "-c", FORGETTER, str(data), str(gone), str(top)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "started\n"
        time.sleep(rng.uniform(0, 0.12))
        child.send_signal(signal.SIGKILL)
        lines = [line for line in child.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
        child.wait()
        child.stdout.close()
        acknowledged = [int(line) for line in lines if line != "done\n"]
        with Memory.open(settings=Settings(data_dir=data)) as memory:
            assert verify(directory) == []
            left = {int(row["session"][1:]) for row in memory.sessions(limit=1_000)}
            assert left.isdisjoint(acknowledged)
            assert left >= set(range(max([gone - 1, *acknowledged]) + 2, top)), "at most the one in flight is gone too"
            assert memory.status()["messages"] == 2 * len(left)
            gone = min(left, default=top)
            remember(memory, top, top + 10)
            top += 10
        words = words_in_files(directory)
        assert words == left | set(range(top - 10, top))


def test_inv_090_kill_nine_while_forgetting(tmp_path: Path) -> None:
    """``kill -9`` of a forgetting process at random moments."""
    sweep(tmp_path / "data", 10, seed=20261130)


@pytest.mark.sweep
@pytest.mark.skipif("MEMORY_SQLITE_SWEEP" not in os.environ, reason="long: set MEMORY_SQLITE_SWEEP, e.g. to 200")
def test_kill_nine_while_forgetting_sweep(tmp_path: Path) -> None:
    """The same at as many moments as ``MEMORY_SQLITE_SWEEP`` says, 40 to a store."""
    kills = int(os.environ["MEMORY_SQLITE_SWEEP"])
    for part in range(0, kills, 40):
        sweep(tmp_path / f"data{part}", min(40, kills - part), seed=part)
