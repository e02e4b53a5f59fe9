"""The floor of automatic recall: which hits of a search have enough to do with the words to be put before a prompt.

A search answers with the best there is; recall runs unasked before every prompt, so the best must also be good. The
evidence is what the words and the shown text share, each shared term weighed once:

* a trigger phrase of an entry that occurs in the words: relevant, whatever else;
* an identifier whole (``ERR_CONN_REFUSED``), a number of four digits, a quoted phrase, a rare word, a pair of Han
  characters: 1. An everyday word, or one that every twentieth row of a large index holds: 0.4. Talk and time: 0;
* relevant is what reaches 1 (a pasted page asks for more: 8 % of what it could reach, at most 3), or what has all of at
  least two words, unless all are of talk and time ("my work hours", not "good morning");
* what repeats the words themselves, and an episode that holds no more of them than a fact already shown, says nothing.

Measured on the table of ``tests/unit/recall/test_relevance_table.py``. Not here: questions whose facts share no word
with them (``intents``, ``profile``). Pure but for the vocabulary it is given. Called by ``recall.block``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from memory_sqlite.model import Hit
from memory_sqlite.recall.common_words import COMMON, EMPTY
from memory_sqlite.search.folding import fold
from memory_sqlite.search.query import Term, understand
from memory_sqlite.search.stop_words import CJK
from memory_sqlite.search.tokens import tokenise

ENOUGH: Final = 1.0
"""One rare word. Below it lies one everyday word (0.4) and two of them in a longer sentence (0.8)."""
ENOUGH_OF_A_PAGE: Final = 3.0
PAGE_SHARE: Final = 0.08
"""Pasted pages share a rare word with anything: from 12 rare words on, 8 % of them must be shared."""
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


class Words(Protocol):
    """What is known about words: FTS5's stemmer and the counts of one generation."""

    def stem(self, token: str) -> str: ...

    def share(self, token: str) -> float:
        """In which part of the rows a token occurs, 0 while there are too few rows to tell."""


@dataclass(frozen=True, slots=True)
class _Judged:
    hit: Hit
    shared: frozenset[int]


def relevant(words: str, hits: Sequence[Hit], known: Words, facts: Sequence[Hit] = ()) -> tuple[Hit, ...]:
    """``facts`` that the words asked for, then the hits that pass the floor, each thing once, in their order."""
    terms = _Terms(words, known)
    echo = _plain(words)
    kept: dict[str, _Judged] = {}
    for hit in facts:
        kept.setdefault(hit.reference, _Judged(hit, terms.shared_with(hit)))
    for hit in hits:
        shared = terms.shared_with(hit)
        if hit.layer in ("L1", "L2") and _plain(hit.excerpt) == echo:
            continue
        if terms.are_enough(shared) or terms.hold_one_of(hit.triggers):
            kept.setdefault(hit.reference, _Judged(hit, shared))
    return tuple(one.hit for one in kept.values() if not _is_copy(one, kept.values()))


def _is_copy(one: _Judged, others: Iterable[_Judged]) -> bool:
    """An episode quotes what was said; beside the fact made of it, it adds nothing that was asked for."""
    if one.hit.layer not in ("L1", "L2"):
        return False
    text = _plain(one.hit.excerpt)
    return any(
        other.hit.layer == "L3" and one.shared <= other.shared and _plain(other.hit.excerpt) in text for other in others
    )


class _Terms:
    """The terms of the words, weighed."""

    def __init__(self, words: str, known: Words) -> None:
        self._known = known
        self._sequence = [known.stem(token) for token in tokenise(words)]
        weighed: dict[tuple[str, ...], tuple[tuple[tuple[str, ...], ...], float]] = {}
        for term in understand(words, now_ms=0).terms:
            if term.kind in _PIECES:
                continue
            weight = self._weight(term)
            probes = tuple(tuple(known.stem(token) for token in probe) for probe in term.probes)
            if weighed.get(probes[0], ((), -1.0))[1] < weight:
                weighed[probes[0]] = (probes, weight)
        self._terms = list(weighed.values())
        self._enough = min(max(ENOUGH, PAGE_SHARE * sum(weight for _, weight in self._terms)), ENOUGH_OF_A_PAGE)

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
        return KANA_WEIGHT if _KATAKANA.fullmatch(token) else ENOUGH

    def _is_in(self, words: frozenset[str], token: str) -> bool:
        return token in words or self._known.stem(token) in words

    def shared_with(self, hit: Hit) -> frozenset[int]:
        """Which terms what is shown of a hit holds, by number."""
        shown = (hit.excerpt, hit.heading, hit.title, _file_name(hit))
        text = _Text([[self._known.stem(token) for token in tokenise(field)] for field in shown if field])
        return frozenset(
            number for number, (probes, _) in enumerate(self._terms) if any(text.holds(probe) for probe in probes)
        )

    def are_enough(self, shared: frozenset[int]) -> bool:
        """Whether these terms make a text relevant."""
        weight = sum(self._terms[number][1] for number in shared)
        # sums of 0.4 and 0.6 are not exact
        return weight + 1e-9 >= self._enough or (weight > 0.0 and 2 <= len(self._terms) == len(shared))

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


def _file_name(hit: Hit) -> str:
    """The name a person gave a note's file; records have paths of ours."""
    if hit.layer is not None:
        return ""
    name = hit.path.rpartition("/")[2]
    return name.removesuffix(".md")


def _plain(text: str) -> str:
    """Text as a string of words, to see whether one quotes another."""
    return f" {' '.join(fold(text).casefold().split())} ".replace(" .", ".").strip(" .!?。！？")


_PIECES: Final = frozenset({"character", "part", "run", "prefix"})
"""Kinds of terms that are counted by the term they are a piece of."""
_KATAKANA: Final = re.compile("[\u30a0-\u30ff]+")
_SPEECH: Final = frozenset("我你您他她它们的了吗呢吧啊呀嘛请帮想是这那哪谁么们")
_HIRAGANA: Final = re.compile("[\u3041-\u309f]+")


def _is_grammar(token: str) -> bool:
    """Hiragana carries no matter, nor does a pair that spans a word of grammar: 请帮, 我写, 想知."""
    return _HIRAGANA.fullmatch(token) is not None or token in CJK or not _SPEECH.isdisjoint(token)


def _weight_of_number(token: str) -> float:
    if len(token) < 2:
        return 0.0
    is_year = len(token) == _DIGITS and token.startswith(("19", "20"))
    return ENOUGH if len(token) >= _DIGITS and not is_year else COMMON_WEIGHT
