"""Which package runs: the tests' children use the one that is installed, and a Python started in a clone works too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import memory_sqlite

ROOT = Path(__file__).parents[2]


def printed(code: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_children_run_the_package_that_is_tested() -> None:
    """They are started in the clone, whose folder ``memory_sqlite`` would otherwise come before the installed one."""
    assert printed("import memory_sqlite; print(memory_sqlite.__file__)") == memory_sqlite.__file__


def test_a_python_started_in_a_clone_works(tmp_path: Path) -> None:
    """README blocks are tried where the reader stands; ``migrations`` and ``workers`` are found beside the package."""
    code = (
        "import sys, memory_sqlite\n"
        "from memory_sqlite import Memory, workers\n"
        "with Memory.open(sys.argv[1]) as memory:\n"
        "    memory.remember(session='s', messages=[{'role': 'user', 'content': 'The granite key.'}])\n"
        "    assert memory.search('granite').hits\n"
        "print(memory_sqlite.__file__)\n"
    )
    assert printed(code, str(tmp_path / "data"), PYTHONSAFEPATH="") == str(ROOT / "memory_sqlite" / "__init__.py")
