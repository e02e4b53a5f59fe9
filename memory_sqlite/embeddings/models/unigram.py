"""Unigram pieces: the tokens of a SentencePiece model, most probable cut first.

Text is mapped character by character as the model says, and each word, with the mark that stands for the space before
it, is cut into the pieces whose scores add up highest (Kudo, "Subword Regularization",
2018, section 3.2: the Viterbi path). No piece of the vocabularies used here reaches over a space, so words are cut each
by itself, and remembered. Called by ``e5``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

SPACE: Final = "\u2581"
_CACHE_MAX: Final = 50_000
_CACHED_CHARS_MAX: Final = 24
"""A longer run is a sentence without spaces, which does not come back."""
_UNKNOWN_COST: Final = 10.0
"""An unknown character scores so much less than the rarest piece, as in SentencePiece."""


class Unigram:
    """Pieces with their scores and numbers, and the cutting with them."""

    def __init__(
        self, pieces: Mapping[str, int], scores: Sequence[float], unknown: int, mapped: Mapping[int, str]
    ) -> None:
        """``scores`` are by the pieces' numbers; ``mapped`` is what single characters, by code point, become first."""
        self._pieces = pieces
        self._scores = scores
        self._unknown = unknown
        self._mapped = dict(mapped)
        self._longest = max(map(len, pieces))
        self._unknown_score = min(scores) - _UNKNOWN_COST
        self._known: dict[str, tuple[int, ...]] = {}

    def ids(self, text: str) -> list[int]:
        """The numbers of a text's pieces, without the marks at its beginning and end."""
        found: list[int] = []
        for word in text.translate(self._mapped).split():
            found += self._cut(SPACE + word)
        return found

    def _cut(self, word: str) -> tuple[int, ...]:
        known = self._known.get(word)
        if known is None:
            known = self._best(word)
            if len(word) <= _CACHED_CHARS_MAX:
                if len(self._known) >= _CACHE_MAX:
                    self._known.clear()
                self._known[word] = known
        return known

    def _best(self, word: str) -> tuple[int, ...]:
        size, pieces, longest, worth = len(word), self._pieces, self._longest, self._scores
        scores = [0.0] + [float("-inf")] * size
        came: list[tuple[int, int]] = [(0, 0)] * (size + 1)
        for start in range(size):
            here = scores[start]
            for end in range(start + 1, min(size, start + longest) + 1):
                piece = pieces.get(word[start:end])
                if piece is not None:
                    score = here + worth[piece]
                    if score > scores[end]:
                        scores[end], came[end] = score, (start, piece)
            unknown = here + self._unknown_score
            if unknown > scores[start + 1]:
                scores[start + 1], came[start + 1] = unknown, (start, self._unknown)
        found = []
        end = size
        while end > 0:
            end, number = came[end]
            found.append(number)
        return tuple(reversed(found))
