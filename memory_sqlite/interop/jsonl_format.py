"""The export format, field by field: which kinds of line there are, in which order, and what each field may hold.

``docs/export-format.md`` says it for people; a test holds the two together, and another that every column of the store
is exported or named as left out. Not here: reading and writing files (``jsonl_files``), what refers to what
(``jsonl_check``). Called by both directions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from memory_sqlite import limits

FORMAT: Final = "memory-sqlite-export"
VERSION: Final = 2
"""Raised with every change of a field: a reader takes the versions that it knows and no other."""
READABLE: Final = (1, 2)
"""Version 1 had no holds, and was otherwise the same."""

ARRIVED_WITHOUT_ID: Final = "="
"""How the store begins what it notes of a message that has no entry id: not an id, and null in an export."""

Record = dict[str, Any]
"""One decoded line."""
Check = Callable[[Any], bool]

_EARLIEST_MS: Final = -62_135_596_800_000
_LATEST_MS: Final = 253_402_300_799_999
"""The years 1 to 9999, as ``clock.parse_time`` takes them."""
_WIDEST: Final = 2**62
"""Bounds of a tombstone that speaks of whenever."""
_COUNT: Final = 2**53 - 1
"""What every reader of JSON holds exactly."""
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
"""As the store has it: an imported file may be named for a day that no calendar has."""


def _bytes_of(value: str, most: int) -> bool:
    if len(value) * 4 <= most and value.isascii():
        return True
    try:
        return len(value.encode("utf-8")) <= most
    except UnicodeEncodeError:  # a lone surrogate, which no text of the store can hold
        return False


def _text(most: int, *, blank: bool = True) -> Check:
    return lambda value: isinstance(value, str) and (blank or bool(value)) and _bytes_of(value, most)


def _maybe(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _integer(low: int, high: int) -> Check:
    return lambda value: type(value) is int and low <= value <= high


def _one_of(*words: str) -> Check:
    return lambda value: isinstance(value, str) and value in words


def _hexadecimal(count: int) -> Check:
    fits = re.compile(rf"[0-9a-f]{{{count}}}").fullmatch
    return lambda value: isinstance(value, str) and fits(value) is not None


def _list(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _tuple(*checks: Check) -> Check:
    return lambda value: (
        isinstance(value, list)
        and len(value) == len(checks)
        and all(check(item) for check, item in zip(checks, value, strict=True))
    )


def _object(fields: Mapping[str, Check]) -> Check:
    return lambda value: (
        isinstance(value, dict)
        and value.keys() == fields.keys()
        and all(check(value[name]) for name, check in fields.items())
    )


def _json(value: Any) -> bool:
    """JSON of a host: as a value, or as the text of one."""
    return isinstance(value, dict | list) or (
        isinstance(value, str) and _bytes_of(value, limits.TRANSCRIPT_LINE_MAX_BYTES)
    )


def _day(value: Any) -> bool:
    return isinstance(value, str) and _DAY.fullmatch(value) is not None


def _number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


_WORDS: Final = _text(limits.EXPORT_TEXT_MAX_BYTES)
_LABEL: Final = _text(limits.EXPORT_TEXT_MAX_BYTES, blank=False)
_KEY: Final = _text(limits.SESSION_KEY_MAX_BYTES, blank=False)
_AT: Final = _integer(_EARLIEST_MS, _LATEST_MS)
_NUMBER: Final = _integer(1, _COUNT)
_MANY: Final = _integer(0, _COUNT)
_FLAG: Final[Check] = lambda value: isinstance(value, bool)  # noqa: E731
_ORIGIN: Final = _one_of("owner", "agent", "untrusted", "system")
_DIGEST: Final = _hexadecimal(64)
_HALF_DIGEST: Final = _hexadecimal(32)
_TURN: Final = _tuple(_KEY, _NUMBER)
_MESSAGE: Final = _tuple(_KEY, _NUMBER)

FIELDS: Final[Mapping[str, Mapping[str, Check]]] = {
    "tombstone": {
        "subject_kind": _one_of("session", "participant", "span", "entry", "message", "record", "note"),
        "subject": _LABEL,
        "of": _maybe(_WORDS),
        "since_at": _integer(-_WIDEST, _WIDEST),
        "until_at": _integer(-_WIDEST, _WIDEST),
        "reason": _LABEL,
        "at": _AT,
    },
    "session": {
        "key": _KEY,
        "token": _HALF_DIGEST,
        "names": _list(_LABEL),
        "chat_type": _one_of("direct", "group", "channel", "unknown"),
        "session_kind": _one_of("interactive", "cron", "heartbeat", "subagent", "unknown"),
        "sender_is_owner": _maybe(_FLAG),
        "project": _maybe(_WORDS),
        "turn_count": _MANY,
        "message_count": _MANY,
        "rewritten": _MANY,
        "started_at": _AT,
        "active_at": _AT,
        "recorded_at": _AT,
    },
    "turn": {
        "session": _KEY,
        "ordinal": _NUMBER,
        "run_id": _maybe(_WORDS),
        "runs": _list(_tuple(_DIGEST, _maybe(_MANY))),
        "advancement_key": _maybe(_WORDS),
        "advancements": _list(_DIGEST),
        "arrived_by": _LABEL,
        "at": _AT,
        "recorded_at": _AT,
    },
    "message": {
        "session": _KEY,
        "turn": _NUMBER,
        "position": _NUMBER,
        "host_id": _maybe(_WORDS),
        "entries": _list(_tuple(_maybe(_WORDS), _LABEL)),
        "role": _LABEL,
        "name": _maybe(_WORDS),
        "sender": _maybe(_WORDS),
        "text": _WORDS,
        "raw": _WORDS,
        "at": _AT,
        "origin": _ORIGIN,
        "is_tool_output": _FLAG,
        "redactions": _MANY,
        "cut_from_bytes": _maybe(_MANY),
    },
    "record": {
        "record_id": _LABEL,
        "layer": _one_of("L1", "L2", "L3"),
        "record_kind": _maybe(_WORDS),
        "content": _WORDS,
        "keywords": _list(_WORDS),
        "session": _KEY,
        "turn": _maybe(_TURN),
        "sender": _maybe(_WORDS),
        "run_id": _maybe(_WORDS),
        "origin": _ORIGIN,
        "agent_wide": _FLAG,
        "importance": _maybe(_integer(1, 10)),
        "triggers": _list(_WORDS),
        "projects": _list(_WORDS),
        "slot": _maybe(_WORDS),
        "value": _maybe(_WORDS),
        "polarity": lambda value: type(value) is int and value in (-1, 1),
        "status": _one_of("active", "superseded"),
        "superseded_by": _maybe(_WORDS),
        "reinforced": _NUMBER,
        "reinforced_at": _maybe(_AT),
        "day": _day,
        "folder": _one_of("memories", "scenarios", "profiles", "agent-profiles"),
        "ordinal": _NUMBER,
        "event_at": _AT,
        "created_at": _AT,
    },
    "record_source": {"record": _LABEL, "turn": _TURN},
    "accepted_run": {"digest": _DIGEST},
    "accepted_advancement": {"digest": _DIGEST},
    "outbox": {
        "advancement_key": _LABEL,
        "engine_id": _WORDS,
        "owner_id": _WORDS,
        "session_key": _WORDS,
        "session_id": _WORDS,
        "state": _one_of("admitted", "accepted", "ready", "blocked"),
        "admission": _json,
        "terminal": _maybe(_json),
        "facts": _json,
        "heartbeat": _FLAG,
        "attempts": _MANY,
        "reason": _maybe(_WORDS),
        "at": _AT,
        "messages": _maybe(_json),
    },
    "recall": {
        "query_digest": _HALF_DIGEST,
        "way": _LABEL,
        "at": _AT,
        "hits": _list(
            _object(
                {
                    "rank": _NUMBER,
                    "reference": _maybe(_WORDS),
                    "message": _maybe(_MESSAGE),
                    "path": _WORDS,
                    "start_line": _MANY,
                    "end_line": _MANY,
                    "score": _number,
                }
            )
        ),
    },
    "hold": {
        "session": _KEY,
        "hold_kind": _one_of("legal", "pin"),
        "reason": _maybe(_text(4 * limits.HOLD_REASON_MAX_CHARS)),
        "at": _AT,
    },
}
"""The lines between header and end: kind, then every field of it. All are there, in this order; null is said."""

KINDS: Final = tuple(FIELDS)

SECTIONS: Final = {
    "tombstone": 0,
    "session": 1,
    "turn": 1,
    "message": 1,
    "record": 2,
    "record_source": 2,
    "accepted_run": 3,
    "accepted_advancement": 4,
    "outbox": 5,
    "recall": 6,
    "hold": 7,
}
"""Which follows which. A session is followed by its turns, a turn by its messages, a record by its further sources."""

_COUNTS: Final = _object(dict.fromkeys(KINDS, _MANY))
_COUNTS_1: Final = _object(dict.fromkeys((kind for kind in KINDS if kind != "hold"), _MANY))
HEADER: Final[Mapping[str, Check]] = {
    "format": lambda value: value == FORMAT,
    "version": lambda value: type(value) is int and value in READABLE,
    "agent": _LABEL,
    "exported_at": _AT,
    "session_key": _HALF_DIGEST,
    "counts": lambda value: _COUNTS(value) or _COUNTS_1(value),
}
END: Final[Mapping[str, Check]] = {"lines": _NUMBER, "sha256": _DIGEST}


def wrong_field(record: Record, fields: Mapping[str, Check]) -> str | None:
    """What is wrong with the fields of a line, in words without its values; ``None`` when nothing is."""
    if len(record) != len(fields) + 1 or not fields.keys() <= record.keys():
        for name in fields:
            if name not in record:
                return f"the field {name} is missing"
        return "there is a field that this version does not know"
    for name, check in fields.items():
        if not check(record[name]):
            return f"the field {name} is not what it must be"
    return None
