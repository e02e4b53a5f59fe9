"""Rules for an index of several threads and processes that hold by number (52 to 95 of the list in
``docs/architecture.md``). Only rules that no other test shows; the list names the others.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_sqlite import Memory, errors, limits
from memory_sqlite.config import Settings
from memory_sqlite.doctor import verify
from memory_sqlite.generations import files
from memory_sqlite.indexing import resume, rows
from memory_sqlite.paths import STORE_FILE, agent_directory, generation_file

PATIENCE_S = 60.0

LOCK = """
import sys, apsw
connection = apsw.Connection(sys.argv[1], flags=apsw.SQLITE_OPEN_READWRITE)
connection.execute("BEGIN IMMEDIATE").fetchall()
print("locked", flush=True)
sys.stdin.readline()
"""

READ = """
import sys, apsw
connection = apsw.Connection(sys.argv[1], flags=apsw.SQLITE_OPEN_READONLY)
def texts():
    return [text for (text,) in connection.execute("SELECT text FROM chunks ORDER BY id")]
print(texts(), flush=True)
for line in sys.stdin:
    print(texts(), flush=True)
"""


@contextmanager
def child(script: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that runs ``script`` on a file and is gone afterwards."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def heard(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def ask(process: subprocess.Popen[str]) -> str:
    assert process.stdin is not None
    process.stdin.write("again\n")
    process.stdin.flush()
    return heard(process)


def say(memory: Memory, text: str, **more: Any) -> Any:
    return memory.remember(session="s", messages=[{"role": "user", "content": text}], **more)


def texts(memory: Memory, query: str) -> list[str]:
    return [hit.excerpt for hit in memory.search(query, sources=("sessions",)).hits]


def test_inv_053_inv_082_a_dead_writers_lock_is_free_and_searches_never_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process has the store's write lock: a search answers, a write says so after its wait; once that process
    is killed the same write succeeds."""
    monkeypatch.setattr(limits, "BUSY_TIMEOUT_MS", 50)
    directory = agent_directory(tmp_path / "data", "main")
    with Memory.open(settings=Settings(data_dir=tmp_path / "data")) as memory:
        say(memory, "granite")
        with child(LOCK, directory / STORE_FILE) as holder:
            assert heard(holder) == "locked"
            assert texts(memory, "granite") == ["user: granite"]
            with pytest.raises(errors.StoreBusy):
                say(memory, "marble")
            with pytest.raises(errors.StoreBusy):
                memory.index(full=True)
            assert memory.status()["index"]["generation"] == 1
        assert say(memory, "marble").status == "stored"
        assert memory.index(full=True).generation == 2
        assert any("marble" in text for text in texts(memory, "marble"))
    assert verify(directory) == []


def test_inv_064_another_process_sees_a_document_before_or_after_and_never_between(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A note of several chunks that is replaced: within the transaction a reader has all of the old, then all of the
    new."""
    note = workspace / "memory" / "a.md"
    note.write_text("# A\n\n" + "granite wall. " * 200)
    directory = agent_directory(tmp_path / "data", "main")
    with Memory.open(settings=Settings(data_dir=tmp_path / "data", workspace=workspace)) as memory:
        memory.index()
        with child(READ, generation_file(directory, 1)) as reader:
            old = heard(reader)
            assert "granite" in old
            within: list[str] = []
            real = rows.put_document

            def put(index: apsw.Connection, document: Any, *words: Any) -> Any:
                done = real(index, document, *words)
                assert index.in_transaction
                within.append(ask(reader))
                return done

            monkeypatch.setattr(rows, "put_document", put)
            note.write_text("# A\n\n" + "marble wall. " * 200)
            assert memory.index().changed == 1
            assert within == [old]
            new = ask(reader)
            assert "marble" in new
            assert "granite" not in new


@pytest.mark.parametrize("moment", ["filling", "publishing"])
def test_inv_068_inv_069_what_is_written_during_a_build_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """No conflict and no second build: another memory's turn that comes while a generation is filled, or just before it
    is published, is found in it."""
    settings = Settings(data_dir=tmp_path / "data")
    module, name = {"filling": (resume, "filed_sessions"), "publishing": (files, "seal")}[moment]
    real = getattr(module, name)
    with Memory.open(settings=settings) as memory, Memory.open(settings=settings) as other:
        say(memory, "granite")

        def late(*arguments: Any) -> Any:
            assert say(other, "marble").searchable
            other.forget(references=[other.search("granite", sources=("sessions",)).hits[0].reference])
            return real(*arguments)

        monkeypatch.setattr(module, name, late)
        monkeypatch.setattr("memory_sqlite.forgetting.run.generations.BUILDER_WAIT_S", 0)
        assert memory.index(full=True).generation == 2
        monkeypatch.undo()
        assert memory.status()["index"]["lag"] == 0
        for one in (memory, other):
            assert (texts(one, "granite"), texts(one, "marble")) == ([], ["user: marble"])


def test_inv_094_closing_while_a_search_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search that is under way gets its answer or a typed error, and nothing is open when both have ended."""
    memory = Memory.open(settings=Settings(data_dir=tmp_path / "data"))
    say(memory, "granite")
    assert memory._opened is not None
    reading, closed = threading.Event(), threading.Event()
    real = memory._opened.keeper.reader

    @contextmanager
    def reader() -> Iterator[apsw.Connection]:
        with real() as connection:
            reading.set()
            assert closed.wait(PATIENCE_S)
            yield connection

    monkeypatch.setattr(memory._opened.keeper, "reader", reader)
    ended: list[Any] = []

    def search() -> None:
        try:
            ended.append(texts(memory, "granite"))
        except errors.MemorySqliteError as error:
            ended.append(error)

    thread = threading.Thread(target=search)
    thread.start()
    assert reading.wait(PATIENCE_S)
    memory.close()
    closed.set()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert len(ended) == 1
    assert ended[0] == ["user: granite"] or isinstance(ended[0], errors.MemorySqliteError)
    directory = agent_directory(tmp_path / "data", "main")
    assert not files.is_held(generation_file(directory, 1))
    assert not files.is_held(directory / STORE_FILE)
    with pytest.raises(errors.MemoryClosed):
        memory.search("granite")
