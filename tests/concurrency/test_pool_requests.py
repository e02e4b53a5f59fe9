"""The pool answers, in order, in parallel, fairly, within its bounds, from threads and from an event loop."""

from __future__ import annotations

import asyncio
import queue
import threading
from typing import Any

import pytest

from memory_sqlite import errors
from memory_sqlite.limits import FRAME_MAX_BYTES
from memory_sqlite.processes import async_calls
from memory_sqlite.processes.frames import FrameTooLarge
from memory_sqlite.processes.gone import Gone
from memory_sqlite.processes.pending import WorkerDefect


def test_inv_059_an_answer_is_what_was_asked_with_its_bytes(make_kit: Any) -> None:
    """JSON of any text, lone surrogates and NUL included, and bytes come back as they were sent."""
    kit = make_kit()
    body = {"text": "héllo 今天 \ud800 \0 😀", "list": [1, 2.5, None, True]}
    answer, blob = kit.ask("echo", body, blob=bytes(range(256))).result()
    assert answer["body"] == body
    assert blob == bytes(range(256))


def test_inv_059_frames_near_the_bound_cross_in_both_directions_at_once(make_kit: Any) -> None:
    """A large request whose answer is as large blocks neither side: each reads while it writes."""
    kit = make_kit(workers=2)
    blob = b"x" * (FRAME_MAX_BYTES - 1000)
    pending = [kit.ask("echo", {"n": n}, blob=blob) for n in range(6)]
    assert [(p.result()[0]["body"]["n"], len(p.result()[1])) for p in pending] == [(n, len(blob)) for n in range(6)]


def test_inv_011_never_more_at_once_than_workers_and_first_come_first_served(make_kit: Any) -> None:
    """Two workers, two requests at their gates: the third waits, and begins when one of them is through."""
    kit = make_kit(workers=2)
    first, gate = kit.begin("wait")
    second, other = kit.begin("wait")
    third, fourth = kit.ask("echo"), kit.ask("echo")
    assert (first.state, second.state, third.state, fourth.state) == ("running", "running", "queued", "queued")
    kit.open(gate)
    assert third.result()[0]["pid"] == first.result()[0]["pid"]
    fourth.result()
    assert second.state == "running"
    kit.open(other)
    assert second.result()[0]["pid"] != first.result()[0]["pid"]


def test_inv_023_requests_about_one_place_run_beside_each_other_and_a_queued_one_leaves(make_kit: Any) -> None:
    """Nothing is serialised for a database: both workers work on it at once. One that waits for them and is cancelled
    disturbs neither."""
    kit = make_kit(workers=2)
    first, gate = kit.begin("wait", place="a")
    second, other = kit.begin("wait", place="a")
    queued = kit.ask("echo", place="a")
    queued.cancel()
    with pytest.raises(errors.Cancelled):
        queued.result()
    assert (first.state, second.state) == ("running", "running")
    kit.open(gate)
    kit.open(other)
    assert first.result()[0]["pid"] != second.result()[0]["pid"]
    assert kit.pool.describe()["lost"] == 0


def test_inv_011_owners_take_turns(make_kit: Any) -> None:
    """One agent with many requests delays another agent's by one request, not by all of them."""
    kit = make_kit()
    running, gate = kit.begin("wait", owner="loud")
    order: queue.SimpleQueue[str] = queue.SimpleQueue()
    owners = ("loud", "loud", "loud", "quiet", "third")
    for owner in owners:
        kit.ask("echo", owner=owner).when_done(lambda owner=owner: order.put(owner))
    kit.open(gate)
    running.result()
    # a callback may come a moment after whoever waits for the result has it
    assert [order.get(timeout=60) for _ in owners] == ["loud", "quiet", "third", "loud", "loud"]


def test_inv_016_over_the_count_is_refused_at_once_and_accepted_when_load_drops(make_kit: Any) -> None:
    """Waiting and running requests count together; the refusal is typed and retryable, and nothing was done."""
    kit = make_kit(pending=3)
    running, gate = kit.begin("wait")
    waiting = [kit.ask("echo"), kit.ask("echo")]
    with pytest.raises(errors.Overloaded):
        kit.ask("echo")
    kit.open(gate)
    for one in (running, *waiting):
        one.result()
    assert kit.ask("echo").result()
    assert kit.pool.describe()["pending"] == 0


def test_inv_016_over_the_bytes_is_refused_at_once(make_kit: Any) -> None:
    """What waits is bounded by size as well."""
    kit = make_kit(pending_bytes=100_000)
    running, gate = kit.begin("wait")
    waiting = kit.ask("echo", blob=bytes(60_000))
    with pytest.raises(errors.Overloaded):
        kit.ask("echo", blob=bytes(60_000))
    kit.open(gate)
    assert running.result() and waiting.result()
    assert kit.ask("echo", blob=bytes(60_000)).result()


def test_inv_027_an_oversized_request_disturbs_nobody(make_kit: Any) -> None:
    """It is refused before it is sent: the worker that was there stays, and no worker is started for it."""
    kit = make_kit()
    with pytest.raises(FrameTooLarge):
        kit.ask("echo", blob=bytes(FRAME_MAX_BYTES))
    assert kit.pool.describe()["pids"] == []
    pid = kit.ask("echo").result()[0]["pid"]
    with pytest.raises(FrameTooLarge):
        kit.ask("echo", blob=bytes(FRAME_MAX_BYTES))
    assert kit.ask("echo").result()[0]["pid"] == pid


def test_inv_033_an_oversized_answer_is_an_error_and_the_worker_stays(make_kit: Any) -> None:
    """One huge row cannot exceed the bound of a frame, nor end the worker."""
    kit = make_kit()
    with pytest.raises(FrameTooLarge):
        kit.ask("large", {"size": FRAME_MAX_BYTES}).result()
    pid = kit.pid()
    assert len(kit.ask("large", {"size": FRAME_MAX_BYTES - 1000}).result()[1]) == FRAME_MAX_BYTES - 1000
    assert kit.pid() == pid


def test_errors_of_a_worker_are_the_catalogue_and_the_worker_stays(make_kit: Any) -> None:
    """A typed error arrives as itself, ``Gone`` too; a defect names the exception and carries none of its words."""
    kit = make_kit()
    with pytest.raises(errors.IndexUnavailable, match="no index"):
        kit.ask("fail", {"how": "typed"}).result()
    pid = kit.pid()
    with pytest.raises(Gone):
        kit.ask("fail", {"how": "gone"}).result()
    with pytest.raises(WorkerDefect, match="KeyError") as caught:
        kit.ask("fail", {"how": "defect"}).result()
    assert "secret" not in str(caught.value)
    with pytest.raises(WorkerDefect):
        kit.ask("no such kind").result()
    assert kit.pid() == pid


def test_what_a_worker_prints_is_not_taken_for_an_answer(make_kit: Any) -> None:
    """Stray output, also raw, goes elsewhere."""
    kit = make_kit()
    assert kit.ask("printing").result() == ({}, b"")
    assert kit.ask("echo").result()


def test_a_worker_that_has_the_place_open_is_preferred(make_kit: Any) -> None:
    """Caches are warm where the generation was asked before."""
    kit = make_kit(workers=2)
    first, gate = kit.begin("wait", place="a")
    second, other = kit.begin("wait", place="b")
    kit.open(gate)
    kit.open(other)
    by_place = {"a": first.result()[0]["pid"], "b": second.result()[0]["pid"]}
    for place in ("a", "b", "b", "a", "a", "b"):
        assert kit.ask("echo", place=place).result()[0]["pid"] == by_place[place]


def test_many_threads_ask_at_once(make_kit: Any) -> None:
    """Each thread gets its own answers."""
    kit = make_kit(workers=2)
    wrong: list[object] = []

    def ask(thread: int) -> None:
        for n in range(40):
            answer = kit.ask("echo", {"me": [thread, n]}, owner=str(thread)).result()[0]
            if answer["body"] != {"me": [thread, n]}:
                wrong.append(answer)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert kit.pool.describe()["pending"] == 0


def test_tell_reaches_every_worker_before_what_waits(make_kit: Any) -> None:
    """What is meant for each worker is asked of each, after what it is doing and before the queue."""
    kit = make_kit(workers=2)
    running, gate = kit.begin("wait")
    second, other = kit.begin("wait")
    order: queue.SimpleQueue[str] = queue.SimpleQueue()
    queued = [kit.ask("echo") for _ in range(2)]
    for one in queued:
        one.when_done(lambda: order.put("queued"))
    told = kit.pool.tell("echo", {"told": True}, lambda answer, blob: answer["pid"])
    for one in told:
        one.when_done(lambda: order.put("told"))
    kit.open(gate)
    running.result()
    assert len(told) == 2
    for one in queued:
        one.result()
    kit.open(other)
    second.result()
    assert len({one.result() for one in told}) == 2
    assert order.get(timeout=60) == "told"


def test_answers_are_awaited_from_an_event_loop(make_kit: Any) -> None:
    """Several at once; errors arrive as errors."""
    kit = make_kit(workers=2)

    async def ask() -> list[int]:
        answers = await asyncio.gather(*(async_calls.outcome(kit.ask("echo", {"n": n})) for n in range(20)))
        with pytest.raises(errors.IndexUnavailable):
            await async_calls.outcome(kit.ask("fail", {"how": "typed"}))
        return [answer["body"]["n"] for answer, _ in answers]

    assert asyncio.run(ask()) == list(range(20))


def test_a_cancelled_task_ends_when_the_worker_is_free(make_kit: Any) -> None:
    """The task does not end while its request still runs, and the next request gets the same worker."""
    kit = make_kit()

    async def ask() -> None:
        pending, _ = await asyncio.to_thread(kit.begin, "polite")
        task = asyncio.create_task(async_calls.outcome(pending))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert pending.state == "done"

    pid = kit.ask("echo").result()[0]["pid"]
    asyncio.run(ask())
    assert kit.ask("echo").result()[0]["pid"] == pid
