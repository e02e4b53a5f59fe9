"""Both commands at the top of the README, from a clean copy of the tree, with a new home and no cache of ours."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import environment

pytestmark = pytest.mark.installed


def commands(copy: Path) -> list[str]:
    """The shell lines before the first section."""
    head = (copy / "README.md").read_text(encoding="utf-8").split("## What it is", 1)[0]
    return [line.strip() for line in re.findall(r"^```sh\n(.*?)^```$", head, re.M | re.S)]


@pytest.fixture(scope="module")
def machine(clean_copy: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A clone, and the variables of a machine that has only Python with its venv and pip."""
    directory = tmp_path_factory.mktemp("machine")
    copy, home, programs = directory / "clone", directory / "home", directory / "bin"
    shutil.copytree(clean_copy, copy)
    home.mkdir()
    programs.mkdir()
    python = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    (programs / "python3").symlink_to(python)
    return copy, environment(home) | {"PATH": f"{programs}:/usr/bin:/bin"}


def shell(command: str, machine: tuple[Path, dict[str, str]]) -> subprocess.CompletedProcess[str]:
    copy, variables = machine
    return subprocess.run(
        ["sh", "-c", command], cwd=copy, env=variables, capture_output=True, text=True, timeout=220, check=False
    )


def test_the_first_command_does_the_main_job(machine: tuple[Path, dict[str, str]]) -> None:
    first = commands(machine[0])[0]
    done = shell(first, machine)
    assert done.returncode == 0, done.stdout + done.stderr
    for sign in ("MEMORY.md", "memory.sqlite"):
        assert sign in done.stdout
    assert re.search("[\u4e00-\u9fff]", done.stdout)
    assert re.search("[\u3040-\u30ff]", done.stdout)


def test_the_second_command_can_install_what_it_needs(machine: tuple[Path, dict[str, str]]) -> None:
    """Running it whole is what ``.ci/run`` does, and would run this test again; here its requirements are resolved."""
    second = commands(machine[0])[1]
    steps = [step.strip() for step in second.split("&&")]
    assert steps[-1] == ".venv/bin/pytest"
    install = steps[1]
    assert install.startswith(".venv/bin/pip install -q ")
    done = shell(f"{steps[0]} && {install.replace('install -q', 'install -q --dry-run')}", machine)
    assert done.returncode == 0, done.stdout + done.stderr


def test_ci_runs_the_second_command() -> None:
    script = (Path(__file__).parents[2] / ".ci" / "run").read_text(encoding="utf-8")
    assert re.search(r"grep .*pytest\$.*README\.md", script)
