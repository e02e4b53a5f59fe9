"""The queue of a pool: bounded, and fair between agents. Not thread-safe: the pool's lock guards it."""

from __future__ import annotations

from collections import OrderedDict, deque

from memory_sqlite import errors
from memory_sqlite.processes.pending import Pending


class FairQueue:
    """Requests by owner. Owners take turns, so that one that asks a hundred times delays another by one request only.

    What is charged stays charged until it is over: also while it runs, and while it is being stopped.
    """

    def __init__(self, at_most: int, at_most_bytes: int) -> None:
        self._at_most = at_most
        self._at_most_bytes = at_most_bytes
        self._by_owner: OrderedDict[str, deque[Pending]] = OrderedDict()
        self.charged = 0
        self.charged_bytes = 0

    def admit(self, pending: Pending) -> None:
        """Charge for it and put it into the queue. Raises ``Overloaded``."""
        if self.charged >= self._at_most or self.charged_bytes + pending.size > self._at_most_bytes:
            raise errors.Overloaded(f"{self.charged} requests are waiting for workers")
        pending.charged = True
        self.charged += 1
        self.charged_bytes += pending.size
        self._by_owner.setdefault(pending.owner, deque()).append(pending)

    def discharge(self, pending: Pending) -> None:
        """It is over."""
        self.charged -= 1
        self.charged_bytes -= pending.size

    def take(self) -> Pending | None:
        """The next one: the oldest of the owner whose turn it is."""
        if not self._by_owner:
            return None
        owner, waiting = self._by_owner.popitem(last=False)
        pending = waiting.popleft()
        if waiting:
            self._by_owner[owner] = waiting  # at the end: all others come first
        return pending

    def remove(self, pending: Pending) -> None:
        """Take one out that is queued."""
        waiting = self._by_owner[pending.owner]
        waiting.remove(pending)
        if not waiting:
            del self._by_owner[pending.owner]

    def waiting(self) -> list[Pending]:
        """All that are queued, in no particular order."""
        return [pending for queue in self._by_owner.values() for pending in queue]
