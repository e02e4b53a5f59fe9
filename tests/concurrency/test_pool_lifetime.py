"""No worker outlives its parent, and none has anything of its parent but what it needs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite.processes import command
from memory_sqlite.processes.pool import Pool

PARENT = Path(__file__).with_name("pool_parent.py")


@contextmanager
def host(directory: Path, kind: str, *more: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, int]]]:
    """A host whose worker works on something, and the process ids it names."""
    begun, gate = directory / "begun", directory / "gate"
    os.mkfifo(begun)
    os.mkfifo(gate)
    with subprocess.Popen(
        [sys.executable, str(PARENT), kind, str(begun), str(gate), *more],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        pids: dict[str, int] = {}
        try:
            while "worker" not in pids:
                name, pid = process.stdout.readline().split()
                pids[name] = int(pid)
            yield process, pids
        finally:
            process.kill()
            if "fork" in pids:
                os.kill(pids["fork"], signal.SIGKILL)


@pytest.mark.parametrize("kind", ["wait", "endless", "between", "polite"])
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_worker_ends_with_its_parent_whatever_it_is_doing(
    tmp_path: Path, ended: Callable[..., bool], kind: str, end: int
) -> None:
    """Killed or ended, the parent's pipe closes, and the worker is gone, also from the middle of a statement."""
    with host(tmp_path, kind) as (process, pids):
        process.send_signal(end)
        assert ended(pids["worker"])


def test_inv_019_a_worker_ends_when_its_parent_returns_from_main(tmp_path: Path, ended: Callable[..., bool]) -> None:
    """A host that forgets to close is not kept alive, nor is its worker."""
    with host(tmp_path, "wait") as (process, pids):
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0
        assert ended(pids["worker"])


def test_a_worker_ends_with_its_parent_although_a_fork_keeps_the_pipe(
    tmp_path: Path, ended: Callable[..., bool]
) -> None:
    """A host that forks without executing leaves its pipes open in the child: the worker looks for its parent."""
    with host(tmp_path, "endless", "fork") as (process, pids):
        process.kill()
        assert ended(pids["worker"])
        assert not ended(pids["fork"], 0)


def test_inv_034_a_worker_has_no_secret_in_environment_or_arguments(
    make_kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the environment it gets what an interpreter needs to start."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-workers")
    monkeypatch.setenv("MEMORY_SQLITE_ENCRYPTION_KEY_ENV", "THE_KEY")
    monkeypatch.setenv("THE_KEY", "correct horse battery staple")
    monkeypatch.setenv("PYTHONPATH", "/somewhere/else")
    monkeypatch.setenv("PYTHONSTARTUP", "/somewhere/else.py")
    kit = make_kit()
    about = kit.ask("about").result()[0]
    allowed = {"PATH", "HOME", "LD_LIBRARY_PATH", "TMPDIR", "PYTHONPATH", "LC_CTYPE"}
    assert set(about["environment"]) <= allowed
    seen = Path(f"/proc/{kit.pid()}/environ").read_bytes() + Path(f"/proc/{kit.pid()}/cmdline").read_bytes()
    for word in (b"sk-not-for", b"correct horse", b"THE_KEY", b"/somewhere/else"):
        assert word not in seen
    assert about["cwd"] == "/"


def test_workers_are_started_by_module_name_and_take_nothing_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file beside the host that is called like a module is not imported."""
    (tmp_path / "json.py").write_text("raise SystemExit(9)", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    pool = Pool("preparation")
    try:
        assert pool.warm(60)
        pid = pool.describe()["pids"][0]
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        assert arguments[0] == sys.executable.encode()
        assert arguments[-3:-1] == [b"-m", b"memory_sqlite.workers.preparation"]
    finally:
        pool.close()


@pytest.mark.parametrize("executable", ["", "/opt/host/blender", "/usr/sbin/uwsgi"])
def test_where_the_executable_is_no_python_there_are_no_workers(
    monkeypatch: pytest.MonkeyPatch, executable: str
) -> None:
    """An embedding host is not started a second time as if it were an interpreter."""
    monkeypatch.setattr(sys, "executable", executable)
    pool = Pool("retrieval")
    assert not pool.available
    assert not pool.warm(1)
    pool.close()


def test_a_frozen_program_has_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its executable is the program, whatever it is called."""
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert not Pool("retrieval").available


@pytest.mark.parametrize("package", ["memory_sqlite", "apsw", "numpy", "sqlite_vec", "tokenizers"])
def test_a_host_that_ships_its_own_copies_is_followed(tmp_path: Path, package: str) -> None:
    """The worker imports this package and what it needs from where its parent did; other places are not passed on."""
    vendored, other = tmp_path / "vendored", tmp_path / "other"
    (vendored / package).mkdir(parents=True)
    (vendored / package / "__init__.py").touch()
    other.mkdir()
    site = f"{sys.prefix}/lib/python3/site-packages"
    made = command.environment({"PATH": "/bin", "TOKEN": "x"}, ["", str(other), str(vendored), site])
    assert made == {"PATH": "/bin", "PYTHONPATH": str(vendored)}


def test_a_forked_copy_of_the_process_has_no_pool(make_kit: Any) -> None:
    """It would read its parent's answers: it is told to work by itself, and its ``close`` ends nobody."""
    kit = make_kit()
    pid = kit.ask("echo").result()[0]["pid"]
    child = os.fork()
    if child == 0:
        try:
            kit.pool.close()
            os._exit(0 if not kit.pool.available else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert kit.ask("echo").result()[0]["pid"] == pid


def test_a_worker_does_what_can_wait_while_nobody_asks(make_kit: Callable[..., Any]) -> None:
    """Step by step after an answer, to the end, without another request; then it answers as before."""
    kit = make_kit()
    done = kit.pipe()
    kit.ask("ahead", {"steps": 3, "done": done}).result()
    assert Path(done).read_bytes() == b"x"  # waits for the last step
    assert kit.ask("echo", {"text": "granite"}).result()[0]["body"] == {"text": "granite"}
    assert kit.pool.describe()["pending"] == 0
