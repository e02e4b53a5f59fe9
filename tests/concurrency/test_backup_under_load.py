"""Backups while somebody writes without a pause: each shows one moment, whole, and nobody is held up."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_sqlite import Memory, limits, paths
from memory_sqlite.backup.making import make
from memory_sqlite.backup.restoring import restore
from memory_sqlite.backup.verifying import verify
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings

CLOCK = Clock()
WRITER = """
import sys
from pathlib import Path
from memory_sqlite import Memory
from memory_sqlite.config import Settings
with Memory.open(settings=Settings(data_dir=Path(sys.argv[1]))) as memory:
    number = 0
    while True:
        number += 1
        said = [{"role": "user", "content": f"other {number}"}, {"role": "assistant", "content": "yes"}]
        memory.remember(session="other", run_id=f"o{number}", messages=said)
        print(number, flush=True)
"""


def say(memory: Memory, number: int) -> None:
    memory.remember(
        session="own",
        run_id=f"r{number}",
        messages=[
            {"role": "user", "content": f"I like pebble{number}. {'stone ' * 100}"},
            {"role": "assistant", "content": f"Noted {number}."},
        ],
        sender_is_owner=True,
    )


def turns(place: Path, session: str) -> list[int]:
    """The ordinals of a session's turns in a backup; every one has both its messages."""
    store = paths.agent_directory(place, "main") / paths.STORE_FILE
    connection = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        found: list[Any] = connection.execute(
            "SELECT t.ordinal, (SELECT count(*) FROM messages m WHERE m.turn_id = t.id) FROM turns t"
            " JOIN sessions s ON s.id = t.session_id WHERE s.key = ? ORDER BY t.ordinal",
            (session,),
        ).fetchall()
    finally:
        connection.close()
    assert all(count == 2 for _, count in found)
    return [ordinal for ordinal, _ in found]


def test_a_backup_shows_the_moment_it_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between any two pages somebody remembers a turn and checkpoints: the backup has what was there before the first,
    ends, and does not begin anew."""
    monkeypatch.setattr(limits, "BACKUP_STEP_PAGES", 5)
    settings = Settings(data_dir=tmp_path / "data")
    with Memory.open(settings=settings) as memory:
        for number in range(20):
            say(memory, number)
        rooms = memory.rooms()
        assert rooms is not None
        number, steps = 20, 0

        def between(stage: str, done: int, total: int | None) -> None:
            nonlocal number, steps
            assert rooms is not None
            say(memory, number)
            rooms.opened.store.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            number, steps = number + 1, steps + 1

        for name in ("a", "b"):
            begun, steps = number, 0
            make(settings, tmp_path / name, CLOCK, between)
            assert steps > 5
            assert turns(tmp_path / name, "own") == list(range(1, begun + 1))
            assert verify(tmp_path / name, settings, CLOCK).status == "ok"
        assert memory.status()["turns"] == number


def test_writers_that_never_pause(tmp_path: Path) -> None:
    """Another process and a thread of this one write all the time: backups end, have every turn that was acknowledged
    before they began, none in part, and can be restored; the writers write on."""
    settings = Settings(data_dir=tmp_path / "data")
    with Memory.open(settings=settings) as memory:
        say(memory, 0)
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "data")], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        stopped, said = threading.Event(), [0]

        def write() -> None:
            while not stopped.is_set():
                say(memory, said[-1] + 1)
                said.append(said[-1] + 1)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            for name in ("a", "b", "c"):
                acknowledged = int(child.stdout.readline())
                own = said[-1]
                memory.backup(tmp_path / name)
                assert turns(tmp_path / name, "other")[:acknowledged] == list(range(1, acknowledged + 1))
                found = turns(tmp_path / name, "own")
                assert found == list(range(1, len(found) + 1))
                assert len(found) > own
            assert child.poll() is None
            assert thread.is_alive()
        finally:
            stopped.set()
            thread.join()
            child.kill()
            child.wait()
            child.stdout.close()
    report = restore(tmp_path / "c", Settings(data_dir=tmp_path / "new"), CLOCK)
    with Memory.open(settings=Settings(data_dir=tmp_path / "new")) as memory:
        assert memory.status()["turns"] == report.agents[0].counts["turns"]
        assert any("pebble0" in hit.excerpt for hit in memory.search("pebble0").hits)


def test_two_backups_at_the_same_time(tmp_path: Path) -> None:
    """Threads of one process: each is whole, and one place is given to one of them only."""
    settings = Settings(data_dir=tmp_path / "data")
    with Memory.open(settings=settings) as memory:
        say(memory, 0)
        failed: list[str] = []

        def back_up(name: str) -> None:
            try:
                memory.backup(tmp_path / name)
            except Exception as error:
                failed.append(getattr(error, "code", repr(error)))

        threads = [threading.Thread(target=back_up, args=(name,)) for name in ("a", "b", "same", "same")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failed == ["output_exists"]
    for name in ("a", "b", "same"):
        assert verify(tmp_path / name, settings, CLOCK).status == "ok"
    assert list(tmp_path.glob(".*.partial")) == []
