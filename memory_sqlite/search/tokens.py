"""Tokens: the one function that splits text and queries, so that neither can ever be FTS syntax.

Lives here: where words begin and end, identifiers whole and in parts, CJK as characters and bigrams, emoji. Not here:
normal form (``folding``), stemming (FTS5's porter), stop words and weights (``query``). Called by ``indexing.rows``,
``query``, ``excerpt`` and by preparation workers. Any change to what comes out changes ``TOKENIZER_VERSION``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final, Literal

from memory_sqlite.search.folding import search_form
from memory_sqlite.values import dataclass

TOKENIZER_VERSION: Final = 2
"""Part of a generation's identity: an index made with another version is rebuilt, never searched."""

TOKEN_MAX_CHARS: Final = 64
"""A longer run is found by its beginning; FTS5's porter leaves tokens above 64 bytes unstemmed as well."""

GroupKind = Literal["word", "number", "identifier", "cjk", "symbol"]

# scripts written without spaces: Han, kana, Hangul, Bopomofo, Thai, Lao, Khmer, Burmese
UNSPACED: Final = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\u1100-\u11ff\uf900-\ufaff"
    "\U00020000-\U0003ffff\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ecd\u1780-\u17d3\u1000-\u103f"
)
# vowel signs that Python's \w leaves out would tear Indic words
SIGNS: Final = (
    "\u0300-\u036f\u0900-\u0903\u093a-\u094f\u0955-\u0957\u0962\u0963\u0981-\u0983\u09bc-\u09cd"
    "\u0a01-\u0a4d\u0a81-\u0acd\u0b01-\u0b4d\u0b82-\u0bcd\u0c00-\u0c4d\u0c81-\u0ccd\u0d00-\u0d4d"
    "\u0d81-\u0ddf\u0f71-\u0f84"
)
_SYMBOL: Final = (
    "\u20a0-\u20cf\u2190-\u21ff\u2300-\u23ff\u2460-\u24ff\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff"
    "\U0001f000-\U0001f3fa\U0001f400-\U0001faff"
)
_JOINS: Final = r"_.\-/:@+&'\\#=~%$"
_ASCII_RUN: Final = re.compile(rf"[A-Za-z0-9]+(?:[{_JOINS}]{{1,3}}[A-Za-z0-9]+|,\d{{3}}(?!\d))*(?:\+\+|\#(?!\w))?")
_WORD: Final = rf"(?:[^\W_{UNSPACED}{_SYMBOL}]|[{SIGNS}])+"
_ANY: Final = rf"[{UNSPACED}]+|[{_SYMBOL}]|{_WORD}(?:[{_JOINS}]{{1,3}}{_WORD}|,\d{{3}}(?!\d))*(?:\+\+|\#(?!\w))?"
_JOINT: Final = re.compile(rf"[{_JOINS},]+")
_CAMEL: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_LETTERS_DIGITS: Final = re.compile(r"([a-z]{2,})(\d+)|(\d+)([a-z]{1,3})")
_THOUSANDS: Final = re.compile(r"\d{1,3}(?:,\d{3})+")
_CONTRACTIONS: Final = frozenset({"t", "re", "ve", "ll", "d", "m"})


@dataclass(frozen=True, slots=True)
class Group:
    """One run of text and the tokens it stands for, in index order.

    ``tokens[0]`` is the whole run and the rest its parts; for ``cjk`` they are characters and bigrams interleaved, so
    that a phrase of consecutive tokens is exactly a substring.
    """

    kind: GroupKind
    raw: str
    tokens: tuple[str, ...]
    start: int
    end: int


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Runs of any script, a start without spaces, a symbol. Compiled late: 6 ms that ASCII text and queries save."""
    return re.compile(_ANY), re.compile(rf"[{UNSPACED}]"), re.compile(rf"[{_SYMBOL}]")


def _split_word(run: str) -> list[str]:
    """Tokens of a run without joints: itself, and its parts when case or digits mark them."""
    if run.isalpha():
        # words as they stand in sentences: nothing to split
        if run.islower() or run[1:].islower() or run.isupper() or not run.isascii():
            return [run.casefold()[:TOKEN_MAX_CHARS]]
        parts = _CAMEL.findall(run)
        whole = run.lower()[:TOKEN_MAX_CHARS]
        return [whole, *(part.lower() for part in parts if len(part) > 1)] if len(parts) > 1 else [whole]
    whole = run.casefold()[:TOKEN_MAX_CHARS]
    if whole.isdigit():
        return [whole]
    match = _LETTERS_DIGITS.fullmatch(whole)
    if match is not None:
        return [whole, *(part for part in match.groups() if part)]
    if run.isascii() and not run.islower() and not run.isupper() and len(run) > 6:
        parts = _CAMEL.findall(run)
        if 1 < len(parts) <= len(run) // 3:  # more pieces than that is a random key, not a name
            return [whole, *(part.lower() for part in parts if len(part) > 1)]
    return [whole]


def _split_run(run: str) -> list[str]:
    """Tokens of a run that may have joints (``src/ledger/cursor.ts``, ``don't``, ``12,500``, ``C++``)."""
    if run.isalnum():
        return _split_word(run)
    if "," in run and _THOUSANDS.fullmatch(run):
        return [run.replace(",", "")[:TOKEN_MAX_CHARS]]
    whole = run.casefold()
    if "'" in whole:
        base, _, ending = whole.rpartition("'")
        if ending == "s":
            return _split_run(run[: len(run) - 2])
        if ending in _CONTRACTIONS and base.isalpha():
            return [whole[:TOKEN_MAX_CHARS]]
    tokens = [whole[:TOKEN_MAX_CHARS]]
    parts = _JOINT.split(run)
    if len(parts) == 1:
        return tokens
    for part in parts:
        if len(part) < 2 and not part.isdigit():  # single letters would match everywhere and say nothing
            continue
        tokens.extend(_split_word(part) if part.isalnum() else [part.casefold()[:TOKEN_MAX_CHARS]])
    return tokens


def _unspaced(run: str) -> list[str]:
    tokens = [run[0]]
    previous = run[0]
    for character in run[1:]:
        tokens.append(previous + character)
        tokens.append(character)
        previous = character
    return tokens


def tokenise(text: str) -> list[str]:
    """Split any text into index tokens, in order. Never fails; no token holds a space, a quote mark or a NUL."""
    tokens: list[str] = []
    if text.isascii():
        for run in _ASCII_RUN.findall(text):
            if run.islower() and run.isalpha():
                tokens.append(run if len(run) <= TOKEN_MAX_CHARS else run[:TOKEN_MAX_CHARS])
            else:
                tokens += _split_run(run)
        return tokens
    any_run, unspaced, _ = _patterns()
    for run in any_run.findall(search_form(text)):
        first = run[0]
        if first < "\u0e00":
            tokens += _split_run(run)
        elif unspaced.match(first):
            tokens += _unspaced(run)
        else:
            tokens += [run] if len(run) == 1 else _split_run(run)
    return tokens


def groups(folded: str) -> Iterator[Group]:
    """The same split as ``tokenise`` over text in its search form, one group per run, with offsets into ``folded``."""
    if folded.isascii():
        for match in _ASCII_RUN.finditer(folded):
            run = match.group()
            tokens = _split_run(run)
            yield Group(_kind_of(tokens), run, tuple(tokens), match.start(), match.end())
        return
    any_run, unspaced, symbol = _patterns()
    for match in any_run.finditer(folded):
        run = match.group()
        kind: GroupKind
        if unspaced.match(run):
            tokens, kind = _unspaced(run), "cjk"
        elif symbol.match(run):
            tokens, kind = [run], "symbol"
        else:
            tokens = _split_run(run)
            kind = _kind_of(tokens)
        yield Group(kind, run, tuple(tokens), match.start(), match.end())


def _kind_of(tokens: list[str]) -> GroupKind:
    whole = tokens[0]
    if whole.isdigit():
        return "number"
    if whole.isalpha():
        return "identifier" if len(tokens) > 1 else "word"
    if any(character.isdigit() for character in whole) or any(character in "_/\\@.:=~%+#" for character in whole):
        return "identifier"
    return "word"
