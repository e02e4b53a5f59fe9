"""Rules 1 to 42 of the list in ``architecture.md``, as far as no other test shows them: holds and reading."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.agent.opened import Opened
from memory_sqlite.clock import FixedClock
from memory_sqlite.generations import files, registry
from memory_sqlite.indexing import keeper as keepers
from memory_sqlite.indexing import notes as notes_index
from memory_sqlite.indexing import rebuild
from memory_sqlite.paths import agent_directory, generation_file
from memory_sqlite.search import run
from memory_sqlite.storage import connection as connections

LOOK = 1_100
"""Milliseconds after which a search looks at the workspace again."""
PATIENCE_S = 60.0


@pytest.fixture
def memory(tmp_path: Path, workspace: Path, clock: FixedClock) -> Iterator[Memory]:
    """Two notes that are indexed and a turn."""
    (workspace / "memory" / "a.md").write_text("granite plan\n")
    (workspace / "memory" / "b.md").write_text("pebble plan\n")
    with Memory.open(tmp_path / "data", workspace=workspace, clock=clock) as opened:
        opened.remember(session="s", messages=[{"role": "user", "content": "marble"}])
        opened.index()
        yield opened


def rooms(memory: Memory) -> Opened:
    assert memory._opened is not None
    return memory._opened


def file_of(memory: Memory, number: int) -> Path:
    return generation_file(rooms(memory).store.directory, number)


def found(memory: Memory, query: str) -> list[str]:
    return [hit.path for hit in memory.search(query, sources=("memory",)).hits]


def in_thread(work: Callable[[], Any]) -> Callable[[], Any]:
    """Start it; what is returned waits for the end and gives the result, or raises."""
    outcome: list[Any] = []

    def call() -> None:
        try:
            outcome.append((work(), None))
        except BaseException as error:
            outcome.append((None, error))

    thread = threading.Thread(target=call)
    thread.start()

    def result() -> Any:
        thread.join(PATIENCE_S)
        assert outcome, "it did not end"
        value, error = outcome[0]
        if error is not None:
            raise error
        return value

    return result


# --- holds ---------------------------------------------------------------------------------------------------------


def test_inv_001_two_searches_read_one_generation_at_the_same_time(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits in the middle of its reading for the other one to be there."""
    both = threading.Barrier(2, timeout=PATIENCE_S)
    real = run.search

    def meeting(connection: apsw.Connection, *arguments: Any, **named: Any) -> Any:
        connection.execute("SELECT 1 FROM meta").fetchall()
        both.wait()
        return real(connection, *arguments, **named)

    monkeypatch.setattr(run, "search", meeting)
    results = [in_thread(lambda: found(memory, "granite")) for _ in range(2)]
    assert [result() for result in results] == [["memory/a.md"]] * 2


def test_inv_002_inv_003_publishing_waits_for_no_reader_and_the_file_does(memory: Memory) -> None:
    """While one reads, three generations are published and read; its own stays and goes after it."""
    keeper = rooms(memory).keeper
    with keeper.reader() as early:
        counts = [early.execute("SELECT count(*) FROM chunks").get]
        for number in (2, 3, 4):
            assert memory.index(full=True).generation == number
            memory.remember(session="s", messages=[{"role": "user", "content": f"slate {number}"}])
            with keeper.reader() as late:
                counts.append(late.execute("SELECT count(*) FROM chunks").get)
        assert len(set(counts)) == 4 and counts == sorted(counts)
        assert early.execute("SELECT count(*) FROM chunks").get == counts[0]
        assert files.numbers(rooms(memory).store.directory) == [1, 4]
    rebuild.sweep(rooms(memory).store)
    assert files.numbers(rooms(memory).store.directory) == [1, 4], "an idle connection holds as well"
    keeper.drop_readers()
    assert rebuild.sweep(rooms(memory).store) == [1]


def test_inv_004_readers_that_come_during_a_publication_are_answered_during_it(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody queues: the row is being flipped, under the store's write lock, and three searches answer meanwhile."""
    real = registry.publish
    answers: list[list[str]] = []
    with Memory.open(tmp_path / "data") as other:

        def publish(*arguments: Any) -> None:
            real(*arguments)
            searches = [in_thread(lambda: found(other, "granite")) for _ in range(3)]
            answers.extend(search() for search in searches)

        monkeypatch.setattr(registry, "publish", publish)
        assert memory.index(full=True).generation == 2
        assert answers == [["memory/a.md"]] * 3
        assert found(other, "granite") == ["memory/a.md"]
        assert other.status()["index"]["generation"] == 2


@pytest.mark.parametrize("end", ["answer", "defect", "cancelled"])
def test_inv_006_inv_009_a_search_lets_go_however_it_ends(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """Nothing of it keeps the generation: when its memory has gone on to the next one, the file can be taken away."""
    cancelled = threading.Event()
    real = run.search

    def ending(connection: apsw.Connection, *arguments: Any, **named: Any) -> Any:
        connection.execute("SELECT 1 FROM meta").fetchall()
        if end == "defect":
            raise ZeroDivisionError
        if end == "cancelled":
            cancelled.set()
        return real(connection, *arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(run, "search", ending)
        if end == "answer":
            assert memory.search("granite").hits
        else:
            with pytest.raises((ZeroDivisionError, errors.Cancelled)):
                memory.search("granite", cancelled=cancelled)
    assert memory.index(full=True).generation == 2
    assert not file_of(memory, 1).exists()


def test_inv_010_a_search_holds_nothing_while_it_takes_notes_in(
    memory: Memory, workspace: Path, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it writes first, it writes before it borrows a reading connection."""
    reading: list[int] = []
    seen: list[int] = []
    real_reader, real_work = keepers.IndexKeeper.reader, notes_index.carry_out

    @contextmanager
    def reader(self: keepers.IndexKeeper) -> Iterator[apsw.Connection]:
        with real_reader(self) as connection:
            reading.append(1)
            try:
                yield connection
            finally:
                reading.pop()

    def work(*arguments: Any, **named: Any) -> Any:
        seen.append(len(reading))
        return real_work(*arguments, **named)

    monkeypatch.setattr(keepers.IndexKeeper, "reader", reader)
    monkeypatch.setattr(notes_index, "carry_out", work)
    (workspace / "memory" / "c.md").write_text("basalt\n")
    clock.advance(LOOK)
    assert found(memory, "basalt") == ["memory/c.md"]
    assert seen == [0]


# --- reading -------------------------------------------------------------------------------------------------------


def test_inv_041_status_writes_nothing(
    memory: Memory, tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a turn that the index has not and a note that changed: it tells of them, and neither file changes."""
    monkeypatch.setattr(keepers.IndexKeeper, "apply", lambda self: 0)
    memory.remember(session="s", messages=[{"role": "user", "content": "slate"}])
    (workspace / "memory" / "c.md").write_text("basalt\n")
    directory = agent_directory(tmp_path / "data", "main")
    lookers = [
        connections.open_store_reader(directory / "memory.sqlite"),
        connections.open_index_reader(generation_file(directory, 1)),
    ]
    before = [looker.pragma("data_version") for looker in lookers], sorted(directory.iterdir())
    status = memory.status()["index"]
    assert (status["lag"] > 0, status["dirty_notes"] > 0) == (True, True)
    assert ([looker.pragma("data_version") for looker in lookers], sorted(directory.iterdir())) == before
    for looker in lookers:
        looker.close()
