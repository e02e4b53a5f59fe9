"""Transcripts of every known host as one table, read by the importer's own readers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memory_sqlite.query.transcript_table import COLUMNS, tokens, tools

from .query_kit import Answer

CLAUDE = [
    {"type": "user", "sessionId": "c1", "uuid": "u1", "cwd": "/home/x/harbor", "timestamp": "2026-03-01T10:00:00Z",
     "message": {"role": "user", "content": "Where is the pier?"}},
    {"type": "assistant", "sessionId": "c1", "uuid": "a1", "timestamp": "2026-03-01T10:00:05Z",
     "message": {"id": "m1", "role": "assistant", "content": [{"type": "text", "text": "I look."}],
                 "usage": {"input_tokens": 11, "output_tokens": 3}}},
    {"type": "assistant", "sessionId": "c1", "uuid": "a2", "timestamp": "2026-03-01T10:00:06Z",
     "message": {"id": "m1", "role": "assistant",
                 "content": [{"type": "tool_use", "id": "t1", "name": "Grep", "input": {"name": "no"}}],
                 "usage": {"input_tokens": 11, "output_tokens": 9}}},
    {"type": "user", "sessionId": "c1", "uuid": "u2", "timestamp": "2026-03-01T10:00:07Z",
     "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "north"}]}},
    {"type": "user", "sessionId": "c1", "uuid": "u3", "timestamp": "2026-03-01T10:01:00Z",
     "message": {"role": "user", "content": "Thanks, password: hunter2hunter2."}},
]  # fmt: skip
CODEX = [
    {"type": "session_meta", "payload": {"id": "x1", "cwd": "/home/x/quay"}, "timestamp": "2026-03-02T10:00:00Z"},
    {"type": "response_item", "timestamp": "2026-03-02T10:00:01Z",
     "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "List it."}]}},
    {"type": "response_item", "timestamp": "2026-03-02T10:00:02Z",
     "payload": {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "k"}},
]  # fmt: skip
OPENCLAW = [
    {"type": "session", "id": "o1", "timestamp": "2026-03-03T10:00:00Z"},
    {"type": "message", "id": "e1", "timestamp": "2026-03-03T10:00:01Z",
     "message": {"role": "user", "content": "Hello."}},
    {"type": "message", "id": "e2", "timestamp": "2026-03-03T10:00:02Z",
     "message": {"role": "assistant", "content": [{"type": "text", "text": "Hi."}],
                 "usage": {"input": 5, "output": 2}}},
]  # fmt: skip


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, lines in (("a-claude", CLAUDE), ("b-codex", CODEX), ("c-openclaw", OPENCLAW)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


def test_three_hosts_in_one_table(place: Path) -> None:
    """Session, turn, role, text, tool, tokens: in order of files and lines, an answer of several lines once."""
    sql = "SELECT format, session, turn, role, text, tool, tokens, input_tokens, project FROM transcript('*.jsonl')"
    rows = Answer(sql).rows
    assert rows[:4] == [
        ("claude-code", "c1", 1, "user", "Where is the pier?", None, None, None, "harbor"),
        ("claude-code", "c1", 1, "assistant", "I look.", "Grep", 9, 11, "harbor"),
        ("claude-code", "c1", 1, rows[2][3], rows[2][4], None, None, None, "harbor"),
        ("claude-code", "c1", 2, "user", rows[3][4], None, None, None, "harbor"),
    ]
    assert "hunter2" not in rows[3][4], "secrets are masked as the importer masks them"
    assert ("codex", "x1", 1, "user", "List it.", None, None, None, "quay") in rows
    assert any(row[0] == "codex" and row[5] == "shell" for row in rows)
    assert rows[-1] == ("openclaw", "o1", 1, "assistant", "Hi.", None, 2, 5, None)


def test_times_and_names(place: Path) -> None:
    answer = Answer("SELECT * FROM transcript('c-*.jsonl') LIMIT 1")
    assert answer.columns == COLUMNS
    row = dict(zip(answer.columns, answer.rows[0], strict=True))
    assert (row["time"], row["time_ms"], row["message_id"]) == ("2026-03-03T10:00:01.000Z", 1772532001000, "e1")
    assert (row["file"], row["line"], row["error"]) == (str(place / "c-openclaw.jsonl"), 2, None)


def test_what_cannot_be_read_is_a_row(place: Path) -> None:
    """A refused line, a torn end, a file of no known format: each says why; the others are read."""
    with (place / "c-openclaw.jsonl").open("a") as file:
        file.write('{"type": "message", "message": \n{"type":"mess')
    (place / "d.jsonl").write_text('{"unknown": 1}\n')
    rows = Answer("SELECT file, line, error FROM transcript('[cd]*.jsonl') WHERE error IS NOT NULL").rows
    assert [(Path(file).name, line) for file, line, _ in rows] == [
        ("c-openclaw.jsonl", 4), ("c-openclaw.jsonl", 5), ("d.jsonl", None),
    ]  # fmt: skip
    assert rows[2][2] == "in no known transcript format"


def test_compressed_transcripts(place: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    packed = zstandard.ZstdCompressor().compress((place / "c-openclaw.jsonl").read_bytes())
    (place / "z.jsonl.zst").write_bytes(packed)
    assert Answer("SELECT text FROM transcript('z.jsonl.zst')").rows == [("Hello.",), ("Hi.",)]


def test_tools_and_tokens_of_records() -> None:
    """Names at any depth, none of a tool's own input; numbers only where the host says them."""
    call = {"type": "tool_use", "name": "Read", "input": {"type": "tool_use", "name": "fake"}}
    assert tools({"message": {"content": [call, call]}}) == ["Read"]
    assert tools({"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}) == ["f"]
    assert tools({"toolName": "bash"}) == ["bash"]
    assert tools("text") == []
    assert tokens([{"usage": {"output": 1}}, {"message": {"usage": {"output_tokens": 2}}}], ("output_tokens",)) == 2
    for odd in ({"usage": {"output": True}}, {"usage": {"output": -1}}, {"usage": 5}, {"usage": {"output": 2**70}}, 7):
        assert tokens(odd, ("output",)) is None


def test_two_messages_of_a_person_in_a_row_are_one_turn(place: Path) -> None:
    """As the importer cuts turns; each session is counted for itself."""
    roles = [("a", "user"), ("a", "user"), ("b", "user"), ("a", "assistant"), ("b", "user"), ("a", "user")]
    lines = [{"session": key, "role": role, "content": str(at)} for at, (key, role) in enumerate(roles)]
    (place / "e.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = Answer("SELECT session, turn FROM transcript('e.jsonl')").rows
    assert rows == [("a", 1), ("a", 1), ("b", 1), ("a", 1), ("b", 1), ("a", 2)]
