"""A memory that serves: searches run in worker processes, answer as its own process would, and let go in time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_sqlite import Memory, errors, paths
from memory_sqlite.processes.retrieval import Retrieval

WORDS = ["granite quarry", "marble hall", "数据库迁移", "slate roof", "E_LEDGER_0042"]


@pytest.fixture
def serving(tmp_path: Path, workspace: Path) -> Iterator[Memory]:
    for number, words in enumerate(WORDS):
        (workspace / "memory" / f"n{number}.md").write_text(f"# Note {number}\n\n{words} {number}\n", encoding="utf-8")
    with Memory.open(tmp_path / "data", workspace=workspace, serving=True) as memory:
        memory.index()
        memory.remember(session="s1", messages=[{"role": "user", "content": "The granite arrives on Friday."}])
        yield memory


def pids(memory: Memory) -> list[int]:
    assert memory._opened is not None and memory._opened.workers is not None
    assert memory._opened.workers.pool.warm(60)
    return list(memory._opened.workers.pool.describe()["pids"])


def test_a_worker_answers_what_this_process_answers(serving: Memory, tmp_path: Path) -> None:
    assert pids(serving)
    with Memory.open(tmp_path / "data") as plain:
        for query in [*WORDS, "granite", "nothing of the kind", ""]:
            here, there = plain.search(query, explain=True), serving.search(query, explain=True)
            assert [hit.reference for hit in here.hits] == [hit.reference for hit in there.hits]
            assert [hit.excerpt for hit in here.hits] == [hit.excerpt for hit in there.hits]
        assert serving.search("granite", session="nobody").hits == ()


def test_many_threads_are_answered_by_workers(serving: Memory) -> None:
    pids(serving)
    wrong: list[str] = []

    def ask(number: int) -> None:
        for _ in range(10):
            words = WORDS[number % len(WORDS)]
            if serving.search(words).hits[0].path != f"memory/n{number % len(WORDS)}.md":
                wrong.append(words)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_rebuild_is_followed_and_the_old_file_goes(serving: Memory, tmp_path: Path) -> None:
    pids(serving)
    before = serving.status()["index"]["generation"]
    serving.search("granite")  # a worker has the generation open now
    serving.index(full=True)
    after = serving.status()["index"]["generation"]
    assert after > before
    directory = paths.agent_directory(tmp_path / "data", "main")
    assert not paths.generation_file(directory, before).exists()
    assert serving.search("marble").hits[0].path == "memory/n1.md"


def test_another_owner_publishes_and_the_idle_worker_lets_go(
    serving: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker holds the generation it last answered from; it is told to let go, and then the file is taken away."""
    pids(serving)
    before = serving.status()["index"]["generation"]
    assert serving.search("granite").hits
    old = paths.generation_file(paths.agent_directory(tmp_path / "data", "main"), before)
    told = threading.Event()
    real = Retrieval.let_go

    def let_go(self: Retrieval, path: Path) -> int:
        count = real(self, path)
        told.set()
        return count

    monkeypatch.setattr(Retrieval, "let_go", let_go)
    assert serving._opened is not None and serving._opened.upkeep is not None
    with serving._opened.keeper.reader():
        pass  # now this process, too, has an idle connection
    with Memory.open(tmp_path / "data") as other:
        other.index(full=True)
    assert told.wait(60)
    assert not serving._opened.keeper._idle
    serving._opened.upkeep.look()
    assert not old.exists()
    assert serving.search("marble").hits[0].path == "memory/n1.md"


def test_what_was_just_remembered_is_found_by_the_worker(serving: Memory) -> None:
    pids(serving)
    for number in range(5):
        serving.remember(session="s1", messages=[{"role": "user", "content": f"canary{number} sings"}])
        assert serving.search(f"canary{number}").hits[0].session == "s1"


def test_a_cancelled_search_is_cancelled_and_the_next_is_answered(serving: Memory) -> None:
    pids(serving)
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(errors.Cancelled):
        serving.search("granite marble slate", cancelled=cancelled)
    assert serving.search("granite").hits


def test_a_search_here_stops_at_its_deadline_too(memory: Memory) -> None:
    with pytest.raises(errors.InvalidArgument, match="deadline_ms"):
        memory.search("x", deadline_ms=0)
    cancelled = threading.Event()
    cancelled.set()
    memory.remember(session="s", messages=[{"role": "user", "content": "granite"}])
    with pytest.raises(errors.Cancelled):
        memory.search("granite", cancelled=cancelled)
    assert memory.search("granite", deadline_ms=60_000).hits


def test_closing_ends_the_workers(tmp_path: Path) -> None:
    memory = Memory.open(tmp_path / "data", serving=True)
    workers = pids(memory)
    memory.close()
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]
