"""Calls of a server: bounded, told of, given up; and what a write does that was given up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from memory_sqlite import errors, limits
from memory_sqlite.server.calls import Calls


@pytest.fixture
def calls() -> Iterator[Calls]:
    made = Calls()
    yield made
    made.close()


def test_stages_are_told_in_order_before_the_result(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SERVE_PROGRESS_EVERY_S", 3_600.0)
    heard: list[tuple[float, str]] = []

    async def report(step: float, stage: str) -> None:
        heard.append((step, stage))

    def work(cancelled: threading.Event, tell: object) -> int:
        assert callable(tell)
        tell("first")
        tell("second")
        return 7

    assert asyncio.run(calls.run(work, report)) == 7
    assert heard == [(1, "first"), (2, "second")]


def test_a_long_call_says_that_it_goes_on(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work ends once that was said twice: no clock decides."""
    monkeypatch.setattr(limits, "SERVE_PROGRESS_EVERY_S", 0.001)
    twice = threading.Event()
    heard: list[str] = []

    async def report(step: float, stage: str) -> None:
        heard.append(stage)
        if len(heard) == 2:
            twice.set()

    assert asyncio.run(calls.run(lambda cancelled, tell: twice.wait(60), report)) is True
    assert heard[:2] == ["still at it", "still at it"]


def test_what_is_raised_is_raised_and_frees_the_place(calls: Calls) -> None:
    def work(cancelled: threading.Event, tell: object) -> None:
        raise errors.InvalidArgument("no")

    for _ in range(limits.SERVE_CALLS_MAX + 1):
        with pytest.raises(errors.InvalidArgument):
            asyncio.run(calls.run(work))


def test_one_too_many_is_refused_at_once_and_none_is_lost(calls: Calls) -> None:
    go = threading.Event()

    async def many() -> list[bool]:
        waiting = [
            asyncio.ensure_future(calls.run(lambda cancelled, tell: go.wait(60))) for _ in range(limits.SERVE_CALLS_MAX)
        ]
        await asyncio.sleep(0)  # each has asked for its place
        with pytest.raises(errors.Overloaded):
            await calls.run(lambda cancelled, tell: True)
        go.set()
        return await asyncio.gather(*waiting)

    assert asyncio.run(many()) == [True] * limits.SERVE_CALLS_MAX


def test_a_call_that_was_given_up_is_told_so_and_ends_by_itself(calls: Calls) -> None:
    """What had begun goes to its end, with the event set; what had not is dropped."""
    begun, ended = threading.Event(), threading.Event()
    dropped: list[int] = []
    go = threading.Event()

    def work(cancelled: threading.Event, tell: object) -> None:
        begun.set()
        assert cancelled.wait(60)
        ended.set()

    async def give_up() -> None:
        running = asyncio.ensure_future(calls.run(work))
        await asyncio.to_thread(begun.wait, 60)
        fillers = [
            asyncio.ensure_future(calls.run(lambda cancelled, tell: go.wait(60)))
            for _ in range(limits.SERVE_THREADS - 1)
        ]
        await asyncio.sleep(0)
        queued = asyncio.ensure_future(calls.run(lambda cancelled, tell: dropped.append(1)))
        await asyncio.sleep(0)
        for one in (queued, running):
            one.cancel()
            with pytest.raises(asyncio.CancelledError):
                await one
        assert await asyncio.to_thread(ended.wait, 60)
        go.set()
        await asyncio.gather(*fillers)

    asyncio.run(give_up())
    calls.close()
    assert dropped == []


def test_closing_waits_for_what_runs_and_refuses_the_rest(calls: Calls) -> None:
    begun, done = threading.Event(), threading.Event()

    def work(cancelled: threading.Event, tell: object) -> None:
        begun.set()
        cancelled.wait(60)
        done.set()

    async def leave() -> None:
        running = asyncio.ensure_future(calls.run(work))
        await asyncio.to_thread(begun.wait, 60)
        running.cancel()

    asyncio.run(leave())
    calls.close()
    assert done.is_set()
    with pytest.raises(errors.MemoryClosed):
        asyncio.run(calls.run(lambda cancelled, tell: None))
