"""Which script a text is mostly written in, as far as it matters to an embedding model. Called by ``fusion``."""

from __future__ import annotations

import unicodedata
from typing import Final, Literal

Script = Literal["latin", "cjk", "other"]

_CJK: Final = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "HALFWIDTH KATAKANA", "IDEOGRAPHIC")
_LOOKED_AT: Final = 2_000
"""Letters that decide; a longer text is of the same script."""


def script_of(text: str) -> Script:
    """``cjk`` where a Chinese, Japanese or Korean character stands (few of them say as much as many Latin letters),
    ``other`` where most letters are of neither, else ``latin``: also for numbers and identifiers."""
    latin = other = 0
    for letter in filter(str.isalpha, text[: 4 * _LOOKED_AT]):
        if letter.isascii():
            latin += 1
        else:
            name = unicodedata.name(letter, "")
            if name.startswith(_CJK):
                return "cjk"
            if name.startswith(("LATIN", "FULLWIDTH LATIN")):
                latin += 1
            else:
                other += 1
        if latin + other >= _LOOKED_AT:
            break
    return "other" if other > latin else "latin"
