"""What was forgotten does not come back: by no retry, import, rebuild, old copy, or other way of arrival."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_sqlite import AsyncMemory, Memory
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.doctor import verify
from memory_sqlite.paths import agent_directory


class MovingClock(Clock):
    """The system's clock, ahead by as much as a test says."""

    ahead = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead


@pytest.fixture
def clock() -> MovingClock:  # type: ignore[override]
    return MovingClock()


@pytest.fixture
def memory(tmp_path: Path, clock: MovingClock) -> Iterator[Memory]:
    with Memory.open(settings=Settings(data_dir=tmp_path / "data"), clock=clock) as opened:
        yield opened
        assert verify(agent_directory(tmp_path / "data", "main")) == []


def turn(text: str, **more: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text, **more}, {"role": "assistant", "content": f"Noted: {text}"}]


def transcript(path: Path, texts: list[str], *, name: str = "s-001", ids: bool = True) -> Path:
    lines: list[dict[str, Any]] = [{"type": "session", "id": name, "timestamp": "2026-03-01T09:59:00.000Z"}]
    for number, text in enumerate(texts):
        message = {"role": "user", "content": [{"type": "text", "text": text}]}
        line = {"type": "message", "timestamp": f"2026-03-01T10:0{number}:00.000Z", "message": message}
        lines.append({**line, "id": f"m{number}"} if ids else line)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def found(memory: Memory, query: str) -> bool:
    return any(query in hit.excerpt for hit in memory.search(query, max_results=50).hits)


def test_a_retry_of_a_run_stays_forgotten(memory: Memory) -> None:
    """The host's queue sends the turn once more: its run id was accepted once and for ever."""
    memory.remember(session="s", run_id="r1", messages=turn("granite"))
    memory.forget(sessions=["s"])
    assert memory.remember(session="s", run_id="r1", messages=turn("granite")).status == "duplicate"
    assert not found(memory, "granite")


def test_a_session_that_goes_on_begins_anew(memory: Memory) -> None:
    """What is said in it after the forgetting is remembered; what a host says was said before is not."""
    memory.remember(session="s", run_id="r1", messages=turn("granite"))
    memory.forget(sessions=["s"])
    old = memory.remember(session="s", run_id="r2", messages=turn("basalt", at="2026-05-01T12:00:00Z"))
    assert (old.status, old.messages, len(old.warnings)) == ("duplicate", 0, 1)
    assert memory.sessions() == []
    assert memory.remember(session="s", run_id="r3", messages=turn("marble")).status == "stored"
    assert (found(memory, "granite"), found(memory, "basalt"), found(memory, "marble")) == (False, False, True)


def test_inv_086_an_imported_session_is_never_imported_again(memory: Memory, tmp_path: Path) -> None:
    """Nor what its file has gained since, nor from a copy under another name, nor after a rebuild."""
    file = transcript(tmp_path / "s.jsonl", ["granite plan", "basalt plan"])
    assert memory.import_transcripts([file]).turns_stored == 1
    assert memory.forget(sessions=["s-001"]).sessions == 1
    transcript(file, ["granite plan", "basalt plan", "chalk plan"])
    copy = transcript(tmp_path / "copy.jsonl", ["granite plan"], ids=False)
    for path in (file, copy):
        report = memory.import_transcripts([path])
        assert (report.turns_stored, report.messages, report.forgotten, report.sessions) == (0, 0, 1, 1)
    memory.index(full=True)
    assert not any(found(memory, word) for word in ("granite", "basalt", "chalk"))
    assert memory.sessions() == []


def test_a_session_forgotten_before_it_came_does_not_come(memory: Memory, tmp_path: Path) -> None:
    """An unknown session is reported as unresolved, and its tombstone stands all the same."""
    assert memory.forget(sessions=["s-001"]).unresolved == ("s-001",)
    assert memory.import_transcripts([transcript(tmp_path / "s.jsonl", ["granite"])]).messages == 0


def test_a_forgotten_turn_is_known_by_its_entries(memory: Memory, tmp_path: Path) -> None:
    """One turn of a transcript is forgotten; importing the grown file adds what is new, and not that turn."""
    room = [("granite plan", "user"), ("So be it.", "assistant"), ("slate plan", "user")]
    lines: list[dict[str, Any]] = [{"type": "session", "id": "s-001", "timestamp": "2026-03-01T09:59:00.000Z"}]
    for number, (text, role) in enumerate(room):
        message = {"role": role, "content": text}
        lines.append({"type": "message", "id": f"m{number}", "timestamp": "2026-03-01T10:00:00Z", "message": message})
    file = tmp_path / "s.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    memory.import_transcripts([file])
    hit = next(hit for hit in memory.search("granite").hits if hit.layer == "L0")
    assert memory.forget(references=[hit.reference]).turns == 1
    more = {"role": "assistant", "content": "marble answer"}
    lines.append({"type": "message", "id": "m3", "timestamp": "2026-03-01T10:05:00Z", "message": more})
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    report = memory.import_transcripts([file])
    assert report.forgotten == 1
    assert (found(memory, "granite"), found(memory, "slate"), found(memory, "marble")) == (False, True, True)


def test_a_forgotten_turn_is_known_by_its_words_when_it_comes_another_way(memory: Memory, tmp_path: Path) -> None:
    """Remembered live and forgotten; then the host's transcript of that session, which it was never imported from."""
    memory.remember(session="s-001", messages=turn("granite plan", at="2026-03-01T10:00:20Z"))
    memory.remember(session="s-001", messages=turn("slate plan", at="2026-03-01T10:01:20Z"))
    hit = next(hit for hit in memory.search("granite").hits if hit.layer == "L0")
    memory.forget(references=[hit.reference])
    lines = [{"type": "session", "id": "s-001", "timestamp": "2026-03-01T09:59:00.000Z"}]
    for number, text in enumerate(("granite plan", "slate plan")):
        for role, words in (("user", text), ("assistant", f"Noted: {text}")):
            message = {"role": role, "content": words}
            at = f"2026-03-01T10:0{number}:00Z"
            lines.append({"type": "message", "id": f"{role}{number}", "timestamp": at, "message": message})  # type: ignore[dict-item]
    file = tmp_path / "s.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    report = memory.import_transcripts([file])
    assert (report.turns_stored, report.turns_known, report.forgotten) == (0, 1, 1)
    assert not found(memory, "granite")


def test_the_same_words_may_be_said_again(memory: Memory, clock: MovingClock) -> None:
    """A forgotten "yes" does not swallow the next one: not live, and not in the transcript of another hour."""
    memory.remember(session="s", messages=turn("yes granite"))
    hit = next(hit for hit in memory.search("granite").hits if hit.layer == "L0")
    memory.forget(references=[hit.reference])
    clock.ahead += 1_000
    assert memory.remember(session="s", messages=turn("yes granite")).status == "stored"
    assert found(memory, "granite")


def test_an_id_that_a_host_gives_again_is_not_what_was_forgotten(memory: Memory) -> None:
    """A host that starts again numbers from 1: other words under an old id are new, the same words are a retry."""
    memory.remember(session="s", messages=turn("granite", id="1"))
    memory.remember(session="s", messages=turn("slate", id="2"))
    memory.forget(references=[next(hit for hit in memory.search("granite").hits if hit.layer == "L0").reference])
    assert memory.remember(session="s", messages=turn("granite", id="1")).status == "duplicate"
    assert memory.remember(session="s", messages=turn("marble", id="1")).status == "stored"
    assert (found(memory, "granite"), found(memory, "marble")) == (False, True)


def test_a_participant_does_not_come_by_another_transcript(memory: Memory, tmp_path: Path) -> None:
    """What they said until then is refused wherever it comes from, also where no time is given; later words are not."""
    memory.remember(session="room", chat_type="group", messages=turn("granite", sender="bob"))
    memory.forget(participants=["bob"])
    lines = [
        {"role": "user", "content": "basalt", "sender": "bob", "at": "2026-03-01T10:00:00Z"},
        {"role": "assistant", "content": "Heard basalt."},
        {"role": "user", "content": "slate", "sender": "ann", "at": "2026-03-01T10:05:00Z"},
    ]
    file = tmp_path / "other.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert memory.import_transcripts([file], format="generic", session="other").forgotten == 1
    assert (found(memory, "basalt"), found(memory, "slate")) == (False, True)
    assert memory.remember(session="room", messages=turn("marble", sender="bob")).status == "stored"


def test_a_stretch_of_time_does_not_come_back(memory: Memory, tmp_path: Path) -> None:
    """What was said in a forgotten hour is refused from any transcript; the hours around it are taken."""
    memory.forget(since="2026-03-01T10:01:00Z", until="2026-03-01T10:02:00Z")
    file = tmp_path / "s.jsonl"
    lines = [{"role": "user", "content": f"pebble{n}", "at": f"2026-03-01T10:0{n}:00Z"} for n in range(3)]
    answers = [{"role": "assistant", "content": "Noted."}] * 3
    file.write_text("".join(json.dumps(a) + "\n" + json.dumps(b) + "\n" for a, b in zip(lines, answers, strict=True)))
    memory.import_transcripts([file], format="generic", session="s")
    assert [found(memory, f"pebble{number}") for number in range(3)] == [True, False, True]


def test_numbers_are_never_used_again(memory: Memory) -> None:
    """A reference a host has kept must not name another message, nor a session's number another session."""
    memory.remember(session="a", run_id="r1", messages=turn("granite"))
    kept = next(hit for hit in memory.search("granite").hits if hit.layer == "L0").reference
    memory.forget(sessions=["a"])
    memory.remember(session="b", run_id="r2", messages=turn("slate"))
    assert memory.get(kept).status == "not_found"


def test_tombstones_hold_no_word(memory: Memory, tmp_path: Path) -> None:
    """Subjects are keyed digests, tokens and ids: neither texts nor people nor session keys can be read off them."""
    memory.remember(
        session="friday", run_id="r", chat_type="group", messages=turn("granite", sender="bob", id="host-7")
    )
    memory.forget(sessions=["friday"], participants=["bob"])
    store = apsw.Connection(memory.status()["store"], flags=apsw.SQLITE_OPEN_READONLY)
    rows = store.execute("SELECT * FROM tombstones").fetchall()
    assert {row[1] for row in rows} >= {"session", "participant", "entry", "message", "record"}
    told = json.dumps(rows) + json.dumps(store.execute("SELECT * FROM import_cursors").fetchall())
    assert not any(word in told for word in ("granite", "bob", "friday", "host-7"))
    store.close()


async def _forget_async(data: Path) -> str:
    async with await AsyncMemory.open(settings=Settings(data_dir=data)) as memory:
        await memory.remember(session="s", messages=turn("granite"))
        report = await memory.forget(sessions=["s"])
        return report.status


def test_async_memory_forgets(tmp_path: Path) -> None:
    """The twin of the method does the same."""
    import asyncio

    assert asyncio.run(_forget_async(tmp_path / "data")) == "forgotten"
