"""A query process never outlives who asked: killed with -9 in the middle of a step that takes hours."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

import pytest

HOST = """
from memory_sqlite.config import Settings
from memory_sqlite.query.asking import Asker
from memory_sqlite.query.collecting import Question, ask
asker = Asker(None, None)
def query(sql):
    return ask(asker, Question(sql, None, 9, 3600.0, 256 << 20), Settings(data_dir="nowhere"), None, None, None)
query("SELECT 1")
print(asker._idle[0]._process.pid, flush=True)
query("SELECT instr(hex(zeroblob(8000000)), hex(zeroblob(4000000)) || '1')")
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="only Linux tells of the end of a process that is no child")
def test_the_process_of_a_killed_host_ends() -> None:
    with subprocess.Popen([sys.executable, "-c", HOST], stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        pid = int(host.stdout.readline())
        watched = os.pidfd_open(pid)
        try:
            host.send_signal(signal.SIGKILL)
            host.wait()
            poll = select.poll()
            poll.register(watched, select.POLLIN)
            assert poll.poll(60_000), "the query process is still there"
        finally:
            os.close(watched)
