"""What is too old, and what is kept all the same: the rule of retention, by itself and through ``prune``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.clock import FixedClock, parse_time
from memory_sqlite.config import Settings
from memory_sqlite.doctor import verify
from memory_sqlite.layers import retention_rule as rule
from memory_sqlite.paths import agent_directory
from memory_sqlite.retention import debt

DAY = 86_400_000


def moment(text: str) -> int:
    found = parse_time(text)
    assert found is not None
    return found


def opened(place: Path, clock: FixedClock, **settings: Any) -> Memory:
    return Memory.open(settings=Settings(data_dir=place / "data", **settings), clock=clock)


def say(memory: Memory, session: str, text: str, **more: Any) -> None:
    memory.remember(
        session=session,
        chat_type="direct",
        kind="interactive",
        sender_is_owner=True,
        messages=[{"role": "user", "content": text}, {"role": "assistant", "content": f"Noted: {text}"}],
        **more,
    )


def names(memory: Memory) -> set[str]:
    return {row["session"] for row in memory.sessions(limit=100)}


def counts(memory: Memory) -> tuple[Any, ...]:
    status = memory.status()
    return status["turns"], status["messages"], status["records"]


@pytest.fixture
def memory(tmp_path: Path, clock: FixedClock) -> Iterator[Memory]:
    """A memory that keeps 30 days; the directory is clean at the end."""
    with opened(tmp_path, clock, retention_days=30) as made:
        yield made
    assert verify(agent_directory(tmp_path / "data", "main")) == []


def test_the_edge_is_exact_and_the_session_goes_with_it(memory: Memory, clock: FixedClock) -> None:
    """Kept to the last millisecond of the thirtieth day, gone with the first after it."""
    say(memory, "s", "The kettle is granite today.")
    clock.advance(30 * DAY)
    assert memory.prune(trust_clock=True).status == "nothing"
    clock.advance(1)
    report = memory.prune(trust_clock=True)
    assert (report.status, report.sessions, report.turns, report.messages, report.episodes) == ("pruned", 1, 1, 2, 1)
    assert (report.verified, report.expired[0].session, report.expired[0].gone) == (True, "s", True)
    assert names(memory) == set()
    assert memory.search("granite").hits == ()


def test_a_session_is_old_or_young_as_a_whole(memory: Memory, clock: FixedClock) -> None:
    """Its last turn counts, however long ago it was begun; what another session does changes nothing."""
    for session in ("long", "other"):
        say(memory, session, f"It was granite in {session}.")
    clock.advance(29 * DAY)
    say(memory, "long", "It is slate now.")
    clock.advance(2 * DAY)
    assert memory.prune().sessions == 1
    assert names(memory) == {"long"}
    assert counts(memory)[:2] == (2, 4)


def test_facts_outlive_their_turn_and_say_so(memory: Memory, clock: FixedClock) -> None:
    """A fact stays, with its session, sender and day; it names no turn any more, and its words are not in a message."""
    say(memory, "s", "I love green tea.")
    before = [hit.reference for hit in memory.facts().named]
    clock.advance(31 * DAY)
    report = memory.prune(trust_clock=True)
    assert (report.turns, report.episodes, report.facts, report.facts_kept) == (1, 1, 0, 1)
    assert (report.sessions, report.expired[0].gone) == (0, False)
    assert counts(memory) == (0, 0, {"L1": 0, "L2": 0, "L3": 1})
    assert [hit.layer for hit in memory.search("green tea").hits] == ["L3"]
    assert [hit.reference for hit in memory.facts().named] == before
    again = memory.prune(trust_clock=True)
    assert (again.status, again.expired) == ("nothing", ()), "a session that only has facts left is not told again"
    # forgetting still finds it
    assert memory.forget(sessions=["s"]).facts == 1


def test_days_of_one_layer(tmp_path: Path, clock: FixedClock) -> None:
    """Each layer by its own days; ``same`` follows, none is for ever; a pinned fact never expires."""
    settings: dict[str, Any] = {
        "retention_days": 40, "retention_days_l0": 10, "retention_days_l1": 20, "retention_days_l2": None,
        "retention_days_l3": "same", "extraction_interval": 1,
    }  # fmt: skip
    with opened(tmp_path, clock, **settings) as memory:
        say(memory, "s", "I love green tea.")
        memory.remember_facts(
            session="s", facts=[{"content": "Answer in English.", "name": "language", "pinned": True}]
        )
        left = []
        for _ in range(5):
            clock.advance(10 * DAY + 1)
            memory.prune()
            left.append(counts(memory))
        assert left == [
            (0, 0, {"L1": 1, "L2": 1, "L3": 2}),
            (0, 0, {"L1": 0, "L2": 1, "L3": 2}),
            (0, 0, {"L1": 0, "L2": 1, "L3": 2}),
            (0, 0, {"L1": 0, "L2": 1, "L3": 1}),
            (0, 0, {"L1": 0, "L2": 1, "L3": 1}),
        ]
        assert memory.facts().named == () and len(memory.facts().pinned) == 1
    assert verify(agent_directory(tmp_path / "data", "main")) == []


def test_the_edge_of_each_layer_is_exact_and_counts_from_the_last_turn(tmp_path: Path, clock: FixedClock) -> None:
    """A session that was begun early: each layer goes its days after the last turn, and not a millisecond sooner."""
    with opened(tmp_path, clock, retention_days_l0=10, retention_days_l1=20) as memory:
        say(memory, "s", "It was granite.")
        clock.advance(15 * DAY)
        say(memory, "s", "It is slate.")
        left = []
        for forward in (10 * DAY, 1, 10 * DAY - 1, 1):
            clock.advance(forward)
            memory.prune()
            left.append((memory.status()["turns"], memory.status()["records"]["L1"]))
        assert left == [(2, 2), (0, 2), (0, 2), (0, 0)]


def test_a_fact_that_is_said_again_is_young_again(tmp_path: Path, clock: FixedClock) -> None:
    """With days for facts: saying one again in another session counts, and what it had replaced stays replaced."""
    with opened(tmp_path, clock, retention_days=30, retention_days_l3="same") as memory:
        say(memory, "a", "I live in Oslo.")
        clock.advance(20 * DAY)
        say(memory, "b", "I live in Bergen.")
        clock.advance(11 * DAY)
        assert memory.prune().facts == 1, "the older, superseded one"
        say(memory, "c", "I live in Bergen.")
        clock.advance(25 * DAY)
        report = memory.prune()
        assert (report.facts, report.facts_kept) == (0, 1)
        assert [hit.layer for hit in memory.search("Bergen", sources=("memory",)).hits if hit.layer == "L3"] == ["L3"]
        clock.advance(11 * DAY)
        memory.prune()
        assert memory.status()["records"]["L3"] == 0
        assert memory.search("Oslo").hits == ()


def test_none_keeps_everything(tmp_path: Path, clock: FixedClock) -> None:
    """Retention that is off touches nothing, after ten years either."""
    with opened(tmp_path, clock, retention_days=None) as memory:
        say(memory, "s", "It was granite.")
        clock.advance(3_650 * DAY)
        report = memory.prune(trust_clock=True)
        assert (report.status, set(report.days.values()), names(memory)) == ("nothing", {None}, {"s"})


def test_the_time_of_import_counts(tmp_path: Path, clock: FixedClock) -> None:
    """What was said years ago is as young as its import: of a transcript, of an export, of another product."""
    old = moment("2020-01-01T10:00:00Z")
    file = tmp_path / "s.jsonl"
    file.write_text(
        '{"type":"session","id":"s-old","timestamp":"2020-01-01T10:00:00Z"}\n'
        '{"type":"message","id":"m1","timestamp":"2020-01-01T10:00:00Z","message":{"role":"user","content":'
        '[{"type":"text","text":"old granite"}]}}\n'
    )
    early = FixedClock(old)
    with opened(tmp_path / "before", early) as before:
        say(before, "moved", "It was slate.")
        before.export(tmp_path / "export.jsonl")
    with opened(tmp_path, clock, retention_days=30) as memory:
        report = memory.import_transcripts([file])
        assert report.expires is not None
        due = "2026-08-14T08:30:00.120Z"
        assert (report.expires.days["L0"], report.expires.days["L3"]) == (30, None)
        assert (report.expires.sessions, report.expires.first_at, report.expires.last_at) == (1, due, due)
        moved = memory.import_jsonl(tmp_path / "export.jsonl")
        assert moved.expires is not None and moved.expires.first_at == due
        clock.advance(30 * DAY)
        assert memory.prune(trust_clock=True).status == "nothing"
        clock.advance(1)
        assert memory.prune(trust_clock=True).sessions == 2
    assert verify(agent_directory(tmp_path / "data", "main")) == []


def test_what_is_imported_into_a_session_makes_it_young_again(tmp_path: Path, clock: FixedClock) -> None:
    """A second export brings a turn more, with the time it had: its session counts from the second import; a third
    that brings nothing changes nothing."""
    early = FixedClock(moment("2020-01-01T10:00:00Z"))
    with opened(tmp_path / "before", early) as before:
        for number in (1, 2):
            # of the host's own sessions there are turns and no records
            before.remember(session="moved", kind="cron", messages=[{"role": "user", "content": f"slate {number}"}])
            before.export(tmp_path / f"export-{number}.jsonl")
            early.advance(1_000)
    with opened(tmp_path, clock, retention_days=30) as memory:
        memory.import_jsonl(tmp_path / "export-1.jsonl")
        clock.advance(20 * DAY)
        memory.import_jsonl(tmp_path / "export-2.jsonl")
        clock.advance(20 * DAY)
        memory.import_jsonl(tmp_path / "export-2.jsonl")
        assert memory.prune().status == "nothing"
        clock.advance(10 * DAY + 1)
        assert memory.prune().turns == 2


def test_a_host_whose_clock_is_ahead_keeps_nothing_for_ever(memory: Memory, clock: FixedClock) -> None:
    """A message of the year 2099 is as old as the moment it was recorded."""
    memory.remember(session="s", messages=[{"role": "user", "content": "granite", "at": "2099-01-01T00:00:00Z"}])
    clock.advance(31 * DAY)
    assert memory.prune(trust_clock=True).sessions == 1


def test_nothing_expires_by_searching_getting_or_asking(memory: Memory, clock: FixedClock) -> None:
    """Only ``prune`` and a memory that serves delete; a reader sees what is too old and is told of it."""
    say(memory, "s", "It was granite.")
    clock.advance(400 * DAY)
    with opened(Path(memory.status()["data_dir"]).parent, clock, retention_days=30) as other:
        assert other.search("granite").hits
        assert other.recall("granite").text
        assert other.get("sessions/" + other.sessions()[0]["token"]).text
        other.index()
    assert names(memory) == {"s"}


def test_debt_is_what_a_run_would_take(memory: Memory, clock: FixedClock, tmp_path: Path) -> None:
    """``debt`` counts sessions of which something is too old, and apart those that are kept all the same."""
    for session in ("a", "b", "pinned", "held"):
        say(memory, session, "It was granite.")
    memory.hold("pinned", kind="pin")
    memory.hold("held")
    store = apsw.Connection(memory.status()["store"], flags=apsw.SQLITE_OPEN_READONLY)
    try:
        assert debt(store, memory.settings, clock.now_ms()) == {"sessions": 0, "held": 0, "pinned": 0, "running": 0}
        clock.advance(31 * DAY)
        assert debt(store, memory.settings, clock.now_ms()) == {"sessions": 2, "held": 1, "pinned": 1, "running": 0}
        report = memory.prune(trust_clock=True)
        assert (report.sessions, report.held, report.pinned) == (2, 1, 1)
        assert debt(store, memory.settings, clock.now_ms())["sessions"] == 0
    finally:
        store.close()


def test_a_turn_that_waits_keeps_its_session_a_week(memory: Memory, clock: FixedClock, tmp_path: Path) -> None:
    """A run under way keeps its session by any of its names; one that was left behind goes when it is too old."""
    say(memory, "s", "It was granite.")
    clock.advance(31 * DAY)
    store = apsw.Connection(memory.status()["store"])
    insert = (
        "INSERT INTO turn_outbox (advancement_key, engine_id, owner_id, session_key, session_id, state, admission, at,"
        " messages) VALUES (?, 'e', 'o', ?, ?, 'ready', '{}', ?, ?)"
    )
    words = json.dumps([{"role": "user", "content": "a waiting MARKER-OSCAR-15 in the outbox"}])
    store.execute(insert, ("k1", "s", "file-of-s", clock.now_ms(), words))
    assert memory.prune(trust_clock=True).running == 1
    assert names(memory) == {"s"}
    clock.advance(8 * DAY)
    report = memory.prune()
    assert (report.sessions, report.running, report.waiting) == (1, 0, 0)
    clock.advance(23 * DAY)
    report = memory.prune()
    assert (report.waiting, report.verified) == (1, True)
    assert store.execute("SELECT count(*) FROM turn_outbox").get == 0
    assert store.execute("SELECT count(*) FROM accepted_advancements").get == 1, "no engine commits it afterwards"
    store.close()


def test_a_turn_that_waits_under_a_further_name_keeps_its_session(memory: Memory, clock: FixedClock) -> None:
    """A host calls a session by its transcript's id too. What waits in a held session is not too old either."""
    say(memory, "s", "It was granite.")
    say(memory, "held", "It was slate.")
    memory.hold("held")
    store = apsw.Connection(memory.status()["store"])
    insert = (
        "INSERT INTO turn_outbox (advancement_key, engine_id, owner_id, session_key, session_id, state, admission, at)"
        " VALUES (?, 'e', 'o', ?, ?, 'ready', '{}', ?)"
    )
    store.execute("INSERT INTO session_names VALUES ('file-7', (SELECT id FROM sessions WHERE key = 's'))")
    store.execute(insert, ("k1", "held", "file-8", clock.now_ms()))
    clock.advance(31 * DAY)
    store.execute(insert, ("k2", "another key", "file-7", clock.now_ms()))
    report = memory.prune(trust_clock=True)
    assert (report.running, report.held, report.waiting) == (1, 1, 0)
    assert store.execute("SELECT count(*) FROM turn_outbox").get == 2
    store.close()


def test_days_and_cutoffs_of_the_settings() -> None:
    """``days`` follows ``same``; a layer that is kept for ever has no cutoff."""
    settings = Settings(retention_days=10, retention_days_l1=5, retention_days_l2=None)
    assert [rule.days(settings, layer) for layer in rule.LAYERS] == [10, 5, None, None]
    assert rule.cutoffs(settings, 20 * DAY) == {"L0": 10 * DAY, "L1": 15 * DAY}


def test_reading_only_deletes_nothing(tmp_path: Path, clock: FixedClock) -> None:
    """A memory that was opened for reading refuses."""
    with opened(tmp_path, clock, retention_days=30) as memory:
        say(memory, "s", "It was granite.")
    clock.advance(31 * DAY)
    settings = Settings(data_dir=tmp_path / "data", retention_days=30)
    with Memory.open(settings=settings, read_only=True, clock=clock) as reader:
        with pytest.raises(errors.StoreReadOnly):
            reader.prune(trust_clock=True)
        assert names(reader) == {"s"}
