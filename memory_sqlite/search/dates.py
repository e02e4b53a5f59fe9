"""Dates that a query names: absolute, partial or relative to now.

Lives here: reading "November 28", "8 May 2023", "June 2026", "2026-11-28", "11月28日", "yesterday", "last week",
"three weeks ago". Not here: what agreement is worth (``rank``). Pure; the clock is the caller's, days are UTC days.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Final

from memory_sqlite.values import dataclass

_MONTHS: Final = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_MONTH: Final = r"(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"  # noqa: E501
_DAY: Final = r"(3[01]|[12]\d|0?[1-9])(?:st|nd|rd|th)?"
_YEAR: Final = r"((?:19|20)\d\d)"
_NUMBERS: Final = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
    "nine": 9, "ten": 10, "一": 1, "两": 2, "二": 2, "三": 3, "四": 4, "五": 5, "六": 6,
}  # fmt: skip
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

_HINT: Final = re.compile(
    r"\d|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|day|week|month|year|[天日月年周週]|先|어제|오늘|그저께|지난|작년",
    re.I,
)
"""Without any of these a query names no date, and the rules need not be compiled (5 ms of a cold start)."""


@cache
def _rules() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Shapes of absolute dates, the finest first; the letters name the groups."""
    return (
        ("ymd", re.compile(rf"(?<![\w-]){_YEAR}[-/.](0?[1-9]|1[0-2])[-/.](3[01]|[12]\d|0?[1-9])(?![\d-])")),
        (
            "ymd",
            re.compile(r"((?:19|20)\d\d)\s*[年년]\s*(1[0-2]|0?[1-9])\s*[月월]\s*(3[01]|[12]\d|0?[1-9])\s*[日号일]"),
        ),
        ("md", re.compile(r"(?<!\d)(1[0-2]|0?[1-9])\s*[月월]\s*(3[01]|[12]\d|0?[1-9])\s*[日号일]")),
        ("ym", re.compile(r"((?:19|20)\d\d)\s*[年년]\s*(1[0-2]|0?[1-9])\s*[月월]")),
        ("dMy", re.compile(rf"\b{_DAY}(?:\s+of)?\s+{_MONTH},?\s+{_YEAR}\b", re.I)),
        ("Mdy", re.compile(rf"\b{_MONTH}\s+{_DAY},?\s+{_YEAR}\b", re.I)),
        ("My", re.compile(rf"\b{_MONTH},?\s+(?:of\s+)?{_YEAR}\b", re.I)),
        ("dM", re.compile(rf"\b{_DAY}(?:\s+of)?\s+{_MONTH}\b", re.I)),
        ("Md", re.compile(rf"\b{_MONTH}\s+{_DAY}\b", re.I)),
        ("ym", re.compile(rf"(?<![\w-]){_YEAR}-(0[1-9]|1[0-2])(?![\d-])")),
        ("M", re.compile(rf"\b(?!may\b|march\b|mar\b|dec\b|sep\b){_MONTH}(?=\W|$)", re.I)),
        ("M", re.compile(r"\b(?:in|since|until|by|of|during|last|this|early|late|mid)[\s-]+(may|march)\b", re.I)),
        ("y", re.compile(rf"(?<![\w.,:-]){_YEAR}(?:\s*[年년])?(?![\w,:-]|\.\d)")),
    )


@cache
def _relatives() -> tuple[tuple[re.Pattern[str], int, int], ...]:
    """Patterns of relative days: days back and length of the span."""
    return (
        (re.compile(r"\byesterday\b|昨天|昨日|어제", re.I), 1, 1),
        (re.compile(r"\btoday\b|今天|今日|오늘", re.I), 0, 1),
        (re.compile(r"前天|一昨日|\bday before yesterday\b|그저께", re.I), 2, 1),
    )


_AGO: Final = (
    r"\b(\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten)\s+(day|week|month|year)s?\s+ago\b"
    r"|(\d{1,3}|[一两二三四五六])\s*个?(天|日|周|週|星期|月|年)(?:以?前)"
)
_LAST: Final = (
    r"\b(last|past|this)\s+(week|month|year|monday|tuesday|wednesday|thursday|friday|saturday|sunday)\b"
    r"|(上周|上週|先週|지난주)|(上个月|上個月|先月|지난달)|(去年|昨年|작년)"
)


@dataclass(frozen=True, slots=True)
class NamedDate:
    """What a query says about time. ``None`` fields were not said; ``span`` is half-open days for relative dates."""

    year: int | None = None
    month: int | None = None
    day: int | None = None
    span: tuple[date, date] | None = None

    def agreement(self, at: date) -> float:
        """How well a day agrees, 0 to 1: a named day counts fully, a month less, a year alone least."""
        if self.span is not None:
            first, last = self.span
            if not first <= at < last:
                return 0.0
            return 1.0 if last - first <= timedelta(days=10) else 0.7
        if (
            (self.year is not None and self.year != at.year)
            or (self.month is not None and self.month != at.month)
            or (self.day is not None and self.day != at.day)
        ):
            return 0.0
        if self.day is not None:
            return 1.0
        return 0.8 if self.month is not None else 0.4

    def phrases(self) -> list[tuple[str, ...]]:
        """Token sequences under which dated file names and headings hold this date."""
        found: list[tuple[str, ...]] = []
        if self.span is not None:
            first, last = self.span
            if last - first == timedelta(days=1):
                found.append((f"{first.year}", f"{first.month:02d}", f"{first.day:02d}"))
        elif self.month is not None and self.day is not None:
            tail = (f"{self.month:02d}", f"{self.day:02d}")
            found.append((str(self.year), *tail) if self.year is not None else tail)
        elif self.month is not None and self.year is not None:
            found.append((str(self.year), f"{self.month:02d}"))
        return found


def _month(name: str) -> int:
    return next(number for number, full in enumerate(_MONTHS, 1) if full.startswith(name[:3].casefold()))


def _build(shape: str, values: tuple[str, ...]) -> NamedDate | None:
    fields: dict[str, int] = {}
    for letter, value in zip(shape, values, strict=False):
        fields[letter.lower()] = _month(value) if letter == "M" else int(value)
    year, month, day = fields.get("y"), fields.get("m"), fields.get("d")
    if day is not None and month is not None:
        try:
            date(year or 2024, month, day)
        except ValueError:
            return None
    return NamedDate(year, month, day)


def _days_back(today: date, days: int, length: int) -> NamedDate | None:
    try:
        first = today - timedelta(days=days)
        return NamedDate(span=(first, first + timedelta(days=length)))
    except OverflowError:
        return None


def _relative(text: str, today: date) -> list[NamedDate | None]:
    found: list[NamedDate | None] = []
    for pattern, back, length in _relatives():
        if pattern.search(text):
            found.append(_days_back(today, back, length))
    for match in re.finditer(_AGO, text, re.I):
        amount = (match[1] or match[3]).casefold()
        unit = (match[2] or match[4]).casefold()
        count = _NUMBERS.get(amount) or int(amount)
        days = {"day": 1, "天": 1, "日": 1, "month": 30, "月": 30, "year": 365, "年": 365}.get(unit, 7)
        slack = max(1, days // 3)
        found.append(_days_back(today, count * days + slack - 1, 2 * slack - 1))
    for match in re.finditer(_LAST, text, re.I):
        unit = (match[2] or ("week" if match[3] else "month" if match[4] else "year")).casefold()
        this = (match[1] or "").casefold() == "this"
        if unit in _WEEKDAYS:
            back = (today.weekday() - _WEEKDAYS.index(unit)) % 7
            found.append(_days_back(today, back if this else back or 7, 1))
        elif unit == "week":
            found.append(_days_back(today, today.weekday() + (0 if this else 7), 7))
        elif unit == "month":
            year, month = (today.year, today.month) if this else ((today.year, today.month - 1))
            found.append(NamedDate(year=year, month=month) if month else NamedDate(year=year - 1, month=12))
        else:
            found.append(NamedDate(year=today.year - (0 if this else 1)))
    return found


def day_of(at_ms: int) -> date:
    """The UTC day that holds a time in milliseconds."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).date()


def named_dates(text: str, now_ms: int) -> tuple[NamedDate, ...]:
    """Every date that ``text`` names, at most eight; absolute ones in the order of their precision."""
    if _HINT.search(text) is None:
        return ()
    found: list[NamedDate | None] = []
    rest = text
    for shape, pattern in _rules():
        matches = list(pattern.finditer(rest))
        for match in matches:
            found.append(_build(shape, match.groups()))
        for match in matches:  # what a finer rule has read, a coarser one must not read again
            rest = rest[: match.start()] + " " * (match.end() - match.start()) + rest[match.end() :]
    found.extend(_relative(rest, day_of(now_ms)))
    return tuple(dict.fromkeys(item for item in found if item is not None))[:8]
