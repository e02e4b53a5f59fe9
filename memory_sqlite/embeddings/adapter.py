"""A provider that can be taken away while it is used: calls under way are counted, and waited for before it is closed.

Made by ``registry`` around every provider it opens; nobody else need know.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from memory_sqlite import errors
from memory_sqlite.embeddings.protocol import CostClass, EmbeddingIdentity, InputLimits, Provider, Vectors, Weight

T = TypeVar("T")


class Adapter:
    """A provider, its id, and the plugin it is of. After ``retire`` every call raises ``EmbeddingFailed``."""

    def __init__(self, provider_id: str, plugin: str, provider: Provider) -> None:
        self.id = provider_id
        self.plugin = plugin
        self._provider = provider
        self._lock = threading.Lock()
        self._free = threading.Condition(self._lock)
        self._users = 0
        self._retired = False
        self._closing = False
        self.closed = False

    @property
    def identity(self) -> EmbeddingIdentity:
        return self._provider.identity

    @property
    def limits(self) -> InputLimits:
        return self._provider.limits

    @property
    def cost(self) -> CostClass:
        return self._provider.cost

    @property
    def weight(self) -> Weight:
        return self._provider.weight

    def load(self, timeout_s: float) -> None:
        self._use(lambda: self._provider.load(timeout_s))

    def embed_query(self, text: str, timeout_s: float) -> Sequence[float]:
        return self._use(lambda: self._provider.embed_query(text, timeout_s))

    def embed_documents(self, texts: Sequence[str], timeout_s: float) -> Vectors:
        return self._use(lambda: self._provider.embed_documents(texts, timeout_s))

    def close(self) -> None:
        """Close the provider now, calls under way or not: its user is done with it. Safe twice."""
        with self._lock:
            self._retired = True
            if self._closing:
                return
            self._closing = True
        try:
            self._provider.close()
        finally:
            self.closed = True

    def retire(self) -> None:
        """Take no new calls."""
        with self._lock:
            self._retired = True

    def drain(self, timeout_s: float) -> bool:
        """Wait until the calls under way have ended, then close. Whether they had ended in time."""
        with self._lock:
            drained = self._free.wait_for(lambda: self._users == 0, timeout_s)
        self.close()
        return drained

    def _use(self, call: Callable[[], T]) -> T:
        with self._lock:
            if self._retired:
                raise errors.EmbeddingFailed(f"the embedding provider {self.id!r} was taken away")
            self._users += 1
        try:
            return call()
        finally:
            with self._lock:
                self._users -= 1
                self._free.notify_all()
