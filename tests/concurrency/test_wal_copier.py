"""Our checkpoints beside a program that replicates the store by copying its write-ahead log: whatever we do, it never
loses its place while it runs, and what it has copied is the store."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_sqlite import Memory, limits, paths
from memory_sqlite.config import Settings

CHILD = Path(__file__).with_name("wal_copier.py")


class Copier:
    """The program, led step by step."""

    def __init__(self, store: Path, replica: Path) -> None:
        self._child = subprocess.Popen(
            [sys.executable, str(CHILD), str(store), str(replica)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.replica = replica
        self._answer()

    def _answer(self) -> dict[str, int]:
        assert self._child.stdout is not None
        answer: dict[str, int] = json.loads(self._child.stdout.readline())
        return answer

    def tell(self, word: str) -> dict[str, int]:
        assert self._child.stdin is not None
        self._child.stdin.write(word + "\n")
        self._child.stdin.flush()
        return self._answer()

    def stop(self) -> dict[str, int]:
        """How often it took the whole file, and how many frames it copied; then it is gone."""
        answer = self.tell("stop")
        assert self._child.wait(timeout=60) == 0
        return answer

    def kill(self) -> None:
        self._child.kill()
        self._child.wait()
        for stream in (self._child.stdin, self._child.stdout):
            assert stream is not None
            stream.close()


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a store with a little in it. Waiting for a reader that never goes is cut short."""
    monkeypatch.setattr(limits, "BUSY_TIMEOUT_MS", 50)
    with opened(tmp_path) as memory:
        say(memory, "first", 10)
    return paths.agent_directory(tmp_path / "data", "main") / paths.STORE_FILE


@pytest.fixture
def copier(store: Path, tmp_path: Path) -> Iterator[Copier]:
    child = Copier(store, tmp_path / "replica.sqlite")
    yield child
    child.kill()


def opened(tmp_path: Path) -> Memory:
    return Memory.open(settings=Settings(data_dir=tmp_path / "data"))


def say(memory: Memory, session: str, count: int) -> None:
    for number in range(count):
        memory.remember(
            session=session,
            messages=[{"role": "user", "content": f"I like pebble{number} of {session}. {'stone ' * 200}"}],
            sender_is_owner=True,
        )


def content(path: Path) -> dict[str, list[Any]]:
    """Every row; the file is sound."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        assert connection.pragma("integrity_check") == "ok"
        names = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").fetchall()
        return {str(name): connection.execute(f'SELECT * FROM "{name}"').fetchall() for (name,) in names}
    finally:
        connection.close()


def maintain(memory: Memory) -> None:
    asyncio.run(memory.context_engine().maintain(session_id="x", session_key="first"))


def test_it_never_loses_its_place(store: Path, copier: Copier, tmp_path: Path) -> None:
    """Turns beyond the size at which SQLite checkpoints by itself, forgetting, maintenance, closing and opening, each
    followed by what it does itself: it takes the whole file once, at its start, and ends with each row of the store."""
    memory = opened(tmp_path)
    say(memory, "gone", 150)
    assert store.with_name(store.name + "-wal").stat().st_size > 1_000 * 4_096, "beyond SQLite's own checkpoint"
    copier.tell("sync")
    maintain(memory)
    copier.tell("checkpoint PASSIVE")
    say(memory, "kept", 10)
    copier.tell("checkpoint TRUNCATE")
    report = memory.forget(sessions=["gone"])
    assert report.status == "unfinished"
    assert report.reasons[0] == "somebody is reading the store, so that its WAL could not be emptied"
    maintain(memory)
    say(memory, "later", 10)
    memory.close()
    copier.tell("sync")
    with opened(tmp_path) as again:
        say(again, "again", 10)
        copier.tell("checkpoint RESTART")
    with opened(tmp_path):
        pass
    assert copier.stop()["snapshots"] == 1
    assert content(copier.replica) == content(store)
    assert b"of gone" not in copier.replica.read_bytes()


def test_what_it_held_up_is_finished_when_it_is_gone(store: Path, copier: Copier, tmp_path: Path) -> None:
    """A forgetting whose last bytes lie in a log that it reads is done with by the next open, and until then nobody
    waits for it: opening neither fails nor keeps the write lock."""
    with opened(tmp_path) as memory:
        say(memory, "gone", 60)
        copier.tell("checkpoint TRUNCATE")
        report = memory.forget(sessions=["gone"])
        assert report.status == "unfinished"
        assert any("memory.sqlite" in reason for reason in report.reasons), "its old pages are there until it goes"
    log = store.with_name(store.name + "-wal")
    written = log.stat().st_size
    with opened(tmp_path) as memory:
        rooms = memory.rooms()
        assert rooms is not None
        assert rooms.opened.has_unfinished_forgetting()
    assert log.stat().st_size == written, "nothing is written anew at each open"
    copier.stop()
    with opened(tmp_path) as memory:
        rooms = memory.rooms()
        assert rooms is not None
        assert not rooms.opened.has_unfinished_forgetting()
    assert b"of gone" not in store.read_bytes()
    assert not log.exists()


def test_it_begins_anew_after_it_was_away(store: Path, copier: Copier, tmp_path: Path) -> None:
    """While it is not running our close takes the log away: it takes the whole file again, and has everything."""
    copier.stop()
    with opened(tmp_path) as memory:
        say(memory, "meanwhile", 5)
        memory.forget(sessions=["first"])
    again = Copier(store, tmp_path / "again.sqlite")
    try:
        with opened(tmp_path) as memory:
            say(memory, "after", 5)
        assert again.stop()["snapshots"] == 1
    finally:
        again.kill()
    assert content(again.replica) == content(store)
    assert {row[1] for row in content(again.replica)["sessions"]} == {"meanwhile", "after"}
