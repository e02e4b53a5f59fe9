"""Sentences of a message: which of them ask, which of them tell.

Lives here: the split that keeps a question from being taken for its answer. Not here: tokens. Called by
``indexing.rows`` for messages, and by ``excerpt`` for good places to cut.
"""

from __future__ import annotations

import re
from typing import Final

_SENTENCE: Final = re.compile(
    r"[^.!?。！？\n]*(?:[.!?。！？]+(?=\s|$|[\"'”’)\]」』])[\"'”’)\]」』]*|[。！？]+|\n|[.!?]+|$)"
)
_ASKS: Final = re.compile(r"[?？][\"'”’)\]」』!！]*\s*$")

_TIME_WORD: Final = re.compile(
    r"\b(?:yesterday|today|tonight|tomorrow|ago|last|next|this (?:morning|week|month|year|summer|winter|spring|fall)"
    r"|since|recently|just|week(?:end)?s?|months?|years?|days?|monday|tuesday|wednesday|thursday|friday|saturday|sunday"
    r"|january|february|march|april|june|july|august|september|october|november|december|(?:19|20)\d\d)\b"
    r"|[昨今明前后後]天|昨日|今日|明日|去年|今年|明年|[上下先来來][周週]|星期|月|어제|오늘|내일|지난",
    re.I,
)
ENDS_IN_QUESTION: Final = 1
HAS_TIME_WORD: Final = 2
"""Bits of ``chunks.flags``; part of the format of a generation."""


def sentences(text: str) -> list[tuple[int, int]]:
    """Offsets of the sentences of ``text``, half open, without gaps."""
    spans: list[tuple[int, int]] = []
    start = 0
    for match in _SENTENCE.finditer(text):
        end = match.end()
        # a stop inside a word or a number ("cursor.ts", "3.5", "?b=1") ends nothing
        if end < len(text) and end > 0 and text[end - 1] in ".!?" and not text[end].isspace():
            continue
        if end > start:
            spans.append((start, end))
            start = end
    if start < len(text):
        spans.append((start, len(text)))
    return spans


def split_questions(text: str) -> tuple[str, str]:
    """``(statements, questions)``: the sentences that end in a question mark apart from all others."""
    if "?" not in text and "？" not in text:
        return text, ""
    told: list[str] = []
    asked: list[str] = []
    for start, end in sentences(text):
        sentence = text[start:end]
        (asked if _ASKS.search(sentence) else told).append(sentence)
    return " ".join(told), " ".join(asked)


def message_flags(text: str) -> int:
    """What ranking asks about a message, as bits: ``ENDS_IN_QUESTION``, ``HAS_TIME_WORD``."""
    flags = ENDS_IN_QUESTION if _ASKS.search(text) is not None else 0
    return flags | HAS_TIME_WORD if _TIME_WORD.search(text) is not None else flags
