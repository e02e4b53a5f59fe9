"""Which profile facts a question asks for: a table of questions, and of words that ask for nothing."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_sqlite.recall.intents import wanted
from memory_sqlite.recall.topics import TOPICS, topics_of

SLOTS = [
    ("What's my name?", "identity:name"),
    ("what should you call me", "identity:called"),
    ("who am I?", "identity:name"),
    ("我叫什么名字？", "identity:name"),
    ("私の名前は？", "identity:name"),
    ("where do I live", "identity:home"),
    ("我住在哪里", "identity:home"),
    ("what do I do for a living?", "identity:job"),
    ("我在哪里工作？", "identity:employer"),
    ("how old am I", "identity:age"),
    ("when is my birthday?", "identity:birth"),
    ("what am I allergic to — I mean, am I allergic to nuts?", "identity:allergy:"),
    ("我对什么过敏", "identity:allergy:"),
    ("which languages do I speak?", "identity:language:"),
    ("what do you know about me?", "identity:"),
    ("你知道我什么？", "preference:"),
]
TOPIC = [
    ("what do I like to drink?", "drink"),
    ("我喜欢喝什么？", "drink"),
    ("好きな飲み物は何ですか", "drink"),
    ("I'm so hungry", "food"),
    ("what should I cook for dinner?", "food"),
    ("what is my favourite colour", "colour"),
    ("recommend me a novel", "book"),
    ("推荐一部电影", "film"),
    ("which sport do I enjoy?", "sport"),
    ("what music do I like?", "music"),
    ("which editor should I use?", "software"),
    ("what programming language do I prefer", "programming"),
]
ANY = ["what do I like?", "what are my preferences?", "我喜欢什么？", "私は何が好きですか？", "what things do I hate?"]
NOTHING = [
    "what is the name of the boat?", "where does Ana live?", "how old is the house?", "I like it", "make it like this",
    "what do I like about Berlin?", "how should I read this file?", "please read the book to the end", "", "!?",
    "the drinks are on the table", "why do I use tabs here", "他住在哪里", "这个路由器叫什么名字", "本を読んだ",
]  # fmt: skip


@pytest.mark.parametrize(("words", "slot"), SLOTS)
def test_questions_about_oneself_name_their_slots(words: str, slot: str) -> None:
    assert slot in wanted(words).slots


@pytest.mark.parametrize(("words", "topic"), TOPIC)
def test_questions_of_taste_name_their_topic(words: str, topic: str) -> None:
    found = wanted(words)
    assert topic in [one.name for one in found.topics]
    assert not found.any_preference


@pytest.mark.parametrize("words", ANY)
def test_a_question_of_taste_that_names_no_topic_asks_for_all(words: str) -> None:
    assert wanted(words).any_preference


@pytest.mark.parametrize("words", NOTHING)
def test_other_words_ask_for_nothing(words: str) -> None:
    found = wanted(words)
    assert (found.slots, found.any_preference) == ((), False)
    assert found.is_empty


@pytest.mark.parametrize(
    ("fact", "topic"),
    [("I love tea", "drink"), ("我喜欢喝茶", "drink"), ("コーヒーが好きです", "drink"), ("I hate mushrooms", "food"),
     ("I like green", "colour"), ("I enjoy detective novels", "book"), ("I prefer vim", "software")],
)  # fmt: skip
def test_facts_belong_to_their_topic(fact: str, topic: str) -> None:
    assert topic in [one.name for one in TOPICS if one.is_told_in(fact)]


def test_a_fact_of_something_else_belongs_to_no_topic_of_drinks() -> None:
    drink = next(topic for topic in TOPICS if topic.name == "drink")
    for fact in ("I love trains", "I like my team", "我喜欢火车", "I prefer steady work"):
        assert not drink.is_told_in(fact)
    assert topics_of("which train do i take") == ()


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=300))
def test_any_text_has_an_answer(text: str) -> None:
    assert wanted(text) == wanted(text)


@pytest.mark.parametrize("nasty", ["我" * 2_000, "do i " * 400, "my " * 700, "me recommend " * 150, "我最都" * 660])
def test_hostile_words_cost_no_time(nasty: str) -> None:
    started = time.thread_time()
    wanted(nasty)
    assert time.thread_time() - started < 0.2
