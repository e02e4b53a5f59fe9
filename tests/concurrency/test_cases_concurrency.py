"""Cases C068, C070 and C148, in our commands: forks, a note that never rests, and a burst of changes."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.doctor import verify
from memory_sqlite.indexing import notes as notes_index
from memory_sqlite.model import IndexReport
from memory_sqlite.paths import agent_directory
from memory_sqlite.sources.places import NotePlace

FACTS = """
import sys
from memory_sqlite import Memory
with Memory.open(sys.argv[1]) as memory:
    for number in range(25):
        text = f"fact {sys.argv[2]} {number} of granite"
        memory.remember(session=sys.argv[2], run_id=f"r{number}", messages=[{"role": "user", "content": text}])
        assert memory.search(text, sources=("sessions",), max_results=1).hits
"""
PARENT = """
import os, sys
from memory_sqlite import Memory
memory = Memory.open(sys.argv[1])
assert memory.search("granite").hits
opened = memory._opened.store.connection
opened.execute("BEGIN IMMEDIATE")
inherits = os.fork()
if inherits == 0:
    while True:
        os.read(0, 1)
print(inherits, flush=True)
os.read(0, 1)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_case_C068_a_fork_cannot_use_what_its_parent_opened(tmp_path: Path) -> None:
    """C068, first half: four forked children are refused their parent's memory by a clear error, and closing it there
    does nothing; each starts a process of its own, as our workers are started. All 125 facts are there, and the store
    is whole."""
    data = tmp_path / "data"
    with Memory.open(data) as memory:
        memory.remember(session="before", messages=[{"role": "user", "content": "granite"}])
        assert memory.search("granite").hits
        children = []
        for number in range(4):
            if (child := os.fork()) == 0:
                code = 70
                try:
                    for call in (lambda: memory.search("granite"), memory.status, memory.index):
                        with pytest.raises(errors.MemoryClosed, match="fork"):
                            call()
                    memory.close()
                    os.execv(sys.executable, [sys.executable, "-c", FACTS, str(data), f"child{number}"])
                finally:
                    os._exit(code)
            children.append(child)
        for number in range(25):
            text = f"fact parent {number} of granite"
            memory.remember(session="parent", run_id=f"r{number}", messages=[{"role": "user", "content": text}])
            assert memory.search(text, sources=("sessions",), max_results=1).hits
        assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 4
        assert memory.status()["turns"] == 1 + 125
        memory.search("granite")
        assert memory.status()["index"]["lag"] == 0
    assert verify(agent_directory(data, "main")) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_case_C068_a_killed_parents_lock_is_free_although_a_child_sleeps(tmp_path: Path) -> None:
    """C068, second half: the parent is killed while it holds the write lock and a forked child has all its descriptors
    open: another process writes and rebuilds at once, since the locks died with their owner."""
    data = tmp_path / "data"
    with Memory.open(data) as memory:
        memory.remember(session="s", messages=[{"role": "user", "content": "granite"}])
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(data)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    try:
        store = apsw.Connection(str(agent_directory(data, "main") / "memory.sqlite"))
        with pytest.raises(apsw.BusyError):
            store.execute("BEGIN IMMEDIATE")
        store.close()
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        with Memory.open(data) as memory:
            receipt = memory.remember(session="s", messages=[{"role": "user", "content": "marble"}])
            assert (receipt.status, receipt.searchable) == ("stored", True)
            assert memory.index(full=True).generation == 2
            assert memory.search("marble").hits
    finally:
        os.kill(child, signal.SIGKILL)
        parent.kill()
        parent.communicate()
    assert [one.code for one in verify(agent_directory(data, "main"))] == []


def test_case_C070_a_rebuild_ends_though_a_note_never_rests(
    memory: Memory, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C070: a note that changes each time it is read (the worst writer there can be) is looked at a bounded number of
    times; the rebuild ends, the other notes are found, searches answer meanwhile, and once the note rests the next
    search takes it in as it is."""
    for number in range(100):
        (workspace / "memory" / f"n{number}.md").write_text(f"Note {number}. pebble{number}\n")
    log = workspace / "memory" / "log.md"
    log.write_text("line 0 slate\n")
    memory.index()
    restless = [True]
    reads: list[int] = []
    real = notes_index._read

    def read_note(place: NotePlace) -> Any:
        note = real(place)
        if restless[0] and place.path == "memory/log.md":
            reads.append(1)
            with log.open("a") as file:
                file.write(f"line {len(reads)} slate\n")
        return note

    monkeypatch.setattr(notes_index, "_read", read_note)
    answered: list[int] = []

    def progress(stage: str, done: int, total: int | None) -> None:
        if stage == "notes" and not answered:
            asking = threading.Thread(target=lambda: answered.append(len(memory.search("pebble7").hits)))
            asking.start()
            asking.join(120)

    report = memory.index(full=True, progress=progress)
    assert report.generation == 2
    assert 1 <= len(reads) <= 5
    assert answered and answered[0] > 0
    for number in range(100):
        assert memory.search(f"pebble{number}", sources=("memory",), max_results=1).hits
    restless[0] = False
    hits = memory.search(f"line {len(reads)} slate", sources=("memory",), max_results=1).hits
    assert f"line {len(reads)} slate" in hits[0].excerpt
    assert [one.code for one in verify(memory._opened)] == []  # type: ignore[arg-type]


def test_case_C148_a_burst_of_changes_becomes_a_few_batches(memory: Memory, workspace: Path) -> None:
    """C148, first half: 300 notes rewritten under a watch, which finds the memory busy meanwhile, come in a few
    batches, all of them are found, and no search of a client fails. (1,000 of 5,000 there.) There is no export, which
    the second half asks for; that an import streams is measured by ``tests/benchmarks/bench_import.py``."""
    pytest.importorskip("watchfiles")
    for number in range(300):
        (workspace / "memory" / f"n{number}.md").write_text(f"Note {number}. pebble{number}\n")
    batches: queue.SimpleQueue[IndexReport] = queue.SimpleQueue()
    warnings: list[str] = []
    failures: list[BaseException] = []
    answered, over = threading.Semaphore(0), threading.Event()

    def ask() -> None:
        try:
            while not over.is_set():
                memory.search("pebble7")
                answered.release()
        except BaseException as error:
            failures.append(error)
            answered.release()

    with memory.watch(on_batch=batches.put, on_warning=warnings.append) as watch:
        assert watch.wait_ready(60)
        assert batches.get(timeout=60).added == 300
        client = threading.Thread(target=ask)
        client.start()
        with memory._lock:  # as a turn that is being stored has it; a client's search does not wait for that
            for number in range(300):
                (workspace / "memory" / f"n{number}.md").write_text(f"Note {number}, again. gravel{number}\n")
            assert answered.acquire(timeout=60)
        changed: list[int] = []
        while sum(changed) < 300 and not _all_found(memory):  # the client's searches may take some of them in
            try:
                changed.append(batches.get(timeout=1).changed)
            except queue.Empty:
                continue
        over.set()
        client.join()
    assert failures == []
    assert len(changed) <= 10
    assert _all_found(memory)
    assert warnings == []


def _all_found(memory: Memory) -> bool:
    """Whether each of the 300 notes says what was written last; looked up in the index alone."""
    assert memory._opened is not None
    with memory._opened.keeper.reader() as index:
        texts = [text for (text,) in index.execute("SELECT text FROM chunks")]
    return sum("again" in text for text in texts) == 300
