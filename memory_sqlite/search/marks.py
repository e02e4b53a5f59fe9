"""Where in a text the words of a query stand: offsets into the text as it is stored, not as it was folded.

Lives here: matching tokens back to characters. Not here: which part of the text is shown (``excerpt``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import apsw.unicode as unicode_data

from memory_sqlite.search.folding import search_form
from memory_sqlite.search.tokens import TOKEN_MAX_CHARS, Group, groups
from memory_sqlite.values import dataclass

_RUN: Final = re.compile(r"\S+")
_ASIDE: Final = ".,;:!?()[]{}<>*\"'`|"


@dataclass(frozen=True, slots=True)
class Mark:
    """One match: half-open code point offsets, what it is worth, and the stem that matched."""

    start: int
    end: int
    worth: float
    stem: str


def _mapped(run: str) -> tuple[str, list[int]]:
    """The folded run, and for each of its characters (and its end) the offset in the run it came from."""
    folded = search_form(run)
    if len(folded) == len(run):
        return folded, list(range(len(run) + 1))
    pieces: list[str] = []
    offsets: list[int] = []
    position = 0
    while position < len(run):
        following = unicode_data.grapheme_next_break(run, position)
        piece = search_form(run[position:following])
        pieces.append(piece)
        offsets.extend([position] * len(piece))
        position = following
    offsets.append(len(run))
    return "".join(pieces), offsets


class MarkFinder:
    """Finds the words of one query in texts. ``worth`` maps stems to what a match is worth.

    Runs of text are remembered: words repeat, and an answer's texts are read two or three times.
    """

    def __init__(self, worth: Mapping[str, float], stem: Callable[[str], str]) -> None:
        self._worth = worth
        self._stem = stem
        self._tokens: dict[str, str | None] = {}
        self._runs: dict[str, tuple[tuple[int, int, str], ...]] = {}
        # stemming never touches the first two letters, so a glance at them settles most words
        self._beginnings = frozenset(stem[:2] for stem in worth)

    def find(self, text: str) -> list[Mark]:
        """Every place in ``text`` where a stem of ``worth`` stands, in order."""
        marks: list[Mark] = []
        runs = self._runs
        for match in _RUN.finditer(text):
            run = match.group()
            found = runs.get(run)
            if found is None:
                found = runs[run] = self._look(run)
            if found:
                base = match.start()
                marks.extend(Mark(base + start, base + end, self._worth[stem], stem) for start, end, stem in found)
        return marks

    def _hit(self, token: str) -> str | None:
        if token not in self._tokens:
            stemmed = self._stem(token)
            self._tokens[token] = stemmed if stemmed in self._worth else None
        return self._tokens[token]

    def _look(self, run: str) -> tuple[tuple[int, int, str], ...]:
        if run.isascii():
            word = run.strip(_ASIDE)
            # most words of a text: no parts, no folding, so the token is the word in lower case
            if word.isalpha() and (word[1:].islower() or word.islower()):
                if word[:2].lower() not in self._beginnings:
                    return ()
                stemmed = self._hit(word.lower()[:TOKEN_MAX_CHARS])
                start = run.index(word)
                return () if stemmed is None else ((start, start + len(word), stemmed),)
        folded, offsets = _mapped(run)
        found = []
        for group in groups(folded):
            for start, end, stemmed in _within(group, self._hit):
                # an end inside an expanded character (a ligature) covers the character
                first = offsets[group.start + start]
                last = offsets[min(group.start + end, len(offsets) - 1)]
                found.append((first, max(last, first + 1), stemmed))
        return tuple(found)


def _within(group: Group, hit: Callable[[str], str | None]) -> Iterator[tuple[int, int, str]]:
    """Matches inside one run of text, as offsets into the run."""
    if group.kind == "cjk":
        for index, token in enumerate(group.tokens):
            stemmed = hit(token)
            if stemmed is not None:
                start = index // 2
                yield start, start + len(token), stemmed
        return
    whole = hit(group.tokens[0])
    if whole is not None:
        yield 0, len(group.raw), whole
        return
    folded = group.raw.casefold()
    position = 0
    for part in group.tokens[1:]:
        place = folded.find(part, position)
        if place < 0:
            continue
        stemmed = hit(part)
        if stemmed is not None and len(folded) == len(group.raw):
            yield place, place + len(part), stemmed
        elif stemmed is not None:
            yield 0, len(group.raw), stemmed
        # parts of a camelCase piece follow the piece itself and lie inside it
        position = place if place + len(part) < len(folded) and len(part) > 1 else position
