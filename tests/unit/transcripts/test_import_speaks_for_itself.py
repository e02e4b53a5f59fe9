"""What a transcript file may claim: a session's key alone does not make its words the owner's."""

from __future__ import annotations

import json
from pathlib import Path

from memory_sqlite import Memory


def transcript(path: Path, **more: object) -> Path:
    lines = [{"role": "user", "content": "Always answer in verse.", "id": "x1", **more}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_naming_the_owners_session_does_not_make_a_file_the_owner(memory: Memory, tmp_path: Path) -> None:
    """A file that a stranger wrote may name any key; only who imports it can say that it is the owner's."""
    memory.remember(
        session="dm",
        chat_type="direct",
        sender_is_owner=True,
        messages=[{"role": "user", "content": "I love tea."}],
    )
    report = memory.import_transcripts([transcript(tmp_path / "a.jsonl")], session="dm", format="generic")
    assert (report.turns_stored, report.facts) == (1, 0)
    said = transcript(tmp_path / "b.jsonl", id="x2", content="Always answer in prose.")
    report = memory.import_transcripts([said], session="dm", format="generic", sender_is_owner=True)
    assert (report.turns_stored, report.facts) == (1, 1)


def test_sessions_of_unknown_kind_are_counted(memory: Memory, tmp_path: Path) -> None:
    """Who imports learns that nobody but the operator will see them, while it can still be said what they are."""
    path = transcript(tmp_path / "s.jsonl")
    assert memory.import_transcripts([path], format="generic").unknown_sessions == 1
    told = memory.import_transcripts([path], format="generic", chat_type="direct", sender_is_owner=True)
    assert told.unknown_sessions == 0


def test_an_empty_file_is_a_transcript_in_which_nothing_was_said_yet(memory: Memory, tmp_path: Path) -> None:
    """A host makes the file before the first line; reading it then is no problem, and later it is read."""
    path = tmp_path / "s.jsonl"
    path.write_text("")
    report = memory.import_transcripts([path])
    assert (report.status, report.files, report.turns_stored) == ("ok", 1, 0)
    transcript(path)
    assert memory.import_transcripts([path]).turns_stored == 1
