"""Everything but encryption runs on plain apsw too: the same wheel, with ``apsw`` where ``apsw-sqlite3mc`` would be."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from .conftest import Environment, environment, installed, requirements

pytestmark = pytest.mark.installed

REPRESENTATIVE = (
    "tests/unit/storage", "tests/unit/indexing", "tests/migrations", "tests/contract/test_door_contract.py",
)  # fmt: skip
"""What touches SQLite most; the rest is pure functions."""


@pytest.fixture(scope="module")
def plain(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment whose SQLite cannot encrypt, with what the tests need."""
    wanted = [line.replace("apsw-sqlite3mc", "apsw") for line in requirements(wheel)]
    assert any(line.startswith("apsw>") for line in wanted)
    tools = ["pytest", "pytest-timeout", "hypothesis"]
    return installed(tmp_path_factory.mktemp("plain"), ["--no-deps", str(wheel)], [*wanted, *tools])


def test_the_main_job_runs(plain: Environment) -> None:
    data = plain.home / "data"
    assert "MEMORY.md" in plain.run("memory-sqlite", "quickstart").stdout
    stored = plain.run("memory-sqlite", "--data-dir", data, "remember", "--user", "The router is in VLAN 42.", "--json")
    assert json.loads(stored.stdout)["status"] == "stored"
    found = json.loads(plain.run("memory-sqlite", "--data-dir", data, "search", "router", "--json").stdout)
    assert "VLAN 42" in found["hits"][0]["excerpt"]
    library = json.loads(plain.run("memory-sqlite", "--data-dir", data, "status", "--json").stdout)["library"]
    assert (library["cipher"], library["problem"]) == (None, None)


def test_a_key_names_the_pip_command(plain: Environment) -> None:
    """Nothing that was meant to be encrypted is stored in clear, and the error says what to install."""
    settings = {"MEMORY_SQLITE_ENCRYPTION_KEY_ENV": "MEMORY_KEY", "MEMORY_KEY": "k" * 32}
    data = plain.home / "secret"
    done = subprocess.run(
        [plain.directory / "bin" / "memory-sqlite", "--data-dir", data, "remember", "--user", "x", "--json"],
        env=environment(plain.home) | settings,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 69
    error = json.loads(done.stdout)["error"]
    assert error["code"] == "encryption_unavailable"
    assert "pip install --force-reinstall apsw-sqlite3mc" in error["hint"]
    assert not data.exists()


def test_a_representative_part_of_the_tests_passes(plain: Environment, clean_copy: Path) -> None:
    """With ``-P`` and from another directory, so that the wheel is what is tested."""
    wanted = [clean_copy / place for place in REPRESENTATIVE if (clean_copy / place).exists()]
    assert len(wanted) == len(REPRESENTATIVE)
    done = plain.run(
        "python", "-P", "-m", "pytest", "-x", "-p", "no:cacheprovider", "-m", "not sweep",
        "--rootdir", clean_copy, "-c", clean_copy / "pyproject.toml", *wanted,
    )  # fmt: skip
    assert " passed" in done.stdout
