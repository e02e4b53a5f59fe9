"""Dates in digits and in English: ``2026-11-28``, ``11/28/2026``, "November 28", "8 May 2023", "June 2026", "Q3 2026".

Lives here: the tables of shapes, the finest first. Not here: phrases that need today (``date_phrases``), other tongues
(``date_phrases_han``, ``date_phrases_hangul``), calendar arithmetic (``date_spans``). Called by ``dates``.
"""

from __future__ import annotations

import re
from datetime import date
from functools import cache
from typing import Final

from memory_sqlite.search import date_spans as spans
from memory_sqlite.search.date_rules import Reading, Rule, named, rules_of, whole
from memory_sqlite.search.date_spans import DOUBTFUL, NamedDate
from memory_sqlite.search.date_words import DAY, MONTH, MONTHS, YEAR, month

_TO: Final = r"\s*(?:-|–|—|to|through|until|till)\s*"
_CUE: Final = r"(?P<cue>\b(?:on|since|until|till|from|before|after|by|dated|of|between|and|to)\s+)"
_ORDINAL: Final = rf"({DAY})(?:st|nd|rd|th)?"
_OF: Final = r"(?:\s+of)?\s+"
_ORDINALS: Final = {"1st": 1, "2nd": 2, "3rd": 3, "4th": 4, "first": 1, "second": 2, "third": 3, "fourth": 4}


def _either(year: int | None, first: int, second: int, trust: float | None = None) -> Reading:
    """Two numbers of which one is the day: which one is sure only when the other cannot be."""
    if first > 12:
        return named(year, second, first, trust)
    if second > 12 or first == second:
        return named(year, first, second, trust)
    return named(year, first, second, DOUBTFUL), named(year, second, first, DOUBTFUL)


def _days_of_month(m: re.Match[str], today: date) -> Reading:
    number, year = month(m["month"]), whole(m["year"])
    first, last = named(year, number, int(m["first"])), named(year, number, int(m["last"]))
    return spans.between(first, last, today) if int(m["first"]) < int(m["last"]) else None


def _months(m: re.Match[str], today: date) -> Reading:
    if m["to"].casefold() == "and" and (m["lead"] or "").strip().casefold() != "between":
        return None
    return spans.between(named(whole(m[3]), month(m[2])), named(whole(m[6]), month(m[5])), today)


def _quarter(m: re.Match[str], today: date) -> Reading:
    number = int(m[1] or m[4] or _ORDINALS[m[5].casefold()])
    return spans.quarter(spans.begun(today, whole(m[2] or m[3] or m[6]), 3 * number - 2), number)


def _half(m: re.Match[str], today: date) -> Reading:
    number = _ORDINALS[m[1].casefold()] if m[1] else int(m[3])
    return spans.months(spans.begun(today, whole(m[2] or m[4]), 6 * number - 5), 6 * number - 5, 6)


@cache
def digits() -> tuple[Rule, ...]:
    """Shapes without a word."""
    return rules_of(
        (
            (
                "19 20",
                rf"(?<![\w-])({YEAR})([-/.])(0?[1-9]|1[0-2])\2({DAY})(?![\d-])",
                lambda m, _: named(int(m[1]), int(m[3]), int(m[4])),
            ),
            (
                "19 20",
                rf"(?<![\w./-])({DAY})\.(0?[1-9]|1[0-2])\.({YEAR})(?![\w-])",
                lambda m, _: named(int(m[3]), int(m[2]), int(m[1])),
            ),
            (
                "19 20",
                rf"(?<![\w./-])({DAY})([/-])({DAY})\2({YEAR})(?![\w-])",
                lambda m, _: _either(int(m[4]), int(m[1]), int(m[3])),
            ),
            (
                "19 20",
                rf"(?<![\w-])({YEAR})[-/](0[1-9]|1[0-2])(?![\d/-])",
                lambda m, _: named(int(m[1]), int(m[2])),
            ),
            (
                # a fraction or a size as often as a day: a word before it, or nothing else at all, must say so
                "/",
                rf"(?:{_CUE}|^\s*)({DAY})/({DAY})(?![\w/.-])(?(cue)|\s*$)",
                lambda m, _: _either(None, int(m[2]), int(m[3]), DOUBTFUL),
            ),
        ),
        re.I,
    )


@cache
def lone_year() -> tuple[Rule, ...]:
    """A year by itself; asked last, because every finer shape holds one."""
    return rules_of(
        (("19 20", rf"(?<![\w.,:-])({YEAR})(?![\w,:-]|\.\d)", lambda m, _: NamedDate(int(m[1]))),),
    )


@cache
def days_of_months() -> tuple[Rule, ...]:
    """Names of months with digits, and quarters."""
    first_to_last = rf"(?P<first>{DAY})(?:st|nd|rd|th)?{_TO}(?P<last>{DAY})(?:st|nd|rd|th)?"
    return rules_of(
        (
            (
                MONTHS,
                rf"\b(?P<month>{MONTH})\s+{first_to_last}(?:,?\s+(?P<year>{YEAR}))?(?![\w/:-])",
                _days_of_month,
            ),
            (
                MONTHS,
                rf"(?<![\w/:-]){first_to_last}(?:\s+of)?\s+(?P<month>{MONTH})(?:,?\s+(?P<year>{YEAR})\b)?",
                _days_of_month,
            ),
            (
                MONTHS,
                rf"\b{_ORDINAL}{_OF}({MONTH}),?\s+({YEAR})\b",
                lambda m, _: named(int(m[3]), month(m[2]), int(m[1])),
            ),
            (
                MONTHS,
                rf"\b({MONTH})\s+{_ORDINAL},?\s+({YEAR})\b",
                lambda m, _: named(int(m[3]), month(m[1]), int(m[2])),
            ),
            (MONTHS, rf"\b{_ORDINAL}{_OF}({MONTH})", lambda m, _: named(None, month(m[2]), int(m[1]))),
            (MONTHS, rf"\b({MONTH})\s+{_ORDINAL}\b", lambda m, _: named(None, month(m[1]), int(m[2]))),
        ),
        re.I,
    )


@cache
def english() -> tuple[Rule, ...]:
    """Months and quarters, with a year or without."""
    return rules_of(
        (
            (
                "- – — to through until till and",
                rf"\b(?P<lead>between\s+|from\s+)?({MONTH})(?:,?\s+({YEAR}))?\s*"
                rf"(?P<to>-|–|—|(?:and|to|through|until|till)\b)\s*({MONTH})(?!\s+{DAY}\b)(?:,?\s+({YEAR})\b)?",
                _months,
            ),
            ("19 20", rf"\b({MONTH}),?\s+(?:of\s+)?({YEAR})\b", lambda m, _: named(int(m[2]), month(m[1]))),
            (
                "q1 q2 q3 q4 quarter",
                rf"\bq([1-4])(?:(?:\s+of)?\s*[-/']?\s*({YEAR}))?\b|\b({YEAR})\s*[-/]?\s*q([1-4])\b"
                rf"|\b(first|second|third|fourth|1st|2nd|3rd|4th)\s+quarter\b(?:(?:\s+of)?\s+({YEAR})\b)?",
                _quarter,
            ),
            (
                "half h1 h2",
                rf"\b(first|second|1st|2nd)\s+half(?:\s+of)?\s+({YEAR})\b|\bh([12])[\s/-]*({YEAR})\b",
                _half,
            ),
            (
                # may, march and dec are other words too, and Jan is a name
                MONTHS,
                rf"\b(?!(?:may|mar|march|dec|sep|sept|jun|jan)\b)({MONTH})(?=\W|$)",
                lambda m, _: NamedDate(month=month(m[1])),
            ),
            (
                "may mar dec sep jun jan",
                r"(?:(?<=\bin )|(?<=\bsince )|(?<=\buntil )|(?<=\bby )|(?<=\bof )|(?<=\bduring )|(?<=\blast )"
                r"|(?<=\bthis )|(?<=\bnext )|(?<=\bearly )|(?<=\blate )|(?<=\bmid[ -]))"
                r"(may|mar(?:ch)?|dec|sept?|jun|jan)\b",
                lambda m, _: NamedDate(month=month(m[1])),
            ),
        ),
        re.I,
    )
