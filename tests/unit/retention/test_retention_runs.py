"""How retention runs: a dry run is a real one, small transactions, daily while serving, and the plain rule of
compatible mode."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_sqlite import Memory, errors, limits
from memory_sqlite.agent.opened import Opened
from memory_sqlite.agent.upkeep import Upkeep
from memory_sqlite.clock import FixedClock
from memory_sqlite.config import Settings
from memory_sqlite.doctor import verify
from memory_sqlite.layers.layered_retention import delete_old_days
from memory_sqlite.paths import agent_directory
from memory_sqlite.retention import expiring, run
from memory_sqlite.retention.daily import Daily

DAY = 86_400_000


def say(memory: Memory, session: str, text: str, **more: Any) -> None:
    memory.remember(
        session=session,
        chat_type="direct",
        kind="interactive",
        sender_is_owner=True,
        messages=[{"role": "user", "content": text}, {"role": "assistant", "content": f"Noted: {text}"}],
        **more,
    )


@pytest.fixture
def memory(tmp_path: Path, clock: FixedClock) -> Iterator[Memory]:
    settings = Settings(data_dir=tmp_path / "data", retention_days=30, extraction_interval=2)
    with Memory.open(settings=settings, clock=clock) as made:
        yield made
    assert verify(agent_directory(tmp_path / "data", "main")) == []


def rooms(memory: Memory) -> Opened:
    opened = memory._opened
    assert opened is not None
    return opened


@contextmanager
def free() -> Iterator[bool]:
    yield True


def test_a_dry_run_equals_the_real_one(memory: Memory, clock: FixedClock, tmp_path: Path) -> None:
    """Every number, and nothing written: not a byte of any file."""
    for number in range(3):
        for turn in range(4):
            say(memory, f"s{number}", f"I like granite{turn} very much.", run_id=f"{number}.{turn}")
    memory.hold("s2", kind="pin")
    clock.advance(31 * DAY)
    say(memory, "young", "It is slate.")
    files = sorted(path for path in rooms(memory).store.directory.iterdir() if not path.name.endswith("-shm"))
    watcher = apsw.Connection(memory.status()["store"])
    version = watcher.pragma("data_version")
    planned = memory.prune(dry_run=True, trust_clock=True)
    assert watcher.pragma("data_version") == version
    watcher.close()
    assert files == sorted(path for path in rooms(memory).store.directory.iterdir() if not path.name.endswith("-shm"))
    real = memory.prune(trust_clock=True)
    same = {"status": "", "dry_run": False, "clock": "ok", "generations": (), "searched_for": 0, "verified": None}
    assert replace(planned, seconds=0.0, **same) == replace(real, seconds=0.0, **same)
    assert (planned.status, real.status, real.turns, real.scenarios) == ("planned", "pruned", 8, 4)
    assert real.facts_kept > 0 and real.pinned == 1


def test_work_is_done_in_small_transactions(memory: Memory, clock: FixedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory's lock is let go between any two of them, and none takes more than a batch."""
    monkeypatch.setattr(limits, "RETENTION_BATCH", 3)
    for turn in range(8):
        say(memory, "s", f"It was granite{turn}.")
    clock.advance(31 * DAY)
    left: list[int] = []

    @contextmanager
    def gate() -> Iterator[bool]:
        yield True
        left.append(int(str(rooms(memory).store.connection.execute("SELECT count(*) FROM turns").get)))

    report = run.prune(rooms(memory), memory.settings, clock, gate, trust_clock=True)
    assert report.turns == 8
    taken = [before - after for before, after in pairwise(left) if before != after]
    assert taken == [3, 3, 2]


def test_what_is_said_meanwhile_keeps_the_session(memory: Memory, clock: FixedClock) -> None:
    """The rule is asked anew in each transaction: who speaks on between two of them keeps what is left."""
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(limits, "RETENTION_BATCH", 2)
    for turn in range(4):
        say(memory, "s", f"It was granite{turn}.", run_id=f"r{turn}")
        clock.advance(1_000)
    clock.advance(31 * DAY)
    said: list[str] = []

    @contextmanager
    def gate() -> Iterator[bool]:
        yield True
        turns = rooms(memory).store.connection.execute("SELECT count(*) FROM turns").get
        if turns == 2 and not said:
            said.append("now")
            say(memory, "s", "It is slate now.")

    report = run.prune(rooms(memory), memory.settings, clock, gate, trust_clock=True)
    monkeypatch.undo()
    assert (report.turns, memory.status()["turns"], report.expired[0].gone) == (2, 3, False)


def test_a_hold_that_comes_meanwhile_keeps_what_is_left(
    memory: Memory, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two transactions: no further turn goes. What is left is spoken of by no tombstone, though all of it was
    said at one moment."""
    monkeypatch.setattr(limits, "RETENTION_BATCH", 2)
    for turn in range(6):
        say(memory, "s", f"It was granite{turn}.", run_id=f"r{turn}")
    clock.advance(31 * DAY)

    @contextmanager
    def gate() -> Iterator[bool]:
        yield True
        if rooms(memory).store.connection.execute("SELECT count(*) FROM turns").get == 4 and not memory.holds():
            memory.hold("s")

    report = run.prune(rooms(memory), memory.settings, clock, gate, trust_clock=True)
    assert (report.turns, memory.status()["turns"]) == (2, 4)
    assert verify(rooms(memory).store.directory) == []


def test_turns_without_a_time_of_their_own_stay_away_too(memory: Memory, clock: FixedClock, tmp_path: Path) -> None:
    """Not only the first and the last: each of them by its entries and words, from a file and told again live."""
    file = tmp_path / "chat.jsonl"
    said = [
        line
        for number in range(5)
        for line in ({"role": "user", "content": f"pebble {number}"}, {"role": "assistant", "content": f"yes {number}"})
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in said))
    memory.import_transcripts([file], session="file")
    for number in range(5):
        memory.remember(session="live", messages=[{"role": "user", "content": f"slate {number}", "id": f"m{number}"}])
    clock.advance(31 * DAY)
    assert memory.prune(trust_clock=True).turns == 10
    file.write_text(file.read_text() + json.dumps({"role": "user", "content": "basalt"}) + "\n")
    report = memory.import_transcripts([file], session="file")
    assert (report.turns_stored, report.forgotten) == (1, 5)
    for number in range(5):
        memory.remember(session="live", messages=[{"role": "user", "content": f"slate {number}", "id": f"m{number}"}])
    assert {row["session"] for row in memory.sessions()} == {"file"}
    assert memory.status()["turns"] == 1


def test_a_memory_that_is_closed_stops_between_two_steps(memory: Memory, clock: FixedClock, tmp_path: Path) -> None:
    """What was deleted is noted for the next open, which cleans the files; the rest goes with the next run."""
    for number in range(3):
        say(memory, f"s{number}", f"It was granite{number}.")
    clock.advance(31 * DAY)
    passed: list[bool] = []

    @contextmanager
    def gate() -> Iterator[bool]:
        passed.append(len(passed) < 6)
        yield passed[-1]

    report = run.prune(rooms(memory), memory.settings, clock, gate, trust_clock=True)
    assert report.status == "unfinished" and 0 < report.turns < 3
    assert rooms(memory).has_unfinished_forgetting()
    with Memory.open(settings=memory.settings, clock=clock) as again:
        assert not rooms(again).has_unfinished_forgetting()
        assert again.status()["turns"] == 3 - report.turns
        assert again.prune(trust_clock=True).status == "pruned"


def test_a_serving_memory_expires_at_once_and_once_a_day(memory: Memory, clock: FixedClock) -> None:
    """At the first turn of the upkeep, and then daily, as it becomes too old."""
    say(memory, "a", "It was granite.")
    memory.prune()
    clock.advance(29 * DAY)
    say(memory, "b", "It was slate.")
    clock.advance(DAY + 1)
    ran = []
    daily = Daily(rooms(memory), memory.settings, clock)

    def counted(gate: Callable[[], Any]) -> None:
        ran.append(clock.ms)
        daily(gate)

    upkeep = Upkeep(rooms(memory), clock, memory._lock, counted)
    try:
        upkeep.look()
        assert {row["session"] for row in memory.sessions()} == {"b"}
        clock.advance(DAY - 1)
        say(memory, "c", "It was basalt.")
        for _ in range(15):
            clock.advance(DAY)
            upkeep.look()
        assert {row["session"] for row in memory.sessions()} == {"b", "c"}
        for _ in range(14):
            clock.advance(DAY)
            upkeep.look()
        assert {row["session"] for row in memory.sessions()} == {"c"}
    finally:
        upkeep.close()
    assert len(ran) >= 30


def test_due_is_told_by_the_wall_clock(memory: Memory, clock: FixedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a day; after an hour where files could not be cleaned; at once after the clock went back."""
    ran: list[int] = []
    status = ["nothing"]

    def prune(*_: Any, **__: Any) -> Any:
        ran.append(clock.ms)
        return run.PruneReport(status[0])  # type: ignore[arg-type]

    monkeypatch.setattr(run, "prune", prune)
    daily = Daily(rooms(memory), memory.settings, clock)
    expected = 0
    for forward, runs in ((0, 1), (DAY - 1, 0), (1, 1), (-1, 1)):
        clock.advance(forward)
        daily(free)
        expected += runs
        assert len(ran) == expected, forward
    status[0] = "unfinished"
    clock.advance(DAY)
    daily(free)
    clock.advance(3_600_000 - 1)
    daily(free)
    assert len(ran) == expected + 1
    clock.advance(1)
    daily(free)
    assert len(ran) == expected + 2


def test_upkeep_goes_on_when_one_step_fails(memory: Memory, clock: FixedClock) -> None:
    """A store that is busy when something should expire costs that step; it is tried again."""
    ran = []

    def fails(_: Any) -> None:
        ran.append(1)
        raise errors.StoreBusy("busy")

    upkeep = Upkeep(rooms(memory), clock, memory._lock, fails)
    try:
        upkeep.look()
        upkeep.look()
    finally:
        upkeep.close()
    assert len(ran) >= 2


def test_opening_for_serving_hands_it_in(tmp_path: Path, clock: FixedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """``Memory.open(serving=True)`` runs it; opening to ask, or for reading, does not."""
    import threading

    ran = threading.Event()
    monkeypatch.setattr(Daily, "__call__", lambda self, gate: ran.set())
    settings = Settings(data_dir=tmp_path / "served", retention_days=30)
    with Memory.open(settings=settings, clock=clock) as memory:
        memory.search("granite")
        assert not ran.is_set()
    with Memory.open(settings=settings, clock=clock, serving=True):
        assert ran.wait(60)


def test_compatible_mode_keeps_its_own_rule(tmp_path: Path, clock: FixedClock) -> None:
    """Whole days by the day of recording, facts too, whatever the session did since; ``prune`` runs it, as the manager
    does; a held session stays. The dry run tells the same and deletes nothing."""
    settings = Settings(data_dir=tmp_path / "data", retention_days=30, compatibility="layered-memory")
    with Memory.open(settings=settings, clock=clock) as memory:
        for session in ("s", "held"):
            say(memory, session, "I love granite.")
        memory.hold("held")
        memory.prune()
        clock.advance(20 * DAY)
        say(memory, "s", "It is slate now.")
        clock.advance(11 * DAY)
        before = memory.status()["turns"], memory.status()["records"]
        planned = memory.prune(dry_run=True)
        assert (memory.status()["turns"], memory.status()["records"]) == before
        report = memory.prune()
        assert (planned.status, report.status, report.rule) == ("planned", "pruned", "layered-memory")
        assert planned.day_files == report.day_files > 0
        assert memory.status()["turns"] == 2
        assert {hit.session for hit in memory.search("granite", max_results=20).hits} == {"held"}
        assert memory.prune().status == "nothing"
        assert delete_old_days(rooms(memory).store, settings, clock) == 0
    assert verify(agent_directory(tmp_path / "data", "main")) == []


def test_the_tombstones_of_timed_turns_are_few(memory: Memory, clock: FixedClock) -> None:
    """What came with its times is kept away by one stretch for all of it; only the edges and what has no time of its
    own get tombstones of their own. Otherwise years of retention would fill the store with them."""
    for turn in range(40):
        when = (clock.ms + turn * 60_000) / 1000 - 40 * 60
        memory.remember(
            session="s",
            messages=[
                {"role": "user", "content": f"granite {turn}", "id": f"u{turn}", "at": when},
                {"role": "assistant", "content": f"noted {turn}", "id": f"a{turn}", "at": when + 5},
            ],
        )
    clock.advance(31 * DAY)
    report = memory.prune(trust_clock=True)
    assert report.turns == 40
    store = apsw.Connection(memory.status()["store"], flags=apsw.SQLITE_OPEN_READONLY)
    kinds = dict(store.execute("SELECT kind, count(*) FROM tombstones WHERE reason = 'retention' GROUP BY kind"))
    store.close()
    assert kinds["session"] == 1
    assert kinds["entry"] == 2 * 2 * 2
    again = memory.remember(
        session="s",
        messages=[{"role": "user", "content": "granite 20", "id": "new", "at": (clock.ms - 31 * DAY) / 1000 - 1_200}],
    )
    assert again.status != "stored"
    assert expiring.REASON == "retention"
