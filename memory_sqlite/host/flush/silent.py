"""Whether an answer says that there is nothing to say: the token ``NO_REPLY`` in the forms models give it.

Forms of section 3.7 of the contract. Not here: which text is the final one (``evidence``). Called by ``evidence``.
"""

from __future__ import annotations

import json
import re
import string
import unicodedata
from typing import Final

TOKEN: Final = "NO_REPLY"
_LONGEST: Final = 4_096
"""A longer answer is no silence, whatever it holds after its reasoning."""

_REASONING: Final = re.compile(r"\s*<(think|thinking|thought|reasoning)\b[^>]*>.*?</\1\s*>", re.DOTALL | re.IGNORECASE)
_REPEATED: Final = re.compile(rf"{TOKEN}(?:\s+{TOKEN})*", re.IGNORECASE)


def is_silent(text: str | None) -> bool:
    """True for the token alone (any case, repeated, amid white space and punctuation), for it as a JSON string, for
    ``{"action": …}`` with it and nothing else, and for any of these after reasoning in tags."""
    if text is None:
        return False
    start = 0
    while (found := _REASONING.match(text, start)) is not None:
        start = found.end()
    text = text[start:].strip()
    if not text or len(text) > _LONGEST:
        return False
    return _REPEATED.fullmatch(_without_edges(text)) is not None or _is_action(text)


def _without_edges(text: str) -> str:
    start, end = 0, len(text)
    while start < end and _is_edge(text[start]):
        start += 1
    while end > start and _is_edge(text[end - 1]):
        end -= 1
    return text[start:end]


def _is_edge(character: str) -> bool:
    return character.isspace() or character in string.punctuation or unicodedata.category(character).startswith("P")


def _is_action(text: str) -> bool:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value == {"action": TOKEN}
