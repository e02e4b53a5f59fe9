"""The deadline: work is over in time, interrupted when late, its late result dropped; no error comes out of it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

import apsw
import pytest

from memory_sqlite import errors
from memory_sqlite.agent.deadline import Deadline
from memory_sqlite.clock import Clock
from memory_sqlite.recall import deadline as deadlines
from memory_sqlite.recall.deadline import run_within

ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


@dataclass
class InjectedClock(Clock):
    """Time passes only by waiting; a wait ends when its time is over or, really, when the event is set."""

    now: float = 0.0
    waits: list[float] = field(default_factory=list)
    before: threading.Event | None = None
    """What must have happened before a wait may time out, so that the test does not race the work's start."""

    def monotonic(self) -> float:
        return self.now

    def wait(self, event: threading.Event, seconds: float) -> bool:
        if self.before is not None:
            assert self.before.wait(60)
        self.waits.append(seconds)
        self.now += seconds
        return event.is_set()


def test_work_that_is_done_in_time_is_used() -> None:
    outcome = run_within(Deadline(5.0, Clock()), lambda guard: guard.left())
    assert outcome.reason == "ok"
    assert outcome.value is not None
    assert 0 < outcome.value <= 5.0


def test_late_work_is_dropped_and_told_to_stop() -> None:
    begun, stopped, release = threading.Event(), threading.Event(), threading.Event()
    clock = InjectedClock(before=begun)
    deadline = Deadline(1.0, clock)

    def late(guard: Deadline) -> str:
        begun.set()
        assert release.wait(60)
        if guard.is_over():
            stopped.set()
        return "too late"

    outcome = run_within(deadline, late)
    assert (outcome.value, outcome.reason) == (None, "timeout")
    assert clock.waits == [1.0]
    release.set()
    assert stopped.wait(60)
    assert deadline.left() == 0.0


def test_the_time_before_the_work_counts() -> None:
    clock = InjectedClock()
    deadline = Deadline(1.0, clock)
    clock.now += 0.75
    assert deadline.left() == pytest.approx(0.25)


def test_a_statement_that_hangs_is_interrupted() -> None:
    begun, ended = threading.Event(), threading.Event()
    connection = apsw.Connection(":memory:")

    def hang(guard: Deadline) -> None:
        try:
            with guard.interruptible(connection):
                begun.set()
                connection.execute(ENDLESS).fetchall()
        finally:
            ended.set()

    outcome = run_within(Deadline(1.0, InjectedClock(before=begun)), hang)
    assert outcome.reason == "timeout"
    assert ended.wait(60), "the endless statement was not interrupted"


def test_a_connection_that_was_given_back_is_never_interrupted() -> None:
    given_back, ask_again = threading.Event(), threading.Event()
    connection = apsw.Connection(":memory:")
    answers: list[object] = []

    def work(guard: Deadline) -> None:
        with guard.interruptible(connection):
            connection.execute("SELECT 1").fetchall()
        given_back.set()
        assert ask_again.wait(60)

    run_within(Deadline(1.0, InjectedClock(before=given_back)), work)
    # the next borrower's statement runs to its end
    answers.append(connection.execute("SELECT 2").get)
    ask_again.set()
    assert answers == [2]


def test_a_connection_named_after_the_end_is_refused() -> None:
    deadline = Deadline(1.0, Clock())
    deadline.expire()
    with pytest.raises(errors.Cancelled), deadline.interruptible(apsw.Connection(":memory:")):
        raise AssertionError("the work must not begin")


def test_cancelling_ends_the_wait_and_the_statement() -> None:
    begun, ended, cancelled = threading.Event(), threading.Event(), threading.Event()
    connection = apsw.Connection(":memory:")

    def hang(guard: Deadline) -> None:
        try:
            with guard.interruptible(connection):
                begun.set()
                connection.execute(ENDLESS).fetchall()
        finally:
            ended.set()

    def cancel() -> None:
        assert begun.wait(60)
        cancelled.set()

    threading.Thread(target=cancel, daemon=True).start()
    outcome = run_within(Deadline(60.0, Clock(), cancelled), hang)
    assert (outcome.value, outcome.reason) == (None, "cancelled")
    assert ended.wait(60)


def test_what_was_cancelled_before_is_never_begun() -> None:
    cancelled = threading.Event()
    cancelled.set()
    ran: list[int] = []
    assert run_within(Deadline(1.0, Clock(), cancelled), lambda _: ran.append(1)).reason == "cancelled"
    assert ran == []


def test_with_a_clock_that_stands_still_a_cancellable_wait_still_ends() -> None:
    class Still(Clock):
        def monotonic(self) -> float:
            return 0.0

    release = threading.Event()
    outcome = run_within(Deadline(0.1, Still(), threading.Event()), lambda _: release.wait(60))
    release.set()
    assert outcome.reason == "timeout"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (errors.IndexUnavailable("secret words"), "recall skipped (index_unavailable)"),
        (ValueError("secret words"), "recall skipped (ValueError)"),
        (apsw.SQLError("secret words"), "recall skipped (SQLError)"),
    ],
)
def test_an_error_is_an_outcome_that_names_its_code_and_no_text(error: Exception, said: str) -> None:
    def fail(_: Deadline) -> None:
        raise error

    outcome = run_within(Deadline(5.0, Clock()), fail)
    assert (outcome.reason, outcome.warnings) == ("error", (said,))


def test_an_error_that_comes_when_the_time_is_over_is_late_and_no_error() -> None:
    """The work that saw the end for itself and gave up in its own way is not reported as broken."""
    clock = InjectedClock()

    def gives_up(guard: Deadline) -> None:
        clock.now += 1.0
        assert guard.is_over()
        raise AssertionError("nobody waits for this")

    assert run_within(Deadline(0.05, clock), gives_up).reason == "timeout"


def test_works_that_cannot_be_stopped_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "_RUNNING", threading.BoundedSemaphore(2))
    release = threading.Event()
    stuck = [run_within(Deadline(0.01, Clock()), lambda _: release.wait(60)) for _ in range(2)]
    assert [outcome.reason for outcome in stuck] == ["timeout", "timeout"]
    refused = run_within(Deadline(5.0, Clock()), lambda _: 1)
    assert (refused.reason, refused.warnings) == ("error", ("recall skipped (overloaded)",))
    release.set()
    for _ in range(3_000):
        if run_within(Deadline(5.0, Clock()), lambda _: 1).reason == "ok":
            return
        time.sleep(0.02)
    raise AssertionError("a work that ended did not make room")


def test_a_thread_that_cannot_start_gives_its_place_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "_RUNNING", threading.BoundedSemaphore(1))

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        assert run_within(Deadline(5.0, Clock()), lambda _: 1).warnings == ("recall skipped (no thread)",)
    assert run_within(Deadline(5.0, Clock()), lambda _: 1).value == 1
