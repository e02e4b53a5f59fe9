"""The layered-memory product's configuration: its messages, its order of checks, blocks 9, 10 and 49 of its tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import errors
from memory_sqlite.config_layered import from_layered

GOOD_KEY = "x" * 32


def refusal(configuration: dict[str, Any], environ: dict[str, str] | None = None) -> str:
    with pytest.raises(errors.InvalidConfiguration) as caught:
        from_layered(configuration, environ or {})
    return caught.value.message


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("retentionDays", 1.5),
        ("maxSearchResults", 101),
        ("enabled", "false"),
        ("maxSearchBytes", 1024),
        ("maxReadLines", 0),
    ],
)
def test_block_9_wrong_values_name_their_field(field: str, value: Any) -> None:
    """Block 9: each throws naming the field, in the product's words."""
    message = refusal({field: value})
    assert message.startswith(f"[memory] {field} must be a")


def test_block_9_integer_message_has_its_bounds() -> None:
    """The whole message form of section 12."""
    assert refusal({"maxSearchResults": 101}) == "[memory] maxSearchResults must be an integer between 1 and 100"


def test_block_10_short_key() -> None:
    """Block 10: a key variable holding `too-short` throws `at least 32 bytes`; the key is not shown."""
    message = refusal({"encryptionKeyEnv": "K"}, {"K": "too-short"})
    assert "at least 32 bytes" in message
    assert "too-short" not in message


@pytest.mark.parametrize("value", [-1, 0.5, "40", None])
def test_block_49_context_max_tokens_refused(value: Any) -> None:
    """Block 49: negative, fractional, textual and null budgets throw."""
    assert "contextMaxTokens" in refusal({"contextMaxTokens": value})


def test_block_49_context_max_tokens_absent_and_zero() -> None:
    """Block 49: absent stays absent, 0 is allowed."""
    assert from_layered({}).context_max_tokens is None
    assert from_layered({"contextMaxTokens": 0}).context_max_tokens == 0


def test_defaults_are_the_products() -> None:
    """Its defaults, under its compatibility switch, with redaction off."""
    settings = from_layered({})
    assert settings.compatibility == "layered-memory"
    assert settings.redact_secrets is False
    assert (settings.max_search_results, settings.retention_days, settings.profile_scope) == (10, 90, "session")


def test_whole_floats_are_integers_booleans_and_text_are_not() -> None:
    """JavaScript has one kind of number; bool is an int only in Python."""
    settings = from_layered({"extractionInterval": 5.0})
    assert settings.extraction_interval == 5
    assert type(settings.extraction_interval) is int
    for value in (True, "5", None, float("nan"), float("inf"), [5]):
        assert "extractionInterval" in refusal({"extractionInterval": value})


def test_data_dir_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trimmed as JavaScript trims; ~ is HOME, else the working directory; others absolute; ~user stays a name."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert from_layered({}).data_dir == tmp_path / "home/.openclaw/state/memory"
    assert from_layered({"dataDir": "~"}).data_dir == tmp_path / "home"
    assert from_layered({"dataDir": "\ufeff ~/m\u3000"}).data_dir == tmp_path / "home/m"
    assert from_layered({"dataDir": "sub/m"}).data_dir == tmp_path / "sub/m"
    assert from_layered({"dataDir": "~user/m"}).data_dir == tmp_path / "~user/m"
    monkeypatch.delenv("HOME")
    assert from_layered({"dataDir": "~/m"}).data_dir == tmp_path / "m"
    for value in ("", " \u3000", None, 3):
        assert refusal({"dataDir": value}) == "[memory] dataDir must be a non-empty string"


def test_key_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four checks of the key's name and value; a good one is where the settings have it."""
    assert "must be a non-empty string" in refusal({"encryptionKeyEnv": " "})
    assert "must be a valid environment variable name" in refusal({"encryptionKeyEnv": "1K"})
    assert "is not set" in refusal({"encryptionKeyEnv": "K"})
    assert "is not set" in refusal({"encryptionKeyEnv": "K"}, {"K": ""})
    monkeypatch.setenv("K", GOOD_KEY)
    assert from_layered({"encryptionKeyEnv": "K"}, {"K": GOOD_KEY}).encryption_key_env == "K"


def test_order_of_checks() -> None:
    """The first wrong field in the product's order is the one that is named."""
    order = [
        ("enabled", 1), ("dataDir", ""), ("encryptionKeyEnv", ""), ("profileScope", "x"), ("autoRecall", 0),
        ("contextMaxTokens", -1), ("maxSearchResults", 0), ("maxSearchBytes", 0), ("maxReadLines", 0),
        ("retentionDays", 0), ("extractionInterval", 0), ("maxRecordBytes", 0), ("autoRecallMaxResults", 0),
        ("autoRecallMaxChars", 0), ("autoRecallTimeoutMs", 0),
    ]  # fmt: skip
    for position, (field, _) in enumerate(order):
        assert refusal(dict(reversed(order[position:]))).split()[1] == field


def test_validation_runs_when_disabled_and_unknown_keys_are_ignored() -> None:
    """Disabled configurations are checked too; the resolver ignores what it does not know."""
    assert "maxReadLines" in refusal({"enabled": False, "maxReadLines": 0})
    assert from_layered({"enabled": False, "somethingElse": 1}).enabled is False
