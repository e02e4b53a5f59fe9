"""Understanding a query: from what a person typed to weighted terms and named dates.

Lives here: terms, their kinds and weights, quoted phrases, prefixes, stop words, cuts. Pure: no index is asked, so
which terms occur, how often, and what a misspelt one could mean is ``retrieve``'s. A query never fails: what cannot be
understood is left out, and a query without terms has an empty answer.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from memory_sqlite.limits import QUERY_MAX_CHARS, QUERY_MAX_TERMS
from memory_sqlite.search.dates import NamedDate, named_dates
from memory_sqlite.search.folding import fold, search_form
from memory_sqlite.search.hangul import is_ending, word_length
from memory_sqlite.search.stop_words import CJK, CJK_WORDS, FAINT, is_stop_word
from memory_sqlite.search.tokens import Group, groups
from memory_sqlite.values import dataclass

TermKind = Literal[
    "word", "number", "identifier", "part", "cjk", "character", "run", "symbol", "phrase", "prefix", "date"
]

CHARACTER_WEIGHT: Final = 0.5
"""A CJK character beside the bigrams it stands in (design, section 7: nDCG@10 .97 on the questions of XQuAD-zh)."""
PART_WEIGHT: Final = 0.3
"""A part of an identifier: enough to find ``src/ledger/cursor.ts`` by its pieces, too little to outrank the whole."""
COMPOUND_WEIGHT: Final = 0.5
"""``long-term`` as one token, beside its words at full weight."""
ENDING_WEIGHT: Final = 0.3
"""A pair of characters that holds a Korean particle or ending."""
FAINT_WEIGHT: Final = 0.6
DATE_WEIGHT: Final = 1.5
SPAN_WEIGHT: Final = 1.0
"""Of a date that is looked for in names as several days or months: any of them."""
UNFINISHED_MIN_CHARS: Final = 3
"""As for a word that occurs nowhere: two letters begin too many."""
RUN_WEIGHT: Final = 1.0
RUN_MAX_CHARS: Final = 6
"""Longer CJK runs are sentences: as a phrase they find nothing (design, section 7: nDCG 0.00 to 0.23)."""

_QUOTED: Final = re.compile(r'"([^"]+)"|“([^”]+)”|„([^“”]+)[“”]|«([^»]+)»|「([^」]+)」|『([^』]+)』')
_WHEN: Final = re.compile(
    r"\b(?:when|how long|what (?:date|day|month|year|time))\b|什么时候|何[时日月年曜]|哪一?[天年月]|几[号月]|多久"
    r"|いつ|언제|며칠|몇\s?[월일년시]",
    re.I,
)
_CODE: Final = re.compile(
    r"[_/\\@=]|::|\w\.\w|^(?=.*\d)(?=.*[^\W\d])[\w.:-]{6,}$|^\d+-\d+-\d+|^[^\W\d]{12,}$|\+\+$|\#$"
)
"""Joints of code and paths, six or more characters with digits and letters, dates, long camelCase names."""
_NAME: Final = re.compile(r"[^\W\d_][\w'’-]+")


@dataclass(frozen=True, slots=True)
class Term:
    """One thing looked for. ``probes`` are token sequences; any of them found means the term is found."""

    kind: TermKind
    text: str
    probes: tuple[tuple[str, ...], ...]
    weight: float = 1.0
    required: bool = False
    """A quoted phrase: what does not hold it is no answer."""
    quote: int = 0
    """Of a quoted phrase among several: which of the query's quotes it is, from 1."""

    @property
    def is_code(self) -> bool:
        """An identifier nobody writes by chance: what holds it whole comes first."""
        return self.kind == "identifier" and _CODE.search(self.text) is not None


@dataclass(frozen=True, slots=True)
class Query:
    """A query understood. ``names`` are its words as typed, folded, for matching speakers."""

    text: str
    terms: tuple[Term, ...]
    dates: tuple[NamedDate, ...] = ()
    zone: str = "UTC"
    """Where days begin, for the dates and for the times that are compared with them."""
    asks_when: bool = False
    names: frozenset[str] = frozenset()
    unfinished: str | None = None
    """The last word, where nothing follows it: whoever types may not be done with it."""
    warnings: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Nothing to look for: the answer is empty, and that is no error."""
        return not self.terms


class _Terms:
    """Distinct terms in order of appearance; a later, heavier one replaces an equal lighter one."""

    def __init__(self) -> None:
        self._by_probe: dict[tuple[str, tuple[str, ...]], Term] = {}

    def add(
        self, kind: TermKind, *probes: tuple[str, ...], weight: float = 1.0, required: bool = False, quote: int = 0
    ) -> None:
        key = ("required" if required else "", probes[0])
        known = self._by_probe.get(key)
        if known is None or known.weight < weight:
            self._by_probe[key] = Term(kind, " ".join(probes[0]), probes, weight, required, quote)

    def all(self) -> tuple[Term, ...]:
        return tuple(self._by_probe.values())


def understand(text: str, *, now_ms: int, zone: str = "UTC") -> Query:
    """Read a query. ``now_ms`` and ``zone`` (``days``) give "yesterday" its meaning; they have no other effect.

    Raises ``InvalidArgument`` for a zone that is none.
    """
    warnings: list[str] = []
    if len(text) > QUERY_MAX_CHARS:
        text = text[:QUERY_MAX_CHARS]
        warnings.append(f"the query was cut to {QUERY_MAX_CHARS} characters")
    folded = search_form(text)
    terms = _Terms()
    quotes = list(_QUOTED.finditer(folded))
    for number, match in enumerate(quotes, 1):
        quoted = next(group for group in match.groups() if group is not None)
        tokens = tuple(token for group in groups(quoted) for token in group.tokens)
        # full-width brackets around a single CJK word are how it is named, not a demand for a phrase
        if len(tokens) > 1:
            demanded = match[0][0] not in "「『"
            terms.add("phrase", tokens, weight=1.5, required=demanded, quote=number if len(quotes) > 1 else 0)
    loose = list(groups(folded))
    for group in loose:
        _add_group(terms, group, folded)
    dates = named_dates(folded, now_ms, zone)
    for named in dates:
        phrases = named.phrases()
        if phrases:
            terms.add("date", *phrases, weight=DATE_WEIGHT if len(phrases) == 1 else SPAN_WEIGHT)
    found = terms.all()
    if len(found) > QUERY_MAX_TERMS:
        warnings.append(f"the query has more than {QUERY_MAX_TERMS} terms; the rarest are searched")
    return Query(
        text=text,
        terms=found,
        dates=dates,
        zone=zone,
        asks_when=_WHEN.search(folded) is not None,
        names=frozenset(name.casefold().removesuffix("'s") for name in _NAME.findall(fold(text))),
        unfinished=_unfinished(loose[-1], folded) if loose else None,
        warnings=tuple(warnings),
    )


def _unfinished(last: Group, folded: str) -> str | None:
    is_plain = last.kind == "word" and len(last.tokens) == 1 and len(last.tokens[0]) >= UNFINISHED_MIN_CHARS
    return last.tokens[0] if is_plain and last.end == len(folded) else None


def _add_group(terms: _Terms, group: Group, folded: str) -> None:
    whole, *parts = group.tokens
    if group.kind == "cjk":
        if not _is_particle(group, folded):
            _add_run(terms, group)
    elif group.kind == "symbol":
        terms.add("symbol", (whole,))
    elif folded[group.end : group.end + 1] == "*" and len(whole) > 1 and not parts:
        terms.add("prefix", (whole,))
    elif group.kind == "number":
        terms.add("number", (whole,))
    elif not parts:
        if not is_stop_word(whole, group.raw):
            kind: TermKind = "word" if group.kind == "word" else "identifier"
            terms.add(kind, (whole,), weight=FAINT_WEIGHT if whole in FAINT else 1.0)
    elif group.kind == "identifier":
        terms.add("identifier", (whole,), tuple(parts)) if len(parts) > 1 else terms.add("identifier", (whole,))
        for part in parts:
            if not is_stop_word(part, part):
                terms.add("part", (part,), weight=PART_WEIGHT)
    else:
        terms.add("word", (whole,), weight=COMPOUND_WEIGHT)
        for part in parts:
            if not is_stop_word(part, part):
                terms.add("word", (part,))


def _is_particle(group: Group, folded: str) -> bool:
    """Whether it is a Korean particle written onto a word of another script, as in ``Docker를``."""
    before = folded[group.start - 1 : group.start]
    return before.isalnum() and before.isascii() and is_ending(group.raw)


def _add_run(terms: _Terms, group: Group) -> None:
    tokens = group.tokens
    if len(tokens) == 1:
        if tokens[0] not in CJK:
            terms.add("cjk", tokens)
        return
    # tokens are characters and pairs by turns: character, pair, character, pair, ...
    word = 2 * word_length(group.raw) - 1
    if word == 1:
        terms.add("cjk", tokens[:1])
    says_something = False
    for place, token in enumerate(tokens):
        if len(token) == 1:
            if token not in CJK and place < word:
                terms.add("character", (token,), weight=CHARACTER_WEIGHT)
        elif token not in CJK_WORDS and not (token[0] in CJK and token[1] in CJK):
            terms.add("cjk", (token,), weight=1.0 if place < word else ENDING_WEIGHT)
            says_something = True
    if says_something and 3 <= (word + 1) // 2 <= RUN_MAX_CHARS:
        terms.add("run", tokens[:word], weight=RUN_WEIGHT)
