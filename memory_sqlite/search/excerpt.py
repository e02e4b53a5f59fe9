"""The part of a text that is shown: around the best passage, with the matches marked, never cutting a grapheme.

Lives here: choosing and cutting. Not here: finding matches (``marks``). Called by ``run``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import apsw.unicode as unicode_data

from memory_sqlite.limits import EXCERPT_MAX_CHARS
from memory_sqlite.model import Span
from memory_sqlite.search.marks import Mark, MarkFinder
from memory_sqlite.search.sentences import sentences
from memory_sqlite.text.units import cut_utf16, utf16_length

NEIGHBOUR_MAX_CHARS = 130
"""UTF-16 units of a neighbour's line in the excerpt of a message."""
LEAD_SHARE = 0.3
"""How much of an excerpt may stand before its first match."""


class Marker:
    """Finds and cuts for one query: ``worth`` maps stems to what a match of them is worth."""

    def __init__(self, worth: Mapping[str, float], stem: Callable[[str], str]) -> None:
        self._finder = MarkFinder(worth, stem)

    def marks(self, text: str) -> list[Mark]:
        """All matches in a text."""
        return self._finder.find(text)

    def passage(self, text: str, units: int = EXCERPT_MAX_CHARS) -> str:
        """At most ``units`` UTF-16 units of ``text`` around the passage that holds most of the query."""
        if utf16_length(text) <= units:
            return text.strip("\r\n")
        marks = self.marks(text)
        if not marks:
            return cut_utf16(text, units).rstrip()
        # half the units in code points is safe for any text; widened below by the exact cut
        size = units if text.isascii() else max(1, units - (utf16_length(text) - len(text)))
        size = max(size, units // 2)
        start = _start(text, marks, size)
        return cut_utf16(text[start:], units).rstrip()

    def spans(self, excerpt: str) -> tuple[Span, ...]:
        """Matches in an excerpt as spans that neither touch nor overlap."""
        spans: list[Span] = []
        for mark in sorted(self.marks(excerpt), key=lambda mark: (mark.start, -mark.end)):
            if spans and mark.start <= spans[-1].end and (mark.end <= spans[-1].end or mark.start < spans[-1].end):
                spans[-1] = Span(spans[-1].start, max(spans[-1].end, mark.end))
            else:
                spans.append(Span(mark.start, mark.end))
        return tuple(spans)


def _start(text: str, marks: Sequence[Mark], size: int) -> int:
    """Where the excerpt begins: the window with the most distinct worth, moved back to a good border."""
    best, best_worth = marks[0].start, -1.0
    reach = int(size * (1.0 - LEAD_SHARE))
    inside: dict[str, int] = {}
    last = 0
    worth = 0.0
    for mark in marks:
        # two pointers over marks in order: what lies within reach of this first mark
        while last < len(marks) and marks[last].end <= mark.start + reach:
            stem = marks[last].stem
            inside[stem] = inside.get(stem, 0) + 1
            if inside[stem] == 1:
                worth += marks[last].worth
            last += 1
        if worth > best_worth + 1e-9:
            best, best_worth = mark.start, worth
        if mark.stem in inside:
            inside[mark.stem] -= 1
            if inside[mark.stem] == 0:
                del inside[mark.stem]
                worth -= mark.worth
    earliest = max(0, best - int(size * LEAD_SHARE))
    if earliest == 0:
        return 0
    for start, _ in reversed(sentences(text[earliest:best])):
        if start > 0 and text[earliest + start - 1 : earliest + start].strip() != text[earliest + start - 1]:
            return earliest + start + _blanks(text, earliest + start, best)
    newline = text.rfind("\n", earliest, best)
    space = text.rfind(" ", earliest, best) if newline < 0 else newline
    first_space = text.find(" ", earliest, best)
    if newline >= 0:
        return newline + 1
    if space >= 0 and first_space >= 0:
        return first_space + 1
    return _grapheme_border(text, earliest)


def _blanks(text: str, start: int, end: int) -> int:
    count = 0
    while start + count < end and text[start + count].isspace():
        count += 1
    return count


def _grapheme_border(text: str, at: int) -> int:
    position = max(0, at - 64)
    while position < at:
        position = unicode_data.grapheme_next_break(text, position)
    return position


def conversation(
    marker: Marker, own: tuple[str, str], before: Sequence[tuple[str, str]], after: Sequence[tuple[str, str]]
) -> str:
    """A message among its neighbours as ``name: text`` lines, in the order they were said.

    ``own`` and the neighbours are ``(name, text)``. The message itself gets what its neighbours leave; of these the
    nearest on each side is shown, and one further away only when it holds a match.
    """
    lines_before = _lines(marker, before[-1:], before[:-1])
    lines_after = _lines(marker, after[:1], after[1:])
    taken = sum(utf16_length(line) + 1 for line in (*lines_before, *lines_after))
    name, text = own
    room = EXCERPT_MAX_CHARS - taken - utf16_length(name) - 2
    line = f"{name}: {marker.passage(text, max(room, 80))}" if name else marker.passage(text, max(room, 80))
    return "\n".join((*lines_before, line, *lines_after))


def _lines(marker: Marker, near: Sequence[tuple[str, str]], far: Sequence[tuple[str, str]]) -> list[str]:
    shown = [*near, *((name, text) for name, text in far if marker.marks(text))]
    return [
        f"{cut_utf16(name, 40)}: {marker.passage(' '.join(text.split()), NEIGHBOUR_MAX_CHARS)}" for name, text in shown
    ]
