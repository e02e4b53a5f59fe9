"""On whose behalf a provider is asked: caller context, authority, audience, and the bounded recall pass.

These are what a host hands to a provider. An audience counts only when a host minted it (``host.audiences``): equality
of two audiences gives no authority, so they compare by identity. Not here: minting and currency (``host``), what an
audience may read of our store (``transcripts.audience``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from memory_sqlite.runtime.signals import AbortSignal

Purpose = Literal["default", "status", "cli"]
RecallCorpus = Literal["sessions", "configured"]


@dataclass(frozen=True, eq=False)
class OwnerPrivateAudience:
    """The agent's owner in a direct turn: owner-private memory of one agent."""

    agent_id: str
    kind: Literal["owner-private"] = "owner-private"


@dataclass(frozen=True, eq=False)
class ConversationAudience:
    """One root conversation: a group, a channel, or somebody else's direct chat. Key and id of the durable root."""

    agent_id: str
    session_key: str
    session_id: str
    kind: Literal["conversation"] = "conversation"


MemoryAudience = OwnerPrivateAudience | ConversationAudience


@dataclass(frozen=True)
class ConversationRecall:
    """A bounded recall pass that a host granted to one session's tools. Never taken from a model's arguments."""

    anchor_session_key: str
    corpus: RecallCorpus
    scope: Literal["same-agent-private"] = "same-agent-private"


@dataclass(frozen=True)
class OperatorAuthority:
    """An authenticated operator: explicit scopes, and the connection where there is one."""

    scopes: tuple[str, ...]
    conn_id: str | None = None
    kind: Literal["operator"] = "operator"


@dataclass(frozen=True)
class SessionAuthority:
    """A session of the host. Without an audience (or pass) it grants nothing private."""

    session_key: str
    sandboxed: bool
    session_id: str | None = None
    audience: MemoryAudience | None = None
    conversation_recall: ConversationRecall | None = None
    kind: Literal["session"] = "session"


@dataclass(frozen=True)
class HostAuthority:
    """A named operation of the host itself: health only, no private or conversation data."""

    operation: str
    kind: Literal["host"] = "host"


CallerAuthority = OperatorAuthority | SessionAuthority | HostAuthority


@dataclass(frozen=True)
class CallerContext:
    """Who asks, whether that is still so, and whether an answer is still wanted.

    ``assert_current`` raises (``errors.CallerNotCurrent``) when the authority has lapsed: call it immediately before
    each read or write, also after an await. It is synchronous, reads no file, and may be called from any thread.
    Revocation does not abort ``signal``.
    """

    authority: CallerAuthority
    assert_current: Callable[[], None]
    signal: AbortSignal | None = None
