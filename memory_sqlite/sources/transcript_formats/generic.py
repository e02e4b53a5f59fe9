"""Lines ``{role, content}`` of any other host, with optional id, name, time, sender and session.

Field names are those of common exports; a session not named is the file's. What kind of session it is, nobody says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from memory_sqlite.model import SessionInfo
from memory_sqlite.sources.jsonl import Line
from memory_sqlite.sources.transcript_formats.context import Context, usable_key
from memory_sqlite.sources.transcript_formats.items import Ignored, Item, Refused
from memory_sqlite.sources.transcript_formats.sessions import chat_type_of, kind_of, owner_of

NAME: Final = "generic"

_ROLES: Final = {"human": "user", "ai": "assistant", "bot": "assistant", "model": "assistant"}
_SESSION_KEYS: Final = ("session", "session_id", "sessionId", "sessionKey", "conversation_id", "conversationId")
_TIME_KEYS: Final = ("at", "timestamp", "created_at", "createdAt", "time")
_SENDER_KEYS: Final = ("sender", "sender_id", "senderId")


def recognises(value: Mapping[str, Any]) -> bool:
    """A role in words and some content, and no envelope around them."""
    return isinstance(value.get("role"), str) and ("content" in value or "tool_calls" in value)


class GenericReader:
    """Reads lines that are messages themselves."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def read(self, value: Mapping[str, Any], line: Line) -> list[Item]:
        """Raises ``InvalidArgument`` for a message that cannot be one."""
        if "role" in value and "content" in value and not isinstance(value["role"], str):
            return [Refused(line.number, "role must be a string")]
        if not recognises(value):
            return [Ignored(line.number)]
        message: dict[str, Any] = {
            "role": _ROLES.get(value["role"].strip().lower(), value["role"]),
            "id": usable_key(value.get("id")),
            "name": usable_key(value.get("name")),
            "sender": next((said for key in _SENDER_KEYS if (said := usable_key(value.get(key))) is not None), None),
        }
        message.update({key: value[key] for key in ("content", "tool_calls") if key in value})
        times = tuple(value.get(key) for key in _TIME_KEYS)
        return [self._context.speak(self._session(value), line, message, record=value, times=times)]

    def finish(self) -> list[Item]:
        return []

    def _session(self, value: Mapping[str, Any]) -> SessionInfo:
        said = next((value[key] for key in _SESSION_KEYS if usable_key(value.get(key)) is not None), None)
        return SessionInfo(
            self._context.session_key(said),
            chat_type=chat_type_of(value.get("chat_type"), value.get("chatType")),
            kind=kind_of(value.get("kind")),
            sender_is_owner=owner_of(value),
        )
