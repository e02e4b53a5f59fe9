"""Cursors: opaque, signed, bound to agent, query, filters and caller: where a listing was left, in which generation.

A cursor holds no text: the time of the first page, the last score, a name for the generation that its handle keeps
open, and four bytes of a digest for each hit that was given. Signed with the store's own key, so that a cursor which
was changed, or which belongs to another store, agent, question or caller, is none. Not here: keeping generations open
(``holding``), going on (``listing``). Called by ``handle``.
"""

from __future__ import annotations

import hmac
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from hashlib import blake2b, sha256
from typing import Final

from memory_sqlite import errors, limits

NAME_BYTES: Final = 8
SEEN_BYTES: Final = 4
"""Of a digest: with 500 hits given, a 501st is taken for one of them once in ten million."""
_LABEL: Final = b"memory-sqlite provider cursor 1\0"
_MAC_BYTES: Final = 16
_HEAD: Final = struct.Struct(f">qd?{NAME_BYTES}s")


@dataclass(frozen=True)
class Place:
    """Where a listing was left. ``now_ms`` is when its first page was asked for, so that "yesterday" stays a day."""

    now_ms: int
    last_score: float
    hold: bytes
    seen: tuple[bytes, ...]
    moved: bool = False
    """Whether it went on in another generation than it began in: what stands before the last hit there is left out."""


def seen(reference: str) -> bytes:
    """What a cursor keeps of a hit."""
    return blake2b(reference.encode("utf-8", "surrogatepass"), digest_size=SEEN_BYTES).digest()


def binding(*parts: object) -> bytes:
    """What a cursor is bound to, of values whose ``repr`` tells them apart."""
    return sha256(repr(parts).encode("utf-8", "surrogatepass")).digest()


def write(key: bytes, bound: bytes, place: Place) -> str:
    """The cursor."""
    body = _HEAD.pack(place.now_ms, place.last_score, place.moved, place.hold) + b"".join(place.seen)
    return urlsafe_b64encode(_mac(key, bound, body) + body).rstrip(b"=").decode("ascii")


def read(key: bytes, bound: bytes, cursor: object) -> Place:
    """The place a cursor names. Raises ``InvalidArgument`` for what cannot be one, else ``CursorExpired``."""
    if not isinstance(cursor, str) or not cursor.strip():
        raise errors.InvalidArgument("cursor must be a string that is not blank")
    if len(cursor) > limits.CURSOR_MAX_CHARS:
        raise errors.InvalidArgument(f"cursor must have at most {limits.CURSOR_MAX_CHARS} characters")
    damaged = errors.CursorExpired("the cursor is damaged, or of another question or caller")
    try:
        data = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
    except ValueError:
        raise damaged from None
    mac, body = data[:_MAC_BYTES], data[_MAC_BYTES:]
    if not hmac.compare_digest(mac, _mac(key, bound, body)):
        raise damaged
    now_ms, score, moved, hold = _HEAD.unpack_from(body)
    rest = body[_HEAD.size :]
    given = tuple(rest[at : at + SEEN_BYTES] for at in range(0, len(rest), SEEN_BYTES))
    return Place(now_ms, score, hold, given, moved)


def _mac(key: bytes, bound: bytes, body: bytes) -> bytes:
    return hmac.digest(key, _LABEL + bound + body, "sha256")[:_MAC_BYTES]
