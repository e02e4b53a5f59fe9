"""Putting together answers that a host writes as several lines (case C048), while streaming.

Lines that share a message id are one answer. Lines with different line ids are different parts of it and are joined;
a line id seen again, or a line without id that repeats and extends the parts before it, is a growing snapshot and
replaces. Tool results may come between the parts: what arrives while an answer is open waits behind it, so that items
keep the order in which the answers began. Called by ``claude_code``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memory_sqlite.sources.jsonl import Line
from memory_sqlite.values import dataclass, field


@dataclass(slots=True)
class Part:
    """One line of an answer."""

    entry_id: str | None
    record: Mapping[str, Any]
    blocks: list[Any]


@dataclass(slots=True)
class Answer:
    """An answer still open: its parts in order, first line and end."""

    key: tuple[str, str]
    first_line: int
    last: Line
    parts: list[Part] = field(default_factory=list)
    size: int = 0

    def add(self, entry_id: str | None, record: Mapping[str, Any], blocks: list[Any], line: Line) -> None:
        """Join or replace, as the ids say."""
        part = Part(entry_id, record, blocks)
        self.last = line
        self.size += line.end_offset - line.offset
        for index, known in enumerate(self.parts):
            if entry_id is not None and known.entry_id == entry_id:
                self.parts[index] = part
                return
        if entry_id is None and self.parts and _extends(self.blocks(), blocks):
            self.parts = [part]
            return
        self.parts.append(part)

    def blocks(self) -> list[Any]:
        """The content of all parts, in order."""
        return [block for part in self.parts for block in part.blocks]

    def record(self) -> Any:
        """What the host wrote: the line, or the list of lines."""
        records = [part.record for part in self.parts]
        return records[0] if len(records) == 1 else records

    def entry_ids(self) -> tuple[str, ...]:
        """The ids of the lines that had one."""
        return tuple(dict.fromkeys(part.entry_id for part in self.parts if part.entry_id is not None))


def _extends(known: list[Any], blocks: list[Any]) -> bool:
    """Whether ``blocks`` is a later snapshot of ``known``: the same blocks, the last maybe longer, maybe more."""
    if not known or len(blocks) < len(known) or blocks[: len(known) - 1] != known[:-1]:
        return False
    old, new = known[-1], blocks[len(known) - 1]
    if old == new:
        return True
    if not (isinstance(old, dict) and isinstance(new, dict) and old.get("type") == new.get("type")):
        return False
    before, after = old.get("text"), new.get("text")
    return isinstance(before, str) and isinstance(after, str) and after.startswith(before)
