"""Delta cursors as text: where in which transcript somebody has read to.

A cursor is opaque and no credential: who may read is decided before it is looked at, so it needs no signature. It names
its transcript by a digest and the last message read by position, row and digest of its words, so that a transcript that
was taken back to a backup is noticed. Called by ``deltas``.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from dataclasses import dataclass
from typing import Final

from memory_sqlite import limits

_FORM: Final = 1
_SCOPE: Final = re.compile(r"[0-9a-f]{32}")
_GENERATION: Final = re.compile(r"[0-9]{1,19}\.[0-9]{1,19}")
_DIGEST: Final = re.compile(r"(?:[0-9a-f]{32})?")
_NUMBER_MAX: Final = 2**63 - 1


@dataclass(frozen=True)
class Place:
    """A place in a transcript: behind the message at ``position``; 0 is the beginning, with no message before it."""

    scope: str
    generation: str
    position: int = 0
    message_id: int = 0
    digest: str = ""


def scope_of(agent_id: str, session_key: str, session_id: str) -> str:
    """Which transcript a cursor is for: 32 hex digits over agent, session key and session id."""
    named = json.dumps([agent_id, session_key, session_id])
    return hashlib.sha256(named.encode("ascii")).hexdigest()[:32]


def write(place: Place) -> str:
    """The cursor; some 150 characters."""
    fields = [_FORM, place.scope, place.generation, place.position, place.message_id, place.digest]
    return base64.urlsafe_b64encode(json.dumps(fields, separators=(",", ":")).encode("ascii")).decode("ascii")


def read(cursor: object) -> Place | None:
    """The place that a cursor names; ``None`` for anything that ``write`` did not make."""
    if not isinstance(cursor, str) or not 0 < len(cursor) <= limits.CURSOR_MAX_CHARS:
        return None
    try:
        fields = json.loads(base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        return None
    if not isinstance(fields, list) or len(fields) != 6 or fields[0] != _FORM:
        return None
    _, scope, generation, position, message_id, digest = fields
    texts = ((scope, _SCOPE), (generation, _GENERATION), (digest, _DIGEST))
    if not all(isinstance(text, str) and form.fullmatch(text) for text, form in texts):
        return None
    if not all(type(number) is int and 0 <= number <= _NUMBER_MAX for number in (position, message_id)):
        return None
    if (position == 0) != (digest == "") or (position == 0) != (message_id == 0):
        return None
    return Place(scope, generation, position, message_id, digest)
