"""What a serving memory does beside answering, in one thread: an index that another version built is built anew beside
the old one, which answers meanwhile; every note is hashed once an hour; generations that were let go are removed; and
what is too old expires.

Not here: following publications of others (``retrieving.Follower``), watching (``watching``), what expires and when
(``retention.daily``, which is handed in). Called by ``Memory.open(serving=True)``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Final

from memory_sqlite import errors, limits
from memory_sqlite.agent import opened as opening
from memory_sqlite.agent.opened import Opened
from memory_sqlite.agent.turn import turn
from memory_sqlite.clock import Clock
from memory_sqlite.indexing import full_hash, rebuild
from memory_sqlite.indexing.rebuild import Paused

_EVERY_S: Final = 60.0

Daily = Callable[[Callable[[], AbstractContextManager[bool]]], None]
"""What is asked at each turn and knows itself when it is due; it is given what holds the memory's lock for one step."""


class Upkeep:
    """The thread; ``close`` ends it. ``look`` is what it does at each turn, the first of them at once."""

    def __init__(self, opened: Opened, clock: Clock, lock: threading.RLock, daily: Daily | None = None) -> None:
        self._opened = opened
        self._clock = clock
        self._lock = lock
        self._daily = daily
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory-sqlite-upkeep", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.is_set():
            self.look()
            self._ended.wait(_EVERY_S)

    def look(self) -> None:
        """What is to be done now. What cannot be (a busy store, a full disk, no workspace) is tried again next time."""
        # each by itself: an index that cannot be built for want of room must not keep anything from expiring
        for step in (self._renew, self._expire, self._hash_notes, self._take_away):
            try:
                step()
            except (errors.MemorySqliteError, Paused):
                continue

    def _expire(self) -> None:
        if self._daily is not None and not self._opened.store.read_only:
            self._daily(partial(turn, self._opened, self._lock, self._ended))

    def _renew(self) -> None:
        """Build the next generation through connections of its own; the next open goes on with one that ends early."""
        if (outdated := self._opened.outdated) is None:
            return
        built = opening.open_agent(self._opened.settings, self._clock, read_only=False, progress=self._progress)
        built.close()
        if built.outdated is not None:
            return
        with turn(self._opened, self._lock, self._ended) as mine:
            if mine:
                self._opened.outdated = None
                self._opened.keeper.leave(outdated)
        self._opened.brought()

    def _progress(self, stage: str, done: int, total: int | None) -> None:
        if self._ended.is_set():
            raise Paused

    def _hash_notes(self) -> None:
        opened = self._opened
        if opened.workspace is None or not opened.workspace.is_dir():
            return
        with opened.keeper.reader() as index:
            if not full_hash.is_due(index, self._clock, limits.FULL_HASH_INTERVAL_S):
                return
            at_ms = self._clock.now_ms()
            found = full_hash.differing(index, opened.workspace, opened.settings.extra_paths, self._ended.is_set)
        with turn(self._opened, self._lock, self._ended) as mine:
            if mine:
                full_hash.mark(opened.keeper.writer(), found, at_ms)
                if found:
                    opened.looked_at = None

    def _take_away(self) -> None:
        """Files of generations that this process or another has let go of since."""
        with turn(self._opened, self._lock, self._ended) as mine:
            if mine and not self._opened.store.read_only:
                self._opened.keeper.leave_old()
                rebuild.tidy(self._opened.store)

    def close(self) -> None:
        """End the thread; returns when it has ended."""
        self._ended.set()
        self._thread.join()
