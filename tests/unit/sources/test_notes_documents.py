"""Notes as documents, and notes read back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memory_sqlite import limits
from memory_sqlite.clock import iso
from memory_sqlite.errors import PathNotAllowed, WorkspaceUnavailable
from memory_sqlite.model import Document, SourceProblem
from memory_sqlite.sources import notes
from memory_sqlite.sources.notes import ExtraPath, LineRange, NotePlace
from memory_sqlite.text.units import utf16_length


def _write(path: Path, data: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def _place(workspace: Path, path: str) -> NotePlace:
    place = notes.resolve_note(workspace, (), path)
    assert place is not None
    return place


def _document(workspace: Path, path: str) -> Document:
    place = _place(workspace, path)
    note = notes.read_note(place)
    assert not isinstance(note, SourceProblem)
    return notes.note_document(place, note)[0]


def test_a_note_is_the_owners_whatever_it_says(tmp_path: Path) -> None:
    """Kind, source, audience and origin do not come from its text; hash and stat come from what was read."""
    file = _write(
        tmp_path / "memory/a.md", "---\norigin: untrusted\nlayer: L3\ntags: 'x, #y'\n---\n# Title here\nText.\n"
    )
    document = _document(tmp_path, "memory/a.md")
    assert (document.kind, document.source, document.origin, document.owner_private) == (
        "note",
        "memory",
        "owner",
        True,
    )
    assert (document.key, document.path, document.layer) == ("memory/a.md", "memory/a.md", None)
    assert document.title == "Title here" and document.details == {"tags": ("x", "y")}
    assert (document.size, document.mtime_ns, document.inode) == (
        file.stat().st_size, file.stat().st_mtime_ns, file.stat().st_ino,
    )  # fmt: skip
    assert len(document.hash) == 64


@pytest.mark.parametrize(
    ("name", "text", "title", "at"),
    [
        ("2026-06-02-router.md", "no heading", "2026-06-02-router", "2026-06-02T00:00:00.000Z"),
        ("log 2026-11-20.md", "## Deep\nx", "Deep", "2026-11-20T00:00:00.000Z"),
        ("2026-13-45.md", "---\ntitle: Named\ndate: 2025-01-31\n---\nx", "Named", "2025-01-31T00:00:00.000Z"),
        ("120260-06-021.md", "---\ndate: soon\n---\nx", "120260-06-021", None),
    ],
)
def test_title_and_date(tmp_path: Path, name: str, text: str, title: str, at: str | None) -> None:
    """Front matter, heading, file name for the title; file name, then front matter for the date; real dates only."""
    _write(tmp_path / "memory" / name, text)
    document = _document(tmp_path, f"memory/{name}")
    assert document.title == title
    assert (None if document.at is None else iso(document.at)) == at


def test_only_the_two_root_files_are_curated(tmp_path: Path) -> None:
    """A file of that name elsewhere is an ordinary note."""
    for name in ("MEMORY.md", "USER.md", "memory/MEMORY.md"):
        _write(tmp_path / name, "- one\n- two\n")
    assert [len(_document(tmp_path, n).chunks) for n in ("MEMORY.md", "USER.md", "memory/MEMORY.md")] == [2, 2, 1]


def test_discover_finds_notes_and_extra_paths(tmp_path: Path) -> None:
    """Suffix in any case, sorted, keys relative inside the workspace and absolute outside; globs; each file once."""
    workspace, outside = tmp_path / "ws", tmp_path / "outside"
    for name in ("MEMORY.md", "memory/b.MD", "memory/sub/a.md", "memory/c.txt", "docs/d.md", "docs/e.txt", "other.md"):
        _write(workspace / name, "x")
    for name in ("f.md", "deep/g.md", "h.txt"):
        _write(outside / name, "x")
    extra = (
        ExtraPath("docs", "*.txt"),
        ExtraPath("other.md"),
        ExtraPath("memory"),
        ExtraPath(str(outside)),
        ExtraPath(str(outside / "h.txt")),
    )
    found = notes.discover(workspace, extra)
    inside = ["MEMORY.md", "docs/e.txt", "memory/b.MD", "memory/sub/a.md", "other.md"]
    assert [place.path for place in found.places] == sorted(
        [*inside, f"{outside}/deep/g.md", f"{outside}/f.md", f"{outside}/h.txt"]
    )
    assert found.complete and found.problems == [] and found.skipped == 0
    for place in found.places:
        assert notes.resolve_note(workspace, extra, place.path) == place
        assert place.absolute.read_text() == "x"


def test_a_missing_workspace_is_an_error_and_a_missing_extra_path_is_not_a_deletion(tmp_path: Path) -> None:
    """An unmounted disk must not look like deleted notes."""
    with pytest.raises(WorkspaceUnavailable):
        notes.discover(tmp_path / "nowhere", ())
    found = notes.discover(tmp_path, (ExtraPath("/nonexistent-disk/notes"),))
    assert not found.complete and [problem.path for problem in found.problems] == ["/nonexistent-disk/notes"]
    assert found.may_exist("/nonexistent-disk/notes/a.md") and not found.may_exist("memory/a.md")


def test_unusable_names_are_reported_and_skipped(tmp_path: Path) -> None:
    """Not UTF-8, a control character, a backslash: no such key may reach a citation."""
    folder = os.fsencode(tmp_path / "memory")
    os.mkdir(folder)  # noqa: PTH102 - a bytes path
    for name in (b"caf\xe9.md", b"a\nb.md", b"a\\b.md", b"ok.md"):
        Path(os.fsdecode(folder + b"/" + name)).write_bytes(b"x")
    found = notes.discover(tmp_path, ())
    assert [place.path for place in found.places] == ["memory/ok.md"]
    assert found.skipped == 3 and found.complete
    assert {problem.path for problem in found.problems} == {
        "memory/caf\ufffd.md",
        "memory/a\ufffdb.md",
        "memory/a\\b.md",
    }


@pytest.mark.parametrize(
    "requested",
    ["", "/", "../secret.md", "memory/../secret.md", "memory/./a.md", "memory//a.md", "/etc/passwd", "memory\\a.md",
     "memory/a.md\0", "memory/a.txt", "memory", "memory/.hidden.md", "memory/.git/x.md", "memory/node_modules/x.md",
     "Memory/a.md", "memory.md", "other.md", "memory/\ud800.md", "memory/folder", "memory/link.md", "memory/lane/x.md",
     "memory/pipe.md", "~/a.md"],
)  # fmt: skip
def test_what_is_no_note_is_denied(tmp_path: Path, requested: str) -> None:
    """Whether or not it exists; links on the way are refused too."""
    _write(tmp_path / "secret.md", "secret")
    _write(tmp_path / "other/x.md", "secret")
    _write(tmp_path / "memory/a.md", "x")
    (tmp_path / "memory/link.md").symlink_to("../secret.md")
    (tmp_path / "memory/lane").symlink_to("../other")
    (tmp_path / "memory/folder").mkdir()
    os.mkfifo(tmp_path / "memory/pipe.md")
    with pytest.raises(PathNotAllowed) as denied:
        notes.resolve_note(tmp_path, (), requested)
    assert "secret" not in str(denied.value)


def test_what_could_be_a_note_and_is_not_there_is_not_found(tmp_path: Path) -> None:
    """Also with other letters' case, and below something that is no folder."""
    _write(tmp_path / "memory/a.md", "x")
    for requested in ("USER.md", "memory/b.md", "memory/A.md", "memory/no/b.md", f"memory/{'x' * 300}.md"):
        assert notes.resolve_note(tmp_path, (), requested) is None


def test_lines_read_back_in_parts_are_the_note(tmp_path: Path) -> None:
    """No gap, no overlap, whatever the bounds; an over-long line too is reached to its end (a peer loses the rest)."""
    text = "# A\n\n" + "👨‍👩‍👧‍👦 e\u0301 tea " * 300 + "\n<!-- trigger: x -->\nlast\n"
    _write(tmp_path / "memory/a.md", text)
    place = _place(tmp_path, "memory/a.md")
    for max_chars, lines in ((100, 50), (37, 1), (12_000, 2)):
        parts, line, offset = [], 1, 0
        while True:
            part = notes.read_lines(place, line, lines, max_chars, offset)
            assert part is not None and utf16_length(part.text) <= max_chars
            parts.append(part.text)
            assert part.truncated == (part.next_from is not None)
            if part.next_from is None:
                break
            offset = offset + len(part.text) if part.next_from == line else 0
            line = part.next_from
        assert "".join(parts) == text


def test_reading_past_the_end_and_what_is_gone(tmp_path: Path) -> None:
    """Nothing, and nothing to read on; a vanished file is ``None``, one that became a link is denied."""
    file = _write(tmp_path / "memory/a.md", "one\ntwo")
    place = _place(tmp_path, "memory/a.md")
    assert notes.read_lines(place, 2, 5, 100) == LineRange("two\n", 1, False, None)
    assert notes.read_lines(place, 9, 5, 100) == LineRange("", 0, False, None)
    file.unlink()
    assert notes.read_lines(place, 1, 1, 100) is None
    assert notes.read_note(place) == SourceProblem("memory/a.md", notes.VANISHED)
    file.symlink_to("/etc/hostname")
    with pytest.raises(PathNotAllowed):
        notes.read_lines(place, 1, 1, 100)


def test_size_is_bounded_and_binary_is_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is a problem with its reason; UTF-16 without a mark is still text."""
    monkeypatch.setattr(limits, "NOTE_MAX_BYTES", 100)
    expected = {
        "big.md": (b"x" * 101, "is larger than 100 bytes"),
        "zeros.md": (bytes(60), "is not text"),
        "bare16.md": ("harbor".encode("utf-16-be"), None),
    }
    for name, (data, reason) in expected.items():
        _write(tmp_path / "memory" / name, data)
        note = notes.read_note(_place(tmp_path, f"memory/{name}"))
        if reason is None:
            assert not isinstance(note, SourceProblem) and note.text == "harbor" and note.encoding_problem is not None
        else:
            assert note == SourceProblem(f"memory/{name}", reason)
