"""Work that must be over in time: done in a thread of its own, interrupted when it is late, its late result dropped.

Not here: what the work is (``recall.block``). The caller's thread never touches a database, so nothing that hangs in
one can hold it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Generic, Literal, TypeVar

from memory_sqlite import errors, limits
from memory_sqlite.agent.deadline import Deadline
from memory_sqlite.values import dataclass

T = TypeVar("T")
Reason = Literal["ok", "timeout", "error", "cancelled"]

_RUNNING: Final = threading.BoundedSemaphore(limits.RECALLS_AT_ONCE_MAX)


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """What came of it: a value, or ``None`` and the reason."""

    value: T | None
    reason: Reason
    warnings: tuple[str, ...] = ()


def run_within(deadline: Deadline, work: Callable[[Deadline], T]) -> Outcome[T]:
    """Run ``work`` in a thread and wait no longer than the deadline; a late result is dropped, never used.

    Nothing that the work raises comes out of here: an error is an outcome that names its code, never its text.
    """
    done = threading.Event()
    box: list[Outcome[T]] = []

    def guarded() -> None:
        try:
            box.append(Outcome(work(deadline), "ok"))
        except errors.Cancelled:  # it saw for itself that the time was over, before the one who waits did
            box.append(_late())
        except errors.MemorySqliteError as error:
            box.append(Outcome(None, "error", (f"recall skipped ({error.code})",)))
        except Exception as error:  # a reply must never be blocked by a defect in recall
            box.append(Outcome(None, "error", (f"recall skipped ({type(error).__name__})",)))
        finally:
            _RUNNING.release()
            done.set()

    if deadline.is_cancelled():
        return Outcome(None, "cancelled")
    if not _RUNNING.acquire(blocking=False):
        return Outcome(None, "error", ("recall skipped (overloaded)",))
    try:
        threading.Thread(target=guarded, name="memory-sqlite-recall", daemon=True).start()
    except RuntimeError:  # no more threads: the reply goes on without recall
        _RUNNING.release()
        return Outcome(None, "error", ("recall skipped (no thread)",))
    finished = deadline.wait(done)
    if deadline.is_cancelled():
        deadline.expire()
        return Outcome(None, "cancelled")
    if not finished:
        deadline.expire()
        return _late()
    if box[0].reason == "error" and deadline.is_over():  # a late error is dropped as a late result is
        return _late()
    return box[0]


def _late() -> Outcome[T]:
    return Outcome(None, "timeout", ("recall skipped (timeout)",))
