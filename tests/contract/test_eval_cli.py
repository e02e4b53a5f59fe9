"""``memory-sqlite eval``: a table for people, typed errors, a memory that is switched off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from memory_sqlite.cli.app import root

LINES: list[dict[str, Any]] = [
    {"query": "router VLAN", "expected": ["memory/net.md"], "category": "network"},
    {"query": "Mia", "expected": ["memory/people.md#L3"]},
    {"query": "xylophone", "expected": []},
    {"query": "harbour", "expected": ["memory/none.md"]},
    {"query": "router", "expected": ["memory/net.md"], "session": "stranger"},
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEMORY_SQLITE_DATA_DIR", str(tmp_path / "data"))
    notes = tmp_path / "workspace" / "memory"
    notes.mkdir(parents=True)
    (notes / "net.md").write_text("The router is in VLAN 20.\n")
    (notes / "people.md").write_text("# People\n\nMia likes tea.\n")
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return tmp_path


def call(*words: str, **more: Any) -> Any:
    return CliRunner().invoke(root, list(words), **more)


def test_the_table(place: Path) -> None:
    """A row a category and one for all; what should find nothing; the lines to look at; warnings of the searches."""
    assert call("index", "--workspace", str(place / "workspace")).exit_code == 0
    result = call("eval", str(place / "q.jsonl"), "--k", "5")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["questions", "recall@5", "hit@1", "hit@3", "hit@5", "ndcg@5", "mrr"]
    assert lines[1].split()[:3] == ["network", "1", "1.000"]
    assert lines[2].split()[:3] == ["all", "5", "0.500"]
    assert "1 of 1 that should find nothing found nothing." in lines
    assert "2 questions not answered, on line 4, 5." in lines
    assert "may not see" in result.stderr


def test_errors_are_typed(place: Path) -> None:
    """A wrong line, a session that asks for too much, an agent that is not there."""
    assert call("index", "--workspace", str(place / "workspace")).exit_code == 0
    bad = place / "bad.jsonl"
    bad.write_text('{"query": "secret"}\n')
    result = call("eval", str(bad), "--json")
    error = json.loads(result.stdout)["error"]
    assert (error["code"], result.exit_code) == ("labels_invalid", 65)
    assert "line 1" in error["message"] and "secret" not in result.stdout
    result = call("eval", str(place / "q.jsonl"), "--k", "50", "--json")
    assert json.loads(result.stdout)["error"]["message"].startswith("line 5: max_results")
    result = call("eval", str(place / "q.jsonl"), "--agent", "nobody", "--json")
    assert json.loads(result.stdout)["error"]["code"] == "unknown_agent"


def test_disabled(place: Path) -> None:
    """Nothing is asked and nothing is made."""
    result = call("eval", str(place / "q.jsonl"), "--json", env={"MEMORY_SQLITE_ENABLED": "false"})
    document = json.loads(result.stdout)
    assert (document["disabled"], document["overall"]["questions"], document["answers"]) == (True, 0, [])
    assert not (place / "data").exists()
    assert "disabled" in call("eval", str(place / "q.jsonl"), env={"MEMORY_SQLITE_ENABLED": "false"}).stderr
