"""A disk that fails, or a process that is killed, in the middle of a change of keys: everything opens with the old or
the new key, nothing is lost, nothing is left readable, and the same command comes to its end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CHILD = Path(__file__).with_name("child_key_faults.py")
POINTS = int(os.environ.get("MEMORY_SQLITE_SWEEP", "4"))
"""Calls that fail, or kills, each in a change of its own; a few hundred reach every call."""
KEPT = [["main", 2, "duplicate"], ["beta", 2, "duplicate"]]
SAID = {
    "disk": {"disk_full", "store_damaged", "store_read_only", "store_busy", "done"},
    "system": {"disk_full", "store_read_only", "keyring_damaged", "session_key_invalid", "done"},
    "kill": {"killed"},
}


def kept(answers: list[list[Any]]) -> list[list[Any]]:
    return [[agent, hits, again] for agent, hits, _, again in answers]


@pytest.mark.sweep
@pytest.mark.parametrize("mode", ["disk", "system", "kill"])
@pytest.mark.parametrize("action", ["encrypt", "rotate", "decrypt"])
def test_change_of_keys_that_is_broken_off(tmp_path: Path, action: str, mode: str) -> None:
    """Whatever one call to the disk does, and wherever the process ends."""
    done = subprocess.run(
        [sys.executable, str(CHILD), str(tmp_path), action, mode, str(POINTS), "7"],
        capture_output=True,
        text=True,
        timeout=1_200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    kinds = ["plain"] if action == "decrypt" else ["encrypted"]
    assert answer["whole"]["said"] == "done"
    for one in [answer["whole"], *answer["outcomes"]]:
        assert (kept(one["after"]), one["between"]) == (KEPT, []), one
        assert one["ended"] in ("done", "nothing"), one
        assert one["final"] == one["after"], one
        assert (one["kinds"], one["readable"], one["left"]) == (kinds, [], []), one
        assert one["keyring"] is (action != "decrypt"), one
    assert len(answer["outcomes"]) == min(POINTS, answer["calls"])
    assert all(one["reached"] for one in answer["outcomes"])
    assert {one["said"] for one in answer["outcomes"]} <= SAID[mode]
    assert mode == "kill" or any(one["said"] != "done" for one in answer["outcomes"])
