"""Which format a transcript is in, told from its first lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from memory_sqlite import limits
from memory_sqlite.errors import InvalidArgument, UnknownFormat
from memory_sqlite.sources.jsonl import read_lines
from memory_sqlite.sources.transcript_formats import claude_code, codex, generic, openclaw
from memory_sqlite.sources.transcript_formats.context import Context, Reader
from memory_sqlite.values import dataclass

PROBE_LINES: Final = 50
PROBE_BYTES: Final = 256 * limits.KIB
"""Where looking ends, once a line was recognised: only whole lines say anything, and the first may be enormous."""


@dataclass(frozen=True, slots=True)
class Format:
    """A format's name, how its lines are recognised, how a file of it is read."""

    name: str
    recognises: Callable[[Mapping[str, Any]], bool]
    reader: Callable[[Context], Reader]


FORMATS: Final[Mapping[str, Format]] = {
    item.name: item
    for item in (
        Format(claude_code.NAME, claude_code.recognises, claude_code.ClaudeCodeReader),
        Format(codex.NAME, codex.recognises, codex.CodexReader),
        Format(openclaw.NAME, openclaw.recognises, openclaw.OpenClawReader),
        Format(generic.NAME, generic.recognises, generic.GenericReader),
    )
}
"""By name, the particular before the general."""


def detect(path: Path) -> str:
    """The name of the format most of the first lines are in; ``generic`` only where no other fits at all.

    Raises ``UnknownFormat`` when no line is in a known format, ``InvalidArgument`` for what is not a regular file.
    """
    votes = dict.fromkeys(FORMATS, 0)
    for line in read_lines(path):
        for value in line.values:
            if isinstance(value, dict):
                for name, known in FORMATS.items():
                    votes[name] += known.recognises(value)
        if line.number >= PROBE_LINES or (line.end_offset >= PROBE_BYTES and any(votes.values())):
            break
    particular = {name: count for name, count in votes.items() if count and name != generic.NAME}
    if particular:
        return max(particular, key=lambda name: particular[name])
    if votes[generic.NAME]:
        return generic.NAME
    raise UnknownFormat(f"{path.name} is in no known transcript format")


def format_named(name: str) -> Format:
    """The format called ``name``; raises ``InvalidArgument`` listing the known ones."""
    known = FORMATS.get(name)
    if known is None:
        raise InvalidArgument(f"format must be one of {', '.join(FORMATS)}")
    return known
