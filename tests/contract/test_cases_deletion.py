"""Cases C136 to C142: what was deleted stays deleted, and what was not stays."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory
from memory_sqlite.doctor import verify
from memory_sqlite.indexing import notes as notes_index
from memory_sqlite.paths import agent_directory
from memory_sqlite.search import run
from memory_sqlite.storage import change_log

TRANSCRIPT = (
    '{"type":"session","id":"s-001","timestamp":"2026-03-01T09:59:00.000Z"}\n'
    '{"type":"message","id":"m1","timestamp":"2026-03-01T10:00:00.000Z","message":{"role":"user","content":'
    '[{"type":"text","text":"private granite plan"}]}}\n'
)


@pytest.fixture
def memory(tmp_path: Path, workspace: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "data", workspace=workspace) as opened:
        yield opened
        assert verify(agent_directory(tmp_path / "data", "main")) == []


def found(memory: Memory, query: str) -> list[str]:
    return [hit.path for hit in memory.search(query, max_results=50).hits if query in hit.excerpt]


def test_case_C136_nothing_revives_what_was_forgotten(memory: Memory, workspace: Path, tmp_path: Path) -> None:
    note = workspace / "memory" / "a.md"
    note.write_text("Keep this slate line.\n\nForget this granite line.\n")
    old = tmp_path / "old.jsonl"
    old.write_text(TRANSCRIPT)
    queued: dict[str, Any] = {
        "session": "friday",
        "run_id": "r1",
        "chat_type": "direct",
        "sender_is_owner": True,
        "messages": [{"role": "user", "content": "I love granite. The slate is fine."}],
    }
    memory.index()
    memory.import_transcripts([old])
    facts = memory.remember(**queued).facts
    report = memory.forget(references=["memory/a.md#L3", *facts], sessions=["s-001"])
    assert (report.status, report.verified, report.unresolved) == ("forgotten", True, ())
    assert note.read_text() == "Keep this slate line.\n\n"
    for action in (
        lambda: None,
        memory.index,
        lambda: memory.index(full=True),
        lambda: memory.import_transcripts([old]),
        lambda: memory.remember(**queued),
    ):
        action()
        assert found(memory, "granite") == []
        assert found(memory, "slate") == ["memory/a.md"]


@pytest.mark.parametrize("by_hand", [False, True])
def test_case_C138_a_deleted_session_is_not_searchable(memory: Memory, tmp_path: Path, by_hand: bool) -> None:
    file = tmp_path / "s-001.jsonl"
    file.write_text(TRANSCRIPT)
    memory.import_transcripts([file], chat_type="direct", sender_is_owner=True)
    assert found(memory, "granite")
    if by_hand:  # a transcript that was imported is kept by design; its file is not needed any more
        file.unlink()
        memory.index()
        assert found(memory, "granite")
    report = memory.forget(sessions=["s-001"])
    assert (report.sessions, report.messages, report.episodes) == (1, 1, 1)
    assert found(memory, "granite") == []
    assert memory.status()["messages"] == 0
    memory.index(full=True)
    assert found(memory, "granite") == []


def test_case_C140_one_of_two_alike_goes_alone(memory: Memory, workspace: Path) -> None:
    """C140 for words; vectors have tests of their own. Alike files have the same bytes: a forgotten
    version is that of one path."""
    for name in ("a.md", "b.md", "c.md"):
        (workspace / "memory" / name).write_text("Shared granite paragraph.\n")
    memory.index()
    (workspace / "memory" / "a.md").unlink()
    memory.index()
    assert memory.status()["index"]["documents"] == {"note": 2}
    report = memory.forget(references=["memory/c.md"])
    assert [(note.path, note.outcome) for note in report.notes] == [("memory/c.md", "deleted")]
    memory.index(full=True)
    assert found(memory, "granite") == ["memory/b.md"]
    said = {"chat_type": "direct", "sender_is_owner": True, "session": "s"}
    for number, colour in enumerate(("blue", "red", "blue")):
        memory.remember(
            run_id=f"r{number}",
            messages=[{"role": "user", "content": f"My favourite colour is {colour}."}],
            **said,  # type: ignore[arg-type]
        )
        facts = [hit.excerpt for hit in memory.search("colour", layers=["L3"]).hits]
        assert len(facts) == 1
        assert colour in facts[0]
    (workspace / "memory" / "b.md").unlink()
    memory.index()
    assert found(memory, "granite") == []


def test_case_C142_forget_while_a_note_is_being_indexed(
    memory: Memory, workspace: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The note is read, and before it is filed another process forgets it: the filing is refused."""
    (workspace / "memory" / "a.md").write_text("granite\n")
    facts = memory.remember(
        session="s", chat_type="direct", sender_is_owner=True, messages=[{"role": "user", "content": "I love marble."}]
    ).facts
    read, told = threading.Event(), threading.Event()
    real = notes_index._file

    def blocked(*arguments: Any) -> None:
        if arguments[1]:
            read.set()
            assert told.wait(60)
        real(*arguments)

    monkeypatch.setattr(notes_index, "_file", blocked)
    done: list[Any] = []
    indexing = threading.Thread(target=lambda: done.append(memory.index()))
    indexing.start()
    assert read.wait(60)
    command = [sys.executable, "-m", "memory_sqlite", "forget", "--json", "--yes", "--data-dir", str(tmp_path / "data")]
    command += ["--workspace", str(workspace), "--reference", "memory/a.md", "--reference", facts[0]]
    forgot = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    told.set()
    indexing.join(60)
    monkeypatch.undo()
    assert forgot.returncode == 0, forgot.stdout + forgot.stderr
    assert json.loads(forgot.stdout)["notes"] == [{"path": "memory/a.md", "lines": 0, "outcome": "deleted"}]
    assert [problem.path for problem in done[0].problems] == ["memory/a.md"], "the run ends without an error"
    assert found(memory, "granite") == found(memory, "marble") == []
    assert memory.status()["index"]["documents"] == {}


def test_case_C142_a_slow_search_does_not_tell_what_was_forgotten_meanwhile(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search has its hits, one of them with a forgotten neighbour in its excerpt, and has not answered yet."""
    for number, text in enumerate(("marble and slate", "slate alone", "marble again")):
        memory.remember(session="s", run_id=f"r{number}", messages=[{"role": "user", "content": text}])
    first = next(hit.reference for hit in memory.search("marble and slate").hits if "and" in hit.excerpt)
    real = run.search
    seen: list[int] = []

    def slow(*arguments: Any, **named: Any) -> Any:
        answer = real(*arguments, **named)
        seen.append(len(answer[0]))
        if len(seen) == 1:
            forgetting = threading.Thread(target=memory.forget, kwargs={"references": [first]})
            forgetting.start()
            forgetting.join(60)
        return answer

    monkeypatch.setattr(run, "search", slow)
    hits = memory.search("slate").hits
    assert seen[0] >= 1
    assert len(seen) == 2, "it looked again"
    assert not any("marble and" in hit.excerpt for hit in hits)
    assert any("slate alone" in hit.excerpt for hit in hits)


def test_inv_039_a_hit_whose_message_is_gone_is_not_told(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the index cannot be brought up to date, as for a reader while a forgetting waits to go on."""
    memory.remember(session="s", messages=[{"role": "user", "content": "I love marble"}])
    assert memory._opened is not None
    with memory._opened.store.transaction() as store:
        store.execute("DELETE FROM messages")
        store.execute("DELETE FROM records")
    assert memory.search("marble").hits == ()
    with memory._opened.store.transaction() as store:
        for kind, target in (("message", 1), ("record", 1), ("record", 2)):
            change_log.append(store, kind, target, "delete")  # type: ignore[arg-type]
    memory.index()
