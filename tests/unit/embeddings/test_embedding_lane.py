"""The lane: calls that may never come back, and callers that go on without them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from memory_sqlite.embeddings.lane import Lane

LONG = 30.0


@pytest.fixture
def lane() -> Iterator[Lane]:
    made = Lane("test")
    yield made
    made.close()


def test_calls_are_made_one_after_the_other(lane: Lane) -> None:
    """In their order, in a thread of their own that lives on after an exception."""
    threads: list[int] = []

    def call(number: int) -> int:
        threads.append(threading.get_ident())
        if number == 1:
            raise SystemExit(3)
        return number

    jobs = [lane.submit(lambda number=number: call(number)) for number in range(3)]  # type: ignore[misc]
    assert [lane.wait(job, LONG) for job in jobs] == ["done"] * 3
    assert (jobs[0].result(), jobs[2].result()) == (0, 2)
    with pytest.raises(RuntimeError, match="SystemExit"):
        jobs[1].result()
    assert len(set(threads)) == 1
    assert threads[0] != threading.get_ident()


def test_where_a_job_was_when_it_was_given_up(lane: Lane, gate: threading.Event) -> None:
    """Running: the lane is stuck until it comes back. In line: it is never begun."""
    begun, called = threading.Event(), []

    def hang() -> str:
        begun.set()
        gate.wait(LONG)
        return "late"

    first, second = lane.submit(hang), lane.submit(lambda: called.append(2))
    assert begun.wait(LONG)
    assert not lane.stuck()
    assert lane.wait(second, 0.0) == "queued"
    assert lane.wait(first, 0.0) == "running"
    assert lane.stuck()
    third = lane.submit(lambda: called.append(3))
    gate.set()
    assert lane.wait(third, LONG) == "done"
    assert (called, lane.stuck()) == ([3], False)


def test_a_job_that_ended_in_the_last_moment_is_done(lane: Lane) -> None:
    """Its time over or not."""
    job = lane.submit(lambda: 7)
    assert job.done.wait(LONG)
    assert lane.wait(job, 0.0) == "done"
    assert job.result() == 7


def test_closing_lets_everybody_go(lane: Lane, gate: threading.Event) -> None:
    """Also those whose call hangs; what comes back late changes nothing, and nothing is begun any more."""
    begun = threading.Event()

    def hang() -> str:
        begun.set()
        gate.wait(LONG)
        return "late"

    jobs = [lane.submit(hang), lane.submit(lambda: 1)]
    assert begun.wait(LONG)
    lane.close()
    jobs.append(lane.submit(lambda: 2))
    thread = lane._thread
    assert thread is not None
    gate.set()
    thread.join(LONG)
    assert not thread.is_alive()
    for job in jobs:
        assert lane.wait(job, LONG) == "done"
        with pytest.raises(RuntimeError, match="closed"):
            job.result()
