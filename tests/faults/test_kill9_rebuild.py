"""``kill -9`` of a process that rebuilds, at random moments: nothing is lost, and the next rebuild publishes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from memory_sqlite import Memory
from memory_sqlite.doctor import verify
from memory_sqlite.indexing import rebuild, resume
from memory_sqlite.paths import agent_directory

KILLS = int(os.environ.get("MEMORY_SQLITE_SWEEP", "8"))
SESSIONS, TURNS, NOTES = 30, 4, 60
CHILD = """
import sys
from memory_sqlite import Memory
import memory_sqlite.sources.notes

def progress(stage, done, total):
    if sys.argv[3:] and stage == sys.argv[3] and done >= int(sys.argv[4]):
        print("there", flush=True)
        sys.stdin.read()

with Memory.open(sys.argv[1], workspace=sys.argv[2]) as memory:
    print("started", flush=True)
    memory.index(full=True, progress=progress)
print("done", flush=True)
"""
"""Rebuilds; with a stage and a number it says when it has come there, and waits to be killed."""


def said(session: int, turn: int) -> list[dict[str, str]]:
    return [
        {"role": "user", "content": f"granite s{session}t{turn} lies in hall {turn}."},
        {"role": "assistant", "content": f"Noted: s{session}t{turn}."},
    ]


@pytest.fixture
def place(tmp_path: Path, workspace: Path) -> Iterator[Path]:
    """The data directory of a memory with sessions, records and notes, all of them indexed."""
    for number in range(NOTES):
        (workspace / "memory" / f"n{number}.md").write_text(f"# Note {number}\n\npebble{number} in the yard\n")
    owner = {"chat_type": "direct", "sender_is_owner": True}
    with Memory.open(tmp_path / "data", workspace=workspace) as memory:
        for session in range(SESSIONS):
            for turn in range(TURNS):
                memory.remember(session=f"s{session}", messages=said(session, turn), **owner)  # type: ignore[arg-type]
        memory.index()
    yield tmp_path / "data"


def documents(index: apsw.Connection) -> list[tuple[object, ...]]:
    """Everything a generation says, apart from row ids and times of files."""
    rows = index.execute(
        "SELECT d.kind, d.key, d.hash, d.title, d.origin, d.session_id, d.position, d.owner_private, c.ordinal, c.text,"
        " c.text_hash FROM documents d LEFT JOIN chunks c ON c.document_id = d.id ORDER BY 1, 2, 9"
    )
    return [tuple(row) for row in rows]


def held(memory: Memory) -> list[tuple[object, ...]]:
    assert memory._opened is not None
    with memory._opened.keeper.reader() as index:
        return documents(index)


def faults(directory: Path) -> list[str]:
    return [finding.code for finding in verify(directory) if finding.severity != "info"]


@pytest.mark.sweep
def test_inv_067_killed_rebuilds_lose_nothing_and_the_next_publishes(place: Path, workspace: Path) -> None:
    """After each kill the directory is clean, the old answers are given, turns are remembered; the rebuild after it
    publishes a generation that says exactly what one built in one go says."""
    rng = random.Random(11)
    directory = agent_directory(place, "main")
    began = time.monotonic()
    with Memory.open(place, workspace=workspace) as memory:
        memory.index(full=True)
    whole_s = time.monotonic() - began
    resumed = 0
    for number in range(KILLS):
        # every fourth is killed where the file is being filled for certain, the others at any moment
        filling = number % 4 == 1
        where = ["notes", str(rng.randrange(1, NOTES))] if filling else []
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(place), str(workspace), *where],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "started\n"
        if filling:
            assert child.stdout.readline() == "there\n"
        else:
            time.sleep(rng.uniform(0, whole_s))
        child.send_signal(signal.SIGKILL)
        child.communicate()
        with Memory.open(place, workspace=workspace) as memory:
            assert memory.search("s3t1", sources=("sessions",), max_results=1).hits
            assert memory.search(f"pebble{number}", sources=("memory",), max_results=1).hits
            receipt = memory.remember(session="s1", run_id=f"after{number}", messages=said(90 + number, 0))
            assert (receipt.status, receipt.searchable) == ("stored", True)
            assert faults(directory) == []
            assert memory._opened is not None
            before = memory._opened.keeper.number()
            going_on = memory._opened.keeper.has_unfinished()
            assert going_on or not filling
            report = memory.index(full=number % 2 == 0 or not going_on)
            resumed += going_on
            assert report.generation is not None
            assert before is not None
            assert report.generation > before
            after_resuming = held(memory)
            assert memory.search(f"s{90 + number}t0", sources=("sessions",), max_results=1).hits
            memory.index(full=True)
            assert held(memory) == after_resuming
        assert faults(directory) == []
        assert len(list(directory.glob("index-*.sqlite"))) == 1
    assert resumed >= KILLS // 4


def interrupted(memory: Memory, stage: str, at: int) -> None:
    """A full build that ends when ``stage`` has come to ``at``, as Ctrl-C ends it."""

    def progress(now: str, done: int, total: int | None) -> None:
        if now == stage and done >= at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        memory.index(full=True, progress=progress)


@pytest.mark.parametrize(("stage", "at"), [("sessions", 11), ("notes", 30), ("finishing", 0)])
def test_build_that_goes_on_files_only_the_rest(
    place: Path, workspace: Path, stage: str, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was filed before the interruption is not read again; what changed in between, in a session or a note that
    was filed, is what the published generation says."""
    filed = []
    real = rebuild.conversation.session_documents
    with Memory.open(place, workspace=workspace) as memory:
        interrupted(memory, stage, at)
        memory.remember(session="s1", messages=said(77, 7))
        (workspace / "memory" / "n1.md").write_text("# Note 1\n\nslate1\n")
        (workspace / "memory" / "n2.md").unlink()
        monkeypatch.setattr(
            rebuild.conversation, "session_documents", lambda store, one: filed.append(one.key) or real(store, one)
        )
        report = memory.index()
        assert report.generation == 2
        assert len(filed) == (SESSIONS - 11 if stage == "sessions" else 0)
        assert memory.search("s77t7", sources=("sessions",), max_results=1).hits
        assert memory.search("slate1", sources=("memory",)).hits
        assert "memory/n2.md" not in {hit.path for hit in memory.search("pebble2", sources=("memory",)).hits}
        going_on = held(memory)
        memory.index(full=True)
        assert held(memory) == going_on
    assert faults(agent_directory(place, "main")) == []


def test_unsound_file_is_not_gone_on_with(place: Path, workspace: Path) -> None:
    """A killed build whose rows do not fit together, or whose pages are damaged, is thrown away and built anew."""
    directory = agent_directory(place, "main")
    for number in (2, 4):
        with Memory.open(place, workspace=workspace) as memory:
            interrupted(memory, "notes", 30)
        path = directory / f"index-00000{number}.sqlite"
        if number == 2:
            connection = apsw.Connection(str(path))
            connection.execute("DELETE FROM chunks WHERE id = 5")
            connection.close()
        else:
            size = path.stat().st_size
            with path.open("r+b") as file:
                file.seek(size // 2 // 4096 * 4096)
                file.write(b"\xff" * 8192)
        with Memory.open(place, workspace=workspace) as memory:
            assert memory.index(full=True).generation == number + 1
            assert memory.search("s3t1", sources=("sessions",), max_results=1).hits
        assert faults(directory) == []


def test_inv_091_forgetting_takes_an_unfinished_build_along(place: Path, workspace: Path) -> None:
    """What is forgotten may stand in it: the file goes with the forgetting, which is proved as always."""
    with Memory.open(place, workspace=workspace) as memory:
        interrupted(memory, "notes", 30)
        assert memory._opened is not None
        assert memory._opened.keeper.has_unfinished()
        report = memory.forget(sessions=["s1"])
        assert (report.status, report.verified) == ("forgotten", True)
        assert not memory._opened.keeper.has_unfinished()
        assert memory.search("s1t1", sources=("sessions",)).hits == ()


def test_inv_074_build_of_another_identity_or_store_is_swept(
    place: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gone on with is only what this code would build from this store under this boot."""
    directory = agent_directory(place, "main")
    with Memory.open(place, workspace=workspace) as memory:
        interrupted(memory, "notes", 30)
        assert memory._opened is not None
        store = memory._opened.store
        assert resume.unfinished(directory, store.connection) == 2
        with monkeypatch.context() as other:
            other.setattr(resume.identity, "expected", lambda: {"format": 1, "chunker": 999})
            assert resume.unfinished(directory, store.connection) is None
        with monkeypatch.context() as other:
            other.setattr(resume.change_log, "newest", lambda connection: 0)
            assert resume.unfinished(directory, store.connection) is None
        with monkeypatch.context() as other:
            other.setattr(resume, "_BOOT", directory / "nothing")
            assert resume.unfinished(directory, store.connection) is None
            assert rebuild.sweep(store) == [2]
        assert not (directory / "index-000002.sqlite").exists()
