"""L2 of the standard mode: what the last n turns of a session were about, from their own words and without a model.

One line of the terms that recur, then of each turn its most telling sentence. Language-neutral: lines and terms, no
connecting words. Called by the life cycle in ``memory.remember`` on every n-th turn.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from math import sqrt
from typing import Final

from memory_sqlite.layers.keywords import HAN, MAX_KEYWORDS, keywords
from memory_sqlite.layers.sentences import sentences
from memory_sqlite.limits import EPISODE_MAX_UNITS
from memory_sqlite.text.secrets import mask
from memory_sqlite.text.units import cut_utf16, utf16_length, valid_unicode

RECURRING_MAX: Final = 12
"""Terms on the first line; the layered-memory product shows as many."""
_TURN_MAX: Final = 8_000
"""Code points of one turn that are looked at: a pasted log is not read to its end for one sentence."""
_GRAM_MAX: Final = 6

_WORD: Final = re.compile(r"[^\W_]+(?:['_-][^\W_]+)*")
_RUN: Final = re.compile(rf"[{HAN}]{{2,}}|[ァ-ヶー]{{2,}}")
# the most frequent words of each language, which recur in any conversation and tell nothing
_STOP_TEXT: Final = """
the and for you that with this are was have has had not but what can could would should will how why when where
which who does did don doesn just like about from there their them they then than into out our your his her its
also some any all one two get got let make want need know think see please thanks thank yes okay hello here now
still very much more most only over after before because been being were while use used i'm it's that's don't
i've
"""
_STOP: Final = frozenset(_STOP_TEXT.split())
_FUNCTION: Final = re.compile(
    r"[的了是在我你他她它们和与或也就都很吗呢吧啊这那个么什怎哪不有要会能可请想到说把被让给对从用么]"
)


def _terms(text: str) -> set[str]:
    """What a turn is about: words not in the stop list, short runs of Han or katakana without function characters."""
    lowered = text.casefold()
    found = {
        word
        for word in _WORD.findall(lowered)
        if len(word) > 2 and word not in _STOP and _RUN.search(word) is None and not word.isdigit()
    }
    for run in _RUN.findall(lowered):
        for piece in _FUNCTION.split(run):
            limit = len(piece)
            for size in range(2, min(_GRAM_MAX, limit) + 1):
                found.update(piece[start : start + size] for start in range(limit - size + 1))
    return found


def _recurring(turns: Sequence[set[str]]) -> list[str]:
    """Terms of at least two turns, most frequent and longest first, none inside another that is as frequent."""
    counts = Counter(term for terms in turns for term in terms)
    ranked = sorted(
        (term for term, count in counts.items() if count > 1), key=lambda term: (-counts[term], -len(term), term)
    )
    kept: list[str] = []
    for term in ranked:
        if not any(term in other and counts[other] >= counts[term] for other in kept):
            kept.append(term)
            if len(kept) == RECURRING_MAX:
                break
    return kept


def _pieces(text: str) -> Iterator[str]:
    for sentence in sentences(text):
        yield " ".join(text[sentence.start : sentence.end].split())


def _most_telling(text: str, recurring: Sequence[str]) -> str:
    """The sentence with the most to say for its length; what the whole scenario is about counts three times."""
    best, best_score = "", -1.0
    shared = set(recurring)
    for piece in _pieces(text):
        terms = _terms(piece)
        score = (len(terms) + 2 * len(terms & shared)) / sqrt(12 + len(piece))
        if score > best_score:
            best, best_score = piece, score
    return best


def scenario(turns: Sequence[Sequence[str]]) -> tuple[str, tuple[str, ...]]:
    """L2 of the last n turns, each given as the texts of its user messages, oldest first.

    Returns the content (at most 2,000 UTF-16 units, no grapheme split, secrets masked) and at most 64 keywords, the
    recurring terms first. Blank turns are left out; nothing but blank turns gives ``("", ())``. Each turn may use an
    equal share of the room that is left, so that the newest is never squeezed out.
    """
    texts = [mask(valid_unicode("\n".join(turn))[:_TURN_MAX])[0].strip() for turn in turns]
    texts = [text for text in texts if text]
    recurring = _recurring([_terms(text) for text in texts]) if len(texts) > 1 else []
    lines = [cut_utf16(" · ".join(recurring), EPISODE_MAX_UNITS // 4)] if recurring else []
    room = EPISODE_MAX_UNITS - sum(map(utf16_length, lines))
    for index, text in enumerate(texts):
        share = room // (len(texts) - index)
        if share < 5:
            continue
        line = "\n- " + cut_utf16(_most_telling(text, recurring) or " ".join(text.split()), share - 3)
        lines.append(line)
        room -= utf16_length(line)
    content = "".join(lines).strip()
    words = dict.fromkeys([*recurring, *(word for word in keywords(content) if word == valid_unicode(word))])
    return content, tuple(words)[:MAX_KEYWORDS]
