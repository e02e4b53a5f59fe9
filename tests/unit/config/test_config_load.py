"""Rules of settings and their origins: default < file < environment < argument, and what is refused."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import errors, limits
from memory_sqlite.config import ExtraPath, Origin, Settings, config_path, load
from memory_sqlite.config_fields import FIELDS, Field

SECRET = "k3y-that-must-never-be-shown-0123456789"


@pytest.fixture(autouse=True)
def _no_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "no-config"))
    monkeypatch.delenv("MEMORY_SQLITE_CONFIG", raising=False)


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "memory-sqlite.toml"
    path.write_text(text, encoding="utf-8")
    return path


def refusal(**arguments: Any) -> errors.InvalidConfiguration:
    with pytest.raises(errors.InvalidConfiguration) as caught:
        load(**arguments)
    return caught.value


def test_table_and_dataclass_name_the_same_settings() -> None:
    """Every setting of the table is a field, and there is no other."""
    assert {entry.name for entry in FIELDS} == {field.name for field in fields(Settings)}


def test_defaults_and_bounds_are_those_of_the_limits() -> None:
    """Names, ranges and defaults of section 12, once, in limits.py."""
    for entry in FIELDS:
        if entry.kind == "integer":
            if entry.choices:  # days of one layer: bounds of retention_days, and its number unless told otherwise
                assert (entry.bounds, entry.choices) == (limits.RETENTION_DAYS[:2], ("same",))
                continue
            low, high, default = getattr(limits, entry.name.upper())
            assert entry.bounds == (low, high)
            assert getattr(Settings(), entry.name) == default


def test_days_of_one_layer_are_a_number_the_same_or_for_ever(tmp_path: Path) -> None:
    """Not given: as ``retention_days``, for facts for ever; ``none`` is something that was given."""
    days = [f"retention_days_l{layer}" for layer in range(4)]
    assert [getattr(Settings(), name) for name in days] == ["same", "same", "same", None]
    text = 'retention_days_l0 = 7\nretention_days_l1 = "none"\nretention_days_l2 = "Same"\nretention_days_l3 = "same"\n'
    settings, _ = load(file=written(tmp_path, text), environ={"MEMORY_SQLITE_RETENTION_DAYS_L0": "9"})
    assert [getattr(settings, name) for name in days] == [9, None, "same", "same"]
    with pytest.raises(errors.InvalidConfiguration, match="an integer between 1 and 3650, same, or none"):
        load(environ={"MEMORY_SQLITE_RETENTION_DAYS_L2": "often"})


SECTION_12 = {
    "max_search_results": (1, 100, 10),
    "max_search_bytes": (1_048_576, 268_435_456, 16_777_216),
    "max_read_lines": (1, 2_000, 200),
    "retention_days": (1, 3_650, 90),
    "extraction_interval": (1, 100, 5),
    "max_record_bytes": (1_024, 1_048_576, 65_536),
    "auto_recall_max_results": (1, 10, 5),
    "auto_recall_max_chars": (256, 16_000, 4_000),
    "auto_recall_timeout_ms": (50, 5_000, 1_000),
    "context_max_tokens": (0, 9_007_199_254_740_991, None),
}


EMBEDDING = {
    "embedding_provider": None,
    "embedding_model": None,
    "embedding_dimensions": (1, 8_192, None),
    "embedding_base_url": None,
    "embedding_api_key_env": None,
    "embedding_query_timeout_ms": (50, 60_000, 1_500),
    "embedding_batch_timeout_ms": (1_000, 600_000, 60_000),
}


LAYER_DAYS = re.compile(r"retention_days_l[0-3]$")
"""Ours alone, with a test of their own."""


def as_written(entry: Field) -> Any:
    """Bounds and default of a number, the default alone of anything else."""
    default = getattr(Settings(), entry.name)
    return (*entry.bounds, default) if entry.bounds else default


def test_bounds_and_defaults_are_those_of_section_12() -> None:
    """The reference's own numbers, written out: a bound that moves in ``limits.py`` is told here."""
    fields_of_12 = [entry for entry in FIELDS if entry.name not in EMBEDDING and not LAYER_DAYS.match(entry.name)]
    assert {entry.name: as_written(entry) for entry in fields_of_12 if entry.bounds} == SECTION_12
    others = {entry.name: as_written(entry) for entry in fields_of_12 if not entry.bounds}
    del others["data_dir"]
    assert others == {
        "enabled": True, "agent": "main", "workspace": None, "extra_paths": (), "compatibility": "standard",
        "redact_secrets": True, "encryption_key_env": None, "profile_scope": "session", "auto_recall": True,
        "encryption_key_file": None, "encryption_key_command": None, "encryption_passphrase": False,
        "encryption_cipher": "aegis",
    }  # fmt: skip


def test_bounds_and_defaults_of_embedding() -> None:
    """Written out; without a setting nothing is embedded and nothing leaves the machine."""
    assert {entry.name: as_written(entry) for entry in FIELDS if entry.name in EMBEDDING} == EMBEDDING
    assert Settings(embedding_provider="none").embedding_provider is None


@pytest.mark.parametrize("address", ["http://localhost:11434/v1", "https://api.example.com", "HTTP://[::1]:8080/a/b/"])
def test_addresses_of_a_server(address: str) -> None:
    """The scheme is http or https; a path may follow."""
    assert Settings(embedding_base_url=address).embedding_base_url == address


@pytest.mark.parametrize(
    "address",
    ["localhost:11434", "ftp://a/b", "file:///etc/passwd", "https:///v1", "https://user:pass@host/v1", "http://h/v1?key=a",
     "http://h/v1#a", "http://h/a b", f"https://{SECRET}@host"],
)  # fmt: skip
def test_an_address_holds_no_secret_and_is_not_repeated(address: str) -> None:
    """Settings are shown by ``config`` and in logs: users, passwords and queries are refused, and not shown then."""
    error = refusal(environ={"MEMORY_SQLITE_EMBEDDING_BASE_URL": address})
    assert "embedding_base_url must be an http:// or https:// address without a password" in error.message
    assert address not in error.message + error.hint


def test_each_layer_wins_over_the_one_below(tmp_path: Path) -> None:
    """default < file < environment < argument, and every origin is reported."""
    file = written(tmp_path, 'agent = "file"\nmax_read_lines = 20\nextraction_interval = 7\n')
    settings, origins = load(
        file=file,
        environ={"MEMORY_SQLITE_AGENT": "environment", "MEMORY_SQLITE_MAX_READ_LINES": "30"},
        arguments={"agent": "argument", "workspace": None},
    )
    assert (settings.agent, settings.max_read_lines, settings.extraction_interval) == ("argument", 30, 7)
    assert settings.retention_days == 90
    assert origins["agent"] == Origin("argument", "--agent")
    assert origins["max_read_lines"] == Origin("environment", "MEMORY_SQLITE_MAX_READ_LINES")
    assert origins["extraction_interval"] == Origin("file", str(file))
    assert origins["retention_days"] == Origin("default")


def test_unknown_key_names_itself_and_the_nearest_known_one(tmp_path: Path) -> None:
    """A misspelt or camelCase key is an error with a suggestion, never ignored."""
    error = refusal(file=written(tmp_path, "maxSearchResults = 5\n"), environ={})
    assert "maxSearchResults" in error.message
    assert "max_search_results" in error.hint
    assert "encryption_key_env" in refusal(file=written(tmp_path, 'encryption_key = "X"\n'), environ={}).hint


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("max_search_results = true", "max_search_results"),
        ('max_search_results = "40"', "max_search_results"),
        ("max_search_results = 5.0", "max_search_results"),
        ("max_search_results = 0", "max_search_results"),
        ("max_search_results = 101", "max_search_results"),
        ('max_search_results = "none"', "max_search_results"),
        ("retention_days = 3651", "retention_days"),
        ('enabled = "false"', "enabled"),
        ("enabled = 0", "enabled"),
        ('agent = "  "', "agent"),
        ("data_dir = 3", "data_dir"),
        ('workspace = "a\\u0000b"', "workspace"),
        ('profile_scope = "everyone"', "profile_scope"),
        ('compatibility = "layered"', "compatibility"),
        ('extra_paths = "notes"', "extra_paths"),
        ("extra_paths = [{glob = '*.md'}]", "extra_paths"),
        ("extra_paths = [{path = 'a', globs = '*.md'}]", "extra_paths"),
        ("extra_paths = [{path = 'a', glob = 3}]", "extra_paths"),
        ('encryption_key_env = "9KEY"', "encryption_key_env"),
    ],
)
def test_wrong_value_in_the_file_names_field_and_origin(tmp_path: Path, text: str, field: str) -> None:
    """No coercion, no clamping: the error names the field, its rule and the file."""
    file = written(tmp_path, text)
    error = refusal(file=file, environ={})
    assert field in error.message
    assert str(file) in error.message


WRONG: dict[str, list[Any]] = {
    "boolean": [1, "true", []],
    "integer": [True, 1.0, "5", [], -1, 10**30],
    "text": [5, " ", "a\0b", "\ud800"],
    "choice": [5, "", "other"],
    "variable": [5, "", "9", "a b"],
    "url": [5, "", "localhost:11434", "https://name:word@host/v1"],
    "command": [5, "", "echo 'x"],
    "path": [5, " ", "a\0b", []],
    "paths": ["a", [5], [""], [{"glob": "*.md"}], [{"path": "a", "other": 1}]],
}


@pytest.mark.parametrize("entry", FIELDS, ids=lambda entry: entry.name)
def test_every_setting_names_itself_when_it_is_wrong(entry: Field) -> None:
    """Whatever is wrong with it, by hand or through the environment; both ends of a range are inside."""
    may_be_none = entry.nullable or entry.name == "redact_secrets"  # none: as the compatibility has it
    for value in WRONG[entry.kind] + ([] if may_be_none else [None]):
        with pytest.raises(errors.InvalidConfiguration, match=rf"\b{entry.name} must be ") as caught:
            Settings(**{entry.name: value})
        assert caught.value.exit_code == 2
    if entry.bounds is not None:
        low, high = entry.bounds
        variable = f"MEMORY_SQLITE_{entry.name.upper()}"
        for inside in (low, high):
            assert getattr(load(environ={variable: str(inside)})[0], entry.name) == inside
        for outside in (low - 1, high + 1):
            assert entry.name in refusal(environ={variable: str(outside)}).message


def test_bounds_are_in_the_message() -> None:
    """A person reads what would have been right."""
    error = refusal(environ={"MEMORY_SQLITE_AUTO_RECALL_TIMEOUT_MS": "49"})
    assert "auto_recall_timeout_ms must be an integer between 50 and 5000" in error.message
    assert "MEMORY_SQLITE_AUTO_RECALL_TIMEOUT_MS" in error.message


@pytest.mark.parametrize("text", ["3.5", "4o", "true", "²", ""])
def test_environment_integers_are_decimal(text: str) -> None:
    """Variables are text: decimal digits only; an empty one is not set."""
    environ = {"MEMORY_SQLITE_MAX_READ_LINES": text}
    if text:
        assert "max_read_lines" in refusal(environ=environ).message
    else:
        assert load(environ=environ)[0].max_read_lines == 200


@pytest.mark.parametrize(("text", "value"), [("true", True), ("1", True), ("Off", False), ("no", False)])
def test_environment_booleans(text: str, value: bool) -> None:
    """The usual words of the environment."""
    assert load(environ={"MEMORY_SQLITE_ENABLED": text})[0].enabled is value
    assert "enabled" in refusal(environ={"MEMORY_SQLITE_ENABLED": f"{text}x"}).message


def test_none_means_null_only_where_null_is_allowed(tmp_path: Path) -> None:
    """TOML and the environment have no null: the word none takes its place."""
    settings, _ = load(file=written(tmp_path, 'retention_days = "none"\n'), environ={"MEMORY_SQLITE_WORKSPACE": "none"})
    assert settings.retention_days is None
    assert settings.workspace is None


def test_relative_paths_belong_to_the_file_and_elsewhere_to_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file means the same wherever the command is started."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf").mkdir()
    file = written(tmp_path / "conf", 'data_dir = "store"\nworkspace = "~/notes"\n')
    settings, _ = load(file=file, environ={})
    assert settings.data_dir == tmp_path / "conf" / "store"
    assert settings.workspace == tmp_path / "home" / "notes"
    assert load(file=file, environ={}, arguments={"data_dir": "other"})[0].data_dir == tmp_path / "other"
    assert load(environ={"MEMORY_SQLITE_DATA_DIR": "~//etc"})[0].data_dir == tmp_path / "home" / "etc"
    assert load(environ={"MEMORY_SQLITE_DATA_DIR": "~user/x"})[0].data_dir == tmp_path / "~user" / "x"


def test_extra_paths_from_file_and_environment(tmp_path: Path) -> None:
    """Strings or tables; relative ones stay relative, to the workspace."""
    file = written(tmp_path, 'extra_paths = ["docs", {path = "/srv/wiki", glob = "**/*.md"}]\n')
    assert load(file=file, environ={})[0].extra_paths == (ExtraPath("docs"), ExtraPath("/srv/wiki", "**/*.md"))
    assert load(environ={"MEMORY_SQLITE_EXTRA_PATHS": "docs:/srv/wiki"})[0].extra_paths == (
        ExtraPath("docs"),
        ExtraPath("/srv/wiki"),
    )


def test_compatibility_is_one_switch_over_redaction(tmp_path: Path) -> None:
    """Layered-memory mode has redaction off unless it is asked for by name, whichever way settings are made."""
    assert Settings().redact_secrets is True
    assert Settings(compatibility="layered-memory").redact_secrets is False
    assert Settings(compatibility="layered-memory", redact_secrets=True).redact_secrets is True
    settings, origins = load(environ={"MEMORY_SQLITE_COMPATIBILITY": "layered-memory"})
    assert settings.redact_secrets is False
    assert origins["redact_secrets"].detail == "of compatibility layered-memory"
    both = written(tmp_path, 'compatibility = "layered-memory"\nredact_secrets = true\n')
    assert load(file=both, environ={})[0].redact_secrets is True


def test_settings_made_by_hand_are_checked_too() -> None:
    """A Settings that exists is valid; changing one field checks again."""
    with pytest.raises(errors.InvalidConfiguration, match="max_search_results"):
        Settings(max_search_results=101)
    with pytest.raises(errors.InvalidConfiguration, match="auto_recall"):
        replace(Settings(), auto_recall=1)  # type: ignore[arg-type]


def test_a_configured_key_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never silently in clear: unset and too short keys each get their own error; no key is ever shown."""
    name = {"MEMORY_SQLITE_ENCRYPTION_KEY_ENV": "THE_KEY"}
    assert "is not set" in refusal(environ=name).message
    short = refusal(environ={**name, "THE_KEY": "too-short"})
    assert "at least 32 bytes" in short.message
    assert "too-short" not in short.message
    monkeypatch.setenv("THE_KEY", SECRET)
    settings = load(environ={**name, "THE_KEY": SECRET})[0]
    assert settings.encryption_key_env == "THE_KEY"
    assert SECRET not in repr(settings)


def test_one_place_of_a_key_is_enough(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two are a contradiction; a short passphrase must be meant; a file and a command are not read yet."""
    monkeypatch.setenv("THE_KEY", SECRET)
    monkeypatch.setenv("SHORT", "eightplus")
    with pytest.raises(errors.InvalidConfiguration, match="encryption_key_env and encryption_key_file"):
        Settings(encryption_key_env="THE_KEY", encryption_key_file=tmp_path / "absent")
    with pytest.raises(errors.InvalidConfiguration, match="at least 32 bytes"):
        Settings(encryption_key_env="SHORT")
    assert Settings(encryption_key_env="SHORT", encryption_passphrase=True)
    name = {
        "MEMORY_SQLITE_ENCRYPTION_KEY_ENV": "SHORT",
        "SHORT": "eightplus",
        "MEMORY_SQLITE_ENCRYPTION_PASSPHRASE": "1",
    }
    assert load(environ=name)[0].encryption_passphrase
    assert Settings(encryption_key_file=tmp_path / "absent").encryption_key_file == tmp_path / "absent"
    assert Settings(encryption_key_command="exit 3").encryption_key_command == "exit 3"


def test_a_key_put_where_its_name_belongs_is_not_shown(tmp_path: Path) -> None:
    """People put the key itself into encryption_key_env; the error must not repeat it."""
    error = refusal(file=written(tmp_path, f'encryption_key_env = "{SECRET}"\n'), environ={})
    assert "encryption_key_env" in error.message
    assert SECRET not in error.message + error.hint


def test_key_by_hand_is_checked_and_a_disabled_memory_needs_none() -> None:
    """The Python door cannot go round the check; a disabled memory stores nothing."""
    with pytest.raises(errors.InvalidConfiguration):
        Settings(encryption_key_env="THE_KEY")
    off = Settings(enabled=False, encryption_key_env="THE_KEY")
    with pytest.raises(errors.InvalidConfiguration):
        replace(off, enabled=True)


@pytest.mark.parametrize("content", [b"agent = \n", b"\xff\xfe", b"a" * (1024 * 1024 + 1)])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes) -> None:
    """Broken TOML, other encodings and wrong files are configuration errors with the file's name."""
    path = tmp_path / "memory-sqlite.toml"
    path.write_bytes(content)
    assert str(path) in refusal(file=path, environ={}).message


def test_missing_file_is_an_error_only_when_it_was_named(tmp_path: Path) -> None:
    """The default file may be absent; the named one and a directory in its place may not."""
    assert load(environ={})[0].agent == "main"
    assert "does not exist" in refusal(file=tmp_path / "absent.toml", environ={}).message
    assert "does not exist" in refusal(environ={"MEMORY_SQLITE_CONFIG": str(tmp_path / "absent.toml")}).message
    assert "cannot be read" in refusal(file=tmp_path, environ={}).message
    assert "cannot be read" in refusal(file="", environ={}).message


def test_default_file_and_byte_order_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's own file is found, also when an editor put a BOM before it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "etc"))
    path, named = config_path(None, {})
    assert (path, named) == (tmp_path / "etc" / "memory-sqlite" / "memory-sqlite.toml", False)
    path.parent.mkdir(parents=True)
    path.write_bytes(b'\xef\xbb\xbfagent = "bom"\n')
    assert load(environ={})[0].agent == "bom"
