"""A process that kills itself in the middle of a run of retention: at the n-th call of one of its functions.

``python child_retention_kill.py DATA POINT NUMBER NOW``: ``POINT`` is one of ``POINTS``, ``NOW`` the clock's ms. Prints
``reached`` never: either it is killed, or it prints ``done`` because there was no such call.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from memory_sqlite import Memory, limits
from memory_sqlite.clock import FixedClock
from memory_sqlite.config import Settings
from memory_sqlite.forgetting import compact, generations, proof, rows
from memory_sqlite.retention import expiring

POINTS: dict[str, tuple[Any, str, bool]] = {
    "before a batch": (expiring, "step", False),
    "within a transaction": (rows, "owe", False),
    "after a turn": (rows, "delete_turn", True),
    "before the index": (generations, "erase", False),
    "after a merge": (compact, "merge_deleted", True),
    "after a file": (compact, "write_anew", True),
    "before the proof": (proof, "search_bytes", False),
    "at the end": (rows, "finish", True),
}
"""Module, function, and whether it has been done when the process dies."""


def dying(real: Callable[..., Any], number: int, afterwards: bool) -> Callable[..., Any]:
    calls = [0]

    def called(*given: Any, **named: Any) -> Any:
        calls[0] += 1
        if calls[0] == number and not afterwards:
            os.kill(os.getpid(), signal.SIGKILL)
        answer = real(*given, **named)
        if calls[0] == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    return called


def main() -> None:
    data, point, number, now = sys.argv[1:]
    module, name, afterwards = POINTS[point]
    setattr(module, name, dying(getattr(module, name), int(number), afterwards))
    limits.RETENTION_BATCH = 3  # type: ignore[misc]
    settings = Settings(data_dir=Path(data), retention_days=30)
    with Memory.open(settings=settings, clock=FixedClock(int(now))) as memory:
        memory.prune(trust_clock=True)
    print("done")


if __name__ == "__main__":
    main()
