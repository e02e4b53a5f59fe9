"""What a run was given, kept for its retries: one cache for all, keyed by audience, which no answer ever crosses.

An answer is found again only by the very audience object that it was made for: equality of audiences means nothing.
Without an audience it is the session's key that counts. Thread-safe. Not here: whether an audience still holds; who
asks checks that before it looks and before it keeps.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from memory_sqlite import limits
from memory_sqlite.clock import Clock
from memory_sqlite.runtime.callers import MemoryAudience

T = TypeVar("T")


class RecallCache(Generic[T]):
    """Answers by audience, session and whatever else the asking depends on; each is kept for a short time."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or Clock()
        self._lock = threading.Lock()
        self._audiences: weakref.WeakKeyDictionary[object, int] = weakref.WeakKeyDictionary()
        self._next = 0
        self._kept: OrderedDict[Hashable, tuple[float, T]] = OrderedDict()

    def get(self, audience: MemoryAudience | None, session_key: str, key: Hashable) -> T | None:
        """The answer that was kept for exactly this, while it is fresh."""
        with self._lock:
            number = 0 if audience is None else self._audiences.get(audience)
            if number is None:
                return None
            found = self._kept.get((number, session_key, key))
            return None if found is None or found[0] <= self._clock.monotonic() else found[1]

    def put(self, audience: MemoryAudience | None, session_key: str, key: Hashable, value: T) -> None:
        """Keep an answer; what is no longer fresh goes, and of more than ``limits.RECALL_CACHE_ENTRIES`` the oldest."""
        with self._lock:
            until = self._clock.monotonic() + limits.TRIGGER_RECALL_CACHE_S
            place = (self._number(audience), session_key, key)
            self._kept[place] = (until, value)
            self._kept.move_to_end(place)
            now = self._clock.monotonic()
            while len(self._kept) > limits.RECALL_CACHE_ENTRIES or next(iter(self._kept.values()))[0] <= now:
                self._kept.popitem(last=False)

    def clear(self) -> None:
        """Forget everything: when something was forgotten, or what is recalled has changed."""
        with self._lock:
            self._kept.clear()

    def _number(self, audience: MemoryAudience | None) -> int:
        """A number that no other audience ever has, not even one that comes to lie at the same address."""
        if audience is None:
            return 0
        number = self._audiences.get(audience)
        if number is None:
            self._next += 1
            number = self._audiences[audience] = self._next
        return number
