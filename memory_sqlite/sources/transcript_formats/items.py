"""What a transcript yields: something said, a line that was refused, a line that says nothing a memory needs."""

from __future__ import annotations

from memory_sqlite.model import Message, SessionInfo
from memory_sqlite.values import dataclass


@dataclass(frozen=True, slots=True)
class Spoken:
    """One message of one session. ``line`` is its first physical line, ``end_offset`` where its last line ends."""

    session: SessionInfo
    message: Message
    line: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A line, or part of one, that could not be read. ``reason`` never quotes it."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Ignored:
    """A valid line that is no message: settings, summaries, counters, hidden reasoning, a blank line."""

    line: int


Item = Spoken | Refused | Ignored
