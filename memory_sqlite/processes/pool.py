"""The pool: which worker gets which request, when one is started, stopped, killed or sent away.

One lock guards everything; nothing slow happens under it. Three kinds of threads meet here: callers, who submit and
wait; one reading thread for each worker, which takes its answer and hands it the next request; and one supervisor,
which alone starts workers and acts when a time has come (deadline, grace, idleness). Not here: pipes (``child``), the
queue (``fair``), accounts (``slots``), what is asked (``retrieval``, ``preparation``).
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Final

from memory_sqlite import errors, limits
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.processes import envelopes, frames
from memory_sqlite.processes.child import Child
from memory_sqlite.processes.command import Command, worker_command
from memory_sqlite.processes.envelopes import Reply, Request
from memory_sqlite.processes.fair import FairQueue
from memory_sqlite.processes.frames import WireError
from memory_sqlite.processes.pending import LATE, Check, Pending, outcome
from memory_sqlite.processes.slots import NEVER, Bounds, Slot, idle_slot, next_time, retirements

CLOSED: Final = "the pool was closed"
_Over = tuple[Pending, BaseException]


class Pool:
    """Workers of one kind. Free until it is used; end it with ``close``."""

    def __init__(
        self,
        worker: str,
        *,
        command: Command | None = None,
        bounds: Bounds | None = None,
        module: str | None = None,
        key: FileKey | None = None,
    ) -> None:
        """``worker`` is what the worker calls itself; it is the module of that name in ``memory_sqlite.workers``.

        ``key`` opens the files it reads; each worker gets it in its first frame.
        """
        self._worker = worker
        self._key = key
        self._command = command or worker_command(module or f"memory_sqlite.workers.{worker}")
        self._bounds = bounds or Bounds()
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._changed = threading.Condition(self._lock)
        self._wake_at = 0.0
        self._supervisor: threading.Thread | None = None
        self._queue = FairQueue(self._bounds.pending, self._bounds.pending_bytes)
        self._slots: list[Slot] = []
        self._number = 0
        self._warm = False
        self._failed_starts = 0
        self._failed_at = 0.0
        self._lost = 0
        self._closed = False
        self._owner = os.getpid()

    # --- asking --------------------------------------------------------------------------------------------------

    @property
    def available(self) -> bool:
        """Whether workers can be had here; if not, the caller does the work in its own process.

        Not where ``sys.executable`` is no Python, for a while after workers did not start several times in a row, and
        not in a forked copy of the process that made the pool.
        """
        if self._command is None or os.getpid() != self._owner:
            return False
        return (
            self._failed_starts < limits.WORKER_START_FAILURES_MAX
            or time.monotonic() > self._failed_at + limits.WORKER_START_RETRY_S
        )

    def warm(self, wait_s: float = 0.0) -> bool:
        """Start a worker if there is none; whether one is ready after at most ``wait_s`` seconds."""
        until = time.monotonic() + wait_s
        with self._lock:
            while not any(slot.state in ("idle", "busy") for slot in self._slots):
                if self._closed or not self.available:
                    return False
                if not self._slots:
                    self._warm = True
                    self._call_supervisor()
                left = until - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
            return True

    def submit(
        self,
        kind: str,
        body: dict[str, Any],
        check: Check,
        *,
        blob: bytes = b"",
        owner: str = "",
        place: str | None = None,
        deadline_s: float | None = None,
    ) -> Pending:
        """Ask; returns at once with the request in hand.

        ``check`` makes the answer of what the worker replied and raises ``WireError`` for anything that was not agreed;
        it runs in a thread of the pool. ``owner`` is on whose behalf (owners take turns), ``place`` what it is about (a
        worker that has it open is preferred).

        Raises ``Overloaded``, ``MemoryClosed``, ``FrameTooLarge``, ``WorkerLost`` when there are no workers here.
        """
        if deadline_s is not None:
            deadline_s = max(0.0, deadline_s)  # what is left may be less than nothing
        with self._lock:
            self._number += 1
            number = self._number
        data = frames.pack(envelopes.request(Request(number, kind, body, b"", deadline_s)), blob)
        now = time.monotonic()
        pending = Pending(
            self._stop,
            number,
            kind,
            data,
            owner=owner,
            place=place,
            deadline=None if deadline_s is None else now + deadline_s,
            check=check,
        )
        with self._lock:
            if self._closed:
                raise errors.MemoryClosed(CLOSED)
            if not self.available:
                raise errors.WorkerLost("no worker process can be had here")
            self._queue.admit(pending)
            slot = idle_slot(self._slots, place)
            if slot is not None:
                self._hand_out(slot)
            elif len(self._slots) < self._bounds.workers:
                self._call_supervisor()
            if pending.deadline is not None and pending.deadline < self._wake_at:
                self._call_supervisor()
        return pending

    def tell(self, kind: str, body: dict[str, Any], check: Check) -> list[Pending]:
        """Ask every worker there is, each when it is done with what it is doing; one request in hand for each.

        A worker that ends meanwhile is ``WorkerLost``.
        """
        asked = []
        with self._lock:
            if os.getpid() != self._owner:
                return []
            for slot in self._slots:
                if slot.state in ("idle", "busy"):
                    self._number += 1
                    data = frames.pack(envelopes.request(Request(self._number, kind, body)))
                    pending = Pending(
                        self._stop, self._number, kind, data, owner="", place=slot.place, deadline=None, check=check
                    )
                    slot.pinned.append(pending)
                    asked.append(pending)
                    if slot.state == "idle":
                        self._hand_out(slot)
        return asked

    def describe(self) -> dict[str, Any]:
        """For ``status``: whether workers can be had, those that are ready, what waits or runs, how many were lost."""
        with self._lock:
            return {
                "available": self.available,
                "pids": [slot.child.pid for slot in self._slots if slot.child and slot.state in ("idle", "busy")],
                "pending": self._queue.charged,
                "lost": self._lost,
            }

    def close(self) -> None:
        """End every worker and wait until they are gone; what was waiting or running is ``Cancelled``. Safe twice."""
        if os.getpid() != self._owner:
            return
        over: list[_Over] = []
        with self._lock:
            self._closed = True
            while (pending := self._queue.take()) is not None:
                over.append(self._over(pending, errors.Cancelled(CLOSED)))
            for slot in self._slots:
                if slot.job is not None:
                    slot.job.stopping = slot.job.stopping or CLOSED
                self._end(slot)
            self._call_supervisor()
        _finish(over)
        with self._lock:
            while self._slots:
                self._changed.wait()

    # --- under the lock ------------------------------------------------------------------------------------------

    def _hand_out(self, slot: Slot) -> bool:
        """Give a free worker its next request, or let it be idle; whether there was one."""
        job = slot.pinned.popleft() if slot.pinned else self._queue.take()
        slot.job, slot.kill_at, slot.since = job, NEVER, time.monotonic()
        slot.state = "idle" if job is None else "busy"
        if job is not None and slot.child is not None:
            job.state = "running"
            slot.place = job.place
            slot.child.send(job.data)
        return job is not None

    def _end(self, slot: Slot) -> None:
        """Send a worker away; it is killed when it is still there after the grace."""
        if slot.state != "ending":
            slot.state, slot.kill_at = "ending", time.monotonic() + self._bounds.grace_s
            if slot.child is not None:
                slot.child.end()

    def _over(self, pending: Pending, error: BaseException) -> _Over:
        pending.state = "done"
        if pending.charged:
            self._queue.discharge(pending)
        return pending, error

    def _call_supervisor(self) -> None:
        if self._supervisor is None:
            self._supervisor = threading.Thread(
                target=self._supervise, name=f"memory-sqlite {self._worker} pool", daemon=True
            )
            self._supervisor.start()
        self._wake_at = 0.0
        self._wake.notify()

    # --- callers: stopping -----------------------------------------------------------------------------------------

    def _stop(self, pending: Pending, reason: str) -> None:
        with self._lock:
            over = self._stop_locked(pending, reason)
        _finish(over)

    def _stop_locked(self, pending: Pending, reason: str) -> list[_Over]:
        if pending.state == "done" or pending.stopping is not None:
            return []
        pending.stopping = reason
        if pending.state == "running":
            slot = next(slot for slot in self._slots if slot.job is pending)
            if slot.child is not None and slot.state == "busy":
                slot.child.send_cancel(pending.number)
                slot.kill_at = time.monotonic() + self._bounds.grace_s
                if slot.kill_at < self._wake_at:
                    self._call_supervisor()
            return []
        for slot in self._slots:
            if pending in slot.pinned:
                slot.pinned.remove(pending)
                break
        else:
            self._queue.remove(pending)
        return [self._over(pending, errors.Cancelled(reason))]

    # --- reading threads -------------------------------------------------------------------------------------------

    def _greeted(self, slot: Slot) -> None:
        with self._lock:
            self._failed_starts = 0
            slot.greeted = True
            if slot.state == "starting":
                self._hand_out(slot)
            self._call_supervisor()
            self._changed.notify_all()

    def _replied(self, slot: Slot, reply: Reply) -> None:
        job = slot.job
        if job is None or (reply.id, reply.kind) != (job.number, job.kind):
            raise WireError("a reply to nothing that was asked")
        value, error = _judge(job, reply)
        with self._lock:
            if slot.state != "busy":
                return  # it is being ended; when it is gone its caller hears
            if job.stopping is not None:
                value, error = None, errors.Cancelled(job.stopping)
            job.state = "done"
            if job.charged:
                self._queue.discharge(job)
            if not self._hand_out(slot) and slot.since + self._bounds.spare_idle_s < self._wake_at:
                self._call_supervisor()
        job.finish(value, error)

    def _ended(self, slot: Slot, status: int | None) -> None:
        over: list[_Over] = []
        with self._lock:
            self._slots.remove(slot)
            if not slot.greeted and not self._closed:
                self._failed_starts += 1
                self._failed_at = time.monotonic()
            elif slot.state == "busy":
                self._lost += 1
            lost = errors.WorkerLost(f"the {self._worker} worker ended in the middle of a request (status {status})")
            if slot.job is not None:
                stopping = slot.job.stopping
                over.append(self._over(slot.job, lost if stopping is None else errors.Cancelled(stopping)))
            over += [self._over(pending, lost) for pending in slot.pinned]
            if not self.available:
                nowhere = errors.WorkerLost(f"the {self._worker} worker does not start (status {status})")
                while (pending := self._queue.take()) is not None:
                    over.append(self._over(pending, nowhere))
            self._call_supervisor()
            self._changed.notify_all()
        _finish(over)

    # --- the supervisor --------------------------------------------------------------------------------------------

    def _supervise(self) -> None:
        while True:
            with self._lock:
                over = self._act()
                wanted = self._wanted()
                if not over and not wanted:
                    if self._closed and not self._slots:
                        return
                    self._wake_at = next_time(self._slots, self._queue.waiting(), self._bounds)
                    left = self._wake_at - time.monotonic()
                    self._wake.wait(None if self._wake_at == NEVER else max(0.0, left))
                    self._wake_at = 0.0  # awake: whoever changes something need not call
                    continue
            _finish(over)
            for slot in wanted:
                self._start(slot)

    def _wanted(self) -> list[Slot]:
        """Workers to start now: for each request that waits one, up to the bound."""
        if self._closed or not self.available:
            return []
        starting = sum(slot.state == "starting" for slot in self._slots)
        need = max(len(self._queue.waiting()), int(self._warm and not self._slots)) - starting
        slots = [Slot(time.monotonic()) for _ in range(min(need, self._bounds.workers - len(self._slots)))]
        self._warm = False
        self._slots += slots
        return slots

    def _start(self, slot: Slot) -> None:
        assert self._command is not None, "only an available pool starts workers"
        try:
            child = Child(self._command, self._worker, self._key)
        except OSError as error:
            self._ended(slot, error.errno)
            return
        with self._lock:
            slot.child = child
            if slot.state == "ending":  # it is not wanted any more
                child.end()
                self._call_supervisor()
        child.listen(
            lambda: self._greeted(slot),
            lambda reply: self._replied(slot, reply),
            lambda status: self._ended(slot, status),
        )

    def _act(self) -> list[_Over]:
        """Whatever time has come for."""
        now = time.monotonic()
        over: list[_Over] = []
        for pending in self._queue.waiting():
            if pending.deadline is not None and pending.deadline <= now:
                over += self._stop_locked(pending, LATE)
        for slot in self._slots:
            job = slot.job
            if job is not None and job.deadline is not None and job.deadline <= now:
                self._stop_locked(job, LATE)
            if slot.kill_at <= now and slot.child is not None:
                slot.state, slot.kill_at = "ending", NEVER
                slot.child.kill()
            if slot.state == "starting" and slot.since + self._bounds.start_s <= now:
                self._end(slot)
        for slot, at in retirements(self._slots, self._bounds):
            if at <= now:
                self._end(slot)
        return over


def _judge(job: Pending, reply: Reply) -> tuple[Any, BaseException | None]:
    """The answer or the error in a reply. Raises ``WireError`` when it is neither."""
    try:
        return job.check(*outcome(reply)), None
    except WireError:
        raise
    except Exception as error:
        return None, error


def _finish(over: list[_Over]) -> None:
    for pending, error in over:
        pending.finish(None, error)
