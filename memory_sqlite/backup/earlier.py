"""The directory that was there before a restore: what was forgotten in it, and what it still had.

Read only, and only as far as it can be read: it may be what was damaged. Called by ``restoring``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import apsw

from memory_sqlite import errors, paths
from memory_sqlite.backup import copying
from memory_sqlite.backup.reports import CameBack
from memory_sqlite.clock import Clock
from memory_sqlite.crypto import directory_lock
from memory_sqlite.crypto.secret import Secret
from memory_sqlite.retention import expiring
from memory_sqlite.storage import migrate, session_key, unlocking
from memory_sqlite.storage.fetch import all_rows
from memory_sqlite.storage.tombstones import Kind
from memory_sqlite.values import dataclass

RETENTION: Final = expiring.REASON
"""Reason of tombstones of what has expired: whether it still has is for the next ``prune`` to say."""


@dataclass(frozen=True, slots=True)
class Tomb:
    """One row of ``tombstones``."""

    kind: Kind
    subject: str
    since: int
    until: int
    reason: str
    at: int


@dataclass(frozen=True, slots=True)
class Had:
    """What a store had: the ordinals of each session's turns, the ids of its records."""

    turns: dict[str, set[int]]
    records: set[str]


@dataclass(frozen=True, slots=True)
class Earlier:
    """What could be read of one agent there. ``until`` is when it was made, of a backup: later it knows nothing."""

    tombs: tuple[Tomb, ...]
    had: Had
    until: int | None


def read(
    data_dir: Path, directory: str, key: bytes, secret: Secret | None, clock: Clock, until: int | None
) -> Earlier | None:
    """What was forgotten of an agent in a data directory or a backup; ``None`` where the agent is not.

    ``key`` is the session.key of the restored directory: under another one tombstones name nothing here. Raises
    ``SessionKeyChanged`` for such a directory, and what keeps its store from being read.
    """
    folder = data_dir / paths.AGENTS_DIRECTORY / directory
    if not (folder / paths.STORE_FILE).exists():
        return None
    if session_key.load(data_dir) != key:
        raise errors.SessionKeyChanged("it has another session.key, under which tombstones mean nothing here")
    with _opened(data_dir, folder, key, secret, clock) as connection:
        if migrate.check(connection) == 0:  # somebody else's, or without tables
            raise errors.StoreDamaged("the store is empty")
        rows = all_rows(connection, "SELECT kind, subject, since_at, until_at, reason, at FROM tombstones ORDER BY id")
        return Earlier(tuple(Tomb(*row) for row in rows), had(connection), until)


@contextmanager
def _opened(data_dir: Path, folder: Path, key: bytes, secret: Secret | None, clock: Clock) -> Iterator[apsw.Connection]:
    held = directory_lock.hold(data_dir)
    try:
        needed = secret if (data_dir / paths.KEYRING_FILE).exists() else None
        file_key = unlocking.look(data_dir, folder, needed).file_key(key, clock, write=False)
        with copying.opened(folder / paths.STORE_FILE, file_key) as connection:
            connection.execute("BEGIN DEFERRED").fetchall()
            yield connection
    finally:
        held.close()


def had(connection: apsw.Connection) -> Had:
    """What a store has, in the names that outlive its rows."""
    turns: dict[str, set[int]] = {str(name): set() for (name,) in all_rows(connection, "SELECT key FROM sessions")}
    for name, ordinal in all_rows(
        connection, "SELECT s.key, t.ordinal FROM turns t JOIN sessions s ON s.id = t.session_id"
    ):
        turns[name].add(ordinal)
    return Had(turns, {str(name) for (name,) in all_rows(connection, "SELECT record_id FROM records")})


def came_back(connection: apsw.Connection, agent: str, before: Sequence[Had]) -> list[CameBack]:
    """What a restored store has and one of the earlier ones had no longer, by session."""
    found = []
    restored = had(connection)
    for name, ordinals in sorted(restored.turns.items()):
        records = [
            record
            for (record,) in all_rows(
                connection,
                "SELECT r.record_id FROM records r JOIN sessions s ON s.id = r.session_id WHERE s.key = ?",
                (name,),
            )
            if not all(record in one.records for one in before)
        ]
        turns = {one for one in ordinals if not all(one in had.turns.get(name, ()) for had in before)}
        if turns or records or any(name not in one.turns for one in before):
            found.append(CameBack(agent, name, len(turns), len(records)))
    return found
