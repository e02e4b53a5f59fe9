"""The doctor finds nothing wrong with a memory that another process is writing to, rebuilding and forgetting from."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from memory_sqlite import Memory
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.doctor.examine import CHECKS, examine
from memory_sqlite.paths import agent_directory

LOOKED_AT = frozenset(CHECKS) - {"worker"}
"""How soon a process that is started answers is a matter of load."""
LOOKS = int(os.environ.get("MEMORY_SQLITE_SWEEP", "8"))


def test_no_false_finding_beside_a_busy_writer(tmp_path: Path, workspace: Path) -> None:
    """Every look is clean; each of its checks is made, or says that others are at work; who holds the files is named.
    After the writer's end everything is checked and clean."""
    settings = Settings(data_dir=tmp_path / "data", workspace=workspace)
    child = Path(__file__).with_name("child_busy_writer.py")
    writer = subprocess.Popen(
        [sys.executable, str(child), str(settings.data_dir), str(workspace)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        for _ in range(LOOKS):
            report = examine(settings, Clock(), only=LOOKED_AT)
            assert report.findings == ()
            assert {one.state for one in report.checks} <= {"ok", "skipped", "off"}
            if sys.platform == "linux":
                held = {one.code: str(one.evidence["processes"]) for one in report.notes if "processes" in one.evidence}
                assert str(writer.pid) in held["store_in_use"].split(", ")
        assert writer.poll() is None
    finally:
        writer.communicate(timeout=600)
    assert writer.returncode == 0
    report = examine(settings, Clock(), only=LOOKED_AT)
    assert report.findings == ()
    assert [one.name for one in report.checks if one.state == "skipped"] == ["transcripts"]


@pytest.mark.skipif(sys.platform != "linux", reason="told by Linux alone")
def test_who_has_the_files_open_is_named(tmp_path: Path, workspace: Path) -> None:
    """The process that serves from the current index, and that has the store open; both are notes and no findings."""
    settings = Settings(data_dir=tmp_path / "data", workspace=workspace)
    Memory.open(settings=settings).close()
    index = agent_directory(settings.data_dir, "main") / "index-000001.sqlite"
    script = "import apsw, sys\nopened = [apsw.Connection(path) for path in sys.argv[1:]]\n" + (
        "for one in opened: one.execute('SELECT count(*) FROM sqlite_schema').fetchall()\n"
        "print('open', flush=True)\nsys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(index), str(index.with_name("memory.sqlite"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        report = examine(settings, Clock(), only=LOOKED_AT)
        # the process of the tests may have another SQLite loaded for its own purposes, which is told too
        held = {one.code: one.evidence["processes"] for one in report.notes if one.code != "library_shared"}
        assert held == {"store_in_use": str(holder.pid), "index_in_use": str(holder.pid)}
        assert report.status == "clean"
    finally:
        holder.communicate(timeout=600)
    assert not {one.code for one in examine(settings, Clock(), only=LOOKED_AT).notes} - {"library_shared"}
