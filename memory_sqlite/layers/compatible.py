"""Extraction as the layered-memory product does it, weaknesses included: the ``layered-memory`` mode.

Pure rules, no masking of secrets, no supersession. The repaired rules are in ``layers.standard``. Called by
``layers.extract`` and by the compatible importer and manager face. Source of every rule: the behavioural reference of
that product, sections 2.2 and 3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from memory_sqlite.layers.keywords import JS_WHITESPACE, joined_surrogates, js_trim, keywords
from memory_sqlite.limits import EPISODE_MAX_UNITS, FACTS_PER_MESSAGE_MAX
from memory_sqlite.text.units import utf16_cut

__all__ = ["current_turn", "episode", "fact_kind", "facts", "js_trim", "scenario"]

SCENARIO_KEYWORDS: Final = 12

_INSTRUCTION_TRIGGERS: Final = ("请始终", "请不要", "以后请")
_IDENTITY_TRIGGERS: Final = ("我的", "我叫")
_REST: Final = r"[^。！？!?\n]{2,120}"
_FAMILIES: Final = (
    re.compile("(?:我喜欢|我偏好|我习惯|我不喜欢|我讨厌|请始终|请不要|以后请)" + _REST),
    re.compile("(?:我的|我叫)" + _REST),
    # ASCII case only: the triggers are English words, and Turkish dotless letters are not theirs
    re.compile(
        rf"(?:I prefer|I like|I dislike|My name is|Always|Never)[{JS_WHITESPACE}]+[^.!?\n]{{2,120}}",
        re.IGNORECASE | re.ASCII,
    ),
)


def _flat(content: Any) -> str:
    if isinstance(content, str):
        return js_trim(content)
    if not isinstance(content, list | tuple):
        return ""
    parts = []
    for part in content:
        text = part.get("text") if isinstance(part, Mapping) and part.get("type") == "text" else part
        if isinstance(text, str) and text:
            parts.append(text)
    return js_trim("\n".join(parts))


def current_turn(messages: Sequence[Any]) -> list[dict[str, str]]:
    """The current turn of a host's message list: from the last ``user`` message to the end, as role and plain text.

    Elements that are no mapping or have no string ``role`` are skipped, as are messages without text. Without a user
    message only the last message is kept. Section 2.2.
    """
    said = [
        {"role": message["role"], "content": _flat(message.get("content"))}
        for message in messages
        if isinstance(message, Mapping) and isinstance(message.get("role"), str)
    ]
    said = [message for message in said if message["content"]]
    for index in range(len(said) - 1, -1, -1):
        if said[index]["role"] == "user":
            return said[index:]
    return said[-1:]


def episode(text: str) -> tuple[str, tuple[str, ...]] | None:
    """L1 of one user message: its first 2,000 UTF-16 units and the keywords of the whole; ``None`` without keywords.

    The cut may leave a lone surrogate, as the product's does. Section 3.1.
    """
    words = keywords(text)
    return (utf16_cut(text, EPISODE_MAX_UNITS), tuple(words)) if words else None


def scenario(user_texts: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """L2 of the user messages of the current turn (not of the last n turns). Section 3.2."""
    joined = utf16_cut("；".join(user_texts), EPISODE_MAX_UNITS)
    words = keywords(joined)
    return f"会话场景：{'、'.join(words[:SCENARIO_KEYWORDS])}。最近用户输入：{joined}", tuple(words)


def facts(text: str) -> list[str]:
    """L3 of one user message: at most eight, all of the first rule family before the second and third. Section 3.3.

    Nothing is rejected: questions, conditions and quotations count, and facts of different families may overlap.
    """
    whole = joined_surrogates(text)
    found: dict[str, None] = {}
    for family in _FAMILIES:
        for match in family.finditer(whole):
            found[js_trim(match.group())] = None
            if len(found) == FACTS_PER_MESSAGE_MAX:
                return list(found)
    return list(found)


def fact_kind(fact: str) -> Literal["preference", "identity", "instruction"]:
    """What a fact from ``facts`` is, told by its trigger. The product keeps no kind; the store's records do."""
    lowered = fact.lower()
    if fact.startswith(_INSTRUCTION_TRIGGERS) or lowered.startswith(("always", "never")):
        return "instruction"
    if fact.startswith(_IDENTITY_TRIGGERS) or lowered.startswith("my name is"):
        return "identity"
    return "preference"
