"""``reset``: the derived files go, a new index comes, and nothing that was said or written is touched."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from memory_sqlite import AsyncMemory, Memory, errors
from memory_sqlite.cli import reset
from memory_sqlite.cli.app import root
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.generations import files
from memory_sqlite.indexing import rebuild
from memory_sqlite.indexing.rebuild import Paused
from memory_sqlite.paths import agent_directory, generation_file

SAID = [{"role": "user", "content": "The granite key lies under the mat."}]


@pytest.fixture
def data(tmp_path: Path, workspace: Path) -> Path:
    """An agent with one turn and one note, indexed."""
    (workspace / "memory" / "stones.md").write_text("Marble for the hall.\n")
    with Memory.open(tmp_path / "data", workspace=workspace) as memory:
        memory.remember(session="s", run_id="r", messages=SAID)
        memory.index()
    return tmp_path / "data"


def call(data: Path, *words: str) -> Result:
    return CliRunner().invoke(root, ["--data-dir", str(data), *words])


def answer(data: Path, *words: str) -> dict[str, Any]:
    result = call(data, *words, "--json")
    assert result.exit_code == 0, result.output
    answered: dict[str, Any] = json.loads(result.stdout)
    return answered


def names(data: Path) -> list[str]:
    return sorted(path.name for path in agent_directory(data, "main").glob("index-*"))


def finds_all(memory: Memory) -> bool:
    return [bool(memory.search(word).hits) for word in ("granite", "marble")] == [True, True]


def test_reset_drops_the_index_and_builds_it_anew(data: Path) -> None:
    """The old file is gone, the new one has the next number and everything in it; store and notes are as before."""
    with Memory.open(data) as memory:
        before = memory.status()
        report = memory.reset()
        assert (report.status, report.dropped, report.held) == ("ok", (1,), ())
        assert report.index is not None
        assert (report.index.generation, report.index.added) == (2, 1)
        assert finds_all(memory)
        after = memory.status()
    assert names(data) == ["index-000002.sqlite"]
    assert [after[name] for name in ("turns", "messages", "records")] == [
        before[name] for name in ("turns", "messages", "records")
    ]
    assert after["index"]["lag"] == 0


def test_reset_leaves_what_somebody_reads(data: Path) -> None:
    """Another reader's generation is neither dropped nor forsaken: it answers until it is closed, and goes then."""
    with Memory.open(data) as other, other._opened.keeper.reader() as held:  # type: ignore[union-attr]
        with Memory.open(data) as memory:
            report = memory.reset()
            assert (report.dropped, report.held) == ((), (1,))
            assert finds_all(memory)
        assert held.execute("SELECT count(*) FROM documents").get > 0
        assert generation_file(agent_directory(data, "main"), 1).exists()
    with Memory.open(data) as memory:
        assert finds_all(memory)
    assert names(data) == ["index-000002.sqlite"]


def test_reset_takes_damaged_and_unfinished_files_away(data: Path) -> None:
    """A build that was interrupted is not gone on with, and a stray file of a generation goes too."""

    def pause(stage: str, done: int, total: int | None) -> None:
        raise Paused

    with Memory.open(data) as memory:
        with pytest.raises(Paused):
            memory.index(full=True, progress=pause)
        generation_file(agent_directory(data, "main"), 77).write_bytes(b"not a database at all")
        report = memory.reset()
        assert report.dropped == (1, 2, 77)
        assert finds_all(memory)
    assert names(data) == ["index-000003.sqlite"]


def test_reset_while_serving(data: Path) -> None:
    """The workers of the memory that resets let go; its searches are answered from the new generation."""
    with Memory.open(data, serving=True) as memory:
        assert finds_all(memory)
        report = memory.reset()
        assert report.index is not None and report.index.generation == 2
        assert finds_all(memory)


def test_reset_during_another_rebuild_drops_nothing(data: Path) -> None:
    """While somebody builds, reset is refused as busy before anything is dropped."""
    with Memory.open(data) as memory, Memory.open(data) as builder:
        refused: list[errors.StoreBusy] = []

        def meanwhile(stage: str, done: int, total: int | None) -> None:
            if not refused:
                with pytest.raises(errors.StoreBusy) as caught:
                    memory.reset()
                refused.append(caught.value)
                assert generation_file(agent_directory(data, "main"), 1).exists()

        builder.index(full=True, progress=meanwhile)
        assert refused
        assert finds_all(memory)


def test_reset_drops_nothing_during_a_rebuild_though_nobody_reads(data: Path) -> None:
    """Not even what nobody has open: the build may fail yet, and then there would be no index at all."""
    with Memory.open(data) as memory, Memory.open(data) as builder:
        assert builder._opened is not None
        begun = rebuild._begin(builder._opened.store, Clock(), None)
        assert begun is not None
        builder._opened.keeper._let_go()
        with pytest.raises(errors.StoreBusy):
            memory.reset()
        assert generation_file(agent_directory(data, "main"), 1).exists()
        assert finds_all(memory)
        begun[1].close()


def test_reset_is_refused_before_anything_is_dropped(data: Path, tmp_path: Path) -> None:
    """Opened for reading, or with a workspace that is not there: an error, and the index is as it was."""
    with Memory.open(data, read_only=True) as memory, pytest.raises(errors.StoreReadOnly):
        memory.reset()
    with Memory.open(data, workspace=tmp_path / "nowhere") as memory, pytest.raises(errors.WorkspaceUnavailable):
        memory.reset()
    assert "index-000001.sqlite" in names(data)


def test_a_build_that_fails_is_made_by_the_next_open(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropped and not built is no lasting state: words are there again with the next open, at no cost."""

    def full_disk(*_: object) -> None:
        raise errors.DiskFull("no room")

    with Memory.open(data) as memory, monkeypatch.context() as patched:
        patched.setattr(files, "seal", full_disk)
        with pytest.raises(errors.DiskFull):
            memory.reset()
        assert names(data) == []
    with Memory.open(data) as memory:
        assert finds_all(memory)


def test_async_reset(data: Path) -> None:
    """The same for hosts with an event loop."""

    async def run() -> tuple[int, ...]:
        async with await AsyncMemory.open(settings=Settings(data_dir=data)) as memory:
            return (await memory.reset()).dropped

    assert asyncio.run(run()) == (1,)


def test_a_script_must_say_yes_to_reset(data: Path) -> None:
    """Where nobody can be asked nothing is dropped without ``--yes``; a mistyped agent is an error and is not made."""
    for words in ([], ["--json"]):
        result = call(data, "reset", *words)
        assert result.exit_code == 2 and "--yes" in result.output
    assert names(data) == ["index-000001.sqlite"]
    assert call(data, "--agent", "mian", "reset", "--yes").exit_code == errors.UnknownAgent.exit_code
    assert not agent_directory(data, "mian").exists()


def test_reset_asks_on_a_terminal(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anything but yes, and the index is as it was."""
    monkeypatch.setattr(reset, "_is_terminal", lambda: True)
    for answered, number in (("n\n", 1), ("", 1), ("y\n", 2)):
        CliRunner().invoke(root, ["--data-dir", str(data), "reset"], input=answered)
        assert f"index-{number:06d}.sqlite" in names(data)
    assert "index-000001.sqlite" not in names(data)


def test_reset_on_the_command_line(data: Path) -> None:
    """One JSON document with what was dropped and how the new index was built; one line for people."""
    document = answer(data, "reset", "--yes")
    assert document["ok"] is True
    assert (document["status"], document["dropped"], document["held"]) == ("ok", [1], [])
    assert document["index"]["generation"] == 2
    assert "Dropped 1 index file; built index 3" in call(data, "reset", "--yes").stdout
    assert len(answer(data, "search", "granite")["hits"]) > 0


def test_index_force_is_index_full(data: Path) -> None:
    """The peer's name for it works too."""
    assert answer(data, "index", "--force")["generation"] == 2
    assert answer(data, "index", "--full")["generation"] == 3
