"""What is assembled is within its budget, whatever the messages, the budget and the tokenizer."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_sqlite import Memory, errors
from memory_sqlite.clock import FixedClock
from memory_sqlite.config import Settings

TOKENIZERS: dict[str, Callable[[str], int] | None] = {
    "none": None,
    "words": lambda text: len(text.split()),
    "characters": len,
    "quarters": lambda text: -(-len(text) // 4),
    "constant": lambda text: 7,
    "nothing": lambda text: 0,
    "rubbish": lambda text: -1,
    "raises": lambda text: 1 // 0,
    "wavering": lambda text: len(text) * (1 + len(text) % 3),
}
CALLS = ["c1", "c2", "c3"]
WORDS = st.sampled_from(["harbour", "the quay crane", "花梨はどこ？", "𝄞 note", "a\nb", ""])
TEXTS = st.lists(WORDS, max_size=30).map(" ".join)
BLOCKS = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, TEXTS),
    st.builds(
        lambda name, text: {"type": "tool_use", "id": name, "input": {"path": text}}, st.sampled_from(CALLS), TEXTS
    ),
    st.builds(
        lambda name, text: {"type": "tool_result", "tool_use_id": name, "content": [{"type": "text", "text": text}]},
        st.sampled_from(CALLS),
        TEXTS,
    ),
    st.builds(lambda text: {"type": "image", "data": text * 20}, TEXTS),
)
CONTENT = st.one_of(TEXTS, st.lists(BLOCKS, max_size=4), st.none())
MESSAGES = st.lists(
    st.one_of(
        st.builds(
            lambda role, content: {"role": role, "content": content}, st.sampled_from(["user", "assistant"]), CONTENT
        ),
        st.builds(
            lambda name, text: {"role": "toolResult", "toolCallId": name, "content": text, "details": {"all": text}},
            st.sampled_from(CALLS),
            TEXTS,
        ),
        st.builds(lambda role: {"role": role, "content": "rule"}, st.sampled_from(["system", "compactionSummary"])),
    ),
    max_size=14,
)


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    """A memory with something to recall for every prompt."""
    with (
        tempfile.TemporaryDirectory() as place,
        Memory.open(settings=Settings(data_dir=Path(place) / "data"), clock=FixedClock()) as opened,
    ):
        for number in range(6):
            opened.remember(
                session="s",
                chat_type="direct",
                sender_is_owner=True,
                messages=[{"role": "user", "content": f"I love the quay crane of harbour {number}."}],
            )
        yield opened


def texts(value: Any) -> Iterator[str]:
    """Every text of a value, but for pictures: what a model is at least shown."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if key != "data":
                yield from texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from texts(inner)


def at_least(tokenizer: Callable[[str], int] | None, value: Any) -> int:
    total = 0
    for text in texts(value):
        try:
            count = tokenizer(text) if tokenizer is not None and text else len(text.encode())
        except ZeroDivisionError:
            count = -1
        total += count if count >= 0 else len(text.encode())
    return total


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(messages=MESSAGES, budget=st.integers(1, 3_000), prompt=st.one_of(st.none(), TEXTS))
def test_never_over_budget(
    memory: Memory, name: str, messages: list[dict[str, Any]], budget: int, prompt: str | None
) -> None:
    """What comes out is within the estimate, and the estimate within the budget; messages come out in their order and
    whole, but for shortened tool output; a result comes out with its call. Or it is ``BudgetTooSmall``."""
    tokenizer = TOKENIZERS[name]
    engine = memory.context_engine(count_tokens=tokenizer)
    before = json.dumps(messages)
    try:
        result = asyncio.run(engine.assemble(session_id="s", messages=messages, token_budget=budget, prompt=prompt))
    except errors.BudgetTooSmall:
        assert messages
        return
    finally:
        assert json.dumps(messages) == before, "the host's messages are its own"
    shown = [*result.messages, result.system_prompt_addition or ""]
    assert at_least(tokenizer, shown) <= result.estimated_tokens <= budget
    whole = [message for message in result.messages if message in messages]
    places = [
        next(i for i, m in enumerate(messages) if m is message)
        for message in whole
        if any(m is message for m in messages)
    ]
    assert places == sorted(places)
    for message in result.messages:
        if message not in messages:
            assert "shortened:" in str(message) or "left out:" in str(message) or "details" not in message
    if messages and len(result.messages) < len(messages):
        rest = [m for m in messages if m["role"] not in ("system", "compactionSummary")]
        if rest and result.messages:
            assert result.messages[-1]["role"] == rest[-1]["role"] or rest[-1] is not messages[-1]


@settings(max_examples=100, deadline=None)
@given(messages=MESSAGES)
def test_units_are_the_messages_cut_and_tie_results_to_calls(messages: list[dict[str, Any]]) -> None:
    """Every message in one unit, in order; a result's unit is that of the last call of its id before it."""
    from memory_sqlite.context.turn_units import units

    cut = units(messages)
    assert [index for unit in cut for index in unit] == list(range(len(messages)))
    unit_of = {index: number for number, unit in enumerate(cut) for index in unit}
    called: dict[str, int] = {}
    for index, message in enumerate(messages):
        content = message["content"]
        blocks = content if isinstance(content, list) else []
        wanted = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        wanted += [message["toolCallId"]] if message["role"] == "toolResult" else []
        for name in wanted:
            if name in called:
                assert unit_of[called[name]] == unit_of[index]
        for block in blocks:
            if block["type"] == "tool_use":
                called[block["id"]] = index
