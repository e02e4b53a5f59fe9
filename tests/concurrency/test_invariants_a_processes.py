"""Rules 1 to 51 of the list in ``architecture.md`` that need several processes: holds, slots, serving."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory, errors, limits
from memory_sqlite.generations import files
from memory_sqlite.paths import agent_directory, generation_file
from memory_sqlite.processes.child import Child
from memory_sqlite.processes.retrieval import Retrieval
from memory_sqlite.processes.slots import Bounds
from memory_sqlite.search import run

TAKE = """
import sys
from pathlib import Path
from memory_sqlite.storage import connection
path = Path(sys.argv[2])
held = connection.open_index_probe(path) if sys.argv[1] == "alone" else connection.open_index_reader(path)
held.execute("SELECT count(*) FROM meta").fetchall()
print("held", flush=True)
sys.stdin.read()
"""


def take(how: str, path: Path) -> subprocess.Popen[str]:
    """A process that has the file open: ``alone`` as the retirer does, or ``reading``."""
    process = subprocess.Popen(
        [sys.executable, "-c", TAKE, how, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_inv_007_holds_exclude_across_processes_both_ways_and_end_with_their_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader keeps the retirer out, the retirer keeps readers out, and either one's hold dies with it."""
    monkeypatch.setattr(limits, "BUSY_TIMEOUT_MS", 50)
    with Memory.open(tmp_path / "data") as memory:
        memory.remember(session="s", messages=[{"role": "user", "content": "granite"}])
    path = generation_file(agent_directory(tmp_path / "data", "main"), 1)
    for how in ("reading", "alone"):
        holder = take(how, path)
        assert files.is_held(path)
        assert not files.remove_unless_held(path)
        if how == "alone":
            with Memory.open(tmp_path / "data", read_only=True) as reader, pytest.raises(errors.MemorySqliteError):
                reader.search("granite")
        holder.kill()
        holder.communicate()
        assert not files.is_held(path)
        with Memory.open(tmp_path / "data", read_only=True) as reader:
            assert reader.search("granite").hits


# --- the pool ------------------------------------------------------------------------------------------------------


def test_inv_012_pools_are_bounded_each_by_itself_and_an_idle_one_takes_nothing(make_kit: Any) -> None:
    """A pool that is full, or that has an idle worker, does not keep another one from working."""
    full, idle, third = make_kit(), make_kit(), make_kit()
    idle.ask("echo").result()
    running, gate = full.begin("wait")
    waiting = full.ask("echo")
    assert third.ask("echo").result()
    assert waiting.state == "queued"
    full.open(gate)
    assert running.result() and waiting.result()
    assert Bounds().workers == min(limits.WORKERS_MAX, os.cpu_count() or 1)


def test_inv_020_inv_026_a_slot_is_taken_until_its_process_is_gone(
    make_kit: Any, ended: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kill does not work at once: until it has, the caller hears nothing and nobody else begins."""
    kit = make_kit(grace_s=0.01)
    tried = threading.Event()
    with monkeypatch.context() as stubborn:
        stubborn.setattr(Child, "kill", lambda self: tried.set())
        running, _ = kit.begin("wait")
        pid = kit.pid()
        running.cancel()
        assert tried.wait(60)
        after = kit.ask("echo")
        assert not ended(pid, 0)
        assert (running.done(), after.state) == (False, "queued")
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(errors.Cancelled):
        running.result()
    assert after.result()[0]["pid"] != pid


# --- a memory that serves ------------------------------------------------------------------------------------------


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "data", serving=True) as memory:
        memory.remember(session="s", messages=[{"role": "user", "content": "granite"}])
        assert memory._opened is not None and memory._opened.workers is not None
        assert memory._opened.workers.pool.warm(60)
        yield memory


def test_inv_036_while_serving_a_search_is_carried_out_by_a_worker(
    serving: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is retrieved in this process; where there is no worker, it is."""

    def here(*arguments: Any, **named: Any) -> Any:
        raise AssertionError("retrieved here")

    monkeypatch.setattr(run, "search", here)
    assert serving.search("granite").hits
    monkeypatch.setattr(Retrieval, "available", False)
    with pytest.raises(AssertionError, match="retrieved here"):
        serving.search("granite")


def test_inv_040_too_many_searches_are_refused_to_the_caller(serving: Memory) -> None:
    """``Overloaded`` comes out of the door as it is, retryable; writing and reading back are not concerned."""
    opened = serving._opened
    assert opened is not None and opened.workers is not None
    free = opened.workers
    reference = serving.search("granite").hits[0].reference
    opened.workers = Retrieval(bounds=Bounds(pending=0))
    try:
        with pytest.raises(errors.Overloaded) as caught:
            serving.search("granite")
        assert caught.value.retryable
        assert serving.remember(session="s", messages=[{"role": "user", "content": "slate"}]).searchable
        assert serving.get(reference).status == "ok"
    finally:
        opened.workers.close()
        opened.workers = free
    assert serving.search("slate").hits
