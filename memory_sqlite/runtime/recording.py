"""What a model states through our tool, stored: once a flush, where its audience may read it, and nowhere else.

For an owner-private audience it is the agent's owner's: every session of the owner sees it. For a conversation it stays
in that conversation, with the trust of the room: what a room's talk made a model say is no better than that talk. It is
never a standing instruction, never pinned, and never takes the place of what the owner stated.

Not here: who may write (``visibility``), the tool (``tools``), the rules of stated facts (``layers.stating``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import apsw

from memory_sqlite import errors
from memory_sqlite.agent import stating
from memory_sqlite.agent.turns import apply_quietly
from memory_sqlite.layers.stated import Stated
from memory_sqlite.layers.stating import store_facts
from memory_sqlite.model import SessionInfo
from memory_sqlite.runtime.agents import AgentRooms
from memory_sqlite.transcripts import sessions
from memory_sqlite.transcripts.identity import run_digest
from memory_sqlite.transcripts.sessions import Session

OWNERS_ROOM: Final = "memory-sqlite:remembered"
"""The session of what is the owner's and was stated in no session that we know, as in a flush's own."""


@dataclass(frozen=True)
class Place:
    """Where it may go: the owner's memory, or the conversation with that root key. ``said_in`` is where it was said."""

    conversation: str | None
    said_in: str


@dataclass(frozen=True)
class Recorded:
    """``duplicate``: this flush had stored it before, and nothing was done."""

    status: Literal["stored", "reinforced", "duplicate"]
    reference: str | None = None
    redactions: int = 0
    warning: str | None = None


def record(
    rooms: AgentRooms, place: Place, fact: Mapping[str, Any], flush_id: str | None, assert_current: Callable[[], None]
) -> Recorded:
    """Store one fact in one transaction, then let the index apply it. Blocking: call it in a thread.

    ``flush_id`` and what is stated name the mutation: the same again is a ``duplicate`` for ever, in whatever process,
    also after it was superseded or forgotten. Stated again in another flush or turn it reinforces what is there.
    ``assert_current`` is called when the lock is held, immediately before the first write.

    Raises ``InvalidArgument``, ``CallerNotCurrent`` and the store's errors: then nothing was stored.
    """
    room = SessionInfo(OWNERS_ROOM, "direct", "interactive", True)
    info = SessionInfo(place.conversation) if place.conversation is not None else room
    prepared = stating.prepare(info, [fact], rooms.settings)
    if not prepared.facts:
        raise errors.InvalidArgument("content holds nothing but recalled memory")
    (stated,) = prepared.facts
    with rooms.lock:
        with rooms.opened.store.transaction() as connection:
            assert_current()
            session = _session(connection, rooms, place, prepared.info)
            if flush_id is not None and not _first(connection, session, flush_id, stated):
                return Recorded("duplicate")
            kept = store_facts(
                connection,
                session,
                [stated],
                from_owner=False,
                settings=rooms.settings,
                clock=rooms.clock,
                origin="agent" if place.conversation is None else "untrusted",
                agent_wide=place.conversation is None,
            )
            if not kept.facts:
                raise errors.InvalidArgument("a standing instruction is not the model's to make")
        late = apply_quietly(rooms.opened)
    status: Literal["stored", "reinforced"] = "stored" if kept.new else "reinforced"
    return Recorded(status, f"record:{kept.facts[0]}", stated.redactions, late)


def _session(connection: apsw.Connection, rooms: AgentRooms, place: Place, info: SessionInfo) -> Session:
    """The session it is filed under: the owner's own where it was said in one, else that of ``info``."""
    if place.conversation is None:
        known = sessions.by_key(connection, place.said_in)
        if known is not None and known.owner_private and not known.is_internal:
            return known
    now = rooms.clock.now_ms()
    session = sessions.ensure(rooms.opened.store, info, at=now, now=now)
    if session.is_internal:
        raise errors.InvalidArgument("a session of the host's own states no facts")
    return session


def _first(connection: apsw.Connection, session: Session, flush_id: str, stated: Stated) -> bool:
    """Note the mutation; ``False`` when it was noted before."""
    identity = json.dumps([stated.content, stated.kind, stated.names, stated.scopes], ensure_ascii=True)
    told = hashlib.blake2b(identity.encode(), digest_size=16).hexdigest()
    digest = run_digest(session.token, f"flush:{flush_id}:{told}", 0)
    if connection.execute("SELECT EXISTS (SELECT 1 FROM accepted_runs WHERE digest = ?)", (digest,)).get:
        return False
    connection.execute("INSERT INTO accepted_runs VALUES (?, NULL)", (digest,))
    return True
