"""docs/mcp.md: each snippet parses as its host reads it, its command line is accepted, what it says of tools holds."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from memory_sqlite import limits
from memory_sqlite.cli.app import root
from memory_sqlite.cli.options import State

pytest.importorskip("mcp")
pytest.importorskip("yaml")

import yaml

from memory_sqlite.server import serving, token
from memory_sqlite.server.schemas import SHAPES

PAGE = (Path(__file__).parents[2] / "memory_sqlite" / "docs" / "mcp.md").read_text(encoding="utf-8")
READERS: dict[str, Callable[[str], Any]] = {"json": json.loads, "toml": tomllib.loads, "yaml": yaml.safe_load}
WHERE = {
    "Claude Code": ("mcpServers",),
    "Codex": ("mcp_servers",),
    "Cursor": ("mcpServers",),
    "OpenClaw": ("mcp", "servers"),
    "Hermes": ("mcp_servers",),
}


def servers(part: str, where: tuple[str, ...]) -> Mapping[str, Any]:
    found = re.search(r"^```(json|toml|yaml)\n(.*?)^```$", part, re.M | re.S)
    assert found is not None
    inside = READERS[found[1]](found[2])
    for name in where:
        inside = inside[name]
    return inside


@pytest.mark.parametrize("host", list(WHERE))
def test_the_command_line_of_each_snippet_is_accepted(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It parses, and comes to a server over pipes with the options it names."""
    (server,) = servers(PAGE.split(f"### {host}\n", 1)[1], WHERE[host]).values()
    assert server["command"] == "memory-sqlite"
    served: list[dict[str, Any]] = []
    monkeypatch.setattr(State, "open", lambda self, **more: nullcontext(self.given))
    monkeypatch.setattr(
        serving,
        "over_stdio",
        lambda memory, session, version, read_only: served.append({**memory, "read_only": read_only}),
    )
    result = CliRunner().invoke(root, server["args"])
    assert result.exit_code == 0, result.output
    (options,) = served
    words = server["args"]
    for option, value in zip(words[::2], words[1::2], strict=False):
        if option in ("--workspace", "--agent"):
            assert options[option.removeprefix("--")] == value
    assert options["read_only"] is ("--read-only" in words)


def test_snippets_for_a_port_name_the_place_and_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the token is nowhere written out."""
    section = PAGE.split("## On a port", 1)[1].split("\n## ", 1)[0]
    for host, label in (("Claude Code", "Claude Code, in"), ("Codex", "Codex, in"), ("Cursor", "Cursor, in")):
        (server,) = servers(section.split(label, 1)[1], WHERE[host]).values()
        assert server["url"] == "http://127.0.0.1:8765/mcp"
        assert token.VARIABLE in json.dumps(server)
    assert f"{limits.SERVE_TOKEN_CHARS[0]} to {limits.SERVE_TOKEN_CHARS[1]} visible" in section
    assert f"larger than {limits.SERVE_FRAME_MAX_BYTES // limits.MIB} MiB" in section


def test_the_tables_name_every_tool_argument_and_bound() -> None:
    section = PAGE.split("## Tools", 1)[1]
    for shape in SHAPES:
        (row,) = [line for line in section.splitlines() if line.startswith(f"| `{shape.name}` |")]
        if shape.name != "sessions_search":  # which says what it shares with another
            assert all(f"`{name}`" in row for name in shape.arguments["properties"]), shape.name
    assert f"at most {limits.TOOL_RESULTS_MAX})" in section
    assert f"{limits.TOOL_ANSWER_MAX_UNITS:,} characters" in section
    assert f"structured content {limits.TOOL_STRUCTURED_MAX_UNITS:,}" in section.replace("\n  ", " ")
    assert f"More than {limits.SERVE_CALLS_MAX} calls" in section
    assert f"by pages of {limits.SERVE_RESOURCES_PAGE}" in section


def test_every_option_of_the_command_is_in_the_table() -> None:
    help_text = CliRunner().invoke(root, ["serve", "mcp", "--help"]).output
    for option in set(re.findall(r"--[a-z-]+", help_text)) - {"--help", "--config", "--json"}:
        assert option in PAGE.split("## Ready", 1)[0], option
