"""``prune`` and ``hold`` on the command line, and what imports and the quickstart say about expiry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from memory_sqlite import Memory
from memory_sqlite.cli.app import root
from memory_sqlite.clock import Clock, FixedClock
from memory_sqlite.config import Settings

DAY = 86_400_000


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEMORY_SQLITE_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


def run(*words: str) -> Result:
    return CliRunner().invoke(root, list(words))


def filled(data: Path, monkeypatch: pytest.MonkeyPatch, days: int) -> None:
    """Three sessions of a fixed moment, and a command line whose clock is so many days further."""
    clock = FixedClock()
    with Memory.open(settings=Settings(data_dir=data), clock=clock) as memory:
        for session in ("a", "b", "kept"):
            words = [{"role": "user", "content": "I love MARKER-QUEBEC-7."}]
            memory.remember(session=session, chat_type="direct", sender_is_owner=True, messages=words)
        memory.hold("kept")
    monkeypatch.setattr(Clock, "now_ms", lambda self: clock.ms + days * DAY)


def test_prune_says_what_it_would_do_and_does_it(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The dry run, the clock that is doubted (exit code 75), the run, and nothing left: never a word of a memory."""
    filled(data, monkeypatch, 91)
    planned = run("prune", "--dry-run")
    assert planned.exit_code == 0
    assert "Would expire 1 session, 2 turns, 2 messages, 2 episodes." in planned.stdout
    assert "may have jumped ahead" in planned.stderr
    doubted = run("prune")
    assert (doubted.exit_code, doubted.stdout) == (75, "Nothing was done.\n")
    real = run("prune", "--trust-clock")
    assert real.exit_code == 0
    assert "Expired 1 session, 2 turns" in real.stdout and "nothing is left" in real.stdout
    assert "1 session as old and kept: held." in real.stderr
    assert run("prune").stdout == "Nothing is too old.\n"
    for result in (planned, doubted, real):
        assert "QUEBEC" not in result.output


def test_prune_with_retention_off_says_so(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not that nothing is too old, as though something could be."""
    filled(data, monkeypatch, 4_000)
    monkeypatch.setenv("MEMORY_SQLITE_RETENTION_DAYS", "none")
    assert run("prune", "--trust-clock").stdout == "Everything is kept for ever (retention_days = none).\n"


def test_hold_list_release_and_what_forget_says(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A held session is refused with its own code and exit code, and the hint that helps."""
    filled(data, monkeypatch, 1)
    assert "kept  legal  since 2026-07-15" in run("hold").stdout
    refused = run("forget", "--session", "kept", "--yes", "--json")
    document: dict[str, Any] = json.loads(refused.stdout)
    assert (refused.exit_code, document["error"]["code"]) == (77, "session_held")
    assert "--release" in document["error"]["hint"]
    assert run("hold", "a", "--pin", "--reason", "dear").stdout == "a is kept from now on (pin).\n"
    assert "a  pin  since" in run("hold").stdout
    assert run("hold", "kept", "--release").stdout == "kept is not kept any more (legal).\n"
    assert run("forget", "--session", "kept", "--session", "a", "--yes").exit_code == 0
    assert run("hold").stdout == "No session is held or pinned.\n"
    assert run("hold", "--pin").exit_code == 2
    assert run("hold", "b", "--release", "--reason", "x").exit_code == 2
    assert run("hold", "nobody").exit_code == 2


def test_imports_and_the_quickstart_say_when_it_expires(data: Path, tmp_path: Path) -> None:
    """In text and in JSON; with retention off that it is kept for ever."""
    transcript = tmp_path / "chat.jsonl"
    transcript.write_text('{"role":"user","content":"Where is the key?"}\n')
    said = run("import", "transcripts", str(transcript))
    assert "Conversations expire on 2" in said.stderr and "facts stay" in said.stderr
    assert "Conversations expire on 2" in run("quickstart").stderr
    exported = tmp_path / "a.jsonl"
    run("export", str(exported))
    merged = run("import", str(exported), "--agent", "copy")
    assert "Conversations expire on 2" in merged.stderr
    document = json.loads(run("import", str(exported), "--agent", "third", "--json").stdout)
    assert document["expires"]["sessions"] == 1 and document["expires"]["first_at"]


def test_an_import_with_retention_off_says_for_ever(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The opposite must be as plain."""
    monkeypatch.setenv("MEMORY_SQLITE_RETENTION_DAYS", "none")
    transcript = tmp_path / "chat.jsonl"
    transcript.write_text('{"role":"user","content":"Where is the key?"}\n')
    assert "Kept for ever" in run("import", "transcripts", str(transcript)).stderr
