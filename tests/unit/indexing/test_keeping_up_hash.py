"""What ``stat`` does not show is seen all the same; what changes while it is read is not filed in its old form."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory, limits
from memory_sqlite.agent.upkeep import Upkeep
from memory_sqlite.clock import FixedClock
from memory_sqlite.indexing import full_hash
from memory_sqlite.indexing import notes as notes_index
from memory_sqlite.sources import discovery, safe_read
from memory_sqlite.sources import notes as note_sources
from memory_sqlite.sources.places import NotePlace

LOOK = 1_100


@pytest.fixture
def memory(tmp_path: Path, workspace: Path, clock: FixedClock) -> Iterator[Memory]:
    (workspace / "memory" / "a.md").write_text("granite-1\n")
    (workspace / "memory" / "b.md").write_text("pebble\n")
    with Memory.open(tmp_path / "data", workspace=workspace, clock=clock) as opened:
        yield opened


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk whose files never seem to change: every time is the same old one."""
    for module in (discovery, note_sources, safe_read):
        monkeypatch.setattr(module, "changed_ns", lambda seen: 1_000_000_000)


def found(memory: Memory, query: str) -> list[str]:
    return [hit.path for hit in memory.search(query, sources=("memory",)).hits]


def edit_unseen(path: Path, text: str) -> None:
    """Overwrite in place, same length, and put the modification time back."""
    seen = path.stat()
    assert seen.st_size == len(text)
    with path.open("r+") as file:
        file.write(text)
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))


def wait_until_trusted(path: Path) -> None:
    """Until the times of a file are old enough to be believed."""
    threading.Event().wait(2 * notes_index._UNTRUSTED_NS / 1e9)
    assert path.exists()


def test_case_C060_edit_that_keeps_size_and_time(memory: Memory, workspace: Path, clock: FixedClock) -> None:
    """C060, first half: the next search finds the new text and no longer the old one, since the change time tells."""
    path = workspace / "memory" / "a.md"
    wait_until_trusted(path)
    memory.index()
    edit_unseen(path, "marbles-1\n")
    clock.advance(LOOK)
    assert found(memory, "marbles") == ["memory/a.md"]
    assert found(memory, "granite") == []


def test_case_C060_index_hashes_everything_once_a_day(
    memory: Memory, workspace: Path, clock: FixedClock, blind: None
) -> None:
    """C060 where even the change time lies: ``index`` finds it when the last full hash is more than a day ago, and does
    not hash everything each time."""
    memory.index()
    edit_unseen(workspace / "memory" / "a.md", "marbles-1\n")
    assert memory.index().changed == 0
    clock.advance(int(limits.FULL_HASH_INDEX_S * 1000))
    report = memory.index()
    assert (report.changed, report.unchanged) == (1, 1)
    assert found(memory, "marbles") == ["memory/a.md"]
    assert found(memory, "granite") == []
    edit_unseen(workspace / "memory" / "a.md", "gravels-1\n")
    assert memory.index().changed == 0


def test_full_build_counts_as_a_full_hash(memory: Memory, clock: FixedClock, blind: None) -> None:
    """A generation that was just built has read every note."""
    clock.advance(int(limits.FULL_HASH_INDEX_S * 1000) * 2)
    memory.index(full=True)
    assert memory._opened is not None
    with memory._opened.keeper.reader() as index:
        assert not full_hash.is_due(index, clock, limits.FULL_HASH_INDEX_S)
        clock.advance(-5_000)
        assert full_hash.is_due(index, clock, limits.FULL_HASH_INDEX_S), "the clock was set back: nothing is known"


def test_case_C060_serving_memory_hashes_everything_once_an_hour(
    memory: Memory, workspace: Path, clock: FixedClock, blind: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While serving: not before the hour, then the note is found to be another and the next search takes it in; only
    what differs is read again."""
    memory.index()
    edit_unseen(workspace / "memory" / "a.md", "marbles-1\n")
    opened = memory._opened
    assert opened is not None
    upkeep = Upkeep(opened, clock, memory._lock)
    try:
        clock.advance(int(limits.FULL_HASH_INTERVAL_S * 1000) - 1)
        upkeep.look()
        assert found(memory, "granite") == ["memory/a.md"]
        clock.advance(1)
        upkeep.look()
        read = []
        real = notes_index._read
        monkeypatch.setattr(notes_index, "_read", lambda place: read.append(place.path) or real(place))
        assert found(memory, "marbles") == ["memory/a.md"]
        assert found(memory, "granite") == []
        assert read == ["memory/a.md"]
    finally:
        upkeep.close()


def test_serving_memory_has_upkeep_and_ends_it(tmp_path: Path, workspace: Path) -> None:
    """Its thread is gone when the memory is closed; a memory that does not serve has none."""

    def running() -> bool:
        return any(thread.name == "memory-sqlite-upkeep" for thread in threading.enumerate())

    with Memory.open(tmp_path / "data", workspace=workspace):
        assert not running()
    with Memory.open(tmp_path / "data", workspace=workspace, serving=True):
        assert running()
    assert not running()


def meddle(monkeypatch: pytest.MonkeyPatch, change: Callable[[NotePlace], None]) -> None:
    """Do something to a note right after it was read."""
    real = notes_index._read

    def read(place: NotePlace) -> Any:
        note = real(place)
        change(place)
        return note

    monkeypatch.setattr(notes_index, "_read", read)


def test_known_note_that_changes_back_and_forth_stays_dirty(
    memory: Memory, workspace: Path, clock: FixedClock, blind: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old form that is filed keeps its place, and though nothing in its times changes the next look reads it; the
    search says that it is not up to date."""
    memory.index()
    clock.advance(int(limits.FULL_HASH_INDEX_S * 1000))
    edit_unseen(workspace / "memory" / "a.md", "marbles-1\n")

    def change(place: NotePlace) -> None:
        if place.path == "memory/a.md":
            place.absolute.write_text("gravels-1\n")

    with monkeypatch.context() as during:
        meddle(during, change)
        assert memory.index().status == "partial"
    assert memory.status()["index"]["dirty_notes"] == 1
    clock.advance(LOOK)
    assert found(memory, "gravels") == ["memory/a.md"]


def test_note_that_another_process_filed_meanwhile_is_not_taken_for_unchanged(
    memory: Memory, tmp_path: Path, workspace: Path, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Back in its old form after another process has filed a form in between: what is filed by then counts, not what
    was filed when this pass began."""
    first, note = workspace / "memory" / "a.md", workspace / "memory" / "b.md"
    wait_until_trusted(note)
    memory.index()
    first.touch()
    note.touch()

    def change(place: NotePlace) -> None:
        if place.path == "memory/a.md":
            during.undo()
            note.write_text("marble\n")
            with Memory.open(tmp_path / "data", workspace=workspace, clock=clock) as other:
                other.index()
            note.write_text("pebble\n")
            wait_until_trusted(note)

    with monkeypatch.context() as during:
        meddle(during, change)
        memory.index()
    clock.advance(LOOK)
    assert found(memory, "pebble") == ["memory/b.md"]
    assert found(memory, "marble") == []


def test_search_says_that_a_note_was_changing_and_looks_again(
    memory: Memory, workspace: Path, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``stale`` once, and no second of waiting for the next look."""
    memory.index()
    (workspace / "memory" / "a.md").write_text("slate\n")
    clock.advance(LOOK)
    with monkeypatch.context() as during:
        meddle(during, lambda place: place.absolute.write_text("gneiss\n"))
        page = memory.search("slate", sources=("memory",))
    assert page.stale
    assert any("changing" in warning for warning in page.warnings)
    assert page.hits == ()
    page = memory.search("gneiss", sources=("memory",))
    assert not page.stale
    assert page.hits
