"""How the command line behaves whatever the command: options, usage errors, disabled memory, output, imports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from memory_sqlite import errors
from memory_sqlite.cli.app import COMMANDS, root
from memory_sqlite.cli.hits import emphasise
from memory_sqlite.cli.output import one_line, plain
from memory_sqlite.model import Span


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.delenv("MEMORY_SQLITE_CONFIG", raising=False)


def call(*words: str, **more: Any) -> Result:
    return CliRunner().invoke(root, list(words), **more)


def failed(result: Result) -> dict[str, Any]:
    document = json.loads(result.stdout)
    assert document["ok"] is False
    error: dict[str, Any] = document["error"]
    assert list(error) == ["code", "message", "hint", "retryable"]
    return error


def test_global_options_before_and_after_the_command(tmp_path: Path) -> None:
    """They mean the same in both places, and the later one wins."""
    for words in (
        ["--data-dir", str(tmp_path / "d"), "--agent", "ann", "--json", "config"],
        ["config", "--data-dir", str(tmp_path / "d"), "--agent", "ann", "--json"],
        ["--agent", "bob", "--data-dir", str(tmp_path / "d"), "config", "--json", "--agent", "ann"],
    ):
        settings = json.loads(call(*words).stdout)["settings"]
        assert settings["data_dir"]["value"] == str(tmp_path / "d")
        assert (settings["agent"]["value"], settings["agent"]["origin"]) == ("ann", "argument")


def test_config_shows_value_and_origin_of_each_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """File, environment and default are told apart; variables that name nothing are pointed out; nothing is created."""
    file = tmp_path / "c.toml"
    file.write_text("max_read_lines = 20\n")
    monkeypatch.setenv("MEMORY_SQLITE_RETENTION_DAYS", "none")
    monkeypatch.setenv("MEMORY_SQLITE_RETENTION_DAY", "7")
    document = json.loads(call("--config", str(file), "config", "--json").stdout)
    settings = document["settings"]
    assert (settings["max_read_lines"]["value"], settings["max_read_lines"]["origin"]) == (20, "file")
    assert (settings["retention_days"]["value"], settings["retention_days"]["origin"]) == (None, "environment")
    assert settings["agent"]["origin"] == "default"
    assert "MEMORY_SQLITE_RETENTION_DAY" in document["unknown_variables"]
    human = call("--config", str(file), "config")
    assert "max_read_lines = 20  (file" in human.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.toml"]


def test_configuration_errors_are_documents_too(tmp_path: Path) -> None:
    """A wrong value is one JSON error with the catalogue's exit code."""
    result = call("status", "--json", env={"MEMORY_SQLITE_MAX_READ_LINES": "0"})
    assert failed(result)["code"] == "invalid_configuration"
    assert result.exit_code == errors.InvalidConfiguration.exit_code


@pytest.mark.parametrize(
    "words",
    [["serch", "x"], ["search"], ["search", "x", "--nope"], ["search", "x", "-n", "0"], ["get", "x", "--from", "a"]],
)
def test_usage_errors(words: list[str]) -> None:
    """Exit code 2; a line with the way to help for people, one document with --json."""
    human = call(*words)
    assert human.exit_code == 2
    assert human.stdout == ""
    assert "--help" in human.stderr
    machine = call(*words, "--json")
    assert machine.exit_code == 2
    assert failed(machine)["code"] == "usage"


def test_no_words_at_all_is_a_question_for_help() -> None:
    """The first thing a newcomer types answers; a group without its command says what is missing."""
    assert call().exit_code == 0
    assert "quickstart" in call().stdout
    assert call("import").exit_code == 2
    assert failed(call("--json"))["code"] == "usage"


def test_mistyped_command_names_the_nearest() -> None:
    """A typo costs one look."""
    assert "'search'" in call("serch").stderr


GROUPS = {
    "import": ("transcripts", "layered", "jsonl"),
    "facts": ("list", "add", "remove"),
    "serve": ("mcp",),
    "key": ("status", "encrypt", "decrypt", "rotate", "change-passphrase"),
}


def test_every_command_teaches() -> None:
    """Each command's help has examples, and the overview names each command; loading none of them."""
    overview = call("--help").stdout
    for name in COMMANDS:
        assert name in overview
        if name not in GROUPS:
            help_text = call(name, "--help").stdout
            assert "Examples:" in help_text
            assert "--data-dir" in help_text
    for group, names in GROUPS.items():
        assert call(group).exit_code == 2
        for name in names:
            assert name in call(group, "--help").stdout
            assert "Examples:" in call(group, name, "--help").stdout


def test_errors_command_lists_the_catalogue() -> None:
    """The printed table is the catalogue and the command line's own codes."""
    listed = {row["code"]: row["exit_code"] for row in json.loads(call("errors", "--json").stdout)["errors"]}
    for code, error in errors.catalogue().items():
        assert listed[code] == error.exit_code
    assert listed["interrupted"] == 130


def test_schema_is_one_document() -> None:
    """The schema prints alone, with and without --json."""
    assert json.loads(call("config", "--schema").stdout) == json.loads(call("config", "--schema", "--json").stdout)


def test_disabled_answers_and_creates_nothing(tmp_path: Path) -> None:
    """enabled=false: every command says so with exit code 0; no file and no directory appears."""
    transcript = tmp_path / "t.jsonl"
    transcript.write_text('{"role": "user", "content": "hello"}\n')
    data = tmp_path / "data"
    for words in (
        ["search", "x"], ["get", "memory/x.md"], ["recall", "x"], ["status"], ["sessions"], ["index"], ["quickstart"],
        ["remember", "--user", "x"], ["import", "transcripts", str(transcript)], ["import", "layered", str(tmp_path)],
        ["export", str(data / "x")], ["export", "--as", "layered", str(data)], ["export", "--as", "transcripts", "x"],
        ["facts", "list"], ["facts", "add", "x"], ["facts", "remove", "x"], ["doctor"], ["doctor", "--fix"],
    ):  # fmt: skip
        result = call("--data-dir", str(data), *words, "--json", env={"MEMORY_SQLITE_ENABLED": "false"})
        assert result.exit_code == 0, words
        document = json.loads(result.stdout)
        assert document["ok"] is True
        if words[0] != "sessions":
            assert "disabled" in (
                document.get("status"),
                document.get("reason"),
                document.get("disabled") and "disabled",
            )
        human = call("--data-dir", str(data), *words, env={"MEMORY_SQLITE_ENABLED": "false"})
        assert human.exit_code == 0
        assert "disabled" in human.output.lower(), words
    assert not data.exists()


def test_remember_refuses_documents_that_are_none_without_quoting_them() -> None:
    """Bad standard input names line and column or the key, never the content."""
    for text in ("not json secret-word", '{"messages": [], "secret": 1}', "3", "[" * 100_000, "9" * 6_000, ""):
        result = call("remember", "--json", input=text)
        error = failed(result)
        assert error["code"] == "invalid_argument"
        assert "secret-word" not in result.stdout
    assert failed(call("remember", "--json", input=b"\xff\xfe["))["code"] == "invalid_argument"


def test_unexpected_exceptions_show_no_stored_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect exits with 70 and names its kind and place; its message may quote a memory and stays hidden."""
    from memory_sqlite import config

    def broken(**_: object) -> None:
        raise RuntimeError("the text of a memory")

    monkeypatch.setattr(config, "load", broken)
    result = call("status", "--json")
    assert result.exit_code == 70
    assert failed(result)["code"] == "internal"
    assert "RuntimeError" in result.stdout
    assert "memory_sqlite." in result.stdout
    assert "the text of a memory" not in result.output


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_disk_behind_the_output() -> None:
    """Output that cannot be written is said in one line, with its own code, whichever form it has."""
    for words in (["errors"], ["errors", "--json"]):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "memory_sqlite", *words], stdout=full, stderr=subprocess.PIPE, timeout=60
            )
        assert done.returncode == 74
        assert done.stderr == b"memory-sqlite: standard output could not be written\n"


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("a\x1b]0;title\x07b", "ab"),
        ("a\x1b]8;;http://x\x1b\\link", "alink"),
        ("\x9b2Jclear", "clear"),
        ("one\rtwo\x00\x08", "onetwo"),
        ("keep\ttab\nline 数据 🧱", "keep\ttab\nline 数据 🧱"),
        ("\u202eevil\u2066", "evil"),
        ("end\x1b", "end"),
    ],
)
def test_stored_text_cannot_drive_a_terminal(stored: str, shown: str) -> None:
    """Escape sequences, control characters and reordering marks are removed from what people see."""
    assert plain(stored) == shown


def test_emphasis_follows_the_matches_and_survives_odd_spans() -> None:
    """Only on a terminal, only inside the text, overlapping spans once."""
    text = "router \x1b[31min VLAN"
    spans = [Span(0, 6), Span(3, 6), Span(15, 99)]
    assert emphasise(text, spans, False) == "router in VLAN"
    assert emphasise(text, spans, True) == "\x1b[1mrouter\x1b[0m in \x1b[1mVLAN\x1b[0m"
    assert one_line("a\nb\x1b[2J  c" * 100, 10) == "a b ca b …"


@pytest.mark.parametrize("command", ["search", "get", "recall", "status"])
def test_reading_commands_start_lean(command: str, tmp_path: Path) -> None:
    """None of pydantic, rich, asyncio, apsw.ext, apsw.bestpractice, numpy is imported to read."""
    code = (
        "import sys; from memory_sqlite.cli.app import root\n"
        f"words = ['--data-dir', {str(tmp_path / 'data')!r}, *sys.argv[1:]]\n"
        "try: root.main(words)\n"
        "except SystemExit as leave: print('exit', leave.code, file=sys.stderr)\n"
        "heavy = ('pydantic', 'rich', 'asyncio', 'apsw.ext', 'apsw.bestpractice', 'numpy', 'logging.config')\n"
        "print([name for name in heavy if name in sys.modules], file=sys.stderr)\n"
    )
    remembered = call("--data-dir", str(tmp_path / "data"), "remember", "--user", "The router is in VLAN 20.")
    assert remembered.exit_code == 0, remembered.output
    words = [command] if command == "status" else [command, "router"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, encoding="utf-8", timeout=60, check=True
    )
    assert "exit 0" in done.stderr
    assert done.stderr.strip().endswith("[]")
