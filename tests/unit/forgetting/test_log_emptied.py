"""Emptying the write-ahead log waits for its readers without standing in anybody's way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from memory_sqlite import limits
from memory_sqlite.forgetting import compact
from memory_sqlite.storage import connection as connections


@pytest.fixture
def store(tmp_path: Path) -> Iterator[apsw.Connection]:
    path = tmp_path / "memory.sqlite"
    path.touch()
    connection = connections.open_store(path)
    connection.execute("CREATE TABLE t (x); INSERT INTO t VALUES (1)").fetchall()
    yield connection
    connection.close()


def reading(store: apsw.Connection) -> apsw.Connection:
    """Somebody whose read transaction needs the log."""
    reader = connections.open_store_reader(Path(store.filename))
    reader.execute("BEGIN").fetchall()
    reader.execute("SELECT * FROM t").fetchall()
    return reader


def log_of(store: apsw.Connection) -> Path:
    return Path(f"{store.filename}-wal")


def test_others_write_while_it_waits(store: apsw.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two attempts another connection writes without waiting; when the reader has gone the log is empty."""
    reader, pauses = reading(store), []
    other = connections.open_store(Path(store.filename))
    other.set_busy_timeout(0)

    def pause(seconds: float) -> None:
        with connections.writing(other):
            other.execute("INSERT INTO t VALUES (2)").fetchall()
        pauses.append(seconds)
        if len(pauses) == 3:
            reader.execute("COMMIT").fetchall()

    monkeypatch.setattr(compact.time, "sleep", pause)
    assert compact.empty_wal(store)
    assert len(pauses) == 3
    assert log_of(store).stat().st_size == 0
    assert store.pragma("busy_timeout") == limits.BUSY_TIMEOUT_MS
    for connection in (reader, other):
        connection.close()


def test_it_gives_up_when_it_must(store: apsw.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once where nobody asked for it, else after the busy timeout; what is written is as it was."""
    reader, pauses = reading(store), []
    monkeypatch.setattr(compact.time, "sleep", pauses.append)
    assert not compact.empty_wal(store, wait=False)
    assert pauses == []
    clock = iter(range(0, 1_000, 4))
    monkeypatch.setattr(compact.time, "monotonic", lambda: next(clock))
    assert not compact.empty_wal(store)
    assert pauses
    assert log_of(store).stat().st_size
    assert store.pragma("busy_timeout") == limits.BUSY_TIMEOUT_MS
    reader.close()
    assert compact.empty_wal(store, wait=False)
