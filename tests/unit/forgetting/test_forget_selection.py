"""What a forgetting takes: exact names, whole turns, what was derived, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.clock import FixedClock
from memory_sqlite.config import Settings
from memory_sqlite.doctor import verify
from memory_sqlite.paths import agent_directory

DAY = 86_400_000


@pytest.fixture
def memory(tmp_path: Path, clock: FixedClock) -> Iterator[Memory]:
    with Memory.open(settings=Settings(data_dir=tmp_path / "data", extraction_interval=3), clock=clock) as opened:
        yield opened
        assert verify(agent_directory(tmp_path / "data", "main")) == []


def say(memory: Memory, session: str, text: str, run: str, **more: Any) -> Any:
    said: dict[str, Any] = {"role": "user", "content": text}
    said |= {name: more.pop(name) for name in ("sender", "at", "id") if name in more}
    messages = [said, {"role": "assistant", "content": f"Noted: {text}"}]
    known = {"chat_type": "direct", "sender_is_owner": True} | more
    return memory.remember(session=session, run_id=run, messages=messages, **known)


def found(memory: Memory, query: str) -> list[str]:
    return [hit.excerpt for hit in memory.search(query, max_results=50).hits if query in hit.excerpt]


def test_a_session_by_its_token(memory: Memory) -> None:
    """The token that stands in paths names the session as well as its key does."""
    say(memory, "friday", "pebble", "r1")
    assert memory.forget(sessions=[memory.sessions()[0]["token"]]).sessions == 1
    assert memory.sessions() == []


def test_unknown_names_are_a_result(memory: Memory) -> None:
    """Nothing is deleted for them, they are named in the report, and no error is raised."""
    say(memory, "friday", "pebble", "r1")
    wrong = ["message:99", "record:nope", "sessions/" + "0" * 32 + "#L1", "memory/none.md#L1", "../x.md"]
    report = memory.forget(sessions=["frid"], participants=["nobody"], records=["r"], references=wrong)
    assert report.status == "nothing"
    assert list(report.unresolved) == ["frid", "nobody", "r", *wrong]
    assert found(memory, "pebble")


def test_nothing_named_is_an_error(memory: Memory) -> None:
    """Forgetting everything is never what a missing argument means."""
    for wrong in (
        {},
        {"sessions": []},
        {"sessions": "friday"},
        {"sessions": [" "]},
        {"records": [3]},
        {"since": "yesterday"},
        {"since": "2026-05-02", "until": "2026-05-02"},
    ):
        with pytest.raises(errors.InvalidArgument):
            memory.forget(**wrong)  # type: ignore[arg-type]


def test_a_participant_and_the_answers_to_them(memory: Memory) -> None:
    """Turns in which they spoke go whole, since answers repeat; a turn that others spoke in too is told."""
    room = {"chat_type": "group", "sender_is_owner": False}
    say(memory, "room", "granite from bob", "r1", sender="bob", **room)
    say(memory, "room", "marble from ann", "r2", sender="ann", **room)
    both = [
        {"role": "user", "content": "slate from ann", "sender": "ann"},
        {"role": "user", "content": "basalt from bob", "sender": "bob"},
        {"role": "assistant", "content": "Heard slate and basalt."},
    ]
    memory.remember(session="room", run_id="r3", messages=both, **room)  # type: ignore[arg-type]
    say(memory, "room", "chalk from bobby", "r4", sender="bobby", **room)
    report = memory.forget(participants=["bob"])
    assert (report.turns, report.messages, report.mixed_turns) == (2, 5, 1)
    assert all(found(memory, word) == [] for word in ("granite", "basalt", "slate"))
    assert found(memory, "marble")
    assert found(memory, "chalk")


def test_a_stretch_of_time_narrows_and_stands_alone(memory: Memory) -> None:
    """``since`` is included and ``until`` is not; with a session only that session's turns between them go."""
    for day in range(1, 5):
        for session in ("a", "b"):
            say(memory, session, f"pebble{day}{session}", f"{session}{day}", at=f"2026-05-0{day}T12:00:00Z")
    report = memory.forget(sessions=["a"], since="2026-05-02T12:00:00Z", until="2026-05-04T12:00:00Z")
    assert (report.sessions, report.turns) == (0, 2)
    left = {f"{day}{session}" for day in range(1, 5) for session in "ab" if found(memory, f"pebble{day}{session}")}
    assert left == {"1a", "4a", "1b", "2b", "3b", "4b"}
    assert memory.forget(since="2026-05-03").turns == 3
    assert found(memory, "pebble3b") == []
    assert found(memory, "pebble2b")


def test_hook_source_is_a_word_of_the_key(memory: Memory) -> None:
    """``hook:<source>`` at its place in the key; a source that only begins alike, or stands elsewhere, stays."""
    keys = ["hook:gmail:1", "agent:main:hook:gmail:2", "hook:gmail2:3", "agent:main:slack:group:hook:gmail"]
    for number, key in enumerate(keys):
        say(memory, key, f"pebble{number}", f"r{number}")
    assert memory.forget(hook_sources=["gmail"]).sessions == 2
    assert [bool(found(memory, f"pebble{number}")) for number in range(4)] == [False, False, True, True]


def test_a_record_takes_the_turns_that_said_it(memory: Memory) -> None:
    """A fact that is forgotten is not found in the words it was made of either; with ``keep_turns`` it alone goes."""
    first = say(memory, "s", "I love granite tea.", "r1")
    second = say(memory, "s", "I love basalt cake.", "r2")
    report = memory.forget(references=[*first.facts])
    assert (report.facts, report.episodes, report.turns) == (1, 1, 1)
    assert found(memory, "granite") == []
    kept = memory.forget(records=[second.facts[0].removeprefix("record:")], keep_turns=True)
    assert (kept.facts, kept.episodes, kept.turns) == (1, 0, 0)
    layers = [len(memory.search("basalt", layers=[layer]).hits) for layer in ("L0", "L1", "L3")]  # type: ignore[list-item]
    assert layers == [2, 1, 0]


def test_references_of_hits(memory: Memory) -> None:
    """What a search shows can be forgotten by what it carries: a message, a citation of lines, a record's line."""
    for number in range(3):
        say(memory, "s", f"I love pebble{number}.", f"r{number}")
    message = next(h for h in memory.search("pebble0").hits if h.layer == "L0")
    assert memory.forget(references=[message.reference]).turns == 1
    assert found(memory, "pebble0") == []
    line = next(h for h in memory.search("pebble1").hits if h.layer == "L0")
    assert memory.forget(references=[f"{line.path}#L{line.start_line}"]).turns == 1
    assert found(memory, "pebble1") == []
    fact = next(h for h in memory.search("pebble2").hits if h.layer == "L3")
    assert memory.forget(references=[f"{fact.path}#L{fact.start_line}"]).turns == 1
    assert found(memory, "pebble2") == []


def test_a_scenario_goes_with_any_turn_it_covers(memory: Memory) -> None:
    """It quotes all of them: forgetting the first of three turns takes it, and forgetting it takes no turn."""
    for number in range(6):
        say(memory, "s", f"The pebble{number} report is due.", f"r{number}")
    assert memory.status()["records"]["L2"] == 2
    report = memory.forget(references=[next(h for h in memory.search("pebble0").hits if h.layer == "L0").reference])
    assert (report.turns, report.scenarios) == (1, 1)
    assert found(memory, "pebble0") == []
    second = next(h for h in memory.search("pebble4", layers=["L2"]).hits)
    assert (memory.forget(references=[second.reference]).scenarios, memory.status()["turns"]) == (1, 5)


def test_a_fact_said_elsewhere_stays_in_those_words(memory: Memory) -> None:
    """Its own turn is forgotten, and with it its words; the turn that said the same later is what it now rests on."""
    say(memory, "a", "I love granite tea", "r1")
    say(memory, "b", "These days I love granite tea!", "r2")
    report = memory.forget(sessions=["a"])
    assert (report.facts, report.restated) == (1, 1)
    facts = memory.search("granite tea", layers=["L3"]).hits
    assert [(hit.session, hit.provenance["run_id"]) for hit in facts] == [("b", "r2")]
    assert memory.forget(sessions=["b"]).restated == 0
    assert memory.search("granite", layers=["L3"]).hits == ()


def test_a_reinforcement_that_is_forgotten_weakens(memory: Memory) -> None:
    """The fact stays in the words of the turn that stays, reinforced once less."""
    say(memory, "a", "I love granite tea", "r1")
    say(memory, "b", "I love granite tea", "r2")
    report = memory.forget(sessions=["b"])
    assert (report.facts, report.restated) == (0, 0)
    assert memory._opened is not None
    row = memory._opened.store.connection.execute("SELECT reinforced, reinforced_at FROM records WHERE layer = 'L3'")
    assert row.fetchall() == [(1, None)]


def test_what_was_superseded_is_in_force_again(memory: Memory) -> None:
    """As if the turn that replaced it had never been; in a chain the one after it replaces what was before it."""
    for number, place in enumerate(("Oslo", "Bergen", "Tromso")):
        say(memory, f"s{number}", f"I live in {place}.", f"r{number}")
    assert memory.forget(sessions=["s1"]).revived == 0
    assert [h.excerpt for h in memory.search("live", layers=["L3"]).hits] == ["I live in Tromso"]
    assert memory.forget(sessions=["s2"]).revived == 1
    assert [h.excerpt for h in memory.search("live", layers=["L3"]).hits] == ["I live in Oslo"]


def test_a_restated_fact_supersedes_again(memory: Memory) -> None:
    """Oslo, Bergen, Bergen again: without the first Bergen it is still Bergen, said by the third turn."""
    for number, place in enumerate(("Oslo", "Bergen", "Bergen")):
        say(memory, f"s{number}", f"I live in {place}.", f"r{number}", at=f"2026-05-0{number + 1}T12:00:00Z")
    report = memory.forget(sessions=["s1"])
    assert (report.restated, report.revived) == (1, 0)
    assert [(h.excerpt, h.session) for h in memory.search("live", layers=["L3"]).hits] == [("I live in Bergen", "s2")]
    assert memory.forget(sessions=["s2"]).revived == 1
    assert [h.excerpt for h in memory.search("live", layers=["L3"]).hits] == ["I live in Oslo"]


def test_readers_cannot_forget(tmp_path: Path) -> None:
    """A memory that was opened for reading refuses, also a dry run, which needs the writer's place for a moment."""
    settings = Settings(data_dir=tmp_path / "data")
    with Memory.open(settings=settings) as memory:
        say(memory, "s", "pebble", "r1")
    with Memory.open(settings=settings, read_only=True) as memory, pytest.raises(errors.StoreReadOnly):
        memory.forget(sessions=["s"], dry_run=True)


def test_disabled_memory_forgets_nothing(tmp_path: Path) -> None:
    """It says so and makes no file."""
    with Memory.open(settings=Settings(data_dir=tmp_path / "data", enabled=False)) as memory:
        assert memory.forget(sessions=["s"]).status == "disabled"
    assert not (tmp_path / "data").exists()
