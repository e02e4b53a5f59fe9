"""Dates that a query names: what is read, what is not, and what agreement is worth."""

from __future__ import annotations

from datetime import date

import pytest

from memory_sqlite.search.dates import NamedDate, named_dates
from memory_sqlite.search.query import understand

NOW_MS = 1_796_040_000_000
"""Monday, 2026-11-30T12:00:00Z."""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("what happened on November 28", NamedDate(month=11, day=28)),
        ("28th of November", NamedDate(month=11, day=28)),
        ("8 May, 2023", NamedDate(2023, 5, 8)),
        ("May 8, 2023", NamedDate(2023, 5, 8)),
        ("2026-11-28", NamedDate(2026, 11, 28)),
        ("June 2026", NamedDate(2026, 6)),
        ("in 2022", NamedDate(2022)),
        ("2026年10月3日", NamedDate(2026, 10, 3)),
        ("11月28日", NamedDate(month=11, day=28)),
        ("2026년 3월", NamedDate(2026, 3)),
        ("what did we do in May", NamedDate(month=5)),
        ("yesterday", NamedDate(span=(date(2026, 11, 29), date(2026, 11, 30)))),
        ("昨天", NamedDate(span=(date(2026, 11, 29), date(2026, 11, 30)))),
        ("last week", NamedDate(span=(date(2026, 11, 23), date(2026, 11, 30)))),
        ("last Tuesday", NamedDate(span=(date(2026, 11, 24), date(2026, 11, 25)))),
        ("last month", NamedDate(2026, 10)),
        ("去年", NamedDate(2025)),
    ],
)
def test_dates_are_read(text: str, expected: NamedDate) -> None:
    """Absolute, partial and relative; one text names one date here."""
    assert named_dates(text, NOW_MS) == (expected,)


def test_ago_is_a_span_around_the_day() -> None:
    """ "Three weeks ago" means some days around it, and holds the day itself."""
    (named,) = named_dates("three weeks ago", NOW_MS)
    assert named.agreement(date(2026, 11, 9)) > 0
    assert named.agreement(date(2026, 11, 29)) == 0


@pytest.mark.parametrize(
    "text", ["may I send it", "march on", "port 2024x", "192.168.2024.1", "February 31", "call 555-2010", "harbor"]
)
def test_what_is_no_date_is_not_read(text: str) -> None:
    """Modal verbs, addresses, codes and days that do not exist."""
    assert named_dates(text, NOW_MS) == ()


def test_agreement_grows_with_precision() -> None:
    """A named day is worth most, a year alone least, and a contradiction nothing."""
    at = date(2026, 11, 28)
    day, month, year = NamedDate(2026, 11, 28), NamedDate(2026, 11), NamedDate(2026)
    assert day.agreement(at) > month.agreement(at) > year.agreement(at) > 0
    assert NamedDate(2025, 11, 28).agreement(at) == 0


def test_a_date_is_looked_for_in_names_too() -> None:
    """The digits of a dated file name are a term of the query."""
    terms = {term.kind: term for term in understand("what happened on November 28", now_ms=NOW_MS).terms}
    assert terms["date"].probes == (("11", "28"),)


def test_the_clock_gives_nothing_else() -> None:
    """Without a relative date the moment of asking changes nothing about a query."""
    assert understand("router VLAN 42", now_ms=0) == understand("router VLAN 42", now_ms=NOW_MS)
