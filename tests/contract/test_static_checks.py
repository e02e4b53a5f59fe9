"""Style, types and the layers of the house, checked on the installed package like any other contract."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import memory_sqlite

ROOT = Path(__file__).parents[2]
PACKAGE = Path(memory_sqlite.__file__).parent
INSTALLED = (PACKAGE / "workers").is_dir()
only_installed = pytest.mark.skipif(
    not INSTALLED, reason="an editable install keeps migrations and workers elsewhere; install the wheel to check types"
)


def run(*command: str, cwd: Path) -> None:
    done = subprocess.run([sys.executable, "-m", *command], cwd=cwd, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr


def test_ruff_finds_nothing() -> None:
    run("ruff", "check", "--no-cache", "memory_sqlite", "migrations", "workers", "tests", cwd=ROOT)


def test_everything_is_formatted() -> None:
    run("ruff", "format", "--no-cache", "--check", "memory_sqlite", "migrations", "workers", "tests", cwd=ROOT)


@only_installed
def test_mypy_strict_on_the_installed_package(tmp_path: Path) -> None:
    config = str(ROOT / "pyproject.toml")
    run("mypy", "--config-file", config, "--cache-dir", str(tmp_path), "-p", "memory_sqlite", cwd=tmp_path)


@only_installed
def test_imports_point_downwards_on_the_installed_package(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache", "--config", str(ROOT / "pyproject.toml")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_module_is_longer_than_a_reader_can_hold() -> None:
    long = {
        str(path.relative_to(PACKAGE)): lines
        for path in PACKAGE.rglob("*.py")
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > 450
    }
    assert not long
