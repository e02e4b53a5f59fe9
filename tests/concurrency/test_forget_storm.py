"""Forgetting in a storm: other processes remember and rebuild without a pause, and a third searches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from memory_sqlite import Memory, limits
from memory_sqlite.config import Settings
from memory_sqlite.doctor import verify
from memory_sqlite.paths import agent_directory

PREAMBLE = """
import json, sys, threading
from pathlib import Path
from memory_sqlite import Memory, errors, limits
from memory_sqlite.config import Settings

limits.BUSY_TIMEOUT_MS = 120_000  # who waits for the others' locks is no error here, however slow the machine is
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), ended.set()), daemon=True).start()
memory = Memory.open(settings=Settings(data_dir=Path(sys.argv[1])))
print("ready", flush=True)
count = 0

def did():
    global count
    count += 1
    if count == 1:
        print("did", flush=True)
"""
REMEMBERS = """
while not ended.is_set():
    memory.remember(session="live", messages=[{"role": "user", "content": f"The slate number {count} is fine."}])
    did()
memory.close()
print(json.dumps(count))
"""
REBUILDS = """
while not ended.is_set():
    try:
        memory.index(full=True)
        did()
    except errors.StoreBusy:
        pass
memory.close()
print(json.dumps(count))
"""
SEARCHES = """
# what was forgotten is told on a line of its own, after the forgetting has returned
gone, wrong = Path(sys.argv[2]), []
while not ended.is_set():
    names = [name for name in gone.read_text().split("\\n")[:-1]]
    for name in names[-3:]:
        if any(name in hit.excerpt for hit in memory.search(name, max_results=20).hits):
            wrong.append(name)
    if not memory.search("slate", max_results=3).hits:
        wrong.append("slate")
    did()
memory.close()
print(json.dumps([count, wrong]))
"""


SCAN = """
import sys
from pathlib import Path
print(sum(b"pebble" in path.read_bytes() for path in Path(sys.argv[1]).iterdir()))
"""


def start(script: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PREAMBLE + script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(child: subprocess.Popen[str]) -> object:
    out, err = child.communicate("end\n", timeout=120)
    assert child.returncode == 0, err[-2000:]
    return json.loads(out.splitlines()[-1])


def storm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float) -> int:
    """Forget in the storm for so long, and at least twice; how often it was."""
    monkeypatch.setattr(limits, "BUSY_TIMEOUT_MS", 120_000)
    data, gone = tmp_path / "data", tmp_path / "gone"
    gone.write_text("")
    number = 0
    with Memory.open(settings=Settings(data_dir=data)) as memory:
        memory.remember(session="live", messages=[{"role": "user", "content": "The slate is fine."}])
        children = [start(script, str(data), str(gone)) for script in (REMEMBERS, REBUILDS, SEARCHES)]
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n", child.stderr.read() if child.stderr else ""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline or number < 2:
            said = [{"role": "user", "content": f"I love pebble{number}stone."}]
            memory.remember(session=f"s{number}", chat_type="direct", sender_is_owner=True, messages=said)
            report = memory.forget(sessions=[f"s{number}"])
            assert (report.turns, report.messages) == (1, 1)
            with gone.open("a") as file:
                file.write(f"pebble{number}stone\n")
            number += 1
        for child in children:  # each has done what it is there for at least once
            assert child.stdout is not None
            assert child.stdout.readline() == "did\n", child.stderr.read() if child.stderr else ""
        remembered, rebuilt, (searched, wrong) = (end(child) for child in children)  # type: ignore[misc]
        assert wrong == []
        assert min(remembered, rebuilt, searched) > 0  # type: ignore[type-var]
        assert memory.status()["messages"] == 1 + remembered  # type: ignore[operator]
        assert not any(memory.search(f"pebble{n}stone", sources=["sessions"]).hits for n in range(number))
    with Memory.open(settings=Settings(data_dir=data)):
        pass  # takes away what only the last to close could not
    assert verify(agent_directory(data, "main")) == []
    done = subprocess.run(
        [sys.executable, "-c", SCAN, str(agent_directory(data, "main"))], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "0"
    return number


def test_inv_087_forgetting_in_a_storm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing errs, nothing forgotten is told after the forgetting returned, and at the end no byte of it is left."""
    assert storm(tmp_path, monkeypatch, 5) >= 2


@pytest.mark.sweep
@pytest.mark.skipif("MEMORY_SQLITE_SWEEP" not in os.environ, reason="long: set MEMORY_SQLITE_SWEEP")
def test_forgetting_in_a_long_storm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for a minute."""
    assert storm(tmp_path, monkeypatch, 60) >= 2
