"""What our provider's health says when something is missing: in words, without a place or a text."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from memory_sqlite import Memory, errors, paths
from memory_sqlite.agent.opened import Opened
from memory_sqlite.config import Settings
from memory_sqlite.runtime.callers import CallerContext, HostAuthority
from memory_sqlite.runtime.shapes import Health, OpenRequest


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """A note and a message, indexed."""
    workspace = tmp_path / "workspace"
    (workspace / "memory").mkdir(parents=True)
    (workspace / "memory" / "a.md").write_text("walnut\n", encoding="utf-8")
    with Memory.open(settings=Settings(data_dir=tmp_path / "data", workspace=workspace)) as opened:
        opened.remember(session="s", messages=[{"role": "user", "content": "walnut words"}])
        opened.index()
        yield opened


def rooms(memory: Memory) -> Opened:
    found = memory.rooms()
    assert found is not None
    return found.opened


def health(memory: Memory) -> Health:
    async def run() -> Health:
        context = CallerContext(HostAuthority("status"), lambda: None)
        handle = (await memory.provider_runtime().open(OpenRequest("main", context, "status"))).provider
        assert handle is not None
        return await handle.health()

    return asyncio.run(run())


def test_all_is_well(memory: Memory) -> None:
    """Dreaming is named as what it is: not here."""
    assert health(memory) == Health("ready", details={"dreaming": "unsupported"})


def test_an_index_that_is_behind_is_degraded(memory: Memory) -> None:
    """A change that the index has not seen."""
    with rooms(memory).store.transaction() as store:
        store.execute("INSERT INTO change_log (kind, target, op) VALUES ('message', 1, 'put')")
    said = health(memory)
    assert (said.status, said.message) == ("degraded", "the search index is behind what is stored")


def test_a_workspace_that_is_gone_is_degraded(memory: Memory, tmp_path: Path) -> None:
    """Its name is not told."""
    (tmp_path / "workspace").rename(tmp_path / "elsewhere")
    said = health(memory)
    assert (said.status, said.message) == ("degraded", "the workspace is not there")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("watches", [SimpleNamespace(native=False, close=lambda: None)], "the notes are no longer watched"),
        ("problems", ["somewhere"], "some notes could not be read"),
        (
            "embedding",
            SimpleNamespace(state=lambda: {"error": "refused at 10.0.0.1"}, close=lambda: None),
            "the embedding provider does not answer",
        ),
    ],
)
def test_what_it_must_do_without_is_named(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, name: str, value: Any, message: str
) -> None:
    """The watch, a note, the provider of vectors: which it is, and nothing of what it said."""
    monkeypatch.setattr(rooms(memory), name, value)
    said = health(memory)
    assert (said.status, said.message) == ("degraded", message)


def test_without_an_index_it_is_unavailable(memory: Memory) -> None:
    """The code of the error, not its words."""
    opened = rooms(memory)
    number = opened.keeper.number()
    assert number is not None
    opened.keeper.leave(None)
    path = paths.generation_file(opened.store.directory, number)
    path.write_bytes(b"no database at all" * 1_000)
    said = health(memory)
    assert said.status == "unavailable" and said.message is not None
    assert said.message.startswith("the memory cannot be read (") and str(path) not in repr(said)


def test_a_store_that_cannot_be_read_is_unavailable(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the error is: health is an answer."""

    def broken() -> None:
        raise errors.StoreDamaged("the store is damaged or not a database")

    monkeypatch.setattr(rooms(memory).store.readers, "borrow", broken)
    said = health(memory)
    assert (said.status, said.message) == ("unavailable", "the memory cannot be read (store_damaged)")
