"""Pools of test workers, pipes that tell when something has begun, and waiting for the end of a process."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite.processes.command import Command, environment
from memory_sqlite.processes.pending import Pending
from memory_sqlite.processes.pool import Pool
from memory_sqlite.processes.slots import Bounds

HERE = Path(__file__).parent


def ended(pid: int, within_s: float = 20.0) -> bool:
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
        """A request that is known to run when this returns, and the gate it may wait at."""
        begun, gate = self.pipe(), self.pipe()
        pending = self.ask(kind, {"begun": begun, "gate": gate}, **more)
        Path(begun).read_bytes()
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
