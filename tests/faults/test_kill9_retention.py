"""Retention that is killed at any of its points ends at the next open and the next run: whole, and without a trace."""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from memory_sqlite import Memory
from memory_sqlite.clock import FixedClock
from memory_sqlite.config import Settings
from memory_sqlite.doctor import verify
from memory_sqlite.paths import agent_directory

CHILD = Path(__file__).with_name("child_retention_kill.py")
POINTS = list(runpy.run_path(str(CHILD))["POINTS"])
SWEEP = int(os.environ.get("MEMORY_SQLITE_SWEEP", "1"))
"""Kills at each point, one call later each time; it ends when there is no such call any more."""
DAY = 86_400_000
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


def filled(data: Path, clock: FixedClock) -> Settings:
    """Two old sessions of five turns, a held one, a young one."""
    settings = Settings(data_dir=data, retention_days=30)
    with Memory.open(settings=settings, clock=clock) as memory:

        def say(session: str, number: int) -> None:
            words = [
                {"role": "user", "content": f"It is pebble{number}stone."},
                {"role": "assistant", "content": "Yes."},
            ]
            memory.remember(session=session, run_id=f"r{number}", messages=words)

        for number in range(10):
            say(f"old{number % 2}", number)
        say("held", 10)
        memory.hold("held")
        clock.advance(31 * DAY)
        say("young", 11)
    return settings


@pytest.mark.sweep
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_every_point(tmp_path: Path, point: str) -> None:
    """The next open leaves nothing half done, the next run nothing that is too old; nothing else is touched, no trace
    is left in a file, and a replay brings nothing back."""
    for number in range(1, SWEEP + 1):
        data = tmp_path / f"data{number}"
        clock = FixedClock()
        settings = filled(data, clock)
        directory = agent_directory(data, "main")
        child = subprocess.run(
            [sys.executable, str(CHILD), str(data), point, str(number), str(clock.ms)],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        if number > 1 and (child.returncode, child.stdout) == (0, "done\n"):
            return
        assert child.returncode == -signal.SIGKILL, child.stderr[-2000:]
        with Memory.open(settings=settings, clock=clock) as memory:
            assert verify(directory) == []
            memory.prune(trust_clock=True)
            assert {row["session"] for row in memory.sessions()} == {"held", "young"}
            assert memory.status()["turns"] == 2
            words = [{"role": "user", "content": "It is pebble3stone."}]
            assert memory.remember(session="old1", run_id="r3", messages=words).status == "duplicate"
            assert memory.search("pebble3stone", min_score=0.9).hits == ()
            assert verify(directory) == []
        assert words_in_files(directory) == {10, 11}
