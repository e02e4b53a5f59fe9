"""The memory's lock for a thread beside it, which a closing memory waits for while it holds that lock.

Called by ``upkeep`` and ``watching``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from memory_sqlite.agent.opened import Opened

_LOOK_S: Final = 0.1


@contextmanager
def turn(opened: Opened, lock: threading.RLock, ended: threading.Event) -> Iterator[bool]:
    """Hold the lock and say whether there is still something to do; ``False`` when ``ended`` is set first."""
    while not lock.acquire(timeout=_LOOK_S):
        if ended.is_set():
            yield False
            return
    try:
        yield not ended.is_set() and not opened.closed
    finally:
        lock.release()
