"""``kill -9`` of a serving host and of its workers at random moments: nobody stays behind, the next search answers."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.doctor import verify
from memory_sqlite.generations import files
from memory_sqlite.paths import agent_directory, generation_file

SWEEP = os.environ.get("MEMORY_SQLITE_SWEEP")
HOST_KILLS = int(SWEEP or "8")
WORKER_KILLS = int(SWEEP or "12")
HOST = """
import sys, threading
from memory_sqlite import Memory

def search():
    while True:
        memory.search("granite quarry")

with Memory.open(sys.argv[1], serving=True) as memory:
    assert memory._opened.workers.pool.warm(60)
    for _ in range(3):
        threading.Thread(target=search, daemon=True).start()
    print("serving", flush=True)
    number = 0
    while True:
        number += 1
        said = [{"role": "user", "content": f"granite {sys.argv[2]}x{number} arrives"}]
        memory.remember(session="s", run_id=f"{sys.argv[2]}x{number}", messages=said)
        print(number, flush=True)
"""


def children(pid: int) -> list[int]:
    """The processes whose parent this is, as the system says."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[1]) == pid:
                found.append(int(entry.name))
    return found


def workers(pid: int) -> list[int]:
    """Those of its children that are running and are retrieval workers."""
    found = []
    for child in children(pid):
        try:
            if b"memory_sqlite.workers.retrieval" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(child)
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


@pytest.mark.sweep
def test_no_worker_outlives_a_host_killed_at_any_moment(tmp_path: Path, ended: Callable[..., bool]) -> None:
    """Killed while it starts and while it searches and remembers: every child it had ends, nobody holds the generation,
    and whoever opens the memory next finds the directory clean and everything in it that was ever acknowledged."""
    rng = random.Random(17)
    data = tmp_path / "data"
    directory = agent_directory(data, "main")
    with Memory.open(data) as memory:
        memory.remember(session="s", messages=[{"role": "user", "content": "The granite quarry opens on Friday."}])
    starting_s = 0.5
    orphans = 0
    acknowledged: set[str] = set()
    for number in range(HOST_KILLS):
        began = time.monotonic()
        host = subprocess.Popen([sys.executable, "-c", HOST, str(data), f"h{number}"], stdout=subprocess.PIPE)
        assert host.stdout is not None
        receipts: list[bytes] = []
        if number % 4 == 3:  # while it starts; no moment is the wrong one
            time.sleep(rng.uniform(0, starting_s))
        else:
            assert host.stdout.readline() == b"serving\n"
            starting_s = time.monotonic() - began
            receipts += [host.stdout.readline() for _ in range(rng.randrange(20))]
        # stopped first, so that it has no child that we do not see
        host.send_signal(signal.SIGSTOP)
        assert os.WIFSTOPPED(os.waitpid(host.pid, os.WUNTRACED)[1])
        left = children(host.pid)
        orphans += len(left)
        host.kill()
        output = host.communicate()[0]
        for child in left:
            assert ended(child)
        # a line that the kill cut in two was not passed on
        receipts += [line for line in output.splitlines(keepends=True) if line.endswith(b"\n")]
        told = [f"h{number}x{int(line)}" for line in receipts if line != b"serving\n"]
        acknowledged.update(told)
        with Memory.open(data) as memory:
            assert memory.search("granite quarry").hits
            for run in told[-1:] + rng.sample(sorted(acknowledged), min(3, len(acknowledged))):
                assert any(run in hit.excerpt for hit in memory.search(run).hits), run
            assert memory._opened is not None
            current = memory._opened.keeper.number()
            stored = memory._opened.store.connection.execute(
                "SELECT run_id FROM turns WHERE run_id GLOB 'h*'"
            ).fetchall()
            runs = [run for (run,) in stored]
            assert len(runs) == len(set(runs))
            assert acknowledged <= set(runs)
            mine = {run for run in runs if run.startswith(f"h{number}x")}
            assert len(mine - acknowledged) <= 1, "at most the turn in flight is there without its receipt"
        assert current is not None
        assert not files.is_held(generation_file(directory, current))
        assert verify(directory) == []
    assert orphans >= HOST_KILLS // 2, "the hosts had no workers when they were killed"


@pytest.mark.sweep
def test_a_killed_worker_costs_one_search_and_the_next_is_answered(
    tmp_path: Path, ended: Callable[..., bool], noticed: Callable[..., bool]
) -> None:
    """Workers of a serving memory are killed at random moments while threads search: each kill costs at most one
    search, the rest are answered rightly, and closing leaves no child."""
    rng = random.Random(19)
    answered = threading.Semaphore(0)
    over = threading.Event()
    wrong: list[object] = []
    lost: list[int] = []

    def search(memory: Memory) -> None:
        while not over.is_set():
            try:
                if not memory.search("granite quarry").hits:
                    wrong.append("no hits")
            except errors.WorkerLost:
                lost.append(1)
            except BaseException as error:
                wrong.append(error)
                over.set()
            answered.release()

    with Memory.open(tmp_path / "data", serving=True) as memory:
        memory.remember(session="s", messages=[{"role": "user", "content": "The granite quarry opens on Friday."}])
        assert memory._opened is not None and memory._opened.workers is not None
        pool = memory._opened.workers.pool

        def ready() -> list[int]:
            pids: list[int] = pool.describe()["pids"]
            return pids

        assert pool.warm(60)
        threads = [threading.Thread(target=search, args=(memory,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            killed: list[int] = []
            while len(killed) < WORKER_KILLS and not wrong:
                assert answered.acquire(timeout=60)  # after an outcome, and a random part of the next search
                over.wait(rng.random() * 0.01)
                pids = ready()  # one killed while it starts counts as a worker that cannot be had here
                if not pids:
                    continue
                pid = rng.choice(pids)
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
                killed.append(pid)
                assert ended(pid)
        finally:
            over.set()
            for thread in threads:
                thread.join()
        assert not wrong
        assert len(lost) <= len(killed)
        assert noticed(pool, killed)
        assert memory.search("granite quarry").hits
        assert pool.describe()["available"]
    assert workers(os.getpid()) == []
