"""Builds through preparation workers: the same index as without them, whatever becomes of the workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_sqlite import Memory, limits
from memory_sqlite.doctor import verify
from memory_sqlite.indexing import notes as notes_index
from memory_sqlite.indexing import preparing
from memory_sqlite.paths import agent_directory, generation_file
from memory_sqlite.processes import preparation, prepare
from memory_sqlite.processes.command import Command, environment
from memory_sqlite.processes.pool import Pool
from memory_sqlite.processes.preparation import Preparation
from memory_sqlite.processes.prepare import WordsOf
from memory_sqlite.processes.slots import Bounds
from memory_sqlite.sources.discovery import discover
from memory_sqlite.sources.places import NotePlace

HERE = Path(__file__).parent
FAILURES = ("no start", "dies", "defect", "large", "empty")


def failing(how: str) -> Command:
    arguments = (sys.executable, "-P", str(HERE / "preparation_rogue.py"), how)
    return Command(arguments, environment(os.environ, sys.path))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Preparation]:
    """Every build asks two workers, from its second document on; those that were made are in the list. The times of
    files are believed at once, so that two builds file the same."""
    known: list[Preparation] = []
    real = Preparation.__init__

    def init(self: Preparation, *arguments: Any, **named: Any) -> None:
        real(self, *arguments, **named)
        known.append(self)

    monkeypatch.setattr(notes_index, "_UNTRUSTED_NS", 0)
    monkeypatch.setattr(preparing, "PREPARATION_AFTER_BYTES", 1)
    monkeypatch.setattr(preparation, "PREPARATION_REQUEST_BYTES", 200)
    monkeypatch.setattr(preparation, "Bounds", lambda: Bounds(workers=2))
    monkeypatch.setattr(Preparation, "__init__", init)
    return known


def fill(data: Path, workspace: Path) -> None:
    """Notes of every kind and two sessions, remembered and not yet indexed anew."""
    for number in range(30):
        text = f"---\ntags: [t{number}]\n---\n# Note {number}\n\nslate {number} <!-- trigger: roof {number} -->\n今天\n"
        (workspace / "memory" / f"n{number:02d}.md").write_text(text, encoding="utf-8")
    (workspace / "memory" / "n05-empty.md").write_bytes(b"")
    (workspace / "memory" / "n06-binary.md").write_bytes(bytes(2_000))
    (workspace / "memory" / "n07-secret.md").write_text("my password is zebra77pass\n")
    (workspace / "MEMORY.md").write_text("# Net\n\n- one <!-- importance: 8 -->\n- two\n\n" + "basalt wall. " * 400)
    with Memory.open(data, workspace=workspace) as memory:
        for number in range(40):
            said = {"role": "user", "content": f"Is it granite {number}? It is, since May. 今天 {number}"}
            heard = {"role": "assistant", "content": f"gneiss {number}, I always say"}
            memory.remember(session=f"s{number % 2}", messages=[said, heard])


def held(data: Path, number: int) -> dict[str, list[Any]]:
    """Everything in a generation but what says when and for whom it was built."""
    connection = apsw.Connection(str(generation_file(agent_directory(data, "main"), number)))
    try:
        found = {
            "documents": connection.execute("SELECT * FROM documents ORDER BY id").fetchall(),
            "chunks": connection.execute("SELECT * FROM chunks ORDER BY id").fetchall(),
            "statistics": connection.execute("SELECT * FROM statistics ORDER BY name").fetchall(),
            "common_terms": connection.execute("SELECT * FROM common_terms ORDER BY term").fetchall(),
        }
        for table in ("lexical", "lexical_context"):
            connection.execute(f"CREATE VIRTUAL TABLE temp.seen USING fts5vocab(main, {table}, instance)")
            found[table] = connection.execute("SELECT * FROM seen ORDER BY doc, col, offset").fetchall()
            connection.execute("DROP TABLE temp.seen")
        return found
    finally:
        connection.close()


def built(data: Path) -> int:
    with Memory.open(data) as memory:
        report = memory.index(full=True)
        assert [problem.path for problem in report.problems] == ["memory/n06-binary.md"]
        assert report.generation is not None
        return report.generation


def test_a_build_by_workers_is_the_build_without_them(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch, made: list[Preparation]
) -> None:
    """Row by row and token by token; the secret is masked there, too; the workers are gone when the build is done."""
    data = tmp_path / "data"
    fill(data, workspace)
    by_workers = built(data)
    assert made
    assert all(one.pool.describe()["pids"] == [] for one in made)
    first = held(data, by_workers)
    assert "zebra77pass" not in repr(first) and "[secret:" in repr(first)
    made.clear()
    monkeypatch.setattr(preparing, "PREPARATION_AFTER_BYTES", limits.PREPARATION_AFTER_BYTES)
    alone = built(data)
    assert made == []
    assert held(data, alone) == first
    assert len(first["documents"]) > 100
    assert verify(agent_directory(data, "main")) == []


@pytest.mark.parametrize("how", FAILURES)
def test_a_build_loses_nothing_with_its_workers(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch, made: list[Preparation], how: str
) -> None:
    """None that starts, each dies at its first request, fails, answers what no frame holds or what was not agreed: the
    build goes on without them and is whole."""
    data = tmp_path / "data"
    fill(data, workspace)
    monkeypatch.setattr(preparation, "Pool", lambda worker, bounds: Pool(worker, bounds=bounds, command=failing(how)))
    by_workers = held(data, built(data))
    assert made
    monkeypatch.setattr(preparing, "PREPARATION_AFTER_BYTES", limits.PREPARATION_AFTER_BYTES)
    assert held(data, built(data)) == by_workers


def test_what_a_lost_worker_had_is_prepared_in_its_place_and_in_order(workspace: Path) -> None:
    """Notes and words, each batch in its turn, though no request is ever answered."""
    for number in range(20):
        (workspace / "memory" / f"n{number:02d}.md").write_text(f"# Note {number}\n\nabout {number}\n")
    notes = [(place, place.absolute.read_bytes()) for place in discover(workspace, ()).places]
    expected = [prepare.prepare_note(place, data) for place, data in notes]
    bounds = Bounds(workers=2)
    workers = Preparation(Pool("preparation", command=failing("dies"), bounds=bounds), bounds=bounds)
    try:
        assert list(workers.notes(notes)) == expected
        documents = [WordsOf.of(note.document) for note in expected if note.document is not None]
        assert list(workers.words(documents)) == [note.words for note in expected]
        assert workers.pool.describe()["lost"] >= 1
    finally:
        workers.close()


DYING = """
import os, signal, sys
from memory_sqlite import Memory
from memory_sqlite.indexing import notes, preparing
from memory_sqlite.processes import preparation
from memory_sqlite.processes.preparation import Preparation
from memory_sqlite.processes.slots import Bounds

made = []
real = Preparation.__init__
def init(self, *arguments, **named):
    real(self, *arguments, **named)
    made.append(self)
Preparation.__init__ = init
preparation.Bounds = lambda: Bounds(workers=2)
preparing.PREPARATION_AFTER_BYTES, preparation.PREPARATION_REQUEST_BYTES, notes._BATCH = 1, 200, 4
def progress(stage, done, total):
    if (stage, done) == ("notes", 20):
        print(*made[-1].pool.describe()["pids"], flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
with Memory.open(sys.argv[1]) as memory:
    memory.index(full=True, progress=progress)
"""


def test_a_build_that_is_killed_takes_its_workers_along_and_is_gone_on_with(
    tmp_path: Path, workspace: Path, made: list[Preparation], ended: Callable[..., bool]
) -> None:
    """In the middle of the notes, with requests under way: no worker is left, the old index answers, and the next build
    ends with what a build in one go has."""
    data = tmp_path / "data"
    fill(data, workspace)
    first = held(data, built(data))
    done = subprocess.run([sys.executable, "-c", DYING, str(data)], stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    pids = [int(pid) for pid in done.stdout.split()]
    assert pids
    assert all(ended(pid) for pid in pids)
    with Memory.open(data, read_only=True) as memory:
        assert memory.search("slate").hits
    with Memory.open(data) as memory:
        report = memory.index()
        assert report.generation == 3
        assert 0 < report.added < len(list(workspace.rglob("*.md"))), "what was filed is not filed again"
    again = held(data, 3)
    assert [row[1:] for row in again["documents"]] == [row[1:] for row in first["documents"]]
    assert again["statistics"] == first["statistics"]
    assert verify(agent_directory(data, "main")) == []


def test_who_stops_early_leaves_nothing_behind(made: list[Preparation]) -> None:
    """The requests under way are cancelled and the workers end, as when a build is interrupted."""
    documents = [WordsOf("note", "", "n", ((f"slate {number} " * 40, "", ""),)) for number in range(200)]
    read: list[int] = []

    def reading() -> Any:
        for number, document in enumerate(documents):
            read.append(number)
            yield document

    with preparing.words(reading()) as words:
        for _ in range(5):
            next(words)
    assert len(read) < len(documents)
    (workers,) = made
    assert workers.pool.describe() == {**workers.pool.describe(), "pids": [], "pending": 0}


def test_little_work_starts_no_worker(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does a search or a watch, which take in what they can in their time."""
    fill(tmp_path / "data", workspace)
    monkeypatch.setattr(Preparation, "__init__", None)
    built(tmp_path / "data")
    monkeypatch.setattr(preparing, "PREPARATION_AFTER_BYTES", 1)
    (workspace / "memory" / "n31.md").write_text("marble\n")
    (workspace / "memory" / "n32.md").write_text("marble, too\n")
    with Memory.open(tmp_path / "data") as memory:
        assert len(memory.search("marble").hits) == 2


def test_inv_043_a_note_that_changes_while_workers_prepare_it_is_not_filed_in_its_old_form(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch, made: list[Preparation]
) -> None:
    """Its siblings are. A full build looks once more before it publishes and takes the new form in; ``index`` leaves
    it to the next look."""
    data = tmp_path / "data"
    fill(data, workspace)
    restless = workspace / "memory" / "n20.md"
    real: Callable[[NotePlace], Any] = notes_index._read
    forms: list[str] = []

    def read(place: NotePlace) -> Any:
        note = real(place)
        if place.path == "memory/n20.md" and len(forms) % 2 == 0:
            forms.append(f"marble form {len(forms)}, and so on\n")
            restless.write_text(forms[-1])
        elif place.path == "memory/n20.md":
            forms.append("")
        return note

    monkeypatch.setattr(notes_index, "_read", read)
    with Memory.open(data) as memory:
        report = memory.index(full=True)
        assert made
        assert len(forms) == 2, "read, changed, and read again"
        assert report.status == "partial", "for the note that is no text"
        assert [problem.path for problem in report.problems] == ["memory/n06-binary.md"]
        assert [hit.path for hit in memory.search("marble", sources=("memory",)).hits] == ["memory/n20.md"]
        restless.write_text("granite, a third time\n")
        report = memory.index()
        assert len(forms) == 3, "read, and changed again"
        assert {problem.path for problem in report.problems} == {"memory/n06-binary.md", "memory/n20.md"}
        assert memory.status()["index"]["dirty"] is True
    assert verify(agent_directory(data, "main")) == []
