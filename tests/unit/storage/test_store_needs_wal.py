"""C080, second part: where SQLite cannot keep a write-ahead log a store is refused by name. (The first part, a script
that fails half way, is in ``tests/migrations``.)"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.paths import agent_directory

WITHOUT_SHARED_MEMORY = "unix-dotfile"
"""A way of SQLite to reach files that has no shared memory, as network mounts have none: it answers ``delete``."""
SCRIPT = f"""
import sys, apsw
apsw.set_default_vfs({WITHOUT_SHARED_MEMORY!r})
from memory_sqlite.cli.app import root
root.main(sys.argv[1:])
"""


@pytest.mark.skipif(os.name != "posix" or WITHOUT_SHARED_MEMORY not in apsw.vfs_names(), reason="no such VFS here")
@pytest.mark.parametrize("known", [False, True])
def test_case_C080_no_write_ahead_log_is_refused(tmp_path: Path, known: bool) -> None:
    """New or already there: exit code and code say what is wrong and the hint what to do; what was in it stays. The
    mount's type is told by ``doctor`` (``tests/unit/doctor``), which asks the system for it."""
    data = tmp_path / "data"
    if known:
        with Memory.open(data) as memory:
            memory.remember(session="s", messages=[{"role": "user", "content": "granite"}])
        store = apsw.Connection(str(agent_directory(data, "main") / "memory.sqlite"))
        store.pragma("journal_mode", "delete")  # as a copy onto such a mount is
        store.close()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, "--data-dir", str(data), "remember", "--user", "marble"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == errors.FileSystemUnsuitable.exit_code, done.stderr
    assert "write-ahead log" in done.stderr and "local disk" in done.stderr
    if known:
        for lock in agent_directory(data, "main").glob("*.lock"):
            lock.rmdir()
        with Memory.open(data) as memory:
            assert memory.status()["turns"] == 1
            assert memory.search("granite").hits
