"""Waiting for the store's lock stops the one who waits and nobody else."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from memory_sqlite.clock import Clock
from memory_sqlite.storage import connection as connections
from memory_sqlite.storage import store as stores


def test_a_writer_that_waits_leaves_the_other_threads_running(tmp_path: Path) -> None:
    """Two connections of one process: if the wait held the GIL, the holder could not let go before the busy timeout."""
    store = stores.open_for_writing(tmp_path, "main", Clock())
    holder = connections.open_store(store.directory / "memory.sqlite")
    waiting = threading.Event()

    def write() -> None:
        waiting.set()
        with store.transaction() as connection:
            connection.execute("INSERT INTO store_info VALUES ('waited', 'yes')")

    with connections.writing(holder):
        thread = threading.Thread(target=write)
        thread.start()
        assert waiting.wait(2)
        started = time.monotonic()
        for _ in range(20):
            time.sleep(0.01)
        assert time.monotonic() - started < 2.0
    thread.join(5)
    assert not thread.is_alive()
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
