"""A data directory with two agents, and ways to look at what a store holds."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory, paths
from memory_sqlite.backup import making
from memory_sqlite.clock import Clock, FixedClock
from memory_sqlite.config import Settings
from memory_sqlite.storage import connection as connections

Rows = dict[str, list[tuple[Any, ...]]]


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a data directory ``data``, made once: agents ``main`` and ``ann``, turns, facts, two sessions each;
    and with a backup ``b`` of it."""
    place = tmp_path_factory.mktemp("said")
    for agent in ("main", "ann"):
        with Memory.open(settings=Settings(data_dir=place / "data", agent=agent)) as memory:
            for number in range(12):
                memory.remember(
                    session=f"s{number % 2}",
                    run_id=f"r{number}",
                    messages=[
                        {"role": "user", "content": f"I like pebble{number} very much.", "id": f"m{number}"},
                        {"role": "assistant", "content": f"Noted {agent} {number}."},
                    ],
                    sender_is_owner=True,
                )
    making.make(Settings(data_dir=place / "data"), place / "b", Clock())
    return place


@pytest.fixture
def data(prepared: Path, tmp_path: Path) -> Path:
    """A copy of that data directory, for one test."""
    return Path(shutil.copytree(prepared / "data", tmp_path / "data"))


@pytest.fixture
def settings(data: Path) -> Settings:
    return Settings(data_dir=data)


@pytest.fixture
def rows() -> Callable[..., Rows]:
    """Every row of every table of an agent's store that nobody writes; the search index's own left out."""

    def read(data_dir: Path, agent: str = "main") -> Rows:
        connection = connections.open_store_reader(paths.agent_directory(data_dir, agent) / paths.STORE_FILE)
        try:
            names = connection.execute(
                "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name"
            ).fetchall()
            return {
                str(name): connection.execute(f'SELECT * FROM "{name}"').fetchall()
                for (name,) in names
                if name != "generations"
            }
        finally:
            connection.close()

    return read


@pytest.fixture
def later() -> FixedClock:
    """A clock of the year 2030."""
    return FixedClock(1_900_000_000_000)
