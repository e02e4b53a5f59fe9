"""Audiences: minted by this host from durable lineage, bound to one session, current until a life on the way ends.

An audience is authority by identity. A copy, an equal one, one that came through a pickle or was built by hand is
nothing; so is one whose fields were changed. Called by the binder before and after every provider call, and by a host
for its turns and children. Not here: what a provider shows to an audience.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from memory_sqlite import errors
from memory_sqlite.host.leases import Footing, Lease
from memory_sqlite.host.lineage import Root, agent_of_key, is_session_id, malformed, walk
from memory_sqlite.host.session_rows import SessionRow, SessionRows
from memory_sqlite.runtime.callers import ConversationAudience, MemoryAudience, OwnerPrivateAudience

FORGED = "memory provider requires a host-minted memory audience"
ELSEWHERE = "memory audience is bound to a different session"
STALE = "memory audience is no longer current"
RELEASED = "memory audience was released by its owner"
UNAVAILABLE = "memory audience currency is unavailable; retry the operation"

_log = logging.getLogger("memory_sqlite.host.audiences")
_LEVELS = {"stale-lineage": logging.WARNING, "unverified": logging.INFO, "ineligible": logging.DEBUG}


@dataclass(frozen=True)
class _Minted:
    ref: weakref.ref[MemoryAudience]
    bound_to: str
    content: tuple[Any, ...]
    footing: Footing


def _content(audience: MemoryAudience) -> tuple[Any, ...]:
    if isinstance(audience, ConversationAudience):
        return type(audience), audience.kind, audience.agent_id, audience.session_key, audience.session_id
    return type(audience), audience.kind, audience.agent_id


class Audiences:
    """The audiences of one host. Thread-safe; what is async waits for pending publications, what is not never does."""

    def __init__(self, rows: SessionRows, *, agent_of: Callable[[str], str | None] = agent_of_key) -> None:
        """``agent_of`` says whose session a key names, for hosts whose keys have another form."""
        self._rows = rows
        self._agent_of = agent_of
        self._minted: dict[int, _Minted] = {}

    async def resolve(
        self,
        *,
        agent_id: str,
        session_key: str,
        session_id: str,
        sender_is_owner: bool,
        row: SessionRow | None = None,
    ) -> MemoryAudience:
        """The audience of a turn, from its durable session row and lineage. ``row`` is that row where it was read.

        Raises ``AudienceDenied``: ``stale-lineage`` (spawn anew), ``unverified`` (a later turn tries again) or
        ``ineligible``.
        """
        try:
            if not isinstance(sender_is_owner, bool):
                raise malformed()
            root = await walk(
                self._rows,
                self._agent_of,
                agent_id=agent_id,
                key=session_key,
                session_id=session_id,
                owner=sender_is_owner,
                admitted=row,
            )
            footing = Footing(root.leases)
            try:
                return self._mint(_of_root(agent_id, root), session_key, footing)
            except errors.AudienceDenied:
                footing.release()
                raise
        except errors.AudienceDenied as denied:
            _log.log(_LEVELS[denied.kind], "no memory audience (%s): %s", denied.kind, denied.message)
            raise

    async def delegate(self, parent: MemoryAudience, *, child_key: str, detached: bool = False) -> MemoryAudience:
        """An audience of equal content for a child run: bound to the child's key and present life, or, for a detached
        child, to its key having no row. Ends with its parent; ending it leaves the parent.

        Raises ``CallerNotCurrent`` when the parent is not current, ``AudienceDenied`` when there is no such child.
        """
        while True:
            await self.joined(parent)
            try:
                self.assert_minted_current(parent)
            except errors.CurrencyUnavailable:
                continue
            break
        minted = self._of(parent)
        if not isinstance(child_key, str) or self._agent_of(child_key) != parent.agent_id:
            raise errors.AudienceDenied("ineligible", "the child's session is of another agent")
        await self._rows.settled([child_key])
        row = self._rows.get(child_key)
        if detached and row is not None:
            raise errors.AudienceDenied("ineligible", "a detached child has no session row, and this one has")
        if not detached and row is None:
            raise errors.AudienceDenied("unverified", "the child has no session row")
        if row is not None and not is_session_id(row.session_id):
            raise malformed()
        footing = Footing((Lease(self._rows, child_key, row.incarnation if row is not None else None),), minted.footing)
        return self._mint(_copy(parent), child_key, footing)

    def is_minted(self, audience: object) -> bool:
        """Whether this very object was minted here and has not been tampered with; it may be stale."""
        return self._find(audience) is not None

    def assert_current(self, audience: MemoryAudience, session_key: str) -> None:
        """Raise unless the audience was minted here, belongs to that session, and still holds.

        Synchronous, reads nothing, any thread. Raises ``CurrencyUnavailable`` while a session it stands on is being
        written, else ``CallerNotCurrent``.
        """
        if self._of(audience).bound_to != session_key:
            raise errors.CallerNotCurrent(ELSEWHERE)
        self.assert_minted_current(audience)

    def assert_minted_current(self, audience: MemoryAudience) -> None:
        """``assert_current`` for who holds the audience itself, whatever session it is bound to."""
        standing = self._of(audience).footing.standing()
        if standing == "stale":
            raise errors.CallerNotCurrent(STALE)
        if standing == "released":
            raise errors.CallerNotCurrent(RELEASED)
        if standing == "unavailable":
            raise errors.CurrencyUnavailable(UNAVAILABLE)

    def guard(self, audience: MemoryAudience, session_key: str) -> Callable[[], None]:
        """``assert_current`` with its arguments, for a tool's context."""
        return lambda: self.assert_current(audience, session_key)

    async def joined(self, audience: MemoryAudience | None) -> None:
        """Return when no session that the audience stands on is being written."""
        minted = self._find(audience)
        if minted is not None:
            await self._rows.settled(minted.footing.keys())

    def is_pending(self, audience: MemoryAudience | None) -> bool:
        """Whether one cannot tell at this moment if it is current."""
        minted = self._find(audience)
        return minted is not None and minted.footing.standing() == "unavailable"

    def release(self, audience: MemoryAudience) -> None:
        """End an audience and what was delegated from it, as when the run that owns it ends; safe to call twice.

        Raises ``CallerNotCurrent`` for one that was not minted here.
        """
        self._of(audience).footing.release()

    def _of(self, audience: object) -> _Minted:
        minted = self._find(audience)
        if minted is None:
            raise errors.CallerNotCurrent(FORGED)
        return minted

    def _find(self, audience: object) -> _Minted | None:
        minted = self._minted.get(id(audience))
        # the same object and not one that says it is equal; of its exact class and with what it was minted with
        if minted is None or minted.ref() is not audience or _content(minted.ref()) != minted.content:  # type: ignore[arg-type]
            return None
        return minted

    def _mint(self, audience: MemoryAudience, bound_to: str, footing: Footing) -> MemoryAudience:
        number = id(audience)

        def collected(_: weakref.ref[MemoryAudience]) -> None:
            # before the address can be another object's. No lock: the collector may run inside of anybody's
            self._minted.pop(number, None)

        self._minted[number] = _Minted(weakref.ref(audience, collected), bound_to, _content(audience), footing)
        return audience


def _of_root(agent_id: str, root: Root) -> MemoryAudience:
    if root.row.chat_type == "direct" and root.owner:
        return OwnerPrivateAudience(agent_id)
    if root.row.chat_type in ("direct", "group", "channel"):
        return ConversationAudience(agent_id, root.row.key, root.row.session_id)
    raise errors.AudienceDenied("ineligible", "the session has no durable chat type")


def _copy(audience: MemoryAudience) -> MemoryAudience:
    if isinstance(audience, ConversationAudience):
        return ConversationAudience(audience.agent_id, audience.session_key, audience.session_id)
    return OwnerPrivateAudience(audience.agent_id)
