"""Forgetting while another process imports, remembers, rebuilds or reads: real processes, stopped at barriers."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory
from memory_sqlite.config import Settings
from memory_sqlite.doctor import verify
from memory_sqlite.forget_report import ForgetReport
from memory_sqlite.forgetting import generations
from memory_sqlite.paths import agent_directory

Start = Callable[..., Any]
"""The fixture that starts a child of a script and its arguments."""
SCAN = """
import sys
from pathlib import Path
print(sum(sys.argv[2].encode() in path.read_bytes().lower() for path in Path(sys.argv[1]).iterdir()))
"""


def files_with(directory: Path, word: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", SCAN, str(directory), word], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def transcript(path: Path, count: int) -> Path:
    lines: list[dict[str, Any]] = [{"type": "session", "id": "s-001", "timestamp": "2026-03-01T09:59:00.000Z"}]
    for number in range(count):
        message = {"role": "user" if number % 2 == 0 else "assistant", "content": f"granite {number} plan of ours"}
        at = f"2026-03-01T{10 + number // 3600:02d}:{number // 60 % 60:02d}:{number % 60:02d}Z"
        lines.append({"type": "message", "id": f"m{number}", "timestamp": at, "message": message})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_inv_087_forgetting_during_an_import_leaves_nothing(tmp_path: Path, start: Start) -> None:
    """The importer has stored its first batch and holds the second; after the forgetting it goes on to the end."""
    script = """
import memory_sqlite.interop.transcripts as importer
with Memory.open(settings=settings()) as memory:
    stop_before(importer, "remember_turns", 2)
    report = memory.import_transcripts([sys.argv[2]])
    print(json.dumps([report.turns_stored, report.forgotten, report.status]))
"""
    file = transcript(tmp_path / "s.jsonl", 1_000)
    child = start(script, tmp_path / "data", file)
    child.wait_ready()
    with Memory.open(settings=Settings(data_dir=tmp_path / "data")) as memory:
        report = memory.forget(sessions=["s-001"])
        assert (report.sessions, report.verified) == (1, True)
        assert report.turns > 100
        child.go()
        stored, forgotten, status = child.result()
        assert (stored, stored + forgotten, status) == (report.turns, 500, "ok")
        assert memory.search("granite").hits == ()
        assert memory.sessions() == []
    directory = agent_directory(tmp_path / "data", "main")
    assert verify(directory) == []
    assert files_with(directory, "granit") == 0


def test_inv_087_forgetting_while_a_turn_waits_to_be_stored(tmp_path: Path, start: Start) -> None:
    """A turn was prepared, with the time it was said, and is stored after the forgetting: it was said before it."""
    script = """
import memory_sqlite.agent.turns as turns
with Memory.open(settings=settings()) as memory:
    stop_before(turns, "remember_turns")
    said = [{"role": "user", "content": "granite again", "at": "2026-03-01T10:00:00Z"}]
    receipt = memory.remember(session="s", messages=said, run_id="late")
    print(json.dumps([receipt.status, receipt.messages]))
"""
    with Memory.open(settings=Settings(data_dir=tmp_path / "data")) as memory:
        memory.remember(session="s", messages=[{"role": "user", "content": "granite"}])
        child = start(script, tmp_path / "data")
        child.wait_ready()
        assert memory.forget(sessions=["s"]).verified
        child.go()
        assert child.result() == ["duplicate", 0]
        assert memory.search("granite").hits == ()
        assert memory.sessions() == []
    assert verify(agent_directory(tmp_path / "data", "main")) == []


def test_inv_069_inv_087_forgetting_during_a_rebuild_waits_for_it_and_cleans_it(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rebuild has read everything and is about to publish. The forgetting deletes the rows, waits for the new
    generation, and takes everything out of it, its deleted words too."""
    script = """
import memory_sqlite.indexing.rebuild as rebuilding
with Memory.open(settings=settings()) as memory:
    stop_before(rebuilding, "_publish")
    print(json.dumps(memory.index(full=True).generation))
"""
    directory = agent_directory(tmp_path / "data", "main")
    with Memory.open(settings=Settings(data_dir=tmp_path / "data")) as memory:
        for number in range(40):
            said = [{"role": "user", "content": f"I love {'granite' if number % 2 else 'slate'} number{number}"}]
            memory.remember(session=f"s{number % 2}", messages=said, chat_type="direct", sender_is_owner=True)
        child = start(script, tmp_path / "data")
        child.wait_ready()
        reports: list[ForgetReport] = []
        waits = threading.Event()
        real = generations.wait_for_builder

        def wait_for_builder(*arguments: Any) -> bool:
            waits.set()
            return real(*arguments)

        monkeypatch.setattr(generations, "wait_for_builder", wait_for_builder)
        forgetting = threading.Thread(target=lambda: reports.append(memory.forget(sessions=["s1"])))
        forgetting.start()
        assert waits.wait(60), "the rows are gone from the store, and the new generation is waited for"
        child.go()
        assert child.result() == 2
        forgetting.join(60)
        assert (reports[0].status, reports[0].verified, reports[0].turns) == ("forgotten", True, 20)
        assert [(one.number, one.state) for one in reports[0].generations] == [(2, "current")]
        assert memory.search("granite").hits == ()
        assert memory.search("slate").hits
    assert verify(directory) == []
    assert files_with(directory, "granit") == 0


def test_inv_073_a_builder_that_does_not_end_is_told_and_finished_later(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The forgetting does not wait for ever: it says that an index is being built, and the next open goes on."""
    script = """
import memory_sqlite.indexing.rebuild as rebuilding
with Memory.open(settings=settings()) as memory:
    stop_before(rebuilding, "_publish")
    print(json.dumps(memory.index(full=True).generation))
"""
    directory = agent_directory(tmp_path / "data", "main")
    monkeypatch.setattr("memory_sqlite.forgetting.generations.BUILDER_WAIT_S", 0.1)
    with Memory.open(settings=Settings(data_dir=tmp_path / "data")) as memory:
        memory.remember(session="s", messages=[{"role": "user", "content": "granite plan of ours"}])
        child = start(script, tmp_path / "data")
        child.wait_ready()
        report = memory.forget(sessions=["s"])
        assert (report.status, report.verified) == ("unfinished", False)
        assert any("being built" in reason for reason in report.reasons)
        child.go()
        assert child.result() == 2
        assert memory.search("granite").hits == ()
    codes = {finding.code for finding in verify(directory)}
    assert "forgetting_unfinished" in codes
    assert codes <= {"forgetting_unfinished", "index_leftover"}, (
        "whoever closes last leaves the old generation to others"
    )
    with Memory.open(settings=Settings(data_dir=tmp_path / "data")):
        assert verify(directory) == []
    assert files_with(directory, "granit") == 0


def test_a_retired_generation_that_is_held_tells_it_to_nobody(tmp_path: Path, start: Start) -> None:
    """A reader of another process holds generation 1 through a rebuild. The forgetting scrubs the file under it: the
    reader's next question has no answer, and nobody's bytes are left while it still holds the file."""
    script = """
from memory_sqlite.storage.connection import open_index_reader
connection = open_index_reader(Path(sys.argv[2]))
asked = "SELECT (SELECT count(*) FROM chunks), (SELECT count(*) FROM lexical WHERE lexical MATCH 'granit')"
answers = [connection.execute(asked).fetchall()[0]]
barrier()
answers.append(connection.execute(asked).fetchall()[0])
barrier()
connection.close()
print(json.dumps(answers))
"""
    directory = agent_directory(tmp_path / "data", "main")
    with Memory.open(settings=Settings(data_dir=tmp_path / "data")) as memory:
        memory.remember(session="s", messages=[{"role": "user", "content": "granite plan of ours"}])
        memory.remember(session="t", messages=[{"role": "user", "content": "slate plan of ours"}])
        old = directory / "index-000001.sqlite"
        child = start(script, tmp_path / "data", old)
        child.wait_ready()
        memory.index(full=True)
        assert old.exists()
        report = memory.forget(sessions=["s"])
        told = [(one.number, one.state, one.held, one.erased) for one in report.generations]
        assert told == [(2, "current", False, True), (1, "retired", True, True)]
        assert (report.status, report.verified) == ("forgotten", True)
        assert files_with(directory, "granit") == 0
        child.go()
        child.wait_ready()
        assert old.exists(), "nobody's generation is deleted under them"
        child.go()
        before, after = child.result()
        assert before[1] == 2, "the message and its episode"
        assert after == [before[0] - 2, 0]
        memory.index(full=True)
        assert not old.exists()
    assert verify(directory) == []


def test_two_processes_forget_at_once(tmp_path: Path, start: Start) -> None:
    """Each ends with its own gone, and nothing is left to do."""
    script = """
with Memory.open(settings=settings()) as memory:
    barrier()
    reports = [memory.forget(sessions=[f"s{number}"]) for number in range(int(sys.argv[2]), 12, 2)]
    print(json.dumps([report.status for report in reports]))
"""
    with Memory.open(settings=Settings(data_dir=tmp_path / "data")) as memory:
        for number in range(48):
            said = [{"role": "user", "content": f"granite {number} plan of ours"}]
            memory.remember(session=f"s{number % 12}", messages=said)
        memory.remember(session="kept", messages=[{"role": "user", "content": "slate plan"}])
    children = [start(script, tmp_path / "data", first) for first in (0, 1)]
    for child in children:
        child.wait_ready()
    for child in children:
        child.go()
    for child in children:
        assert set(child.result()) <= {"forgotten", "nothing", "unfinished"}
    with Memory.open(settings=Settings(data_dir=tmp_path / "data")) as memory:
        assert [row["session"] for row in memory.sessions()] == ["kept"]
        assert memory.search("granite").hits == ()
    directory = agent_directory(tmp_path / "data", "main")
    assert verify(directory) == []
    assert files_with(directory, "granit") == 0
