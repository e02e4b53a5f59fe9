"""Transcripts out again as JSONL: the very bytes that came in where they were kept, the mask where there is one, and
what differs counted."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from memory_sqlite import Memory, errors
from memory_sqlite.cli.app import root
from memory_sqlite.clock import FixedClock
from memory_sqlite.config import Settings
from memory_sqlite.interop.transcripts_out import file_name

SECRET = "my password is hunter2-granite"


def opened(tmp_path: Path, *, redact: bool = False, **more: Any) -> Memory:
    settings = Settings(data_dir=tmp_path / "data", redact_secrets=redact, **more)
    return Memory.open(settings=settings, clock=FixedClock(1_785_000_000_000))


def dump(*values: Any) -> str:
    """Compact lines as JavaScript writes them."""
    text = "".join(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n" for value in values)
    return re.sub("[\ud800-\udfff]", lambda match: f"\\u{ord(match.group()):04x}", text)


def claude(number: int, kind: str, content: Any, answer: str | None = None) -> dict[str, Any]:
    message: dict[str, Any] = {"role": kind, "content": content}
    if answer is not None:
        message = {"id": answer, **message}
    own = {"type": kind, "uuid": f"u{number}", "parentUuid": f"u{number - 1}", "sessionId": "c1", "cwd": "/home/ada/x"}
    return {**own, "timestamp": f"2026-07-15T08:30:{number:02d}.120Z", "message": message}


def codex(number: int, kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": f"2026-07-15T08:30:0{number}.000Z", "type": kind, "payload": payload}


def openclaw(number: int, role: str, content: Any) -> dict[str, Any]:
    entry = {"type": "message", "id": f"e{number}", "parentId": None, "timestamp": f"2026-07-15T08:30:0{number}.000Z"}
    return {**entry, "message": {"role": role, "content": content}}


def call(number: str, name: str, **given: Any) -> list[dict[str, Any]]:
    return [{"type": "tool_use", "id": number, "name": name, "input": given}]


CLAUDE = [
    claude(1, "user", "Where is the granite desk? \u2028 花岗 \U0001f9ed \x7f"),
    claude(2, "assistant", [{"type": "text", "text": "Looking."}], "msg_1"),
    claude(3, "assistant", call("t1", "Grep", p=1.5, e=[None, True]), "msg_1"),
    claude(4, "user", [{"type": "tool_result", "tool_use_id": "t1", "content": "desk.md"}]),
    claude(5, "assistant", call("t2", "Read"), "msg_1"),
    claude(6, "user", [{"type": "tool_result", "tool_use_id": "t2", "content": "In Bergen."}]),
    claude(7, "assistant", [{"type": "text", "text": "It is in Bergen."}], "msg_2"),
    claude(8, "user", "Thanks."),
]
CODEX = [
    codex(0, "session_meta", id="x1", cwd="/home/ada/crane"),
    codex(
        1, "response_item", type="message", role="user", content=[{"type": "input_text", "text": "Build the crane."}]
    ),
    codex(2, "response_item", type="function_call", name="shell", arguments="{}", call_id="k1"),
    codex(3, "response_item", type="function_call_output", call_id="k1", output="done"),
]
OPENCLAW = [
    {"type": "session", "version": 3, "id": "o1", "timestamp": "2026-07-15T08:30:00.000Z"},
    openclaw(1, "user", "Open the gate."),
    openclaw(2, "assistant", [{"type": "text", "text": "Open."}]),
]
GENERIC = [
    {"role": "user", "content": "lone \ud83d", "session": "g1", "at": 1_784_104_200, "n": 12345678901234567890},
    {"role": "assistant", "content": "", "tool_calls": [{"id": "1"}], "session": "g1", "at": 1_784_104_201},
]


@pytest.mark.parametrize(
    ("lines", "session", "header"),
    [(CLAUDE, "c1", 0), (CODEX, "x1", 1), (OPENCLAW, "o1", 1), (GENERIC, "g1", 0)],
    ids=["claude-code", "codex", "openclaw", "generic"],
)
def test_what_came_in_goes_out_byte_for_byte(tmp_path: Path, lines: list[Any], session: str, header: int) -> None:
    """Every line that is a message, in the order of the file, also where answers and tool results were interleaved."""
    (tmp_path / "in.jsonl").write_text(dump(*lines), "utf-8")
    with opened(tmp_path) as memory:
        assert memory.import_transcripts([tmp_path / "in.jsonl"]).refused == 0
        report = memory.export_transcripts(tmp_path / "out")
        assert (report.status, report.sessions, report.lines) == ("ok", 1, len(lines) - header)
        assert (report.masked, report.shortened, report.without_data) == (0, 0, 0)
        one = memory.export_transcripts(tmp_path / "one.jsonl", session=session)
        assert (one.sessions, one.lines, one.bytes, one.messages) == (1, report.lines, report.bytes, report.messages)
    expected = dump(*lines[header:]).encode()
    assert (tmp_path / "out" / f"{session}.jsonl").read_bytes() == expected
    assert (tmp_path / "one.jsonl").read_bytes() == expected and report.bytes == len(expected)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "one.jsonl").stat().st_mode & 0o777 == 0o600


def test_the_mask_goes_out_and_is_counted(tmp_path: Path) -> None:
    """With redaction on the secret is in no line; the other lines are still what they were."""
    lines = [
        {"role": "user", "content": SECRET, "session": "s"},
        {"role": "user", "content": "granite", "session": "s"},
    ]
    (tmp_path / "in.jsonl").write_text(dump(*lines))
    with opened(tmp_path, redact=True) as memory:
        memory.import_transcripts([tmp_path / "in.jsonl"])
        assert memory.export_transcripts(tmp_path / "out").masked == 1
    masked, kept = (tmp_path / "out" / "s.jsonl").read_text().splitlines()
    assert "hunter2" not in masked and kept + "\n" == dump(lines[1])


def test_what_was_shortened_or_lost_its_base64_is_counted(tmp_path: Path) -> None:
    image = base64.b64encode(bytes(range(256)) * 4).decode()
    see = [{"type": "text", "text": "see"}, {"type": "image", "data": image}]
    lines = [{"role": "user", "content": said, "session": "s"} for said in ("granite " * 20_000, see)]
    (tmp_path / "in.jsonl").write_text(dump(*lines))
    with opened(tmp_path) as memory:
        memory.import_transcripts([tmp_path / "in.jsonl"])
        report = memory.export_transcripts(tmp_path / "out")
        assert (report.messages, report.shortened, report.without_data, report.masked) == (2, 1, 1, 0)


def test_what_was_said_live_goes_out_and_comes_in_again(tmp_path: Path) -> None:
    """The host's own messages, a file a session; read as a transcript they are the same messages."""
    with opened(tmp_path) as memory:
        for key in ("agent:main:main", "agent:main:x:group:7", "empty?"):
            messages = [{"role": "user", "content": f"hello {key}", "at": 1_784_104_200, "id": "m1"},
                        {"role": "assistant", "content": "hi", "id": "m2"}]  # fmt: skip
            memory.remember(session=key, messages=messages)
        memory.forget(sessions=["empty?"])
        report = memory.export_transcripts(tmp_path / "out")
        assert (report.sessions, report.messages, report.lines) == (2, 4, 4)
    names = ["agent%3Amain%3Amain.jsonl", "agent%3Amain%3Ax%3Agroup%3A7.jsonl"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
    with Memory.open(tmp_path / "other") as memory:
        back = memory.import_transcripts([tmp_path / "out" / names[0]], session="agent:main:main")
        assert (back.turns_stored, back.messages, back.refused) == (1, 2, 0)


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("../../etc/passwd", "%2E./..%2Fetc%2Fpasswd".replace("/", "%2F")),
        (".hidden", "%2Ehidden"),
        ("-rf", "%2Drf"),
        ("a/b\\c:d", "a%2Fb%5Cc%3Ad"),
        ("会话", "%E4%BC%9A%E8%AF%9D"),
        ("a%2Fb", "a%252Fb"),
        ("\n\x00", "%0A%00"),
    ],
)
def test_no_key_names_another_place(key: str, name: str) -> None:
    """A session's key becomes a plain name, whatever is in it."""
    assert file_name(key) == name


def test_keys_that_differ_in_case_or_are_long_have_files_of_their_own(tmp_path: Path) -> None:
    """Some file systems know no case, and no name is longer than 255 bytes."""
    keys = ["Granite", "granite", "g" * 400, "g" * 401, "花" * 120]
    with opened(tmp_path) as memory:
        for key in keys:
            memory.remember(session=key, messages=[{"role": "user", "content": f"said in {key}"}])
        assert memory.export_transcripts(tmp_path / "out").sessions == 5
    names = [path.name for path in (tmp_path / "out").iterdir()]
    assert len({name.lower() for name in names}) == 5 and max(map(len, names)) < 255
    said = {json.loads(path.read_text())["content"] for path in (tmp_path / "out").iterdir()}
    assert said == {f"said in {key}" for key in keys}


def test_a_session_is_chosen_by_any_of_its_names(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        memory.remember(session="s", messages=[{"role": "user", "content": "granite"}])
        token = memory.sessions()[0]["token"]
        memory.export_transcripts(tmp_path / "one.jsonl", session=token)
        with pytest.raises(errors.OutputExists):
            memory.export_transcripts(tmp_path / "one.jsonl", session="s")
        memory.export_transcripts(tmp_path / "one.jsonl", session="s", overwrite=True)
        with pytest.raises(errors.InvalidArgument):
            memory.export_transcripts(tmp_path / "two.jsonl", session="nobody")
        assert not (tmp_path / "two.jsonl").exists()
        with pytest.raises(errors.OutputExists):
            memory.export_transcripts(tmp_path / "data")


def test_the_command_line_writes_transcripts(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        memory.remember(session="s", messages=[{"role": "user", "content": "granite"}])
    data = ["--data-dir", str(tmp_path / "data"), "export", "--as", "transcripts"]
    result = CliRunner().invoke(root, [*data, str(tmp_path / "out")])
    assert result.exit_code == 0 and "1 message of 1 session" in result.output
    result = CliRunner().invoke(root, [*data, "--session", "s", str(tmp_path / "one.jsonl"), "--json"])
    assert json.loads(result.output)["lines"] == 1
    assert json.loads((tmp_path / "one.jsonl").read_text())["content"] == "granite"
