"""A search sees what became of the notes: edits, deletions, renames; and says what it could not look at."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.clock import FixedClock
from memory_sqlite.config import ExtraPath, Settings
from memory_sqlite.indexing import notes as notes_index
from memory_sqlite.model import SourceProblem

LOOK = 1_100
"""Milliseconds after which a search looks at the workspace again."""


@pytest.fixture
def memory(tmp_path: Path, workspace: Path, clock: FixedClock) -> Iterator[Memory]:
    """A memory whose clock stands still over a workspace with two old notes."""
    write(workspace / "memory" / "old.md", "granite plan\n")
    write(workspace / "memory" / "gone.md", "marble plan\n")
    with Memory.open(tmp_path / "data", workspace=workspace, clock=clock) as opened:
        opened.index()
        yield opened


def write(path: Path, text: str) -> None:
    """A note whose time is old enough to be trusted."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    seen = path.stat().st_mtime_ns - 10_000_000_000
    os.utime(path, ns=(seen, seen))


def found(memory: Memory, query: str) -> list[str]:
    return [hit.path for hit in memory.search(query, sources=("memory",)).hits]


def test_edit_delete_and_rename_are_seen_by_the_next_search(memory: Memory, workspace: Path, clock: FixedClock) -> None:
    """W4: no ``index`` and no restart in between."""
    assert found(memory, "granite") == ["memory/old.md"]
    write(workspace / "memory" / "old.md", "basalt plan, longer\n")
    write(workspace / "memory" / "new.md", "slate plan\n")
    (workspace / "memory" / "gone.md").unlink()
    clock.advance(LOOK)
    assert found(memory, "granite") == []
    assert found(memory, "basalt") == ["memory/old.md"]
    assert found(memory, "slate") == ["memory/new.md"]
    assert found(memory, "marble") == []


def test_case_C056_renamed_and_deleted_files_are_no_ghosts(memory: Memory, workspace: Path, clock: FixedClock) -> None:
    """C056: after a rename and a deletion only paths that exist are found, by the search itself and after ``index``."""
    (workspace / "memory" / "old.md").rename(workspace / "memory" / "new.md")
    (workspace / "memory" / "gone.md").unlink()
    clock.advance(LOOK)
    assert found(memory, "granite") == ["memory/new.md"]
    assert found(memory, "marble") == []
    report = memory.index()
    assert (report.status, report.added, report.changed, report.removed) == ("ok", 0, 0, 0)
    assert found(memory, "granite") == ["memory/new.md"]


def test_a_search_looks_at_most_once_a_second(
    memory: Memory, workspace: Path, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking is cheap and not free: within a second the last look counts."""
    looks = []
    real = notes_index.plan
    monkeypatch.setattr(notes_index, "plan", lambda *a, **more: looks.append(1) or real(*a, **more))
    clock.advance(LOOK)
    for _ in range(5):
        memory.search("granite")
    assert len(looks) == 1
    clock.advance(LOOK)
    memory.search("granite")
    assert len(looks) == 2


def test_many_changes_are_bounded_and_said(memory: Memory, workspace: Path, clock: FixedClock) -> None:
    """A search takes in what its budget allows and says ``stale``; the next ones take in the rest."""

    class Hurried(FixedClock):
        """Each question for the time moves it on: the budget is used up after a few notes."""

        def monotonic(self) -> float:
            self.advance(60)
            return super().monotonic()

    for number in range(30):
        write(workspace / "memory" / f"n{number:02}.md", f"pebble{number}\n")
    hurried = Hurried(clock.ms + LOOK)
    memory._clock = hurried
    page = memory.search("pebble29")
    assert page.stale
    assert any("index" in warning for warning in page.warnings)
    for _ in range(30):
        page = memory.search("pebble29", sources=("memory",))
        if not page.stale:
            break
    assert [hit.path for hit in page.hits][:1] == ["memory/n29.md"]


def test_file_written_just_now_is_hashed_again(memory: Memory, workspace: Path, clock: FixedClock) -> None:
    """Two edits within one tick of the file system's clock, of the same size: the second is seen too."""
    path = workspace / "memory" / "old.md"
    path.write_text("basalt-1\n")
    stamp = path.stat().st_mtime_ns
    clock.advance(LOOK)
    assert found(memory, "basalt") == ["memory/old.md"]
    path.write_text("marbles1\n")
    os.utime(path, ns=(stamp, stamp))
    clock.advance(LOOK)
    assert found(memory, "basalt") == []
    assert found(memory, "marbles1") == ["memory/old.md"]


def test_note_that_cannot_be_read_is_kept_and_said(
    memory: Memory, workspace: Path, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed note that cannot be read keeps its last known text; the search says so, without its name or text."""
    write(workspace / "memory" / "old.md", "basalt plan, longer\n")
    clock.advance(LOOK)
    with monkeypatch.context() as patched:
        patched.setattr(notes_index, "_read", lambda place: SourceProblem(place.path, "cannot be read"))
        page = memory.search("granite", sources=("memory",))
        assert [hit.path for hit in page.hits] == ["memory/old.md"]
        assert page.stale
        assert any("could not be read" in warning for warning in page.warnings)
    clock.advance(LOOK)
    assert found(memory, "basalt") == ["memory/old.md"]


def test_missing_workspace_is_stale_and_keeps_its_notes(memory: Memory, workspace: Path, clock: FixedClock) -> None:
    """An unmounted disk is not a mass deletion: answers come from what was seen last, and say so; ``index`` refuses."""
    workspace.rename(workspace.with_name("off"))
    clock.advance(LOOK)
    page = memory.search("granite", sources=("memory",))
    assert [hit.path for hit in page.hits] == ["memory/old.md"]
    assert page.stale
    assert any("workspace is not there" in warning for warning in page.warnings)
    for full in (False, True):
        with pytest.raises(errors.WorkspaceUnavailable):
            memory.index(full=full)
    workspace.with_name("off").rename(workspace)
    clock.advance(LOOK)
    assert memory.search("granite").stale is False


def test_remembered_workspace_that_is_missing_is_a_problem_in_the_report(
    memory: Memory, workspace: Path, tmp_path: Path, clock: FixedClock
) -> None:
    """Where the workspace is only remembered from an earlier call, ``index`` reports it and keeps its notes."""
    memory.close()
    workspace.rename(workspace.with_name("off"))
    with Memory.open(tmp_path / "data", clock=clock) as again:
        report = again.index()
        assert (report.status, report.removed) == ("partial", 0)
        assert any("workspace" in problem.reason for problem in report.problems)
        assert found(again, "granite") == ["memory/old.md"]


def test_case_C058_all_files_gone_or_a_root_missing(tmp_path: Path, workspace: Path, clock: FixedClock) -> None:
    """C058: an emptied folder forgets its notes; a missing extra root is reported and keeps them until it is back."""
    extra = tmp_path / "extra"
    write(workspace / "memory" / "only.md", "granite\n")
    write(extra / "x.md", "marble\n")
    settings = Settings(data_dir=tmp_path / "data", workspace=workspace, extra_paths=(ExtraPath(str(extra)),))
    with Memory.open(settings=settings, clock=clock) as memory:
        memory.index()
        assert found(memory, "marble")
        (workspace / "memory" / "only.md").unlink()
        memory.index()
        assert found(memory, "granite") == []
        extra.rename(tmp_path / "extra.off")
        report = memory.index()
        assert (report.status, report.removed) == ("partial", 0)
        assert found(memory, "marble") != []
        (tmp_path / "extra.off").rename(extra)
        report = memory.index()
        assert (report.status, report.added, report.changed) == ("ok", 0, 0)
        assert found(memory, "marble") != []


def test_whole_memory_folder_deleted_is_believed(memory: Memory, workspace: Path, clock: FixedClock) -> None:
    """The workspace is there and its ``memory`` folder is not: its notes are gone."""
    shutil.rmtree(workspace / "memory")
    clock.advance(LOOK)
    assert found(memory, "granite") == []


def test_identical_text_with_a_new_time_is_not_indexed_anew(memory: Memory, workspace: Path, clock: FixedClock) -> None:
    """C060, second half: a touched note is hashed and found unchanged."""
    write(workspace / "memory" / "old.md", "granite plan\n")
    os.utime(workspace / "memory" / "old.md", (1_000_000, 1_000_000))
    report = memory.index()
    assert (report.added, report.changed, report.unchanged) == (0, 0, 2)
