"""A directory that may be read and not written is no fault; looking at it makes no file there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_sqlite import Memory
from memory_sqlite.config import Settings

NOBODY = 65_534
CHILD = """
import json, os, sys, tempfile
from pathlib import Path
from memory_sqlite import Memory
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.doctor import examine
from memory_sqlite.doctor.examine import CHECKS

# another user may not be allowed to run this Python
checks = set(CHECKS) - {"worker"}
# once elsewhere: nor to read the places that modules are loaded from
with tempfile.TemporaryDirectory() as first:
    with Memory.open(first) as memory:
        memory.remember(session="s", messages=[{"role": "user", "content": "granite is hard"}])
    examine(Settings(data_dir=Path(first)), Clock(), only=checks)
if os.geteuid() == 0:
    os.setgid(65534); os.setuid(65534)
report = examine(Settings(data_dir=Path(sys.argv[1])), Clock(), only=checks)
print(json.dumps(report.as_json()))
"""


@pytest.fixture
def shared() -> Iterator[Path]:
    """A place that another user can reach."""
    place = Path(tempfile.mkdtemp(prefix="memory-sqlite-test-"))
    place.chmod(0o755)
    yield place
    for path in [place, *place.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o700)
    shutil.rmtree(place)


def test_a_read_only_directory_has_no_finding(shared: Path) -> None:
    """Clean, with a note that it can only be read; every check is made that needs no writing; not one file is made."""
    data = shared / "data"
    with Memory.open(settings=Settings(data_dir=data)) as memory:
        memory.remember(session="s", messages=[{"role": "user", "content": "granite is hard"}])
    for path in [data, *data.rglob("*")]:
        if os.geteuid() == 0:
            os.chown(path, NOBODY, NOBODY)
        path.chmod(0o500 if path.is_dir() else 0o400)
    before = sorted(data.rglob("*"))
    done = subprocess.run([sys.executable, "-c", CHILD, str(data)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout)
    assert report["findings"] == [], report
    assert [one["code"] for one in report["notes"]] == ["directory_read_only"]
    states = {one["name"]: one["state"] for one in report["checks"]}
    assert {states[name] for name in ("store", "store pages", "store rows", "index", "generations", "keys")} == {"ok"}
    assert set(states.values()) <= {"ok", "skipped", "off"}
    assert sorted(data.rglob("*")) == before
