"""Keywords and relevance of the layered-memory product: what compatible mode indexes and ranks by.

Exactly the rules of that product (lengths and bigrams in UTF-16 units, lower case without folding, at most 64 words).
The standard mode's index has its own tokens (``search``); it only borrows ``keywords`` as the record's field of that
name. Called by ``layers.compatible``, ``layers.extract`` and the compatible manager face.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

MAX_KEYWORDS: Final = 64
VERBATIM_BONUS: Final = 0.15

# Script=Han of Unicode 17 (Scripts.txt). Kept as numbers because Python's own tables are older in most versions.
_HAN_RANGES: Final = (
    *((0x2E80, 0x2E99), (0x2E9B, 0x2EF3), (0x2F00, 0x2FD5), (0x3005, 0x3005), (0x3007, 0x3007), (0x3021, 0x3029)),
    *((0x3038, 0x303B), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFA6D), (0xFA70, 0xFAD9), (0x16FE2, 0x16FE3)),
    *((0x16FF0, 0x16FF6), (0x20000, 0x2A6DF), (0x2A700, 0x2B81D), (0x2B820, 0x2CEAD), (0x2CEB0, 0x2EBE0)),
    *((0x2EBF0, 0x2EE5D), (0x2F800, 0x2FA1D), (0x30000, 0x3134A), (0x31350, 0x33479)),
)
HAN: Final = "".join(f"{chr(first)}-{chr(last)}" for first, last in _HAN_RANGES)
"""Inside of a regular expression's character class that matches Script=Han."""

# ``[^\W_]`` is Letter or Number in Python's re; marks, underscore and symbols are neither, as the product has it
_WORD: Final = re.compile(rf"(?:[^\W_]|[{HAN}])+")
_ASTRAL: Final = re.compile("[\U00010000-\U0010ffff]")
_HAN_RUN: Final = re.compile(rf"[{HAN}]{{3,}}")

# what JavaScript's trim removes: WhiteSpace and LineTerminator, not U+001C to U+001F and U+0085 as Python's strip
JS_WHITESPACE: Final = "\t\n\v\f\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
"""Inside of a regular expression's character class that matches what JavaScript calls white space."""
_JS_STRIP: Final = (
    "\t\n\v\f\r \xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000\ufeff"
)


def js_trim(text: str) -> str:
    """``text`` without leading and trailing white space as JavaScript's ``trim`` defines it."""
    return text.strip(_JS_STRIP)


def joined_surrogates(text: str) -> str:
    """``text`` with surrogate pairs that arrived as two code points made one; lone surrogates stay."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text


def _surrogates(match: re.Match[str]) -> str:
    number = ord(match.group()) - 0x10000
    return chr(0xD800 + (number >> 10)) + chr(0xDC00 + (number & 0x3FF))


def utf16_units(text: str) -> str:
    """``text`` with every astral character as its two surrogates, so that ``in`` and slices count UTF-16 units."""
    return text if text.isascii() else _ASTRAL.sub(_surrogates, text)


def _bigrams(run: str) -> Iterator[str]:
    units = utf16_units(run)
    for index in range(len(units) - 1):
        yield joined_surrogates(units[index : index + 2])


def keywords(text: str) -> list[str]:
    """At most 64 distinct keywords of ``text``: whole words first, then the bigrams of Han runs of three or more.

    A word is a maximal run of letters, numbers and Han characters of at least two UTF-16 units. A bigram of an astral
    character holds lone surrogates, as in the product's own files; write it with ``surrogatepass`` or escapes.
    Source: behaviour of the layered-memory product, section 4.1 of its reference.
    """
    lowered = joined_surrogates(text).lower()
    found: dict[str, None] = {}
    for match in _WORD.finditer(lowered):
        word = match.group()
        if len(word) >= 2 or word > "\uffff":
            found[word] = None
            if len(found) == MAX_KEYWORDS:
                return list(found)
    for match in _HAN_RUN.finditer(lowered):
        for pair in _bigrams(match.group()):
            found[pair] = None
            if len(found) == MAX_KEYWORDS:
                return list(found)
    return list(found)


def scorer(query: str) -> Callable[[str, Sequence[str]], float]:
    """``score`` with the query worked out once, for scoring many records: a function of content and its keywords."""
    wanted = [utf16_units(word) for word in keywords(query)]
    verbatim = utf16_units(js_trim(query).lower())

    def relevance(content: str, content_keywords: Sequence[str]) -> float:
        if not wanted:
            return 0.0
        lowered = utf16_units(content.lower())
        haystack = lowered + " " + utf16_units(" ".join(content_keywords).lower())
        share = sum(1 for word in wanted if word in haystack) / len(wanted)
        return min(1.0, share + (VERBATIM_BONUS if verbatim in lowered else 0.0))

    return relevance


def score(query: str, content: str, content_keywords: Sequence[str]) -> float:
    """Relevance in 0 to 1 of a record for ``query``: the share of its keywords that occur, and 0.15 if verbatim.

    Plain substrings, no word boundaries. Source: section 4.2 of the layered-memory reference.
    """
    return scorer(query)(content, content_keywords)
