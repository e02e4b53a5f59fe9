"""Calendar arithmetic: the days that "three weeks ago", "last quarter" or "between March and May" mean.

Lives here: ``NamedDate``, what agreement with a day is worth, and how one is made. Not here: reading words
(``dates`` and the tables it uses). Pure; weeks begin on Monday. Called by those tables, ``query`` and ``rank``.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import Final

from memory_sqlite.values import dataclass

DOUBTFUL: Final = 0.5
"""Trust in what may be no date at all, or another: a weekday alone, ``03/04``."""
_SHORT: Final = timedelta(days=10)
_LONG: Final = timedelta(days=100)
_DAYS: Final = {"day": 1, "week": 7, "fortnight": 14, "month": 30, "quarter": 91, "year": 365}


@dataclass(frozen=True, slots=True)
class NamedDate:
    """What a query says about time. ``None`` fields were not said; ``span`` is half-open days, in place of the fields.

    ``trust`` is said of a reading that is not sure; only what is sure is looked for in names as well.
    """

    year: int | None = None
    month: int | None = None
    day: int | None = None
    span: tuple[date, date] | None = None
    trust: float | None = None

    def agreement(self, at: date) -> float:
        """How well a day agrees, 0 to 1: a day or a week counts fully, months less, a year least."""
        sure = 1.0 if self.trust is None else self.trust
        if self.span is not None:
            first, last = self.span
            if not first <= at < last:
                return 0.0
            length = last - first
            return sure * (1.0 if length <= _SHORT else 0.7 if length <= _LONG else 0.4)
        if (
            (self.year is not None and self.year != at.year)
            or (self.month is not None and self.month != at.month)
            or (self.day is not None and self.day != at.day)
        ):
            return 0.0
        if self.day is not None:
            return sure
        return sure * (0.8 if self.month is not None else 0.4)

    def phrases(self) -> tuple[tuple[str, ...], ...]:
        """Token sequences under which the names and headings of dated notes hold this date."""
        if self.trust is not None:
            return ()
        if self.span is not None:
            first, last = self.span
            if last - first <= _SHORT:
                days = [first + timedelta(days=number) for number in range((last - first).days)]
                return tuple((f"{day.year:04d}", f"{day.month:02d}", f"{day.day:02d}") for day in days)
            if last - first <= _LONG:
                return tuple((f"{year:04d}", f"{month:02d}") for year, month in _months(first, last))
            return ()
        tail = () if self.day is None else (f"{self.day:02d}",)
        if self.month is None or (self.year is None and not tail):
            return ()
        numbers = (f"{self.month:02d}", *tail)
        if self.year is None:
            return (numbers,)
        return ((f"{self.year:04d}", *numbers),)

    def first_day(self, today: date) -> date:
        """Its first day; where no year was said, in the last year in which that day had come."""
        if self.span is not None:
            return self.span[0]
        month, day = self.month or 1, self.day or 1
        year = self.year if self.year is not None else today.year
        if self.year is None and date(year, month, min(day, _length(year, month))) > today:
            year -= 1
        return date(year, month, min(day, _length(year, month)))

    def end(self, first: date) -> date:
        """The day after its last; ``first`` gives the year that was not said."""
        if self.span is not None:
            return self.span[1]
        year = self.year if self.year is not None else first.year
        month = self.month or 12
        day = self.day or _length(year, month)
        last = date(year, month, min(day, _length(year, month)))
        if self.year is None and last < first:
            last = date(year + 1, month, min(day, _length(year + 1, month)))
        return last + timedelta(days=1)


def _length(year: int, month: int) -> int:
    """Days of a month. Not the standard library's ``calendar``, which takes a millisecond to load."""
    return (date(*shifted(year, month, 1), 1) - timedelta(days=1)).day


def _months(first: date, last: date) -> list[tuple[int, int]]:
    """Every month that begins in the span or holds its beginning."""
    found = []
    year, month = first.year, first.month
    while date(year, month, 1) < last:
        found.append((year, month))
        year, month = shifted(year, month, 1)
    return found


def shifted(year: int, month: int, by: int) -> tuple[int, int]:
    """Year and month, so many months on."""
    years, index = divmod(year * 12 + month - 1 + by, 12)
    return years, index + 1


def day(today: date, on: int) -> NamedDate:
    """One day, so many days on (back when negative)."""
    first = today + timedelta(days=on)
    return NamedDate(span=(first, first + timedelta(days=1)))


def week(today: date, on: int) -> NamedDate:
    """The week of Monday to Sunday, so many weeks on."""
    first = today + timedelta(days=7 * on - today.weekday())
    return NamedDate(span=(first, first + timedelta(days=7)))


def weekend(today: date, on: int) -> NamedDate:
    """Saturday and Sunday of the week, so many weeks on."""
    first = today + timedelta(days=7 * on - today.weekday() + 5)
    return NamedDate(span=(first, first + timedelta(days=2)))


def day_of_week(today: date, on: int, weekday: int) -> NamedDate:
    """A weekday of the week so many weeks on (``上周三``, "Tuesday of last week")."""
    return day(today, 7 * on - today.weekday() + weekday)


def last_weekday(today: date, weekday: int, *, today_counts: bool = False) -> NamedDate:
    """The last such weekday before today ("last Tuesday"), or today itself where it may be meant ("on Tuesday")."""
    back = (today.weekday() - weekday) % 7
    return day(today, -(back if today_counts else back or 7))


def some_weekday(today: date, weekday: int) -> NamedDate:
    """The last such weekday up to and with today, where the next or every one may be meant as well."""
    return NamedDate(span=last_weekday(today, weekday, today_counts=True).span, trust=DOUBTFUL)


def next_weekday(today: date, weekday: int) -> NamedDate:
    """The first such weekday after today."""
    return day(today, (weekday - today.weekday()) % 7 or 7)


def month(today: date, on: int) -> NamedDate:
    """The month so many months on."""
    year, number = shifted(today.year, today.month, on)
    return NamedDate(date(year, number, 1).year, number)


def quarter(year: int, number: int) -> NamedDate:
    """A quarter of the calendar year."""
    return months(year, 3 * number - 2, 3)


def quarter_on(today: date, on: int) -> NamedDate:
    """The quarter so many quarters on."""
    year, month = shifted(today.year, today.month - (today.month - 1) % 3, 3 * on)
    return months(year, month, 3)


def months(year: int, month: int, count: int) -> NamedDate:
    """So many months from the first of one."""
    return NamedDate(span=(date(year, month, 1), date(*shifted(year, month, count), 1)))


def begun(today: date, year: int | None, month: int) -> int:
    """``year``, or the last year in which that month had begun."""
    return year if year is not None else today.year - (month > today.month)


def ago(today: date, count: int, unit: str) -> NamedDate:
    """Around so long ago: exactly that day for days, and a third of the unit on both sides of it for others."""
    slack = max(1, _DAYS[unit] // 3)
    first = today - timedelta(days=count * _DAYS[unit] + slack - 1)
    return NamedDate(span=(first, first + timedelta(days=2 * slack - 1)))


def within(today: date, count: int, unit: str) -> NamedDate:
    """The last so many days, weeks, months or years, up to and with today."""
    return NamedDate(span=(today - timedelta(days=count * _DAYS[unit]), today + timedelta(days=1)))


def between(first: NamedDate, last: NamedDate, today: date) -> NamedDate:
    """From the first day of one to the last of the other. A year that only the second has is meant for both; where
    none has one, it is the last time that the span had begun. Raises ``ValueError`` when it ends before it begins."""
    if first.span is None and first.year is None and last.year is not None:
        year = last.year - ((first.month or 1) > (last.month or 12))
        first = NamedDate(year, first.month, first.day, trust=first.trust)
    begin = first.first_day(today)
    end = last.end(begin)
    if end <= begin:
        raise ValueError("ends before it begins")
    return NamedDate(span=(begin, end))


def since(first: NamedDate, today: date) -> NamedDate:
    """From its first day up to and with today; itself, where it is still to come."""
    begin = first.first_day(today)
    if begin > today:
        return first
    return NamedDate(span=(begin, today + timedelta(days=1)), trust=first.trust)
