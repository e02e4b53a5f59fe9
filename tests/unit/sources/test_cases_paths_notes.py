"""Cases of paths and links, from bugs that other products had, at the level of finding and reading notes."""

from __future__ import annotations

import os
import resource
import shutil
import threading
from pathlib import Path

import pytest

from memory_sqlite.errors import PathNotAllowed
from memory_sqlite.model import SourceProblem
from memory_sqlite.sources import notes


def _write(path: Path, text: str = "granite\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _paths(workspace: Path) -> list[str]:
    return [place.path for place in notes.discover(workspace, ()).places]


def test_case_C120_links_pipes_and_devices(tmp_path: Path) -> None:
    """A workspace reached through a link works; special files in it are skipped with a report, nothing hangs."""
    _write(tmp_path / "real_ws/memory/a.md")
    _write(tmp_path / "outside/secret.md", "secret")
    workspace = tmp_path / "ws"
    workspace.symlink_to("real_ws")
    os.mkfifo(workspace / "memory/pipe.md")
    (workspace / "memory/dev.md").symlink_to("/dev/zero")
    (workspace / "memory/dir.md").mkdir()
    found = notes.discover(workspace, ())
    assert [place.path for place in found.places] == ["memory/a.md"]
    assert {problem.path for problem in found.problems} == {"memory/pipe.md", "memory/dev.md", "memory/dir.md"}
    assert (found.skipped, found.complete) == (3, True)
    place = notes.resolve_note(workspace, (), "memory/a.md")
    assert place is not None
    note = notes.read_note(place)
    assert not isinstance(note, SourceProblem) and note.text == "granite\n"


@pytest.mark.parametrize("swapped", ["memory/sub/a.md", "memory/sub", "memory"])
def test_case_C120_swapped_for_a_link_after_listing(tmp_path: Path, swapped: str) -> None:
    """The file, its folder or a folder above it becomes a link to outside: the outside text is never read."""
    workspace = tmp_path / "ws"
    _write(workspace / "memory/sub/a.md")
    _write(tmp_path / "outside/a.md", "secret")
    _write(tmp_path / "outside/sub/a.md", "secret")
    (place,) = notes.discover(workspace, ()).places
    target = workspace / swapped
    target.rename(tmp_path / "aside")
    target.symlink_to(tmp_path / ("outside/a.md" if swapped.endswith(".md") else "outside"))
    note = notes.read_note(place)
    assert isinstance(note, SourceProblem) and "link" in note.reason
    with pytest.raises(PathNotAllowed):
        notes.resolve_note(workspace, (), "memory/sub/a.md")


def test_case_C120_swapped_again_and_again(tmp_path: Path) -> None:
    """While another thread swaps it, every answer is the note's own text or a problem."""
    file = _write(tmp_path / "ws/memory/a.md")
    _write(tmp_path / "secret.md", "secret")
    (place,) = notes.discover(tmp_path / "ws", ()).places
    done = threading.Event()

    def swap() -> None:
        link, regular = tmp_path / "link", tmp_path / "regular"
        while not done.is_set():
            link.symlink_to(tmp_path / "secret.md")
            link.replace(file)
            regular.write_text("granite\n")
            regular.replace(file)

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        read = [notes.read_note(place) for _ in range(2_000)]
    finally:
        done.set()
        swapper.join()
    assert {note.text for note in read if not isinstance(note, SourceProblem)} <= {"granite\n"}


def test_case_C128_moved_workspace_keeps_its_keys(tmp_path: Path) -> None:
    """Moved, reached through a link, copied: the same keys and the same text, so nothing is new or gone."""
    _write(tmp_path / "first/memory/a.md")
    before = _paths(tmp_path / "first")
    (tmp_path / "first").rename(tmp_path / "second")
    (tmp_path / "third").symlink_to("second")
    shutil.copytree(tmp_path / "second", tmp_path / "fourth")
    for name in ("second", "third", "fourth"):
        (place,) = notes.discover(tmp_path / name, ()).places
        assert [place.path] == before == ["memory/a.md"]
        note = notes.read_note(place)
        assert not isinstance(note, SourceProblem) and note.text == "granite\n"


def test_case_C130_leftovers_dependencies_and_loops(tmp_path: Path) -> None:
    """Only the note is found; with few descriptors; the loop ends.

    5,000 files under node_modules instead of 20,000: an ignored folder is not opened however full it is.
    """
    memory = tmp_path / "memory"
    _write(memory / "real.md")
    for name in (".real.md.swp", "#real.md#", "real.md~", "real.md.tmp", "node_modules/p/readme.md", ".git/x.md",
                 ".venv/lib/y.md"):  # fmt: skip
        _write(memory / name)
    (memory / ".#real.md").symlink_to("nowhere")
    (memory / "loop").symlink_to("..")
    (memory / "node_modules/big").mkdir()
    for number in range(5_000):
        (memory / f"node_modules/big/{number}.md").touch()
    for depth in range(100):
        _write(memory / ("d/" * depth) / f"{depth}.md")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    try:
        found = notes.discover(tmp_path, ())
        read = [notes.read_note(place) for place in found.places]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert "memory/real.md" in {place.path for place in found.places}
    assert len(found.places) == 1 + 65, "the note, and one in each folder down to the bound"
    assert not any(isinstance(note, SourceProblem) for note in read)
    assert {problem.path for problem in found.problems} == {"memory/loop", "memory/" + "d/" * 64 + "d"}
    assert len(os.listdir("/proc/self/fd")) < 100  # noqa: PTH208 - a count


def test_case_C132_unreadable_files_and_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is read; each is a problem with its cause, the same on every run; nothing below counts as deleted.

    Root reads files of mode 000, so the system's refusal is simulated where the tests run as root.
    """
    for name in ("ok.md", "locked.md", "secretdir/x.md", "gone.md"):
        _write(tmp_path / "memory" / name)
    (tmp_path / "memory/broken.md").symlink_to("nowhere")
    real_open, real_scandir = os.open, os.scandir

    def refusing_open(path, *arguments, **keywords):  # type: ignore[no-untyped-def]
        if path == "locked.md":
            raise PermissionError(13, "Permission denied", path)
        return real_open(path, *arguments, **keywords)

    def refusing_scandir(path):  # type: ignore[no-untyped-def]
        if str(path).endswith("secretdir"):
            raise PermissionError(13, "Permission denied", path)
        return real_scandir(path)

    with monkeypatch.context() as refused:
        refused.setattr(os, "open", refusing_open)
        refused.setattr(os, "scandir", refusing_scandir)
        for _ in range(3):
            found = notes.discover(tmp_path, ())
            (tmp_path / "memory/gone.md").unlink(missing_ok=True)
            results = {place.path: notes.read_note(place) for place in found.places}
            problems = {
                (p.path, p.reason) for p in [*found.problems, *results.values()] if isinstance(p, SourceProblem)
            }
            assert problems - {("memory/gone.md", notes.VANISHED)} == {
                ("memory/locked.md", "cannot be read: Permission denied"),
                ("memory/broken.md", "is a link, which is not followed"),
                ("memory/secretdir", "cannot be looked at: Permission denied"),
            }
            assert not isinstance(results["memory/ok.md"], SourceProblem)
            assert not found.complete
            assert found.may_exist("memory/secretdir/x.md") and not found.may_exist("memory/ok2.md")
    assert {"memory/locked.md", "memory/secretdir/x.md"} <= set(_paths(tmp_path))
    (place,) = (place for place in notes.discover(tmp_path, ()).places if place.path == "memory/locked.md")
    assert not isinstance(notes.read_note(place), SourceProblem)
