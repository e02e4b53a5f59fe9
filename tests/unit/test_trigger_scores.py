"""Scores of trigger phrases, which entries they recall, and the lines that come of it."""

from __future__ import annotations

import pytest

from memory_sqlite import limits
from memory_sqlite.recall.project_candidates import active_keys
from memory_sqlite.recall.recalled_lines import framed, safe_line
from memory_sqlite.recall.trigger_scores import Message, chosen, match, without_duplicates
from memory_sqlite.runtime.shapes import AutomaticRecall, Citation, ProviderHit, Reference
from memory_sqlite.text.frame import CLOSE, one_line, strip_frames
from memory_sqlite.text.units import utf16_length


def entry(name: str, triggers: str | None = None, score: float | None = None, **recall: object) -> ProviderHit:
    said = AutomaticRecall(**{"eligible": True, "triggers": triggers, **recall})  # type: ignore[arg-type]
    return ProviderHit(Reference("records", name), f"Entry {name}.", score, automatic_recall=said)


@pytest.mark.parametrize(
    ("message", "phrase", "score"),
    [
        ("is the router on?", "router", 0.85),
        ("is the ROUTER on?", "Router", 0.85),
        ("is it on?", "router", 0.0),
        ("the release is near", "release window", 0.8 * 0.5 + 0.2 * 0.5),
        ("the release window opens", "release window", 1.0),
        ("a b c", "a", 0.0),
        ("router", "  ", 0.0),
        ("three of four words here", "three of four missing", 0.8 * 0.75 + 0.2),
    ],
)
def test_a_phrase_scores_by_the_share_that_occurs(message: str, phrase: str, score: float) -> None:
    """The product's formula: 0.85 for one word; else 0.8 of the share and 0.2 once two occur. Single letters do not
    count."""
    assert Message(message).score(phrase) == pytest.approx(score)


@pytest.mark.parametrize(
    ("message", "phrase"),
    [
        ("我想喝茶", "茶"),
        ("我想喝咖啡", "咖啡"),
        ("振り返り会議はいつ", "振り返り会議"),
        ("회의는 언제야?", "회의"),
        ("is the deployment done", "deploy"),
        ("any allergies?", "allergy"),
        ("the boxes came", "box"),
        ("two releases", "release"),
        ("ＶＬＡＮの設定", "vlan 設定"),
        ("मुझे पानी चाहिए", "पानी"),
        ("எனக்கு நீர் வேண்டும்", "நீர்"),
        ("ကော်ဖီ သောက်ချင်တယ်", "ကော်ဖီ"),
        ("أريد قَهْوَة", "قهوة"),
        ("אני רוצה קָפֶה", "קפה"),
        ("a naive plan", "naïve"),
        ("數據庫在哪", "数据库"),
    ],
)
def test_words_are_found_where_the_product_loses_them(message: str, phrase: str) -> None:
    """Scripts without spaces or with vowel signs, other spellings, and the commonest endings of English words."""
    assert match(Message(message), entry("1", phrase)) >= 0.65


@pytest.mark.parametrize(
    ("message", "phrase"), [("the passport office", "pass"), ("bus stop", "bu"), ("number", "numb")]
)
def test_other_words_are_other_words(message: str, phrase: str) -> None:
    assert Message(message).score(phrase) == 0.0


def test_the_best_phrase_counts_and_relevance_adds_a_fifth() -> None:
    """A lone word passes by itself, half of two words does not even with full relevance."""
    message = Message("is the router on?")
    assert match(message, entry("1", "lamp; router\nwindow|door")) == pytest.approx(0.68)
    assert match(message, entry("1", "router", 7.0)) == pytest.approx(0.88)
    assert match(message, entry("1", "router", -3.0)) == pytest.approx(0.68)
    assert match(message, entry("1", "router password", 1.0)) < 0.65
    both = [entry("1", "router password", 1.0), entry("2", "router")]
    assert [hit.reference.id for hit in chosen("is the router on?", both, frozenset())] == ["2"]
    assert match(message, entry("1", None, 1.0)) == pytest.approx(0.2)


def test_of_two_copies_the_eligible_one_counts_then_the_higher_score() -> None:
    """Copies are of one reference, revision and fragment included."""
    plain = ProviderHit(Reference("records", "1"), "x", 0.9)
    low, high = entry("1", "a", 0.1), entry("1", "a", 0.5)
    assert without_duplicates([plain, low, high]) == [high]
    assert without_duplicates([high, plain]) == [high]
    other = ProviderHit(Reference("records", "1", fragment="2"), "x")
    older = ProviderHit(Reference("records", "1", revision="1"), "x")
    theirs = ProviderHit(Reference("others", "1"), "x")
    assert len(without_duplicates([plain, other, older, theirs])) == 4


def test_at_most_three_the_best_first() -> None:
    hits = [entry(f"{n}", "router", n / 10) for n in range(5)]
    assert [hit.reference.id for hit in chosen("router?", hits, frozenset())] == ["4", "3", "2"]
    even = [entry("b", "router"), entry("a", "router"), entry("z", "router", importance=3)]
    assert [hit.reference.id for hit in chosen("router?", even, frozenset())] == ["z", "a", "b"]


def test_entries_of_projects_need_all_of_them_active() -> None:
    hits = [entry("1", "router", project_keys=("Mill", "harbor")), entry("2", "router", project_keys=())]
    assert [hit.reference.id for hit in chosen("router", hits, active_keys(["mill "]))] == ["2"]
    assert len(chosen("router", hits, active_keys(["mill", "HARBOR"]))) == 2


@pytest.mark.parametrize(
    "text", ["a & b", "<b>", "a &amp; b", "&amp;lt;", "&lt;x", "&ltx", "&", "&am", "a\n\u202eb", CLOSE]
)
def test_an_excerpt_is_made_harmless_once(text: str) -> None:
    """What is harmless already comes out as it is; everything else has no markup, no line break, no control."""
    line = safe_line(text)
    assert safe_line(line) == line and "<" not in line and ">" not in line and "\n" not in line
    assert safe_line(one_line(text)) == one_line(text)


def test_lines_stay_in_their_budget_and_labels_cannot_be_closed() -> None:
    hit = ProviderHit(Reference("records", "1"), "word " * 400, citations=(Citation("a] b\n[c"),))
    whole = framed([hit, hit], entry_units=100, total_units=450)
    assert "- [a) b (c] word" in whole.text and utf16_length(whole.text) <= 450 and len(whole.hits) == 2
    assert strip_frames(f"before\n{whole.text}\nafter") == "before\nafter"
    assert framed([hit], entry_units=None, total_units=160).text == ""
    assert framed([], entry_units=None, total_units=450).text == ""
    empty = ProviderHit(Reference("records", "2"), " \n ")
    assert framed([empty], entry_units=None, total_units=450).hits == ()


def test_of_a_huge_entry_no_more_is_looked_at_than_can_show() -> None:
    """It is marked as cut though white space hid how long it was; phrases past the bound do not count."""
    hit = ProviderHit(Reference("records", "1"), "word" + " " * 9_000 + "more", citations=(Citation("x" * 10**6),))
    assert framed([hit], entry_units=100, total_units=450).hits == ()
    short = ProviderHit(Reference("records", "1"), "word" + " " * 9_000 + "more")
    assert "] word…" in framed([short], entry_units=100, total_units=450).text
    assert Message("router").best(" " * limits.TRIGGER_PHRASES_CHARS + ";router") == 0.0
