"""How well an entry's trigger phrases fit a message, and which entries are recalled for it.

Formula, threshold and bounds are the product's (2026.9.6): a phrase of one word that occurs counts 0.85, of a phrase of
several 0.8 of the share that occurs and 0.2 once two do; a match is 0.8 of the best phrase and 0.2 of the relevance;
0.65 is needed. So a lone word passes (0.68) and half of two words does not (0.40). Beyond the product, words are
compared by their stems and as the search folds them, and scripts that put no spaces between words are looked for as
they stand. Pure. Not here: asking a provider (``host.consumers.trigger_recall``), the lines (``recalled_lines``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from memory_sqlite import limits
from memory_sqlite.recall.project_candidates import all_active, importance_of, is_eligible
from memory_sqlite.runtime.shapes import ProviderHit
from memory_sqlite.search.folding import search_form
from memory_sqlite.search.tokens import SIGNS, UNSPACED

THRESHOLD: Final = 0.65
_TRIGGER_SHARE: Final = 0.8
_RELEVANCE_SHARE: Final = 0.2
_ONE_WORD: Final = 0.85
_SEPARATORS: Final = re.compile(r"[\n;|]")
_RUNS: Final = re.compile(rf"[{UNSPACED}]+|(?:[^\W_{UNSPACED}]|[{SIGNS}])+")
_IS_UNSPACED: Final = re.compile(rf"[{UNSPACED}]")
_SUFFIXES: Final = ("ments", "ment", "ings", "ing", "ed", "s")
_HISSES: Final = ("ches", "shes", "sses", "xes", "zes")
_STEM_MIN: Final = 4
"""What a suffix is taken from keeps so many letters: "bus" and "ring" stay what they are."""


class Message:
    """A message as phrases are looked for in it."""

    def __init__(self, text: str) -> None:
        folded = _folded(text)
        runs = _RUNS.findall(folded)
        self._words = {_stem(run) for run in runs if not _is_unspaced(run) and len(run) > 1}
        self._unspaced = [run for run in runs if _is_unspaced(run)]

    def score(self, phrase: str) -> float:
        """How much of a phrase occurs, 0 to 1."""
        parts = [run for run in _RUNS.findall(_folded(phrase)) if _is_unspaced(run) or len(run) > 1]
        if not parts:
            return 0.0
        present = sum(1 for part in parts if self._has(part))
        if len(parts) == 1:
            return _ONE_WORD * present
        return 0.8 * present / len(parts) + 0.2 * min(1.0, present / 2)

    def best(self, triggers: str | None) -> float:
        """The score of the phrase that fits best; phrases are split by newline, ``;`` or ``|``."""
        read = (triggers or "")[: limits.TRIGGER_PHRASES_CHARS]
        return max((self.score(phrase) for phrase in _SEPARATORS.split(read)), default=0.0)

    def _has(self, part: str) -> bool:
        if _is_unspaced(part):
            return any(part in run for run in self._unspaced)
        return _stem(part) in self._words


def match(message: Message, hit: ProviderHit) -> float:
    """How well an entry fits, 0 to 1. A hit without a score has no relevance."""
    triggers = hit.automatic_recall.triggers if hit.automatic_recall is not None else None
    relevance = min(1.0, max(0.0, hit.score or 0.0))
    return _TRIGGER_SHARE * message.best(triggers) + _RELEVANCE_SHARE * relevance


def without_duplicates(hits: Iterable[ProviderHit]) -> list[ProviderHit]:
    """One of each reference: the eligible copy wins, then the higher score."""
    best: dict[object, ProviderHit] = {}
    for hit in hits:
        known = best.get(hit.reference)
        if known is None or _weight(hit) > _weight(known):
            best[hit.reference] = hit
    return list(best.values())


def _weight(hit: ProviderHit) -> tuple[bool, float]:
    return is_eligible(hit), hit.score or 0.0


def chosen(text: str, hits: Iterable[ProviderHit], active: frozenset[str]) -> list[ProviderHit]:
    """The eligible entries that the message triggers, at most ``limits.TRIGGER_RECALL_MAX``, the best match first.

    An entry of projects is recalled only when all of them are active.
    """
    message = Message(text)
    scored = [
        (match(message, hit), hit) for hit in without_duplicates(hits) if is_eligible(hit) and all_active(hit, active)
    ]
    kept = [(score, hit) for score, hit in scored if score >= THRESHOLD]
    kept.sort(
        key=lambda pair: (-pair[0], -importance_of(pair[1]), pair[1].reference.id, pair[1].reference.fragment or "")
    )
    return [hit for _, hit in kept[: limits.TRIGGER_RECALL_MAX]]


def _folded(text: str) -> str:
    return search_form(text).casefold()


def _is_unspaced(run: str) -> bool:
    return _IS_UNSPACED.match(run) is not None


def _stem(word: str) -> str:
    """An English word without the commonest endings; other words mostly stay as they are, on both sides alike."""
    if word.endswith("ies") and len(word) > _STEM_MIN:
        return word[:-3] + "y"
    if word.endswith(_HISSES):
        return word[:-2]
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _STEM_MIN and not word.endswith("ss"):
            word = word[: -len(suffix)]
            break
    return word[:-1] if word.endswith("e") and len(word) > _STEM_MIN else word
