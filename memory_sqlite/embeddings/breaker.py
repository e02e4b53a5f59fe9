"""When to leave a provider alone: after a failure for a while, after each further one for twice as long.

So a server that is down costs one search its patience and the next ones nothing. Not here: what failed. Called by
``service``; not thread-safe by itself.
"""

from __future__ import annotations

from collections.abc import Callable

from memory_sqlite.limits import EMBEDDING_BACK_OFF_MAX_S, EMBEDDING_BACK_OFF_S


class Breaker:
    """Open after a failure, closed again when its time is over or something succeeded."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock`` gives seconds that only go forward."""
        self._clock = clock
        self._failures = 0
        self._until = float("-inf")
        self.reason: str | None = None
        """What failed last, as a sentence for people; ``None`` after a success."""

    def open(self) -> bool:
        """Whether to leave the provider alone now."""
        return self._clock() < self._until

    def failed(self, reason: str) -> None:
        """Note a failure."""
        self.reason = reason
        pause = min(EMBEDDING_BACK_OFF_S * 2.0 ** min(self._failures, 32), EMBEDDING_BACK_OFF_MAX_S)
        self._failures += 1
        self._until = self._clock() + pause

    def succeeded(self) -> None:
        """Note a success: everything is well."""
        self._failures = 0
        self._until = float("-inf")
        self.reason = None
