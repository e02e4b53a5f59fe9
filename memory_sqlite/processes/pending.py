"""A request on its way: what the caller holds in its hand.

Like a future, with one difference: cancelling is a request too, and the outcome is told only when the worker is free
again or gone, so that whoever was told can rely on nothing running any more. Made by ``pool``; awaited by its callers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, Literal, Protocol

from memory_sqlite import errors
from memory_sqlite.limits import ABORT_POLL_S
from memory_sqlite.processes import checks
from memory_sqlite.processes.envelopes import Reply
from memory_sqlite.processes.frames import FrameTooLarge
from memory_sqlite.processes.gone import Gone

State = Literal["queued", "running", "done"]
Check = Callable[[dict[str, Any], bytes], Any]
"""Makes the answer of what a worker replied; raises ``WireError`` for anything that was not agreed."""

CANCELLED: Final = "the caller cancelled the request"
LATE: Final = "the deadline passed before the request was answered"


class WorkerDefect(RuntimeError):
    """A worker failed in a way that no error of the catalogue stands for: a mistake in this package."""


class Aborting(Protocol):
    """What says that nobody wants the answer any more: an event, or a deadline."""

    def is_set(self) -> bool: ...


class Pending:
    """One request. ``state`` and what the pool keeps here are guarded by the pool's lock; waiting needs none."""

    def __init__(
        self,
        cancel: Callable[[Pending, str], None],
        number: int,
        kind: str,
        data: bytes,
        *,
        owner: str,
        place: str | None,
        deadline: float | None,
        check: Check,
    ) -> None:
        self.number = number
        self.kind = kind
        self.size = len(data)
        self.data = data
        self.owner = owner
        self.place = place
        self.deadline = deadline
        self.check = check
        self.charged = False
        self.state: State = "queued"
        self.stopping: str | None = None
        """Why it is being stopped, once it is."""
        self._cancel = cancel
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[], None]] = []

    def cancel(self, reason: str = CANCELLED) -> None:
        """Ask for the end of it; returns at once. The outcome is then ``Cancelled``, unless it was there already."""
        self._cancel(self, reason)

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._done.is_set()

    def result(self, abort: Aborting | None = None) -> Any:
        """Wait for the outcome: the checked answer, or the error.

        When ``abort`` is set while this waits, the request is cancelled. Raises what became of it: ``Cancelled``,
        ``WorkerLost``, ``WorkerDefect``, ``Gone``, or the typed error that the worker met.
        """
        if abort is not None:
            while not self._done.wait(ABORT_POLL_S):
                if abort.is_set():
                    self.cancel()
                    break
        try:
            self._done.wait()
        except BaseException:  # Ctrl-C: nobody waits for it any more
            self.cancel()
            raise
        if self._error is not None:
            raise self._error
        return self._value

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call back once the outcome is known, from whichever thread knows it first; at once when it is known."""
        with self._lock:
            if not self._done.is_set():
                self._callbacks.append(callback)
                return
        callback()

    def finish(self, value: Any, error: BaseException | None) -> None:
        """The pool's word on what became of it; once, and without the pool's lock."""
        with self._lock:
            self._value, self._error = value, error
            self.data = b""
            self._done.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


def outcome(reply: Reply) -> tuple[dict[str, Any], bytes]:
    """The answer in a reply. Raises what it carries instead: a typed error, ``Gone``, ``FrameTooLarge``,
    ``WorkerDefect``; and ``WireError`` when it carries nothing that was agreed."""
    if reply.outcome == "ok":
        return reply.body, reply.blob
    if reply.outcome == "gone":
        raise Gone
    if reply.outcome == "large":
        raise FrameTooLarge("the answer is larger than one frame holds")
    if reply.outcome == "error":
        said = checks.fields(reply.body, {"code": checks.one_of(*errors.catalogue()), "message": checks.text})
        raise errors.catalogue()[said["code"]](said["message"])
    said = checks.fields(reply.body, {"exception": checks.text})
    raise WorkerDefect(f"a worker failed to answer {reply.kind!r} ({said['exception']})")
