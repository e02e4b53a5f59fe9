"""When two messages are the same message, and when two turns are the same turn.

The same turn may arrive by ``remember``, by committing it, and by importing the host's transcript, in any order. It is
recognised by run id, by the host's message or entry ids, else by session, role, normalised text and time window.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence

from memory_sqlite.model import Message

SYNTHETIC_PREFIX = "h:"
"""Entry ids that a reader made from content because the host gave none."""


def text_digest(role: str, text: str) -> bytes:
    """16 bytes that are equal for equal role and text, whatever the line ends, spacing and composed form."""
    normal = " ".join(unicodedata.normalize("NFC", text).split())
    return hashlib.blake2b(f"{role}\0{normal}".encode("utf-8", "surrogatepass"), digest_size=16).digest()


def run_digest(token: str, run_id: str, part: int) -> bytes:
    """What is kept of an accepted run for ever: SHA-256 over session token, run id and the turn's place in the run."""
    return hashlib.sha256(f"{token}\0{run_id}\0{part}".encode("utf-8", "surrogatepass")).digest()


def advancement_digest(key: str) -> bytes:
    """What is kept of a committed turn's advancement key for ever: SHA-256 of it."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def split_turns(messages: Sequence[Message]) -> list[list[Message]]:
    """Cut a run of messages into turns: a person's message after anything else but a person's message begins one.

    Tool output given in the ``user`` role (as some hosts do) begins nothing.
    """
    turns: list[list[Message]] = []
    previous_is_person = False
    for message in messages:
        is_person = message.role == "user" and not message.is_tool_output
        if not turns or (is_person and not previous_is_person):
            turns.append([])
        turns[-1].append(message)
        previous_is_person = is_person
    return turns
