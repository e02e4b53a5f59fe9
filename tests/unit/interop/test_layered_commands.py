"""Moving in and out on the command line: where the key comes from, trying first, and finding old data."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from memory_sqlite import Memory
from memory_sqlite.cli.app import root
from memory_sqlite.interop.layered_found import look

OLD: Any = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("layered_writer.py"))))
DM = "agent:main:wecom:dm:u-1001"


def run(tmp_path: Path, *words: str, **more: Any) -> Result:
    return CliRunner().invoke(root, ["--data-dir", str(tmp_path / "new"), *words], **more)


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    """An encrypted directory with one turn and one record, and a line that is torn."""
    old = OLD.Writer(tmp_path / "old", "G2", OLD.SECRET)
    old.turn(DM, ["granite desk"], run="r1")
    old.append(old.folder(DM, "L1"), "2026-07-15", "torn\n")
    old.record("L1", DM, "granite desk", run="r1")
    return tmp_path / "old"


def test_the_key_comes_from_a_variable_a_file_or_a_command(tmp_path: Path, sealed: Path) -> None:
    """Each of the three opens it; none, two, a wrong one and a short one do not, and nothing is stored."""
    (tmp_path / "key").write_text(OLD.SECRET + "\n")
    path = str(sealed)
    refused = {
        (): (77, "encryption_key_required"),
        ("--key-env", "NOT_SET"): (2, "invalid_configuration"),
        ("--key-env", "WRONG"): (77, "encryption_key_wrong"),
        ("--key-env", "SHORT"): (2, "invalid_configuration"),
        ("--key-file", str(tmp_path / "nowhere")): (2, "invalid_configuration"),
        ("--key-env", "RIGHT", "--key-file", str(tmp_path / "key")): (2, "usage"),
    }
    env = {"RIGHT": OLD.SECRET, "WRONG": "x" * 40, "SHORT": "y" * 31}
    for given, (code, name) in refused.items():
        result = run(tmp_path, "--json", "import", "layered", path, *given, env=env)
        assert (result.exit_code, json.loads(result.stdout)["error"]["code"]) == (code, name), given
        assert "x" * 40 not in result.output and "y" * 31 not in result.output
        assert not (tmp_path / "new").exists()
    for given in (
        ["--key-env", "RIGHT"],
        ["--key-file", str(tmp_path / "key")],
        ["--key-command", f"cat {tmp_path}/key"],
    ):
        for directory in (tmp_path / "new").glob("agents/*/*"):
            directory.unlink()
        result = run(tmp_path, "--json", "import", path, *given, env=env)
        document = json.loads(result.stdout)
        assert (document["turns_stored"], document["episodes"], document["refused"]) == (1, 1, 1), result.output
        (problem,) = document["problems"]
        assert problem["line"] == 1 and problem["path"].endswith("memories/2026-07-15.jsonl")


def test_trying_makes_nothing_and_says_the_same(tmp_path: Path, sealed: Path) -> None:
    """No data directory, no session.key: a real import afterwards takes the old key over as if nobody had tried."""
    words = ("--json", "import", "layered", str(sealed), "--key-env", "RIGHT")
    env = {"RIGHT": OLD.SECRET}
    tried = json.loads(run(tmp_path, *words, "--dry-run", env=env).stdout)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old"]
    real = json.loads(run(tmp_path, *words, env=env).stdout)
    assert (tmp_path / "new" / "session.key").read_bytes() == OLD.KEY
    for document in (tried, real):
        del document["seconds"], document["expires"]  # they tell the moment
    assert tried.pop("dry_run") is True and real.pop("dry_run") is False
    assert tried == real
    OLD.Writer(sealed, "G0").turn(DM, ["one more"])
    again = run(tmp_path, *words[1:], "--dry-run", env=env)
    assert "Would import 1 turn " in again.stdout
    assert json.loads(run(tmp_path, "--json", "status").stdout)["turns"] == 1


def test_trying_an_export_makes_nothing_either(tmp_path: Path) -> None:
    """As with ``import jsonl --dry-run`` into an agent that is not there: also the key of the directory is heeded."""
    with Memory.open(tmp_path / "new") as memory:
        memory.remember(session="s", messages=[{"role": "user", "content": "granite"}])
        memory.export(tmp_path / "all.jsonl")
    before = sorted(path.name for path in (tmp_path / "new" / "agents").iterdir())
    result = run(tmp_path, "--json", "--agent", "copy", "import", "jsonl", str(tmp_path / "all.jsonl"), "--dry-run")
    document = json.loads(result.stdout)
    assert document["same_key"] and document["added"]["message"] == 1
    assert sorted(path.name for path in (tmp_path / "new" / "agents").iterdir()) == before


def test_trying_tells_of_another_key_as_the_real_import_does(tmp_path: Path, sealed: Path) -> None:
    with Memory.open(tmp_path / "new"):
        pass
    for more in (["--dry-run"], ["--dry-run", "--agent", "other"], []):
        named = ["--key-env", "RIGHT"]
        result = run(tmp_path, "--json", "import", "layered", str(sealed), *named, *more, env={"RIGHT": OLD.SECRET})
        assert json.loads(result.stdout)["error"]["code"] == "session_key_changed"


def test_an_encrypted_export_is_named_its_key(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "new") as memory:
        memory.remember(session="s", messages=[{"role": "user", "content": "granite"}])
    env = {"RIGHT": OLD.SECRET}
    result = run(tmp_path, "export", "--as", "layered", "--key-env", "RIGHT", str(tmp_path / "out"), env=env)
    assert result.exit_code == 0 and "encrypted" in result.output
    (line,) = next((tmp_path / "out").rglob("conversations/*.jsonl")).read_text().splitlines()
    assert json.loads(OLD.unseal(line, OLD.SECRET))["messages"] == [{"role": "user", "content": "granite"}]
    for form in ("jsonl", "transcripts"):
        result = run(tmp_path, "export", "--as", form, "--key-env", "RIGHT", str(tmp_path / form), env=env)
        assert result.exit_code == 2 and not (tmp_path / form).exists()


def test_into_an_encrypted_memory_and_out_of_it(tmp_path: Path, sealed: Path) -> None:
    """Its own key and that of the old directory have nothing to do with each other; trying makes nothing here, too."""
    env = {
        "RIGHT": OLD.SECRET,
        "OWN": "the-own-key-of-this-memory-0123456789",
        "MEMORY_SQLITE_ENCRYPTION_KEY_ENV": "OWN",
    }
    words = ("--json", "import", "layered", str(sealed), "--key-env", "RIGHT")
    assert json.loads(run(tmp_path, *words, "--dry-run", env=env).stdout)["turns_stored"] == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old"]
    assert json.loads(run(tmp_path, *words, env=env).stdout)["turns_stored"] == 1
    assert (tmp_path / "new" / "keyring.json").is_file()
    result = run(tmp_path, "export", "--as", "layered", str(tmp_path / "out"), env=env)
    assert result.exit_code == 0 and "in clear" in result.output
    (line,) = next((tmp_path / "out").rglob("conversations/*.jsonl")).read_text().splitlines()
    assert json.loads(line)["messages"] == [{"role": "user", "content": "granite desk"}]


# --- old data lying about -------------------------------------------------------------------------------------------


def test_old_data_is_found_in_its_places(tmp_path: Path) -> None:
    """The product's default directory and the data directory itself; what is not there or not readable is none."""
    environ = {"HOME": str(tmp_path / "home")}
    assert look(tmp_path / "data", environ) == [] and look(tmp_path / "data", {}) == []
    place = tmp_path / "home" / ".openclaw" / "state" / "memory"
    old = OLD.Writer(place, "G2", OLD.SECRET)
    old.turn(DM, ["granite"])
    OLD.Writer(place, "G1", OLD.SECRET, agent="Sales Bot").record("L1", DM, "granite")
    OLD.Writer(place, "G0").turn(DM, ["granite", "yes"])
    (found,) = look(tmp_path / "data", environ)
    assert (found.path, found.layouts, found.files, found.here) == (place, ("G0", "G1", "G2"), 3, False)
    assert found.encrypted is True and found.agents == (OLD.directory_of("main"), OLD.directory_of("Sales Bot"))
    (found,) = look(place, environ)
    assert found.here
    clear = OLD.Writer(tmp_path / "data", "G2")
    clear.record("L1", DM, "granite")
    here, there = look(tmp_path / "data", environ)
    assert (here.here, here.encrypted, there.here) == (True, False, False)
    (tmp_path / "data" / ".encryption-check").unlink()
    assert look(tmp_path / "data", {})[0].encrypted is None


def test_our_own_data_is_no_old_data(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "data") as memory:
        memory.remember(session="s", messages=[{"role": "user", "content": "granite"}])
        assert look(tmp_path / "data", {"HOME": str(tmp_path)}) == []


def test_looking_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_sqlite.limits.LAYERED_LOOK_FILES_MAX", 2)
    old = OLD.Writer(tmp_path / "data", "G2")
    for day in range(1, 6):
        old.record("L1", DM, "granite", day=f"2026-07-0{day}")
    assert look(tmp_path / "data", {})[0].files == 2
