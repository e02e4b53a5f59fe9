"""Normal forms for text and query: compatibility forms, accents, invisible characters, Han variants.

Lives here: what makes two spellings the same string: ``fold`` for letters and marks, ``search_form`` for these and Han
characters, which is what is indexed and asked. Not here: where words begin and end (``tokens``), the table of Han
variants (``han_variants``). The locale of the process is never asked. Case is kept, because the borders inside
``camelCase`` need it; ``tokens`` folds it last. Called by ``tokens``, ``query``, ``marks`` and ``assemble``; ``fold``
also by ``recall``, whose patterns are written in the characters of each language.
"""

from __future__ import annotations

import unicodedata
from functools import cache

_DROPPED = frozenset("\u00ad\u034f\u061c\u0640\u180e\u200b\u200c\u200d\u200e\u200f\u2060\ufe0e\ufe0f\ufeff")
"""Soft hyphen, joiners, direction marks, Arabic tatweel, variation selectors: they change looks and never the word."""

_PLAIN = {
    "\u2018": "'", "\u2019": "'", "\u02bc": "'", "\u201b": "'", "\u2032": "'", "\u00b4": "'", "`": " ",
    "\u2010": "-", "\u2011": "-", "\u2212": "-", "\ufe63": "-",
    "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ħ": "h", "Ħ": "H", "ı": "i", "ð": "d", "Ð": "D",
    "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "þ": "th", "Þ": "TH",
}  # fmt: skip
"""Letters that Unicode does not decompose but keyboards without them spell this way."""


def _is_accent(character: str) -> bool:
    # 10 to 36 are Hebrew and Arabic points, 200 and up the accents of alphabets; kana voicing marks (8), viramas (9)
    # and Thai tones (above 100) make another letter and stay
    combining = unicodedata.combining(character)
    return combining >= 200 or 10 <= combining <= 36


class _Fold(dict[int, str]):
    """A ``str.translate`` table that works each character out once."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        folded = character
        if character in _DROPPED or 0xD800 <= code <= 0xDFFF or _is_accent(character):
            folded = ""
        elif character in _PLAIN:
            folded = _PLAIN[character]
        elif code > 0x7F and not 0xAC00 <= code <= 0xD7A3:
            parts = unicodedata.normalize("NFD", character)
            if len(parts) > 1 and any(_is_accent(part) for part in parts[1:]):
                kept = "".join(part for part in parts if not _is_accent(part))
                folded = _PLAIN.get(kept, kept)
        self[code] = folded
        return folded


class _SearchFold(_Fold):
    """The same table, in which one Han character of a class stands for all of them."""

    def __missing__(self, code: int) -> str:
        if not (0x3400 <= code <= 0x9FFF or 0x20000 <= code <= 0x3FFFF):
            return super().__missing__(code)
        folded = self[code] = _han().get(code) or chr(code)
        return folded


@cache
def _han() -> dict[int, str]:
    """Read when the first Han character is met: 1.5 ms that all other text and queries save."""
    from memory_sqlite.search import han_variants

    return han_variants.table()


_FOLD = _Fold()
_SEARCH_FOLD = _SearchFold()


def fold(text: str) -> str:
    """NFKC without accents and invisible characters; case kept. ASCII text comes back as it is."""
    return text if text.isascii() else _through(text, _FOLD)


def search_form(text: str) -> str:
    """``fold``, and simplified, traditional and regional Han characters as one: ``數據庫`` is ``数据库``.

    One character stays one character. A simplified character that stands for several others (``后`` for ``後``,
    ``发`` for ``發`` and ``髮``, ``干`` for ``乾`` and ``幹``) is one with all of them: some precision lost, no text.
    """
    return text if text.isascii() else _through(text, _SEARCH_FOLD)


def _through(text: str, table: _Fold) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKC", text).translate(table))
