"""A disk that fails at one write, sync or truncate: a typed error or a receipt, nothing half-written, nothing twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CHILD = Path(__file__).with_name("child_faulty_disk.py")
TYPED = {"disk_full", "store_damaged", "index_unavailable"}

RUNS = [
    ("remember", "wal-write", 3),
    ("remember", "wal-sync", 1),
    ("rebuild", "main-sync", 1),
    ("rebuild", "main-write", 19),
    ("rebuild", "wal-sync", 1),
    ("rebuild", "main-truncate", 1),
    ("checkpoint", "main-write", 7),
    ("checkpoint", "main-sync", 1),
]


def run(tmp_path: Path, operation: str, kind: str, step: int) -> dict[str, list[list[object]]]:
    done = subprocess.run(
        [sys.executable, str(CHILD), str(tmp_path / "data"), kind, operation, str(step)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answer: dict[str, list[list[object]]] = json.loads(done.stdout)
    return answer


def check(answer: dict[str, list[list[object]]], operation: str, kind: str) -> None:
    outcomes = answer["outcomes"]
    assert answer["lag"] == 0
    for number, (outcome, again, searchable, found, turns, messages) in enumerate(outcomes, 1):
        # after the fault is gone the same call ends with the turn there exactly once, whole, and found
        assert (searchable, found, turns, messages) == (True, 2, number, 2 * number), (number, outcome)
        if kind.startswith("wal") and operation == "remember":
            # an error means that nothing was stored; a receipt, even one that admits a lagging index, that all was
            assert again == ("stored" if outcome in TYPED else "duplicate"), (number, outcome)
        if kind.startswith("wal") and operation != "checkpoint":
            assert outcome in TYPED | {"ok", "stored", "stored, not searchable"}, (number, outcome)


@pytest.mark.parametrize(("operation", "kind", "step"), RUNS)
def test_disk_that_fails_once(tmp_path: Path, operation: str, kind: str, step: int) -> None:
    """Whatever one call to the disk fails while remembering, rebuilding or closing, memory ends right."""
    answer = run(tmp_path, operation, kind, step)
    assert len(answer["outcomes"]) > 1, "no fault was ever reached"
    check(answer, operation, kind)


@pytest.mark.sweep
@pytest.mark.skipif("MEMORY_SQLITE_SWEEP" not in os.environ, reason="long: set MEMORY_SQLITE_SWEEP")
@pytest.mark.parametrize(
    ("operation", "kind", "step"),
    [("remember", "wal-write", 1), ("rebuild", "wal-write", 5), ("rebuild", "main-write", 1)],
)
def test_disk_that_fails_at_every_write(tmp_path: Path, operation: str, kind: str, step: int) -> None:
    """The same at every single write."""
    check(run(tmp_path, operation, kind, step), operation, kind)


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
