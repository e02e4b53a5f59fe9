"""How heavy a text is, and where an over-long line may be cut.

Lives here: the token estimate of the chunker and cuts within one line. Not here: what a line means (``blocks``) and how
lines become chunks (``packing``). Called by ``blocks`` and ``packing``.

The estimate: four characters of an alphabetic script are one token; one character of a script without spaces (Han,
kana, Hangul, full-width forms) is one token, and so is an emoji. It needs no tokenizer and is the usual rule of thumb
of hosts (400 tokens are then about 1,600 Latin or 400 CJK characters). Counted in quarter tokens, in integers.
"""

from __future__ import annotations

import re
from typing import Final

import apsw.unicode as unicode_data

QUARTERS: Final = 4
"""Quarter tokens in one token."""

_WIDE: Final = re.compile(
    "[\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U0001f000-\U0003ffff]+"
)
_PLAIN: Final = re.compile("[ -~\u3001\u3002\u3041-\u3096\u30a1-\u30fa\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3]")
"""Between two of these there is always a grapheme boundary (UAX #29: none of them extends, prepends or joins)."""
_SENTENCE_END: Final = re.compile(r"[.!?;][\"')\]]*[ \t]+|[。！？；]+[」』”’）]*")
_SPACE: Final = re.compile(r"[ \t]+")


def weight(text: str) -> int:
    """Estimated tokens of ``text`` in quarter tokens."""
    if text.isascii():
        return len(text)
    return len(text) + (QUARTERS - 1) * sum(len(run) for run in _WIDE.findall(text))


def cut_line(line: str, start: int, end: int, size: int, hard: int) -> list[tuple[int, int]]:
    """Cut ``line[start:end]`` into consecutive pieces of about ``size`` quarter tokens, none over ``hard``.

    Cuts come after a sentence if one ends in the second half of a piece, else after white space, else between two
    graphemes. A single grapheme heavier than ``hard`` (hundreds of combining marks: no written language has it) is the
    one thing that is cut inside, because a limit that a hostile file can lift is no limit.
    """
    pieces: list[tuple[int, int]] = []
    position = start
    while position < end:
        reach = _reach(line, position, end, size)
        stop = reach
        if reach < end:
            wanted = _good_place(line, position, reach)
            stop = _boundary_at_or_before(line, position, wanted)
            if stop == position:
                stop = _whole_grapheme(line, position, end, hard)
        pieces.append((position, stop))
        position = stop
    return pieces


def _reach(line: str, start: int, end: int, size: int) -> int:
    """The largest position whose distance from ``start`` weighs at most ``size``; at least one code point on."""
    part = line[start : min(end, start + size)]
    if part.isascii():
        return start + len(part)
    used = 0
    for index, character in enumerate(part):
        used += QUARTERS if _WIDE.match(character) else 1
        if used > size:
            return start + max(1, index)
    return start + len(part)


def _good_place(line: str, start: int, reach: int) -> int:
    """Where a reader would cut between ``start`` and ``reach``."""
    middle = start + (reach - start) // 2
    place = 0
    for match in _SENTENCE_END.finditer(line, middle, reach):
        place = match.end()
    if place > start:
        return place
    for match in _SPACE.finditer(line, start, reach):
        place = match.end()
    return place if place > start else reach


def _boundary_at_or_before(line: str, known: int, wanted: int) -> int:
    """The last grapheme boundary at or before ``wanted``; ``known`` is a boundary before it."""
    if wanted >= len(line) or (_PLAIN.match(line, wanted - 1) and _PLAIN.match(line, wanted)):
        return wanted
    position = wanted
    while position > known and not (_PLAIN.match(line, position - 1) and _PLAIN.match(line, position)):
        position -= 1
    while True:
        following = unicode_data.grapheme_next_break(line, position)
        if following > wanted or following <= position:
            return position
        position = following


def _whole_grapheme(line: str, start: int, end: int, hard: int) -> int:
    """The end of the grapheme at ``start``, or of as much of it as weighs ``hard``."""
    following = min(end, unicode_data.grapheme_next_break(line, start))
    if weight(line[start:following]) <= hard:
        return following
    return _reach(line, start, following, hard)
