"""Whether words name a fact: a whole name or alias stands in them, word for word, with one slip of the keys allowed.

A name is never matched in part ("composition" is not "composition over inheritance") and never by what a fact says of
itself, so that what is not named does not come. One edit (a letter more, less, other, or two swapped) is allowed on a
word that neither the facts nor everyday speech know; its first two letters must be right, and a letter more at the end
is another word. Designed on the given half of PrecisionMemBench, see docs/searching.md. Pure. Called by ``facts``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final

from memory_sqlite.recall.common_words import COMMON, EMPTY
from memory_sqlite.search.folding import search_form
from memory_sqlite.search.stop_words import ENGLISH
from memory_sqlite.search.tokens import groups
from memory_sqlite.search.vocabulary import distance

_PART: Final = re.compile(r"[^\W_]+(?:\+\+|#)?")
_ASCII_PART: Final = re.compile(r"[a-z0-9]+(?:\+\+|#)?")
_PLURAL_ENDS: Final = ("ss", "us", "is")
_SHORTEST_PLURAL: Final = 4
_TYPED_MIN: Final = 4
"""Letters of a word that may be a slip,"""
_MEANT_MIN: Final = 5
"""and of the word that was meant: short words have too many neighbours (pipe, pine, wipe)."""
_SURE: Final = 2
"""Letters at the beginning that are taken to be right: mango is not mongo."""
_NAMES_KEPT: Final = 16_384

Phrase = tuple[str, ...]


def words_of(text: str) -> Phrase:
    """Words in their order, folded, without plural s; identifiers in parts, unspaced scripts character by character, so
    that a name in them is found as a substring."""
    if text.isascii():
        return tuple([_singular(part) for part in _ASCII_PART.findall(text.lower())])
    found: list[str] = []
    for group in groups(search_form(text)):
        if group.kind in ("cjk", "symbol"):
            found += group.raw
        else:
            found += [_singular(part.casefold()) for part in _PART.findall(group.raw)]
    return tuple(found)


name_of = lru_cache(maxsize=_NAMES_KEPT)(words_of)
"""The words of a name; names stay the same from question to question."""


def _singular(word: str) -> str:
    if word[-1] != "s" or len(word) < _SHORTEST_PLURAL or word.endswith(_PLURAL_ENDS) or not word.isalpha():
        return word
    return word[:-1]


_EVERYDAY: Final = frozenset(map(_singular, COMMON | EMPTY | ENGLISH))


def is_everyday(phrase: Phrase) -> bool:
    """Whether a phrase is one word of everyday speech, which names nothing."""
    return len(phrase) == 1 and phrase[0] in _EVERYDAY


class Naming:
    """The words of one question, against names."""

    def __init__(self, words: str, names: Iterable[Phrase], is_known: Callable[[str], bool]) -> None:
        """``names`` are all there are: their words are no slips. ``is_known`` tells of other words that the facts hold;
        it is asked of the few that could be a slip."""
        said = words_of(words)
        vocabulary = {word for name in names for word in name}
        self._places: dict[str, set[int]] = {}
        for place, word in enumerate(said):
            self._places.setdefault(word, set()).add(place)
        unknown = [w for w in set(said) - vocabulary - _EVERYDAY if len(w) >= _TYPED_MIN and w.isalpha()]
        near: dict[str, list[str]] = {word[:_SURE]: [] for word in unknown}
        for word in vocabulary:
            if word[:_SURE] in near:
                near[word[:_SURE]].append(word)
        for word in unknown:
            meant = [other for other in near[word[:_SURE]] if is_slip(word, other)]
            if meant and not is_known(word):
                for other in meant:
                    self._places.setdefault(other, set()).update(self._places[word])

    def holds(self, name: Phrase) -> bool:
        """Whether the name stands in the words, whole and in its order."""
        if not name or name[0] not in self._places:
            return False
        ways = [self._places.get(word, set()) for word in name]
        return any(all(place + further in ways[further] for further in range(1, len(name))) for place in ways[0])


def is_slip(said: str, meant: str) -> bool:
    """Whether one word may be the other with one slip of the keys."""
    if said[:_SURE] != meant[:_SURE] or len(meant) < _MEANT_MIN or abs(len(said) - len(meant)) > 1:
        return False
    if said.startswith(meant) or not meant.isalpha():  # composer is not compose
        return False
    return distance(said, meant, 1) == 1
