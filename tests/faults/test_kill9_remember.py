"""``kill -9`` at random moments of a stream of ``remember`` calls: what was acknowledged is there, nothing half."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import apsw
import pytest

from memory_sqlite import Memory
from memory_sqlite.config import Settings
from memory_sqlite.paths import agent_directory

CHILD = """
import sys
from pathlib import Path
from memory_sqlite import Memory
from memory_sqlite.config import Settings

print("started", flush=True)
with Memory.open(settings=Settings(data_dir=Path(sys.argv[1]))) as memory:
    for number in range(int(sys.argv[2]), int(sys.argv[3])):
        receipt = memory.remember(session="s", run_id=f"r{number}", chat_type="direct", sender_is_owner=True, messages=[
            {"role": "user", "content": f"I love pebble{number}."},
            {"role": "assistant", "content": f"Noted, a pebble: {number}."},
        ])
        assert receipt.searchable, receipt.warnings
        print(number, flush=True)
        if number % 20 == 19:
            memory.index(full=True)
print("done", flush=True)
"""

TURNS = """
SELECT t.run_id, t.ordinal,
  (SELECT count(*) FROM messages m WHERE m.turn_id = t.id),
  (SELECT count(*) FROM records r WHERE r.turn_id = t.id AND r.layer = 'L1'),
  (SELECT count(*) FROM records r WHERE r.turn_id = t.id AND r.layer = 'L3'),
  (SELECT count(*) FROM records r WHERE r.turn_id = t.id AND r.layer = 'L2')
FROM turns t ORDER BY t.ordinal
"""


def stream(data: Path, first: int, last: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(data), str(first), str(last)], stdout=subprocess.PIPE, text=True
    )


def killed_at(child: subprocess.Popen[str], seconds: float, *, opening: bool) -> list[int]:
    """Let it run so long after its start (``opening``) or after its first receipt and kill it; the numbers whose
    receipts it had passed on."""
    assert child.stdout is not None
    assert child.stdout.readline() == "started\n"
    first = "" if opening else child.stdout.readline()
    time.sleep(seconds)
    child.send_signal(signal.SIGKILL)
    # a line that the kill cut in two was not passed on
    lines = [line for line in [first, *child.stdout.read().splitlines(keepends=True)] if line.endswith("\n")]
    child.wait()
    child.stdout.close()
    return [int(line) for line in lines if line != "done\n"]


def verify(data: Path, acknowledged: list[int], rng: random.Random) -> int:
    """Everything that must hold after a kill; returns how many turns there are."""
    with Memory.open(settings=Settings(data_dir=data)) as memory:
        probes = acknowledged[-3:] + rng.sample(acknowledged, min(3, len(acknowledged)))
        for number in probes:
            hits = memory.search(f"pebble{number}", max_results=10).hits
            shown = {hit.layer for hit in hits if f"pebble{number}" in hit.excerpt}
            assert {"L0", "L3"} <= shown, (number, [hit.excerpt for hit in hits])
        memory.search("pebble")  # whatever was in flight is applied by the first search
        index = memory.status()["index"]
        assert index["lag"] == 0
        store = memory.status()["store"]
        connection = apsw.Connection(store, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            rows = connection.execute(TURNS).fetchall()
            assert connection.pragma("integrity_check") == "ok"
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
            searchable = connection.execute(
                "SELECT (SELECT count(*) FROM messages), (SELECT count(*) FROM records WHERE status = 'active')"
            ).fetchone()
        finally:
            connection.close()
        assert (index["documents"].get("message", 0), index["documents"].get("record", 0)) == searchable
    runs = [row[0] for row in rows]
    assert len(runs) == len(set(runs))
    assert set(runs) >= {f"r{number}" for number in acknowledged}
    assert len(rows) <= len(acknowledged) + 1, "at most the turn in flight is there without its receipt"
    for run, ordinal, messages, episodes, facts, scenarios in rows:
        assert (messages, episodes, facts, scenarios) == (2, 1, 1, int(ordinal % 5 == 0)), run
    assert [row[1] for row in rows] == list(range(1, len(rows) + 1))
    return len(rows)


def sweep(data: Path, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    acknowledged: list[int] = []
    for _ in range(kills):
        # what was stored without its receipt getting through is sent again, as a host would
        first = acknowledged[-1] + 1 if acknowledged else 0
        # a third of the kills fall into opening and the first turn, the others among the turns and rebuilds
        opening = rng.random() < 1 / 3
        acknowledged += killed_at(stream(data, first, first + 10_000), rng.uniform(0, 0.12), opening=opening)
        verify(data, acknowledged, rng)
    assert acknowledged
    last = acknowledged[-1] + 5
    done = stream(data, 0, last + 1)
    out, _ = done.communicate(timeout=300)
    assert out.splitlines()[-1] == "done"
    assert verify(data, list(range(last + 1)), rng) == last + 1
    left = sorted(path.name for path in agent_directory(data, "main").iterdir() if path.suffix == ".sqlite")
    assert len(left) == 2, left


def test_case_C078_kill_nine_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    """C078, with a full rebuild after every 20 turns for kills to fall into: after each kill every acknowledged turn is
    there with all its layers and is found, none is partly there, and the replay of the whole stream ends with exactly
    one of each."""
    sweep(tmp_path / "data", 20, seed=20260715)


@pytest.mark.sweep
@pytest.mark.skipif("MEMORY_SQLITE_SWEEP" not in os.environ, reason="long: set MEMORY_SQLITE_SWEEP, e.g. to 200")
def test_kill_nine_sweep(tmp_path: Path) -> None:
    """The same at as many moments as ``MEMORY_SQLITE_SWEEP`` says, 50 to a store."""
    kills = int(os.environ["MEMORY_SQLITE_SWEEP"])
    for part in range(0, kills, 50):
        sweep(tmp_path / f"data{part}", min(50, kills - part), seed=part)
