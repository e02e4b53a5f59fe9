"""Tool output shortened with a mark, where a turn does not fit otherwise: as little as is needed, the longest first.

What a person or the agent said is never shortened. Pure. Called by ``assemble``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from memory_sqlite.context.turn_units import TOOL_OUTPUT_ROLES
from memory_sqlite.text.units import cut_utf8, utf8_length
from memory_sqlite.transcripts.content import is_tool_result

Messages = list[Mapping[str, Any]]

_OUTPUT_KEYS: Final = ("content", "output")
_LEFT_OUT: Final = "[left out: no text]"


def shortened(messages: Sequence[Mapping[str, Any]], fits: Callable[[Messages], bool]) -> Messages | None:
    """The messages with every piece of tool output cut to the same number of bytes, the most that fits; ``None`` when
    they do not fit even without any."""
    low, high = 0, max((_longest(message) for message in messages), default=0)
    best = _cut(messages, 0)
    if not fits(best):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        tried = _cut(messages, middle)
        if fits(tried):
            best, low = tried, middle
        else:
            high = middle - 1
    return best


def _longest(message: Mapping[str, Any]) -> int:
    return max((_size(output) for output in _outputs(message)), default=0)


def _outputs(message: Mapping[str, Any]) -> list[Any]:
    if message.get("role") in TOOL_OUTPUT_ROLES:
        return [value for key, value in message.items() if key in (*_OUTPUT_KEYS, "details")]
    content = message.get("content")
    blocks = content if isinstance(content, list | tuple) else ()
    return [block.get(key) for block in blocks if is_tool_result(block) for key in _OUTPUT_KEYS if key in block]


def _size(value: Any) -> int:
    return utf8_length(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))


def _cut(messages: Sequence[Mapping[str, Any]], size: int) -> Messages:
    return [_cut_message(message, size) for message in messages]


def _cut_message(message: Mapping[str, Any], size: int) -> Mapping[str, Any]:
    if message.get("role") in TOOL_OUTPUT_ROLES:
        # details are for the host's own display: whole, or not at all
        kept = {key: value for key, value in message.items() if key != "details" or _size(value) <= size}
        return {key: _cut_output(value, size) if key in _OUTPUT_KEYS else value for key, value in kept.items()}
    content = message.get("content")
    if not isinstance(content, list | tuple) or not any(is_tool_result(block) for block in content):
        return message
    blocks = [
        {key: _cut_output(value, size) if key in _OUTPUT_KEYS else value for key, value in block.items()}
        if is_tool_result(block)
        else block
        for block in content
    ]
    return {**message, "content": blocks}


def _cut_output(value: Any, size: int) -> Any:
    if isinstance(value, str):
        return _cut_text(value, size)
    if isinstance(value, list | tuple):
        return [_cut_output(one, size) for one in value]
    if isinstance(value, Mapping) and isinstance(value.get("text"), str):
        return {**value, "text": _cut_text(value["text"], size)}
    if value is None or _size(value) <= size:
        return value
    return {"type": "text", "text": _LEFT_OUT} if isinstance(value, Mapping) else _LEFT_OUT


def _cut_text(text: str, size: int) -> str:
    before = utf8_length(text)
    if before <= size:
        return text
    mark = f"[shortened: {before} bytes before]"
    if before <= len(mark):
        return text  # the mark would be longer
    kept = cut_utf8(text, size)
    return f"{kept}\n{mark}" if kept else mark
