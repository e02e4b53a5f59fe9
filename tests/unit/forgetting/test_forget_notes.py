"""Notes: which lines go, what stays as it was byte for byte, and files that changed in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory
from memory_sqlite.forgetting import notes

TEXT = "I love granite tea very much."


def forget(memory: Memory, **more: Any) -> Any:
    memory.remember(session="s", messages=[{"role": "user", "content": TEXT}])
    return memory.forget(sessions=["s"], **more)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# Tea\n\n- I love granite tea very much.\n- slate\n", "# Tea\n\n- slate\n"),
        ("one\n\nShe said: I LOVE  granite\ntea very much. Yes.\n\ntwo\n", "one\n\ntwo\n"),
        ("one\r\n\r\nI love granite tea very much.\r\n\r\ntwo", "one\r\n\r\ntwo"),
        ("\ufeffI love granite tea very much.\n\ntwo\n", "two\n"),
        ("- I love granite tea very much.\n  with its second line\n- slate", "- slate"),
        ("I love granite tea very much.\n", ""),
        ("Granite tea is a drink.\n", "Granite tea is a drink.\n"),
    ],
)
def test_blocks_that_repeat_the_text(memory: Memory, workspace: Path, before: str, after: str) -> None:
    """A paragraph or list entry that holds the text goes, whatever its case and white space; line ends stay."""
    file = workspace / "memory" / "a.md"
    file.write_bytes(before.encode())
    file.chmod(0o640)
    memory.index()
    report = forget(memory, notes=True)
    assert file.read_bytes().decode() == after
    assert file.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in file.parent.iterdir()] == ["a.md"]
    assert [note.outcome for note in report.notes] == (["removed"] if before != after else [])
    assert not any("very much" in hit.excerpt for hit in memory.search("granite tea").hits)


def test_blocks_are_counted_when_they_may_stay(memory: Memory, workspace: Path) -> None:
    """Without ``notes`` no file is touched, and the report says how many blocks say the same."""
    file = workspace / "memory" / "a.md"
    file.write_text(f"{TEXT}\n\nslate\n\n- {TEXT}\n")
    report = forget(memory)
    assert (report.notes, report.notes_left, report.verified) == ((), 2, True)
    assert file.read_text().count("granite") == 2
    assert memory.search("granite").hits, "a note is the user's own file"


def test_a_note_that_holds_less_than_the_text(memory: Memory, workspace: Path) -> None:
    """A telling part of what was said is a copy, too; a few words are not."""
    file = workspace / "memory" / "a.md"
    file.write_text("- granite tea very much\n- very much\n- 我喜欢茶\n")
    memory.remember(session="s", messages=[{"role": "user", "content": "我喜欢茶和咖啡，还有面包"}])
    forget(memory, notes=True)
    assert file.read_text() == "- very much\n- 我喜欢茶\n"


def test_a_reference_takes_exactly_its_lines(memory: Memory, workspace: Path) -> None:
    """Several references into one file are one edit; lines behind the end are unresolved."""
    file = workspace / "memory" / "a.md"
    file.write_text("one\ntwo\nthree\nfour\nfive\n")
    report = memory.forget(references=["memory/a.md#L2", "note:memory/a.md#L4-L5", "memory/a.md#L9"])
    assert file.read_text() == "one\nthree\n"
    assert report.unresolved == ("memory/a.md#L9",)
    assert [note.lines for note in report.notes] == [3]


def test_links_are_not_followed(memory: Memory, workspace: Path, tmp_path: Path) -> None:
    """A note that is a link, or lies behind one, is no note: what it points to is not rewritten."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.md").write_text(f"{TEXT}\n")
    (workspace / "memory" / "link.md").symlink_to(outside / "a.md")
    (workspace / "memory" / "folder").symlink_to(outside)
    report = memory.forget(references=["memory/link.md", "memory/folder/a.md#L1"])
    assert len(report.unresolved) == 2
    assert forget(memory, notes=True).notes == ()
    assert (outside / "a.md").read_text() == f"{TEXT}\n"


def test_an_old_version_of_a_note_is_not_indexed_again(memory: Memory, workspace: Path) -> None:
    """Put back from a backup, byte for byte, it is reported and not searched; the same bytes elsewhere are."""
    file = workspace / "memory" / "a.md"
    file.write_text("keep slate\n\ndrop granite\n")
    memory.forget(references=["memory/a.md#L3"])
    file.write_text("keep slate\n\ndrop granite\n")
    report = memory.index()
    assert [problem.path for problem in report.problems] == ["memory/a.md"]
    assert memory.search("granite").hits == ()
    (workspace / "memory" / "b.md").write_text("keep slate\n\ndrop granite\n")
    memory.index(full=True)
    assert {hit.path for hit in memory.search("granite").hits} == {"memory/b.md"}


def test_splitting_and_joining_a_file_changes_nothing() -> None:
    """Whatever line ends a file has, taking nothing out gives it back."""
    for data in (b"", b"a", b"a\n", b"a\r\nb\rc\n\n\r\n", "ä\n\u2028b\x0cc\n".encode()):
        assert notes.without(data, ()) == data
