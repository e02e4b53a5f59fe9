"""Who still has an engine instance: it is disposed of once, when nobody has it any more.

Most factories make an engine for each turn; one that returns the same again must not have it disposed of under a turn
that runs, nor twice. Called by ``hosted``.
"""

from __future__ import annotations

import threading
import weakref


class Instances:
    """Counts leases of instances by identity: engines need be neither hashable nor comparable. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leases: dict[int, int] = {}
        self._disposed: dict[int, weakref.ref[object]] = {}

    def take(self, instance: object) -> None:
        """Somebody has it, who keeps it alive until ``give_back``."""
        with self._lock:
            self._leases[id(instance)] = self._leases.get(id(instance), 0) + 1

    def give_back(self, instance: object) -> bool:
        """One has let go; whether it is to be disposed of now."""
        place = id(instance)
        with self._lock:
            self._leases[place] -= 1
            if self._leases[place]:
                return False
            del self._leases[place]
            known = self._disposed.get(place)
            if known is not None and known() is instance:
                return False
            try:
                self._disposed[place] = weakref.ref(instance, lambda _: self._disposed.pop(place, None))
            except TypeError:  # it has slots only: nobody can tell it from a later one at the same place
                self._disposed.pop(place, None)
            return True
