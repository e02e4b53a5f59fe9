"""Generations: the next number, the reader's hold, leftovers, lag after a crash, damage."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.config import Settings
from memory_sqlite.generations import files
from memory_sqlite.indexing import apply, identity, rebuild
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


def test_rebuild_publishes_the_next_number_and_the_old_file_goes(
    open_memory: Callable[..., Memory], directory: Path
) -> None:
    """One file before, one after, with the next number; the same answers from it."""
    with open_memory() as memory:
        say(memory, "granite")
        before = memory.search("granite")
        report = memory.index(full=True)
        assert report.generation == 2
        assert generations(directory) == ["index-000002.sqlite"]
        assert [h.reference for h in memory.search("granite").hits] == [h.reference for h in before.hits]
    assert generations(directory) == ["index-000002.sqlite"]


@pytest.mark.parametrize("kill", [False, True], ids=["closes", "is killed"])
def test_reader_keeps_its_generation_while_three_are_built(
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


def test_failed_build_leaves_the_old_generation(
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


def test_turns_that_arrive_while_building_are_published(
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


def test_leftovers_are_swept_and_strange_files_stay(open_memory: Callable[..., Memory], directory: Path) -> None:
    """Files of dead builders and of unknown numbers, sidecars without their file: gone. What is not named like a
    generation is not ours to delete."""
    with open_memory() as memory:
        say(memory, "granite")
    for name in ("index-000077.sqlite", "index-000078.sqlite-wal", "index-000079.sqlite-shm"):
        (directory / name).write_bytes(b"left over")
    strange = [directory / name for name in ("index-1.sqlite", "index-000080.sqlite.bak", "notes.txt")]
    for path in strange:
        path.write_bytes(b"mine")
    with open_memory():
        pass
    assert [name for name in generations(directory) if name.startswith("index-00007")] == []
    assert all(path.read_bytes() == b"mine" for path in strange)


def test_killed_builder_is_swept(open_memory: Callable[..., Memory], directory: Path, tmp_path: Path) -> None:
    """Its row and its file are gone after the next open, and its lock with it: another build starts at once."""
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
    with open_memory() as memory:
        assert not generation_file(directory, 2).exists()
        assert texts(memory, "granite")
        assert memory.index(full=True).generation == 3


def test_living_builder_is_waited_for_and_not_swept(
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


# --- lag -----------------------------------------------------------------------------------------------------------


def test_crash_between_store_and_index_is_made_good(open_memory: Callable[..., Memory], tmp_path: Path) -> None:
    """A process that dies after the store's commit and before the index's: the next search finds the turn."""
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from memory_sqlite import Memory\n"
        "from memory_sqlite.config import Settings\n"
        "from memory_sqlite.indexing import apply\n"
        "memory = Memory.open(settings=Settings(data_dir=Path(sys.argv[1])))\n"
        "apply.apply_changes = lambda *a: os._exit(9)\n"
        "memory.remember(session='s', messages=[{'role': 'user', 'content': 'granite'}])\n"
    )
    assert subprocess.run([sys.executable, "-c", script, str(tmp_path / "data")], check=False).returncode == 9
    with open_memory(read_only=True) as memory:
        page = memory.search("granite")
        assert (page.hits, page.stale) == ((), True), "a reader changes nothing, and says that there is more"
    with open_memory() as memory:
        assert texts(memory, "granite") == ["user: granite"]
        assert memory.status()["index"]["lag"] == 0


def test_index_that_cannot_take_a_turn_is_said_and_made_good(
    open_memory: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The receipt admits it, the turn is safe, and the next search applies it."""
    with open_memory() as memory:
        say(memory, "granite")

        def full(*arguments: Any) -> int:
            raise apsw.FullError("injected")

        with monkeypatch.context() as patched:
            patched.setattr(apply, "apply_changes", full)
            receipt = say(memory, "marble")
            assert (receipt.status, receipt.searchable) == ("stored", False)
            assert any("disk_full" in warning for warning in receipt.warnings)
            page = memory.search("granite")
            assert page.stale
            assert page.hits
        assert any("marble" in text for text in texts(memory, "marble"))


def test_applying_twice_changes_nothing(open_memory: Callable[..., Memory], directory: Path) -> None:
    """A crash may come after the index's commit is lost: the same changes are applied again, to the same rows."""
    with open_memory() as memory:
        for number in range(5):
            say(memory, f"granite {number}")
        before = texts(memory, "granite")
    connection = apsw.Connection(str(generation_file(directory, 1)))
    connection.execute("UPDATE meta SET value = '0' WHERE key = 'applied_seq'").fetchall()
    connection.close()
    with open_memory() as memory:
        assert sorted(texts(memory, "granite")) == sorted(before)
        assert memory.status()["index"]["documents"] == {"message": 5, "record": 6}


# --- loss and damage -----------------------------------------------------------------------------------------------


def test_deleted_index_is_rebuilt_on_open(open_memory: Callable[..., Memory], directory: Path, workspace: Path) -> None:
    """Deleting every ``index-*`` loses nothing: sessions, records and notes are found again."""
    (workspace / "MEMORY.md").write_text("# Stones\n\nThe slate is in the cellar.\n")
    with open_memory(workspace=workspace) as memory:
        say(memory, "granite")
    for path in directory.glob("index-*"):
        path.unlink()
    with open_memory(read_only=True) as memory, pytest.raises(errors.IndexUnavailable):
        memory.search("granite")
    with open_memory() as memory:
        assert texts(memory, "granite")
        assert memory.search("slate").hits[0].path == "MEMORY.md"


@pytest.mark.parametrize("content", [b"", b"x", b"no database " * 1000, bytes(8192)])
def test_unusable_index_file_is_rebuilt_on_open(
    open_memory: Callable[..., Memory], directory: Path, content: bytes
) -> None:
    """Empty, short, text or zeros: derived, so it is built anew without asking."""
    with open_memory() as memory:
        say(memory, "granite")
    generation_file(directory, 1).write_bytes(content)
    with open_memory(read_only=True) as memory:
        with pytest.raises(errors.IndexUnavailable):
            memory.search("granite")
        status = memory.status()
        assert (status["messages"], status["index"]["state"]) == (1, "unavailable")
    with open_memory() as memory:
        assert texts(memory, "granite") == ["user: granite"]
        assert memory.status()["index"]["generation"] == 2


def test_index_of_a_store_that_was_rolled_back_is_rebuilt(open_memory: Callable[..., Memory], directory: Path) -> None:
    """A store restored from a backup, beside an index that knows what came later: nothing of that is ever found."""
    with open_memory() as memory:
        say(memory, "granite")
    backup = (directory / "memory.sqlite").read_bytes()
    with open_memory() as memory:
        say(memory, "marble")
        assert texts(memory, "marble")
    (directory / "memory.sqlite").write_bytes(backup)
    with open_memory() as memory:
        assert texts(memory, "granite") == ["user: granite"]
        assert not any("marble" in text for text in texts(memory, "marble"))


def test_damaged_page_never_gives_a_wrong_answer(open_memory: Callable[..., Memory], directory: Path) -> None:
    """Each page of the file zeroed in turn: the search answers right or says ``index_unavailable``, a turn is stored
    meanwhile, and ``index --full`` mends it."""
    with open_memory() as memory:
        for number in range(30):
            say(memory, f"granite number {number} " + "filler " * 30)
        right = texts(memory, "number 17")
    path = generation_file(directory, 1)
    content = path.read_bytes()
    outcomes = set()
    for page in range(len(content) // 4096):
        for other in directory.glob("index-*"):
            other.unlink()
        path.write_bytes(content[: page * 4096] + bytes(4096) + content[(page + 1) * 4096 :])
        with open_memory(read_only=True) as memory:
            try:
                assert texts(memory, "number 17") == right, page
                outcomes.add("right")
            except errors.IndexUnavailable:
                outcomes.add("unavailable")
    assert outcomes == {"right", "unavailable"}


def test_case_C076_damaged_word_index_alone(open_memory: Callable[..., Memory], directory: Path) -> None:
    """C076: with rows of the lexical table's own storage gone, storing goes on, the search says what is wrong instead
    of finding nothing, and a full index brings both facts back."""
    with open_memory() as memory:
        for number in range(100):
            say(memory, f"filler fact {number}" if number != 50 else "granite key")
    connection = apsw.Connection(str(generation_file(directory, 1)))
    connection.execute("DELETE FROM lexical_data WHERE id > 10").fetchall()
    connection.execute("DELETE FROM lexical_context_data WHERE id > 10").fetchall()
    connection.close()
    with open_memory() as memory:
        receipt = say(memory, "marble key")
        assert receipt.status == "stored"
        try:
            found = texts(memory, "granite key")
        except errors.IndexUnavailable as error:
            assert "index --full" in error.hint
            found = None
        assert found != [], "an empty answer would say that nothing matches"
        memory.index(full=True)
        for word in ("granite key", "marble key"):
            assert any(word in text for text in texts(memory, word))
        assert memory.status()["turns"] == 101


def test_damage_found_by_a_search_is_mended_by_index(
    open_memory: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a search has met damage, a plain ``index`` in the same memory builds anew."""
    with open_memory() as memory:
        say(memory, "granite")
        with monkeypatch.context() as patched:
            from memory_sqlite.agent import answer

            def damaged(*arguments: Any, **more: Any) -> Any:
                raise apsw.CorruptError("injected")

            patched.setattr(answer.run, "search", damaged)
            with pytest.raises(errors.IndexUnavailable):
                memory.search("granite")
        assert memory.index().generation == 2
        assert texts(memory, "granite") == ["user: granite"]
