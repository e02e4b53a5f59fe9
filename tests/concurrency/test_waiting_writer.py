"""Waiting for the store's lock stops the one who waits and nobody else."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from memory_sqlite import limits
from memory_sqlite.clock import Clock
from memory_sqlite.storage import connection as connections
from memory_sqlite.storage import store as stores


def test_a_writer_that_waits_leaves_the_other_threads_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two connections of one process: if the wait held the GIL, the holder could not go on to let go, and the wait
    would end in an error when its time is over."""
    monkeypatch.setattr(limits, "BUSY_TIMEOUT_MS", 30_000)
    store = stores.open_for_writing(tmp_path, "main", Clock())
    holder = connections.open_store(store.directory / "memory.sqlite")
    begins = threading.Event()
    outcome: list[object] = []

    def write() -> None:
        try:
            with store.transaction() as connection:
                outcome.append(connection.execute("INSERT INTO store_info VALUES ('waited', 'yes')").fetchall())
        except BaseException as error:
            outcome.append(error)

    def tell(connection: object, sql: str, bindings: object) -> bool:
        begins.set()
        return True

    store.connection.exec_trace = tell
    with connections.writing(holder):
        thread = threading.Thread(target=write)
        thread.start()
        assert begins.wait(60)
        for _ in range(20):  # each time the GIL is given up, and must be had again
            threading.Event().wait(0.01)
        assert outcome == []
    thread.join(60)
    assert outcome == [[]]
    assert store.connection.execute("SELECT value FROM store_info WHERE key = 'waited'").get == "yes"
    holder.close()
    store.close()


def test_a_transaction_that_fails_leaves_nothing_and_ends(tmp_path: Path) -> None:
    store = stores.open_for_writing(tmp_path, "main", Clock())
    try:
        with store.transaction() as connection:
            connection.execute("INSERT INTO store_info VALUES ('half', 'yes')")
            raise ValueError("something else went wrong")
    except ValueError:
        pass
    assert not store.connection.in_transaction
    assert store.connection.execute("SELECT count(*) FROM store_info WHERE key = 'half'").get == 0
    store.close()
