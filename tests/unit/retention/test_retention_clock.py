"""A clock that jumps must not empty a memory: when it is doubted, when it is believed again, and who may say so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from memory_sqlite import Memory
from memory_sqlite.clock import FixedClock
from memory_sqlite.config import Settings

DAY = 86_400_000


def say(memory: Memory, session: str) -> None:
    memory.remember(session=session, messages=[{"role": "user", "content": f"granite in {session}"}])


@pytest.fixture
def memory(tmp_path: Path, clock: FixedClock) -> Iterator[Memory]:
    settings = Settings(data_dir=tmp_path / "data", retention_days=30)
    with Memory.open(settings=settings, clock=clock) as made:
        yield made


def test_a_jump_ahead_deletes_nothing_until_it_has_lasted_a_week(memory: Memory, clock: FixedClock) -> None:
    """Ten years ahead: refused. Still so a week later: the agent had been left alone, and what is too old goes."""
    say(memory, "s")
    assert memory.prune().clock == "ok"
    clock.advance(3_650 * DAY)
    report = memory.prune()
    assert (report.status, report.clock, report.expired) == ("clock", "ahead", ())
    assert memory.prune(dry_run=True).sessions == 1, "what would go is told all the same"
    clock.advance(7 * DAY - 1)
    assert memory.prune().status == "clock"
    clock.advance(1)
    assert (memory.prune().status, memory.sessions()) == ("pruned", [])


def test_a_clock_that_is_set_right_again_was_never_believed(memory: Memory, clock: FixedClock) -> None:
    """The doubt goes with the wrong time; a later jump is doubted from its own beginning."""
    say(memory, "s")
    memory.prune()
    clock.advance(100 * DAY)
    assert memory.prune().status == "clock"
    clock.advance(-99 * DAY)
    assert (memory.prune().status, memory.prune().clock) == ("nothing", "ok")
    clock.advance(106 * DAY)
    assert memory.prune().status == "clock", "not the week of the first doubt"


def test_a_doubt_that_nobody_followed_begins_anew(memory: Memory, clock: FixedClock) -> None:
    """Doubted, then left alone again for two months: that was no week of going on. The next week is."""
    say(memory, "s")
    memory.prune()
    for forward, status in ((100, "clock"), (60, "clock"), (6, "clock"), (1, "pruned")):
        clock.advance(forward * DAY)
        assert memory.prune().status == status, forward


def test_what_a_wrong_clock_recorded_does_not_hide_the_jump(memory: Memory, clock: FixedClock) -> None:
    """Somebody talks on while the clock is wrong: there is still a hole before it."""
    say(memory, "s")
    memory.prune()
    clock.advance(200 * DAY)
    say(memory, "new")
    assert (memory.prune().status, len(memory.sessions())) == ("clock", 2)


def test_steady_use_is_no_jump(memory: Memory, clock: FixedClock) -> None:
    """Months without a run of retention, with turns recorded all along: nothing to doubt."""
    memory.prune()
    say(memory, "s")
    memory.prune()
    for number in range(8):
        clock.advance(20 * DAY)
        say(memory, f"s{number}")
    report = memory.prune()
    assert (report.status, report.sessions) == ("pruned", 7)


def test_a_clock_in_the_past_deletes_nothing(memory: Memory, clock: FixedClock) -> None:
    """Behind an earlier run: refused, also where something would be old enough by that time; a few minutes are not."""
    say(memory, "s")
    clock.advance(29 * DAY)
    say(memory, "t")
    memory.prune()
    clock.advance(5 * DAY)
    clock.advance(-10 * DAY)
    assert (memory.prune().status, memory.prune().clock) == ("clock", "behind")
    clock.advance(5 * DAY - 60_000)
    assert memory.prune().clock == "ok"
    assert len(memory.sessions()) == 2


def test_a_person_may_say_that_the_clock_is_right(memory: Memory, clock: FixedClock) -> None:
    """``trust_clock`` goes on, and from then on this time is the known one."""
    say(memory, "s")
    memory.prune()
    clock.advance(400 * DAY)
    assert memory.prune(trust_clock=True).status == "pruned"
    assert memory.prune().clock == "ok"
    clock.advance(-300 * DAY)
    assert memory.prune().clock == "behind"
    assert memory.prune(trust_clock=True).clock == "ok"
    assert memory.prune().clock == "ok"


def test_looking_writes_once_a_day(memory: Memory, clock: FixedClock) -> None:
    """A run with nothing to do commits nothing when the last one was noted today."""
    say(memory, "s")
    memory.prune()
    store = apsw.Connection(memory.status()["store"])
    version = store.pragma("data_version")
    clock.advance(DAY - 1)
    memory.prune()
    memory.prune(dry_run=True)
    assert store.pragma("data_version") == version
    clock.advance(1)
    memory.prune()
    assert store.pragma("data_version") != version
    store.close()
