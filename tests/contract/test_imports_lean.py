"""What a search may not import: each of these costs more time than the search itself. Checked in child processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = (
    "pydantic", "pydantic_settings", "pydantic_core", "rich", "asyncio", "apsw.ext", "apsw.bestpractice", "numpy",
    "sqlite_vec", "sqlite3", "logging.config", "httpx", "mcp",
)  # fmt: skip

REPORT = f"""
import json, sys
print("LOADED " + json.dumps(sorted(set(sys.modules) & set({HEAVY!r}))))
"""

DOOR = {
    "search": 'memory.search("router VLAN", explain=True).hits or sys.exit("nothing found")',
    "get": 'memory.get("MEMORY.md").status == "ok" or sys.exit("not read")',
    "recall": 'memory.recall("which VLAN has the router?").text or sys.exit("nothing recalled")',
    "status": 'memory.status()["index"]["generation"] or sys.exit("no index")',
}
COMMANDS = {
    "search": ["search", "router VLAN"],
    "get": ["get", "MEMORY.md"],
    "recall": ["recall", "which VLAN has the router?"],
    "status": ["status"],
}


def child(code: str, *arguments: str, home: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MEMORY_SQLITE_")}
    environment["HOME"] = str(home)
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=home, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with one note indexed."""
    home = tmp_path_factory.mktemp("lean")
    (home / "workspace").mkdir()
    (home / "workspace" / "MEMORY.md").write_text("# Network\n\nThe router VLAN is 42.\n", encoding="utf-8")
    code = "from memory_sqlite import Memory\nMemory.open('data', workspace='workspace').close()"
    child(code, home=home)
    return home


def loaded(output: str) -> list[str]:
    line = next(line for line in output.splitlines() if line.startswith("LOADED "))
    names: list[str] = json.loads(line.removeprefix("LOADED "))
    return names


@pytest.mark.parametrize("operation", DOOR)
def test_the_door_imports_nothing_heavy(place: Path, operation: str) -> None:
    code = f"import sys\nfrom memory_sqlite import Memory\nmemory = Memory.open('data')\n{DOOR[operation]}\n{REPORT}"
    assert loaded(child(code, home=place)) == []


@pytest.mark.parametrize("arguments", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize("operation", COMMANDS)
def test_the_command_imports_nothing_heavy(place: Path, operation: str, arguments: list[str]) -> None:
    code = (
        "import sys\nfrom memory_sqlite.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n" + REPORT
    )
    name, *rest = COMMANDS[operation]
    assert loaded(child(code, name, "--data-dir", "data", *arguments, *rest, home=place)) == []


def test_importing_the_package_loads_no_submodule(tmp_path: Path) -> None:
    code = (
        "import sys\nbefore = set(sys.modules)\nimport memory_sqlite\n"
        "print(sorted(name for name in set(sys.modules) - before if name.startswith(('memory_sqlite.', 'apsw'))))"
    )
    assert child(code, home=tmp_path).strip() == "[]"


def test_names_of_the_package_are_found_on_first_use(tmp_path: Path) -> None:
    code = (
        "import memory_sqlite\nfor name in memory_sqlite.__all__:\n    getattr(memory_sqlite, name)\n"
        "try:\n    memory_sqlite.nothing\nexcept AttributeError:\n    print('ok')"
    )
    assert child(code, home=tmp_path).strip() == "ok"
