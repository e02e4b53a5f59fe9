"""Session transcripts of OpenClaw: ``agents/<agent>/sessions/<session id>.jsonl``.

A header ``{"type":"session","id",…}``, then entries in a tree: ``message`` (role ``user``, ``assistant``,
``toolResult``), and entries that are the host's own (``compaction``, ``branch_summary``, ``custom``,
``custom_message``, ``model_change``, …), which are ignored. Source: OpenClaw documentation, "Session management &
compaction", and real headers. The key and chat type of a session are in ``sessions.json`` beside the transcript.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from memory_sqlite import limits
from memory_sqlite.clock import parse_time
from memory_sqlite.model import SessionInfo
from memory_sqlite.sources.compressed import open_binary
from memory_sqlite.sources.jsonl import Line
from memory_sqlite.sources.transcript_formats.context import Context, as_mapping, usable_key
from memory_sqlite.sources.transcript_formats.items import Ignored, Item
from memory_sqlite.sources.transcript_formats.sessions import chat_type_of, kind_of, owner_of, read_session_key

NAME: Final = "openclaw"

_HOST_PROVENANCE: Final = ("inter_session", "internal_system")
_SILENT_REPLIES: Final = frozenset({"HEARTBEAT_OK", "NO_REPLY"})
_HEARTBEAT_PROMPT: Final = "Read HEARTBEAT.md if it exists"
_METADATA_BLOCK: Final = re.compile(
    r"\s*[A-Z][A-Za-z ]{2,60} \((?:un)?trusted[^)\n]{0,60}\):\s*(?:```json\n.*?\n```|\{[^\n]*\})[ \t]*(?:\n|$)", re.S
)
_ENVELOPE: Final = re.compile(r"\s*\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \d{4}-\d\d-\d\d \d\d:\d\d[^\]\n]{0,16}\] ?")


def recognises(value: Mapping[str, Any]) -> bool:
    """The header, or an entry that wraps a message."""
    kind = value.get("type")
    if kind == "session":
        return "id" in value
    return kind == "message" and isinstance(value.get("message"), dict)


class OpenClawReader:
    """Reads a header and message entries; a damaged or missing header costs only what it would have said."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._session = self._describe({})
        self._has_header = False

    def read(self, value: Mapping[str, Any], line: Line) -> list[Item]:
        """Raises ``InvalidArgument`` for a message that cannot be one."""
        if value.get("type") == "session" and not self._has_header:
            self._has_header = True
            self._session = self._describe(value)
        message = value.get("message")
        if value.get("type") != "message" or not isinstance(message, dict):
            return [Ignored(line.number)]
        words = spoken(message)
        if words is None:
            return [Ignored(line.number)]
        content, role = words
        entry = usable_key(value.get("id"))
        said: dict[str, Any] = {
            "role": role,
            "content": content,
            "id": entry,
            "name": usable_key(message.get("name")),
            "sender": usable_key(message.get("senderId")) or usable_key(message.get("sender")),
        }
        times = (message.get("timestamp"), value.get("timestamp"))
        return [self._context.speak(self._session, line, said, record=value, times=times)]

    def finish(self) -> list[Item]:
        return []

    def _describe(self, header: Mapping[str, Any]) -> SessionInfo:
        said_id = usable_key(header.get("id")) or self._context.fallback
        key = header.get("sessionKey", header.get("key"))
        found, entry = self._host_entry(said_id)
        key = key if isinstance(key, str) else found
        key_type, key_kind = read_session_key(key)
        chat_type = chat_type_of(header.get("chatType"), header.get("scope"), entry.get("chatType"), key_type)
        named = self._context.session_key(said_id)
        is_chosen = self._context.override is not None
        return SessionInfo(
            named,
            chat_type=chat_type,
            kind=kind_of(header.get("kind"), key_kind),
            # one header cannot vouch for everybody who speaks in a room
            sender_is_owner=None if chat_type in ("group", "channel") else owner_of(header),
            started_at=parse_time(header.get("timestamp")),
            host_key=usable_key(key) if not is_chosen and key != named else None,
        )

    def _host_entry(self, session_id: str) -> tuple[str | None, Mapping[str, Any]]:
        """The session's key and entry in the host's ``sessions.json``; nothing when it cannot be read."""
        path = self._context.path.parent / "sessions.json"
        try:
            with open_binary(path) as source:
                data = source.read(limits.SESSIONS_FILE_MAX_BYTES + 1)
            sessions = as_mapping(json.loads(data)) if len(data) <= limits.SESSIONS_FILE_MAX_BYTES else {}
        except (OSError, ValueError, RecursionError):
            return None, {}
        for key, entry in sessions.items():
            if as_mapping(entry).get("sessionId") == session_id:
                return key, as_mapping(entry)
        return None, {}


def spoken(message: Mapping[str, Any]) -> tuple[Any, Any] | None:
    """Content and role of the host's message as a memory takes them; ``None`` for its words for "nothing to say".

    Also called by the context engine, so that a turn is the same by whatever way it comes.
    """
    content, role = message.get("content"), message.get("role")
    if role == "user":
        return _persons_words(content, message)
    if role == "assistant" and _is_silent_reply(content):
        return None
    if role == "bashExecution":
        return message.get("output"), "tool"
    return content, role


def _persons_words(content: Any, message: Mapping[str, Any]) -> tuple[Any, str]:
    """A user message without what the host put before the person's words, and whether it is a person's at all.

    The host's metadata blocks are cut from the text and never believed: a person can type them too.
    """
    if as_mapping(message.get("provenance")).get("kind") in _HOST_PROVENANCE:
        return content, "system"
    if isinstance(content, str):
        words = _without_prefix(content)
        return words, "system" if words.startswith(_HEARTBEAT_PROMPT) else "user"
    if isinstance(content, list):
        blocks = [
            {**block, "text": _without_prefix(block["text"])}
            if isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)
            else block
            for block in content
        ]
        first = next((block["text"] for block in blocks if isinstance(block, dict) and "text" in block), "")
        return blocks, "system" if isinstance(first, str) and first.startswith(_HEARTBEAT_PROMPT) else "user"
    return content, "user"


def _without_prefix(text: str) -> str:
    at = 0
    while (block := _METADATA_BLOCK.match(text, at)) is not None:
        at = block.end()
    envelope = _ENVELOPE.match(text, at)
    if envelope is not None:
        at = envelope.end()
    return text[at:].lstrip("\n") if at else text


def _is_silent_reply(content: Any) -> bool:
    """The agent's words for "nothing to say"."""
    if isinstance(content, list):
        texts = [block.get("text") for block in content if isinstance(block, dict) and block.get("type") == "text"]
        calls = any(isinstance(block, dict) and block.get("type") == "toolCall" for block in content)
        content = texts[0] if len(texts) == 1 and not calls else None
    return isinstance(content, str) and content.strip() in _SILENT_REPLIES
