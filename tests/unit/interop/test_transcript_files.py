"""Which transcript files an import reads, and what odd lines in them cost: themselves, with their numbers."""

from __future__ import annotations

import json
import os
from pathlib import Path

from memory_sqlite import Memory


def said(text: str) -> str:
    return json.dumps({"role": "user", "content": text}) + "\n"


def test_odd_lines_cost_themselves_and_are_told_by_number(memory: Memory, tmp_path: Path) -> None:
    """Torn, of another type, with a field of another type, not UTF-8: the session goes on around each."""
    lines = [
        said("granite one").encode(),
        b'{"role": "user", "content": "torn\n',
        b"[1, 2]\n",
        said("granite two").encode(),
        b"\n",
        b'{"role": "user", "content": 3}\n',
        said("granite four").encode(),
        b'\x00\x01{"role"\xff\n',
        said("granite five").encode(),
    ]
    source = tmp_path / "talk.jsonl"
    source.write_bytes(b"".join(lines))
    report = memory.import_transcripts([source], session="talk")
    assert report.status == "partial"
    assert [problem.line for problem in report.problems] == [2, 3, 6, 8]
    assert {problem.path for problem in report.problems} == {str(source)}
    assert report.refused == 4 and report.messages == 4
    text = memory.get(f"sessions/{memory.sessions()[0]['token']}").text
    assert [line.rpartition(" ")[2] for line in text.splitlines()] == ["one", "two", "four", "five"]


def test_links_below_a_directory_are_not_followed_and_told(memory: Memory, tmp_path: Path) -> None:
    """A link may lead anywhere; one that is named by itself is what was asked for."""
    folder, elsewhere = tmp_path / "folder", tmp_path / "elsewhere.jsonl"
    folder.mkdir()
    (folder / "a.jsonl").write_text(said("granite"))
    elsewhere.write_text(said("marble"))
    (folder / "b.jsonl").symlink_to(elsewhere)
    report = memory.import_transcripts([folder])
    assert (report.files, report.messages) == (1, 1)
    assert [(Path(problem.path).name, problem.line) for problem in report.problems] == [("b.jsonl", None)]
    assert "link" in report.problems[0].reason
    assert memory.search("marble").hits == ()
    assert memory.import_transcripts([folder / "b.jsonl"]).messages == 1


def test_a_file_that_has_not_changed_is_not_read_again(memory: Memory, tmp_path: Path) -> None:
    """By size, time and inode; what was written since is read and adds what is new."""
    source = tmp_path / "talk.jsonl"
    source.write_text(said("granite"))
    os.utime(source, (1_700_000_000, 1_700_000_000))
    assert (memory.import_transcripts([source]).files, memory.status()["messages"]) == (1, 1)
    again = memory.import_transcripts([source])
    assert (again.status, again.files, again.unchanged, again.turns_known) == ("ok", 0, 1, 0)
    with source.open("a") as stream:
        stream.write(said("marble"))
    grown = memory.import_transcripts([source])
    assert (grown.files, grown.unchanged, grown.messages) == (1, 0, 1)
    assert memory.status()["messages"] == 2
