"""The worked example of docs/contracts-example.md: a toy host does what the page says, from a clean directory."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import pytest


def block() -> str:
    """The page's one Python block."""
    page = (resources.files("memory_sqlite") / "docs" / "contracts-example.md").read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    assert len(blocks) == 1
    return str(blocks[0])


def test_the_toy_host_does_what_its_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty turns over two sessions and a group, both arms, within the budget; the group sees nothing private. Its
    own assertions say so: here they must all be there, and hold."""
    code = block()
    for promise in (
        "range(20)",
        '"tools: completed"',
        '"file: completed"',
        "estimated_tokens <= BUDGET",
        "not any(answer in text for text in await toy.sees(garden, query))",
        '["turns"] == 20',
    ):
        assert promise in code, promise
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "toy_host"}
    exec(compile(code, "contracts-example.md", "exec"), names)
    assert list((tmp_path / "garden-workspace" / "memory").glob("*.md"))


def test_the_toy_host_is_small() -> None:
    """The host itself, without its fake model and the scene, is about sixty lines."""
    host = block().split("class ToyHost", 1)[1].split("\nasync def main", 1)[0]
    assert len([line for line in host.splitlines() if line.strip()]) <= 60
