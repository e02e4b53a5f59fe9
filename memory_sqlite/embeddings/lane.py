"""A thread of its own for calls that may never come back, so that whoever asked can go on without them.

Jobs are done one after the other. A caller waits for its job as long as it likes; a job given up while it waits in line
is never begun, and one given up while it runs leaves the lane *stuck* until the call comes back. Called by ``service``.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Literal

CLOSED: Final = "the lane is closed"


class Job:
    """A call on its way."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call = call
        self.done = threading.Event()
        self.value: Any = None
        self.error: Exception | None = None
        self.given_up = False

    def finish(self, value: Any, error: Exception | None) -> None:
        """Say what came of it; once, under the lane's lock."""
        self.value, self.error = value, error
        self.done.set()

    def result(self) -> Any:
        """What came of it, once ``done``. Raises what the call raised."""
        if self.error is not None:
            raise self.error
        return self.value


Outcome = Literal["done", "queued", "running"]


class Lane:
    """One daemon thread, started with the first job."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._waiting: deque[Job] = deque()
        self._running: Job | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def stuck(self) -> bool:
        """Whether the call that runs was given up by its caller."""
        with self._lock:
            return self._running is not None and self._running.given_up

    def submit(self, call: Callable[[], Any]) -> Job:
        """Put a call in line. In a closed lane it is over at once, with ``RuntimeError``."""
        job = Job(call)
        with self._lock:
            if self._closed:
                job.finish(None, RuntimeError(CLOSED))
                return job
            self._waiting.append(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"memory-sqlite {self._name}", daemon=True)
                self._thread.start()
            self._work.notify()
        return job

    def wait(self, job: Job, timeout_s: float) -> Outcome:
        """Wait for a job; after ``timeout_s`` it is given up, and where it was then is said."""
        if job.done.wait(timeout_s):
            return "done"
        with self._lock:
            if job.done.is_set():
                return "done"
            job.given_up = True
            if job is self._running:
                return "running"
            self._waiting.remove(job)  # not done and not running: it is in line
            return "queued"

    def close(self) -> None:
        """Let everybody go who waits, with ``RuntimeError``; the thread ends when the call that runs comes back."""
        with self._lock:
            self._closed = True
            if self._running is not None:
                self._running.given_up = True
                self._running.finish(None, RuntimeError(CLOSED))
            for job in self._waiting:
                job.finish(None, RuntimeError(CLOSED))
            self._waiting.clear()
            self._work.notify()

    def _run(self) -> None:
        while True:
            with self._lock:
                while not self._waiting:
                    if self._closed:
                        return
                    self._work.wait()
                job = self._running = self._waiting.popleft()
            value: Any = None
            error: Exception | None = None
            try:
                value = job.call()
            except Exception as failed:
                error = failed
            except BaseException as failed:  # a call that wants the program to end does not end this thread
                error = RuntimeError(type(failed).__name__)
            with self._lock:
                self._running = None
                if not job.done.is_set():
                    job.finish(value, error)
