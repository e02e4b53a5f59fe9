"""The JSON Schema of the configuration file agrees with what config.py accepts."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from memory_sqlite import errors
from memory_sqlite.config import load
from memory_sqlite.config_fields import FIELDS
from memory_sqlite.config_schema import json_schema

GOOD = [
    "enabled = false",
    'agent = "Sales Bot (EU)"',
    'workspace = "none"',
    "max_search_results = 100",
    'retention_days = "none"',
    "context_max_tokens = 0",
    'compatibility = "layered-memory"',
    "redact_secrets = false",
    'extra_paths = ["docs", {path = "wiki", glob = "**/*.md"}]',
    'embedding_base_url = "http://localhost:11434/v1"',
    'embedding_provider = "none"',
    "embedding_dimensions = 256",
]
BAD = [
    "enabled = 1",
    'agent = ""',
    "max_search_results = 101",
    'max_search_results = "40"',
    "max_search_results = true",
    'max_search_results = "none"',
    "retention_days = 0",
    'compatibility = "other"',
    "extra_paths = [3]",
    'extra_paths = [{path = "a", other = "b"}]',
    'embedding_base_url = "localhost:11434"',
    'embedding_base_url = "https://name:word@host/v1"',
    "embedding_dimensions = 0",
    "unheard_of = 1",
]


@pytest.mark.parametrize(("text", "good"), [(text, True) for text in GOOD] + [(text, False) for text in BAD])
def test_schema_and_loader_accept_and_refuse_the_same(tmp_path: Path, text: str, good: bool) -> None:
    """One truth: whatever the schema says is what loading does."""
    path = tmp_path / "memory-sqlite.toml"
    path.write_text(text)
    assert Draft202012Validator(json_schema()).is_valid(tomllib.loads(text)) is good
    if good:
        load(file=path, environ={})
    else:
        with pytest.raises(errors.InvalidConfiguration):
            load(file=path, environ={})


def test_schema_is_one() -> None:
    """Draft 2020-12 itself says so."""
    Draft202012Validator.check_schema(json_schema())


def test_a_number_with_a_point_is_no_integer(tmp_path: Path) -> None:
    """JSON knows one kind of number, so that the schema cannot tell; loading does."""
    path = tmp_path / "memory-sqlite.toml"
    path.write_text("max_search_results = 5.0")
    with pytest.raises(errors.InvalidConfiguration):
        load(file=path, environ={})


def test_schema_names_every_setting_with_bounds_and_help() -> None:
    """The schema an editor reads is complete."""
    properties = json_schema()["properties"]
    assert list(properties) == [entry.name for entry in FIELDS]
    assert all(properties[entry.name]["description"] == entry.help for entry in FIELDS)
    assert (properties["max_record_bytes"]["minimum"], properties["max_record_bytes"]["maximum"]) == (1024, 1048576)
    assert "default" not in properties["data_dir"]
