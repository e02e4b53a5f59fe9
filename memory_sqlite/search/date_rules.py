"""What a rule about dates is, and the small readings that all tables share.

Not here: the tables (``date_shapes``, ``date_phrases``, ``date_phrases_han``, ``date_phrases_hangul``), calendar
arithmetic (``date_spans``). Called by the tables and by ``dates``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import date

from memory_sqlite.search import date_spans as spans
from memory_sqlite.search.date_spans import NamedDate
from memory_sqlite.values import dataclass

Reading = NamedDate | tuple[NamedDate, ...] | None
"""What a shape says; several where it may be either, nothing where it is no date after all."""
Build = Callable[[re.Match[str], date], Reading]
"""How a match is read, given today. Raises ``ValueError`` for what cannot be (February 31)."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a rule has read, and from where to where in the text."""

    start: int
    end: int
    named: tuple[NamedDate, ...]


class Rule:
    """A shape, and how it is read."""

    __slots__ = ("_flags", "_needs", "_pattern", "build", "source")

    def __init__(self, needs: str, source: str, build: Build, flags: re.RegexFlag) -> None:
        self._needs = tuple(needs.split())
        self.source = source
        self._flags = flags
        self._pattern: re.Pattern[str] | None = None
        self.build = build

    def pattern(self, lowered: str) -> re.Pattern[str] | None:
        """The pattern, if a text in lower case has one of the words without which there is nothing to find.

        Compiled then: all of them would take 16 ms of a cold start.
        """
        if self._needs and not any(need in lowered for need in self._needs):
            return None
        if self._pattern is None:
            self._pattern = re.compile(self.source, self._flags)
        return self._pattern


def rules_of(table: Iterable[tuple[str, str, Build]], flags: re.RegexFlag = re.NOFLAG) -> tuple[Rule, ...]:
    """A table of needed words, patterns and readings as rules."""
    return tuple(Rule(needs, source, build, flags) for needs, source, build in table)


def named(year: int | None, month: int | None = None, day: int | None = None, trust: float | None = None) -> NamedDate:
    """A date of fields, of which each may be unsaid. Raises ``ValueError`` for what no calendar has."""
    date(2024 if year is None else year, month or 1, day or 1)
    return NamedDate(year, month, day, trust=trust)


def whole(text: str | None) -> int | None:
    """Digits, or nothing."""
    return None if text is None else int(text)


def day_on(on: int, _: re.Match[str], today: date) -> Reading:
    """One day, so many days on."""
    return spans.day(today, on)
