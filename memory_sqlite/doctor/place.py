"""What the doctor looks at: one agent's directory, without a ``Memory``, since it may not open.

Lives here: places, keys, and connections for reading that look at one moment. Nothing is made or written. Called by
every check and by ``fixing``. Not here: what is wrong.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

import apsw

from memory_sqlite import errors, paths
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.crypto import directory_lock, secret
from memory_sqlite.crypto.file_key import FileKey
from memory_sqlite.doctor import holders
from memory_sqlite.generations import layout, registry
from memory_sqlite.generations.registry import Generation
from memory_sqlite.storage import change_log, session_key, unlocking
from memory_sqlite.storage import connection as connections
from memory_sqlite.storage.failures import translated, translated_index
from memory_sqlite.storage.read_only_media import Media
from memory_sqlite.values import dataclass

_LOOKS: Final = 20
_PAUSE_S: Final = 0.02
"""Tries to see store and index at the same change, and the pause between two: a turn is filed a few milliseconds after
it was stored."""
RECENT_MS: Final = 10 * 60 * 1000
"""What others are at work on may look undone for as long as a build or a forgetting takes."""


class Skipped(Exception):
    """A check that is not made now. ``off``: there is nothing to check, because somebody decided so."""

    def __init__(self, reason: str, state: Literal["skipped", "off"] = "skipped") -> None:
        super().__init__(reason)
        self.reason = reason
        self.state: Literal["skipped", "off"] = state


@dataclass(frozen=True, slots=True)
class Pair:
    """Store and current generation as they were at one moment. ``level``: the index has applied every change of that
    store."""

    store: apsw.Connection
    index: apsw.Connection
    current: Generation
    path: Path
    level: bool


class Place:
    """One agent's directory and the settings it is looked at with."""

    def __init__(self, settings: Settings, clock: Clock, *, deep: bool = False) -> None:
        self.settings = settings
        self.clock = clock
        self.deep = deep
        self.data_dir = settings.data_dir
        self.directory = paths.agent_directory(settings.data_dir, settings.agent)
        self.store_path = self.directory / paths.STORE_FILE
        self._file_key: FileKey | None = None
        self._unlocked = False
        self.keys_change = False
        """Whether a change of keys was begun and not ended; known once ``file_key`` was asked."""
        self._media = Media()

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *raised: object) -> None:
        self._media.close()

    def session_key(self) -> bytes | None:
        """The key of tokens, or ``None`` where it cannot be had, which the check of keys tells."""
        try:
            return session_key.load(self.data_dir)
        except errors.MemorySqliteError:
            return None

    def file_key(self) -> FileKey | None:
        """What the files are encrypted with, ``None`` for files in clear. Raises the errors of encryption."""
        if not self._unlocked:
            looked = unlocking.look(self.data_dir, self.directory, secret.from_settings(self.settings))
            self.keys_change = looked.unlocked is not None and looked.unlocked.ring.change is not None
            key = self.session_key()
            self._file_key = None if key is None else looked.file_key(key, self.clock, write=False)
            self._unlocked = True
        return self._file_key

    def has_store(self) -> bool:
        """Whether there is a file that could be opened as the store."""
        try:
            return not self.store_path.is_symlink() and self.store_path.is_file() and self.store_path.stat().st_size > 0
        except OSError:
            return False

    @contextmanager
    def store(self) -> Iterator[apsw.Connection]:
        """The store at one moment. Raises ``Skipped`` where there is none, and the store's errors."""
        if not self.has_store():
            raise Skipped("there is no store")
        key = self.file_key()
        with translated("the store"):
            connection = self._media.open(self.store_path, key, connections.open_store_reader)
        try:
            with translated("the store"):
                _snapshot(connection)
            yield connection
        finally:
            connection.close()

    @contextmanager
    def pair(self) -> Iterator[Pair]:
        """Store and current generation. While others write, several looks are taken until both are at one change; what
        nobody is at work on stays as it is.

        Raises ``Skipped`` where there is no generation, the store's errors, and ``IndexUnavailable``.
        """
        for look in range(_LOOKS):
            last = look == _LOOKS - 1 or not self.busy()
            with self.store() as store:
                current = registry.current(store)
                if current is None:
                    raise Skipped("there is no search index")
                path = paths.generation_file(self.directory, current.number)
                try:
                    index, applied = self._index(path)
                except (errors.IndexUnavailable, Skipped):
                    if last:
                        raise
                    time.sleep(_PAUSE_S)
                    continue  # retired, it may be, since the store was looked at
                try:
                    level = applied == change_log.newest(store)
                    if level or last:
                        yield Pair(store, index, current, path, level)
                        return
                finally:
                    index.close()
            time.sleep(_PAUSE_S)

    def busy(self) -> bool:
        """Whether other processes have the store open: what is half done may be theirs. Where the system does not say,
        they may have."""
        who = holders.of([self.store_path])
        return bool(who) or not who.known

    def is_recent(self, ms: int) -> bool:
        """Whether something of that time may be what others are at work on now."""
        return self.busy() and self.clock.now_ms() - ms < RECENT_MS

    def _index(self, path: Path) -> tuple[apsw.Connection, int]:
        """A generation at one moment, and the last change it has applied."""
        if not path.is_file():
            raise Skipped("the file of the current search index is not there")
        key = self.file_key()
        with translated_index():
            index = self._media.open(path, key, connections.open_index_reader)
        try:
            with translated_index():
                _snapshot(index)
                return index, int(layout.read_meta(index).get("applied_seq", -1))
        except (apsw.SQLError, ValueError, TypeError) as error:
            index.close()
            raise errors.IndexUnavailable("the file of the current search index is not one") from error
        except BaseException:
            index.close()
            raise


@contextmanager
def keys_stay(data_dir: Path) -> Iterator[None]:
    """Nobody changes the keys while we look; where the directory cannot be locked it is looked at all the same."""
    hold = None
    if data_dir.is_dir():
        try:
            hold = directory_lock.hold(data_dir)
        except errors.StoreReadOnly:
            pass
    try:
        yield
    finally:
        if hold is not None:
            hold.close()


def _snapshot(connection: apsw.Connection) -> None:
    connection.execute("BEGIN DEFERRED").fetchall()
    connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
