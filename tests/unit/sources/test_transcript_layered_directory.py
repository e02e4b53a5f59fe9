"""The layered-memory product's directory: recognised, read whole, never written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from memory_sqlite.interop.layered_directory import (
    LayeredProblem,
    LayeredRecord,
    LayeredTurn,
    read_layered,
)
from memory_sqlite.interop.layered_files import is_layered_directory

TOKEN = "1aa3d6ed088975f460389f76f9cd01f8"
SESSION = "agent:main:wecom:dm:u-1001"


def record(level: str, kind: str, **fields: Any) -> dict[str, Any]:
    common = {"agentId": "main", "sessionKey": SESSION, "senderId": "u-1001", "runId": "run-7f3a"}
    return {
        "id": f"17_{level}",
        "level": level,
        "type": kind,
        **common,
        "createdAt": "2026-07-15T08:30:00.120Z",
        **fields,
    }


def write(path: Path, *rows: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    path.write_text("".join(lines), "utf-8")


def g2(folder: Path) -> Path:
    root = folder / "agents" / "main-0d6e4079e367"
    turn = record("L0", "conversation", messages=[{"role": "user", "content": "我喜欢绿茶"}])
    write(root / "sessions" / TOKEN / "conversations" / "2026-07-15.jsonl", turn)
    write(
        root / "sessions" / TOKEN / "memories" / "2026-07-15.jsonl",
        record("L1", "episodic", content="我喜欢绿茶", keywords=["绿茶", 5]),
        "\n",
        "not json\n",
        {"v": 1, "iv": "AAEC", "tag": "0BvK", "data": "eZGQ"},
        {"id": "no-session", "content": "x"},
        record("L1", "episodic", content="second"),
        '{"id":"torn',
    )
    write(root / "agent-profiles" / "2026-07-16.jsonl", record("L3", "profile", content="我喜欢绿茶"))
    write(root / ".legacy-backup" / "memories" / "2026-07-01.jsonl", record("L1", "episodic", content="old"))
    write(root / "sessions" / TOKEN / "memories" / "notes.jsonl", record("L1", "episodic", content="not a day file"))
    return root


def test_turns_and_records_come_with_everything_a_citation_needs(tmp_path: Path) -> None:
    g2(tmp_path)
    items = list(read_layered(tmp_path))
    turns = [item for item in items if isinstance(item, LayeredTurn)]
    records = [item for item in items if isinstance(item, LayeredRecord)]
    (turn,) = turns
    assert turn.messages == ({"role": "user", "content": "我喜欢绿茶"},)
    assert (turn.agent, turn.session, turn.sender, turn.run_id) == ("main", SESSION, "u-1001", "run-7f3a")
    assert turn.at == 1_784_104_200_120 and turn.path == f"sessions/{TOKEN}/conversations/2026-07-15.jsonl"
    assert [(item.layer, item.type, item.content, item.line, item.ordinal) for item in records] == [
        ("L1", "episodic", "我喜欢绿茶", 1, 1),
        ("L1", "episodic", "second", 6, 5),
        ("L3", "profile", "我喜欢绿茶", 1, 1),
    ]
    assert records[0].keywords == ("绿茶",) and records[2].path == "agent-profiles/2026-07-16.jsonl"


def test_bad_lines_are_reported_with_their_number_and_encrypted_ones_as_such(tmp_path: Path) -> None:
    g2(tmp_path)
    problems = [item for item in read_layered(tmp_path) if isinstance(item, LayeredProblem)]
    assert [(item.line, item.reason.startswith("encrypted")) for item in problems] == [
        (3, False),
        (4, True),
        (5, False),
        (7, False),
    ]
    assert all(item.path.startswith("agents/main-0d6e4079e367/") for item in problems)


def test_links_are_not_followed_and_nothing_is_written(tmp_path: Path) -> None:
    root = g2(tmp_path / "data")
    outside = tmp_path / "outside.jsonl"
    write(outside, record("L1", "episodic", content="secret"))
    (root / "sessions" / TOKEN / "memories" / "2026-07-20.jsonl").symlink_to(outside)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    items = list(read_layered(tmp_path / "data"))
    assert not [item for item in items if isinstance(item, LayeredRecord) and item.content == "secret"]
    assert [item.line for item in items if isinstance(item, LayeredProblem)].count(None) == 1
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_the_two_older_layouts_are_read(tmp_path: Path) -> None:
    g1 = tmp_path / "g1"
    write(g1 / "agents" / "sales" / "scenarios" / "2026-06-01.jsonl", record("L2", "scenario", content="s"))
    (item,) = read_layered(g1)
    assert isinstance(item, LayeredRecord) and (item.layer, item.path) == ("L2", "scenarios/2026-06-01.jsonl")
    g0 = tmp_path / "g0"
    said = {"id": "1", "role": "user", "content": "hello", "timestamp": 1_700_000_000_000, "sessionKey": "s"}
    write(g0 / "conversations" / "2026-05-01.jsonl", said)
    l1 = {"id": "2", "content": "c", "type": "episodic", "sessionKey": "s", "createdAt": "2026-05-01T00:00:00Z"}
    write(g0 / "records" / "2026-05-01.jsonl", l1)
    turn, memory = read_layered(g0)
    assert isinstance(turn, LayeredTurn) and turn.messages == ({"role": "user", "content": "hello"},)
    assert (turn.agent, turn.at) == ("main", 1_700_000_000_000)
    assert isinstance(memory, LayeredRecord) and memory.layer == "L1"
    assert is_layered_directory(g1) and is_layered_directory(g0)


def test_recognition(tmp_path: Path) -> None:
    assert not is_layered_directory(tmp_path) and not is_layered_directory(tmp_path / "absent")
    write(tmp_path / "openclaw" / "agents" / "main" / "sessions" / "s-001.jsonl", {"type": "session", "id": "s-001"})
    assert not is_layered_directory(tmp_path / "openclaw")
    g2(tmp_path / "data")
    assert is_layered_directory(tmp_path / "data")
    (tmp_path / "key").mkdir()
    (tmp_path / "key" / ".isolation-key").write_bytes(bytes(32))
    assert is_layered_directory(tmp_path / "key")
