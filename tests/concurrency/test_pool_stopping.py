"""Cancelling, deadlines and deaths: what the caller hears, when, and what becomes of everybody else."""

from __future__ import annotations

import os
import queue
import select
import signal
import threading
from typing import Any

import pytest

from memory_sqlite import errors
from memory_sqlite.processes import envelopes, frames
from memory_sqlite.processes.child import Child
from memory_sqlite.processes.envelopes import Request
from memory_sqlite.processes.pending import LATE

FULL_PIPE_BYTES = 1 << 16
"""What a pipe takes on Linux; elsewhere a request of this size does not fill it, or is killed while it is written."""
LONG_S = 60.0
"""A grace that no test waits for: with it, an end that came was not a kill. So long anything else is waited for."""


def test_inv_005_inv_014_a_queued_request_that_is_cancelled_is_never_sent(make_kit: Any) -> None:
    """It ends at once, the running one is not disturbed, whoever stood behind it moves up, and what it held of the
    bounds is free."""
    kit = make_kit(pending=3)
    running, gate = kit.begin("wait")
    begun = kit.pipe()
    queued = kit.ask("wait", {"begun": begun, "gate": begun})
    behind = kit.ask("echo")
    with pytest.raises(errors.Overloaded):
        kit.ask("echo")
    queued.cancel()
    with pytest.raises(errors.Cancelled):
        queued.result()
    assert (running.state, behind.state) == ("running", "queued")
    after = kit.ask("echo")
    kit.open(gate)
    pids = {one.result()[0]["pid"] for one in (running, behind, after)}
    assert len(pids) == 1, "one worker did all three, so that nothing else was ever sent to it"


def test_inv_014_a_queued_request_whose_deadline_passes_is_never_sent(make_kit: Any) -> None:
    """The same by time."""
    kit = make_kit()
    running, gate = kit.begin("wait")
    queued = kit.ask("wait", {"begun": kit.pipe(), "gate": ""}, deadline_s=0.01)
    with pytest.raises(errors.Cancelled, match=LATE):
        queued.result()
    assert running.state == "running"
    kit.open(gate)
    running.result()
    assert kit.ask("echo").result()


@pytest.mark.parametrize("left", [0.0, -5.0])
def test_a_deadline_that_has_passed_is_heard_as_such(make_kit: Any, left: float) -> None:
    """A caller that computes what is left may arrive late; nothing breaks, and no worker is lost for it."""
    kit = make_kit()
    kit.ask("echo").result()
    with pytest.raises(errors.Cancelled):
        kit.ask("polite", {"begun": kit.pipe()}, deadline_s=left).result()
    assert kit.ask("echo").result()
    assert kit.pool.describe()["lost"] == 0


@pytest.mark.parametrize("kind", ["polite", "endless", "between"])
def test_inv_025_a_running_request_that_is_cancelled_stops_and_its_worker_stays(make_kit: Any, kind: str) -> None:
    """Loops look, statements are interrupted, and an interrupt that fell between two of them comes again."""
    kit = make_kit(grace_s=LONG_S)
    running, _ = kit.begin(kind)
    pid = kit.pid()
    running.cancel()
    with pytest.raises(errors.Cancelled):
        running.result()
    assert kit.ask("echo").result()[0]["pid"] == pid


@pytest.mark.parametrize("kind", ["polite", "endless", "between"])
def test_a_running_request_whose_deadline_passes_stops_and_its_worker_stays(make_kit: Any, kind: str) -> None:
    """The deadline is kept by both sides; whichever sees it first, the caller hears the same."""
    kit = make_kit(grace_s=LONG_S)
    pid = kit.ask("echo").result()[0]["pid"]
    running, _ = kit.begin(kind, deadline_s=0.1)
    with pytest.raises(errors.Cancelled):
        running.result()
    assert kit.ask("echo").result()[0]["pid"] == pid


def test_inv_013_what_does_not_stop_is_killed_before_anybody_else_begins(make_kit: Any, ended: Any) -> None:
    """The caller hears when the worker is gone, not before; the next request gets another one."""
    kit = make_kit()
    running, _ = kit.begin("wait")
    pid = kit.pid()
    seen: queue.SimpleQueue[bool] = queue.SimpleQueue()
    running.when_done(lambda: seen.put(ended(pid, 0)))
    after = kit.ask("echo")
    running.cancel()
    with pytest.raises(errors.Cancelled):
        running.result()
    assert seen.get(timeout=LONG_S)
    assert after.result()[0]["pid"] != pid
    assert kit.pool.describe()["lost"] == 0


def test_inv_017_a_cancelled_request_is_charged_until_its_worker_is_free(make_kit: Any) -> None:
    """Cancelling does not make room for more work than the workers can do."""
    kit = make_kit(pending=1, grace_s=LONG_S)
    running, gate = kit.begin("wait")
    running.cancel()
    assert not running.done()
    with pytest.raises(errors.Overloaded):
        kit.ask("echo")
    kit.open(gate)
    with pytest.raises(errors.Cancelled):
        running.result()
    assert kit.ask("echo").result()


def test_inv_006_an_answer_that_comes_after_the_cancel_is_dropped(make_kit: Any) -> None:
    """Who cancelled hears ``Cancelled``, whatever the worker had ready."""
    kit = make_kit(grace_s=LONG_S)
    running, gate = kit.begin("wait")
    running.cancel()
    kit.open(gate)
    with pytest.raises(errors.Cancelled):
        running.result()


def test_a_cancel_that_comes_too_late_hits_nobody_else(make_kit: Any) -> None:
    """Cancelling what is done changes nothing, neither it nor what the worker does now."""
    kit = make_kit(grace_s=LONG_S)
    done = kit.ask("echo")
    answer = done.result()
    running, gate = kit.begin("wait")
    done.cancel()
    assert done.result() == answer
    kit.open(gate)
    assert running.result()


def test_an_abort_event_cancels_the_request_of_the_thread_that_waits(make_kit: Any) -> None:
    """The handle that hosts have: an event that another thread sets."""
    kit = make_kit(grace_s=LONG_S)
    running, _ = kit.begin("endless")
    abort = threading.Event()
    heard: list[BaseException] = []

    def wait() -> None:
        try:
            running.result(abort)
        except errors.Cancelled as error:
            heard.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    abort.set()
    thread.join()
    assert len(heard) == 1


def test_a_worker_killed_in_the_middle_fails_that_request_alone(make_kit: Any) -> None:
    """Typed, retryable, and the next request has a new worker; the other worker does not notice."""
    kit = make_kit(workers=2)
    first, _ = kit.begin("wait")
    pid = kit.pid()
    second, other = kit.begin("wait")
    queued = kit.ask("echo")
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(errors.WorkerLost) as caught:
        first.result()
    assert caught.value.retryable
    assert queued.result()[0]["pid"] != pid
    kit.open(other)
    assert second.result()[0]["pid"] != pid
    assert kit.pool.describe()["lost"] == 1


@pytest.mark.parametrize("kind", ["die", "leave"])
def test_inv_015_a_worker_that_ends_without_an_answer_is_lost(make_kit: Any, kind: str) -> None:
    """Also when it ends cleanly, with exit status 0."""
    kit = make_kit()
    with pytest.raises(errors.WorkerLost):
        kit.ask(kind).result()
    assert kit.ask("echo").result()


def test_inv_029_a_worker_that_died_idle_is_replaced(make_kit: Any, ended: Any) -> None:
    """Nobody's request fails for it, or at most as ``WorkerLost`` when it was sent to the dying one."""
    kit = make_kit()
    pid = kit.ask("echo").result()[0]["pid"]
    os.kill(pid, signal.SIGKILL)
    assert ended(pid)
    try:
        assert kit.ask("echo").result()[0]["pid"] != pid
    except errors.WorkerLost:
        assert kit.ask("echo").result()[0]["pid"] != pid


@pytest.mark.parametrize(
    "how", ["id", "kind", "outcome", "field", "answer", "error", "size", "garbage", "json", "half"]
)
def test_inv_018_a_worker_that_answers_wrongly_is_retired(make_kit: Any, ended: Any, how: str) -> None:
    """Wrong id, kind, shape or size: that request fails, the worker is gone, the next request has a new one."""
    kit = make_kit(rogue=how)

    def check(answer: dict[str, Any], blob: bytes) -> bool:
        from memory_sqlite.processes import checks

        right: bool = checks.fields(answer, {"right": checks.truth})["right"]
        return right

    assert kit.pool.submit("echo", {"well": True}, check).result() is True
    pid = kit.pid()
    with pytest.raises(errors.WorkerLost):
        kit.pool.submit("echo", {}, check).result()
    assert ended(pid, 0)
    assert kit.pool.submit("echo", {"well": True}, check).result() is True
    assert kit.pid() != pid


def test_inv_018_a_worker_that_answers_what_it_has_not_read_is_retired(make_kit: Any) -> None:
    """Its pipe is full for ever: whoever was given to it next would wait within the pool's lock, and then everybody."""
    kit = make_kit(rogue="early")
    first, second = (kit.ask("echo", blob=bytes(1 << 20)) for _ in range(2))
    for pending in (first, second):
        with pytest.raises(errors.WorkerLost):
            pending.result()


def test_inv_013_a_worker_that_stands_still_with_a_full_pipe_is_killed(make_kit: Any) -> None:
    """The word that it shall stop finds no room in the pipe; nobody waits for that."""
    kit = make_kit()
    kit.ask("echo").result()
    os.kill(kit.pid(), signal.SIGSTOP)
    left = len(frames.pack(envelopes.request(Request(2, "echo", {}, b"", 0.5))))
    pending = kit.ask("echo", blob=bytes(FULL_PIPE_BYTES - left), deadline_s=0.5)
    assert pending.size == FULL_PIPE_BYTES
    with pytest.raises(errors.Cancelled, match=LATE):
        pending.result()
    assert kit.ask("echo").result()


@pytest.mark.parametrize("how", ["unasked", "twice"])
def test_inv_028_words_that_nobody_asked_for_retire_a_worker(
    make_kit: Any, ended: Any, noticed: Any, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """While it should be idle a worker has nothing to say; what it says is never taken for a later answer."""
    kit = make_kit(rogue=how)
    started: queue.SimpleQueue[int] = queue.SimpleQueue()
    real = Child.listen

    def listen(child: Child, *callbacks: Any) -> None:
        started.put(child.pid)
        real(child, *callbacks)

    monkeypatch.setattr(Child, "listen", listen)
    if how == "twice":
        assert kit.ask("echo", {"well": False}).result()
    else:
        kit.pool.warm(LONG_S)
    pid = started.get(timeout=LONG_S)
    assert ended(pid)
    assert noticed(kit.pool, [pid])
    assert kit.pool.describe()["pids"] == []


@pytest.mark.parametrize("how", ["no start", "greeting"])
def test_inv_021_workers_that_do_not_start_make_the_pool_unavailable(make_kit: Any, how: str) -> None:
    """After a few attempts callers hear at once that there are no workers here, and read for themselves."""
    kit = make_kit(rogue=how)
    assert kit.pool.available
    with pytest.raises(errors.WorkerLost):
        kit.ask("echo").result()
    assert not kit.pool.available
    assert not kit.pool.warm(1)
    with pytest.raises(errors.WorkerLost):
        kit.ask("echo")
    assert kit.pool.describe()["pending"] == 0


def test_closing_ends_everything(make_kit: Any, ended: Any) -> None:
    """Running, waiting and idle: callers hear, processes are gone when ``close`` returns; twice is once."""
    kit = make_kit(workers=2)
    running, _ = kit.begin("wait")
    idle = kit.begin("wait")
    kit.open(idle[1])
    idle[0].result()
    pids = kit.pool.describe()["pids"]
    second, _ = kit.begin("endless")
    queued = kit.ask("echo")
    kit.pool.close()
    assert all(ended(pid, 0) for pid in pids)
    for pending in (running, second, queued):
        with pytest.raises(errors.Cancelled):
            pending.result()
    with pytest.raises(errors.MemoryClosed):
        kit.ask("echo")
    kit.pool.close()


def first_ended(*pids: int) -> int:
    """Which of these processes ends first."""
    poll = select.poll()
    by_descriptor = {os.pidfd_open(pid): pid for pid in pids}
    for descriptor in by_descriptor:
        poll.register(descriptor, select.POLLIN)
    try:
        return by_descriptor[poll.poll(LONG_S * 1000)[0][0]]
    finally:
        for descriptor in by_descriptor:
            os.close(descriptor)


def test_inv_019_idle_workers_retire_spare_ones_first(make_kit: Any) -> None:
    """A spare worker goes soon, the last one later."""
    kit = make_kit(workers=2, spare_idle_s=0.05, idle_s=600.0)
    first, gate = kit.begin("wait")
    second, other = kit.begin("wait")
    kit.open(gate)
    kit.open(other)
    pids = {one.result()[0]["pid"] for one in (first, second)}
    assert len(pids) == 2
    spare = first_ended(*pids)
    last = (pids - {spare}).pop()
    assert kit.ask("echo").result()[0]["pid"] == last


def test_inv_019_the_last_idle_worker_retires_too_and_another_is_started(make_kit: Any, ended: Any) -> None:
    """After long enough nothing is left, and the pool still answers."""
    kit = make_kit(idle_s=0.05)
    pid = kit.ask("echo").result()[0]["pid"]
    assert ended(pid)
    assert kit.ask("echo").result()[0]["pid"] != pid
