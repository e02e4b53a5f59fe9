"""The words that dates are made of: numbers, months, weekdays and units in English, Chinese, Japanese and Korean.

Lives here: pieces of patterns and what they mean. All Han characters are in their search form (``folding``), so 週 is
周 and 個 is 个. Not here: the shapes of dates (``date_shapes``, ``date_phrases`` and those of
other languages), their only callers.
"""

from __future__ import annotations

from typing import Final

MONTHS: Final = "jan feb mar apr may jun jul aug sep oct nov dec"
MONTH: Final = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
YEAR: Final = r"(?:19|20)\d\d"
DAY: Final = r"(?:3[01]|[12]\d|0?[1-9])"

WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
WEEKDAY: Final = "(?:" + "|".join(WEEKDAYS) + ")"
_DAY_SIGNS: Final = {
    **dict(zip("一二三四五六日", range(7), strict=True)), "天": 6,
    **dict(zip("月火水木金土", range(6), strict=True)),
    **dict(zip("월화수목금토일", range(7), strict=True)),
}  # fmt: skip

NUMBER: Final = (
    r"(?:\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:a )?couple(?: of)?"
    r"|(?:a )?few|several)"
)
UNIT: Final = r"(?:day|week|fortnight|month|quarter|year)"
HAN_DIGITS: Final = r"(?:二?十[一二三四五六七八九]?|三十一?|[一二两三四五六七八九])"
HAN_NUMBER: Final = rf"(?:\d{{1,3}}|{HAN_DIGITS}|几|数)"
HAN_UNIT: Final = r"(?:天|日|个?周|个?星期|个?礼拜|(?:个|か|ヶ|カ|ヵ|ケ)月|年)"
HANGUL_NUMBER: Final = r"(?:\d{1,3}|한|두|세|네|다섯|여섯|일곱|여덟|아홉|열|몇|일|이|삼|사|오|육|칠|팔|구|십)"
HANGUL_UNIT: Final = r"(?:일|주일?|개월|달|년|해)"

_NUMBERS: Final = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "couple": 2, "few": 3, "several": 3, "几": 3, "数": 3, "몇": 3,
    "한": 1, "두": 2, "세": 3, "네": 4, "다섯": 5, "여섯": 6, "일곱": 7, "여덟": 8, "아홉": 9, "열": 10,
    "일": 1, "이": 2, "삼": 3, "사": 4, "오": 5, "육": 6, "칠": 7, "팔": 8, "구": 9, "십": 10,
    **dict(zip("一二三四五六七八九", range(1, 10), strict=True)), "两": 2,
}  # fmt: skip
"""A few is three: what it means is widened by the span around it anyway."""


def number(text: str) -> int:
    """A number that one of the patterns here has matched."""
    if text.isdecimal():
        return int(text)
    if "十" in text:
        tens, _, ones = text.partition("十")
        return 10 * (_NUMBERS[tens] if tens else 1) + (_NUMBERS[ones] if ones else 0)
    word = text.casefold().removeprefix("a ").removesuffix(" of")
    return _NUMBERS[word or "a"]


def month(name: str) -> int:
    """The number of an English month, short or whole."""
    return MONTHS.index(name[:3].casefold()) // 4 + 1


def weekday(name: str) -> int:
    """A weekday as ``date.weekday`` counts: an English name, or the sign of one in Chinese, Japanese or Korean."""
    return WEEKDAYS.index(name.casefold()) if name.isascii() else _DAY_SIGNS[name[0]]


def unit(name: str) -> str:
    """``day``, ``week``, ``fortnight``, ``month``, ``quarter`` or ``year``."""
    if name.isascii():
        return name.casefold()
    if name.endswith(("月", "개월", "달")):
        return "month"
    if name in ("年", "년", "해"):
        return "year"
    return "day" if name in ("天", "日", "일") else "week"
