"""Who asks, as the host vouches for it: agent, session, and what that session is. Nothing a model said counts.

Facts: section 6.1 of the layered-memory reference (trimmed ``sessionKey``, else ``sessionId``; agent ``main``).
Called by hooks, tool and manager.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import apsw

from memory_sqlite.layers.keywords import js_trim
from memory_sqlite.model import ChatType, SessionInfo, SessionKind
from memory_sqlite.sources.transcript_formats.sessions import chat_type_of, owner_of, read_session_key
from memory_sqlite.transcripts import audience
from memory_sqlite.transcripts.audience import Audience

DEFAULT_AGENT: Final = "main"
_ROOMS: Final = ("group", "channel")


@dataclass(frozen=True, slots=True)
class Caller:
    """One trusted caller. ``session`` is ``None`` when the host named none: then nothing is read and nothing stored."""

    agent: str
    session: str | None
    chat_type: ChatType | None = None
    kind: SessionKind | None = None
    sender_is_owner: bool | None = None
    sender: str | None = None

    def info(self) -> SessionInfo:
        """What is said about the session when a turn of it is stored."""
        return SessionInfo(self.session or "", self.chat_type, self.kind, self.sender_is_owner)

    def audience(self, connection: apsw.Connection) -> Audience:
        """On whose behalf is read: what the store knows of the session and what the host says now, the stricter wins.

        A session that has said nothing yet is judged by the host's word alone.
        """
        known = audience.of_session(connection, self.session or "")
        if known.session_id is None:
            return Audience(False, None, self.chat_type == "direct" and self.sender_is_owner is True)
        if known.owner_private and (self.chat_type in _ROOMS or self.sender_is_owner is False):
            return Audience(False, known.session_id, False)
        return known


def agent_of(value: object) -> str:
    """An agent id as the product trims it; ``main`` when there is none."""
    return (js_trim(value) if isinstance(value, str) else "") or DEFAULT_AGENT


def session_of(*values: object) -> str | None:
    """The first of these that is a session key, trimmed."""
    return next((key for value in values if isinstance(value, str) and (key := js_trim(value))), None)


def caller_of(context: Mapping[str, Any] | None) -> Caller:
    """The caller a host's trusted context names (``agentId``, ``sessionKey``, ``sessionId``, ``senderId``).

    ``chatType`` and ``senderIsOwner`` are ours: with them a host says that this is the owner's direct chat. A session
    key that names a room wins over a context that does not.
    """
    context = context or {}
    session = session_of(context.get("sessionKey"), context.get("sessionId"))
    by_key, kind = read_session_key(session)
    said = chat_type_of(context.get("chatType"))
    sender = context.get("senderId")
    return Caller(
        agent_of(context.get("agentId")),
        session,
        by_key if by_key in _ROOMS else said or by_key,
        kind,
        owner_of(context),
        sender if isinstance(sender, str) and sender else None,
    )
