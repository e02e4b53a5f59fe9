"""One flush of a session at a time: a second that comes meanwhile has nothing to add.

Called by ``run``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_running: set[tuple[int, str]] = set()


@contextmanager
def alone(rows: object, session_key: str) -> Iterator[bool]:
    """Whether this is the only flush of that session of these rows, in whatever thread; so while inside."""
    place = (id(rows), session_key)
    with _lock:
        first = place not in _running
        _running.add(place)
    try:
        yield first
    finally:
        if first:
            with _lock:
                _running.discard(place)
