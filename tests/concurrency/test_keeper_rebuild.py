"""Generations: the next number, the reader's hold, leftovers of dead builders."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.config import Settings
from memory_sqlite.doctor import verify
from memory_sqlite.generations import files
from memory_sqlite.indexing import identity, rebuild, resume
from memory_sqlite.paths import agent_directory, generation_file


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Where the agent's files are."""
    return agent_directory(tmp_path / "data", "main")


@pytest.fixture
def open_memory(tmp_path: Path) -> Callable[..., Memory]:
    """Opens the same agent again and again."""
    return lambda **more: Memory.open(settings=Settings(data_dir=tmp_path / "data"), **more)


def say(memory: Memory, text: str, **more: Any) -> Any:
    return memory.remember(session="s", messages=[{"role": "user", "content": text}], **more)


def texts(memory: Memory, query: str) -> list[str]:
    return [hit.excerpt for hit in memory.search(query, sources=("sessions",)).hits]


def generations(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("index-*"))


HOLD = """
import sys, apsw
connection = apsw.Connection(sys.argv[1], flags=apsw.SQLITE_OPEN_READONLY)
def read():
    return connection.execute("SELECT count(*) FROM documents").get
print(read(), flush=True)
for line in sys.stdin:
    print(read(), flush=True)
"""


class Holder:
    """A reading process that has a generation's file open."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.first = self.answer()

    def answer(self) -> int:
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())

    def ask(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.write("again\n")
        self.process.stdin.flush()
        return self.answer()

    def end(self, *, kill: bool = False) -> None:
        if kill:
            self.process.kill()
        self.process.communicate()


# --- rebuilding ----------------------------------------------------------------------------------------------------


def test_inv_075_rebuild_publishes_the_next_number_and_the_old_file_goes(
    open_memory: Callable[..., Memory], directory: Path
) -> None:
    """One file before, one after, with the next number; the same answers from it."""
    with open_memory() as memory:
        say(memory, "granite")
        before = memory.search("granite")
        report = memory.index(full=True)
        assert report.generation == 2
        assert [name for name in generations(directory) if name.endswith(".sqlite")] == ["index-000002.sqlite"]
        assert [h.reference for h in memory.search("granite").hits] == [h.reference for h in before.hits]
    assert generations(directory) == ["index-000002.sqlite"]


@pytest.mark.parametrize("kill", [False, True], ids=["closes", "is killed"])
def test_inv_007_inv_075_reader_keeps_its_generation_while_three_are_built(
    open_memory: Callable[..., Memory], directory: Path, kill: bool
) -> None:
    """The open connection is the hold: its file stays and answers the same; when the reader has closed or died the
    next pass takes it away."""
    with open_memory() as memory:
        say(memory, "granite")
        holder = Holder(generation_file(directory, 1))
        for number in (2, 3, 4):
            assert memory.index(full=True).generation == number
            say(memory, f"marble {number}")
            assert holder.ask() == holder.first
        names = [name for name in generations(directory) if name.endswith(".sqlite")]
        assert names == ["index-000001.sqlite", "index-000004.sqlite"]
        holder.end(kill=kill)
        memory.index(full=True)
        assert [name for name in generations(directory) if name.endswith(".sqlite")] == ["index-000005.sqlite"]


def test_inv_007_a_reader_holds_from_the_moment_it_is_handed_out(
    open_memory: Callable[..., Memory], directory: Path
) -> None:
    """Its generation is retired before it has asked anything: the file stays, and it answers."""
    with open_memory() as memory, open_memory() as other:
        say(memory, "granite")
        assert memory._opened is not None
        with memory._opened.keeper.reader() as connection:
            assert other.index(full=True).generation == 2
            memory._opened.keeper.leave_old()
            assert generation_file(directory, 1).exists()
            assert connection.execute("SELECT count(*) FROM chunks").get
        memory.index()
    assert generations(directory) == ["index-000002.sqlite"]


def test_open_takes_retired_files_away(open_memory: Callable[..., Memory], directory: Path) -> None:
    """What was held at publication goes at the next open after the reader has closed."""
    with open_memory() as memory:
        say(memory, "granite")
        holder = Holder(generation_file(directory, 1))
        memory.index(full=True)
        assert generation_file(directory, 1).exists()
    holder.end()
    with open_memory():
        assert not generation_file(directory, 1).exists()


def test_numbers_are_never_used_twice(open_memory: Callable[..., Memory], directory: Path) -> None:
    """Also when a build fails, and when every file was deleted."""
    with open_memory() as memory:
        say(memory, "granite")
        assert memory.index(full=True).generation == 2
    for path in directory.glob("index-*"):
        path.unlink()
    with open_memory() as memory:
        assert memory.status()["index"]["generation"] == 3


def test_inv_067_inv_071_failed_build_leaves_the_old_generation(
    open_memory: Callable[..., Memory], directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build that does not pass its check is never published; the old one goes on answering; its number is spent."""
    with open_memory() as memory:
        say(memory, "granite")
        with monkeypatch.context() as patched:
            patched.setattr(rebuild.rows, "inconsistency", lambda index: "an injected fault")
            with pytest.raises(errors.IndexUnavailable):
                memory.index(full=True)
        assert texts(memory, "granite") == ["user: granite"]
        assert memory.status()["index"]["generation"] == 1
        assert [name for name in generations(directory) if name.endswith(".sqlite")] == ["index-000001.sqlite"]
        assert memory.index(full=True).generation == 3


def test_inv_068_turns_that_arrive_while_building_are_published(
    open_memory: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another process commits between filling and publishing is applied under the store's write lock."""
    real = rebuild.verify
    with open_memory() as memory, open_memory() as other:
        say(memory, "granite")

        def late(*arguments: Any) -> None:
            real(*arguments)
            say(other, "marble")

        monkeypatch.setattr(rebuild, "verify", late)
        memory.index(full=True)
        assert memory.status()["index"]["lag"] == 0
        assert any("marble" in text for text in texts(memory, "marble"))
        assert any("marble" in text for text in texts(other, "marble"))


def test_build_that_lost_its_row_is_not_published(
    open_memory: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Publishing flips exactly one row: a builder whose row is gone must not retire the current generation."""
    real = rebuild.verify
    with open_memory() as memory:
        say(memory, "granite")

        def robbed(store: Any, index: Any) -> None:
            real(store, index)
            with store.transaction() as connection:
                connection.execute("DELETE FROM generations WHERE state = 'building'")

        with monkeypatch.context() as patched:
            patched.setattr(rebuild, "verify", robbed)
            with pytest.raises(errors.IndexUnavailable):
                memory.index(full=True)
        assert memory.status()["index"]["generation"] == 1
        assert texts(memory, "granite")


def test_other_identity_is_rebuilt_on_open(open_memory: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch) -> None:
    """A generation that another version of this code built is replaced, never patched; reading alone leaves it."""
    with open_memory() as memory:
        say(memory, "granite")
    newer = identity.expected() | {"chunker": 999}
    monkeypatch.setattr(identity, "expected", lambda: newer)
    with open_memory(read_only=True) as memory:
        assert memory.status()["index"]["state"] == "outdated"
        assert texts(memory, "granite")
    with open_memory() as memory:
        assert memory.status()["index"]["generation"] == 2
        assert memory.status()["index"]["state"] == "current"
        assert texts(memory, "granite")


# --- leftovers -----------------------------------------------------------------------------------------------------


def test_inv_074_leftovers_are_swept_and_strange_files_stay(
    open_memory: Callable[..., Memory], directory: Path
) -> None:
    """Files of dead builders and of unknown numbers, sidecars without their file: gone. What is not named like a
    generation, or is a link or a directory of such a name, is not ours to touch."""
    with open_memory() as memory:
        say(memory, "granite")
    for name in ("index-000077.sqlite", "index-000078.sqlite-wal", "index-000079.sqlite-shm"):
        (directory / name).write_bytes(b"left over")
    strange = [directory / name for name in ("index-1.sqlite", "index-000080.sqlite.bak", "notes.txt")]
    for path in strange:
        path.write_bytes(b"mine")
    (directory / "index-000081.sqlite").symlink_to(strange[-1])
    (directory / "index-000082.sqlite").mkdir()
    with open_memory():
        pass
    assert (directory / "index-000081.sqlite").is_symlink() and (directory / "index-000082.sqlite").is_dir()
    assert [name for name in generations(directory) if name.startswith("index-00007")] == []
    assert all(path.read_bytes() == b"mine" for path in strange)


def test_a_number_that_something_else_bears_is_passed_over(open_memory: Callable[..., Memory], directory: Path) -> None:
    """A link or a directory where the next generation would be: the one after it is built, and they stay."""
    with open_memory() as memory:
        say(memory, "granite")
        mine = directory / "notes.txt"
        mine.write_bytes(b"mine")
        (directory / "index-000002.sqlite").symlink_to(mine)
        (directory / "index-000003.sqlite").mkdir()
        (directory / "index-000004.sqlite-wal").mkdir()
        memory.index(full=True)
        assert memory.status()["index"]["generation"] == 5
        assert texts(memory, "granite")
    assert (directory / "index-000002.sqlite").is_symlink() and mine.read_bytes() == b"mine"
    assert (directory / "index-000003.sqlite").is_dir() and (directory / "index-000004.sqlite-wal").is_dir()


def test_inv_074_without_its_store_nothing_is_swept(open_memory: Callable[..., Memory], directory: Path) -> None:
    """Which files are left over only the store can say: where it is not, nothing is taken away, and it is said."""
    with open_memory() as memory:
        say(memory, "granite")
    (directory / "index-000077.sqlite").write_bytes(b"left over")
    (directory / "memory.sqlite").rename(directory.parent / "aside.sqlite")
    before = generations(directory)
    with pytest.raises(errors.UnknownAgent):
        open_memory(read_only=True)
    assert verify(directory) != []
    assert generations(directory) == before
    (directory.parent / "aside.sqlite").rename(directory / "memory.sqlite")
    with open_memory() as memory:
        assert texts(memory, "granite") == ["user: granite"]
        assert not (directory / "index-000077.sqlite").exists()


def test_inv_074_inv_082_killed_builder_is_gone_on_with(
    open_memory: Callable[..., Memory], directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock is gone with it; the next open answers from the old generation and keeps the file; the next ``index``
    publishes it. Where the boot is another one, it is swept."""
    with open_memory() as memory:
        say(memory, "granite")
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from memory_sqlite import Memory\n"
        "from memory_sqlite.config import Settings\n"
        "from memory_sqlite.indexing import rebuild\n"
        "rebuild.verify = lambda *a: os.kill(os.getpid(), 9)\n"
        "Memory.open(settings=Settings(data_dir=Path(sys.argv[1]))).index(full=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "data")], check=False)
    assert done.returncode == -9
    assert generation_file(directory, 2).exists()
    with monkeypatch.context() as rebooted, open_memory() as memory:
        assert texts(memory, "granite")
        assert generation_file(directory, 2).exists()
        rebooted.setattr(resume, "boot", lambda: "another")
        assert rebuild.sweep(memory._opened.store) == [2]  # type: ignore[union-attr]
    assert subprocess.run([sys.executable, "-c", script, str(tmp_path / "data")], check=False).returncode == -9
    with open_memory() as memory:
        assert memory.index().generation == 3
        assert texts(memory, "granite")
    assert not generation_file(directory, 2).exists()


def test_inv_073_inv_082_living_builder_is_waited_for_and_not_swept(
    open_memory: Callable[..., Memory], directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two rebuilds never run together: the second says so after its wait, and the first one's file is untouched."""
    real = rebuild.verify
    seen: list[str] = []

    def meanwhile(*arguments: Any) -> None:
        real(*arguments)
        monkeypatch.setattr(rebuild, "verify", real)
        monkeypatch.setattr(rebuild.limits, "BUSY_TIMEOUT_MS", 100)
        with open_memory() as other:
            with pytest.raises(errors.StoreBusy):
                other.index(full=True)
            seen.extend(texts(other, "granite"))
        assert files.is_held(generation_file(directory, 2))

    with open_memory() as memory:
        say(memory, "granite")
        monkeypatch.setattr(rebuild, "verify", meanwhile)
        assert memory.index(full=True).generation == 2
        assert seen == ["user: granite"]
        assert memory.status()["index"]["generation"] == 2
