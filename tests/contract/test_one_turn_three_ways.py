"""One OpenClaw session remembered, committed and imported, in every order: each message, episode and fact once."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_sqlite import Memory
from memory_sqlite.clock import FixedClock, iso
from memory_sqlite.config import Settings
from memory_sqlite.context.shapes import TurnAdmission, TurnAnchor
from memory_sqlite.model import SessionInfo
from memory_sqlite.sources.transcript_formats.openclaw import spoken

KEY, ID = "agent:main:main", "10000000-0000-4000-8000-000000000001"
START = FixedClock().ms - 60_000
WAYS = ("remember", "commit", "import")
METADATA = 'Conversation info (untrusted metadata):\n```json\n{"message_id":"77"}\n```\n\n[Wed 2026-07-15 08:29 UTC] '

HEADER = {"type": "session", "id": ID, "sessionKey": KEY, "timestamp": iso(START), "senderIsOwner": True}

SAID: list[tuple[str, Any]] = [
    ("user", METADATA + "I love quinces."),
    ("assistant", [{"type": "text", "text": "Let me see."}, {"type": "toolCall", "id": "c1", "name": "read"}]),
    ("toolResult", [{"type": "text", "text": "quince: south wall"}]),
    ("assistant", [{"type": "thinking", "thinking": "easy"}, {"type": "text", "text": "By the south wall."}]),
    ("user", "yes"),
    ("assistant", "Good."),
    ("user", "Read HEARTBEAT.md if it exists. Follow it."),
    ("assistant", "HEARTBEAT_OK"),
    ("user", "yes"),
    ("assistant", "Good."),
    ("user", "I live in Bergen."),
    ("toolResult", [{"type": "text", "text": "ok"}]),
    ("toolResult", [{"type": "text", "text": "ok"}]),
    ("assistant", "Noted."),
]
KEPT = ["user", "assistant", "tool", "assistant", "user", "assistant", "system", "user", "assistant", "user"]
KEPT += ["tool", "tool", "assistant"]


def entries() -> list[dict[str, Any]]:
    """The transcript's message entries; the id of an entry is its place."""
    said = []
    for number, (role, content) in enumerate(SAID):
        message = {"role": role, "content": content, "timestamp": START + number * 1000}
        if role == "toolResult":
            message["toolCallId"] = f"c{number}"
        before = f"e{number - 1}" if number else None
        said.append({"type": "message", "id": f"e{number}", "parentId": before, "message": message})
    return said


def remember(memory: Memory, place: Path, name: str, ids: bool) -> None:
    """As a host's hook does: turn by turn, with a run id."""
    for number, turn in enumerate(turns()):
        messages = []
        for entry in turn:
            words = spoken(entry["message"])
            if words is not None:
                said = {"role": words[1], "content": words[0], "at": entry["message"]["timestamp"]}
                messages.append({**said, "id": entry["id"]} if ids else said)
        memory.remember(
            session=name, run_id=f"run {number}", chat_type="direct", sender_is_owner=True, messages=messages
        )


def commit(memory: Memory, place: Path, name: str, ids: bool) -> None:
    """As a host's outbox does: each turn under its key, from its admitted entry to its last."""
    engine = memory.context_engine(describe=lambda key, id: SessionInfo("", "direct", "interactive", True))
    for turn in turns():
        first, last = (anchor(entry["id"]) for entry in (turn[0], turn[-1]))
        key = f"turn of {turn[0]['id']}"
        given: dict[str, Any] = {
            "advancement_key": key,
            "admission": TurnAdmission(first, key),
            "terminal": last,
            "messages": [entry["message"] for entry in turn],
            "session_id": ID,
            "is_heartbeat": "HEARTBEAT" in str(turn[0]),
        }
        asyncio.run(engine.commit_turn(**given))


def import_file(memory: Memory, place: Path, name: str, ids: bool) -> None:
    path = place / f"{ID}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in [HEADER, *entries()]))
    assert memory.import_transcripts([path]).problems == ()


def turns() -> list[list[dict[str, Any]]]:
    cut: list[list[dict[str, Any]]] = []
    for entry in entries():
        if entry["message"]["role"] == "user":
            cut.append([])
        cut[-1].append(entry)
    return cut


def anchor(entry: str) -> TurnAnchor:
    seq = int(entry[1:]) + 1
    return TurnAnchor("main", ID, KEY, "sessions.sqlite", "g", entry, seq, f"e{seq - 2}" if seq > 1 else None, seq)


DO: dict[str, Callable[[Memory, Path, str, bool], None]] = {
    "remember": remember,
    "commit": commit,
    "import": import_file,
}


def check(memory: Memory) -> None:
    """Everything there is, once."""
    connection = apsw.Connection(memory.status()["store"], flags=apsw.SQLITE_OPEN_READONLY)
    try:
        kept = connection.execute("SELECT role, text FROM messages ORDER BY at, role").fetchall()
        records = connection.execute("SELECT layer, content FROM records ORDER BY layer, content").fetchall()
        keys = connection.execute("SELECT count(*), count(turn_id) FROM accepted_advancements").fetchall()
        sessions = connection.execute("SELECT count(*) FROM sessions").get
    finally:
        connection.close()
    assert sessions == 1
    assert [role for role, _ in kept] == KEPT
    assert [text for role, text in kept if role == "user"] == ["I love quinces.", "yes", "yes", "I live in Bergen."]
    assert keys == [(5, 5)]
    layers = [layer for layer, _ in records]
    assert (layers.count("L1"), layers.count("L3")) == (4, 2), records


@pytest.mark.parametrize("ids", [True, False], ids=["with ids", "without ids"])
@pytest.mark.parametrize("order", list(itertools.permutations(WAYS)), ids=" ".join)
def test_one_session_by_three_ways_in_every_order(tmp_path: Path, order: tuple[str, ...], ids: bool) -> None:
    """Named by the session's id, as its transcript names it; then all of it once more, in the same order."""
    with Memory.open(settings=Settings(data_dir=tmp_path / "data"), clock=FixedClock()) as memory:
        for way in (*order, *order):
            DO[way](memory, tmp_path, ID, ids)
        check(memory)
        found = memory.search("quinces", session=KEY).hits
        assert found and {hit.reference for hit in memory.search("quinces", session=ID).hits} == {
            hit.reference for hit in found
        }


@pytest.mark.parametrize("ids", [True, False], ids=["with ids", "without ids"])
@pytest.mark.parametrize("where", ["header", "sessions.json"])
@pytest.mark.parametrize("order", list(itertools.permutations(WAYS)), ids=" ".join)
def test_a_session_named_by_its_key_is_the_same_one(
    tmp_path: Path, order: tuple[str, ...], where: str, ids: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that remembers under the session's key, which the transcript's header or the file beside it tells."""
    if where == "sessions.json":
        monkeypatch.setitem(HEADER, "sessionKey", None)
        (tmp_path / where).write_text(json.dumps({KEY: {"sessionId": ID, "chatType": "direct"}}))
    with Memory.open(settings=Settings(data_dir=tmp_path / "data"), clock=FixedClock()) as memory:
        for way in (*order, *order):
            DO[way](memory, tmp_path, KEY, ids)
        check(memory)


@pytest.mark.parametrize("order", list(itertools.permutations(WAYS)), ids=" ".join)
@pytest.mark.parametrize("half", range(3))
def test_an_answer_that_was_read_half_written_is_one_answer(
    tmp_path: Path, order: tuple[str, ...], half: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By whichever way, without ids that would tell; what is kept is the whole of it."""
    with Memory.open(settings=Settings(data_dir=tmp_path / "data"), clock=FixedClock()) as memory:
        for place, way in enumerate((*order, *order)):
            with monkeypatch.context() as changed:
                if place == half:
                    changed.setattr(sys.modules[__name__], "SAID", [*SAID[:3], ("assistant", "By the"), *SAID[4:]])
                DO[way](memory, tmp_path, ID, False)
        check(memory)
        assert memory.search("By the south wall", sources=("sessions",)).hits


def test_a_transcript_of_a_key_that_goes_on_after_it_was_forgotten(tmp_path: Path) -> None:
    """What was said before stays away; what was said later is in a transcript of its own, and is taken in."""
    with Memory.open(settings=Settings(data_dir=tmp_path / "data"), clock=FixedClock()) as memory:
        memory.remember(session=KEY, messages=[{"role": "user", "content": "I love quinces.", "at": START}])
        memory.forget(sessions=[KEY])
        import_file(memory, tmp_path, KEY, True)
        assert memory.status()["messages"] == 0
        later = {"role": "user", "content": "Said much later.", "timestamp": FixedClock().ms + 86_400_000}
        lines = [{**HEADER, "id": "another"}, {"type": "message", "id": "later", "message": later}]
        (tmp_path / "another.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        memory.import_transcripts([tmp_path / "another.jsonl"])
        assert memory.status()["messages"] == 1


def test_a_transcript_does_not_get_into_a_key_with_an_id_of_its_own(tmp_path: Path) -> None:
    """Whatever key its header names: a committed session has said which ids are its own."""
    with Memory.open(settings=Settings(data_dir=tmp_path / "data"), clock=FixedClock()) as memory:
        commit(memory, tmp_path, ID, True)
        said = {"role": "user", "content": "From elsewhere.", "timestamp": START}
        lines = [{**HEADER, "id": "another"}, {"type": "message", "id": "x", "message": said}]
        (tmp_path / "another.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        memory.import_transcripts([tmp_path / "another.jsonl"])
        assert sorted(row["session"] for row in memory.sessions()) == ["agent:main:main", "another"]


def test_a_transcript_of_another_kind_of_conversation_is_one_of_its_own(tmp_path: Path) -> None:
    """What was said in private does not get into a room by the key in its header, and is imported all the same."""
    with Memory.open(settings=Settings(data_dir=tmp_path / "data"), clock=FixedClock()) as memory:
        memory.remember(session=KEY, chat_type="group", messages=[{"role": "user", "content": "Here we all are."}])
        import_file(memory, tmp_path, KEY, True)
        assert {(row["session"], row["chat_type"]) for row in memory.sessions()} == {(KEY, "group"), (ID, "direct")}
        assert not memory.search("quinces", session=KEY).hits and memory.search("quinces", session=ID).hits


@pytest.mark.parametrize("told", [KEY, None], ids=["of a key", "of no key yet"])
def test_a_room_that_is_committed_under_the_id_of_a_private_transcript_is_one_of_its_own(
    tmp_path: Path, told: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the room's turns are kept."""
    monkeypatch.setitem(HEADER, "sessionKey", told)
    monkeypatch.setitem(HEADER, "chatType", "direct")
    with Memory.open(settings=Settings(data_dir=tmp_path / "data"), clock=FixedClock()) as memory:
        import_file(memory, tmp_path, ID, True)
        room = "agent:main:group:garden"
        start = TurnAnchor("main", ID, room, "host", "g", "x1", 1, None, 1)
        engine = memory.context_engine(describe=lambda key, id: SessionInfo("", "group", None, False))
        given: dict[str, Any] = {"admission": TurnAdmission(start, "k"), "terminal": start, "session_id": ID}
        said = [{"role": "user", "content": "Hello, room of quinces."}]
        assert asyncio.run(engine.commit_turn(**given, advancement_key="k", messages=said)).status == "committed"
        assert {(row["session"], row["chat_type"]) for row in memory.sessions()} == {(room, "group"), (ID, "direct")}
        assert ["room of" in hit.excerpt for hit in memory.search("quinces", session=room).hits] == [True]


@pytest.mark.parametrize("name", [KEY, ID])
@pytest.mark.parametrize("first", WAYS)
def test_forgotten_under_one_name_is_forgotten_under_the_other(tmp_path: Path, first: str, name: str) -> None:
    """Whatever stored it first: a forgotten session comes back by none of the three ways, under neither name."""
    with Memory.open(settings=Settings(data_dir=tmp_path / "data"), clock=FixedClock()) as memory:
        DO[first](memory, tmp_path, ID, True)
        commit(memory, tmp_path, ID, True)
        assert memory.forget(sessions=[name]).turns
        (tmp_path / f"{ID}.jsonl").unlink(missing_ok=True)
        for way in WAYS:
            DO[way](memory, tmp_path, ID, True)
        memory.remember(session=KEY, messages=[{"role": "user", "content": "I love quinces.", "id": "e0"}])
        assert not memory.search("quinces").hits
        assert memory.status()["messages"] == 0


@pytest.mark.parametrize("whole", [True, False], ids=["session", "turn"])
def test_forgotten_before_the_other_name_was_known(tmp_path: Path, whole: bool) -> None:
    """Imported under its id, forgotten, then committed under its key with that id: what was forgotten stays away."""
    with Memory.open(settings=Settings(data_dir=tmp_path / "data"), clock=FixedClock()) as memory:
        import_file(memory, tmp_path, ID, True)
        found = memory.search("quinces", sources=("sessions",), max_results=1).hits
        memory.forget(sessions=[ID]) if whole else memory.forget(references=[found[0].reference])
        commit(memory, tmp_path, ID, True)
        assert not memory.search("quinces").hits
        assert memory.status()["messages"] == (0 if whole else len(KEPT) - 4)


def test_a_session_forgotten_under_its_key_is_not_imported_under_its_id(tmp_path: Path) -> None:
    """Whatever its transcript holds by now, also what was never stored here."""
    with Memory.open(settings=Settings(data_dir=tmp_path / "data"), clock=FixedClock()) as memory:
        commit(memory, tmp_path, ID, True)
        assert memory.forget(sessions=[KEY]).sessions == 1
        later = {"role": "user", "content": "Said much later.", "timestamp": FixedClock().ms + 86_400_000}
        line = {"type": "message", "id": "later", "message": later}
        header = {"type": "session", "id": ID, "timestamp": iso(START)}
        path = tmp_path / f"{ID}.jsonl"
        path.write_text(f"{json.dumps(header)}\n{json.dumps(line)}\n")
        assert memory.import_transcripts([path]).forgotten == 1
        assert memory.status()["messages"] == 0


def test_a_hooks_session_is_found_by_its_further_name(tmp_path: Path) -> None:
    """Imported under its id, and only called the hook's by the host that commits to it."""
    with Memory.open(settings=Settings(data_dir=tmp_path / "data"), clock=FixedClock()) as memory:
        memory.remember(session="run-7", messages=[{"role": "user", "content": "Mail about quinces.", "id": "e0"}])
        start = TurnAnchor("main", "run-7", "agent:main:hook:mail:7", "host", "g", "e0", 1, None, 1)
        said = [{"role": "user", "content": "Mail about quinces."}]
        engine = memory.context_engine()
        asyncio.run(
            engine.commit_turn(
                advancement_key="k",
                admission=TurnAdmission(start, "k"),
                terminal=start,
                messages=said,
                session_id="run-7",
            )
        )
        assert memory.forget(hook_sources=["mail"]).sessions == 1
        assert memory.status()["messages"] == 0
