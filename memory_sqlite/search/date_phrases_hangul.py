"""Dates in Korean: ``11월 28일``, ``작년 10월``, ``지난주 화요일``, ``3일 전``, ``두 달 전``, ``3분기``.

Lives here: the table of shapes and phrases, the longest first. Not here: other languages, calendar arithmetic
(``date_spans``). Called by ``dates``.
"""

from __future__ import annotations

import re
from datetime import date
from functools import cache, partial
from typing import Final

from memory_sqlite.search import date_spans as spans
from memory_sqlite.search.date_rules import Reading, Rule, day_on, named, rules_of, whole
from memory_sqlite.search.date_words import HANGUL_NUMBER, HANGUL_UNIT, YEAR, number, unit, weekday

_ON: Final = {
    "재작": -2, "작": -1, "올": 0, "금": 0, "내": 1,
    "지지난": -2, "저저번": -2, "지난": -1, "저번": -1, "이번": 0, "다음": 1,
}  # fmt: skip
_END: Final = "(?=$|[^가-힣]|에|의|은|는|엔|부터|까지|도|간|동안|이후)"
"""A particle or the end of the word follows: ``다음 주문`` is the next order, not the next week."""
_NEAR: Final = r"(지지난|저저번|지난|저번|이번|다음)\s?"
_SIGN: Final = "[월화수목금토일]"
_DAYS: Final = (
    ("사흘", r"사흘\s?전", -3),
    ("그저께 그제 이틀", r"그저께|그제(?!서)|이틀\s?전", -2),
    ("하루 어제 어젯밤 간밤", r"하루\s?전|어제|어젯밤|간밤", -1),
    ("오늘", r"오늘", 0),
    ("내일", r"내일", 1),
    ("모레", r"모레", 2),
)


def _fields(year: str | None, month: str | None = None, day: str | None = None) -> spans.NamedDate:
    return named(whole(year), whole(month), whole(day))


def _of_year(m: re.Match[str], today: date) -> Reading:
    return named(today.year + _ON[m[1] or m[2]], whole(m[3]), whole(m[4]))


def _quarter(m: re.Match[str], today: date) -> Reading:
    if m[3]:
        return spans.quarter_on(today, _ON[m[3]])
    of_year = int(m[2])
    return spans.quarter(spans.begun(today, whole(m[1]), 3 * of_year - 2), of_year)


def _half_year(m: re.Match[str], today: date) -> Reading:
    first = 1 if m[4] == "상" else 7
    near = m[2] or m[3]
    said = today.year + _ON[near] if near else whole(m[1])
    return spans.months(spans.begun(today, said, first), first, 6)


@cache
def rules() -> tuple[Rule, ...]:
    """The table."""
    year = r"(?:(재작|작|금|내)년|(지난|올|다음)\s?해)"
    return rules_of(
        (
            ("년", rf"({YEAR})년\s*(\d\d?)월\s*(\d\d?)일", lambda m, _: _fields(m[1], m[2], m[3])),
            ("년", rf"({YEAR})년\s*(\d\d?)월", lambda m, _: _fields(m[1], m[2])),
            ("분기", rf"(?:({YEAR})년\s*)?([1-4])분기|(지난|이번|다음)\s?분기", _quarter),
            ("반기", rf"(?:({YEAR})년\s*|{year}\s*)?(상|하)반기", _half_year),
            ("년 해", rf"{year}\s*(?:(\d\d?)월\s*(?:(\d\d?)일)?)?", _of_year),
            ("달", rf"{_NEAR}달{_END}", lambda m, today: spans.month(today, _ON[m[1]])),
            ("주말", rf"{_NEAR}주말", lambda m, today: spans.weekend(today, _ON[m[1]])),
            (
                "요일",
                rf"{_NEAR}주\s*({_SIGN})요일",
                lambda m, today: spans.day_of_week(today, _ON[m[1]], weekday(m[2])),
            ),
            ("주", rf"{_NEAR}주{_END}", lambda m, today: spans.week(today, _ON[m[1]])),
            ("요일", rf"지난\s?({_SIGN})요일", lambda m, today: spans.last_weekday(today, weekday(m[1]))),
            (
                "최근 지난",
                rf"(?:최근|지난)\s?({HANGUL_NUMBER})\s?({HANGUL_UNIT}){_END}",
                lambda m, today: spans.within(today, number(m[1]), unit(m[2])),
            ),
            ("반년", r"반년\s?전", lambda _, today: spans.ago(today, 6, "month")),
            *((needs, pattern, partial(day_on, on)) for needs, pattern, on in _DAYS),
            (
                "전",
                rf"(?<![\d가-힣])({HANGUL_NUMBER})\s?({HANGUL_UNIT})\s?전",
                lambda m, today: spans.ago(today, number(m[1]), unit(m[2])),
            ),
            ("월", r"(?<!\d)(\d\d?)월\s*(\d\d?)일", lambda m, _: _fields(None, m[1], m[2])),
            ("월", r"(?<!\d)(1[0-2]|0?[1-9])월", lambda m, _: _fields(None, m[1])),
            ("년", rf"({YEAR})년", lambda m, _: _fields(m[1])),
            ("요일", rf"(?<!매주)(?<!매주 )({_SIGN})요일", lambda m, today: spans.some_weekday(today, weekday(m[1]))),
        )
    )
