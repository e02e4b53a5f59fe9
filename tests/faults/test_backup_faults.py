"""Backups and restores on a disk that fails, on a full one, and killed in the middle: the target is there whole or not
at all, the source is as it was, and the next attempt is not in the way of the last."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.backup import making
from memory_sqlite.backup.restoring import restore
from memory_sqlite.backup.verifying import verify
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings

CHILD = Path(__file__).with_name("child_backup_faults.py")
POINTS = max(4, int(os.environ.get("MEMORY_SQLITE_SWEEP", "0")))
"""Steps of each kind of work at which a process is killed, each in a process of its own."""
CLOCK = Clock()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two agents in ``data`` and a backup ``b`` of them, after which one forgot a session; made once."""
    place = tmp_path_factory.mktemp("made")
    for agent in ("main", "ann"):
        with Memory.open(settings=Settings(data_dir=place / "data", agent=agent)) as memory:
            for number in range(6):
                memory.remember(
                    session=f"s{number % 3}",
                    messages=[{"role": "user", "content": f"I like pebble{number}. {'stone ' * 200}"}],
                    sender_is_owner=True,
                )
    making.make(Settings(data_dir=place / "data"), place / "b", CLOCK)
    with Memory.open(settings=Settings(data_dir=place / "data")) as memory:
        memory.forget(sessions=["s0"])
    return place


@pytest.fixture
def data(made: Path, tmp_path: Path) -> Path:
    """Copies of both, for one test."""
    shutil.copytree(made / "b", tmp_path / "b")
    return Path(shutil.copytree(made / "data", tmp_path / "data"))


def tree(path: Path) -> dict[str, bytes]:
    """Every file but what SQLite leaves of reading: the index of an empty log."""
    found = {str(one.relative_to(path)): one.read_bytes() for one in path.rglob("*") if one.is_file()}
    return {name: held for name, held in found.items() if not name.endswith("-shm") and (held or "-wal" not in name)}


def whole_or_absent(target: Path) -> bool:
    """Whether it is there; what is there is sound."""
    if not target.exists():
        return False
    assert verify(target, Settings(), CLOCK).status == "ok"
    return True


def run(data: Path, what: str, target: Path) -> Any:
    if what == "backup":
        return making.make(Settings(data_dir=data), target, CLOCK)
    return restore(data.parent / "b", Settings(data_dir=target), CLOCK, tombstones_from=[data])


@pytest.mark.parametrize("what", ["backup", "restore"])
@pytest.mark.parametrize("call", ["open", "write", "fsync", "mkdir", "rename"])
def test_each_call_of_the_system_fails_in_turn(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, call: str
) -> None:
    """Typed, and nothing is left, whichever write, sync or rename it is. A full disk is told as one."""
    before = tree(data), tree(tmp_path / "b")
    place = tmp_path / "place"
    place.mkdir()
    real: Callable[..., Any] = getattr(os, call)
    at = 0
    failed = True
    while failed:
        at, calls, failed = at + 1, 0, False

        def wrong(*arguments: Any, **more: Any) -> Any:
            nonlocal calls, failed
            calls += 1
            if calls == at:  # noqa: B023
                failed = True
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*arguments, **more)

        with monkeypatch.context() as patch:
            patch.setattr(os, call, wrong)
            problems: tuple[str, ...] = ()
            try:
                report = run(data, what, place / "target")
                done, problems = report.status, report.problems
            except errors.MemorySqliteError as error:
                done = error.code
        there = whole_or_absent(place / "target")
        assert sorted(path.name for path in place.iterdir()) == (["target"] if there else [])
        if not failed:
            assert (done, there) == ("ok", True)
        elif call != "open":  # that fails for reading, too, also in the directory that is only looked into
            assert done == "disk_full", at
        else:
            assert done != "ok" or problems, at
        if there:
            for path in sorted((place / "target").rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
            (place / "target").rmdir()
    assert at > (1 if call == "rename" else 2), "each was visited"
    assert (tree(data), tree(tmp_path / "b")) == before


def child(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(CHILD), *words], capture_output=True, text=True, timeout=200, check=False
    )


@pytest.mark.parametrize("kind", ["main-write", "main-truncate"])
def test_each_write_of_sqlite_fails_in_turn(data: Path, tmp_path: Path, kind: str) -> None:
    """While the stores are copied: typed, and nothing is left."""
    before = tree(data)
    (tmp_path / "work").mkdir()
    done = child("disk", str(data), str(tmp_path / "work"), kind)
    assert done.returncode == 0, done.stderr[-2000:]
    *failed, last = json.loads(done.stdout)
    assert last == ["ok", ["target"], False]
    for said, left, reached in failed:
        assert reached
        assert said in ("disk_full", "store_read_only")
        assert left == []
    assert kind == "main-truncate" or len(failed) > 5
    assert tree(data) == before


@pytest.mark.sweep
@pytest.mark.parametrize("what", ["backup", "restore"])
def test_killed_at_any_step(data: Path, tmp_path: Path, what: str) -> None:
    """``kill -9``: nothing half has the name, the source is whole, and the next attempt takes the leftovers away."""
    before = tree(data), tree(tmp_path / "b")
    place = tmp_path / "place"
    place.mkdir()
    (place / "b").symlink_to(tmp_path / "b")
    counted = json.loads(child("kill", str(data), str(place), what, "0").stdout)
    assert counted["outcome"] == "ok"
    steps = counted["steps"]
    wanted = min(steps, POINTS)
    for at in sorted({1 + point * (steps - 1) // max(1, wanted - 1) for point in range(wanted)}):
        work = tmp_path / f"at{at}"
        work.mkdir()
        (work / "b").symlink_to(tmp_path / "b")
        done = child("kill", str(data), str(work), what, str(at))
        assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]
        if whole_or_absent(work / "target"):
            assert at > 1
            continue
        assert run(data, what, work / "target").status == "ok"
        assert whole_or_absent(work / "target")
        assert sorted(path.name for path in work.iterdir()) == ["b", "target"]
    assert (tree(data), tree(tmp_path / "b")) == before


@pytest.mark.parametrize("what", ["backup", "restore"])
def test_no_room_in_the_middle_of_a_file(data: Path, tmp_path: Path, what: str) -> None:
    """A file that may not grow further: typed, and nothing is left."""
    before = tree(data)
    work = tmp_path / "work"
    work.mkdir()
    (work / "b").symlink_to(tmp_path / "b")
    done = child("full", str(data), str(work), what)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == "disk_full"
    assert [path.name for path in work.iterdir()] == ["b"]
    assert tree(data) == before
