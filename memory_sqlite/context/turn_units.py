"""Messages cut into what is kept or left out together: turns, and turns that a tool call ties to its result.

Pure. Called by ``assemble``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from memory_sqlite.transcripts.content import is_tool_result
from memory_sqlite.transcripts.normalise import TOOL_ROLES

TOOL_OUTPUT_ROLES: Final = TOOL_ROLES | {"bashExecution"}
_CALL_IDS: Final = ("id", "call_id", "toolCallId")
_RESULT_IDS: Final = ("toolCallId", "tool_call_id", "tool_use_id", "call_id")


def is_person(message: Mapping[str, Any]) -> bool:
    """Whether a person speaks: the ``user`` role, unless it only carries tool results."""
    if message.get("role") != "user":
        return False
    content = message.get("content")
    return not (isinstance(content, list | tuple) and content and all(is_tool_result(block) for block in content))


def holds_call(message: Mapping[str, Any]) -> bool:
    """Whether a message calls a tool, so that something follows it."""
    return next(_calls(message), None) is not None


def units(messages: Sequence[Mapping[str, Any]]) -> list[range]:
    """The indexes of each unit, oldest first. A person's message after somebody else's begins a turn; turns between a
    call and its result stay with both."""
    starts = [
        index
        for index, message in enumerate(messages)
        if index == 0 or (is_person(message) and not is_person(messages[index - 1]))
    ]
    ties = _ties(messages)
    kept = [start for start in starts if not any(call < start <= result for call, result in ties)]
    return [range(start, end) for start, end in itertools.pairwise([*kept, len(messages)])]


def _ties(messages: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Pairs of message indexes, a call's and its result's, where another message is between them."""
    called: dict[str, int] = {}
    ties = []
    for index, message in enumerate(messages):
        for named in _results(message):
            if named in called and called[named] < index:
                ties.append((called[named], index))
        for named in _calls(message):
            called[named] = index
    return _across_turns(messages, ties)


def _across_turns(messages: Sequence[Mapping[str, Any]], ties: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Most results follow their call in its own turn; only the others hold turns together."""
    turns, turn = [], 0
    for message in messages:
        turn += is_person(message)
        turns.append(turn)
    return [(call, result) for call, result in ties if turns[call] != turns[result]]


def _calls(message: Mapping[str, Any]) -> Iterator[str]:
    content = message.get("content")
    blocks = [block for block in content if not is_tool_result(block)] if isinstance(content, list | tuple) else []
    more = message.get("tool_calls")
    for block in (*blocks, *(more if isinstance(more, list | tuple) else ())):
        yield from _named(block, _CALL_IDS)


def _results(message: Mapping[str, Any]) -> Iterator[str]:
    if message.get("role") in TOOL_OUTPUT_ROLES:
        yield from _named(message, _RESULT_IDS)
    content = message.get("content")
    for block in content if isinstance(content, list | tuple) else ():
        if is_tool_result(block):
            yield from _named(block, _RESULT_IDS)


def _named(value: Any, keys: Sequence[str]) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from (named for key in keys if isinstance(named := value.get(key), str) and named)
