"""Dates and ranges in four languages: what is read, which days it means, and what only looks like a date."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from memory_sqlite.errors import InvalidArgument
from memory_sqlite.search import date_phrases, date_phrases_han, date_phrases_hangul, date_shapes, dates
from memory_sqlite.search.date_words import number
from memory_sqlite.search.dates import NamedDate, named_dates
from memory_sqlite.search.days import day_of
from memory_sqlite.search.folding import search_form
from memory_sqlite.search.query import understand

NOW_MS = 1_796_040_000_000
"""Monday, 2026-11-30T12:00:00Z."""
DAY_MS = 86_400_000


def days(first: str, last: str) -> NamedDate:
    """From one day to another, both included."""
    return NamedDate(span=(date.fromisoformat(first), date.fromisoformat(last) + timedelta(days=1)))


def day(text: str) -> NamedDate:
    return days(text, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Q3 2026", days("2026-07-01", "2026-09-30")),
        ("2026-Q3", days("2026-07-01", "2026-09-30")),
        ("the third quarter of 2025", days("2025-07-01", "2025-09-30")),
        ("what were the Q4 goals", days("2026-10-01", "2026-12-31")),
        ("last quarter", days("2026-07-01", "2026-09-30")),
        ("the first half of 2026", days("2026-01-01", "2026-06-30")),
        ("between March and May", days("2026-03-01", "2026-05-31")),
        ("between March and May 2025", days("2025-03-01", "2025-05-31")),
        ("March-May 2026", days("2026-03-01", "2026-05-31")),
        ("from 3 March to 5 April", days("2026-03-03", "2026-04-05")),
        ("from November to February", days("2026-11-01", "2027-02-28")),
        ("between 2026-03-01 and 2026-03-09", days("2026-03-01", "2026-03-09")),
        ("Nov 3-7", days("2026-11-03", "2026-11-07")),
        ("3 to 7 November 2025", days("2025-11-03", "2025-11-07")),
        ("in the last two months", days("2026-10-01", "2026-11-30")),
        ("the past 10 days", days("2026-11-20", "2026-11-30")),
        ("the last few weeks", days("2026-11-09", "2026-11-30")),
        ("since March", days("2026-03-01", "2026-11-30")),
        ("since last Tuesday", days("2026-11-24", "2026-11-30")),
        ("since December", days("2025-12-01", "2026-11-30")),
        ("the day before yesterday", day("2026-11-28")),
        ("last night", day("2026-11-29")),
        ("this morning", day("2026-11-30")),
        ("tomorrow", day("2026-12-01")),
        ("last Monday", day("2026-11-23")),
        ("this Monday", day("2026-11-30")),
        ("next Monday", day("2026-12-07")),
        ("Tuesday of last week", day("2026-11-24")),
        ("last week on Tuesday", day("2026-11-24")),
        ("last weekend", days("2026-11-28", "2026-11-29")),
        ("next week", days("2026-12-07", "2026-12-13")),
        ("three days ago", day("2026-11-27")),
        ("a day ago", day("2026-11-29")),
        ("a couple of weeks ago", days("2026-11-15", "2026-11-17")),
        ("October last year", NamedDate(2025, 10)),
        ("last year in October", NamedDate(2025, 10)),
        ("October 3rd last year", NamedDate(2025, 10, 3)),
        ("last October", NamedDate(2026, 10)),
        ("last December", NamedDate(2025, 12)),
        ("last November", NamedDate(2025, 11)),
        ("next May", NamedDate(2027, 5)),
        ("2026/11/28", NamedDate(2026, 11, 28)),
        ("2026.11.28", NamedDate(2026, 11, 28)),
        ("28.11.2026", NamedDate(2026, 11, 28)),
        ("11/28/2026", NamedDate(2026, 11, 28)),
        ("28/11/2026", NamedDate(2026, 11, 28)),
        ("2026-11", NamedDate(2026, 11)),
        ("Tuesday, 24 November 2026", NamedDate(2026, 11, 24)),
    ],
)
def test_english_phrases_and_ranges(text: str, expected: NamedDate) -> None:
    """Ranges without a year are the last that had begun; weeks begin on Monday."""
    assert named_dates(text, NOW_MS) == (expected,)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("去年十月", NamedDate(2025, 10)),
        ("去年10月3号", NamedDate(2025, 10, 3)),
        ("今年三月", NamedDate(2026, 3)),
        ("十月二十八日", NamedDate(month=10, day=28)),
        ("三十一日、十二月三十一号", NamedDate(month=12, day=31)),
        ("2026年3月", NamedDate(2026, 3)),
        ("10月份的账单", NamedDate(month=10)),
        ("明年", NamedDate(2027)),
        ("上周三", day("2026-11-25")),
        ("上週三", day("2026-11-25")),
        ("上个星期三", day("2026-11-25")),
        ("上星期天", day("2026-11-29")),
        ("上週末", days("2026-11-28", "2026-11-29")),
        ("這個星期五", day("2026-12-04")),
        ("下周二", day("2026-12-08")),
        ("上周", days("2026-11-23", "2026-11-29")),
        ("上上周", days("2026-11-16", "2026-11-22")),
        ("上個月", NamedDate(2026, 10)),
        ("上个月15号", NamedDate(2026, 10, 15)),
        ("昨晚", day("2026-11-29")),
        ("前天", day("2026-11-28")),
        ("大前天", day("2026-11-27")),
        ("三天前", day("2026-11-27")),
        ("十五天以前", day("2026-11-15")),
        ("兩週前", days("2026-11-15", "2026-11-17")),
        ("最近三天", days("2026-11-27", "2026-11-30")),
        ("过去两周", days("2026-11-16", "2026-11-30")),
        ("2026年第三季度", days("2026-07-01", "2026-09-30")),
        ("上个季度", days("2026-07-01", "2026-09-30")),
        ("去年下半年", days("2025-07-01", "2025-12-31")),
        ("三月到五月", days("2026-03-01", "2026-05-31")),
        ("3到5月", days("2026-03-01", "2026-05-31")),
        ("三月和五月之间", days("2026-03-01", "2026-05-31")),
        ("三月以来", days("2026-03-01", "2026-11-30")),
        ("昨日", day("2026-11-29")),
        ("一昨日", day("2026-11-28")),
        ("おととい", day("2026-11-28")),
        ("先週", days("2026-11-23", "2026-11-29")),
        ("先週の火曜日", day("2026-11-24")),
        ("今週末", days("2026-12-05", "2026-12-06")),
        ("先月", NamedDate(2026, 10)),
        ("先々月", NamedDate(2026, 9)),
        ("昨年10月", NamedDate(2025, 10)),
        ("去年の10月", NamedDate(2025, 10)),
        ("3日前", day("2026-11-27")),
        ("三週間前", days("2026-11-08", "2026-11-10")),
        ("第3四半期", days("2026-07-01", "2026-09-30")),
        ("10月以降", days("2026-10-01", "2026-11-30")),
        ("3月から5月", days("2026-03-01", "2026-05-31")),
        ("過去2週間", days("2026-11-16", "2026-11-30")),
    ],
)
def test_chinese_and_japanese_phrases(text: str, expected: NamedDate) -> None:
    """Simplified or traditional, digits or numerals, with and without particles."""
    assert named_dates(text, NOW_MS) == (expected,)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("어제", day("2026-11-29")),
        ("그저께", day("2026-11-28")),
        ("지난주", days("2026-11-23", "2026-11-29")),
        ("지난 주에", days("2026-11-23", "2026-11-29")),
        ("지난주 화요일", day("2026-11-24")),
        ("지난 화요일", day("2026-11-24")),
        ("이번 주말", days("2026-12-05", "2026-12-06")),
        ("지난달", NamedDate(2026, 10)),
        ("작년 10월", NamedDate(2025, 10)),
        ("올해 3월 2일", NamedDate(2026, 3, 2)),
        ("2026년 3월 2일", NamedDate(2026, 3, 2)),
        ("11월 28일", NamedDate(month=11, day=28)),
        ("3일 전", day("2026-11-27")),
        ("일주일 전", days("2026-11-22", "2026-11-24")),
        ("최근 두 달", days("2026-10-01", "2026-11-30")),
        ("3분기", days("2026-07-01", "2026-09-30")),
        ("올해 상반기", days("2026-01-01", "2026-06-30")),
        ("3월부터 5월까지", days("2026-03-01", "2026-05-31")),
        ("3월 이후", days("2026-03-01", "2026-11-30")),
    ],
)
def test_korean_phrases(text: str, expected: NamedDate) -> None:
    """With and without spaces and particles."""
    assert named_dates(text, NOW_MS) == (expected,)


@pytest.mark.parametrize(
    "text",
    [
        "3/4 inch", "24/7 support", "16/9 screen", "v2026.1", "every Tuesday", "Jan said so", "we march to the house",
        "decide", "mayor of Q town", "2024-13-45", "November 31 2026", "9999 years",
        "一周一次", "晚上月亮", "每周三", "毎週火曜", "后天性",
        "다음 주문", "시작해서 끝까지", "그제서야", "日本語", "周杰伦", "前端",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_date(text: str) -> None:
    """Fractions, versions, names, other words, recurring days and days that do not exist."""
    assert named_dates(text, NOW_MS) == ()


def test_two_numbers_are_a_day_with_caution() -> None:
    """``11/28`` needs a word before it, or nothing around it; where either may be the month both are read, with less
    trust; and what is not sure is not looked for in names."""
    (named,) = named_dates("what happened on 11/28?", NOW_MS)
    assert (named.month, named.day) == (11, 28)
    assert named_dates("11/28", NOW_MS) == (named,)
    both = named_dates("03/04/2026", NOW_MS)
    assert {(one.month, one.day) for one in both} == {(3, 4), (4, 3)}
    assert all(one.phrases() == () for one in (named, *both))
    assert both[0].agreement(date(2026, 3, 4)) < NamedDate(2026, 3, 4).agreement(date(2026, 3, 4))


@pytest.mark.parametrize("text", ["on Tuesday", "周二", "火曜日", "화요일"])
def test_a_weekday_alone_is_doubtful(text: str) -> None:
    """The last one is meant as often as every one: it agrees by half, and is no term of the query."""
    (named,) = named_dates(text, NOW_MS)
    assert named.agreement(date(2026, 11, 24)) == 0.5
    assert named.phrases() == ()


def test_several_dates_stay_apart() -> None:
    """Only what stands between two dates joins them."""
    assert named_dates("June 2025, and again June 2026", NOW_MS) == (NamedDate(2025, 6), NamedDate(2026, 6))
    assert named_dates("yesterday and last week", NOW_MS) == (day("2026-11-29"), days("2026-11-23", "2026-11-29"))
    assert len(named_dates(" ".join(f"2026-01-{number:02d}" for number in range(1, 20)), NOW_MS)) == dates.NAMED_MAX
    assert named_dates("Q1 2026 " * 2_000, NOW_MS) == (days("2026-01-01", "2026-03-31"),)


def test_no_now_breaks_the_calendar() -> None:
    """The ends of months, leap days and the ends of time: an answer or none, and no error."""
    leap = 1_709_208_000_000  # 2024-02-29
    assert named_dates("last month", leap) == (NamedDate(2024, 1),)
    assert named_dates("February 29 last year", leap) == ()
    phrases = (
        "last year|999 years ago|大前天|Q4|next week|지난달|since March|last two years|前年3月|재작년 3월|next year"
    )
    for now_ms in (-62_135_596_800_000, -1, 0, leap, 253_402_300_799_000):
        for named in (named for text in phrases.split("|") for named in named_dates(text, now_ms)):
            assert all(token.isdecimal() and len(token) in (2, 4) for phrase in named.phrases() for token in phrase)


def test_the_day_is_the_callers() -> None:
    """Near midnight it is another day in another zone, and "yesterday" goes with it."""
    late = NOW_MS + 11 * 3_600_000  # 23:00 UTC
    assert named_dates("yesterday", late, "UTC") == (day("2026-11-29"),)
    assert named_dates("yesterday", late, "+02:00") == (day("2026-11-30"),)
    assert named_dates("昨天", late, "Asia/Shanghai") == (day("2026-11-30"),)
    assert named_dates("yesterday", NOW_MS, "-13:30") == (day("2026-11-28"),)


def test_zones() -> None:
    """Offsets, names with their summer time, and the machine's own; anything else is refused without its text."""
    summer, winter = 1_782_853_200_000, 1_767_217_800_000  # 2026-06-30T21:00Z, 2025-12-31T21:50Z
    assert day_of(summer + 5_400_000, "Europe/Berlin") == date(2026, 7, 1)
    assert day_of(winter, "Europe/Berlin") == date(2025, 12, 31)
    assert day_of(0, "local") in (date(1969, 12, 31), date(1970, 1, 1))
    for wrong in ("", "Mars/Olympus", "../etc/passwd", "+99:00", "+1:99", "\0", "Europe"):
        with pytest.raises(InvalidArgument) as refused:
            day_of(0, wrong)
        assert not wrong or wrong not in str(refused.value)


def test_times_are_compared_in_the_callers_zone(index: Any, message: Any, note: Any) -> None:
    """A message of 23:30 in Berlin was said on that day, whatever day it was in UTC; a dated note has no zone."""
    said = 1_795_995_000_000  # 2026-11-29T23:30Z, 2026-11-30T00:30 in Berlin
    index.put(message(1, 1, "The harbour crane was greased.", at=said))
    index.put(note("memory/2026-11-29.md", "The harbour was closed.", at=1_795_910_400_000))

    def date_boosts(zone: str) -> set[str]:
        hits, _ = index.search("harbour yesterday", explain=True, zone=zone)
        return {hit.provenance["kind"] for hit in hits if hit.explanation.get("date", 1.0) > 1.0}

    assert date_boosts("UTC") == {"message", "note"}
    assert date_boosts("Europe/Berlin") == {"note"}


def test_a_week_is_looked_for_in_the_names_of_notes(index: Any, note: Any) -> None:
    """A short span is a term of the query that any of its days fulfils, a long one any of its months."""
    index.put(
        note("memory/2026-11-24.md", "Met with Jonas.", at=1_795_478_400_000),
        note("memory/2026-08-03.md", "Moved house.", at=1_785_715_200_000),
        note("memory/plan.md", "Nothing of a date."),
    )
    assert index.paths("last week") == ["2026-11-24.md"]
    assert index.paths("Q3 2026")[0] == "2026-08-03.md"
    assert index.paths("上周三") == []
    assert index.paths("上周二") == ["2026-11-24.md"]
    assert index.paths("先週")[0] == index.paths("지난주")[0] == "2026-11-24.md"
    (term,) = [term for term in understand("last week", now_ms=NOW_MS).terms if term.kind == "date"]
    assert len(term.probes) == 7


def test_a_named_time_prefers_what_was_said_then(index: Any, message: Any) -> None:
    """Of two messages that answer alike the one of that time is first, and without a time the newer one."""
    index.put(
        message(1, 1, "The harbour crane was greased by Jo.", at=NOW_MS - 20 * DAY_MS),
        message(2, 1, "The harbour crane was greased by Mia.", at=NOW_MS - 5 * DAY_MS),
    )
    first = "s1m1"
    assert index.search("who greased the harbour crane")[0][0].message_id == "s2m1"
    for text in (
        "three weeks ago",
        "November 10",
        "between November 1 and November 20",
        "三周前",
        "11月10日",
        "3주 전",
    ):
        assert index.search(f"harbour crane greased {text}")[0][0].message_id == first, text


def test_numerals() -> None:
    """Digits, words and Han numerals up to a hundred."""
    words = "7|two|a couple of|a|几|十|十二|二十|二十八|三十一|열"
    assert [number(text) for text in words.split("|")] == [7, 2, 2, 1, 3, 10, 12, 20, 28, 31, 10]


def test_patterns_are_in_their_search_form() -> None:
    """A text is folded before it is read, so a pattern with another form of a character would never match."""
    tables = (
        date_shapes.digits(), date_shapes.days_of_months(), date_shapes.english(), date_shapes.lone_year(),
        date_phrases.english(), date_phrases_han.rules(), date_phrases_hangul.rules(),
    )  # fmt: skip
    for rule in (rule for table in tables for rule in table):
        source = rule.source
        assert search_form(source) == source
