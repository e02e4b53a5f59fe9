"""An index that another version built: a serving memory answers from it while the next one is built beside it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory
from memory_sqlite.agent import opened as opening
from memory_sqlite.clock import Clock
from memory_sqlite.doctor import verify
from memory_sqlite.generations import layout
from memory_sqlite.indexing import identity, rebuild
from memory_sqlite.paths import agent_directory

PATIENCE_S = 60.0


class Gate:
    """Holds a build at its check until it is let through; says when it has come, and when it is over."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.come, self.open, self.over = threading.Event(), threading.Event(), threading.Event()
        real_check, real_leave = rebuild.verify, opening.IndexKeeper.leave

        def check(*arguments: Any) -> None:
            self.come.set()
            assert self.open.wait(PATIENCE_S)
            real_check(*arguments)

        def leave(keeper: Any, number: Any) -> None:
            real_leave(keeper, number)
            self.over.set()

        monkeypatch.setattr(rebuild, "verify", check)
        monkeypatch.setattr(opening.IndexKeeper, "leave", leave)


@pytest.fixture
def place(tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A memory with a turn and a note, and then another version of this code."""
    (workspace / "memory" / "a.md").write_text("pebble plan\n")
    with Memory.open(tmp_path / "data", workspace=workspace) as memory:
        memory.remember(session="s", messages=[{"role": "user", "content": "granite"}])
        memory.index()
    newer = identity.expected() | {"chunker": 999}
    monkeypatch.setattr(identity, "expected", lambda: newer)
    yield tmp_path / "data"


def tells(memory: Memory, *words: str) -> bool:
    """Whether the best hit for each word says it."""
    best = [(word, memory.search(word, max_results=1).hits) for word in words]
    return all(hits and word in hits[0].excerpt for word, hits in best)


def test_inv_078_serving_memory_answers_and_remembers_while_the_next_is_built(
    place: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening does not wait; old and new turns and notes are found before and after the publication; the old file goes
    when it is over."""
    gate = Gate(monkeypatch)
    with Memory.open(place, workspace=workspace, serving=True) as memory:
        assert gate.come.wait(PATIENCE_S)
        status = memory.status()["index"]
        assert (status["generation"], status["state"]) == (1, "rebuilding")
        assert tells(memory, "granite", "pebble")
        assert memory.remember(session="s", messages=[{"role": "user", "content": "basalt"}]).searchable
        (workspace / "memory" / "b.md").write_text("slate plan\n")
        assert memory.index().generation == 1
        assert tells(memory, "basalt", "slate")
        gate.open.set()
        assert gate.over.wait(PATIENCE_S)
        status = memory.status()["index"]
        assert (status["generation"], status["state"], status["lag"]) == (2, "current", 0)
        assert tells(memory, "granite", "pebble", "basalt")
        memory._opened.looked_at = None  # type: ignore[union-attr]
        while memory.search("slate").stale:  # the upkeep may have the lock at this moment
            continue
        assert tells(memory, "slate")
    directory = agent_directory(place, "main")
    assert [path.name for path in directory.glob("index-*.sqlite")] == ["index-000002.sqlite"]
    assert verify(directory) == []


def test_inv_055_closing_ends_the_build_and_the_next_open_goes_on(
    place: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that stops does not wait for a long build, nor does the build outlive it; what it filed is kept for the
    next one, which leaves the serving memory's connection alone."""
    filed = threading.Event()
    go_on = threading.Event()
    real = opening.Opened.fill_notes

    def slowly(self: Any, index: Any, progress: Any = None) -> None:
        filed.set()
        assert go_on.wait(PATIENCE_S)
        real(self, index, progress)

    with monkeypatch.context() as slow:
        slow.setattr(opening.Opened, "fill_notes", slowly)
        memory = Memory.open(place, workspace=workspace, serving=True)
        assert filed.wait(PATIENCE_S)
        assert tells(memory, "granite")
        closing = threading.Thread(target=memory.close)
        closing.start()
        while not memory._opened.closed:  # type: ignore[union-attr]
            closing.join(0.01)
        go_on.set()
        closing.join(PATIENCE_S)
        assert not closing.is_alive()
    directory = agent_directory(place, "main")
    assert sorted(path.name for path in directory.glob("index-*.sqlite")) == [
        "index-000001.sqlite",
        "index-000002.sqlite",
    ]
    again = []
    real_documents = rebuild.conversation.session_documents
    monkeypatch.setattr(rebuild.conversation, "session_documents", lambda *a: again.append(1) or real_documents(*a))
    gate = Gate(monkeypatch)
    gate.open.set()
    with Memory.open(place, workspace=workspace, serving=True) as memory:
        assert memory._opened is not None
        connection = memory._opened.store.connection
        assert gate.over.wait(PATIENCE_S)
        assert memory._opened.store.connection is connection, "it was built through connections of its own"
        assert memory.status()["index"]["generation"] == 2
        assert tells(memory, "granite", "pebble")
    assert again == []


def test_inv_054_build_that_fails_is_tried_again(place: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No room, a locked store: the old index goes on answering, and the next turn of the upkeep tries again."""
    real = opening.open_agent
    failed = threading.Event()

    def full(*arguments: Any, **more: Any) -> Any:
        if more.get("progress") is None:
            return real(*arguments, **more)
        failed.set()
        raise opening.errors.DiskFull("full")

    with monkeypatch.context() as first:
        first.setattr(opening, "open_agent", full)
        memory = Memory.open(place, workspace=workspace, serving=True)
        assert failed.wait(PATIENCE_S)
    with memory:
        assert tells(memory, "granite")
        assert memory.status()["index"]["state"] == "rebuilding"
        memory._opened.upkeep.look()  # type: ignore[union-attr]
        assert memory.status()["index"]["state"] == "current"
        assert tells(memory, "granite")


def test_other_tables_are_rebuilt_before_the_first_answer(
    place: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index of another format cannot be asked: opening builds the next one first, serving or not."""
    monkeypatch.setattr(layout, "FORMAT", layout.FORMAT + 1)
    with Memory.open(place, workspace=workspace, serving=True) as memory:
        status = memory.status()["index"]
        assert (status["generation"], status["state"]) == (2, "current")
        assert tells(memory, "granite", "pebble")


def test_command_that_asks_once_builds_first_and_tells_how_far_it_is(place: Path, workspace: Path) -> None:
    """Without ``serving`` the index is built anew at open, and ``progress`` hears of it."""
    heard = []
    with Memory.open(place, workspace=workspace, progress=lambda stage, done, total: heard.append(stage)) as memory:
        assert memory.status()["index"]["state"] == "current"
    assert list(dict.fromkeys(heard)) == ["sessions", "notes", "finishing"]


def test_reader_changes_nothing(place: Path, workspace: Path) -> None:
    """Opened for reading only, an outdated index answers and stays."""
    with Memory.open(place, workspace=workspace, read_only=True, serving=True, clock=Clock()) as memory:
        assert tells(memory, "granite")
        assert memory.status()["index"]["state"] == "outdated"
