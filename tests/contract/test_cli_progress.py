"""Progress of long work: drawn where a person watches, and nothing at all in pipes and with ``--json``."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def commands(tmp_path: Path) -> list[list[str]]:
    """The commands that may take long: an index and an import."""
    memory = tmp_path / "workspace" / "memory"
    memory.mkdir(parents=True)
    for number in range(5):
        (memory / f"n{number}.md").write_text(f"# Note {number}\n\nbasalt\n")
    transcript = tmp_path / "talk.jsonl"
    transcript.write_text('{"role": "user", "content": "basalt again"}\n')
    shared = ["--data-dir", str(tmp_path / "data"), "--workspace", str(memory.parent)]
    return [["index", *shared], ["import", "transcripts", *shared, "--chat-type", "direct", "--owner", str(transcript)]]


def run(words: list[str], stderr: int) -> subprocess.CompletedProcess[bytes]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MEMORY_SQLITE_")}
    environment |= {"TERM": "xterm", "COLUMNS": "100"}
    return subprocess.run(
        [sys.executable, "-m", "memory_sqlite", *words],
        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, timeout=60, check=True,
    )  # fmt: skip


def on_terminal(words: list[str]) -> bytes:
    """What a person sees on a terminal behind standard error."""
    ours, theirs = pty.openpty()
    try:
        run(words, theirs)
    finally:
        os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 65_536):
            shown += part
    except OSError:  # Linux says the end so
        pass
    os.close(ours)
    return shown


def test_a_terminal_sees_bars(commands: list[list[str]]) -> None:
    assert b"finishing" in on_terminal([*commands[0], "--full"])
    assert b"talk.jsonl" in on_terminal(commands[1])


def test_pipes_and_documents_see_none(commands: list[list[str]]) -> None:
    for words in commands:
        said = run(words, subprocess.PIPE).stderr  # remarks may be there, such as until when an import is kept
        assert not any(part in said for part in (b"\x1b", b"\r", b"finishing", b"talk.jsonl")), said
        assert on_terminal([*words, "--json"]) == b""
