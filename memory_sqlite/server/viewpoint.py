"""On whose behalf a server asks: fixed when it starts, looked up in the store on every call, never in an argument.

Without a session it is the agent's owner: what is owner-private, and nothing that was said in groups or by strangers.
With a session it is that session and what it may see, as ``search --session`` has it; one that was never heard of sees
nothing but what it says itself. Paths of the machine are hidden. Everything here blocks: call it in a thread.

Not here: arguments and texts of tools (``operations``, ``rendering``), protocols.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final

import apsw

from memory_sqlite import errors
from memory_sqlite.agent import arguments, freshness
from memory_sqlite.agent.answer import answer
from memory_sqlite.agent.freshness import Freshness
from memory_sqlite.forget_report import ForgetReport
from memory_sqlite.memory import Memory
from memory_sqlite.model import (
    Page,
    Passage,
    Source,
)
from memory_sqlite.runtime import health, recording
from memory_sqlite.runtime.agents import DISABLED, AgentRooms
from memory_sqlite.runtime.outside import OutsideNotes
from memory_sqlite.runtime.recording import OWNERS_ROOM, Place, Recorded
from memory_sqlite.runtime.shapes import Health
from memory_sqlite.sources import reading
from memory_sqlite.storage.fetch import all_rows
from memory_sqlite.transcripts import sessions
from memory_sqlite.transcripts.audience import OPERATOR, Audience, of_session
from memory_sqlite.transcripts.sessions import Session

_OWNER: Final = Audience(operator=False, owner_private=True)
_BEHIND: Final = "not everything that is searched is up to date"


class Viewpoint:
    """One agent's memory as one caller sees it. Thread-safe. Methods raise ``ProviderUnavailable`` when memory is
    disabled, ``MemoryClosed``, and what the door's methods of the same names raise."""

    def __init__(self, memory: Memory, session: str | None = None) -> None:
        """``session`` is a session's key, ``None`` the owner. Raises ``InvalidArgument``."""
        self._memory = memory
        self.session: Final = None if session is None else sessions.check_key(session)

    @property
    def agent(self) -> str:
        """The agent whose memory it is."""
        return self._memory.agent

    def is_owner(self) -> bool:
        """Whether the agent's owner asks: who may read notes, and have things forgotten."""
        with self._rooms().opened.store.readers.borrow() as store:
            return self._audience(store).owner_private

    # --- reading -------------------------------------------------------------------------------------------------

    def search(
        self,
        query: str,
        *,
        max_results: int | None,
        most: int,
        sources: Sequence[Source],
        projects: Sequence[str] | None,
        since: str | None,
        until: str | None,
        cancelled: threading.Event,
    ) -> Page:
        """As ``Memory.search``, at most ``most`` hits, without paths of the machine in them."""
        rooms = self._rooms()
        asked = arguments.check(
            query, max_results, 0.0, sources, None, projects, since, until, "score", False, most
        )  # fmt: skip
        guard = arguments.deadline(None, cancelled, rooms.clock)
        fresh = freshness.freshen(rooms.opened, rooms.clock, rooms.lock)
        with rooms.opened.store.readers.borrow() as store:
            audience = self._audience(store)
        if fresh.warnings and not audience.may_see_notes:  # how many notes there is trouble with is for who sees notes
            fresh = Freshness(fresh.stale, (_BEHIND,) if fresh.stale else ())
        return answer(rooms.opened, asked, audience, fresh, rooms.settings, rooms.clock, guard=guard)

    def get(self, reference: str, from_line: int = 1, lines: int | None = None, offset: int = 0) -> Passage:
        """As ``Memory.get``. The owner is told ``not_found`` of what is not there; others are denied either way."""
        rooms = self._rooms()
        names = OutsideNotes(rooms.opened)
        asked = arguments.check_range(
            _found_path(names, reference), from_line, lines, offset, rooms.settings.max_read_lines
        )
        place = reading.Place(rooms.opened.workspace, rooms.settings.extra_paths)
        with rooms.opened.store.readers.borrow() as store:
            audience = self._audience(store)
            try:
                return reading.read(store, audience, place, *asked)
            except errors.AccessDenied:
                if audience.owner_private:
                    there = reading.read(store, OPERATOR, place, *asked)
                    if there.status == "not_found":
                        return there
                raise

    def sessions(self, limit: int, offset: int) -> list[Session]:
        """The sessions whose talk may be seen, the most recently active first."""
        with self._rooms().opened.store.readers.borrow() as store:
            audience = self._audience(store)
            return sessions.visible(store, audience.session_id, audience.owner_private, limit, offset)

    def notes(self, limit: int, offset: int) -> list[tuple[str, str]]:
        """Path and title of the notes that are indexed, by path; none for who may not see notes."""
        rooms = self._rooms()
        with rooms.opened.store.readers.borrow() as store:
            if not self._audience(store).may_see_notes:
                return []
        with rooms.opened.keeper.reader() as index:
            rows: list[tuple[Any, ...]] = all_rows(
                index,
                "SELECT path, title FROM documents WHERE kind = 'note' ORDER BY path LIMIT ? OFFSET ?",
                (limit, offset),
            )
        return [(str(path), str(title)) for path, title in rows]

    def shown(self, path: str) -> str:
        """A path or reference as others may know it."""
        names = OutsideNotes(self._rooms().opened)
        if path.startswith("note:"):
            return "note:" + names.hide(path.removeprefix("note:"))
        return names.hide(path)

    def health(self) -> Health:
        """Whether the memory answers and what it must do without; no number and no text of what is in it."""
        return health.look(self._rooms(), counts=False)

    def status(self) -> dict[str, Any]:
        """As ``Memory.status``."""
        self._rooms()
        return self._memory.status()

    # --- writing -------------------------------------------------------------------------------------------------

    def remember(self, fact: dict[str, Any]) -> Recorded:
        """Keep a stated fact: the owner's for all their sessions, another session's for itself."""
        rooms = self._rooms()
        place = Place(None, self.session or OWNERS_ROOM)
        if not self.is_owner():
            assert self.session is not None, "without a session it is the owner who asks"
            place = Place(self.session, self.session)
        return recording.record(rooms, place, fact, None, _nothing_lapses)

    def forget(self, references: Sequence[str], *, notes: bool, keep_turns: bool, dry_run: bool) -> ForgetReport:
        """As ``Memory.forget``, of what this caller may read and, being the owner, have forgotten.

        Raises ``AccessDenied`` before anything is forgotten, and ``InvalidArgument`` for what names more than a search
        shows: a whole note or transcript.
        """
        if not self.is_owner():
            raise errors.AccessDenied("only the owner can have something forgotten")
        names = OutsideNotes(self._rooms().opened)
        for one in references:
            if not one.startswith(("message:", "record:")) and reading.LINE_RANGE.search(one) is None:
                raise errors.InvalidArgument("references must be as memory_search shows them")
            self.get(one)
        chosen = [_found_path(names, one) for one in references]
        return self._memory.forget(references=chosen, notes=notes, keep_turns=keep_turns, dry_run=dry_run)

    # --- who asks ------------------------------------------------------------------------------------------------

    def _audience(self, store: apsw.Connection) -> Audience:
        return _OWNER if self.session is None else of_session(store, self.session)

    def _rooms(self) -> AgentRooms:
        rooms = self._memory.rooms()
        if rooms is None:
            raise errors.ProviderUnavailable(DISABLED)
        return rooms


def _found_path(names: OutsideNotes, reference: str) -> str:
    if reference.startswith("note:"):
        return "note:" + names.find(reference.removeprefix("note:"))
    return names.find(reference)


def _nothing_lapses() -> None:
    """A server's caller is who started it, for as long as it runs."""
