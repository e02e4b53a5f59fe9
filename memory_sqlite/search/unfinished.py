"""The last word of a query, which may be the beginning of a longer one although it is a word itself.

Lives here: when that is believed, and what it is worth. Not here: words that occur nowhere (``retrieve``), the words
of the index (``vocabulary``). Called by ``retrieve``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from memory_sqlite.search import rank
from memory_sqlite.search.candidates import Resolved
from memory_sqlite.search.query import Term
from memory_sqlite.search.vocabulary import Vocabulary

MORE_FREQUENT: Final = 3
"""A longer word must be so many times as frequent as the word itself. Of whole questions 1 in 60 is then read on (2 in
5 without this bound, and XQuAD-en lost .003 of R@10)."""
WEIGHT: Final = 0.3
"""Beside the 1 of the word itself. nDCG@10 of SciFact's claims with the last word cut by one, two and three letters:
.6992 to .7014, .6860 to .6897, .7051 to .7071; whole ones .6945 to .6957; XQuAD-en never lower."""


def longer_words(vocabulary: Vocabulary, word: str, terms: Iterable[Resolved], rows: int) -> Resolved | None:
    """A weak term of the words that begin with ``word``, the last of the query; ``None`` where it was not read as it is
    typed, or no longer word is frequent enough. ``rows`` as for ``rank.idf``."""
    own = next((term for term in terms if term.term.kind == "word" and term.probes == ((word,),)), None)
    if own is None or not own.count or own.reading != "exact":
        return None
    stem = vocabulary.stem(word)
    others = [other for other in vocabulary.completions(word) if vocabulary.stem(other) != stem]
    counts = {other: vocabulary.count(other) for other in others}
    probes = tuple((other,) for other, count in counts.items() if count >= MORE_FREQUENT * own.count)
    if not probes:
        return None
    count = max(counts[probe[0]] for probe in probes)
    rarity = min(own.idf, rank.idf(count, rows))
    return Resolved(Term("prefix", word, probes, WEIGHT), probes, count, rarity, reading="completed")
