"""Turns that wait in a host's turn outbox: what is forgotten must not be given to an engine afterwards.

They are no turns of the store yet, or copies of some, so they are chosen here by the same names: their session, who
speaks in them, when they were. They go in the transaction of the tombstones, whole, and their advancement keys are
filed as committed: an engine of ours that is just being given one stores nothing of it. Called by ``run`` and
``retention``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import apsw

from memory_sqlite.clock import parse_time
from memory_sqlite.forgetting.choose import Chosen
from memory_sqlite.forgetting.samples import Samples
from memory_sqlite.forgetting.selection import Asked
from memory_sqlite.storage import tombstones
from memory_sqlite.storage.fetch import Row, all_rows
from memory_sqlite.storage.store import Store
from memory_sqlite.transcripts import holds, names, turns


def forget(store: Store, asked: Asked, chosen: Chosen, samples: Samples, now: int) -> int:
    """Delete the waiting turns that are meant, inside the caller's transaction; how many there were.

    Raises ``SessionHeld`` where one of them is of a session under a legal hold.
    """
    connection = store.connection
    meant = _Meant(store, asked, chosen, now)
    held = holds.held_names(connection)
    gone = 0
    for row in all_rows(connection, "SELECT seq, advancement_key, session_key, session_id, at FROM turn_outbox"):
        # one turn's messages at a time: each may be megabytes
        kept = connection.execute("SELECT messages FROM turn_outbox WHERE seq = ?", (row[0],)).get
        messages = json.loads(kept) if isinstance(kept, str) else []
        if not meant.takes(row, messages):
            continue
        if row[2] in held or row[3] in held:
            raise holds.held_error("forgetting", store.token(row[2]))
        drop(connection, row[0], row[1], messages, samples)
        gone += 1
    return gone


def drop(connection: apsw.Connection, seq: int, key: str, messages: Any, samples: Samples) -> None:
    """Delete one waiting turn and file its advancement key as committed, inside the caller's transaction."""
    for text in _texts(messages):
        samples.add(text)
    connection.execute("DELETE FROM turn_outbox WHERE seq = ?", (seq,))
    if not turns.is_advanced(connection, key):
        turns.advance(connection, key, key, None)


class _Meant:
    """Which rows one forgetting means."""

    def __init__(self, store: Store, asked: Asked, chosen: Chosen, now: int) -> None:
        connection = store.connection
        self._store = store
        self._asked = asked
        self._low = asked.since if asked.since is not None else tombstones.FIRST
        self._high = asked.until - 1 if asked.until is not None else now
        self._whole = {
            name for session in chosen.sessions.values() for name in _names(connection, session.id, session.key)
        }
        self._keys = {
            str(key)
            for turn_id in chosen.turns
            for (key,) in all_rows(connection, "SELECT advancement_key FROM turns WHERE id = ?", (turn_id,))
            if key is not None
        }

    def takes(self, row: Row, messages: list[dict[str, Any]]) -> bool:
        _, key, session_key, session_id, at = row
        if key in self._keys or session_key in self._whole or session_id in self._whole:
            return True
        if not any(self._low <= time <= self._high for time in (at, *_times(messages))):
            return False
        if not self._asked.names_anybody:
            return self._asked.is_bounded
        return self._names_session(str(session_key), str(session_id)) or any(
            (message.get("sender") or message.get("name")) in self._asked.participants for message in messages
        )

    def _names_session(self, session_key: str, session_id: str) -> bool:
        own = {session_key, session_id, self._store.token(session_key), self._store.token(session_id)}
        if own & set(self._asked.sessions):
            return True
        parts = session_key.split(":")
        rest = parts[2:] if parts[0] == "agent" else parts
        return rest[0:1] == ["hook"] and any(rest[1:2] == [name] for name in self._asked.hook_sources)


def _names(connection: apsw.Connection, session_id: int, key: str) -> list[str]:
    return [key, *names.further(connection, session_id)]


def _times(messages: list[dict[str, Any]]) -> Iterator[int]:
    for message in messages:
        at = parse_time(message.get("at"))
        if at is not None:
            yield at


def _texts(value: Any) -> Iterator[str]:
    """Every string below a JSON value, without the interpreter's stack."""
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            todo += item.values()
        elif isinstance(item, list):
            todo += item
