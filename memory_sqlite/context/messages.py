"""A host's messages as the store takes them, so that a turn is the same by whatever way it comes.

What an import of the host's transcript would make of a message is made of it here, too: the host's metadata is cut from
a person's words, the host's own words are not a person's, and an answer that says nothing is left out. Not here:
storing (``storing``), what a message costs in a prompt (``budget``).
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from memory_sqlite import errors
from memory_sqlite.agent.turns import without_frames
from memory_sqlite.clock import parse_time
from memory_sqlite.config import Settings
from memory_sqlite.model import Message
from memory_sqlite.sources.transcript_formats.context import usable_key
from memory_sqlite.sources.transcript_formats.openclaw import spoken
from memory_sqlite.transcripts.bounds import bounded
from memory_sqlite.transcripts.content import read_content
from memory_sqlite.transcripts.identity import SYNTHETIC_PREFIX
from memory_sqlite.transcripts.normalise import CALLS, normalise

_log: Final = logging.getLogger("memory_sqlite.context.messages")
_SUMMARIES: Final = frozenset({"compactionSummary", "branchSummary", "custom"})
"""Roles of what a host adds to a transcript for itself; nobody said it, and an import leaves it out."""
_ENTRY_KEYS: Final = ("entryId", "entry_id")


def check_messages(messages: object) -> Sequence[Mapping[str, Any]]:
    """Messages as a host gives them. Raises ``InvalidArgument``."""
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
        raise errors.InvalidArgument("messages must be a list of messages")
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise errors.InvalidArgument(f"messages[{index}] must be an object with a role")
    return messages


def taken(
    messages: Sequence[Mapping[str, Any]],
    settings: Settings,
    *,
    is_heartbeat: bool = False,
    first_entry: str | None = None,
    last_entry: str | None = None,
    of_transcript: bool = False,
) -> list[Message]:
    """The messages that a memory keeps, in order, shortened to ``max_record_bytes``: a turn is never lost for its size.

    ``first_entry`` and ``last_entry`` are the transcript entries of the first and the last message. In a heartbeat the
    host speaks, not a person. What a transcript has (``of_transcript``) nobody can correct any more: there an odd
    message is left out, with a warning in the log, as an import leaves out an odd line. Else ``InvalidArgument``.
    """
    kept = []
    for index, message in enumerate(messages):
        anchors = [usable_key(first_entry)] if index == 0 else []
        anchors += [usable_key(last_entry)] if index == len(messages) - 1 else []
        place = f"{first_entry} {index}" if first_entry else None
        try:
            one = _taken(
                message, f"messages[{index}]", settings, is_heartbeat, [entry for entry in anchors if entry], place
            )
        except errors.InvalidArgument as error:
            if not of_transcript:
                raise
            _log.warning("a message of a transcript was left out: %s", error.message)
            continue
        if one is not None:
            kept.append(one)
    return kept


def _taken(
    message: Mapping[str, Any],
    where: str,
    settings: Settings,
    is_heartbeat: bool,
    anchors: Sequence[str],
    turn: str | None,
) -> Message | None:
    words = None if message["role"] in _SUMMARIES else spoken(message)
    if words is None:
        return None
    content, role = words
    said: dict[str, Any] = {
        "role": "system" if is_heartbeat and role == "user" else role,
        "content": content,
        "name": usable_key(message.get("name")),
        "sender": usable_key(message.get("senderId")) or usable_key(message.get("sender")),
        "at": next((message[key] for key in ("at", "timestamp") if parse_time(message.get(key)) is not None), None),
        **{key: message[key] for key in CALLS if key in message},
    }
    ids = [*anchors, *(usable_key(message.get(key)) for key in (*_ENTRY_KEYS, "id"))]
    entries = tuple(dict.fromkeys(entry for entry in ids if entry is not None))
    said["id"] = entries[0] if entries else None
    made = () if said["at"] is None and turn is None else (_made_id(message, turn if said["at"] is None else None),)
    one = normalise(said, redact=settings.redact_secrets, where=where, record=message, entry_ids=entries)
    one = replace(one, entry_ids=(*one.entry_ids, *made))
    bare = without_frames(one)
    return None if bare is None else bounded(bare, settings.max_record_bytes, "truncate", what=where)


def words_of(message: Mapping[str, Any]) -> str:
    """What a message says, on one line; empty for one that says nothing or that nobody said."""
    words = None if message.get("role") in _SUMMARIES else spoken(message)
    if words is None:
        return ""
    try:
        text, _ = read_content(words[0], "content")
    except errors.InvalidArgument:
        return ""
    return " ".join(text.split())


def is_marked(message: Mapping[str, Any]) -> bool:
    """Whether a message has an id or a time, so that it is known again."""
    ids = any(usable_key(message.get(key)) is not None for key in (*_ENTRY_KEYS, "id"))
    return ids or any(parse_time(message.get(key)) is not None for key in ("at", "timestamp"))


def _made_id(message: Mapping[str, Any], place: str | None) -> str:
    """An id for a message without one, by which it is known when it comes again: made of the message with its time, or
    with its place in a turn that has an id."""
    told = {key: value for key, value in message.items() if key not in (*_ENTRY_KEYS, "id")}
    told["place"] = place
    try:
        text = json.dumps(told, sort_keys=True, default=str)
    except (TypeError, ValueError, RecursionError):  # ``normalise`` refuses what is not JSON, and names it
        text = ""
    return f"{SYNTHETIC_PREFIX}{hashlib.blake2b(text.encode('ascii', 'replace'), digest_size=8).hexdigest()}"
