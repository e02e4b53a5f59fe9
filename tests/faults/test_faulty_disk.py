"""A disk that fails at one write, sync or truncate: a typed error or a receipt, nothing half-written, nothing twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CHILD = Path(__file__).with_name("child_faulty_disk.py")
TYPED = {"disk_full", "store_damaged", "index_unavailable"}

POINTS = int(os.environ.get("MEMORY_SQLITE_SWEEP", "8"))
"""Calls of a kind that fail, each in an operation of its own: from about 120 on it is every one."""
RUNS = [
    ("remember", "wal-write"),
    ("remember", "wal-sync"),
    *[("rebuild", f"{place}-{call}") for place in ("wal", "main") for call in ("write", "sync", "truncate")],
    ("checkpoint", "main-write"),
    ("checkpoint", "main-sync"),
    ("checkpoint", "main-truncate"),
]
"""Remembering makes no calls of the other kinds; closing after it does (``checkpoint``)."""


@pytest.mark.sweep
@pytest.mark.parametrize(("operation", "kind"), RUNS)
def test_disk_that_fails_once(tmp_path: Path, operation: str, kind: str) -> None:
    """Whatever one call to the disk fails while remembering, rebuilding or closing, memory ends right."""
    done = subprocess.run(
        [sys.executable, str(CHILD), str(tmp_path / "data"), kind, operation, str(POINTS)],
        capture_output=True,
        text=True,
        timeout=1_200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    first, unharmed, *outcomes = answer["outcomes"]
    assert sum(reached for reached, *_ in outcomes) >= min(answer["calls"], POINTS) // 2 + 1
    assert first[:2] == unharmed[:2] == [False, "stored" if operation == "remember" else "ok"]
    assert (answer["lag"], answer["findings"]) == (0, [])
    for number, (reached, outcome, again, searchable, found, turns, messages) in enumerate(answer["outcomes"], 1):
        # after the fault is gone the same call ends with the turn there exactly once, whole, and found
        assert (searchable, found, turns, messages) == (True, 2, number, 2 * number), (number, outcome)
        if kind.startswith("wal"):
            # a rebuild closes the former writer, whose last checkpoint syncs the WAL: SQLite shrugs, apsw raises it
            shrugged = {"raw IOError"} if (operation, kind) == ("rebuild", "wal-sync") else set()
            assert outcome in TYPED | shrugged | {"ok", "stored", "stored, not searchable"}, (number, outcome)
            # an error means that nothing was stored; a receipt, even one that admits a lagging index, that all was
            if operation == "remember":
                assert again == ("stored" if outcome in TYPED else "duplicate"), (number, outcome)
        assert reached or outcome in ("ok", "stored"), (number, outcome)


FULL = """
import json, resource, signal, sys
from pathlib import Path
from memory_sqlite import Memory, errors
from memory_sqlite.config import Settings

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))

def turn(number):
    return {"session": "s", "run_id": f"r{number}", "messages": [{"role": "user", "content": f"pebble{number} " * 300}]}

with Memory.open(settings=Settings(data_dir=Path(sys.argv[1]))) as memory:
    stored = 0
    limit(700_000)
    try:
        while stored < 5_000:
            memory.remember(**turn(stored))
            stored += 1
        code = "never full"
    except errors.MemorySqliteError as error:
        code = error.code
    turns = memory.status()["turns"]
    found = bool(memory.search(f"pebble{stored - 1}", max_results=1).hits)
    limit(resource.RLIM_INFINITY)
    again = memory.remember(**turn(stored))
    after = memory.search(f"pebble{stored}", max_results=1).hits
    end = memory.status()["turns"]
    print(json.dumps([code, stored, turns, found, again.status, again.searchable, len(after), end]))
"""


def test_full_disk_is_typed_and_the_next_call_works(tmp_path: Path) -> None:
    """No room left (here: a file size limit): ``disk_full``, the call's turn is not there, earlier ones are and are
    found, and when there is room again the same call goes through."""
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / "data")], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    code, stored, turns, found, status, searchable, hits, end = json.loads(done.stdout)
    assert (code, turns, found) == ("disk_full", stored, True)
    assert (status, searchable, hits, end) == ("stored", True, 1, stored + 1)


def test_no_room_for_a_new_store(tmp_path: Path) -> None:
    """A store that cannot even be made is ``disk_full``, and is made when there is room."""
    script = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from memory_sqlite import Memory, errors\n"
        "from memory_sqlite.config import Settings\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]\n"
        "for size in (0, 16, 4096, 8192, 40_000, resource.RLIM_INFINITY):\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))\n"
        "    try:\n"
        "        with Memory.open(settings=Settings(data_dir=Path(sys.argv[1]))) as memory:\n"
        "            print(memory.remember(session='s', messages=[{'role': 'user', 'content': 'hi'}]).status)\n"
        "    except errors.MemorySqliteError as error:\n"
        "        print(error.code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "data")], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["disk_full"] * 5 + ["stored"]
