"""Restoring: everything comes back as it was, into a place that is empty, and is used as before."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import pytest

from memory_sqlite import Memory, errors, paths
from memory_sqlite.backup import making
from memory_sqlite.backup.restoring import restore
from memory_sqlite.backup.verifying import verify
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings

CLOCK = Clock()


def test_everything_comes_back(data: Path, settings: Settings, tmp_path: Path, rows: Callable[..., Any]) -> None:
    """Every row, the session tokens and with them the citations; searched at once; the backup as it was."""
    with Memory.open(settings=settings) as memory:
        before = memory.search("pebble7").hits[0]
    making.make(settings, tmp_path / "b", CLOCK)
    report = restore(tmp_path / "b", Settings(data_dir=tmp_path / "new"), CLOCK)
    assert (report.status, report.files, len(report.agents)) == ("ok", 3, 2)
    assert report.unknown == ("ann", "main")
    assert (report.looked_in, report.came_back, report.forgotten_again) == ((), (), ())
    for agent in ("main", "ann"):
        assert rows(tmp_path / "new", agent) == rows(data, agent)
    assert verify(tmp_path / "b", settings, CLOCK).status == "ok"
    for place in (tmp_path / "new", *(tmp_path / "new").rglob("*")):
        assert stat.S_IMODE(place.stat().st_mode) == (0o700 if place.is_dir() else 0o600)
    with Memory.open(settings=Settings(data_dir=tmp_path / "new")) as memory:
        hit = memory.search("pebble7").hits[0]
        assert (hit.reference, hit.citation, hit.excerpt) == (before.reference, before.citation, before.excerpt)
        again = memory.remember(session="s1", run_id="r7", messages=[{"role": "user", "content": "again"}])
        assert again.status == "duplicate"


def test_into_an_empty_directory_and_below_folders_that_are_not_there(settings: Settings, tmp_path: Path) -> None:
    making.make(settings, tmp_path / "b", CLOCK)
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "empty", tmp_path / "x" / "y" / "z"):
        restore(tmp_path / "b", Settings(data_dir=place), CLOCK)
        assert verify(place, settings, CLOCK).status == "ok"
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o700


def test_never_over_anything(data: Path, settings: Settings, tmp_path: Path, rows: Callable[..., Any]) -> None:
    """Not over a memory, not over one file, not inside the backup."""
    making.make(settings, tmp_path / "b", CLOCK)
    before = rows(data)
    with pytest.raises(errors.OutputExists):
        restore(tmp_path / "b", settings, CLOCK)
    assert rows(data) == before
    with pytest.raises(errors.InvalidArgument):
        restore(tmp_path / "b", Settings(data_dir=tmp_path / "b" / "new"), CLOCK)
    assert verify(tmp_path / "b", settings, CLOCK).status == "ok"


def test_one_agent_of_several(settings: Settings, tmp_path: Path) -> None:
    making.make(settings, tmp_path / "b", CLOCK)
    with pytest.raises(errors.UnknownAgent):
        restore(tmp_path / "b", Settings(data_dir=tmp_path / "new"), CLOCK, agents=["nobody"])
    assert not (tmp_path / "new").exists()
    report = restore(tmp_path / "b", Settings(data_dir=tmp_path / "new"), CLOCK, agents=["ann"])
    assert [one.agent for one in report.agents] == ["ann"]
    assert [path.name for path in (tmp_path / "new" / "agents").iterdir()] == [paths.agent_directory_name("ann")]


def test_a_disk_with_less_room_is_told_before_anything_is_written(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    making.make(settings, tmp_path / "b", CLOCK)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=1_000))
    with pytest.raises(errors.DiskFull):
        restore(tmp_path / "b", Settings(data_dir=tmp_path / "new"), CLOCK)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("version", [1, 2])
def test_a_backup_of_an_older_schema(tmp_path: Path, version: int) -> None:
    """Made before an upgrade: restored as it was and migrated by the first open, or at once where something of it is to
    be forgotten again."""
    frozen = Path(__file__).parents[2] / "fixtures" / "stores" / f"version_{version}.sql"
    data = tmp_path / "data"
    store = paths.agent_directory(data, "main") / paths.STORE_FILE
    store.parent.mkdir(parents=True)
    (data / "session.key").write_bytes(bytes(range(32)))
    connection = apsw.Connection(str(store))
    connection.execute(frozen.read_text(encoding="utf-8")).fetchall()
    connection.close()
    report = making.make(Settings(data_dir=data), tmp_path / "b", CLOCK)
    assert report.agents[0].schema == version
    assert restore(tmp_path / "b", Settings(data_dir=tmp_path / "new"), CLOCK).agents[0].schema == version
    with Memory.open(settings=Settings(data_dir=tmp_path / "new")) as memory:
        assert any("green tea" in hit.excerpt for hit in memory.search("green tea").hits)
        memory.forget(sessions=["direct:ann"])
    again = Settings(data_dir=tmp_path / "again")
    (forgotten,) = restore(tmp_path / "b", again, CLOCK, tombstones_from=[tmp_path / "new"]).forgotten_again
    assert forgotten.sessions == 1
    with Memory.open(settings=again) as memory:
        assert not any("green tea" in hit.excerpt for hit in memory.search("green tea").hits)


def test_disabled_memory_restores_nothing(settings: Settings, tmp_path: Path) -> None:
    making.make(settings, tmp_path / "b", CLOCK)
    off = Settings(data_dir=tmp_path / "new", enabled=False)
    assert restore(tmp_path / "b", off, CLOCK).status == "disabled"
    assert verify(tmp_path / "b", off, CLOCK).status == "disabled"
    assert not (tmp_path / "new").exists()
