"""Extraction by the repaired rules, the default mode: what one message says about its owner, and its episode.

Repairs what section 14 of the layered-memory reference lists: questions, conditions, hypotheses, quotations, code and
other people's speech are no facts, words have boundaries, facts do not overlap and end with their sentence, secrets
make no fact. What several turns are about is in ``layers.scenarios``. Called by ``layers.extract``.
"""

from __future__ import annotations

import re
from typing import Final

from memory_sqlite.layers.keywords import keywords
from memory_sqlite.layers.scenarios import scenario
from memory_sqlite.layers.sentences import Sentence, own_speech, sentences
from memory_sqlite.layers.slots import Found
from memory_sqlite.limits import EPISODE_MAX_UNITS, FACT_SENTENCE_MAX_CHARS, FACTS_PER_MESSAGE_MAX
from memory_sqlite.model import Fact
from memory_sqlite.text.secrets import find as find_secrets
from memory_sqlite.text.secrets import mask
from memory_sqlite.text.units import cut_utf16, valid_unicode

__all__ = ["episode", "facts", "scenario"]

_LATIN: Final = re.compile(r"[A-Za-z]{2}|\bI\b")
_HAN: Final = re.compile(r"[一-鿿]")
_KANA: Final = re.compile(r"[ぁ-んァ-ヶ]")


def _find(said: str, text: str, covered: str, sentence: Sentence) -> list[Found]:
    # each language's patterns take 20 to 50 ms to compile: a command that remembers one turn compiles one language
    hits: list[Found] = []
    if _KANA.search(said) is not None:
        from memory_sqlite.layers import japanese

        hits = japanese.find(text, covered, sentence)
    elif _HAN.search(said) is not None:
        from memory_sqlite.layers import chinese

        hits = chinese.find(text, covered, sentence)
    if not hits and _LATIN.search(said) is not None:
        from memory_sqlite.layers import english

        hits = english.find(text, covered, sentence)
    return hits


def facts(text: str) -> list[Fact]:
    """At most eight facts of ``text``, in its order; content is a piece of ``text`` with white space collapsed.

    The same statement twice in one message is one fact; of two that contradict each other the later one stays.
    """
    text = valid_unicode(text)
    covered = own_speech(text)
    secrets = find_secrets(text)
    found: dict[str, Fact] = {}
    for sentence in sentences(covered):
        if sentence.end - sentence.start > FACT_SENTENCE_MAX_CHARS:
            continue
        if any(start < sentence.end and end > sentence.start for start, end, _ in secrets):
            continue
        said = covered[sentence.start : sentence.end]
        for hit in _find(said, text, covered, sentence):
            content = " ".join(text[hit.start : hit.end].split())
            found.pop(hit.slot, None)
            found[hit.slot] = Fact(content, hit.kind, hit.slot, hit.value, hit.polarity)
        if len(found) >= FACTS_PER_MESSAGE_MAX:
            break
    return list(found.values())[:FACTS_PER_MESSAGE_MAX]


def episode(text: str) -> tuple[str, tuple[str, ...]] | None:
    """L1 of one user message: its masked text up to 2,000 UTF-16 units, cut at a grapheme, and at most 64 keywords.

    ``None`` when nothing but white space was said. Unlike the layered-memory product one character is worth an episode.
    """
    content = cut_utf16(mask(valid_unicode(text).strip())[0], EPISODE_MAX_UNITS).strip()
    if not content:
        return None
    # bigrams of astral characters hold lone surrogates, which no UTF-8 column can
    return content, tuple(word for word in keywords(content) if word == valid_unicode(word))
