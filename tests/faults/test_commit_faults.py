"""A disk that fails at one write, sync or truncate while a turn is committed: both key and turn are there, or none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CHILD = Path(__file__).with_name("child_commit_faults.py")
TYPED = {"disk_full", "store_damaged", "index_unavailable"}
POINTS = int(os.environ.get("MEMORY_SQLITE_SWEEP", "8"))
"""Calls of a kind that fail, each in a commit of its own: from about 120 on it is every one."""
RUNS = [
    ("commit", "wal-write"),
    ("commit", "wal-sync"),
    ("checkpoint", "main-write"),
    ("checkpoint", "main-sync"),
    ("checkpoint", "main-truncate"),
]


@pytest.mark.sweep
@pytest.mark.parametrize(("operation", "kind"), RUNS)
def test_criterion_115_a_disk_that_fails_leaves_key_and_turn_or_neither(
    tmp_path: Path, operation: str, kind: str
) -> None:
    """Whatever one call fails, the layers are with the turn and the turn with its key; the same call made again ends
    with exactly one of each, found."""
    done = subprocess.run(
        [sys.executable, str(CHILD), str(tmp_path / "data"), kind, operation, str(POINTS)],
        capture_output=True,
        text=True,
        timeout=1_200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    first, unharmed, *outcomes = answer["outcomes"]
    assert sum(reached for reached, *_ in outcomes) >= min(answer["calls"], POINTS) // 2 + 1
    assert first[:2] == unharmed[:2] == [False, "committed"]
    assert answer["findings"] == []
    for number, (reached, outcome, before, again, after, found) in enumerate(answer["outcomes"], 1):
        keys = before[0]
        assert keys in (number - 1, number), (number, outcome)
        assert before == [keys, keys, keys, 2 * keys, keys, keys], (number, outcome, before)
        assert again == ("duplicate" if keys == number else "committed"), (number, outcome)
        assert after == [number, number, number, 2 * number, number, number], (number, outcome)
        assert found == 2
        if operation == "commit":
            # an error means that nothing was stored, an answer that all was
            assert outcome in TYPED | {"committed"}, (number, outcome)
            assert (outcome == "committed") == (keys == number), (number, outcome)
        assert reached or outcome == "committed"
