"""Rows of ``tombstones``: the lasting record that something was forgotten, without a word of it.

Lives here: making subjects, adding rows, asking for one. Not here: what an arriving message is compared with
(``transcripts.forgotten``) and what is forgotten (``forgetting``). Called by both, by ``indexing`` for notes, and by
``doctor``.
"""

from __future__ import annotations

import hashlib
from typing import Final, Literal

import apsw

Kind = Literal["session", "participant", "span", "entry", "message", "record", "note"]

FIRST: Final = -(2**62)
LAST: Final = 2**62
"""The widest bounds: whenever it was said."""
EVERYWHERE: Final = "*"
"""Subject of a ``span``: whatever was said in the agent's sessions between its bounds."""


def subject(key: bytes, *parts: str) -> str:
    """An opaque name of something forgotten: 32 hex digits, keyed with ``session.key``.

    Without the key nobody who holds a store can try out words: a plain hash of a short text is as good as the text.
    """
    text = "\0".join(part.replace("\0", "\0\0") for part in parts)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=key[:64], digest_size=16).hexdigest()


def participant(key: bytes, sender: str) -> str:
    """Subject of a ``participant``."""
    return subject(key, "participant", sender)


def entry(key: bytes, token: str, entry_id: str) -> str:
    """Subject of an ``entry``: one transcript entry, or a host's message id, of one session."""
    return subject(key, "entry", token, entry_id)


def spoken_entry(key: bytes, token: str, entry_id: str, text_digest: bytes) -> str:
    """Subject of an ``entry`` for what comes live: the id with its words, since hosts begin numbering anew."""
    return subject(key, "spoken", token, entry_id, text_digest.hex())


def message(key: bytes, token: str, way: str, text_digest: bytes) -> str:
    """Subject of a ``message``: the same words in the same session, arriving by another way than they did."""
    return subject(key, "message", token, way, text_digest.hex())


def add(
    connection: apsw.Connection,
    kind: Kind,
    named: str,
    *,
    reason: str,
    at: int,
    since: int = FIRST,
    until: int = LAST,
) -> bool:
    """Keep one for ever, inside the caller's transaction; ``False`` when it was there already."""
    connection.execute(
        "INSERT OR IGNORE INTO tombstones (kind, subject, since_at, until_at, reason, at) VALUES (?, ?, ?, ?, ?, ?)",
        (kind, named, since, until, reason, at),
    )
    return connection.changes() > 0


def bounds(connection: apsw.Connection, kind: Kind, named: str) -> list[tuple[int, int]]:
    """Between which times something of that name was forgotten, in ms, both included; empty for what never was."""
    return [
        (int(str(since)), int(str(until)))
        for since, until in connection.execute(
            "SELECT since_at, until_at FROM tombstones WHERE kind = ? AND subject = ?", (kind, named)
        )
    ]


def is_whole(connection: apsw.Connection, kind: Kind, named: str) -> bool:
    """Whether all of it was forgotten, from its beginning on, and not only what was said in a stretch of time."""
    return any(since == FIRST for since, _ in bounds(connection, kind, named))
