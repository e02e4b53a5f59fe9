"""What automatic recall puts before a prompt, in the product's two forms, and taking it out again when it comes back.

Facts: section 6.2 of the layered-memory reference (tags, line form, budgets, labels). The notice is ours; content is
escaped and one line each, so that no stored text can close the block or look like another entry. Called by ``hooks``
and ``agents``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

from memory_sqlite.text.frame import ITEM, LAYERED_NOTICE, LAYERED_TAG, close_frame, one_line, whole_escapes
from memory_sqlite.text.units import cut_utf8, cut_utf16, utf8_length, utf16_length

FIXED_UNITS: Final = utf16_length(f"<{LAYERED_TAG}>\n{LAYERED_NOTICE}\n\n</{LAYERED_TAG}>")
"""What the frame itself takes of ``autoRecallMaxChars``: 97, as in the product."""

_SENTENCE_ENDS: Final = tuple("。！？.!?")
_HISTORY: Final = "Untrusted history: "
_HISTORY_LINES: Final = re.compile(rf"(?:\[memory:[^\]\s]*\] {_HISTORY}[^\n]*(?:\n|\Z))+\n*")
_URI_COMPONENT: Final = "/!~*'()"
"""What JavaScript's encodeURIComponent leaves alone beside what ``quote`` always does, and the slash, which is kept."""


def framed(results: Sequence[dict[str, Any]], max_chars: int) -> str:
    """The marker block, at most ``max_chars`` UTF-16 units with its frame; empty when nothing fits."""
    left = max_chars - FIXED_UNITS
    lines: list[str] = []
    for result in results:
        label = f"{ITEM}{one_line(str(result.get('citation') or 'memory'))}] "
        room = left - utf16_length(label) - (1 if lines else 0)
        text = _ended(one_line(result["snippet"]))
        if utf16_length(text) > room:
            text = whole_escapes(cut_utf16(text, max(0, room)))
        if not text.strip():
            break
        lines.append(label + text)
        left = room - utf16_length(text)
    return close_frame(lines, notice=LAYERED_NOTICE, tag=LAYERED_TAG)


def budgeted(results: Sequence[dict[str, Any]], max_bytes: int) -> str:
    """The form without a frame for a budget of ``max_bytes`` UTF-8 bytes: one labelled line a source."""
    text = ""
    seen: set[str] = set()
    for result in results:
        source = str(result.get("citation") or result["snippet"])
        if source in seen:
            continue
        seen.add(source)
        label = ("\n" if text else "") + f"[memory:{quote(source, safe=_URI_COMPONENT)}] {_HISTORY}"
        room = max_bytes - utf8_length(text) - utf8_length(label)
        words = _ended(one_line(result["snippet"]))
        if utf8_length(words) > room:
            words = whole_escapes(cut_utf8(words, max(0, room)))
        if words:
            text += label + words
    return text


def without_history(text: str) -> str:
    """A person's words without the labelled lines that a host put before them."""
    match = _HISTORY_LINES.match(text)
    return text[match.end() :] if match else text


def _ended(text: str) -> str:
    return text if text.endswith(_SENTENCE_ENDS) else text + "。"
