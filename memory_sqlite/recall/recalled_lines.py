"""Recalled entries as the lines of one frame, within a budget of UTF-16 units: for what hosts put before a prompt.

An excerpt is promised to be fit for a prompt and is not believed: what already is harmless comes out as it went in, all
else is made harmless. Not here: which entries are recalled (``project_candidates``, ``trigger_scores``), the frame
itself (``text.frame``), the block that the door recalls (``block``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from memory_sqlite.runtime.shapes import ProviderHit
from memory_sqlite.text.frame import CLOSE, ITEM, NOTICE, OPEN, close_frame, one_line, whole_escapes
from memory_sqlite.text.units import cut_utf16, utf16_length

_LEAST_UNITS: Final = 16
"""An entry cut shorter than this says nothing; it is left out instead."""
_MORE: Final = "…"
_READ_PER_UNIT: Final = 8
"""Of an excerpt no more is looked at than can show: an escape is five characters, and the rest white space."""
_LABEL_CHARS: Final = 4_096
_FRAME_UNITS: Final = utf16_length(OPEN) + utf16_length(NOTICE) + utf16_length(CLOSE) + 2
_PLAIN: Final = {"&amp;": "&", "&lt;": "<", "&gt;": ">"}


@dataclass(frozen=True)
class Recalled:
    """What goes before a prompt: the framed text, empty for nothing, and the hits that are in it."""

    text: str = ""
    hits: tuple[ProviderHit, ...] = ()


NOTHING: Final = Recalled()


def safe_line(excerpt: str) -> str:
    """An excerpt as one harmless line; one that ``text.frame.one_line`` made already is not escaped twice."""
    parts = excerpt.split("&")
    plain = parts[0]
    for part in parts[1:]:
        entity = next((name for name in _PLAIN if ("&" + part).startswith(name)), None)
        plain += "&" + part if entity is None else _PLAIN[entity] + part[len(entity) - 1 :]
    return one_line(plain)


def framed(hits: Iterable[ProviderHit], *, entry_units: int | None, total_units: int) -> Recalled:
    """The hits in their order, each at most ``entry_units``, the whole with its frame at most ``total_units``.

    An entry that no longer fits is cut with a mark; one of which next to nothing would be left is left out.
    """
    left = total_units - _FRAME_UNITS
    lines: list[str] = []
    shown: list[ProviderHit] = []
    for hit in hits:
        if left <= len(ITEM):
            break
        label = f"{ITEM}{label_of(hit)}] "
        text = safe_cut(hit.excerpt, total_units if entry_units is None else entry_units)
        room = left - 1 - utf16_length(label)
        if utf16_length(text) > room:
            text = cut(text, room) if room >= _LEAST_UNITS else ""
        if not text or text == _MORE:
            continue
        lines.append(label + text)
        shown.append(hit)
        left -= utf16_length(label) + utf16_length(text) + 1
    return Recalled(close_frame(lines), tuple(shown))


def label_of(hit: ProviderHit) -> str:
    """How a hit is cited, where its provider says so; its brackets cannot end the label."""
    label = hit.citations[0].label if hit.citations else hit.source or "memory"
    return safe_line(label[:_LABEL_CHARS]).replace("[", "(").replace("]", ")")


def safe_cut(excerpt: str, units: int) -> str:
    """An excerpt as one harmless line of at most so many UTF-16 units, without looking at all of a huge one."""
    read = excerpt[: _READ_PER_UNIT * units]
    return cut(safe_line(read) + (_MORE if len(read) < len(excerpt) else ""), units)


def cut(text: str, units: int) -> str:
    """A harmless line of at most so many UTF-16 units; what was cut has a mark."""
    if utf16_length(text) <= units:
        return text
    return whole_escapes(cut_utf16(text, units - utf16_length(_MORE))).rstrip() + _MORE
