"""The host's durable session rows: one life of a session after another, and who spawned it.

An *incarnation* is a session id with its lifecycle revision. A write that may end a life is published: while it is
under way nobody can say whether the life goes on, and when it settles everybody who watches the key is told, so that a
life that ended stays ended even if the old row is written again. A write that keeps the incarnation (a turn's own
bookkeeping) interrupts nobody. This table lives in memory; a host with rows of its own subclasses it (``read``) or
gives the same methods. Not here: who may see what (``audiences``).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

ChatType = Literal["direct", "group", "channel"]


@dataclass(frozen=True)
class SpawnReceipt:
    """By whom a session was spawned, as it was recorded then. ``parent_revision`` of ``None``: the parent had none.

    ``owner`` says whether the turn that spawned it was the owner's.
    """

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


Watcher = Callable[[SessionRow | None], None]
"""Told of a row after each write of it. Runs inside the lock of the rows: it sets a flag and takes no lock."""


class SessionRows:
    """Session rows by key. Thread-safe; reading never waits for a publication."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._rows: dict[str, SessionRow] = {}
        self._pending: dict[str, int] = {}
        self._watchers: dict[str, dict[int, Watcher]] = {}
        self._waiters: dict[str, list[Callable[[], None]]] = {}
        self._next = 0

    def get(self, key: str) -> SessionRow | None:
        """The row of a key, or ``None``."""
        with self._lock:
            return self._rows.get(key)

    async def read(self, key: str) -> SessionRow | None:
        """The row of a key as storage has it; what a lineage is walked with. A host may wait for its storage here."""
        return self.get(key)

    def put(self, row: SessionRow) -> None:
        """Write a row whole."""
        with self._lock:
            former = self._rows.get(row.key)
            keeps = former is not None and former.incarnation == row.incarnation
        with self.publishing(row.key, keeps_incarnation=keeps), self._lock:
            self._rows[row.key] = row
            self._tell(row.key, row)

    def update(self, key: str, **changes: Any) -> SessionRow:
        """Write some fields of a row that exists; the others stay as another thread may have left them.

        Raises ``KeyError``.
        """
        with self._lock:
            row = replace(self._rows[key], **changes)
            self.put(row)
        return row

    def delete(self, key: str) -> None:
        """Take a row away; nothing happens when there is none."""
        with self.publishing(key), self._lock:
            self._rows.pop(key, None)
            self._tell(key, None)

    @contextmanager
    def publishing(self, key: str, *, keeps_incarnation: bool = False) -> Iterator[None]:
        """While inside, the key's row is being written: its currency is unavailable, unless the life goes on."""
        if keeps_incarnation:
            yield
            return
        with self._lock:
            self._pending[key] = self._pending.get(key, 0) + 1
        try:
            yield
        finally:
            waiting: list[Callable[[], None]] = []
            with self._lock:
                self._pending[key] -= 1
                if not self._pending[key]:
                    del self._pending[key]
                    waiting = self._waiters.pop(key, [])
            for tell in waiting:
                tell()

    def is_pending(self, key: str) -> bool:
        """Whether a write of this key that may end its life is under way."""
        return key in self._pending

    async def settled(self, keys: Iterable[str]) -> None:
        """Return when none of the keys is being written."""
        loop = asyncio.get_running_loop()
        keys = tuple(keys)
        while True:
            done: asyncio.Future[None] = loop.create_future()

            def settle(done: asyncio.Future[None] = done) -> None:
                if not done.done():
                    done.set_result(None)

            def tell(settle: Callable[[], None] = settle) -> None:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(settle)

            with self._lock:
                key = next((key for key in keys if key in self._pending), None)
                if key is None:
                    return
                self._waiters.setdefault(key, []).append(tell)
            try:
                await done
            finally:
                self._forget_waiter(key, tell)

    def watch(self, key: str, watcher: Watcher) -> tuple[SessionRow | None, Callable[[], None]]:
        """Tell ``watcher`` of every later write of the key. Returns the row of now, and what ends the watching."""
        with self._lock:
            number = self._next
            self._next += 1
            self._watchers.setdefault(key, {})[number] = watcher
            return self._rows.get(key), lambda: self._unwatch(key, number)

    def watched(self) -> dict[str, int]:
        """How many watch which key: empty when every lease was given back."""
        with self._lock:
            return {key: len(watchers) for key, watchers in self._watchers.items()}

    def _unwatch(self, key: str, number: int) -> None:
        with self._lock:
            watchers = self._watchers.get(key)
            if watchers is not None:
                watchers.pop(number, None)
                if not watchers:
                    del self._watchers[key]

    def _tell(self, key: str, row: SessionRow | None) -> None:
        # a copy: a collected audience may give its lease back in the middle of this loop, in this very thread
        for watcher in list(self._watchers.get(key, {}).values()):
            watcher(row)

    def _forget_waiter(self, key: str, tell: Callable[[], None]) -> None:
        with self._lock:
            waiting = self._waiters.get(key)
            if waiting is not None and tell in waiting:
                waiting.remove(tell)
                if not waiting:
                    del self._waiters[key]
