"""A process killed before the store was in WAL mode leaves a rollback journal: the next open for writing mends it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from memory_sqlite import Memory, paths

DIES = """
import os, signal, sys
import apsw
connection = apsw.Connection(sys.argv[1])
connection.execute("PRAGMA journal_mode = delete").fetchall()
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN IMMEDIATE")
for number in range(500):  # more than the cache holds: pages are written, so the journal is needed
    connection.execute("INSERT INTO store_info VALUES (?, ?)", (f"k{number}", "x" * 2000))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_store_with_a_hot_journal_is_opened_and_whole(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "data") as memory:
        memory.remember(session="s", messages=[{"role": "user", "content": "granite"}])
    path = paths.agent_directory(tmp_path / "data", "main") / paths.STORE_FILE
    subprocess.run([sys.executable, "-c", DIES, str(path)], check=False)
    assert path.with_name(path.name + "-journal").exists(), "the journal is hot"
    with Memory.open(tmp_path / "data") as memory:
        assert memory.search("granite").hits
        assert memory._opened is not None
        rows = memory._opened.store.connection.execute("SELECT count(*) FROM store_info WHERE key LIKE 'k%'").get
        assert rows == 0, "what was not committed is not there"
