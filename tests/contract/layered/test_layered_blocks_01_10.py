"""Blocks 1 to 10 of section 13 of the layered-memory reference: text, extraction, configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memory_sqlite import errors
from memory_sqlite.clock import Clock
from memory_sqlite.config_layered import from_layered
from memory_sqlite.layers import compatible
from memory_sqlite.layers.keywords import keywords, score


def test_block_01_keywords_hold_whole_words_and_bigrams() -> None:
    assert {"人工智能", "人工", "机器"} <= set(keywords("人工智能 机器学习"))


def test_block_02_score_ignores_case() -> None:
    content = "I prefer python development"
    assert score("PYTHON", content, keywords(content)) > 0


def test_block_03_an_empty_query_scores_nothing() -> None:
    assert score("", "任意内容", keywords("任意内容")) == 0


def test_block_04_only_the_last_exchange_is_kept_as_plain_strings() -> None:
    messages = [
        {"role": "user", "content": "old question"},
        {"role": "assistant", "content": "old answer"},
        {"role": "user", "content": [{"type": "text", "text": "look at this"}, {"type": "image", "data": "…"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "a cat"}]},
    ]
    assert compatible.current_turn(messages) == [
        {"role": "user", "content": "look at this"},
        {"role": "assistant", "content": "a cat"},
    ]


def test_block_05_the_interval_counts_turns_of_each_session(make_host: Callable[..., Any]) -> None:
    """Interval 2: session a no, session b no, session a yes."""
    host = make_host(extraction_interval=2)
    made = []
    for run, session in enumerate(["a", "b", "a"]):
        host.append("main", session, f"r{run}", "请分析北京明天的天气")
        found = host.search("main", "北京", sessionKey=session)
        made.append(any(one["snippet"].startswith("[L2/scenario]") for one in found))
    assert made == [False, False, True]


def test_block_06_a_hundred_ids_are_distinct() -> None:
    clock = Clock()
    assert len({clock.record_id() for _ in range(100)}) == 100


def test_block_07_a_turn_with_scenario_makes_l1_and_l2(make_host: Callable[..., Any]) -> None:
    host = make_host(extraction_interval=1)
    host.append("main", "s1", "r1", "请分析北京明天的天气")
    labels = [one["snippet"].split("]")[0] + "]" for one in host.search("main", "北京", sessionKey="s1")]
    assert labels == ["[L1/episodic]", "[L2/scenario]"]


def test_block_08_the_fact_of_a_message_becomes_l3(host: Any) -> None:
    host.append("main", "s1", "r1", "我喜欢简洁的中文回答。明天天气如何？")
    snippets = [one["snippet"] for one in host.search("main", "简洁的中文", sessionKey="s1")]
    assert "[L3/profile] 我喜欢简洁的中文回答" in snippets


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("retentionDays", 1.5),
        ("maxSearchResults", 101),
        ("enabled", "false"),
        ("maxSearchBytes", 1024),
        ("maxReadLines", 0),
    ],
)
def test_block_09_a_wrong_value_is_refused_and_named(field: str, value: Any) -> None:
    with pytest.raises(errors.InvalidConfiguration, match=field):
        from_layered({field: value}, {})


def test_block_10_a_short_key_is_refused() -> None:
    with pytest.raises(errors.InvalidConfiguration, match="at least 32 bytes"):
        from_layered({"encryptionKeyEnv": "LAYERED_KEY"}, {"LAYERED_KEY": "too-short"})
