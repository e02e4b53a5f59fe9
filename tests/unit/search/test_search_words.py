"""Finding by words: identifiers first, misspellings, beginnings, phrases, dates, triggers, headings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from memory_sqlite.model import Chunk
from memory_sqlite.search.explain import explain
from memory_sqlite.search.filters import OPERATOR, Filters, Viewer
from memory_sqlite.search.vocabulary import Vocabulary, distance

Make = Callable[[Mapping[str, str]], Any]


def readings(index: Any, query: str) -> list[tuple[str, str]]:
    """The terms of a query: what they are, and how they were read."""
    explained, _ = explain(index.connection, query, Filters(OPERATOR), now_ms=0, max_results=6, max_bytes=1 << 20)
    return [(term.kind, term.reading) for term in explained.terms]


def test_an_identifier_comes_first_whole_then_in_parts(make_index: Make) -> None:
    """The exact code is above every text that holds its pieces, however often."""
    index = make_index(
        {
            "memory/exact.md": "Some long entry, and in the middle of it TCK-0941-04 was closed by the night shift.",
            "memory/pieces.md": "TCK 0941 04 TCK 0941 04 TCK 0941 04",
            "memory/near.md": "TCK-0941-05 TCK-0942-04 TCK-0941-05",
        }
    )
    hits, _ = index.search("TCK-0941-04")
    assert hits[0].path == "memory/exact.md"
    assert hits[0].score >= 0.5
    assert index.paths("what about TCK-0941-04?")[0] == "exact.md"


@pytest.mark.parametrize(
    "query", ["resolveLedgerCursor", "LedgerCursor", "cursor.ts", "ledger/cursor.ts", "--no-verify-cursor", "E_42"]
)
def test_pieces_of_identifiers_find_them(make_index: Make, query: str) -> None:
    """Any run of neighbouring parts of a name in code is enough."""
    index = make_index(
        {
            "memory/code.md": "`resolveLedgerCursor()` in src/ledger/cursor.ts: E_42; use --no-verify-cursor.",
            "memory/other.md": "The cursor of the ledger was fine; nothing to verify, no file touched at step 42.",
        }
    )
    assert index.paths(query)[0] == "code.md"


def test_three_letters_have_too_many_neighbours(make_index: Make) -> None:
    """From four on a word that occurs nowhere is tried with another letter."""
    index = make_index({"memory/a.md": "The cat sleeps.", "memory/b.md": "The lamp glows."})
    assert index.paths("cot") == []
    assert index.paths("lump") == ["b.md"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("rooter vlna", "net.md"),
        ("grenhouse", "green.md"),
        ("greenh", "green.md"),
        ("configur", "net.md"),
        ("vlan*", "net.md"),
    ],
)
def test_misspelt_and_unfinished_words(make_index: Make, query: str, expected: str) -> None:
    """Words that occur nowhere are tried as beginnings, then one or two edits away."""
    index = make_index(
        {"memory/net.md": "The router VLANs were configured.", "memory/green.md": "The greenhouse door code is 4711."}
    )
    assert index.paths(query)[0] == expected


def test_a_word_that_occurs_is_not_stretched(make_index: Make) -> None:
    """``deploy`` finds ``deployed`` by its stem and not ``depot`` by its letters."""
    index = make_index({"memory/a.md": "It was deployed.", "memory/b.md": "The depot employs twelve."})
    assert index.paths("deploy") == ["a.md"]
    assert index.paths("walrus") == []


def test_expansions_survive_stemming(make_index: Make) -> None:
    """A stem that would stem further (``greenhous``) is asked by a word that leads to it."""
    vocabulary = Vocabulary(make_index({"memory/a.md": "greenhouse policies agreed running"}).connection)
    for word in ("greenhouse", "policies", "agreed", "running"):
        stem = vocabulary.stem(word)
        spelling = vocabulary.spelling(stem)
        assert spelling is not None
        assert vocabulary.stem(spelling) == stem


def test_distance_counts_a_swap_as_one() -> None:
    """Optimal string alignment, with an early end."""
    assert distance("vlna", "vlan", 2) == 1
    assert distance("rooter", "router", 2) == 1
    assert distance("kitten", "sitting", 3) == 3
    assert distance("abc", "xyz", 1) == 2


def test_titles_headings_and_triggers_find_their_entry(index: Any, note: Any) -> None:
    """What stands above or beside a text finds it (peer weakness W8)."""
    index.put(
        note("memory/a.md", "", chunks=[Chunk("Only on Tuesdays.", 4, 4, triggers=("release window", "deploy"))]),
        note("memory/b.md", "", chunks=[Chunk("Never before noon.", 2, 3, heading="House > Allergies")]),
        note("memory/c.md", "Nothing to see.", title="Quarterly planning"),
        note("memory/people.md", "Ten names."),
    )
    assert index.paths("release window")[0] == "a.md"
    assert index.paths("any allergies?")[0] == "b.md"
    assert index.paths("quarterly planning")[0] == "c.md"
    assert index.paths("people.md")[0] == "people.md"
    assert index.search("deploy")[0][0].triggers == ("release window", "deploy")


def test_dates_in_words_find_dated_notes(index: Any, note: Any) -> None:
    """A day or month in words agrees with the date of a note (peer weakness W9)."""
    index.put(
        note("memory/2026-11-28.md", "Met with Jonas.", at=1_795_824_000_000),
        note("memory/2026-06-02-router.md", "Set it up.", at=1_780_358_400_000),
        note("memory/plan.md", "Chapter 28 of the November plan."),
    )
    assert index.paths("what happened on November 28")[0] == "2026-11-28.md"
    assert index.paths("June 2026")[0] == "2026-06-02-router.md"
    assert index.paths("11月28日")[0] == "2026-11-28.md"
    assert index.paths("the day before yesterday")[0] == "2026-11-28.md"


def test_emoji_and_symbols_are_words(make_index: Make) -> None:
    """One emoji is enough; C++ and C# are not C."""
    index = make_index(
        {
            "memory/a.md": "Launch 🚀 at dawn",
            "memory/b.md": "C++ linker",
            "memory/c.md": "C# and ☕",
            "memory/d.md": "vitamin C",
        }
    )
    assert index.paths("🚀") == ["a.md"]
    assert index.paths("☕") == ["c.md"]
    assert index.paths("C++") == ["b.md"]
    assert index.paths("C#") == ["c.md"]


def test_a_question_in_chinese_finds_its_answer(make_index: Make) -> None:
    """No spaces needed: bigrams of the question are enough, and function words alone find nothing."""
    index = make_index(
        {
            "memory/a.md": "服务器部署在上海机房，端口是8443。",
            "memory/b.md": "用户喜欢喝龙井茶，不喝咖啡。",
            "memory/c.md": "周末要去爬山，天气预报说会下雨。",
        }
    )
    assert index.paths("服务器在哪个机房")[0] == "a.md"
    assert index.paths("用户喜欢喝什么茶")[0] == "b.md"
    assert index.paths("8443") == ["a.md"]
    # two characters of which only one is there are not a match once the pair itself is somewhere
    assert index.paths("爬山") == ["c.md"]


def test_capitals_make_a_name_of_a_stop_word(make_index: Make) -> None:
    """IT and US in capitals are looked for; AND in capitals is an operator out of habit."""
    index = make_index({"memory/a.md": "The IT department moved.", "memory/b.md": "Bread and butter."})
    assert index.paths("IT")[0] == "a.md"
    assert index.paths("AND") == []
    assert index.paths('"bread and butter"') == ["b.md"]


def test_a_phrase_that_nothing_holds_is_relaxed_in_a_question(index: Any, note: Any) -> None:
    """A question that quotes a title asks for more than the title; a phrase alone is meant to the letter."""
    index.put(note("memory/book.md", "She read the book on nothing in May; it seemed impossible to put down."))
    assert index.paths('"nothing is impossible"') == []
    hits, info = index.search('when did she read the book "nothing is impossible"')
    assert [hit.path for hit in hits] == ["memory/book.md"]
    assert "quoted phrase" in info.warnings[0]
    index.put(note("memory/other.md", "Nothing is impossible, says the poster."))
    hits, info = index.search('when did she read the book "nothing is impossible"')
    assert [hit.path for hit in hits] == ["memory/other.md"] and info.warnings == ()


def test_a_phrase_whose_words_find_nothing_either_is_not_said_to_be_relaxed(index: Any, note: Any) -> None:
    """The answer stays empty, and no other search is spoken of."""
    index.put(note("memory/book.md", "She read the book in May."))
    assert index.search('"granite kettle" zebra')[1].warnings == ()
    assert index.search('"granite kettle" zebra')[0] == []


def test_of_several_phrases_the_one_that_nothing_holds_is_relaxed(index: Any, note: Any, message: Any) -> None:
    """It is named by its place among the quotes; the others stay demanded."""
    index.put(
        note("memory/a.md", "The granite kettle is blue, and the lamp."),
        note("memory/b.md", "A blue kettle, granite, a lamp."),
        message(3, 1, "The copper kettle is green.", owner_private=True),
        message(3, 2, "And the lamp?", owner_private=True),
    )
    hits, info = index.search('is "granite kettle" the same as "lamp granite" blue')
    assert [hit.path for hit in hits] == ["memory/a.md"]
    assert info.warnings == ("nothing holds quoted phrase 2; its words were searched",)
    # a message is met by what stands around it, and one quoted word is no phrase
    hits, info = index.search('"blue" or "kettle lamp" or "copper kettle" lamp')
    assert {hit.path for hit in hits} == {"sessions/token3"}
    assert info.warnings == ("nothing holds quoted phrase 2; its words were searched",)


def test_several_phrases_that_nothing_holds_are_all_named(index: Any, note: Any) -> None:
    """Two of three; then those that are held, but by no text together."""
    index.put(
        note("memory/a.md", "The granite kettle is blue."),
        note("memory/b.md", "The green lamp is granite."),
    )
    hits, info = index.search('"kettle granite" and "granite kettle" and "lamp green" blue')
    assert [hit.path for hit in hits] == ["memory/a.md"]
    assert info.warnings == ("nothing holds quoted phrases 1 and 3; their words were searched",)
    hits, info = index.search('"granite kettle" and "green lamp" zebra')
    assert {hit.path for hit in hits} == {"memory/a.md", "memory/b.md"}
    assert info.warnings == ("nothing holds all quoted phrases together; their words were searched",)
    hits, info = index.search('"granite kettle" and "green lamp" and "lamp blue" zebra')
    assert {hit.path for hit in hits} == {"memory/a.md", "memory/b.md"}
    assert info.warnings == ("nothing holds all quoted phrases together; their words were searched",)


def test_a_phrase_is_relaxed_for_what_may_be_seen(index: Any, note: Any, message: Any) -> None:
    """A phrase that only others' texts hold is held by nothing, and what is filtered out holds nothing either."""
    index.put(
        note("memory/a.md", "The granite kettle is blue."),
        message(3, 1, "granite, or a kettle, blue", owner_private=False),
    )
    for narrow in ({"viewer": Viewer(session_id=3)}, {"sources": ("sessions",)}, {"since": 1}):
        hits, info = index.search('is the "granite kettle" blue', **narrow)
        assert [hit.path for hit in hits] == ["sessions/token3"], narrow
        assert info.warnings == ("nothing holds the quoted phrase; its words were searched",)


def test_the_last_word_may_be_the_beginning_of_a_more_frequent_one(make_index: Make) -> None:
    """What holds the word itself comes first, longer ones after it, and the explanation shows both."""
    files = {f"memory/{n}.md": f"granite slab number {'abcdef'[n]}" for n in range(4)}
    index = make_index(files | {"memory/gran.md": "gran sleeps"})
    found = index.paths("gran")
    assert found[0] == "gran.md" and len(found) == 5
    hits, _ = index.search("where is the gran", explain=True)
    assert len(hits) == 5 and hits[0].score > 2 * hits[1].score
    assert readings(index, "gran") == [("word", "exact"), ("prefix", "completed")]


@pytest.mark.parametrize("query", ["gran ", "gran?", "gran sleeps", '"gran"', "gran, or", "gr"])
def test_a_word_that_something_follows_is_finished(make_index: Make, query: str) -> None:
    """A space, a mark, another word; and two letters begin too many words."""
    files = {f"memory/{n}.md": f"granite slab grit {'abcdef'[n]}" for n in range(4)}
    index = make_index(files | {"memory/gran.md": "gran sleeps, gr"})
    assert index.paths(query) == ["gran.md"]


def test_a_longer_word_must_be_clearly_more_frequent(make_index: Make) -> None:
    """Twice is not enough; and inflected forms of the word itself are no longer words."""
    files = {f"memory/{n}.md": f"granite slab {'abcdef'[n]}" for n in range(2)}
    index = make_index(files | {"memory/gran.md": "gran sleeps"})
    assert index.paths("gran") == ["gran.md"]
    files = {f"memory/{n}.md": f"kettles boil {'abcdef'[n]}" for n in range(4)}
    index = make_index(files | {"memory/k.md": "a kettle"})
    assert len(index.paths("kettle")) == 5
    assert readings(index, "kettle") == [("word", "exact")]
    assert readings(index, "kett") == [("word", "completed")]


def test_a_longer_word_that_may_not_be_seen_is_none(index: Any, message: Any) -> None:
    """For a session the frequent word of others is not there."""
    index.put(
        *(message(4, n, f"granite slab {'abcdef'[n]}", owner_private=False) for n in range(1, 5)),
        message(5, 1, "gran sleeps", owner_private=False),
    )
    hits, info = index.search("gran", viewer=Viewer(session_id=5))
    assert [hit.path for hit in hits] == ["sessions/token5"]
    assert info.withheld == 0
