"""Rules 39 to 52 of the list in ``architecture.md``, as far as no other test shows them: notes, turns, keeping up."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_sqlite import Memory, limits
from memory_sqlite.agent.opened import Opened
from memory_sqlite.clock import FixedClock
from memory_sqlite.indexing import apply, rows
from memory_sqlite.indexing import keeper as keepers
from memory_sqlite.indexing import notes as notes_index
from memory_sqlite.search import run
from memory_sqlite.sources import discovery
from memory_sqlite.sources.places import NotePlace

LOOK = 1_100
"""Milliseconds after which a search looks at the workspace again."""
PATIENCE_S = 60.0


@pytest.fixture
def memory(tmp_path: Path, workspace: Path, clock: FixedClock) -> Iterator[Memory]:
    """Two notes that are indexed and a turn."""
    (workspace / "memory" / "a.md").write_text("granite plan\n")
    (workspace / "memory" / "b.md").write_text("pebble plan\n")
    with Memory.open(tmp_path / "data", workspace=workspace, clock=clock) as opened:
        opened.remember(session="s", messages=[{"role": "user", "content": "marble"}])
        opened.index()
        yield opened


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times of files count however fresh they are: the moment of the test is no moment of theirs."""
    monkeypatch.setattr(notes_index, "_UNTRUSTED_NS", 0)


def rooms(memory: Memory) -> Opened:
    assert memory._opened is not None
    return memory._opened


def found(memory: Memory, query: str) -> list[str]:
    return [hit.path for hit in memory.search(query, sources=("memory",)).hits]


def in_thread(work: Callable[[], Any]) -> Callable[[], Any]:
    """Start it; what is returned waits for the end and gives the result, or raises."""
    outcome: list[Any] = []

    def call() -> None:
        try:
            outcome.append((work(), None))
        except BaseException as error:
            outcome.append((None, error))

    thread = threading.Thread(target=call)
    thread.start()

    def result() -> Any:
        thread.join(PATIENCE_S)
        assert outcome, "it did not end"
        value, error = outcome[0]
        if error is not None:
            raise error
        return value

    return result


def test_inv_039_a_note_that_is_replaced_during_a_search_is_told_whole_as_it_was(
    memory: Memory, workspace: Path, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search is in the middle of its reading when another memory files the note anew: the answer is that of one
    moment, no line of the old text beside one of the new; the next search tells the new text alone."""
    note = workspace / "memory" / "a.md"
    note.write_text("granite one\ngranite two\n")
    assert memory.index().changed == 1
    real = run.search

    def meanwhile(connection: apsw.Connection, *arguments: Any, **named: Any) -> Any:
        monkeypatch.setattr(run, "search", real)
        connection.execute("BEGIN")  # the moment that this search sees
        try:
            connection.execute("SELECT count(*) FROM chunks").fetchall()
            note.write_text("basalt one\ngranite three\n")
            with Memory.open(rooms(memory).store.directory.parents[1], workspace=workspace) as other:
                assert other.index().changed == 1
            return real(connection, *arguments, **named)
        finally:
            connection.execute("COMMIT")

    monkeypatch.setattr(run, "search", meanwhile)
    (hit,) = memory.search("granite", sources=("memory",)).hits
    assert hit.excerpt == "granite one\ngranite two"
    clock.advance(LOOK)
    (hit,) = memory.search("granite", sources=("memory",)).hits
    assert hit.excerpt == "basalt one\ngranite three"


def meddle(monkeypatch: pytest.MonkeyPatch, *, before: bool, change: Callable[[NotePlace], object]) -> list[str]:
    """Do something right before or after a note is read; the list says which were read."""
    real = notes_index._read
    read: list[str] = []

    def reading(place: NotePlace) -> Any:
        read.append(place.path)
        if before:
            change(place)
        note = real(place)
        if not before:
            change(place)
        return note

    monkeypatch.setattr(notes_index, "_read", reading)
    return read


def test_inv_043_a_note_that_changes_while_it_is_indexed_is_not_filed_in_its_old_form(
    memory: Memory, workspace: Path, monkeypatch: pytest.MonkeyPatch, trusted: None
) -> None:
    """Its sibling is filed, the report says so, and the note stays dirty until it is read again; nothing is built anew
    for it."""
    for name in ("c.md", "d.md"):
        (workspace / "memory" / name).write_text("basalt\n")

    def change(place: NotePlace) -> None:
        if place.path == "memory/c.md":
            place.absolute.write_text("gneiss and more\n")

    with monkeypatch.context() as during:
        meddle(during, before=False, change=change)
        report = memory.index()
    assert (report.status, report.added) == ("partial", 1)
    assert [problem.path for problem in report.problems] == ["memory/c.md"]
    assert "basalt" not in report.problems[0].reason
    status = memory.status()["index"]
    assert (status["dirty_notes"], status["generation"]) == (1, 1)
    with rooms(memory).keeper.reader() as index:
        assert set(rows.document_states(index, "note")) == {"memory/a.md", "memory/b.md", "memory/d.md"}
    assert memory.index().status == "ok"
    assert (found(memory, "gneiss"), found(memory, "basalt")) == (["memory/c.md"], ["memory/d.md"])
    assert memory.status()["index"]["generation"] == 1


def test_inv_044_after_a_change_in_between_only_that_note_is_read_again(
    memory: Memory, workspace: Path, monkeypatch: pytest.MonkeyPatch, trusted: None
) -> None:
    """Of two notes that are new one changes while it is indexed: the next ``index`` reads that one and no other."""
    for name in ("c.md", "d.md"):
        (workspace / "memory" / name).write_text("basalt\n")

    def change(place: NotePlace) -> None:
        if place.path == "memory/c.md":
            place.absolute.write_text("gneiss and more\n")

    with monkeypatch.context() as during:
        assert meddle(during, before=False, change=change) == []
        assert memory.index().status == "partial"
    read = meddle(monkeypatch, before=False, change=lambda place: None)
    assert memory.index().status == "ok"
    assert read == ["memory/c.md"]
    assert (found(memory, "gneiss"), found(memory, "basalt")) == (["memory/c.md"], ["memory/d.md"])


@pytest.mark.parametrize("before", [True, False], ids=["before it is read", "before it is filed"])
def test_inv_045_a_note_that_is_deleted_while_it_is_indexed(
    memory: Memory, workspace: Path, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    """It is skipped, its sibling is filed, and what was known of it goes with the next look."""
    (workspace / "memory" / "a.md").write_text("slate, and so on\n")
    (workspace / "memory" / "c.md").write_text("basalt\n")

    def delete(place: NotePlace) -> None:
        if place.path == "memory/a.md":
            place.absolute.unlink()

    with monkeypatch.context() as during:
        meddle(during, before=before, change=delete)
        report = memory.index()
    assert (report.added, report.changed, report.removed) == (1, 0, 0)
    assert memory.index().removed == 1
    assert (found(memory, "granite"), found(memory, "slate"), found(memory, "basalt")) == ([], [], ["memory/c.md"])


def test_inv_046_the_hash_of_a_note_is_that_of_the_bytes_that_were_chunked(
    memory: Memory, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not of what the file holds by the time it is filed: it is read once for both."""
    data = "\ufeffslate\r\n今天\r\n".encode()
    (workspace / "memory" / "c.md").write_bytes(data)
    monkeypatch.setattr(notes_index, "_is_still", lambda place, digest: True)
    meddle(monkeypatch, before=False, change=lambda place: place.absolute.write_text("gneiss\n"))
    memory.index()
    with rooms(memory).keeper.reader() as index:
        filed = rows.document_states(index, "note")["memory/c.md"]
        text = index.execute(
            "SELECT group_concat(text) FROM chunks WHERE document_id ="
            " (SELECT id FROM documents WHERE key = 'memory/c.md')"
        ).get
    assert filed[0] == hashlib.sha256(data).hexdigest()
    assert "slate" in text and "gneiss" not in text


def test_inv_047_a_late_removal_spares_what_was_filed_since(
    memory: Memory, tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look finds a note gone; before it removes it, the note is back and another memory has filed it."""
    (workspace / "memory" / "a.md").unlink()
    real = notes_index.carry_out

    def late(*arguments: Any, **named: Any) -> Any:
        monkeypatch.setattr(notes_index, "carry_out", real)
        (workspace / "memory" / "a.md").write_text("granite, newly written\n")
        with Memory.open(tmp_path / "data", workspace=workspace) as other:
            assert other.index().changed == 1
        return real(*arguments, **named)

    monkeypatch.setattr(notes_index, "carry_out", late)
    assert memory.index().removed == 0
    with rooms(memory).keeper.reader() as index:
        assert "memory/a.md" in rows.document_states(index, "note")


def test_inv_049_a_scan_error_deletes_nothing(
    memory: Memory, workspace: Path, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that cannot be listed says nothing about its notes: they stay, and the search says that it is blind."""
    real = os.scandir

    def refused(path: str) -> object:
        if str(path).endswith("/memory"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    clock.advance(LOOK)
    with monkeypatch.context() as patched:
        patched.setattr(discovery.os, "scandir", refused)
        page = memory.search("granite", sources=("memory",))
        assert [hit.path for hit in page.hits] == ["memory/a.md"]
        assert page.stale
        assert any("could not be looked at" in warning for warning in page.warnings)
        report = memory.index()
        assert (report.status, report.removed) == ("partial", 0)
    clock.advance(LOOK)
    page = memory.search("granite", sources=("memory",))
    assert (page.stale, page.warnings) == (False, ())


def test_inv_050_a_note_that_is_written_during_a_run_is_dirty_after_it(
    memory: Memory, workspace: Path, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new one and a known one, written after the run has listed the notes: the next look takes them in."""
    (workspace / "memory" / "c.md").write_text("basalt\n")

    def write(place: NotePlace) -> None:
        (workspace / "memory" / "d.md").write_text("gneiss\n")
        (workspace / "memory" / "b.md").write_text("schist, no pebble\n")

    with monkeypatch.context() as during:
        meddle(during, before=False, change=write)
        memory.index()
    assert memory.status()["index"]["dirty_notes"] >= 2
    clock.advance(LOOK)
    assert (found(memory, "gneiss"), found(memory, "schist")) == (["memory/d.md"], ["memory/b.md"])


def test_inv_051_two_appliers_share_the_changes_and_none_is_applied_twice(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each reads how far the index has come inside its own write transaction, so there is no conflict to report."""
    real = keepers.IndexKeeper.apply
    with monkeypatch.context() as later, Memory.open(tmp_path / "data") as other:
        later.setattr(keepers.IndexKeeper, "apply", lambda self: 0)
        for number in range(40):
            memory.remember(session="s", messages=[{"role": "user", "content": f"slate {number}"}])
        waiting = memory.status()["index"]["lag"]
        together = threading.Barrier(2, timeout=PATIENCE_S)

        def applying(each: Memory) -> Callable[[], int]:
            def apply() -> int:
                together.wait()
                return real(rooms(each).keeper)

            return apply

        # connections of one memory are one thread's at a time: each applier has its own memory
        counts = [in_thread(applying(each)) for each in (memory, other)]
        assert sum(count() for count in counts) == waiting > 0
    assert memory.status()["index"]["lag"] == 0
    assert rows.inconsistency(rooms(memory).keeper.writer()) is None


def test_inv_052_turns_that_come_while_the_index_is_written_are_applied_by_the_next_pass(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody asks for a session to be indexed: what was said in several is in the change log, whether a pass is going
    on, fails, or does not come to it; the next one applies it all, each turn once."""
    monkeypatch.setattr(limits, "BUSY_TIMEOUT_MS", 50)
    real = rows.refresh_contexts
    receipts: list[Any] = []
    words = iter(("quartz", "schist", "basalt", "gneiss"))

    def during(*arguments: Any) -> None:
        monkeypatch.setattr(rows, "refresh_contexts", real)
        real(*arguments)
        for session in ("t", "u", "t"):  # the index is locked: the turns are safe, and not searchable yet
            receipts.append(say(other, session))

    def fails(*_: Any) -> int:
        raise apsw.FullError("injected")

    def say(one: Memory, session: str) -> Any:
        return one.remember(session=session, messages=[{"role": "user", "content": f"{next(words)} in {session}"}])

    with Memory.open(tmp_path / "data") as other:
        monkeypatch.setattr(rows, "refresh_contexts", during)
        assert memory.remember(session="s", messages=[{"role": "user", "content": "slate"}]).searchable
        assert [(receipt.status, receipt.searchable) for receipt in receipts] == [("stored", False)] * 3
        with monkeypatch.context() as failing:
            failing.setattr(apply, "apply_changes", fails)
            assert memory.search("quartz").stale
            assert not say(memory, "v").searchable
        first = memory.search("quartz", sources=("sessions",))
    assert first.stale is False
    with rooms(memory).keeper.reader() as index:
        texts = [text for (text,) in index.execute("SELECT text FROM chunks") if " in " in text]
    said = ["basalt in t", "gneiss in v", "quartz in t", "schist in u"]
    assert sorted(text.removeprefix("user: ") for text in texts) == sorted(said * 2), "each message and its episode"
    assert memory.status()["index"]["lag"] == 0
    assert rows.inconsistency(rooms(memory).keeper.writer()) is None
