"""One message of any host becomes a ``model.Message``: validated, plain text beside the host's raw record.

Called by ``remember`` with what the host passed, and by every transcript format with what it found on a line. Not here:
reading blocks (``content``), base64 (``blobs``), storing (``turns``), shortening to ``max_record_bytes`` (the caller).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from memory_sqlite import limits
from memory_sqlite.clock import parse_time
from memory_sqlite.errors import InvalidArgument
from memory_sqlite.model import Message
from memory_sqlite.text.units import utf8_length, valid_unicode
from memory_sqlite.transcripts.blobs import json_without_blobs, might_hold_blob, without_blobs
from memory_sqlite.transcripts.content import read_content

TOOL_ROLES: Final = frozenset({"tool", "toolResult", "tool_result", "function"})
"""Roles whose messages are tool output; stored as ``tool``, so that both ways of one turn agree."""

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
CALLS: Final = ("tool_calls", "function_call")


def normalise(
    message: Mapping[str, Any],
    *,
    redact: bool,
    where: str = "message",
    record: Any = None,
    entry_ids: tuple[str, ...] = (),
) -> Message:
    """Validate ``{role, content, id?, name?, at?, sender?}`` and bring it into the house's form.

    ``where`` names the message in errors (``messages[2]`` gives ``messages[2].role``). ``record`` is what the host
    wrote, when that is more than the message (default: the message). ``redact`` masks secrets in text and raw record.
    Raises ``InvalidArgument`` naming the field, never its value. A missing ``content`` is accepted only where hosts
    leave it out: beside tool calls and in tool roles.
    """
    if not isinstance(message, Mapping):
        raise InvalidArgument(f"{where} must be an object")
    role = _role(message.get("role"), f"{where}.role")
    if "content" not in message and role != "tool" and not any(key in message for key in CALLS):
        raise InvalidArgument(f"{where}.content is missing")
    text, only_results = read_content(message.get("content"), f"{where}.content")
    text = without_blobs(valid_unicode(text))
    raw_value, raw = _raw(message if record is None else record, where)
    host_id, name, sender = (_label(message.get(key), f"{where}.{key}") for key in ("id", "name", "sender"))
    redactions = 0
    if redact:
        # imported here: only redaction needs the patterns, and the compatible mode never does
        from memory_sqlite.text.secrets import mask, mask_json, mask_known, mask_label

        spoken = text
        text, in_text = mask(text)
        masked, in_raw = mask_json(raw_value)
        raw = _dump(masked) if in_raw else raw
        if in_text and not isinstance(message.get("content"), str):
            raw = mask_known(raw, spoken)
        name = mask(name)[0] if name is not None else None
        sender = mask(sender)[0] if sender is not None else None
        role = mask_label(role)
        host_id = mask_label(host_id) if host_id is not None else None
        entry_ids = tuple(mask_label(entry_id) for entry_id in entry_ids)
        redactions = max(in_text, in_raw)  # the raw record holds the text, so both count the same secrets
    return Message(
        role=role,
        text=text,
        raw=raw,
        host_id=host_id,
        entry_ids=entry_ids or ((host_id,) if host_id is not None else ()),
        name=name,
        sender=sender,
        at=_time(message.get("at"), f"{where}.at"),
        is_tool_output=only_results or role == "tool",
        redactions=redactions,
    )


def _role(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise InvalidArgument(f"{where} must be a string")
    role = valid_unicode(value).strip()
    if not role or len(role) > limits.ROLE_MAX_CHARS:
        raise InvalidArgument(f"{where} must have 1 to {limits.ROLE_MAX_CHARS} characters")
    return "tool" if role in TOOL_ROLES else role


def _label(value: Any, where: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidArgument(f"{where} must be a string")
    label = valid_unicode(value).strip()
    if utf8_length(label) > limits.HOST_ID_MAX_BYTES:
        raise InvalidArgument(f"{where} must have at most {limits.HOST_ID_MAX_BYTES} bytes")
    return label or None


def _time(value: Any, where: str) -> int | None:
    if value is None:
        return None
    at = parse_time(value)
    if at is None:
        raise InvalidArgument(f"{where} must be ISO-8601 text or an epoch number between the years 1 and 9999")
    return at


def _raw(record: Any, where: str) -> tuple[Any, str]:
    """The record without base64, as a value and as compact JSON."""
    try:
        raw = _dump(record)
        if might_hold_blob(raw):
            record = json_without_blobs(record)
            raw = _dump(record)
    except (TypeError, RecursionError) as error:
        raise InvalidArgument(f"{where} holds something that is not JSON or is nested too deeply") from error
    except ValueError as error:
        # NaN and the infinities cannot be written as JSON; a circular reference cannot be written at all
        raise InvalidArgument(f"{where} holds a number that is not JSON, or itself") from error
    return record, raw


def _dump(value: Any) -> str:
    """Compact JSON as JavaScript writes it: text unescaped, but lone surrogates as escapes, so that they survive."""
    raw = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        raw.encode("utf-8")
    except UnicodeEncodeError:
        return _SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", raw)
    return raw
