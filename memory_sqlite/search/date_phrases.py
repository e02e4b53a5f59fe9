"""English phrases about time that mean something only today: "yesterday", "last Tuesday", "three weeks ago".

Lives here: the table of phrases, the longest first. Not here: dates that say themselves (``date_shapes``), other
languages (``date_phrases_han``, ``date_phrases_hangul``), calendar arithmetic (``date_spans``). Called by ``dates``.
"""

from __future__ import annotations

import re
from datetime import date
from functools import cache, partial
from typing import Final

from memory_sqlite.search import date_spans as spans
from memory_sqlite.search.date_rules import Reading, Rule, day_on, named, rules_of
from memory_sqlite.search.date_words import DAY, MONTH, NUMBER, UNIT, WEEKDAY, YEAR, month, number, unit, weekday

_WHICH: Final = {"last": -1, "past": -1, "previous": -1, "this": 0, "current": 0, "next": 1, "coming": 1}
_ON: Final = "(last|past|previous|this|current|next|coming)"
_DAYS: Final = (
    ("before", r"\bday\s+before\s+yesterday\b", -2),
    ("yesterday night", r"\byesterday\b|\blast\s+night\b", -1),
    ("today tonight this", r"\btoday\b|\btonight\b|\bthis\s+(?:morning|afternoon|evening)\b", 0),
    ("after", r"\bday\s+after\s+tomorrow\b", 2),
    ("tomorrow", r"\btomorrow\b", 1),
)


def _which(word: str) -> int:
    return _WHICH[word.casefold()]


def _month_of_year(m: re.Match[str], today: date) -> Reading:
    """ "October last year", "last year in October"."""
    name, on = m[1] or m[5], m[3] or m[4]
    in_month = int(m[2]) if m[2] else None
    return named(today.year + _which(on), month(name), in_month)


def _month_near(m: re.Match[str], today: date) -> Reading:
    """ "last October": the last one that had begun; "next May": the first that has not."""
    on, number_ = _which(m[1]), month(m[2])
    if on < 0:
        return named(spans.begun(today, None, number_) - (number_ == today.month), number_)
    return named(today.year + (on > 0 and number_ <= today.month), number_)


def _day_of_week(m: re.Match[str], today: date) -> Reading:
    """ "Tuesday of last week", "last week on Tuesday"."""
    return spans.day_of_week(today, _which(m[2] or m[3]), weekday(m[1] or m[4]))


def _near(m: re.Match[str], today: date) -> Reading:
    on, name = _which(m[1]), m[2].casefold()
    if name == "week":
        return spans.week(today, on)
    if name == "weekend":
        return spans.weekend(today, on)
    if name == "month":
        return spans.month(today, on)
    if name == "quarter":
        return spans.quarter_on(today, on)
    if name == "year":
        return named(today.year + on)
    if on > 0:
        return spans.next_weekday(today, weekday(name))
    return spans.last_weekday(today, weekday(name), today_counts=on == 0)


def _half_a_unit_ago(m: re.Match[str], today: date) -> Reading:
    return spans.ago(today, 6, "month") if m[1].casefold() == "year" else spans.ago(today, 15, "day")


@cache
def english() -> tuple[Rule, ...]:
    """Phrases, the longest first."""
    return rules_of(
        (
            (
                "year",
                rf"\b({MONTH})(?:\s+({DAY})(?:st|nd|rd|th)?,?)?\s+(?:of\s+)?(last|this|next)\s+year\b"
                rf"|\b(last|this|next)\s+year(?:'s)?,?\s+(?:in\s+)?({MONTH})",
                _month_of_year,
            ),
            (
                "last past previous this current next coming",
                rf"\b{_ON}\s+({MONTH})(?!,?\s+(?:{DAY}\b|{YEAR}\b))",
                _month_near,
            ),
            (
                "week",
                rf"\b({WEEKDAY})\s+(?:of\s+)?(last|this|next)\s+week\b"
                rf"|\b(last|this|next)\s+week(?:'s)?,?\s+(?:on\s+)?({WEEKDAY})\b",
                _day_of_week,
            ),
            ("half", r"\bhalf\s+a\s+(year|month)\s+ago\b", _half_a_unit_ago),
            ("ago", rf"\b({NUMBER})\s+({UNIT})s?\s+ago\b", lambda m, today: spans.ago(today, number(m[1]), unit(m[2]))),
            (
                "days weeks months quarters years fortnights",
                rf"\b(?:last|past|previous)\s+({NUMBER})\s+({UNIT})s\b",
                lambda m, today: spans.within(today, number(m[1]), unit(m[2])),
            ),
            (
                "last past previous this current next coming",
                rf"\b{_ON}\s+(week(?:end)?|month|quarter|year|{WEEKDAY})\b",
                _near,
            ),
            *((needs, pattern, partial(day_on, on)) for needs, pattern, on in _DAYS),
            (
                # whether the last, the next or every one is meant nobody knows
                "day",
                rf"(?<!every )(?<!each )\b({WEEKDAY})\b(?!,?\s+(?:the\s+)?(?:{DAY}(?:st|nd|rd|th)?\b|{MONTH}))",
                lambda m, today: spans.some_weekday(today, weekday(m[1])),
            ),
        ),
        re.I,
    )
