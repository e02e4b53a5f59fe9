"""The front door: every block of the README's tour is executed, in order, in a clean place."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.M | re.S)


def blocks() -> list[tuple[str, str]]:
    tour = README.read_text(encoding="utf-8").split("## A tour", 1)[1]
    return [(match[1], match[2]) for match in BLOCK.finditer(tour)]


def test_every_block_of_the_tour_runs(tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    found = blocks()
    assert len(found) >= 6
    for language, code in found:
        command = [sys.executable, "-c", code] if language == "python" else ["sh", "-ec", code]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"


def test_the_readme_opens_with_two_one_line_commands() -> None:
    head = README.read_text(encoding="utf-8").split("## What it is", 1)[0]
    commands = [code.strip() for _, code in ((m[1], m[2]) for m in BLOCK.finditer(head))]
    assert len(commands) == 2
    assert all("\n" not in command for command in commands)
    assert commands[0].endswith("memory-sqlite quickstart")
    assert commands[1].endswith("pytest")


@pytest.mark.parametrize("target", re.findall(r"\]\((memory_sqlite/docs/[^)]+)\)", README.read_text(encoding="utf-8")))
def test_every_page_the_readme_links_is_there(target: str) -> None:
    assert (README.parent / target).is_file()
