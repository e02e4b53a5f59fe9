"""A watch takes notes in as they are written; what it cannot watch is looked at; it ends when it is told to."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory, errors, limits
from memory_sqlite.agent import freshness, watching
from memory_sqlite.agent.note_folders import NoteFolders
from memory_sqlite.agent.watching import Watch
from memory_sqlite.config import ExtraPath
from memory_sqlite.model import IndexReport

pytest.importorskip("watchfiles")
PATIENCE_S = 60.0


def put(path: Path, text: str) -> None:
    """Write a note so that whoever looks sees all of it or none: half a note would be a batch of its own."""
    aside = path.with_name(path.name + ".tmp")
    aside.write_text(text)
    aside.replace(path)


class Heard:
    """What a watch has told."""

    def __init__(self) -> None:
        self.batches: queue.SimpleQueue[IndexReport] = queue.SimpleQueue()
        self.warnings: list[str] = []
        self.warned = threading.Event()

    def warn(self, text: str) -> None:
        self.warnings.append(text)
        self.warned.set()

    def next(self) -> IndexReport:
        return self.batches.get(timeout=PATIENCE_S)


def follow(memory: Memory, heard: Heard) -> Watch:
    watch = memory.watch(on_batch=heard.batches.put, on_warning=heard.warn)
    assert watch.wait_ready(PATIENCE_S)
    return watch


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def watch(memory: Memory, workspace: Path, heard: Heard) -> Iterator[Watch]:
    """A watch over a workspace with one note, which it has taken in."""
    (workspace / "memory" / "real.md").write_text("granite plan\n")
    with follow(memory, heard) as running:
        assert heard.next().added == 1
        yield running


@pytest.fixture
def indexed(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the index holds, without the look that a search takes first."""

    def found(query: str) -> list[str]:
        monkeypatch.setattr(freshness, "freshen", lambda *a, **more: freshness.Freshness())
        return [hit.path for hit in memory.search(query, sources=("memory",)).hits]

    return found


def test_case_C130_both_kinds_of_edit_are_taken_in(watch: Watch, workspace: Path, heard: Heard, indexed: Any) -> None:
    """C130: a write in place and an atomic rename over the note, each without a search that looks."""
    assert indexed("granite") == ["memory/real.md"]
    (workspace / "memory" / "real.md").write_text("basalt plan\n")
    assert heard.next().changed == 1
    while indexed("basalt") != ["memory/real.md"]:  # it may have been seen empty before it was written
        assert heard.next().changed == 1
    put(workspace / "memory" / "real.md", "marble plan\n")
    assert heard.next().changed == 1
    assert indexed("marble") == ["memory/real.md"]
    assert indexed("basalt") == []
    assert heard.warnings == []


def test_case_C130_what_discovery_ignores_is_not_followed(
    memory: Memory, workspace: Path, heard: Heard, indexed: Any
) -> None:
    """C130: editor leftovers and dependency trees make no batch, and no folder of theirs is followed; a loop of links
    ends; no descriptor a file."""
    place = workspace / "memory"
    big = place / "node_modules" / "big"
    big.mkdir(parents=True)
    for number in range(500):
        (big / f"{number}.md").write_text("granite")
        (place / f"n{number}.md").write_text(f"pebble{number}")
    (place / ".git").mkdir()
    (place / "loop").symlink_to("..")
    before = len(list(Path("/proc/self/fd").iterdir()))
    with follow(memory, heard) as watch:
        assert watch.native
        assert watch.folders == 2
        assert len(list(Path("/proc/self/fd").iterdir())) - before < 20
        added = 0
        while added < 500:
            added += heard.next().added
        for name in (".real.md.swp", "#real.md#", "real.md~", "real.md.tmp", "node_modules/x.md", ".git/y.md"):
            (place / name).write_text("granite leftover")
        (place / ".#real.md").symlink_to("nowhere")
        put(place / "real.md", "granite plan\n")
        assert heard.next().added == 1
        assert indexed("granite") == ["memory/real.md"]
        assert heard.batches.empty()


def test_inv_099_folders_that_come_go_and_are_replaced(
    watch: Watch, workspace: Path, heard: Heard, indexed: Any
) -> None:
    """A note in a folder that was made after the watch began is followed, also when the folder is replaced by another
    one of the same name; a deleted folder takes its notes along."""
    place = workspace / "memory" / "trip"
    place.mkdir()
    put(place / "day.md", "slate\n")
    assert heard.next().added == 1
    shutil.move(place, workspace / "aside")
    place.mkdir()
    put(place / "day.md", "gneiss\n")
    while not indexed("gneiss"):
        heard.next()
    with (place / "day.md").open("a") as file:
        file.write("schist\n")
    while not indexed("schist"):
        heard.next()
    shutil.rmtree(place)
    while indexed("schist"):
        heard.next()
    assert indexed("slate") == []


def test_inv_097_note_that_is_still_being_written_is_waited_for(
    memory: Memory, workspace: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the system reports is gathered until writing has settled, but not for ever: the library that gathers is told
    both times, and what it gives at once is one batch, however many writes it was."""
    gathered: queue.SimpleQueue[set[Any]] = queue.SimpleQueue()
    asked: list[dict[str, Any]] = []

    class Gathers:
        Change = watching.library().Change

        @staticmethod
        def watch(*folders: str, stop_event: threading.Event, **options: Any) -> Iterator[set[Any]]:
            asked.append(options)
            while not stop_event.is_set():
                try:
                    yield gathered.get(timeout=0.05)
                except queue.Empty:
                    yield set()

    monkeypatch.setattr(watching, "library", lambda: Gathers)
    path = workspace / "memory" / "long.md"
    with follow(memory, heard):
        changes = set()
        with path.open("w") as file:
            for number in range(20):
                file.write(f"## part {number}\n\npebble{number}\n\n")
                file.flush()
                changes.add((Gathers.Change.modified, str(path), number))
        assert heard.batches.empty(), "nothing was reported yet"
        gathered.put(changes)
        report = heard.next()
        assert (report.added, report.changed) == (1, 0)
    assert heard.batches.empty()
    assert asked[0]["step"] == limits.WATCH_SETTLE_S * 1000 == 200
    assert asked[0]["debounce"] == limits.WATCH_SETTLE_MAX_S * 1000 == 5_000


def test_what_is_written_without_a_pause_is_all_taken_in(
    watch: Watch, workspace: Path, heard: Heard, indexed: Any
) -> None:
    """The real library: in however many batches it comes, the last part is found."""
    with (workspace / "memory" / "long.md").open("w") as file:
        for number in range(20):
            file.write(f"## part {number}\n\npebble{number}\n\n")
            file.flush()
    while not indexed("pebble19"):
        heard.next()
    assert indexed("pebble0") == ["memory/long.md"]


@pytest.mark.parametrize("failure", [OSError("OS file watch limit reached."), OSError(24, "Too many open files")])
def test_inv_098_case_C130_without_watches_it_looks_and_says_so_once(
    memory: Memory, workspace: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch, failure: OSError
) -> None:
    """The host runs out of watches or descriptors: one warning; the notes are looked at all the same, by the watch now
    and then and by every search."""

    class NoWatches:
        Change = watching.library().Change

        @staticmethod
        def watch(*folders: str, **options: Any) -> Iterator[set[Any]]:
            raise failure

    monkeypatch.setattr(watching, "library", lambda: NoWatches)
    monkeypatch.setattr(limits, "WATCH_POLL_S", 0.05)
    (workspace / "memory" / "a.md").write_text("granite\n")
    with follow(memory, heard) as watch:
        assert heard.next().added == 1
        put(workspace / "memory" / "b.md", "basalt\n")
        assert heard.next().added == 1
        assert not watch.native
        assert len(heard.warnings) == 1
        assert "every search looks for itself" in heard.warnings[0]
    assert memory.search("basalt").hits


def test_inv_097_a_note_that_is_written_while_another_is_taken_in_is_not_lost(
    watch: Watch, workspace: Path, heard: Heard, indexed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its event comes in the middle of a batch, after that has looked at the folder: it is the next batch."""
    real = freshness.take_in

    def taking_in(*arguments: Any) -> Any:
        report = real(*arguments)
        if report.added:
            monkeypatch.setattr(freshness, "take_in", real)
            put(workspace / "memory" / "c.md", "gneiss\n")
        return report

    monkeypatch.setattr(freshness, "take_in", taking_in)
    put(workspace / "memory" / "b.md", "basalt\n")
    assert heard.next().added == 1
    assert heard.next().added == 1
    assert (indexed("basalt"), indexed("gneiss")) == (["memory/b.md"], ["memory/c.md"])


def test_inv_097_a_failure_is_told_once_and_made_good(
    watch: Watch, workspace: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the index cannot be written nothing is lost: the watch tries again until it can, and warned once; when it
    happens again later, once more."""
    real = freshness.take_in
    failures = []

    def busy(*arguments: Any) -> Any:
        if len(failures) < 3:
            failures.append(1)
            raise errors.StoreBusy("locked")
        return real(*arguments)

    monkeypatch.setattr(freshness, "take_in", busy)
    put(workspace / "memory" / "b.md", "basalt\n")
    assert heard.next().added == 1
    assert len(failures) == 3
    assert len(heard.warnings) == 1
    assert "store_busy" in heard.warnings[0]
    failures.clear()
    put(workspace / "memory" / "c.md", "marble\n")
    assert heard.next().added == 1
    assert len(heard.warnings) == 2


def test_a_host_whose_callback_fails_goes_on_being_served(memory: Memory, workspace: Path, heard: Heard) -> None:
    """An exception of ``on_batch`` is told, without its text, and the watch goes on."""

    def fail(report: IndexReport) -> None:
        heard.batches.put(report)
        raise ValueError("secret")

    with memory.watch(on_batch=fail, on_warning=heard.warn) as watch:
        assert watch.wait_ready(PATIENCE_S)
        for name in ("a.md", "b.md"):
            put(workspace / "memory" / name, "granite\n")
            assert heard.next().added == 1
        assert heard.warned.wait(PATIENCE_S)
        assert watch.running
    assert all("secret" not in text and "ValueError" in text for text in heard.warnings)


def test_inv_099_closing_the_memory_ends_its_watch(memory: Memory, watch: Watch, workspace: Path, heard: Heard) -> None:
    """The memory waits for its watch, though it holds the lock the watch may be waiting for; a closed watch delivers
    nothing."""
    memory.close()
    assert not watch.running
    put(workspace / "memory" / "b.md", "basalt\n")
    watch.close()
    assert heard.batches.empty()
    assert heard.warnings == []


def test_inv_099_close_does_not_wait_for_the_lock(memory: Memory, watch: Watch, workspace: Path, heard: Heard) -> None:
    """A watch that waits for a long write of this process ends when it is told to, and takes nothing in."""
    waits = threading.Event()

    class Asked:
        """The memory's lock, which tells that it was asked for."""

        def acquire(self, timeout: float) -> bool:
            waits.set()
            return memory._lock.acquire(timeout=timeout)

        def release(self) -> None:
            memory._lock.release()

    watch._lock = Asked()  # type: ignore[assignment]
    with memory._lock:
        put(workspace / "memory" / "b.md", "basalt\n")
        assert waits.wait(PATIENCE_S)
        watch.close()
    assert not watch.running
    assert heard.batches.empty()


def test_what_cannot_be_watched_is_refused(tmp_path: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No workspace, a read-only memory, a missing package: each its own error, the last with the command to run."""
    with Memory.open(tmp_path / "other") as bare, pytest.raises(errors.WorkspaceUnavailable):
        bare.watch()
    with Memory.open(tmp_path / "data", read_only=True) as reader, pytest.raises(errors.StoreReadOnly):
        reader.watch()
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    with pytest.raises(errors.ExtraMissing) as caught:
        memory.watch()
    assert 'pip install "memory-sqlite[watch]"' in caught.value.hint


def test_folders_of_extra_paths(tmp_path: Path, workspace: Path) -> None:
    """An extra folder is followed with what is below it, an extra file by its folder; a pattern lets any name count."""
    (tmp_path / "extra" / "below").mkdir(parents=True)
    (tmp_path / "one").mkdir()
    single = tmp_path / "one" / "list.txt"
    single.write_text("granite")
    here = NoteFolders(workspace, (ExtraPath(str(tmp_path / "extra"), "*.txt"), ExtraPath(str(single))))
    assert set(here.folders) == {
        str(workspace), str(workspace / "memory"),
        str(tmp_path / "extra"), str(tmp_path / "extra" / "below"), str(tmp_path / "one"),
    }  # fmt: skip
    assert here.concerns(str(tmp_path / "extra" / "a.txt"), created=False)
    assert here.concerns(str(single), created=False)
    assert not here.concerns(str(workspace / "memory" / "a.txt"), created=False)
    assert not here.concerns(str(tmp_path / "extra" / ".a.txt"), created=False)


def test_watch_command_prints_a_line_a_batch(tmp_path: Path, workspace: Path) -> None:
    """``memory-sqlite watch --json``: one document a line, until Ctrl-C, which ends it with exit code 0."""
    command = [sys.executable, "-m", "memory_sqlite", "--data-dir", str(tmp_path / "d"), "--workspace", str(workspace)]
    process = subprocess.Popen([*command, "watch", "--json"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    began = json.loads(process.stdout.readline())
    assert began == {"event": "watching", "native": True, "folders": 2}
    put(workspace / "memory" / "a.md", "granite\n")
    batch = json.loads(process.stdout.readline())
    assert (batch["event"], batch["status"], batch["added"]) == ("batch", "ok", 1)
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, rest) == (0, "")


def test_watch_command_without_memory_says_so_and_ends(tmp_path: Path) -> None:
    """``enabled=false``: one event, exit code 0, nothing is made."""
    command = [sys.executable, "-m", "memory_sqlite", "--data-dir", str(tmp_path / "d"), "watch", "--json"]
    environment = {**os.environ, "MEMORY_SQLITE_ENABLED": "false"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, json.loads(done.stdout)) == (0, {"event": "disabled"})
    assert not (tmp_path / "d").exists()
