"""What the tests of the layered-memory face share: a host with a logger, and the reference's shorthand ``append``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite.clock import FixedClock
from memory_sqlite.config import Settings
from memory_sqlite.integrations.layered_memory.caller import Caller
from memory_sqlite.integrations.layered_memory.plugin import LayeredPlugin

KEY = bytes(range(32))


class Host:
    """One host over one data directory whose session key is the reference's vector key."""

    def __init__(self, data_dir: Path, clock: FixedClock, **settings: Any) -> None:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = data_dir / "session.key"
        if not key.exists():
            key.write_bytes(KEY)
            key.chmod(0o600)
        self.clock = clock
        self.warnings: list[str] = []
        self.settings = Settings(data_dir=data_dir, compatibility="layered-memory", **settings)
        self.plugin = LayeredPlugin(self.settings, clock=clock, warn=self.warnings.append)

    def append(
        self, agent: str, session: str, run: str | None, text: str, *, owner_direct: bool = False, **more: Any
    ) -> bool:
        """The reference's shorthand: L0, L1 and L3 of one user message."""
        caller = Caller(
            agent,
            session,
            chat_type="direct" if owner_direct else more.get("chat_type"),
            sender_is_owner=True if owner_direct else None,
            sender=more.get("sender"),
        )
        return self.plugin.memory(agent).append_turn(caller, [{"role": "user", "content": text}], run)

    def search(self, agent: str, query: str, **options: Any) -> list[dict[str, Any]]:
        return self.plugin.manager(agent).search(query, options)

    def lines(self, path: str) -> list[dict[str, Any]]:
        """Every record of a virtual file."""
        page = self.plugin.manager("main").read_file({"relPath": path, "lines": 2_000})
        return [json.loads(line) for line in page["text"].splitlines()]


@pytest.fixture
def make_host(tmp_path: Path, clock: FixedClock) -> Iterator[Callable[..., Host]]:
    """Hosts over ``tmp_path/data``, closed at the end; arguments are settings."""
    made: list[Host] = []

    def make(**settings: Any) -> Host:
        made.append(Host(settings.pop("data_dir", tmp_path / "data"), clock, **settings))
        return made[-1]

    yield make
    for host in made:
        host.plugin.close()


@pytest.fixture
def host(make_host: Callable[..., Host]) -> Host:
    """A host with default settings."""
    return make_host()
