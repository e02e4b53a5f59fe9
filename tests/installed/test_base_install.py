"""The wheel in a clean environment: small, runnable by name, and light and quick to start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Environment, environment, with_peak

pytestmark = pytest.mark.installed

MB = 1_000_000
NEVER_ON_A_SEARCH = (
    "apsw.bestpractice", "apsw.ext", "asyncio", "difflib", "importlib.metadata", "importlib.resources", "numpy",
    "platformdirs", "pydantic", "random", "rich", "shutil", "tempfile", "zipfile",
    "memory_sqlite.layers", "memory_sqlite.sources.markdown", "memory_sqlite.workers",
)  # fmt: skip
"""What a search has no use for; together they would cost more than the search. The first seven are the issue's."""


@pytest.fixture(scope="module")
def stored(base: Environment) -> Path:
    """A data directory with 1,000 turns, made by the installed package."""
    data = base.home / "stored"
    code = (
        "import sys\n"
        "from memory_sqlite import Memory\n"
        "with Memory.open(sys.argv[1]) as memory:\n"
        "    for number in range(50):\n"
        "        memory.remember(session=f's{number}', messages=[\n"
        "            {'role': role, 'content': f'{role} {number}.{turn}: the router moved to VLAN {number}'}\n"
        "            for turn in range(20) for role in ('user', 'assistant')])\n"
    )
    base.run("python", "-c", code, data)
    return data


def test_the_base_install_is_below_60_mb(base: Environment) -> None:
    """Over Python itself: everything pip put into a clean environment, byte code included."""
    size = sum(path.stat().st_size for path in base.site.rglob("*") if path.is_file())
    assert size < 60 * MB


def test_vectors_are_not_part_of_it(base: Environment) -> None:
    assert not (base.site / "numpy").exists()
    assert not (base.site / "sqlite_vec").exists()


@pytest.mark.parametrize("words", [["memory-sqlite"], ["python", "-m", "memory_sqlite"]])
def test_it_runs_by_either_name(words: list[str], base: Environment) -> None:
    """From a directory that is not the tree: migrations, samples and documents come out of the wheel."""
    assert "memory_sqlite" in base.run("python", "-c", "import memory_sqlite; print(memory_sqlite.__file__)").stdout
    assert base.run(*words, "--version").stdout.strip().endswith("0.1.0")
    data = base.home / words[0]
    first = json.loads(base.run(*words, "--data-dir", data, "remember", "--user", "VLAN is 42", "--json").stdout)
    assert first["status"] == "stored"
    found = json.loads(base.run(*words, "--data-dir", data, "search", "VLAN", "--json").stdout)
    assert "42" in found["hits"][0]["excerpt"]


def test_a_spawned_interpreter_finds_the_worker_package(base: Environment) -> None:
    """Workers are started by module name in a fresh interpreter, as ``spawn`` does, never forked."""
    code = (
        "import multiprocessing, importlib\n"
        "if __name__ == '__main__':\n"
        "    context = multiprocessing.get_context('spawn')\n"
        "    with context.Pool(1) as pool:\n"
        "        module = pool.apply(importlib.util.find_spec, ('memory_sqlite.workers',))\n"
        "        print(module.origin)\n"
    )
    script = base.home / "spawned.py"
    script.write_text("import importlib.util\n" + code, encoding="utf-8")
    assert str(base.site) in base.run("python", script).stdout


def test_a_search_loads_nothing_it_has_no_use_for(base: Environment, stored: Path) -> None:
    code = (
        "import sys\n"
        "from memory_sqlite.cli import main\n"
        "sys.argv = ['memory-sqlite', '--data-dir', sys.argv[1], 'search', 'router VLAN 7']\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as leave:\n"
        "    assert not leave.code\n"
        "print('LOADED', *sys.modules)\n"
    )
    loaded = set(base.run("python", "-c", code, stored).stdout.partition("LOADED")[2].split())
    assert "memory_sqlite.search.run" in loaded
    assert sorted(loaded & set(NEVER_ON_A_SEARCH)) == []


def test_a_cold_search_stays_below_60_mib(base: Environment, stored: Path, tmp_path: Path) -> None:
    """Peak memory of the whole process; its time is measured by ``tests/benchmarks/bench_cli.py``."""
    command = [base.directory / "bin" / "memory-sqlite", "--data-dir", stored, "search", "router VLAN", "--json"]
    said, peak = with_peak(tmp_path, *command, env=environment(base.home))
    assert json.loads(said)["hits"]
    assert peak < 60 * 2**20
