"""The terms of a person's words, each with its weight, and which of them a text holds.

Lives here: what a word, a number, an identifier or a pair of characters is worth, and when what is shared is enough;
the constants are measured. Not here: which hits are judged and what is a copy (``relevance``, the only caller), the
lists of everyday words (``common_words``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from memory_sqlite.recall.common_words import COMMON, EMPTY
from memory_sqlite.search.folding import fold
from memory_sqlite.search.query import Term, understand
from memory_sqlite.search.stop_words import CJK
from memory_sqlite.search.tokens import tokenise
from memory_sqlite.values import dataclass

ENOUGH: Final = 1.0
"""One rare word. Below it lies one everyday word (0.4) and two of them in a longer sentence (0.8)."""
ENOUGH_OF_A_PAGE: Final = 3.0
"""What even a pasted page need not exceed; an identifier alone is worth it."""
NAME_WEIGHT: Final = 2.0
"""A capital inside a sentence: people ask about Ana in many words, and what is known of her is about her."""
SHARE: Final = 0.3
"""Of what the words could reach. LoCoMo, two conversations as memories: questions about other people's lives that
recall something fell from 68 to 27 of 134, own questions that recall their evidence from 33 to 31 of 65. On two more,
looked at once and afterwards: 15 of 137 and 25 of 60."""
PAIR_SHARE: Final = 0.5
"""Han characters come in overlapping pairs, twice as many as words."""
COMMON_WEIGHT: Final = 0.4
DATE_WEIGHT: Final = 0.6
KANA_WEIGHT: Final = 0.5
"""A pair of katakana is half a word: ``ーム`` is in game and team, so that two of them must be shared."""
COMMON_SHARE: Final = 0.05
COUNTED_ROWS: Final = 200
"""From this many rows on the index's own counts tell which words are everyday ones for this agent."""
_DIGITS: Final = 4
"""Shorter numbers are hours, prices and list items."""
_MEASURE: Final = re.compile(r"\d+(?:[:.,/-]\d+)?(?:am|pm|h|min|s|ms|st|nd|rd|th|k|m|km|cm|mm|kg|g|gb|mb|kb|%|x)?")
"""``5pm``, ``10:30``, ``2nd``, ``16gb``: an identifier to the tokenizer, an everyday word to a person."""
_DAY: Final = re.compile(r"(?:19|20)\d\d[-/.]\d{1,2}(?:[-/.]\d{1,2})?")
_PIECES: Final = frozenset({"character", "part", "run", "prefix"})
"""Kinds of terms that are counted by the term they are a piece of."""
_KATAKANA: Final = re.compile("[\u30a0-\u30ff]+")
_SPEECH: Final = frozenset("我你您他她它们的了吗呢吧啊呀嘛请帮想是这那哪谁么们")
_HIRAGANA: Final = re.compile("[\u3041-\u309f]+")
_NAME: Final = re.compile(r"(?<![.!?:;\n\u3002\uff01\uff1f])[ \t(]([^\W\d_]\w+)")


class Words(Protocol):
    """What is known about words: FTS5's stemmer and the counts of one generation."""

    def stem(self, token: str) -> str: ...

    def share(self, token: str) -> float:
        """In which part of the rows a token occurs, 0 while there are too few rows to tell."""


@dataclass(frozen=True, slots=True)
class _Weighed:
    probes: tuple[tuple[str, ...], ...]
    evidence: float
    weight: float
    is_said: bool
    """False for another spelling of what was said, as a day is of a date."""


class Terms:
    """The terms of the words, weighed."""

    def __init__(self, words: str, known: Words, now_ms: int, zone: str = "UTC") -> None:
        self._known = known
        self._sequence = [known.stem(token) for token in tokenise(words)]
        self._whole = frozenset(_KATAKANA.findall(fold(words)))
        self._names = _names(words)
        weighed: dict[tuple[str, ...], _Weighed] = {}
        for term in understand(words, now_ms=now_ms, zone=zone).terms:
            if term.kind in _PIECES:
                continue
            weight = self._weight(term)
            new = _Weighed(
                tuple(tuple(known.stem(token) for token in probe) for probe in term.probes),
                self._evidence(term, weight),
                weight * (PAIR_SHARE if term.kind == "cjk" else 1.0),
                term.kind != "date",
            )
            old = weighed.get(new.probes[0])
            if old is None or old.evidence < new.evidence:
                weighed[new.probes[0]] = new
        self._terms = list(weighed.values())
        self._said = frozenset(number for number, term in enumerate(self._terms) if term.is_said)
        self._enough = min(max(ENOUGH, SHARE * sum(term.weight for term in self._terms)), ENOUGH_OF_A_PAGE)

    def _evidence(self, term: Term, weight: float) -> float:
        """What sharing a term is worth, beside what it adds to the words' weight."""
        if weight < ENOUGH:
            return weight
        if term.kind in ("identifier", "number", "phrase"):
            return ENOUGH_OF_A_PAGE
        return NAME_WEIGHT if term.probes[0][0] in self._names else weight

    def _weight(self, term: Term) -> float:
        token = term.probes[0][0]
        if term.kind == "date" or _DAY.fullmatch(token):
            return DATE_WEIGHT
        if term.kind == "symbol":
            return COMMON_WEIGHT
        if term.kind == "number":
            return _weight_of_number(token)
        if term.kind == "phrase":
            return ENOUGH
        if term.kind == "identifier":
            return COMMON_WEIGHT if _MEASURE.fullmatch(token) else ENOUGH
        if self._is_in(EMPTY, token) or (term.kind == "cjk" and _is_grammar(token)):
            return 0.0
        if self._is_in(COMMON, token) or self._known.share(token) > COMMON_SHARE:
            return COMMON_WEIGHT
        is_half = _KATAKANA.fullmatch(token) is not None and token not in self._whole
        return KANA_WEIGHT if is_half else ENOUGH

    def _is_in(self, words: frozenset[str], token: str) -> bool:
        return token in words or self._known.stem(token) in words

    def shared_with(self, shown: Iterable[str]) -> frozenset[int]:
        """Which terms the fields that are shown of a hit hold, by number."""
        text = _Text([[self._known.stem(token) for token in tokenise(field)] for field in shown if field])
        return frozenset(
            number for number, term in enumerate(self._terms) if any(text.holds(probe) for probe in term.probes)
        )

    def are_enough(self, shared: frozenset[int]) -> bool:
        """Whether these terms make a text relevant."""
        evidence = sum(self._terms[number].evidence for number in shared)
        # sums of 0.4 and 0.6 are not exact
        return evidence + 1e-9 >= self._enough or (evidence > 0.0 and len(self._said) >= 2 and self._said <= shared)

    def hold_one_of(self, triggers: Iterable[str]) -> bool:
        """Whether a whole trigger phrase stands in the words."""
        text = _Text([self._sequence])
        for trigger in triggers:
            phrase = tuple(self._known.stem(token) for token in tokenise(trigger))
            if phrase and text.holds(phrase):
                return True
        return False


class _Text:
    """Stems of a text, field by field, in which phrases are looked for."""

    def __init__(self, fields: Sequence[Sequence[str]]) -> None:
        self._fields = fields
        self._all = {token for tokens in fields for token in tokens}

    def holds(self, phrase: tuple[str, ...]) -> bool:
        """Whether the stems stand one after another in one field."""
        if not all(token in self._all for token in phrase):
            return False
        if len(phrase) == 1:
            return True
        size = len(phrase)
        return any(
            tuple(tokens[at : at + size]) == phrase
            for tokens in self._fields
            for at in range(len(tokens) - size + 1)
            if tokens[at] == phrase[0]
        )


def _names(words: str) -> frozenset[str]:
    """Words that are written with a capital inside a sentence, folded as terms are."""
    found = (match[1] for match in _NAME.finditer(fold(words)))
    return frozenset(word.casefold() for word in found if word[0].isupper() and not word.isupper())


def _is_grammar(token: str) -> bool:
    """Whether a pair carries no matter: hiragana, or characters of two words (请帮, 我写, マは, は白, 本を)."""
    if _HIRAGANA.fullmatch(token) or token in CJK or not _SPEECH.isdisjoint(token):
        return True
    if len(token) < 2:
        return False
    is_katakana = [_KATAKANA.fullmatch(character) is not None for character in token]
    return is_katakana[0] != is_katakana[1] or _HIRAGANA.fullmatch(token[0]) is not None or token[1] in CJK


def _weight_of_number(token: str) -> float:
    if len(token) < 2:
        return 0.0
    is_year = len(token) == _DIGITS and token.startswith(("19", "20"))
    return ENOUGH if len(token) >= _DIGITS and not is_year else COMMON_WEIGHT
