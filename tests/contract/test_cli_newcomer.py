"""What somebody meets who types something wrong, or reads what the commands say, for the first time."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from memory_sqlite import Memory, errors
from memory_sqlite.cli import quickstart
from memory_sqlite.cli.app import root
from memory_sqlite.cli.output import columns
from memory_sqlite.cli.status import size


@pytest.fixture(autouse=True)
def _own_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MEMORY_SQLITE_DATA_DIR", str(tmp_path / "data"))


def call(*words: str) -> Result:
    return CliRunner().invoke(root, list(words))


def transcript(path: Path) -> Path:
    lines = [
        {"role": "user", "content": "I love oolong tea.", "at": "2026-05-01T08:00:00Z"},
        {"role": "assistant", "content": "Noted."},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    os.utime(path, (1, 1))  # settled: an import of it is remembered as whole
    return path


def test_a_mistyped_path_is_an_error_when_it_was_all_there_was(tmp_path: Path) -> None:
    """Alone it fails; beside something that could be read it is a problem in the report."""
    result = call("import", "transcripts", str(tmp_path / "nowhere.jsonl"))
    assert result.exit_code == errors.InvalidArgument.exit_code
    assert "nowhere.jsonl: no such file or directory" in result.stderr
    both = call("import", "transcripts", str(tmp_path / "nowhere.jsonl"), str(transcript(tmp_path / "chat.jsonl")))
    assert both.exit_code == 0
    assert "Imported 1 turn" in both.stdout
    assert "nowhere.jsonl" in both.stderr


def test_a_mistyped_workspace_is_not_kept(tmp_path: Path) -> None:
    """A search with it says so, and the next one without it uses the right one again."""
    notes = tmp_path / "notes"
    (notes / "memory").mkdir(parents=True)
    (notes / "memory" / "net.md").write_text("The router is in VLAN 20.\n")
    assert call("--workspace", str(notes), "index").exit_code == 0
    assert "workspace is not there" in call("--workspace", str(tmp_path / "ntoes"), "search", "router").stderr
    again = call("search", "router")
    assert "net.md" in again.stdout
    assert again.stderr == ""


def test_an_unchanged_file_is_read_again_when_more_is_said_about_it(tmp_path: Path) -> None:
    """Whose chat it was can be said by importing it once more."""
    path = str(transcript(tmp_path / "chat.jsonl"))
    assert "Imported 1 turn" in call("import", "transcripts", path).stdout
    assert "1 file unchanged" in call("import", "transcripts", path).stderr
    told = ("import", "transcripts", path, "--chat-type", "direct", "--owner")
    assert "(1 already known" in call(*told).stdout
    assert "1 file unchanged" in call(*told).stderr
    assert call("sessions").stdout.startswith("chat  direct, owner  1 turn")


@pytest.mark.parametrize(
    ("content", "status"),
    [("", "empty"), (" \n", "empty"), ([], "empty"), ([{"type": "image", "source": "x.png"}], "stored")],
)
def test_nothing_but_blanks_is_nothing(memory: Memory, content: Any, status: str) -> None:
    """``--user "$EMPTY"`` stores nothing; a picture without words is something."""
    receipt = memory.remember(session="s", messages=[{"role": "user", "content": content}])
    assert receipt.status == status
    assert memory.status()["messages"] == (status == "stored")


@pytest.mark.parametrize("text", ["max_read_lines = 0\n", "zzz = 1\n"])
def test_the_advice_for_a_wrong_setting_can_be_followed(tmp_path: Path, text: str) -> None:
    """``config`` fails as any command does while the file is wrong, so that is not what is advised."""
    file = tmp_path / "c.toml"
    file.write_text(text)
    result = call("--config", str(file), "status")
    assert result.exit_code == errors.InvalidConfiguration.exit_code
    advised = result.stderr.split("`memory-sqlite ")[1].split("`")[0].split()
    assert "max_read_lines" in call("--config", str(file), *advised).stdout


def test_reading_behind_the_end_says_so() -> None:
    call("remember", "--user", "The key is under the mat.")
    reference = json.loads(call("search", "mat", "--json").stdout)["hits"][0]["path"]
    result = call("get", reference, "--from", "99")
    assert (result.stdout, result.stderr, result.exit_code) == ("", "It has no line 99.\n", 0)


def test_a_full_index_counts_what_it_holds() -> None:
    """Without notes, too."""
    call("remember", "--user", "The key is under the mat.", "--assistant", "Noted.")
    report = json.loads(call("index", "--full", "--json").stdout)
    assert (report["added"], report["chunks"]) == (0, 3)
    assert "3 passages" in call("index", "--full").stdout


def test_sessions_stand_below_each_other() -> None:
    for session in ("a", "周末的聊天"):
        call("remember", "--session", session, "--user", "hello")
    assert [line.index("1 turn") for line in call("sessions").stdout.splitlines()] == [
        22,
        27,
    ]  # the first has five wide characters
    assert list(columns([["a", "b", ""], ["ccc", "d", "e"]])) == ["a    b", "ccc  d  e"]
    assert list(columns([])) == []
    assert "--offset 1" in call("sessions", "--limit", "1").stderr


def test_status_is_for_people() -> None:
    call("remember", "--user", "hello")
    shown = call("status").stdout
    assert " KiB" in shown
    assert "read only" not in shown
    assert [size(0), size(1536), size(3 * 1024**3), size(5 * 1024**4)] == ["0 B", "1.5 KiB", "3.0 GiB", "5,120.0 GiB"]


def test_quickstart_names_itself_as_it_can_be_called(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In a virtual environment that is not active the bare name would not be found."""
    monkeypatch.setattr(sys, "argv", [".venv/bin/memory-sqlite"])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert quickstart._program() == ".venv/bin/memory-sqlite"
    program = tmp_path / "memory-sqlite"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert quickstart._program() == "memory-sqlite"
    monkeypatch.setattr(sys, "argv", ["pytest"])
    assert quickstart._program() == "memory-sqlite"
