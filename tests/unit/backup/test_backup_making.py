"""Making a backup: what is in it, that it is what the stores were, and where it refuses."""

from __future__ import annotations

import functools
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory, errors, limits, paths
from memory_sqlite.backup import checking, making, manifest
from memory_sqlite.backup.restoring import restore
from memory_sqlite.backup.verifying import verify
from memory_sqlite.clock import Clock, FixedClock
from memory_sqlite.config import Settings
from memory_sqlite.crypto import directory_lock

CLOCK = Clock()


def everything(path: Path) -> set[str]:
    return {str(one.relative_to(path)) for one in path.rglob("*") if one.is_file()}


def stores(*agents: str) -> set[str]:
    return {f"agents/{paths.agent_directory_name(agent)}/memory.sqlite" for agent in agents}


def test_a_backup_is_the_stores_their_key_and_a_manifest(
    data: Path, settings: Settings, tmp_path: Path, rows: Callable[..., Any], later: FixedClock
) -> None:
    """No index, nothing that was not there, and every row as it was; names and numbers of the report are true."""
    report = making.make(settings, tmp_path / "b", later)
    assert everything(tmp_path / "b") == {"manifest.json", "session.key", *stores("main", "ann")}
    assert (report.status, report.created_at, report.encrypted, report.key_ids) == ("ok", later.ms, False, ())
    assert {one.agent for one in report.agents} == {"main", "ann"}
    assert report.files == 4
    assert report.bytes == sum((tmp_path / "b" / name).stat().st_size for name in everything(tmp_path / "b"))
    assert (tmp_path / "b" / "session.key").read_bytes() == (data / "session.key").read_bytes()
    for agent in ("main", "ann"):
        assert rows(tmp_path / "b", agent) == rows(data, agent)
    assert next(one for one in report.agents if one.agent == "main").counts["messages"] == 24
    assert verify(tmp_path / "b", settings, CLOCK).status == "ok"


def test_case_C124_only_its_owner_may_read_it(settings: Settings, tmp_path: Path) -> None:
    """Directories 0700, files 0600, whatever the umask is."""
    before = os.umask(0)
    try:
        making.make(settings, tmp_path / "b", CLOCK)
    finally:
        os.umask(before)
    for place in (tmp_path / "b", *(tmp_path / "b").rglob("*")):
        assert stat.S_IMODE(place.stat().st_mode) == (0o700 if place.is_dir() else 0o600), place


def test_a_copy_needs_no_files_beside_it(data: Path, settings: Settings, tmp_path: Path) -> None:
    """Not a WAL file: what lies on media that cannot be written can be read and proved."""
    making.make(settings, tmp_path / "b", CLOCK)
    for name in stores("main", "ann"):
        assert (tmp_path / "b" / name).read_bytes()[18:20] == b"\x01\x01"
        assert (data / name).read_bytes()[18:20] == b"\x02\x02"


def test_what_is_in_the_log_is_in_the_backup(settings: Settings, tmp_path: Path, rows: Callable[..., Any]) -> None:
    """A host has it open, and its last turn is in the WAL alone."""
    with Memory.open(settings=settings) as memory:
        memory.remember(session="s9", messages=[{"role": "user", "content": "The last word."}])
        assert (paths.agent_directory(settings.data_dir, "main") / "memory.sqlite-wal").stat().st_size
        report = memory.backup(tmp_path / "b")
        assert report.status == "ok"
        assert "The last word." in str(rows(tmp_path / "b")["messages"])


def test_one_agent_alone(settings: Settings, tmp_path: Path) -> None:
    """By the door and by name; one that is not there is an error, and nothing is left."""
    with Memory.open(settings=settings, read_only=True) as memory:
        memory.backup(tmp_path / "own", every_agent=False)
    assert everything(tmp_path / "own") == {"manifest.json", "session.key", *stores("main")}
    making.make(settings, tmp_path / "ann", CLOCK, agents=["ann", "ann"])
    assert everything(tmp_path / "ann") == {"manifest.json", "session.key", *stores("ann")}
    with pytest.raises(errors.UnknownAgent):
        making.make(settings, tmp_path / "c", CLOCK, agents=["ann", "anna"])
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("there", ["file", "full", "link", "dangling"])
def test_it_takes_nobodys_place(settings: Settings, tmp_path: Path, there: str) -> None:
    """What is at that place already stays what it is."""
    place = tmp_path / "b"
    if there == "file":
        place.write_text("mine")
    elif there == "full":
        place.mkdir()
        (place / "x").write_text("mine")
    else:
        (tmp_path / "empty").mkdir()
        place.symlink_to(tmp_path / ("empty" if there == "link" else "nowhere"))
    before = sorted(tmp_path.iterdir())
    worked: list[str] = []
    with pytest.raises(errors.OutputExists):
        making.make(settings, place, CLOCK, lambda stage, done, total: worked.append(stage))
    assert worked == [], "told before the work is done"
    assert sorted(tmp_path.iterdir()) == before
    assert place.is_symlink() or (place.read_text() if there == "file" else (place / "x").read_text()) == "mine"


def test_somebody_who_was_faster_keeps_the_place(settings: Settings, tmp_path: Path) -> None:
    """A file that comes there while the backup is made is not replaced."""

    def come(stage: str, done: int, total: int | None) -> None:
        (tmp_path / "b").mkdir(exist_ok=True)
        (tmp_path / "b" / "x").write_text("mine")

    with pytest.raises(errors.OutputExists):
        making.make(settings, tmp_path / "b", CLOCK, come)
    assert everything(tmp_path / "b") == {"x"}
    assert list(tmp_path.glob("*.partial")) == []


def test_another_one_to_the_same_place_does_not_disturb_it(settings: Settings, tmp_path: Path) -> None:
    """While one is being made a second one is made and finished: what the first has is not taken for a leftover; it
    finds its place taken, and says so."""
    left: list[int] = []

    def second(stage: str, done: int, total: int | None) -> None:
        if not left:
            making.make(settings, tmp_path / "b", CLOCK)
            left.append(len(list(tmp_path.glob(".b.*.partial/agents"))))

    with pytest.raises(errors.OutputExists):
        making.make(settings, tmp_path / "b", CLOCK, second)
    assert left == [1]
    assert verify(tmp_path / "b", settings, CLOCK).status == "ok"
    assert list(tmp_path.glob("*.partial")) == []


def test_not_while_keys_are_being_changed(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has the data directory alone is waited for, and then it is told; also when it is to be proved."""
    monkeypatch.setattr(directory_lock, "hold", functools.partial(directory_lock.hold, wait_s=0))
    alone = directory_lock.alone(settings.data_dir)
    for work in (
        lambda: making.make(settings, tmp_path / "b", CLOCK),
        lambda: verify(settings.data_dir, settings, CLOCK),
    ):
        with pytest.raises(errors.DirectoryInUse):
            work()
    alone.close()
    assert not (tmp_path / "b").exists()
    assert making.make(settings, tmp_path / "b", CLOCK).status == "ok"


def test_an_empty_directory_is_a_place(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir(mode=0o755)
    making.make(settings, tmp_path / "b", CLOCK)
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o700
    assert verify(tmp_path / "b", settings, CLOCK).status == "ok"


def test_places_that_make_no_sense(data: Path, settings: Settings, tmp_path: Path) -> None:
    """Inside what is backed up, also by way of a link; in a folder that is not there."""
    (tmp_path / "way").symlink_to(data)
    for place in (data / "b", data / "agents" / "b", tmp_path / "way" / "b", tmp_path / "no" / "b"):
        with pytest.raises(errors.InvalidArgument):
            making.make(settings, place, CLOCK)


def test_a_backup_of_a_backup_is_a_copy_of_it(settings: Settings, tmp_path: Path) -> None:
    """It would call old content new; a backup is copied as any directory, and the copy is proved."""
    making.make(settings, tmp_path / "b", CLOCK)
    with pytest.raises(errors.InvalidArgument, match="itself a backup"):
        making.make(Settings(data_dir=tmp_path / "b"), tmp_path / "c", CLOCK)
    assert not (tmp_path / "c").exists()


def test_what_was_restored_can_be_backed_up_again(settings: Settings, tmp_path: Path, rows: Callable[..., Any]) -> None:
    """It is a data directory like any other: no manifest is left in it."""
    making.make(settings, tmp_path / "b", CLOCK)
    again = Settings(data_dir=tmp_path / "new")
    restore(tmp_path / "b", again, CLOCK)
    making.make(again, tmp_path / "c", CLOCK)
    assert rows(tmp_path / "c") == rows(tmp_path / "b")


def test_nothing_to_back_up(tmp_path: Path) -> None:
    """An error, and no empty backup that somebody would rely on."""
    with pytest.raises(errors.UnknownAgent):
        making.make(Settings(data_dir=tmp_path / "nowhere"), tmp_path / "b", CLOCK)
    assert list(tmp_path.iterdir()) == []


READER = """
import os, sys, tempfile
from pathlib import Path
from memory_sqlite import Memory
from memory_sqlite.backup import earlier, making, restoring, verifying
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
# once elsewhere: the other user may not be able to read the places that modules are loaded from
with tempfile.TemporaryDirectory() as first:
    there = Path(first)
    with Memory.open(there / "data") as memory:
        memory.remember(session="s", messages=[{"role": "user", "content": "granite"}])
    making.make(Settings(data_dir=there / "data"), there / "b", Clock())
    verifying.verify(there / "data", Settings(), Clock())
if os.geteuid() == 0:
    os.setgid(65534); os.setuid(65534)
data, out = Path(sys.argv[1]), Path(sys.argv[2])
tempfile.tempdir = str(out)
print(making.make(Settings(data_dir=data), out / "b", Clock()).agents[0].counts["messages"])
print(verifying.verify(data, Settings(), Clock()).status)
print(sorted(os.listdir(out)))
"""


@pytest.mark.parametrize("log", ["without a log", "with a log"])
def test_from_media_that_cannot_be_written(data: Path, log: str) -> None:
    """Nothing is made beside the store; what lies in its log is in the backup all the same."""
    shared = Path(tempfile.mkdtemp(prefix="memory-sqlite-test-"))
    try:
        if log == "with a log":
            with Memory.open(settings=Settings(data_dir=data)) as memory:
                memory.remember(session="s9", messages=[{"role": "user", "content": "The last word."}])
                # by a child: reading a store's bytes in its process would drop SQLite's locks
                subprocess.run(["cp", "-r", str(data), str(shared / "data")], check=True)
        else:
            shutil.copytree(data, shared / "data")
        shutil.rmtree(paths.agent_directory(shared / "data", "ann"))
        for one in shared.rglob("*"):
            if one.name.endswith("-shm"):
                one.unlink()
        (shared / "out").mkdir()
        for one in (shared, *shared.rglob("*")):
            one.chmod(0o777 if one.name == "out" else 0o555 if one.is_dir() else 0o444)
        before = everything(shared / "data")
        words = [sys.executable, "-c", READER, str(shared / "data"), str(shared / "out")]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True, cwd="/")
        assert done.stdout.split("\n")[:3] == ["25" if log == "with a log" else "24", "ok", "['b']"]
        assert everything(shared / "data") == before
    finally:
        for one in (shared, *shared.rglob("*")):
            if one.is_dir():
                one.chmod(0o700)
        shutil.rmtree(shared)


def test_a_damaged_store_is_not_backed_up(data: Path, settings: Settings, tmp_path: Path) -> None:
    """It could not be restored: the error says so now, while the last good backup may still be there."""
    store = data / next(iter(stores("ann")))
    content = bytearray(store.read_bytes())
    content[4096 * 3 : 4096 * 6] = os.urandom(4096 * 3)
    store.write_bytes(content)
    with pytest.raises(errors.StoreDamaged, match=f"^{store.parent.name}: "):
        making.make(settings, tmp_path / "b", CLOCK)
    assert not (tmp_path / "b").exists()
    assert bytes(content) == store.read_bytes()
    making.make(settings, tmp_path / "main", CLOCK, agents=["main"])


def test_an_empty_store_is_left_out_and_told(data: Path, settings: Settings, tmp_path: Path) -> None:
    """What a crash leaves between making the file and its tables is no reason to back up nobody."""
    store = paths.agent_directory(data, "new") / paths.STORE_FILE
    store.parent.mkdir()
    store.touch()
    report = making.make(settings, tmp_path / "b", CLOCK)
    assert report.status == "partial"
    assert [problem.partition(":")[0] for problem in report.problems] == [store.parent.name]
    assert {one.agent for one in report.agents} == {"main", "ann"}
    assert verify(tmp_path / "b", settings, CLOCK).status == "ok"


def test_a_copy_beside_is_left_out_and_told(data: Path, settings: Settings, tmp_path: Path) -> None:
    """A folder that somebody copied by hand is no agent, and no reason to back up nobody."""
    folder = paths.agent_directory(data, "ann")
    shutil.copytree(folder, folder.with_name(folder.name + ".bak"))
    report = making.make(settings, tmp_path / "b", CLOCK)
    assert report.status == "partial"
    assert report.problems[0].startswith(f"{folder.name}.bak: ")
    assert verify(tmp_path / "b", settings, CLOCK).status == "ok"


def test_a_manifest_that_cannot_be_read_back_is_no_backup(settings: Settings, tmp_path: Path) -> None:
    """Another program's table with a name beyond all bounds: an error now, and not when it is needed."""
    with Memory.open(settings=settings) as memory:
        rooms = memory.rooms()
        assert rooms is not None
        rooms.opened.store.connection.execute(f"CREATE TABLE {'x' * 201} (y)").fetchall()
    with pytest.raises(errors.BackupInvalid):
        making.make(settings, tmp_path / "b", CLOCK)
    assert not (tmp_path / "b").exists()


def test_a_linked_store_is_refused(data: Path, settings: Settings, tmp_path: Path) -> None:
    """Links are not followed out of the data directory."""
    place = paths.agent_directory(data, "ann")
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(errors.StoreDamaged):
        making.make(settings, tmp_path / "b", CLOCK)


def test_a_copy_with_other_rows_is_no_backup(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of the copy are held against those of the snapshot."""
    real, calls = checking.counts, []

    def wrong(connection: Any) -> dict[str, int]:
        calls.append(1)
        return {**real(connection), **({"messages": 23} if len(calls) == 1 else {})}

    monkeypatch.setattr(checking, "counts", wrong)
    with pytest.raises(errors.StoreDamaged, match="other rows"):
        making.make(settings, tmp_path / "b", CLOCK)
    assert not (tmp_path / "b").exists()


def test_tables_of_others_come_along(data: Path, settings: Settings, tmp_path: Path) -> None:
    """A replicator keeps tables of its own in the store; they are counted and copied as they are."""
    with Memory.open(settings=settings) as memory:
        rooms = memory.rooms()
        assert rooms is not None
        rooms.opened.store.connection.execute(
            'CREATE TABLE "odd "" name" (x); INSERT INTO "odd "" name" VALUES (1)'
        ).fetchall()
    report = making.make(settings, tmp_path / "b", CLOCK)
    assert next(one for one in report.agents if one.agent == "main").counts['odd " name'] == 1
    assert verify(tmp_path / "b", settings, CLOCK).status == "ok"


def test_progress_is_told_and_grows(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In bytes of all stores, to the end."""
    monkeypatch.setattr(limits, "BACKUP_STEP_PAGES", 10)
    heard: list[tuple[str, int, int | None]] = []
    making.make(settings, tmp_path / "b", CLOCK, lambda *said: heard.append(said))
    assert {stage for stage, _, _ in heard} == {"copying"}
    done = [one for _, one, _ in heard]
    assert done == sorted(done)
    assert len(set(done)) > 4
    assert heard[-1][1] == heard[-1][2]


def test_leftovers_of_the_killed_go_and_those_of_the_living_stay(settings: Settings, tmp_path: Path) -> None:
    """The lock on a directory beside the place tells; names of others are not touched."""
    dead, alive, others = (tmp_path / name for name in (
        ".b.1.0123456789ab.partial", ".b.2.0123456789ab.partial", ".b.x.partial"))  # fmt: skip
    for place in (dead, alive, others):
        place.mkdir()
        (place / "memory").write_text("text")
    held = directory_lock.hold(alive)
    making.make(settings, tmp_path / "b", CLOCK)
    held.close()
    assert not dead.exists()
    assert (alive / "memory").exists()
    assert (others / "memory").exists()


def test_the_manifest_says_what_there_is(settings: Settings, tmp_path: Path, later: FixedClock) -> None:
    """The documented fields, in order."""
    making.make(settings, tmp_path / "b", later)
    document = json.loads((tmp_path / "b" / "manifest.json").read_text())
    assert list(document) == [
        "format", "version", "created_at", "session_key", "encrypted", "key_ids", "agents", "files", "digest",
    ]  # fmt: skip
    assert (document["format"], document["version"], document["created_at"]) == ("memory-sqlite backup", 1, later.ms)
    assert manifest.read(tmp_path / "b").agents[0].counts == document["agents"][0]["counts"]
    assert manifest.key_ids(tmp_path / "b") == ()


def test_disabled_memory_backs_nothing_up(data: Path, tmp_path: Path) -> None:
    report = making.make(Settings(data_dir=data, enabled=False), tmp_path / "b", CLOCK)
    assert report.status == "disabled"
    assert not (tmp_path / "b").exists()


def test_afterwards_nobody_holds_the_directories(data: Path, settings: Settings, tmp_path: Path) -> None:
    """Keys can be changed when a backup, a proof or a restore is over, in the same process too."""
    making.make(settings, tmp_path / "b", CLOCK)
    verify(data, settings, CLOCK)
    restore(tmp_path / "b", Settings(data_dir=tmp_path / "new"), CLOCK, tombstones_from=[data])
    for place in (data, tmp_path / "b", tmp_path / "new"):
        directory_lock.alone(place).close()
