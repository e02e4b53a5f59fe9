"""Dates that a query names: absolute, partial, ranges, or relative to now, in English, Chinese, Japanese and Korean.

Lives here: which tables are asked. Not here: the tables (``date_shapes``, ``date_phrases``, ``date_phrases_han``,
``date_phrases_hangul``), joining two dates to a range (``date_joins``), what agreement is worth (``rank``). Pure; clock
and zone are the caller's. Called by ``query``. Tables are loaded when a text may hold a date of their kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import TYPE_CHECKING, Final

from memory_sqlite.search.date_spans import NamedDate as NamedDate
from memory_sqlite.search.days import day_of
from memory_sqlite.search.folding import search_form

if TYPE_CHECKING:
    from memory_sqlite.search.date_rules import Found, Rule

NAMED_MAX: Final = 8
"""A query that names more dates than this is a calendar."""

_FOUND_MAX: Final = 4 * NAMED_MAX
"""Some are the same, some are two ends of a range; then reading stops."""

_ENGLISH: Final = (
    *("day", "week", "month", "year", "quarter", "night", "morning", "noon", "evening", "tomorrow", "ago", "half"),
    *("q1", "q2", "q3", "q4", "h1", "h2"),
    *("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
)
_HAN: Final = frozenset("半年月日天周曜星礼季昨今明前后近おきあこさ")
_HANGUL: Final = frozenset("년월달주전해기말요어오내모그최간하이사")
"""Without any of these a query names no date of that kind, and its table is not loaded."""


def named_dates(text: str, now_ms: int, zone: str = "UTC") -> tuple[NamedDate, ...]:
    """Every date that ``text`` names, at most eight, in the order of the text.

    ``now_ms`` and ``zone`` (``days``) say which day today is. Raises ``InvalidArgument`` for an unknown zone.
    """
    text = search_form(text)
    today = day_of(now_ms, zone)
    found = sorted(_read(text, today), key=lambda one: one.start)
    if not found:
        return ()
    from memory_sqlite.search.date_joins import joined

    return tuple(dict.fromkeys(joined(text, found, today)))[:NAMED_MAX]


def _read(text: str, today: date) -> list[Found]:
    """What the tables find, the finest first: what one has read no other reads again."""
    from memory_sqlite.search.date_rules import Found

    found: list[Found] = []
    rest = text
    lowered = text.lower()
    for rule in _rules(lowered):
        pattern = rule.pattern(lowered)
        for match in pattern.finditer(rest) if pattern is not None else ():
            try:
                reading = rule.build(match, today)
            except (ValueError, OverflowError):
                reading = ()  # February 31, or a day before the first year: not to be read as something else either
            if reading is None:
                continue
            named = reading if isinstance(reading, tuple) else (reading,)
            if named:
                found.append(Found(match.start(), match.end(), named))
                if len(found) == _FOUND_MAX:
                    return found
            rest = rest[: match.start()] + "\0" * (match.end() - match.start()) + rest[match.end() :]
    return found


def _rules(lowered: str) -> Iterator[Rule]:
    """The rules that may have something to say; phrases before shapes, because "last May" holds "May"."""
    has_digits = any(character.isdecimal() for character in lowered)
    has_words = any(word in lowered for word in _ENGLISH)
    if has_digits or has_words:
        from memory_sqlite.search import date_shapes
    if has_digits:
        yield from date_shapes.digits()
    if has_words:
        from memory_sqlite.search import date_phrases

        yield from date_phrases.english()
        if has_digits:
            yield from date_shapes.days_of_months()
        yield from date_shapes.english()
    if not lowered.isascii():
        if not _HAN.isdisjoint(lowered):
            from memory_sqlite.search import date_phrases_han

            yield from date_phrases_han.rules()
        if not _HANGUL.isdisjoint(lowered):
            from memory_sqlite.search import date_phrases_hangul

            yield from date_phrases_hangul.rules()
    if has_digits:
        yield from date_shapes.lone_year()
