"""A disk that fails at one write, sync or truncate while a note is replaced, a generation published or retired: the
next open finds everything in order and everything that was acknowledged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CHILD = Path(__file__).with_name("child_faulty_index.py")
POINTS = int(os.environ.get("MEMORY_SQLITE_SWEEP", "4"))
"""Calls of each kind that fail, each in an operation of its own: from about 60 on it is every one."""
TYPED = {"disk_full", "store_damaged", "index_unavailable"}


def outcomes(data: Path, workspace: Path, operation: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, str(CHILD), str(data), str(workspace), operation, str(POINTS)],
        capture_output=True,
        text=True,
        timeout=1_200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[dict[str, Any]] = json.loads(done.stdout)
    assert any(one["reached"] for one in found), "no fault was ever reached"
    for one in found:
        assert one["findings"] == [], one
        assert one["end"] == [], one
        assert (one["lost"], one["noted"], one["generations"]) == (0, True, 1), one
        assert one["filed"] != "wrong", one
        if one["kind"].startswith("wal"):
            assert one["outcome"] in TYPED | {"ok"}, one
        assert one["at"] or one["outcome"] == "ok", one
    return found


@pytest.mark.sweep
def test_a_note_is_replaced_whole_or_not_at_all(tmp_path: Path, workspace: Path) -> None:
    """What `index` said it had filed is filed after the next open; an error leaves the old text or the new one."""
    for one in outcomes(tmp_path / "data", workspace, "replace"):
        assert one["outcome"] != "ok" or one["filed"] == "new", one


@pytest.mark.sweep
def test_a_generation_is_published_or_is_not(tmp_path: Path, workspace: Path) -> None:
    """A rebuild that returned is current; one that failed left the old generation, or the whole new one. A turn that
    another process remembered just before the flip is in whichever it is."""
    for one in outcomes(tmp_path / "data", workspace, "publish"):
        assert one["outcome"] != "ok" or one["steps"] > 0, one


@pytest.mark.sweep
def test_a_retired_generation_goes_at_the_next_open_at_last(tmp_path: Path, workspace: Path) -> None:
    """A fault while it is taken away is no reason not to open; the open after it takes it away."""
    for one in outcomes(tmp_path / "data", workspace, "retire"):
        if one["kind"].startswith("wal"):
            assert one["outcome"] == "ok", one
