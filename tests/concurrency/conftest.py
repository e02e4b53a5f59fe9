"""Pools of test workers, processes that stop at barriers, and waiting for what has begun or ended."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite.processes.command import Command, environment
from memory_sqlite.processes.pending import Pending
from memory_sqlite.processes.pool import Pool
from memory_sqlite.processes.slots import Bounds

HERE = Path(__file__).parent
PATIENCE_S = 60.0
"""How long anything that must happen is waited for. No test waits that long unless something is wrong."""


def ended(pid: int, within_s: float = PATIENCE_S) -> bool:
    """Whether a process ends in time; told by the system, not by looking again and again."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(within_s * 1000))
    finally:
        os.close(descriptor)


def noticed(pool: Pool, pids: Collection[int], within_s: float = PATIENCE_S) -> bool:
    """Whether the pool has, in time, taken note that these workers are gone; until then it may still ask one of them.

    A killed process has ended before its parent has read so: what is asked in between is lost with the worker, rightly.
    """
    with pool._lock:
        return pool._changed.wait_for(
            lambda: not any(slot.child is not None and slot.child.pid in pids for slot in pool._slots), within_s
        )


PREAMBLE = """
import json, sys
from pathlib import Path
from memory_sqlite import Memory, errors, limits
from memory_sqlite.config import Settings
import memory_sqlite.agent.turns, memory_sqlite.agent.reporting

limits.BUSY_TIMEOUT_MS = 120_000  # who waits for the others' locks is no error here, however slow the machine is

def barrier():
    print("ready", flush=True)
    sys.stdin.readline()

def settings(agent="main"):
    return Settings(data_dir=Path(sys.argv[1]), agent=agent)

def stop_before(module, name, times=1):
    real, left = getattr(module, name), [times]
    def stopped(*arguments, **named):
        left[0] -= 1
        if left[0] == 0:
            barrier()
        return real(*arguments, **named)
    setattr(module, name, stopped)
"""


class Child:
    """A process of ``PREAMBLE`` and a script, which stops at its barriers until it is told to go on."""

    def __init__(self, script: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PREAMBLE + script, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_ready(self) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line == "ready\n", (line, self.process.stderr.read() if self.process.stderr else "")

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def result(self) -> Any:
        """What it printed last, as JSON, once it has ended well."""
        out, err = self.process.communicate(timeout=2 * PATIENCE_S)
        assert self.process.returncode == 0, err[-2000:]
        return json.loads(out.splitlines()[-1])


@pytest.fixture
def start() -> Iterator[Callable[..., Child]]:
    """Start children; none of them outlives the test."""
    made: list[Child] = []

    def begin(script: str, *arguments: object) -> Child:
        made.append(Child(script, *map(str, arguments)))
        return made[-1]

    yield begin
    for child in made:
        child.process.kill()
        child.process.communicate()


class Kit:
    """One pool of test workers with what its requests need."""

    def __init__(self, directory: Path, pool: Pool) -> None:
        self.directory = directory
        self.pool = pool
        self._pipes = 0

    def pipe(self) -> str:
        """A named pipe; opening one end waits for the other."""
        self._pipes += 1
        path = self.directory / f"pipe-{self._pipes}"
        os.mkfifo(path)
        return str(path)

    def ask(self, kind: str, body: dict[str, Any] | None = None, **more: Any) -> Pending:
        return self.pool.submit(kind, body or {}, lambda answer, blob: (answer, blob), **more)

    def begin(self, kind: str, **more: Any) -> tuple[Pending, str]:
        """A request that is known to run when this returns, or is over already, and the gate it may wait at."""
        begun, gate = self.pipe(), self.pipe()
        reading = os.open(begun, os.O_RDONLY | os.O_NONBLOCK)
        over, tell = os.pipe()
        try:
            pending = self.ask(kind, {"begun": begun, "gate": gate}, **more)
            # one that ends before it has begun, as by its deadline, never opens its end
            pending.when_done(lambda: os.close(tell))
            poll = select.poll()
            poll.register(reading, select.POLLIN)
            poll.register(over, 0)
            assert poll.poll(PATIENCE_S * 1000), "it neither began nor ended"
        finally:
            os.close(reading)
            os.close(over)
        return pending, gate

    def open(self, gate: str) -> None:
        Path(gate).write_bytes(b"x")

    def pid(self) -> int:
        pids: list[int] = self.pool.describe()["pids"]
        assert len(pids) == 1
        return pids[0]


@pytest.fixture
def make_kit(tmp_path: Path) -> Iterator[Callable[..., Kit]]:
    """Make pools of ``pool_worker.py``, or of ``pool_rogue.py`` with a way to break the agreement."""
    made: list[Pool] = []

    def make(rogue: str | None = None, **bounds: Any) -> Kit:
        script = ["pool_worker.py"] if rogue is None else ["pool_rogue.py", rogue]
        arguments = (sys.executable, "-P", str(HERE / script[0]), *script[1:])
        command = Command(arguments, environment(os.environ, sys.path))
        pool = Pool("test", command=command, bounds=Bounds(**{"workers": 1, **bounds}))
        made.append(pool)
        directory = tmp_path / f"pool-{len(made)}"
        directory.mkdir()
        return Kit(directory, pool)

    yield make
    for pool in made:
        pool.close()


@pytest.fixture(name="ended")
def _ended() -> Callable[..., bool]:
    return ended


@pytest.fixture(name="noticed")
def _noticed() -> Callable[..., bool]:
    return noticed
