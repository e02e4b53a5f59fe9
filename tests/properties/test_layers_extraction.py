"""Rules of the layers that hold for any text at all."""

from __future__ import annotations

import json
from typing import Any

import apsw.unicode as unicode_data
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_sqlite.layers import compatible, standard
from memory_sqlite.layers.extract import Mode, extract
from memory_sqlite.layers.keywords import keywords, score
from memory_sqlite.layers.sentences import own_speech, sentences
from memory_sqlite.text.secrets import find, mask, mask_json
from memory_sqlite.text.units import utf16_length, valid_unicode

PIECES = st.sampled_from(
    [
        *("@", "Authorization: ", "Bearer ", "my password is ", "postgres://ada:s3cret@h"),
        *("I like ", "I love tea", "my name is ", "Ada", "I don't like ", "Always ", "never ", "please don't ", "if "),
        *(
            "我喜欢",
            "我叫",
            "小明",
            "，",
            "。",
            "？",
            "请始终",
            "以后请",
            "我的",
            "私は",
            "が好き",
            "です",
            "、",
            "\n",
            "> ",
        ),
        *('"', "“", "”", "'", "`", "```\n", "「", "」", " ", ". ", "! ", "? ", ", and ", "password", ": ", "=", " is "),
        *("hunter2", "token", "密码", "是", "PIN ", "4711", "AKIA", "IOSFODNN7EXAMPLE", "://u:", "@h", "key", "sk-"),
        *(
            "[secret:",
            "password]",
            "a1b2c3d4e5f6g7h8",
            "0123456789abcdef0123456789abcdef",
            "eyJ",
            "4111 1111 1111 1111",
        ),
        *("👩‍👩‍👧", "𠮷", "\ud842", "\udfb7", "\x00", "\u0301", "\ufffc", "passphrase", " correct horse battery"),
    ]
)
TEXTS = st.one_of(
    st.text(st.characters(), max_size=200),
    st.lists(PIECES, max_size=30).map("".join),
    st.lists(PIECES, max_size=3).map("".join),
)
MODES: st.SearchStrategy[Mode] = st.sampled_from(["standard", "layered-memory"])


@settings(max_examples=300, deadline=None)
@given(TEXTS, MODES, st.booleans())
def test_extract_never_raises_and_facts_are_pieces_of_the_text(text: str, mode: Mode, trusted: bool) -> None:
    done = extract(text, mode=mode, trusted=trusted)
    assert len(done.facts) <= 8
    said = "".join(valid_unicode(text).split())
    for fact in done.facts:
        assert "".join(valid_unicode(fact.content).split()) in said
        assert trusted or fact.kind != "instruction"
        if mode == "standard":
            assert fact.slot
            assert fact.value
            assert not find(fact.content)


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_mask_is_idempotent_and_leaves_no_secret(text: str) -> None:
    masked, count = mask(text)
    assert find(masked) == []
    assert mask(masked) == (masked, 0)
    assert (count == 0) == (masked == text)


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_finds_are_in_order_inside_the_text_and_do_not_overlap(text: str) -> None:
    position = 0
    for start, end, kind in find(text):
        assert position <= start < end <= len(text)
        assert kind
        position = end


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.integers(0, 60))
def test_standard_episodes_are_valid_bounded_and_never_split_a_grapheme(text: str, padding: int) -> None:
    whole = ("x" * (1_990 - padding)) + text * 3
    episode = standard.episode(whole)
    assert episode is not None
    content, words = episode
    content.encode("utf-8")
    " ".join(words).encode("utf-8")
    assert utf16_length(content) <= 2_000
    source = mask(valid_unicode(whole).strip())[0]
    assert source.startswith(content)
    at = position = 0
    while position < len(content):
        at, position = position, unicode_data.grapheme_next_break(source, position)
    assert position == len(content) or source[len(content) : position].strip() == "" or at == len(content)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(TEXTS, max_size=3), max_size=6))
def test_scenarios_are_bounded_valid_and_hold_no_secret(turns: list[list[str]]) -> None:
    content, words = standard.scenario(turns)
    content.encode("utf-8")
    " ".join(words).encode("utf-8")
    assert utf16_length(content) <= 2_000
    assert len(words) <= 64
    assert bool(content) == any(valid_unicode("\n".join(turn)).strip() for turn in turns)


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_covering_keeps_length_and_sentences_stay_in_order(text: str) -> None:
    covered = own_speech(text)
    assert len(covered) == len(text)
    position = 0
    for sentence in sentences(covered):
        assert position <= sentence.start < sentence.end <= len(text)
        position = sentence.end


@settings(max_examples=200, deadline=None)
@given(TEXTS, TEXTS)
def test_compatible_rules_never_raise_and_stay_in_their_bounds(text: str, query: str) -> None:
    words = keywords(text)
    assert len(words) == len(set(words)) <= 64
    assert all(utf16_length(word) >= 2 for word in words)
    assert 0.0 <= score(query, text, words) <= 1.0
    assert len(compatible.facts(text)) <= 8
    episode = compatible.episode(text)
    assert (episode is None) == (words == [])
    compatible.scenario([text, query])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(TEXTS | st.just("password"), children, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(JSON)
def test_mask_json_keeps_the_shape_and_is_idempotent(value: Any) -> None:
    before = json.dumps(value)
    masked, count = mask_json(value)
    assert json.dumps(value) == before
    assert type(masked) is type(value) or count > 0
    assert mask_json(masked) == (masked, 0)
    assert (count == 0) == (masked == value)
