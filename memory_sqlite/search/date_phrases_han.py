"""Dates in Chinese and Japanese: ``11月28日``, ``去年十月``, ``上周三``, ``三天前``, ``先週の火曜日``, ``第3四半期``.

Lives here: the table of shapes and phrases, the longest first; Han characters in their search form (週 is 周). Not
here: other languages, calendar arithmetic (``date_spans``). Called by ``dates``.
"""

from __future__ import annotations

import re
from datetime import date
from functools import cache, partial
from typing import Final

from memory_sqlite.search import date_spans as spans
from memory_sqlite.search.date_rules import Reading, Rule, day_on, named, rules_of, whole
from memory_sqlite.search.date_words import HAN_DIGITS, HAN_NUMBER, HAN_UNIT, YEAR, number, unit, weekday

_ON: Final = {
    "一昨": -2, "去": -1, "昨": -1, "今": 0, "这": 0, "本": 0, "当": 0, "明": 1, "来": 1, "再来": 2,
    "先々": -2, "上上": -2, "上": -1, "上一": -1, "先": -1, "前": -1, "下": 1, "下一": 1, "下下": 2,
}  # fmt: skip
_MONTH: Final = r"(?:1[0-2]|0?[1-9]|十[一二]?|[一二三四五六七八九])"
_DAY: Final = rf"(?:3[01]|[12]\d|0?[1-9]|{HAN_DIGITS})"
_ALONE: Final = r"(?<![\d一二三四五六七八九十两几毎])"
"""Not the end of a longer number, and not every one."""
_SIGN: Final = "[一二三四五六日天]"
_WEEK: Final = "(?:周|星期|礼拜)"
_DAYS: Final = (
    ("大前天 一昨 さき", r"大前天|一昨々日|さきおととい", -3),
    ("前天 一昨日 おととい", r"前天|一昨日|おととい", -2),
    ("昨 きのう", r"昨[天日晚夜]|きのう", -1),
    ("明 あした", r"明[天日晚早]|あした", 1),
    ("后 あさって", r"后天(?!性)|明后日|あさって", 2),
    ("今 本 きょう", r"[今本]日|今[天晚夜早朝]|きょう(?=[のはにも])", 0),
)


def _fields(year: str | None, month: str | None = None, day: str | None = None) -> spans.NamedDate:
    return named(whole(year), _number(month), _number(day))


def _number(text: str | None) -> int | None:
    return None if text is None else number(text)


def _near_week(m: re.Match[str], today: date) -> Reading:
    on = _ON[m[1]]
    if not m[2]:
        return spans.week(today, on)
    return spans.weekend(today, on) if m[2] == "末" else spans.day_of_week(today, on, weekday(m[2]))


def _of_year(m: re.Match[str], today: date) -> Reading:
    # 前年 is the year before last in both languages where it stands by itself
    on = -2 if m[1] == "前" else _ON[m[1]]
    return named(today.year + on, _number(m[2]), _number(m[3]))


def _of_month(m: re.Match[str], today: date) -> Reading:
    near = spans.month(today, _ON[m[1].removesuffix("个")])
    return named(near.year, near.month, _number(m[2]))


def _quarter(m: re.Match[str], today: date) -> Reading:
    if m[3]:
        return spans.quarter_on(today, _ON[m[3]])
    of_year = number(m[2])
    return spans.quarter(spans.begun(today, whole(m[1]), 3 * of_year - 2), of_year)


def _half_year(m: re.Match[str], today: date) -> Reading:
    first = 1 if m[3] == "上" else 7
    said = today.year + _ON[m[2]] if m[2] else whole(m[1])
    return spans.months(spans.begun(today, said, first), first, 6)


def _months(m: re.Match[str], today: date) -> Reading:
    """``3到5月``: the first month lends the sign of the second."""
    return spans.between(_fields(m[1], m[2]), _fields(None, m[3]), today)


def _ago(m: re.Match[str], today: date) -> Reading:
    if m[1] == "半":
        return spans.ago(today, 6, "month") if m[2] == "年" else spans.ago(today, 15, "day")
    return spans.ago(today, number(m[1]), unit(m[2].removeprefix("个")))


@cache
def rules() -> tuple[Rule, ...]:
    """The table."""
    return rules_of(
        (
            ("年", rf"({YEAR})\s*年\s*({_MONTH})\s*月\s*({_DAY})\s*[日号]", lambda m, _: _fields(m[1], m[2], m[3])),
            ("到 至 ~ 〜 -", rf"(?:({YEAR})年)?{_ALONE}({_MONTH})月?[到至~〜-]({_MONTH})月(?!\d)", _months),
            ("年", rf"({YEAR})\s*年\s*({_MONTH})\s*月", lambda m, _: _fields(m[1], m[2])),
            (
                "季 四半",
                rf"(?:({YEAR})年)?第?([1-4一二三四])(?:季度|四半期)|(上|这|本|下|前|今|来)个?(?:季度|四半期)",
                _quarter,
            ),
            ("半年 半期", rf"(?:({YEAR})年|([去今昨明来])年)?の?([上下])半[年期]", _half_year),
            ("年", rf"(一昨|[前去昨今本明来])年の?(?:({_MONTH})月(?:({_DAY})[日号])?)?(?![度前])", _of_year),
            (
                "月",
                rf"(先々|先|今|再来|来|(?:上上|上一?|这|本|当|下下|下一?)个?)月(?![亮球台])[の的]?(?:({_DAY})[日号])?",
                _of_month,
            ),
            ("周 星期 礼拜", rf"(上上|上一?|这|本|下下|下一?)个?{_WEEK}({_SIGN}|末)?", _near_week),
            ("周", r"(先々|先|今|再来|来)周の?(末|[月火水木金土日](?=曜))?(?:曜日?)?", _near_week),
            ("前", rf"{_ALONE}(半)(年|个月)[以之]?前", _ago),
            ("前", rf"{_ALONE}({HAN_NUMBER})({HAN_UNIT})间?[以之]?前", _ago),
            (
                "最近 过去 近 这 ここ この",
                rf"(?:最近|过去|近|这|ここ|この)[的の]?({HAN_NUMBER})({HAN_UNIT})",
                lambda m, today: spans.within(today, number(m[1]), unit(m[2].removeprefix("个"))),
            ),
            ("月", rf"{_ALONE}({_MONTH})\s*月\s*({_DAY})\s*[日号]", lambda m, _: _fields(None, m[1], m[2])),
            ("月", rf"{_ALONE}({_MONTH})月(?![前间内])", lambda m, _: _fields(None, m[1])),
            ("年", rf"({YEAR})\s*年(?![前间])", lambda m, _: _fields(m[1])),
            *((needs, pattern, partial(day_on, on)) for needs, pattern, on in _DAYS),
            ("周 星期 礼拜", rf"{_ALONE}{_WEEK}({_SIGN})", lambda m, today: spans.some_weekday(today, weekday(m[1]))),
            ("曜", r"(?<!毎周)([月火水木金土日])曜", lambda m, today: spans.some_weekday(today, weekday(m[1]))),
        )
    )
