"""``memory-sqlite forget``: the plan, the question, the report, the exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from memory_sqlite import Memory
from memory_sqlite.cli import forget
from memory_sqlite.cli.app import root
from memory_sqlite.config import Settings
from memory_sqlite.forgetting import proof


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with Memory.open(settings=Settings(data_dir=tmp_path / "data")) as memory:
        for session, word in (("friday", "granite"), ("monday", "slate")):
            said = [{"role": "user", "content": f"I love {word} tea.", "sender": "ann"}]
            memory.remember(session=session, messages=said, chat_type="direct", sender_is_owner=True)
    return tmp_path / "data"


def call(data: Path, *words: str, **more: Any) -> Result:
    return CliRunner().invoke(root, [*words, "--data-dir", str(data)], **more)


def answer(data: Path, *words: str) -> dict[str, Any]:
    result = call(data, "forget", "--json", "--yes", *words)
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    assert document.pop("ok") is True
    return document


def sessions(data: Path) -> list[str]:
    listed = json.loads(call(data, "sessions", "--json").stdout)["sessions"]
    return [row["session"] for row in listed]


def test_inv_088_dry_run_and_real_run_agree(data: Path) -> None:
    """The same numbers, and only the second one does anything; unknown names are no failure."""
    planned = answer(data, "--session", "friday", "--session", "nope", "--dry-run")
    assert (planned["status"], planned["unresolved"], planned["turns"]) == ("planned", ["nope"], 1)
    assert sessions(data) == ["monday", "friday"]
    real = answer(data, "--session", "friday", "--session", "nope")
    differ = {name for name in planned if planned[name] != real[name]}
    assert differ <= {"status", "dry_run", "generations", "searched_for", "verified", "seconds"}
    assert (real["status"], real["verified"]) == ("forgotten", True)
    assert sessions(data) == ["monday"]
    assert answer(data, "--session", "friday")["status"] == "nothing"


def test_every_selector_reaches_the_door(data: Path) -> None:
    """Each option chooses what the argument of the same name does."""
    hits = json.loads(call(data, "search", "granite", "--json").stdout)["hits"]
    record = next(hit["reference"] for hit in hits if hit["layer"] == "L3")
    for words, turns in (
        (["--participant", "ann"], 2),
        (["--record", record.removeprefix("record:")], 1),
        (["--record", record, "--keep-turns"], 0),
        (["--reference", hits[0]["reference"]], 1),
        (["--since", "2026-01-01"], 2),
        (["--until", "2026-01-01"], 0),
        (["--session", "friday", "--since", "2026-01-01", "--until", "2100-01-01", "--notes"], 1),
        (["--hook-source", "gmail"], 0),
    ):
        assert answer(data, "--dry-run", *words)["turns"] == turns, words


def test_usage_errors(data: Path) -> None:
    """Nothing named, or a time that is none: exit code 2, and nothing is forgotten."""
    for words in ([], ["--notes"], ["--since", "soon"], ["--nope"]):
        result = call(data, "forget", *words)
        assert result.exit_code == 2, words
    assert len(sessions(data)) == 2


def test_a_script_must_say_yes(data: Path) -> None:
    """Where nobody can be asked nothing is forgotten without ``--yes``; looking first needs none."""
    for words in (["--session", "friday"], ["--session", "friday", "--json"]):
        refused = call(data, "forget", *words)
        assert refused.exit_code == 2
        assert "--yes" in refused.output
    assert len(sessions(data)) == 2
    assert call(data, "forget", "--session", "friday", "--dry-run").exit_code == 0
    assert call(data, "forget", "--session", "friday", "--yes").exit_code == 0
    assert sessions(data) == ["monday"]


def test_a_person_is_shown_the_plan_and_asked(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal: no is no, yes is done, and ``--yes`` does not ask. What was said is never printed."""
    monkeypatch.setattr(forget, "_is_terminal", lambda: True)
    refused = call(data, "forget", "--session", "friday", input="n\n")
    assert refused.exit_code == 130
    assert "Would forget 1 session, 1 turn, 1 message" in refused.output
    assert len(sessions(data)) == 2
    done = call(data, "forget", "--session", "friday", input="y\n")
    assert done.exit_code == 0
    assert "nothing is left" in done.output
    assert "Forgot" in call(data, "forget", "--session", "monday", "--yes").output
    assert "granite" not in refused.output + done.output
    assert sessions(data) == []


def test_unfinished_is_an_exit_code(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be proved is said, and 75 tells a script to call again."""
    monkeypatch.setattr(proof, "_ask", lambda files, pieces, key: "the files could not be searched (OSError)")
    result = call(data, "forget", "--session", "friday", "--yes")
    assert result.exit_code == 75
    assert "not finished: the files could not be searched" in result.output


def test_disabled_memory(tmp_path: Path) -> None:
    """An answer, exit code 0."""
    result = call(tmp_path / "none", "forget", "--session", "x", env={"MEMORY_SQLITE_ENABLED": "false"})
    assert result.exit_code == 0
    assert "disabled" in result.output
