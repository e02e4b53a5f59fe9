"""Texts as the joined tokens that the lexical tables take.

Lives here: joining, line starts, and the memory of short texts that makes repeated ones free. Not here: splitting
(``search.tokens``) and rows. Called by ``rows`` and ``contexts``.
"""

from __future__ import annotations

from array import array
from functools import lru_cache
from typing import Final

from memory_sqlite.search.tokens import tokenise

_CACHED_CHARS: Final = 4_000


@lru_cache(maxsize=8192)
def _cached_tokens(text: str) -> tuple[str, int]:
    tokens = tokenise(text)
    return " ".join(tokens), len(tokens)


def joined_tokens(text: str) -> tuple[str, int]:
    """Joined tokens and their number. Short texts are remembered: overlapping chunks and windows repeat them."""
    if not text:
        return "", 0
    if len(text) <= _CACHED_CHARS:
        return _cached_tokens(text)
    tokens = tokenise(text)
    return " ".join(tokens), len(tokens)


def body_tokens(text: str) -> tuple[str, int, bytes]:
    """Tokens of a text with the token number at which each line begins (empty for a single line)."""
    if "\n" not in text:
        joined, count = joined_tokens(text)
        return joined, count, b""
    starts = array("I")
    parts: list[str] = []
    total = 0
    for line in text.split("\n"):
        starts.append(total)
        joined, count = joined_tokens(line)
        if count:
            parts.append(joined)
            total += count
    return " ".join(parts), total, starts.tobytes()


def heading_tokens(title: str, heading: str) -> str:
    if not title or heading.startswith(title):
        return joined_tokens(heading)[0]
    return joined_tokens(f"{title}\n{heading}")[0]
