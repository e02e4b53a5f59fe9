"""Any text made of the words of dates is read without an error, at any moment, and agrees with days by 0 to 1."""

from __future__ import annotations

from datetime import date, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from memory_sqlite.search.dates import NAMED_MAX, named_dates

WORDS = [
    *"""last next this past previous since between and to from in on of the week month year quarter weekend half Tuesday
    monday may March dec Q3 H1 2026 1999 31 29 2 11/28 3/4 2026-02-29 28.11.2026 ago days weeks two a few couple
    yesterday tomorrow day before after 上 下 个 周 三 月 年 去年 今年 十 二十 九 日 号 天 前 半年 季度 第 到 以来
    最近 先 々 週 の 火曜 から 四半期 지난 다음 주 달 월 일 전 두 세 작년 재작년 올해 분기 상반기 화요일 부터 까지
    이후 - – ' , ?""".split(),  # noqa: SIM905 - read as words, not as a list
    "\0",
]
MOMENTS = st.integers(min_value=-62_135_596_800_000, max_value=253_402_300_799_999)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=14), st.sampled_from(["", " "]), MOMENTS)
def test_reading_never_fails(words: list[str], between: str, now_ms: int) -> None:
    found = named_dates(between.join(words), now_ms)
    assert len(found) <= NAMED_MAX
    assert len(set(found)) == len(found)
    for named in found:
        if named.span is not None:
            assert timedelta(0) < named.span[1] - named.span[0]
        for at in (date(1, 1, 1), date(2026, 11, 28), date(9999, 12, 31)):
            assert 0.0 <= named.agreement(at) <= 1.0
        for phrase in named.phrases():
            assert all(token.isdecimal() for token in phrase)
