"""What a bounded recall pass admits, hit by hit: one policy for our provider and for our legacy runtime.

A host grants a pass to one session's tools so that they may look into the agent's other private conversations, and no
further. The rules are those of ``authorizeSearchHits`` in the product this contract is of (2026.9.6), with "private"
read more strictly: a conversation of the agent's owner, not any direct chat. Pure: who looks up what is known of a hit
is the caller (``facts_of`` does it for our store). Not here: searching, and what an audience may read (``visibility``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import apsw

from memory_sqlite.runtime.callers import ConversationRecall
from memory_sqlite.transcripts import sessions

_CHILD: Final = re.compile(r":active-memory:[0-9a-f]{12}", re.ASCII)
"""What follows the anchor's key in the key of a session that was made to recall for it."""


@dataclass(frozen=True)
class Conversation:
    """What is known of one conversation. ``private``: a direct chat of the agent's owner, as far as anybody knows."""

    agent_id: str
    session_key: str
    private: bool


@dataclass(frozen=True)
class Requester:
    """Who uses the pass: an agent's session, and whether it runs in a sandbox."""

    agent_id: str
    session_key: str | None
    sandboxed: bool


@dataclass(frozen=True)
class HitFacts:
    """What is known of one hit: ``aliases`` are all the conversations that its transcript is known as.

    ``before_reset``: it was said in the anchor before the anchor's recorded reset, so that the anchor no longer shows
    it. ``deleted``: it is in the archive of a deleted transcript.
    """

    source: str
    aliases: tuple[Conversation, ...] = ()
    before_reset: bool = False
    deleted: bool = False


def is_valid(recall: ConversationRecall, requester: Requester, anchor: tuple[Conversation, ...]) -> bool:
    """Whether the pass is good for this requester: the anchor itself or a session made to recall for it, in no sandbox.

    ``anchor`` are all rows known of the anchor's transcript; every one of them must be private, and this agent's.
    """
    key = requester.session_key
    if requester.sandboxed or recall.scope != "same-agent-private" or recall.corpus not in ("sessions", "configured"):
        return False
    if not isinstance(recall.anchor_session_key, str) or not recall.anchor_session_key or key is None:
        return False
    if key != recall.anchor_session_key:
        suffix = key.removeprefix(recall.anchor_session_key)
        if suffix == key or _CHILD.fullmatch(suffix) is None:
            return False
    if not any(row.session_key == recall.anchor_session_key for row in anchor):
        return False
    return all(row.agent_id == requester.agent_id and row.private for row in anchor)


def admits(recall: ConversationRecall, valid: bool, requester: Requester, hit: HitFacts) -> bool:
    """Whether a hit may be shown under the pass. An invalid pass admits no hit of a session."""
    if hit.source != "sessions":
        return recall.corpus == "configured"
    if not valid or hit.deleted or not hit.aliases:
        return False
    if not all(alias.agent_id == requester.agent_id and alias.private for alias in hit.aliases):
        return False
    return hit.before_reset or all(alias.session_key != recall.anchor_session_key for alias in hit.aliases)


def conversations_of(store: apsw.Connection, agent_id: str, session_key: str | None) -> tuple[Conversation, ...]:
    """What our store knows of a conversation: one row a key, or none. A store holds one agent."""
    row = sessions.by_key(store, session_key) if session_key else None
    return () if row is None else (Conversation(agent_id, row.key, row.owner_private),)


def facts_of(store: apsw.Connection, agent_id: str, source: str, session_key: str | None) -> HitFacts:
    """What our store knows of a hit. A reset keeps a transcript under its key here, and a deleted one is gone: so
    nothing is ever ``before_reset`` or ``deleted``."""
    return HitFacts(source, conversations_of(store, agent_id, session_key))
