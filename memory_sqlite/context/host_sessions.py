"""What a host says about the session it calls an engine for: its names, and what kind of conversation it is.

An engine is given a session's key and id, and neither says who speaks. So a host that knows may give the engine a
function that describes a session; without one a session stays what the store knows, and unknown is the most restricted.
Called by the engine and what it consists of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import apsw

from memory_sqlite import errors
from memory_sqlite.model import INTERNAL_KINDS, SessionInfo
from memory_sqlite.sources.transcript_formats.sessions import read_session_key
from memory_sqlite.transcripts import names, sessions
from memory_sqlite.transcripts.audience import NOBODY_YET, Audience
from memory_sqlite.transcripts.sessions import Session

Describe = Callable[[str, str], SessionInfo | None]
"""``(session_key, session_id)`` to what the host knows of that session; ``key`` of the answer means nothing."""


@dataclass(frozen=True)
class HostSession:
    """A session as a host names it. ``called`` are its names, the first of which a new session gets as its key."""

    info: SessionInfo
    called: tuple[str, ...]

    def stored(self, connection: apsw.Connection) -> Session | None:
        """What the store has under any of its names."""
        return names.meant(connection, self.called)

    def viewer(self, stored: Session | None) -> Audience:
        """Who asks: the stored session, or one that is yet to be stored and of which the host knows what it is.

        Where the host says otherwise than the store, the more restricted counts; two kinds of conversation are not one.
        """
        if stored is not None:
            kinds = {stored.chat_type, self.info.chat_type or "unknown"} - {"unknown"}
            if len(kinds) > 1:
                return NOBODY_YET
            return Audience(False, stored.id, stored.owner_private and self.info.sender_is_owner is not False)
        is_owners = self.info.chat_type == "direct" and self.info.sender_is_owner is True
        return Audience(False, None, True) if is_owners else NOBODY_YET


def host_session(session_key: str | None, session_id: str, describe: Describe | None) -> HostSession:
    """The session that a host calls so. Raises ``InvalidArgument`` for names that cannot be session keys.

    Of a key's words only those count that take something away: the host's own sessions (cron, heartbeat, sub-agents)
    are told by them. What a session may see never follows from its key.
    """
    named = sessions.check_key(session_id)
    key = sessions.check_key(session_key) if session_key is not None and session_key.strip() else named
    said = describe(key, named) if describe is not None else None
    info = sessions.check_info(replace(said, key=key) if said is not None else SessionInfo(key))
    kind = read_session_key(key)[1]
    if info.kind is None and kind in INTERNAL_KINDS:
        info = replace(info, kind=kind)
    return HostSession(info, tuple(dict.fromkeys((key, named))))


def check_agent(agent_id: str, *said: object) -> None:
    """Raises ``InvalidArgument`` when a host asks this engine about another agent than its own."""
    for target in said:
        named = target.get("agentId", target.get("agent_id")) if isinstance(target, Mapping) else target
        if named is not None and named != agent_id:
            raise errors.InvalidArgument("the session belongs to another agent than this engine")


def key_of(session_key: str | None, session_target: object) -> str | None:
    """The session key, which a host may give on its own or in the target."""
    if session_key is not None:
        return session_key
    named: Any = session_target.get("sessionKey") if isinstance(session_target, Mapping) else None
    return named if isinstance(named, str) else None
