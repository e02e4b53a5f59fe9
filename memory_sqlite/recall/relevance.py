"""The floor of automatic recall: which hits of a search have enough to do with the words to be put before a prompt.

A search answers with the best there is; recall runs unasked before every prompt, so the best must also be good. The
evidence is what the words and the shown text share, each shared term weighed once:

* a trigger phrase of an entry that occurs in the words: relevant, whatever else;
* an identifier whole (``ERR_CONN_REFUSED``), a number of four digits, a quoted phrase, a rare word, a pair of Han
  characters: 1. An everyday word, or one that every twentieth row of a large index holds: 0.4. Talk and time: 0;
* relevant is what reaches 1 and three tenths of what the words could reach, at most 3: in a long question one rare word
  is chance. An identifier and a number are never chance, a name seldom (2);
* relevant is also what has all of at least two words, unless all are of talk and time ("my work hours", not "good
  morning");
* what repeats the words themselves, and an episode that holds no more of them than a fact already shown, says nothing.

Measured on the table of ``tests/unit/recall/test_relevance_table.py`` and on LoCoMo. Not here: the weights (``terms``),
questions whose facts share no word with them (``intents``, ``profile``). Pure but for the vocabulary it is given.
Called by ``recall.block``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memory_sqlite.model import Hit
from memory_sqlite.recall.terms import Terms, Words
from memory_sqlite.search.folding import fold
from memory_sqlite.values import dataclass


@dataclass(frozen=True, slots=True)
class _Judged:
    hit: Hit
    shared: frozenset[int]


def relevant(
    words: str, hits: Sequence[Hit], known: Words, facts: Sequence[Hit] = (), *, now_ms: int = 0, zone: str = "UTC"
) -> tuple[Hit, ...]:
    """``facts`` that the words asked for, then the hits that pass the floor, each thing once, in their order.

    ``now_ms`` and ``zone`` give "yesterday" its meaning.
    """
    terms = Terms(words, known, now_ms, zone)
    echo = _plain(words)
    kept: dict[str, _Judged] = {}
    for hit in facts:
        kept.setdefault(hit.reference, _Judged(hit, terms.shared_with(_shown(hit))))
    for hit in hits:
        shared = terms.shared_with(_shown(hit))
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


def _shown(hit: Hit) -> tuple[str, ...]:
    """What a reader sees of a hit, and the name a person gave a note's file; records have paths of ours."""
    name = hit.path.rpartition("/")[2].removesuffix(".md") if hit.layer is None else ""
    return (hit.excerpt, hit.heading, hit.title, name)


def _plain(text: str) -> str:
    """Text as a string of words, to see whether one quotes another."""
    return " ".join(fold(text).casefold().split()).strip(" .!?。！？")
