"""What the index knows about words: stems, document counts, and what a word that occurs nowhere may have meant.

Lives here: stemming as FTS5 does it, counts from the vocabulary, prefix and edit-distance expansion. Not here: which
terms a query has (``query``) and what an expansion is worth (``rank``). Called by ``retrieve``.
"""

from __future__ import annotations

import shlex
import time
from itertools import islice
from typing import Final

import apsw

from memory_sqlite.generations.layout import FTS_TOKENIZER

EXPANSIONS_MAX: Final = 6
FUZZY_BUDGET_S: Final = 0.03
"""Scanning the vocabulary for near words stops after this long: a typo must not cost more than the search."""
FUZZY_MIN_CHARS: Final = 4
FUZZY_ENDING_MIN_CHARS: Final = 7
_ENDINGS: Final = (
    *("s", "e", "es", "ed", "ing", "er", "ers", "or", "ors", "ion", "ions", "ation", "ations", "ment", "ments"),
    *("able", "ible", "ly", "ness", "ity", "al", "ally", "ive", "ance", "ence", "ful", "ize", "ized", "ization"),
)
"""What the stemmer takes off a well-spelt word."""
_ENDING_AFTER: Final = 0.5
"""Of two readings with as many edits the one without such an ending comes first."""
HIDDEN_LOOKED_AT: Final = 100
"""Expansions of one word that are tried for one who may not see everything, before it is given up."""
TEXT_COLUMNS: Final = "body question heading path trigger"
"""The columns of ``lexical`` that hold words of texts."""
WINDOW_COLUMNS: Final = "body before after far"
"""Those of ``lexical_context``."""

_STEMS_MAX: Final = 50_000
_stems: dict[str, str] = {}
"""Stems seen by this process; a stem depends on nothing but the token."""


class Vocabulary:
    """Stems and document counts of one generation; keeps what it has looked up for the length of one search."""

    def __init__(self, connection: apsw.Connection, visible: str | None = None) -> None:
        """``visible`` is the FTS expression of the rows that whoever asks may see, ``None`` for all of them: a word
        that stands in no such row counts as unknown, and is never what an unknown word may have meant."""
        self._connection = connection
        self._visible = visible
        self._seen: dict[str, bool] = {}
        name, *arguments = shlex.split(FTS_TOKENIZER)
        self._stemmer = connection.fts5_tokenizer(name, arguments)
        self._counts: dict[str, int] = {}

    def stem(self, token: str) -> str:
        """The token as the index stores it."""
        known = _stems.get(token)
        if known is None:
            known = token
            for item in self._stemmer(token.encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False):
                known = str(item[0])
            if len(_stems) >= _STEMS_MAX:
                _stems.clear()
            _stems[token] = known
        return known

    def spelling(self, stem: str) -> str | None:
        """A word that stems to ``stem``: MATCH stems what it is given, and a stem may stem further."""
        for ending in ("", "e", "s", "es", "ed", "ing"):
            if self.stem(stem + ending) == stem:
                return stem + ending
        if stem.endswith("i") and self.stem(stem[:-1] + "y") == stem:
            return stem[:-1] + "y"
        return None

    def learn_common(self, tokens: list[str]) -> set[str]:
        """Take the counts of common terms from their table; returns which of the tokens are common."""
        stems = {self.stem(token): token for token in tokens}
        common: set[str] = set()
        for stem, token in stems.items():
            row = self._connection.execute("SELECT documents FROM common_terms WHERE term = ?", (stem,)).fetchone()
            if row is not None:
                self._counts[stem] = int(row[0])
                common.add(token)
        return common

    def count(self, token: str) -> int:
        """In how many rows a token occurs; 0 when it occurs in none that may be seen."""
        known = self.count_anywhere(token)
        return known if known and self._is_visible(token) else 0

    def _is_visible(self, word: str) -> bool:
        if self._visible is None:
            return True
        known = self._seen.get(word)
        if known is None:
            quoted = word.replace('"', '""')
            known = self._seen[word] = bool(
                self._connection.execute(
                    "SELECT EXISTS (SELECT 1 FROM lexical WHERE lexical MATCH ?)",
                    (f'{{{TEXT_COLUMNS}}} : "{quoted}" AND ({self._visible})',),
                ).get
            )
        return known

    def count_anywhere(self, token: str) -> int:
        """In how many rows a token occurs, whoever may see them."""
        stem = self.stem(token)
        known = self._counts.get(stem)
        if known is None:
            row = self._connection.execute("SELECT doc FROM lexical_vocabulary WHERE term = ?", (stem,)).fetchone()
            known = self._counts[stem] = 0 if row is None else int(row[0])
        return known

    def window_count(self, token: str) -> int:
        """In how many windows of messages a token occurs."""
        row = self._connection.execute(
            "SELECT doc FROM lexical_context_vocabulary WHERE term = ?", (self.stem(token),)
        ).fetchone()
        return 0 if row is None else int(row[0])

    def completions(self, token: str) -> list[str]:
        """Words whose stems begin with the token's, the most frequent first."""
        stem = self.stem(token)
        rows = self._connection.execute(
            "SELECT term, doc FROM lexical_vocabulary WHERE term >= ? AND term < ? LIMIT 2000",
            (stem, stem + "\U0010ffff"),
        )
        found = sorted(((int(doc), str(term)) for term, doc in rows if _is_word(str(term))), reverse=True)
        return self._spelled([term for _, term in found])

    def near(self, token: str) -> list[tuple[str, int]]:
        """Words whose stems are one or two edits away, the most frequent of the nearest first, as ``(word, edits)``.

        One edit for words below six characters, two above (a swap of neighbours is one edit). The first character is
        taken to be right, or swapped with the second: that is what bounds the scan. An ending that is misspelt is no
        ending to the stemmer, so a longer word is also compared with the stems and their possible endings.
        """
        stem = self.stem(token)
        if len(stem) < FUZZY_MIN_CHARS or not stem.isalpha():
            return []
        allowed = 1 if len(stem) < 6 else 2
        deadline = time.perf_counter() + FUZZY_BUDGET_S
        letters = set(stem)
        heads = _heads(stem) if len(stem) >= FUZZY_ENDING_MIN_CHARS else ()
        found: list[tuple[float, int, str]] = []
        for first in dict.fromkeys((stem[0], stem[1])):
            rows = self._connection.execute(
                "SELECT term, doc FROM lexical_vocabulary WHERE term >= ? AND term < ?", (first, first + "\U0010ffff")
            )
            for number, (term, doc) in enumerate(rows):
                if number % 256 == 255 and time.perf_counter() > deadline:
                    break
                edits: float = allowed + 1
                # an edit changes at most two letters of the set; most words are out after this glance
                if abs(len(term) - len(stem)) <= allowed and len(letters ^ set(term)) <= 2 * allowed and term.isalpha():
                    edits = distance(stem, term, allowed)
                if edits > 1 and term[:3] in heads and 3 <= len(term) < len(stem) <= len(term) + 7:
                    edits = min(edits, _with_ending(stem, term) + _ENDING_AFTER)
                if edits < allowed + 1:
                    found.append((edits, -int(doc), str(term)))
        found.sort()
        nearest = self._spelled([term for edits, _, term in found if edits == found[0][0]])
        if not nearest and found:  # the nearest are nobody's to see
            found = [item for item in found if item[0] > found[0][0]]
            nearest = self._spelled([term for _, _, term in found])
        return [(word, int(found[0][0])) for word in nearest]

    def _spelled(self, stems: list[str]) -> list[str]:
        looked_at = 2 * EXPANSIONS_MAX if self._visible is None else HIDDEN_LOOKED_AT
        words = (self.spelling(stem) for stem in stems[:looked_at])
        return list(islice((word for word in words if word is not None and self._is_visible(word)), EXPANSIONS_MAX))


def _is_word(term: str) -> bool:
    return term.isalpha()


def _heads(word: str) -> frozenset[str]:
    """The first three letters, and with two neighbours of them swapped."""
    return frozenset((word[:3], word[1] + word[0] + word[2], word[0] + word[2] + word[1]))


def _with_ending(word: str, stem: str) -> int:
    """Edits between a word and a stem with the nearest ending: one is allowed, two from ten letters on; else three."""
    allowed = 1 if len(word) < 10 else 2
    if distance(word[: len(stem)], stem, allowed) > allowed:
        return 3
    edits = min(distance(word, stem + ending, allowed) for ending in _ENDINGS)
    return edits if edits <= allowed else 3


def distance(left: str, right: str, limit: int) -> int:
    """Optimal string alignment distance, or ``limit + 1`` when it is larger than ``limit``."""
    if left == right:
        return 0
    before_last: list[int] = []
    last = list(range(len(right) + 1))
    for row, a in enumerate(left, 1):
        current = [row]
        for column, b in enumerate(right, 1):
            cost = min(last[column] + 1, current[column - 1] + 1, last[column - 1] + (a != b))
            if row > 1 and column > 1 and a == right[column - 2] and left[row - 2] == b:
                cost = min(cost, before_last[column - 2] + 1)
            current.append(cost)
        if min(current) > limit:
            return limit + 1
        before_last, last = last, current
    return last[-1]
