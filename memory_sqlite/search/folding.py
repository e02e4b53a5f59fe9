"""One normal form for text and query: compatibility forms, accents, invisible characters, apostrophes and hyphens.

Lives here: what makes two spellings the same string. Not here: where words begin and end (``tokens``). The locale of
the process is never asked. Case is kept, because the borders inside ``camelCase`` need it; ``tokens`` folds it last.
Called by ``tokens`` and ``excerpt``.
"""

from __future__ import annotations

import unicodedata

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


_FOLD = _Fold()


def fold(text: str) -> str:
    """NFKC without accents and invisible characters; case kept. ASCII text comes back as it is."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKC", text).translate(_FOLD))
