"""WordPiece: the tokens of a BERT model that knows no case.

Text is cleaned (control characters out, white space to spaces), CJK ideographs stand alone, letters lose case and
accents, words and punctuation marks part, and each word is cut into the longest pieces the vocabulary has, from the
left (Wu et al., "Google's Neural Machine Translation System", 2016, section 4.1; the rules of the cut before that are
those of BERT's published tokenizer). Called by ``minilm``.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Final

_WORD_MAX: Final = 100
"""A longer word is unknown, as in BERT's own tokenizer."""
_CACHE_MAX: Final = 50_000
_IDEOGRAPHS: Final = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip
_ASCII_MARKS: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


class WordPiece:
    """A vocabulary and the cutting with it."""

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        self._vocabulary = vocabulary
        self._unknown = vocabulary["[UNK]"]
        self._known: dict[str, tuple[int, ...]] = {}
        self._marks: dict[str, str] = {}

    def ids(self, text: str) -> list[int]:
        """The numbers of a text's pieces, without the marks at its beginning and end."""
        found: list[int] = []
        for word in self._spread(text).split():
            pieces = self._known.get(word)
            if pieces is None:
                if len(self._known) >= _CACHE_MAX:
                    self._known.clear()
                pieces = self._known[word] = self._cut(word)
            found += pieces
        return found

    def _spread(self, text: str) -> str:
        """The text in lower case with a space wherever a word ends."""
        if not text.isascii():
            text = "".join([self._cleaned(character) for character in text])
            text = unicodedata.normalize("NFD", text)
            text = "".join([character for character in text if unicodedata.category(character) != "Mn"])
        # one character at a time: the final sigma of a word has no form of its own in the vocabulary's making
        return "".join([self._spaced(character) for character in text])

    def _cleaned(self, character: str) -> str:
        if character in "\0\ufffd":
            return ""
        point = ord(character)
        if any(low <= point <= high for low, high in _IDEOGRAPHS):
            return f" {character} "
        return character

    def _spaced(self, character: str) -> str:
        known = self._marks.get(character)
        if known is None:
            if len(self._marks) >= _CACHE_MAX:
                self._marks.clear()
            known = self._marks[character] = _spaced(character)
        return known

    def _cut(self, word: str) -> tuple[int, ...]:
        if len(word) > _WORD_MAX:
            return (self._unknown,)
        pieces = []
        start = 0
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = self._vocabulary.get(word[start:end] if start == 0 else f"##{word[start:end]}")
                if piece is not None:
                    break
            else:
                return (self._unknown,)
            pieces.append(piece)
            start = end
        return tuple(pieces)


def _spaced(character: str) -> str:
    """What one character becomes: nothing, a space, itself in lower case, or that between spaces."""
    category = unicodedata.category(character)
    if character in "\t\n\r" or category.startswith("Z"):
        return " "
    if category.startswith("C") or character == "\ufffd":
        return ""
    if character in _ASCII_MARKS or category.startswith("P"):
        return f" {character} "
    return character.lower()
