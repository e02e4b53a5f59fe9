"""Lag after a crash, and the index lost or damaged: applied, rebuilt or said, never a wrong answer."""

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
from memory_sqlite.indexing import apply
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
            from memory_sqlite.agent import retrieving

            def damaged(*arguments: Any, **more: Any) -> Any:
                raise apsw.CorruptError("injected")

            patched.setattr(retrieving.run, "search", damaged)
            with pytest.raises(errors.IndexUnavailable):
                memory.search("granite")
        assert memory.index().generation == 2
        assert texts(memory, "granite") == ["user: granite"]


def test_status_while_files_come_and_go(
    open_memory: Callable[..., Memory], directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write-ahead log that is tidied away, by a search that closes it, between looking for it and measuring it."""
    with open_memory() as memory:
        say(memory, "granite")
        monkeypatch.setattr(Path, "exists", lambda self: True)
        for path in directory.glob("index-*-wal"):
            path.rename(directory / "gone")
        sizes = memory.status()["sizes"]
        assert sizes["index"] > 0
        assert sizes["index_wal"] == 0
