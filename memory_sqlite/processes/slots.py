"""The workers of a pool as it keeps account of them, and when something is due. Guarded by the pool's lock."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from memory_sqlite import limits
from memory_sqlite.processes.child import Child
from memory_sqlite.processes.pending import Pending
from memory_sqlite.values import dataclass

NEVER: Final = float("inf")
State = Literal["starting", "idle", "busy", "ending"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a pool; ``limits`` has them with their reasons, tests have others."""

    workers: int = min(limits.WORKERS_MAX, os.cpu_count() or 1)
    pending: int = limits.POOL_PENDING_MAX
    pending_bytes: int = limits.POOL_PENDING_BYTES_MAX
    grace_s: float = limits.WORKER_KILL_GRACE_S
    start_s: float = limits.WORKER_START_S
    idle_s: float = limits.WORKER_IDLE_S
    spare_idle_s: float = limits.WORKER_SPARE_IDLE_S


class Slot:
    """One worker, from the decision to start it until its process was waited for."""

    def __init__(self, since: float) -> None:
        self.state: State = "starting"
        self.since = since
        """When it was started, got its last request, or became idle."""
        self.greeted = False
        self.child: Child | None = None
        self.job: Pending | None = None
        self.place: str | None = None
        """What its last request was about: it has that open."""
        self.pinned: deque[Pending] = deque()
        """Requests for this worker alone; they come before all others."""
        self.kill_at = NEVER


def idle_slot(slots: Iterable[Slot], place: str | None) -> Slot | None:
    """The idle worker that has the place open, else the one used last, so that spare ones become old."""
    idle = [slot for slot in slots if slot.state == "idle"]
    return max(idle, key=lambda slot: (slot.place == place, slot.since), default=None)


def retirements(slots: Sequence[Slot], bounds: Bounds) -> list[tuple[Slot, float]]:
    """When each idle worker is to go: the last one stays longest."""
    idle = sorted((slot for slot in slots if slot.state == "idle"), key=lambda slot: slot.since)
    others = any(slot.state in ("starting", "busy") for slot in slots)
    return [
        (slot, slot.since + (bounds.idle_s if slot is idle[-1] and not others else bounds.spare_idle_s))
        for slot in idle
    ]


def next_time(slots: Sequence[Slot], waiting: Iterable[Pending], bounds: Bounds) -> float:
    """When something is due next."""
    times = [pending.deadline for pending in waiting if pending.deadline is not None]
    for slot in slots:
        if slot.child is not None:
            times.append(slot.kill_at)
        if slot.job is not None and slot.job.deadline is not None and slot.job.stopping is None:
            times.append(slot.job.deadline)
        if slot.state == "starting":
            times.append(slot.since + bounds.start_s)
    times += [at for _, at in retirements(slots, bounds)]
    return min(times, default=NEVER)
