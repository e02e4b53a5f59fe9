"""Lengths and cuts: UTF-16 units, UTF-8 bytes, graphemes. Who calls it: layers, recall, search, transcripts."""

from __future__ import annotations

import apsw.unicode as unicode_data


def utf16_length(text: str) -> int:
    """Length in UTF-16 code units, the unit of the layered-memory product's limits."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def utf16_cut(text: str, units: int) -> str:
    """The first ``units`` UTF-16 units exactly as JavaScript's ``slice`` gives them.

    May end in a lone surrogate when an astral character is split: only compatible mode calls it.
    """
    if len(text) * 2 <= units or utf16_length(text) <= units:
        return text
    return text.encode("utf-16-le", "surrogatepass")[: units * 2].decode("utf-16-le", "surrogatepass")


def valid_unicode(text: str) -> str:
    """Replace lone surrogates, which no UTF-8 file can hold, by U+FFFD."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # surrogate pairs that arrived as two escapes are joined first, so that no emoji is lost
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _last_boundary(text: str, at: int) -> int:
    """The last grapheme boundary at or before code point ``at``."""
    # a grapheme is rarely longer than 32 code points; start a little before and walk forward
    start = max(0, at - 64)
    position = start
    while True:
        following = unicode_data.grapheme_next_break(text, position)
        if following > at or following <= position:
            return position
        position = following
        if position == at:
            return position


def cut_code_points(text: str, count: int) -> str:
    """At most ``count`` code points, never splitting a grapheme."""
    if len(text) <= count:
        return text
    return text[: _last_boundary(text, max(0, count))]


def cut_utf16(text: str, units: int) -> str:
    """At most ``units`` UTF-16 units, never splitting a grapheme."""
    if utf16_length(text) <= units:
        return text
    used = 0
    for index, character in enumerate(text):
        used += 2 if ord(character) > 0xFFFF else 1
        if used > units:
            return text[: _last_boundary(text, index)]
    return text


def cut_utf8(text: str, size: int) -> str:
    """At most ``size`` UTF-8 bytes, never splitting a grapheme."""
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded) <= size:
        return text
    whole = encoded[: max(0, size)].decode("utf-8", "ignore")
    return text[: _last_boundary(text, len(whole))]


def utf8_length(text: str) -> int:
    """Length in UTF-8 bytes."""
    return len(text.encode("utf-8", "surrogatepass"))
