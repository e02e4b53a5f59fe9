"""One stored message is at most ``max_record_bytes``: refused, or shortened with a mark. Graphemes stay whole."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final, Literal

from memory_sqlite import errors
from memory_sqlite.model import Message
from memory_sqlite.text.units import cut_utf8, utf8_length

Oversize = Literal["refuse", "truncate"]

_ENVELOPE_BYTES: Final = 64
"""``"content":``, ``"cut_from_bytes":`` with its number, and the marks between them."""


def stored_size(message: Message) -> int:
    """UTF-8 bytes of the larger of text and raw record."""
    return max(utf8_length(message.text), utf8_length(message.raw))


def bounded(message: Message, max_bytes: int, oversize: Oversize, *, what: str) -> Message:
    """The message as it may be stored. ``what`` names it in the error, e.g. ``messages[2]``.

    Shortening takes the raw record's tool output and other blocks first: as long as the text fits, it stays whole.
    Raises ``RecordTooLarge``.
    """
    if max(len(message.raw), len(message.text)) * 4 <= max_bytes:
        return message  # the common case costs no encoding
    size = stored_size(message)
    if size <= max_bytes:
        return message
    if oversize == "refuse":
        raise errors.RecordTooLarge(f"{what} has {size} bytes; max_record_bytes is {max_bytes}")
    kept: dict[str, Any] = {"role": message.role}
    for key, value in (("id", message.host_id), ("name", message.name), ("sender", message.sender)):
        if value is not None:
            kept[key] = value
    if utf8_length(json.dumps(kept, ensure_ascii=False)) > max_bytes // 2:
        kept = {"role": message.role}  # long names leave no room for words; they have columns of their own
    room = max_bytes - utf8_length(json.dumps(kept, ensure_ascii=False)) - _ENVELOPE_BYTES
    text = message.text
    if utf8_length(json.dumps(text, ensure_ascii=False)) > room:
        mark = f"\n[shortened: {utf8_length(text)} bytes before]"
        # escapes in JSON can make text longer than it is: cut until it fits
        size_left = room - len(mark)
        while True:
            text = cut_utf8(message.text, size_left) + mark
            excess = utf8_length(json.dumps(text, ensure_ascii=False)) - room
            if excess <= 0 or size_left <= 0:
                break
            size_left -= max(excess, 16)
    kept["content"] = text
    kept["cut_from_bytes"] = size
    raw = json.dumps(kept, ensure_ascii=False, separators=(",", ":"))
    return replace(message, text=text, raw=raw, cut_from_bytes=size)
