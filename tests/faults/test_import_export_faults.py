"""A disk that fails, and a kill, at one write or sync of an import: all of it is there afterwards, or nothing. And an
export that cannot be finished takes no name."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory
from memory_sqlite.config import Settings

CHILD = Path(__file__).with_name("child_import_faults.py")
POINTS = max(4, int(os.environ.get("MEMORY_SQLITE_SWEEP", "0")) // 4)
"""Calls of a kind that fail or kill, each in an import of its own, which takes a second or two."""
TYPED = {"disk_full", "store_damaged", "index_unavailable", "store_busy"}


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """An export of more than a thousand lines."""
    with Memory.open(settings=Settings(data_dir=tmp_path / "data", agent="alpha")) as memory:
        for number in range(220):
            memory.remember(
                session=f"s{number % 7}",
                run_id=f"r{number}",
                messages=[
                    {"role": "user", "content": f"I like pebble{number} very much."},
                    {"role": "assistant", "content": f"Noted, {'stone ' * 40}{number}."},
                ],
                sender_is_owner=True,
            )
        memory.forget(sessions=["s6"])
        assert memory.export(tmp_path / "a.jsonl").lines > 1_000, "progress is told in the middle"
    return tmp_path / "a.jsonl"


def child(exported: Path, agent: str, kind: str, at: int, what: str) -> subprocess.CompletedProcess[str]:
    data = exported.parent / "data"
    return subprocess.run(
        [sys.executable, str(CHILD), str(data), str(exported), agent, kind, str(at), what],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def body(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()[1:-1]


def check(exported: Path, agent: str) -> bool:
    """All of the import is there or nothing; then it is made again, and all is there and found. Whether it was."""
    target = exported.with_name("b.jsonl")
    with Memory.open(settings=Settings(data_dir=exported.parent / "data", agent=agent)) as memory:
        memory.export(target, overwrite=True)
        before = body(target)
        assert before in ([], body(exported)), "nothing half"
        report = memory.import_jsonl(exported)
        assert (sum(report.added.values()) == 0) == bool(before)
        memory.export(target, overwrite=True)
        assert body(target) == body(exported)
        assert memory.status()["index"]["lag"] == 0
        assert any("pebble42" in hit.excerpt for hit in memory.search("pebble42").hits)
    return bool(before)


def spread(calls: int) -> list[int]:
    wanted = min(calls, POINTS)
    return sorted({1 + point * (calls - 1) // max(1, wanted - 1) for point in range(wanted)})


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("what", "kind"), [("fail", "wal-write"), ("fail", "wal-sync"), ("kill", "wal-write"), ("kill", "wal-sync")]
)
def test_an_import_is_there_whole_or_not_at_all(exported: Path, what: str, kind: str) -> None:
    """Whichever write or sync fails, and at whichever of them the process is killed with ``kill -9``."""
    unharmed = child(exported, "unharmed", kind, 0, what)
    assert unharmed.returncode == 0, unharmed.stderr[-2000:]
    first: dict[str, Any] = json.loads(unharmed.stdout)
    assert first["outcome"] == "ok"
    assert check(exported, "unharmed")
    there = []
    for at in spread(first["calls"]):
        done = child(exported, f"at-{at}", kind, at, what)
        if what == "kill":
            assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]
            outcome = "killed"
        else:
            assert done.returncode == 0, done.stderr[-2000:]
            answer = json.loads(done.stdout)
            assert answer["reached"]
            outcome = answer["outcome"]
            # the index may fail after the store has committed: then the import is there, and says so
            assert outcome in TYPED | {"ok", "partial"}, outcome
        complete = check(exported, f"at-{at}")
        there.append(complete)
        if what == "fail":
            assert complete == (outcome in ("ok", "partial")), (at, outcome)
    if (what, kind) != ("kill", "wal-sync"):  # what was written whole outlives a kill without its sync
        assert not there[0], "the first call is before the commit"


FULL = """
import resource, sys
from pathlib import Path
from memory_sqlite import Memory, errors
from memory_sqlite.config import Settings
with Memory.open(settings=Settings(data_dir=Path(sys.argv[1]), agent="alpha"), read_only=True) as memory:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    try:
        memory.export(sys.argv[2])
    except errors.MemorySqliteError as error:
        print(error.code)
"""
KILLED = """
import os, signal, sys
from pathlib import Path
from memory_sqlite import Memory
from memory_sqlite.config import Settings
with Memory.open(settings=Settings(data_dir=Path(sys.argv[1]), agent="alpha"), read_only=True) as memory:
    memory.export(sys.argv[2], progress=lambda stage, done, total: os.kill(os.getpid(), signal.SIGKILL))
"""


def test_an_export_that_finds_no_room_leaves_nothing(exported: Path) -> None:
    """A file that may not grow further: typed, and neither a file of that name nor another is left."""
    place = exported.parent / "out"
    place.mkdir()
    data = str(exported.parent / "data")
    done = subprocess.run(
        [sys.executable, "-c", FULL, data, str(place / "c.jsonl")],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "disk_full\n"
    assert list(place.iterdir()) == []


def test_a_killed_export_takes_no_name(exported: Path) -> None:
    """``kill -9`` in the middle: what lies there is not the export, and making it again works."""
    place = exported.parent / "out"
    place.mkdir()
    data = exported.parent / "data"
    done = subprocess.run([sys.executable, "-c", KILLED, str(data), str(place / "c.jsonl")], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (place / "c.jsonl").exists()
    assert all(path.name.startswith(".c.jsonl.") and path.name.endswith(".partial") for path in place.iterdir())
    with Memory.open(settings=Settings(data_dir=data, agent="alpha"), read_only=True) as memory:
        memory.export(place / "c.jsonl")
    assert body(place / "c.jsonl") == body(exported)


STEPS = """
import os, signal, sys
from pathlib import Path
from memory_sqlite import Memory
from memory_sqlite.config import Settings
from memory_sqlite.interop import jsonl_import
jsonl_import._STEP_LINES = 100
def kill(stage, done, total):
    if stage == "importing":
        os.kill(os.getpid(), signal.SIGKILL)
with Memory.open(settings=Settings(data_dir=Path(sys.argv[1]), agent="beta")) as memory:
    memory.import_jsonl(sys.argv[2], steps=True, progress=kill)
"""


def test_an_import_in_steps_is_gone_on_with_after_a_kill(exported: Path) -> None:
    """``kill -9`` in the middle leaves whole sessions; the next import adds the rest, and it is as if at once."""
    data, target = exported.parent / "data", exported.with_name("b.jsonl")
    done = subprocess.run([sys.executable, "-c", STEPS, str(data), str(exported)], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    with Memory.open(settings=Settings(data_dir=data, agent="beta")) as memory:
        whole = {row["session"]: row["messages"] for row in memory.sessions()}
        assert 0 < len(whole) < 6 and set(whole.values()) <= {62, 64}
        report = memory.import_jsonl(exported, steps=True)
        assert report.present["session"] == len(whole) and report.added["session"] == 6 - len(whole)
        assert report.present["message"] == sum(whole.values()) and report.present["record"] == 0
        assert not any([*report.conflicts.values(), *report.forgotten.values()])
        memory.export(target)
        assert body(target) == body(exported)
        assert memory.status()["index"]["lag"] == 0


KILLED_FOLDER = """
import os, signal, sys
from pathlib import Path
from memory_sqlite import Memory
from memory_sqlite.config import Settings
from memory_sqlite.interop import layered_export, transcripts_out
layered_export._EVERY = transcripts_out._EVERY = 50
def kill(stage, done, total):
    os.kill(os.getpid(), signal.SIGKILL)
with Memory.open(settings=Settings(data_dir=Path(sys.argv[1]), agent="alpha"), read_only=True) as memory:
    getattr(memory, sys.argv[3])(sys.argv[2], progress=kill)
"""


def test_a_killed_export_of_a_folder_takes_no_name(exported: Path) -> None:
    """``kill -9`` in the middle: what lies there has another name, and making it again works."""
    data = str(exported.parent / "data")
    for way in ("export_layered", "export_transcripts"):
        place = exported.parent / way
        place.mkdir()
        words = [sys.executable, "-c", KILLED_FOLDER, data, str(place / "c"), way]
        assert subprocess.run(words, timeout=60, check=False).returncode == -signal.SIGKILL
        (left,) = place.iterdir()
        assert left.name.startswith(".c.") and left.name.endswith(".partial") and left.stat().st_mode & 0o077 == 0
        with Memory.open(settings=Settings(data_dir=Path(data), agent="alpha"), read_only=True) as memory:
            getattr(memory, way)(place / "c")
            assert len(list((place / "c").rglob("*.jsonl"))) >= 6
