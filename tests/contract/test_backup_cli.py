"""``backup``, ``verify`` and ``restore`` on the command line: documents, exit codes, words for people."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from memory_sqlite import errors, paths
from memory_sqlite.cli.app import root

BACKUP = [
    "ok", "status", "path", "created_at", "encrypted", "key_ids", "agents", "files", "bytes", "seconds", "problems",
]  # fmt: skip
VERIFIED = [
    "ok", "status", "path", "kind", "created_at", "encrypted", "key_ids", "agents", "files", "bytes", "seconds",
    "problems",
]  # fmt: skip
RESTORED = [
    "ok", "status", "path", "data_dir", "created_at", "encrypted", "agents", "files", "bytes", "looked_in",
    "forgotten_again", "came_back", "came_back_more", "unknown", "unknown_since", "seconds", "problems",
]  # fmt: skip
AGENT = ["directory", "agent", "schema", "counts"]
AGAIN = ["agent", "tombstones", "sessions", "turns", "messages", "records", "waiting"]
CAME_BACK = ["agent", "session", "turns", "records"]


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("MEMORY_SQLITE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)


def call(*words: str) -> Result:
    return CliRunner().invoke(root, list(words))


def document(*words: str, code: int = 0) -> dict[str, Any]:
    result = call(*words, "--json")
    assert result.exit_code == code, result.output
    assert result.stdout.count("\n") == 1
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.fixture
def said() -> None:
    call("remember", "--user", "I love oolong tea.", "--session", "friday")
    call("remember", "--user", "The crane is red.", "--agent", "ann")


@pytest.mark.usefixtures("said")
def test_documents_of_backups(tmp_path: Path) -> None:
    """The fields of each, in order, also of what is in their lists."""
    made = document("backup", "b")
    assert list(made) == BACKUP
    assert list(made["agents"][0]) == AGENT
    assert made["path"] == str(tmp_path / "b")
    verified = document("verify", "b")
    assert list(verified) == VERIFIED
    assert (verified["ok"], verified["status"], verified["kind"]) == (True, "ok", "backup")
    assert document("verify", "data")["kind"] == "data_directory"
    call("forget", "--session", "friday", "--yes")
    restored = document("restore", "b", "--data-dir", "new")
    assert list(restored) == RESTORED
    assert restored["looked_in"] == [str(tmp_path / "data")]
    assert list(restored["forgotten_again"][0]) == AGAIN
    revived = document("restore", "b", "--data-dir", "old", "--revive")
    assert list(revived["came_back"][0]) == CAME_BACK


@pytest.mark.usefixtures("said")
def test_words_for_people() -> None:
    """What was made, proved, put back, forgotten again, and what came back."""
    assert call("backup", "b").stdout.startswith("Backed up 2 agents to b (")
    assert call("verify", "b").stdout.startswith("The backup is sound: 2 agents, 4 files, ")
    assert call("verify", "data").stdout.startswith("The stores are sound: 2 agents, ")
    call("forget", "--session", "friday", "--yes")
    restored = call("restore", "b", "--data-dir", "new")
    assert restored.stdout.startswith("Restored 2 agents from b to ")
    assert "main: forgot again 1 turn and 2 records" in restored.stdout
    assert "friday, 1 turn" in call("restore", "b", "--data-dir", "old", "--revive").stderr
    alone = call("restore", "b", "--data-dir", "ann", "--agent", "ann")
    assert alone.stdout.startswith("Restored 1 agent from b to ")
    assert "oolong" not in call("search", "oolong", "--data-dir", "new").stdout
    assert "oolong" in call("search", "oolong", "--data-dir", "old").stdout
    assert "crane" in call("search", "crane", "--data-dir", "ann", "--agent", "ann").stdout


@pytest.mark.usefixtures("said")
def test_what_nobody_knows_is_told(tmp_path: Path) -> None:
    """Without a directory that knows, a person reads that forgotten things came back; one can be named."""
    call("backup", "b")
    call("forget", "--session", "friday", "--yes")
    (tmp_path / "data").rename(tmp_path / "broken")
    unknown = call("restore", "b")
    assert unknown.exit_code == 0
    assert "main: what was forgotten after 20" in unknown.stderr
    assert "oolong" in call("search", "oolong").stdout
    named = call("restore", "b", "--data-dir", "new", "--tombstones-from", "broken")
    assert "main: forgot again 1 turn" in named.stdout


@pytest.mark.usefixtures("said")
def test_one_agent_when_it_is_named() -> None:
    """--agent on the command line takes one; an agent from the environment says only who is meant elsewhere."""
    assert len(document("backup", "a", "--agent", "ann")["agents"]) == 1
    result = CliRunner().invoke(root, ["backup", "b", "--json"], env={"MEMORY_SQLITE_AGENT": "ann"})
    assert len(json.loads(result.stdout)["agents"]) == 2


@pytest.mark.usefixtures("said")
def test_damage_is_a_failure(tmp_path: Path) -> None:
    """Exit code 65, ``ok`` false, the error with its advice, and every problem, in both forms."""
    call("backup", "b")
    store = tmp_path / "b" / "agents" / paths.agent_directory_name("ann") / "memory.sqlite"
    store.write_bytes(store.read_bytes()[:-1])
    (tmp_path / "b" / "session.key").unlink()
    found = document("verify", "b", code=errors.BackupInvalid.exit_code)
    assert list(found) == [*VERIFIED, "error"]
    assert (found["ok"], found["status"], found["error"]["code"]) == (False, "damaged", "backup_invalid")
    assert len(found["problems"]) == 2
    human = call("verify", "b")
    assert human.exit_code == 65
    assert human.stdout.startswith("Damaged: 2 problems.")
    assert human.stderr.count("\n") == 2
    assert call("restore", "b", "--data-dir", "new").exit_code == 65
    assert not (tmp_path / "new").exists()


def test_refusals_say_what_to_do(tmp_path: Path) -> None:
    """Nothing there, something there already: typed, with a next step."""
    assert document("backup", "b", code=errors.UnknownAgent.exit_code)["error"]["code"] == "unknown_agent"
    call("remember", "--user", "I love oolong tea.")
    (tmp_path / "b").write_text("mine")
    assert document("backup", "b", code=errors.OutputExists.exit_code)["error"]["code"] == "output_exists"
    assert document("restore", "nowhere", "--data-dir", "n", code=2)["error"]["code"] == "invalid_argument"
    assert document("verify", "nowhere", code=2)["error"]["code"] == "invalid_argument"


def test_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_SQLITE_ENABLED", "false")
    for words in (["backup", "b"], ["verify", "b"], ["restore", "b"]):
        assert document(*words)["status"] == "disabled"
        assert "disabled" in call(*words).stderr


def test_every_field_of_a_backup_is_documented() -> None:
    """docs/json.md names each."""
    text = (resources.files("memory_sqlite") / "docs" / "json.md").read_text("utf-8")
    for command, names in (
        ("backup", BACKUP + AGENT), ("verify", VERIFIED), ("restore", RESTORED + AGAIN + CAME_BACK),
    ):  # fmt: skip
        section = text.split(f"## `{command}`", 1)[1].split("\n## ", 1)[0]
        for name in names[1:]:
            if name != "ok":
                assert f"`{name}`" in section or f" {name}" in section or f"{{{name}" in section, (command, name)
