"""Shared fixtures: nothing of the user's is touched, and the installed package is what is tested."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from memory_sqlite import Memory
from memory_sqlite.clock import FixedClock

# a shell that runs the tests in the background has them, and so the commands they start, ignore Ctrl-C
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# the same examples every time, so that a red run is about the change; explore with HYPOTHESIS_PROFILE=default
settings.register_profile("steady", derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

for name in [
    name
    for name in os.environ
    if name.startswith("MEMORY_SQLITE_") and name not in ("MEMORY_SQLITE_EVAL_DATA", "MEMORY_SQLITE_SWEEP")
]:
    del os.environ[name]

os.environ["PYTHONSAFEPATH"] = "1"  # children of the tests run the installed package too, not the folder they start in


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home of its own for every test, so that no default place is the user's."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    for variable in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def clock() -> FixedClock:
    """A clock that stands still at 2026-07-15."""
    return FixedClock()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """An empty workspace with a ``memory`` folder."""
    place = tmp_path / "workspace"
    (place / "memory").mkdir(parents=True)
    return place


@pytest.fixture
def memory(tmp_path: Path, workspace: Path) -> Iterator[Memory]:
    """An open memory of agent ``main`` over the empty workspace."""
    with Memory.open(tmp_path / "data", workspace=workspace) as opened:
        yield opened
