"""Following a host's transcript by its delta cursor: history from before the engine, and what it has missed.

What a page shows is stored as an import of the same transcript would store it: each message once, whatever else brought
it. The cursor is kept as long as the engine lives; after that, or when the transcript was rewritten (``reset``), it is
read again from the beginning, which adds what is new and nothing twice. Called by the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from memory_sqlite import errors, limits
from memory_sqlite.context.host_sessions import HostSession
from memory_sqlite.context.messages import taken
from memory_sqlite.context.shapes import DeltaEntry, DeltaMissing, DeltaPage, DeltaReset, DeltaResult, DeltaUnavailable
from memory_sqlite.context.storing import store
from memory_sqlite.context.turn_units import is_person, units
from memory_sqlite.runtime.agents import AgentRooms

ReadDelta = Callable[..., Awaitable[DeltaResult]]
"""The host's ``read_session_transcript_visible_message_delta``; its arguments by name: ``agent_id``, ``session_key``,
``session_id``, ``cursor``, and the limits."""


@dataclass(frozen=True)
class Followed:
    """How far a session was followed. ``reason`` says why not to the end; then it is tried again later."""

    messages: int
    stored: int
    reason: str | None = None


class Follower:
    """The cursors of one engine, by session. Only one call a session reads at a time."""

    def __init__(self, rooms: Callable[[], AgentRooms], read_delta: ReadDelta, *, keep: bool) -> None:
        """``keep`` says whether what is read is stored: not when it is read from our own store."""
        self._rooms = rooms
        self._read = read_delta
        self._keep = keep
        self._cursors: dict[tuple[str, ...], str] = {}
        self._opening: dict[tuple[str, ...], tuple[DeltaEntry, ...]] = {}
        self._behind: set[tuple[str, ...]] = set()
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, ...], asyncio.Lock]]
        self._locks = WeakKeyDictionary()  # a lock is of one loop; between two loops nothing is stored twice either

    def is_behind(self, session: HostSession) -> bool:
        """Whether the session was to be followed and could not be followed to the end."""
        return session.called in self._behind

    async def follow(self, session: HostSession) -> Followed:
        """Read on to the end, storing what is new. Raises what the host's reader and the store raise."""
        locks = self._locks.setdefault(asyncio.get_running_loop(), {})
        async with locks.setdefault(session.called, asyncio.Lock()):
            self._behind.add(session.called)
            followed = await self._to_the_end(session)
            if followed.reason is None:
                self._behind.discard(session.called)
            return followed

    async def _to_the_end(self, session: HostSession) -> Followed:
        cursor = self._cursors.get(session.called)
        messages = stored = resets = 0
        max_bytes = limits.DELTA_BYTES[2]
        while True:
            page = await self._page(session, cursor, max_bytes)
            if isinstance(page, DeltaMissing):
                self._cursors.pop(session.called, None)
                return Followed(messages, stored)
            if isinstance(page, DeltaUnavailable):
                return Followed(messages, stored, page.reason)
            if isinstance(page, DeltaReset):
                resets += 1
                if resets > limits.DELTA_RESETS_MAX:
                    return Followed(messages, stored, page.reason)
                cursor, messages = page.cursor, 0  # from the beginning: what is known is recognised
                continue
            if page.required_bytes is not None:
                if not max_bytes < page.required_bytes <= limits.DELTA_BYTES[1]:
                    return Followed(messages, stored, "a message is larger than a page can be")
                max_bytes = page.required_bytes
                continue
            if self._keep and page.entries:
                stored += await asyncio.to_thread(self._store, session, page.entries)
            messages += len(page.entries)
            cursor = self._cursors[session.called] = page.cursor
            if not page.has_more:
                return Followed(messages, stored)
            if not page.entries:
                return Followed(messages, stored, "the transcript says that there is more and gives nothing")
            max_bytes = limits.DELTA_BYTES[2]

    async def _page(self, session: HostSession, cursor: str | None, max_bytes: int) -> DeltaResult:
        key, session_id = session.called[0], session.called[-1]
        page: Any = await self._read(
            agent_id=self._rooms().settings.agent,
            session_key=key,
            session_id=session_id,
            cursor=cursor,
            max_messages=limits.DELTA_MESSAGES[2],
            max_bytes=max_bytes,
        )
        if not isinstance(page, DeltaPage | DeltaReset | DeltaMissing | DeltaUnavailable):
            raise errors.ProviderInvalid("the host's transcript did not answer with a page, a reset or why not")
        return page

    def _store(self, session: HostSession, entries: tuple[DeltaEntry, ...]) -> int:
        """A page may begin in the middle of a turn: what the person said in it goes before, and is recognised."""
        rooms = self._rooms()
        opening = self._opening.get(session.called, ())
        said = [_said(entry) for entry in entries]
        before = [] if is_person(said[0]) else [_said(entry) for entry in opening]
        stored = store(rooms, session, taken([*before, *said], rooms.settings, of_transcript=True), "import")
        begun = units(said)[-1]
        if is_person(said[begun[0]]):
            opening = tuple(entries[index] for index in begun if is_person(said[index]))
            self._opening[session.called] = opening
        return stored.messages


def _said(entry: DeltaEntry) -> dict[str, Any]:
    """The message of an entry with the entry's id, and its time where it has none itself."""
    has_time = any(key in entry.message for key in ("at", "timestamp"))
    time = {"at": entry.created_at} if entry.created_at is not None and not has_time else {}
    return {**entry.message, **time, "entryId": entry.entry_id}
