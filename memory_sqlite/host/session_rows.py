"""The host's durable session rows: one life of a session after another, and who spawned it.

An *incarnation* is a session id with its lifecycle revision. A write is published: between ``begin`` and ``settle`` the
row's currency is unavailable; a write that keeps the incarnation leaves it current. This table lives in memory; a host
with rows of its own gives the same methods over them. Not here: who may see what (``audiences``).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

ChatType = Literal["direct", "group", "channel"]


@dataclass(frozen=True)
class SpawnReceipt:
    """By whom a session was spawned, as it was recorded then. ``parent_revision`` of ``None``: the parent had none."""

    parent_key: str
    parent_session_id: str
    owner: bool
    parent_revision: str | None = None


@dataclass(frozen=True)
class FlushRecord:
    """The last flush of a session: ``compaction_count`` is the one it was for."""

    kind: Literal["succeeded", "failed"]
    compaction_count: int | None = None
    failure_count: int = 0


@dataclass(frozen=True)
class SessionRow:
    """One durable session. ``chat_type`` of ``None``: not known, which grants nothing."""

    key: str
    session_id: str
    lifecycle_revision: str | None = None
    chat_type: str | None = None
    spawned_by: SpawnReceipt | None = None
    navigation_parent: str | None = None
    compaction_count: int = 0
    memory_flush: FlushRecord | None = None
    incognito: bool = False

    @property
    def incarnation(self) -> tuple[str, str | None]:
        """Which life of the session this is."""
        return self.session_id, self.lifecycle_revision


class SessionRows:
    """Session rows by key. Thread-safe; reading never waits for a publication."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._rows: dict[str, SessionRow] = {}
        self._pending: dict[str, int] = {}

    def get(self, key: str) -> SessionRow | None:
        """The row of a key, or ``None``."""
        with self._lock:
            return self._rows.get(key)

    def put(self, row: SessionRow) -> None:
        """Write a row whole."""
        with self.publishing(row.key), self._lock:
            self._rows[row.key] = row

    def update(self, key: str, **changes: Any) -> SessionRow:
        """Write some fields of a row that exists. Raises ``KeyError``."""
        with self._lock:
            row = replace(self._rows[key], **changes)
        self.put(row)
        return row

    def delete(self, key: str) -> None:
        """Take a row away; nothing happens when there is none."""
        with self.publishing(key), self._lock:
            self._rows.pop(key, None)

    @contextmanager
    def publishing(self, key: str) -> Iterator[None]:
        """While inside, the key's row is being written and its currency is unavailable."""
        with self._lock:
            self._pending[key] = self._pending.get(key, 0) + 1
        try:
            yield
        finally:
            with self._lock:
                self._pending[key] -= 1
                if not self._pending[key]:
                    del self._pending[key]

    def is_pending(self, key: str) -> bool:
        """Whether a write of this key is under way."""
        with self._lock:
            return key in self._pending
