"""Rules 88 to 92 of the list in ``architecture.md``: what a forgetting says, takes, leaves, and goes on with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.clock import FixedClock
from memory_sqlite.config import Settings
from memory_sqlite.doctor import verify
from memory_sqlite.forgetting import note_file
from memory_sqlite.forgetting import notes as note_plans
from memory_sqlite.paths import agent_directory

TEXT = "I love granite tea very much."


@pytest.fixture
def memory(tmp_path: Path, workspace: Path, clock: FixedClock) -> Iterator[Memory]:
    settings = Settings(data_dir=tmp_path / "data", workspace=workspace, extraction_interval=3)
    with Memory.open(settings=settings, clock=clock) as opened:
        yield opened


def say(memory: Memory, session: str, text: str, run: str, **more: Any) -> Any:
    said: dict[str, Any] = {"role": "user", "content": text, **more}
    messages = [said, {"role": "assistant", "content": f"Noted: {text}"}]
    return memory.remember(session=session, run_id=run, messages=messages, chat_type="direct", sender_is_owner=True)


def found(memory: Memory, query: str) -> list[str]:
    return [hit.excerpt for hit in memory.search(query, max_results=50).hits if query in hit.excerpt]


def forget(memory: Memory, **more: Any) -> Any:
    memory.remember(session="s", messages=[{"role": "user", "content": TEXT}])
    return memory.forget(sessions=["s"], **more)


def test_inv_088_dry_run_says_what_the_real_run_does_and_writes_nothing(memory: Memory, tmp_path: Path) -> None:
    """Every number is the same, and no row and no tombstone changed in between."""
    for number in range(7):
        say(memory, "ab"[number % 2], f"I love pebble{number % 3}.", f"r{number}", sender="ann")
    assert memory._opened is not None
    store = memory._opened.store.connection
    tables = [n for (n,) in store.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()]
    before = {name: store.execute(f"SELECT * FROM {name}").fetchall() for name in tables}
    asked = {"sessions": ["a", "nope"], "participants": ["nobody"]}
    planned = memory.forget(**asked, dry_run=True)
    assert {name: store.execute(f"SELECT * FROM {name}").fetchall() for name in tables} == before
    assert (planned.status, planned.dry_run, planned.verified) == ("planned", True, None)
    real = memory.forget(**asked)
    told = ("sessions", "turns", "messages", "episodes", "scenarios", "facts", "restated", "revived", "mixed_turns")
    told += ("tombstones", "unresolved", "notes_left")
    assert [getattr(planned, name) for name in told] == [getattr(real, name) for name in told]
    assert planned.turns == 4
    assert planned.restated > 0


def test_inv_089_names_are_exact_never_prefixes(memory: Memory) -> None:
    """A key that begins like the one that is named stays, and so does one that differs in case."""
    for number, session in enumerate(("friday", "friday2", "Friday", "frida")):
        say(memory, session, f"pebble{number} is here", f"r{number}")
    report = memory.forget(sessions=["friday"])
    assert (report.sessions, report.turns, report.messages) == (1, 1, 2)
    assert found(memory, "pebble0") == []
    assert all(found(memory, f"pebble{number}") for number in (1, 2, 3))
    assert {row["session"] for row in memory.sessions()} == {"friday2", "Friday", "frida"}


def test_inv_090_an_end_in_the_middle_is_gone_on_with(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ended while notes are rewritten: the next open rewrites those that are not, and comes to an end."""
    for name in ("a.md", "b.md"):
        (workspace / "memory" / name).write_text(f"slate\n\n{TEXT}\n")
    settings = Settings(data_dir=tmp_path / "data", workspace=workspace)
    real, done = note_file.apply, [0]

    def ends(*arguments: Any) -> Any:
        done[0] += 1
        if done[0] == 2:
            raise errors.DiskFull("injected")
        return real(*arguments)

    with Memory.open(settings=settings) as memory:
        memory.index()
        monkeypatch.setattr(note_file, "apply", ends)
        with pytest.raises(errors.DiskFull):
            forget(memory, notes=True)
        monkeypatch.undo()
        codes = {finding.code for finding in verify(agent_directory(tmp_path / "data", "main"))}
        assert "forgetting_unfinished" in codes
    assert sorted(len(path.read_text()) for path in (workspace / "memory").iterdir()) == [7, 37]
    with Memory.open(settings=settings) as memory:
        assert [path.read_text() for path in (workspace / "memory").iterdir()] == ["slate\n\n"] * 2
        assert not any("granite" in hit.excerpt for hit in memory.search("granite tea").hits)
    assert verify(agent_directory(tmp_path / "data", "main")) == []


def test_inv_092_a_file_that_was_edited_meanwhile_is_left_alone(
    memory: Memory, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between looking and replacing somebody saved it: their text stays, and the report says that it is not done."""
    file = workspace / "memory" / "a.md"
    file.write_text(f"{TEXT}\n")
    real = note_file._write

    def saving(*arguments: Any) -> None:
        real(*arguments)
        file.write_text("edited by hand\n")

    monkeypatch.setattr(note_file, "_write", saving)
    report = forget(memory, notes=True)
    assert file.read_text() == "edited by hand\n"
    assert (report.status, [note.outcome for note in report.notes]) == ("unfinished", ["changed"])
    assert [path.name for path in file.parent.iterdir()] == ["a.md"]
    assert [hit.path for hit in memory.search("edited by hand").hits] == ["memory/a.md"]


def test_inv_087_a_turn_that_comes_between_plan_and_deed_goes_too(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is forgotten is chosen within the transaction of the tombstones, not when it was looked for in the notes."""
    say(memory, "a", "I love pebbles.", "r1")
    real = note_plans.plan

    def plan(*arguments: Any, **more: Any) -> Any:
        with Memory.open(settings=memory.settings) as other:
            say(other, "a", "I love granite.", "r2")
        return real(*arguments, **more)

    monkeypatch.setattr(note_plans, "plan", plan)
    assert memory.forget(sessions=["a"]).turns == 2
    assert memory._opened is not None
    assert memory._opened.store.connection.execute("SELECT count(*) FROM messages").get == 0
    assert found(memory, "granite") == []
