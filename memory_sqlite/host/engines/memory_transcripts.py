"""Transcripts of a host that keeps them in memory: appended to, taken back, rewritten, reset.

For small hosts and for tests of hosts; a host with transcripts of its own gives a ``TranscriptReader`` over them. Not
here: what engines have stored (``context``).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from memory_sqlite.context.shapes import TurnAdmission, TurnAnchor
from memory_sqlite.host.engines.transcript_reader import TranscriptEntry

_STORE: Final = "memory:transcripts"


class _Session:
    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.rewrites = 0
        self.written = 0
        self.path: list[TranscriptEntry] = []


class _View:
    """A copy of the path: nothing in it changes."""

    def __init__(self, session: _Session) -> None:
        self.session_id = session.session_id
        self.store_path = _STORE
        self.generation = str(session.rewrites)
        self._path = tuple(session.path)

    def entry(self, entry_id: str) -> TranscriptEntry | None:
        return next((entry for entry in self._path if entry.entry_id == entry_id), None)

    def between(self, first: int, last: int) -> Iterable[TranscriptEntry]:
        return self._path[max(0, first - 1) : last]


class MemoryTranscripts:
    """The transcripts of one agent, by session key. Positions count from 1. Thread-safe."""

    def __init__(self, agent_id: str) -> None:
        self._agent_id = agent_id
        self._lock = threading.Lock()
        self._sessions: dict[str, _Session] = {}

    def begin(self, session_key: str, session_id: str) -> None:
        """A new, empty transcript under this key; what was there before is gone."""
        with self._lock:
            self._sessions[session_key] = _Session(session_id)

    def append(self, session_key: str, message: Mapping[str, Any], idempotency_key: str | None = None) -> TurnAnchor:
        """Add a message after the last one of the path; where it stands. Raises ``KeyError`` for an unknown key."""
        with self._lock:
            session = self._sessions[session_key]
            session.written += 1
            entry = TranscriptEntry(
                entry_id=f"{session.session_id}/{session.written}",
                parent_id=session.path[-1].entry_id if session.path else None,
                raw_seq=session.written,
                position=len(session.path) + 1,
                role=str(message["role"]),
                message=dict(message),
                idempotency_key=idempotency_key,
            )
            session.path.append(entry)
            return self._anchor(session_key, session, entry)

    def admit(self, session_key: str, message: Mapping[str, Any], logical_turn_id: str) -> TurnAdmission:
        """Add a user's message as the beginning of a turn; the receipt of it."""
        return TurnAdmission(self.append(session_key, message), logical_turn_id)

    def take_back(self, session_key: str, entries: int) -> None:
        """The last entries leave the path; what is added next stands in their place, as another entry."""
        with self._lock:
            session = self._sessions[session_key]
            del session.path[len(session.path) - entries :]

    def rewrite(self, session_key: str, entry_id: str, message: Mapping[str, Any]) -> None:
        """Change a message where it stands: another generation of the transcript. Raises ``KeyError``."""
        with self._lock:
            session = self._sessions[session_key]
            places = [place for place, entry in enumerate(session.path) if entry.entry_id == entry_id]
            if not places:
                raise KeyError(entry_id)
            changed = replace(session.path[places[0]], message=dict(message), role=str(message["role"]))
            session.path[places[0]] = changed
            session.rewrites += 1

    def messages(self, session_key: str) -> list[Mapping[str, Any]]:
        """The path's messages, oldest first."""
        with self._lock:
            return [entry.message for entry in self._sessions[session_key].path]

    @contextmanager
    def view(self, agent_id: str, session_key: str) -> Iterator[_View | None]:
        """See ``TranscriptReader``."""
        with self._lock:
            session = self._sessions.get(session_key) if agent_id == self._agent_id else None
            found = None if session is None else _View(session)
        yield found

    def _anchor(self, session_key: str, session: _Session, entry: TranscriptEntry) -> TurnAnchor:
        return TurnAnchor(
            agent_id=self._agent_id,
            session_id=session.session_id,
            session_key=session_key,
            store_path=_STORE,
            generation=str(session.rewrites),
            entry_id=entry.entry_id,
            raw_seq=entry.raw_seq,
            effective_parent_id=entry.parent_id,
            active_message_position=entry.position,
            idempotency_key=entry.idempotency_key,
        )
