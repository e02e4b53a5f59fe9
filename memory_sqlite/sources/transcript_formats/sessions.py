"""What host fields and session keys say about a session: chat type, kind, owner. Unknown words stay unsaid.

Session keys of OpenClaw are ``agent:<agent>:<rest>``; the rest is ``main``, ``<channel>:group:<id>``,
``<channel>:channel:<id>``, ``<channel>:dm:<id>`` (``direct`` in newer versions), ``subagent:<id>``, ``cron:<job>``,
with ``:thread:<id>`` or ``:topic:<id>`` behind (OpenClaw documentation, "Channel routing" and "Session management").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from memory_sqlite.model import ChatType, SessionKind

_CHAT_TYPES: Final[Mapping[str, ChatType]] = {
    "direct": "direct",
    "dm": "direct",
    "private": "direct",
    "group": "group",
    "channel": "channel",
    "room": "channel",
    "unknown": "unknown",
}
_KINDS: Final[Mapping[str, SessionKind]] = {
    "interactive": "interactive",
    "cron": "cron",
    "heartbeat": "heartbeat",
    "subagent": "subagent",
    "unknown": "unknown",
}


def chat_type_of(*said: object) -> ChatType | None:
    """The first of these words that names a chat type."""
    return next(
        (_CHAT_TYPES[word.lower()] for word in said if isinstance(word, str) and word.lower() in _CHAT_TYPES), None
    )


def kind_of(*said: object) -> SessionKind | None:
    """The first of these words that names a session kind."""
    return next((_KINDS[word.lower()] for word in said if isinstance(word, str) and word.lower() in _KINDS), None)


def owner_of(header: Mapping[str, Any]) -> bool | None:
    """What a header says about its sender being the owner: only a real boolean counts."""
    said = header.get("senderIsOwner")
    return said if isinstance(said, bool) else None


def read_session_key(key: object) -> tuple[ChatType | None, SessionKind | None]:
    """Chat type and kind that an OpenClaw session key spells out; ``None`` where it does not.

    Only the words in their fixed places count: what comes after ``group:`` is an id that its members may choose.
    """
    if not isinstance(key, str):
        return None, None
    parts = key.split(":")
    if len(parts) < 3 or parts[0] != "agent":
        return None, None
    rest = parts[2:]
    kind = next((_KINDS[word] for word in rest[:1] if word in ("subagent", "cron", "heartbeat")), None)
    if kind is not None:
        return None, kind
    if rest == ["main"]:
        return "direct", "interactive"
    for word in rest[:3]:  # <channel>:<type>:<id> or <channel>:<account>:<type>:<id>
        if word in ("group", "channel", "dm", "direct"):
            return _CHAT_TYPES[word], "interactive"
    return None, None
