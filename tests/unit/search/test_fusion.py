"""Words and meaning together: what the vector of a question adds to an answer, and what it must never do."""

from __future__ import annotations

from array import array
from dataclasses import replace
from math import sqrt
from typing import Any

import apsw
import pytest

from memory_sqlite.generations import vector_rows
from memory_sqlite.search import fusion, rank, retrieve
from memory_sqlite.search.filters import OPERATOR, Filters, Viewer
from memory_sqlite.search.run import search
from memory_sqlite.search.scripts import script_of
from memory_sqlite.search.vectors.query_vector import QueryVector
from memory_sqlite.search.vocabulary import Vocabulary

NOW_MS = 1_780_000_000_000
SPACE = '{"model":"test"}'


def unit(*numbers: float) -> bytes:
    length = sqrt(sum(number * number for number in numbers))
    return array("f", [number / length for number in numbers]).tobytes()


def give(connection: apsw.Connection, vectors: dict[str, tuple[float, ...]], state: str = "complete") -> None:
    """Vectors by the key of a document."""
    chunks: list[Any] = connection.execute(
        "SELECT c.id, d.key FROM chunks AS c JOIN documents AS d ON d.id = c.document_id"
    ).fetchall()
    with connection:
        space = vector_rows.make_space(connection, SPACE, 3, {})
        vector_rows.put(
            connection,
            space,
            [
                (chunk, bytes(unit(*vectors[key]))[:8] * 2, unit(*vectors[key]))
                for chunk, key in chunks
                if key in vectors
            ],
        )
        vector_rows.set_state(connection, space, state)  # type: ignore[arg-type]


def asked(*numbers: float, **weight: float) -> QueryVector:
    known = {"latin": 0.5, "cjk": 0.5, "low": 0.0, "high": 1.0, "other": 0.0, "floor": 0.5}
    return QueryVector(SPACE, unit(*numbers), **{**known, **weight})


def find(connection: apsw.Connection, text: str, vector: QueryVector | None, **filters: Any) -> Any:
    viewer = filters.pop("viewer", OPERATOR)
    return search(
        connection,
        text,
        Filters(viewer, **filters),
        now_ms=NOW_MS,
        max_results=6,
        max_bytes=1 << 20,
        vector=vector,
        explain=True,
    )


@pytest.fixture
def garden(index: Any, note: Any) -> apsw.Connection:
    index.put(
        note("memory/cat.md", "The tabby sleeps on the warm stove."),
        note("memory/dog.md", "A hound guards the gate."),
        note("memory/feline.md", "Feline habits: they purr."),
    )
    connection: apsw.Connection = index.connection
    return connection


CAT = {"memory/cat.md": (1.0, 0.1, 0.0), "memory/dog.md": (0.0, 1.0, 0.0), "memory/feline.md": (0.9, 0.0, 0.4)}


def paths(hits: Any) -> list[str]:
    return [hit.path for hit in hits]


def test_what_no_word_finds_is_found_by_meaning(garden: apsw.Connection) -> None:
    """And says so: its score has a part for meaning, and the answer names the route."""
    give(garden, CAT)
    assert find(garden, "kitten", None)[0] == []
    hits, info = find(garden, "kitten", asked(1, 0, 0))
    assert paths(hits) == ["memory/cat.md", "memory/feline.md"]
    assert hits[0].explanation["meaning"] == pytest.approx(0.995, abs=0.001)
    assert info.routes[0] == "lexical" and len(info.routes) == 2
    assert info.coverage == "complete"


def test_words_and_meaning_add_up(garden: apsw.Connection) -> None:
    """What both find is before what one finds; every score is in 0 to 1."""
    give(garden, CAT)
    hits, _ = find(garden, "feline", asked(1, 0, 0))
    assert paths(hits) == ["memory/feline.md", "memory/cat.md"]
    assert all(0.0 < hit.score <= 1.0 for hit in hits)


def test_what_is_not_near_enough_is_no_answer(garden: apsw.Connection) -> None:
    """Below the floor of its model a text without a word of the question is left out; with a word it stays."""
    give(garden, CAT)
    assert find(garden, "kitten", asked(1, 0, 0, floor=0.999))[0] == []
    assert paths(find(garden, "hound", asked(0, 1, 0, floor=0.999))[0]) == ["memory/dog.md"]


def test_beside_words_less_is_near_enough(garden: apsw.Connection) -> None:
    """Where words found something, what is fairly near takes a place after it; alone it would be no answer."""
    give(garden, CAT)
    vector = asked(0.6, 0.2, 0.6, floor=0.95)
    assert find(garden, "kitten", vector)[0] == []
    hits, _ = find(garden, "hound", vector)
    assert paths(hits)[0] == "memory/dog.md" and len(hits) == 3


def test_a_guess_never_stands_before_what_words_found(garden: apsw.Connection) -> None:
    """However little the words found: below the floor a vector alone does not come first; from there on it may."""
    give(garden, CAT | {"memory/dog.md": (0.0, 0.0, 1.0)})
    text = "hound zebra quilt vortex jumping bicycle"
    weak = {"latin": 1.0, "floor": 0.98}
    assert paths(find(garden, text, asked(0.95, 0.3, 0.0, **weak))[0])[0] == "memory/dog.md"
    assert paths(find(garden, text, asked(1.0, 0.0, 0.0, **weak))[0])[0] == "memory/cat.md"


def test_guesses_that_are_held_back_keep_their_order(garden: apsw.Connection) -> None:
    """The nearer of two stands before the other, and both say by how much they were held back."""
    give(garden, CAT | {"memory/dog.md": (0.0, 1.0, 0.0)})
    text = "hound zebra quilt vortex jumping bicycle"
    hits, _ = find(garden, text, asked(0.85, 0.0, 0.5, latin=1.0, floor=0.999))
    assert paths(hits) == ["memory/dog.md", "memory/feline.md", "memory/cat.md"]
    assert hits[0].score > hits[1].score > hits[2].score
    assert "guess" not in hits[0].explanation
    assert all(0.0 < hit.explanation["guess"] < 1.0 for hit in hits[1:])


def test_guesses_are_held_back_also_where_common_words_are_counted_later(
    garden: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a large index the best are scored again with the words that were too common to choose by."""
    monkeypatch.setattr(retrieve, "LARGE_INDEX_ROWS", 0)
    monkeypatch.setattr(Vocabulary, "learn_common", lambda self, tokens: {"gate"})
    give(garden, CAT | {"memory/dog.md": (0.0, 1.0, 0.0)})
    hits, _ = find(garden, "hound gate quilt vortex jumping bicycle", asked(0.95, 0.3, 0.0, latin=3.0, floor=0.98))
    assert paths(hits)[0] == "memory/dog.md"
    assert "guess" in hits[1].explanation


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kitten", 1.0), ("kitten - ? !", 1.0), ("kitten is where", 3.0), ("kitten: a very long question", 3.0),
        ("path:errors", 1.0), ("猫", 0.5), ("猫？？？？？？", 0.5), ("猫在哪里", 2.0), ("猫在哪里睡觉呢", 3.0),
        ("ledger_cursor 猫", 1.5), ("새 열쇠는 어디에", 3.0), ("ร้านอาหารไทยที่ดีที่สุดอยู่ที่ไหน", 3.0),
        ("где кошка", 2.0), ("кошка", 1.0),
    ],
)  # fmt: skip
def test_how_many_words_a_question_has(garden: apsw.Connection, text: str, words: float) -> None:
    """Marks are none, and where words are written without spaces two characters are one."""
    give(garden, CAT)
    hits, _ = find(garden, text, asked(1, 0, 0, other=0.5))
    assert hits[0].explanation["meaning weight"] == pytest.approx(0.5 * words / 3)


def test_the_shorter_the_question_the_less_its_vector_counts(garden: apsw.Connection) -> None:
    """One word a third, two two thirds, three in full: the same text, the same vector, another share of the score."""
    give(garden, CAT)
    scores = [find(garden, text, asked(1, 0, 0))[0][0].score for text in ("kitten", "kitten foo", "kitten foo bar")]
    weights = [0.5 / 3, 1 / 3, 0.5]
    assert scores == pytest.approx([weight / (1 + weight) * 0.995 for weight in weights], abs=0.01)


def test_a_demanded_phrase_is_demanded_of_meaning_too(garden: apsw.Connection) -> None:
    """A quoted phrase that a text does not hold: it is no answer, however near."""
    give(garden, CAT)
    assert paths(find(garden, '"hound guards"', asked(1, 0, 0))[0]) == ["memory/dog.md"]
    assert find(garden, '"hound purrs"', asked(1, 0, 0))[0] == []


def test_a_script_that_the_model_does_not_know_is_left_to_words(garden: apsw.Connection) -> None:
    """Weight 0: the same answer as without a vector, and no route is named."""
    give(garden, CAT)
    with_vector = find(garden, "猫 hound", asked(1, 0, 0, cjk=0.0))
    assert with_vector == find(garden, "猫 hound", None)
    assert with_vector[1].routes == ("lexical",)


def test_filters_and_audience_apply_to_meaning(index: Any, note: Any, message: Any) -> None:
    """What a viewer may not see is not found by its vector either, and no filter lets it through."""
    index.put(note("memory/cat.md", "The tabby sleeps."), message(7, 1, "purring all night", owner_private=False))
    connection = index.connection
    give(connection, {"memory/cat.md": (1.0, 0.0, 0.0), "s7m1": (1.0, 0.0, 0.1)})
    vector = asked(1, 0, 0)
    assert len(find(connection, "kitten", vector)[0]) == 2
    assert paths(find(connection, "kitten", vector, viewer=Viewer(session_id=7))[0]) == ["sessions/token7"]
    assert find(connection, "kitten", vector, viewer=Viewer(session_id=8))[0] == []
    assert paths(find(connection, "kitten", vector, sources=("memory",))[0]) == ["memory/cat.md"]


def test_without_vectors_words_answer_and_it_is_said(garden: apsw.Connection) -> None:
    """No space of this model, or one that is still being filled: partial, with the reason."""
    hits, info = find(garden, "hound", asked(1, 0, 0))
    assert paths(hits) == ["memory/dog.md"]
    assert (info.coverage, info.warnings, info.routes) == ("partial", (fusion.NO_SPACE,), ("lexical",))
    by_words = hits[0].score
    give(garden, {}, "filling")
    hits, info = find(garden, "hound", asked(1, 0, 0))
    assert (info.coverage, info.warnings) == ("partial", (fusion.STILL_FILLING,))
    assert hits[0].score == by_words
    give(garden, {"memory/cat.md": (1.0, 0.0, 0.0)}, "filling")
    hits, info = find(garden, "hound", asked(1, 0, 0))
    assert paths(hits)[0] == "memory/dog.md"
    assert (info.coverage, info.warnings) == ("partial", (fusion.STILL_FILLING,))


def test_what_has_no_vector_yet_is_not_behind_for_it(index: Any, note: Any, message: Any) -> None:
    """New text is searchable at once: it counts as near as what words found does on average."""
    index.put(
        note("memory/new.md", "Ferry timetable: nine and five."),
        note("memory/old.md", "The timetable of the ferry is somewhere here, among many other words and sheets."),
    )
    connection = index.connection
    assert paths(find(connection, "ferry timetable", None)[0]) == ["memory/new.md", "memory/old.md"]
    give(connection, {"memory/old.md": (1.0, 0.0, 0.0)})
    hits, _ = find(connection, "ferry timetable", asked(1, 0.5, 0))
    assert paths(hits) == ["memory/new.md", "memory/old.md"]
    old = hits[1].explanation["meaning"]
    assert 0.0 < old == hits[0].explanation["meaning"]


def test_a_message_without_a_vector_is_as_near_as_its_neighbours(index: Any, message: Any) -> None:
    """And one whose neighbours have none counts by its own alone."""
    index.put(*(message(1, place, word) for place, word in enumerate(("granite", "kettle", "basalt"), 1)))
    give(index.connection, {"s1m1": (1.0, 0.0, 0.0)})
    hits, _ = find(index.connection, "granite kettle", asked(1, 0.5, 0))
    assert [hit.explanation["meaning"] for hit in hits] == pytest.approx([0.894, 0.894, 0.894], abs=0.001)


def test_a_vector_of_another_size_costs_its_leg_alone(garden: apsw.Connection) -> None:
    """Words answer, and the reason is told."""
    give(garden, CAT)
    vector = QueryVector(SPACE, unit(1, 0), latin=0.5, cjk=0.5, low=0.0, high=1.0)
    hits, info = find(garden, "hound", vector)
    assert paths(hits) == ["memory/dog.md"]
    assert info.coverage == "partial" and "another size" in info.warnings[0]


def test_a_message_is_near_by_what_stands_around_it(index: Any, message: Any) -> None:
    """Of two messages with the same vector the one whose neighbours are near is first."""
    words = {1: ("alpha", "beta", "gamma"), 2: ("delta", "epsilon", "zeta")}
    index.put(*(message(number, place, word) for number in words for place, word in enumerate(words[number], 1)))
    near, far = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)
    give(index.connection, {f"s{session}m{place}": near for session in (1, 2) for place in (1, 2, 3)})
    give(index.connection, {"s1m1": far, "s1m3": far})
    hits, _ = find(index.connection, "kitten", asked(1, 0, 0))
    assert [hit.explanation["meaning"] for hit in hits] == pytest.approx([1.0, 1.0, 1.0, 0.5])
    assert hits[-1].message_id == "s1m2"


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("where is the café", "latin"), ("E_42 --no-verify", "latin"), ("42", "latin"), ("", "latin"),
        ("用户 Docker", "cjk"), ("ﾃﾞｰﾀ", "cjk"), ("회의", "cjk"), ("ひらがな", "cjk"),
        ("где кошка", "other"), ("أين القطة", "other"), ("ＶＬＡＮ", "latin"),
    ],
)  # fmt: skip
def test_the_script_of_a_question(text: str, script: str) -> None:
    """CJK where one character is, other where most letters are, else Latin."""
    assert script_of(text) == script


def test_what_words_found_in_parts_is_not_left_out_for_meaning(index: Any, note: Any) -> None:
    """Where nothing holds an identifier whole, what holds its parts is the answer, with a model as without."""
    index.put(note("memory/errors.md", "All the codes."), note("memory/cat.md", "The tabby sleeps."))
    give(index.connection, {"memory/errors.md": (0.0, 1.0, 0.0), "memory/cat.md": (1.0, 0.0, 0.0)})
    assert paths(find(index.connection, "path:errors", None)[0]) == ["memory/errors.md"]
    assert paths(find(index.connection, "path:errors", asked(0.8, 0.6, 0, floor=0.9))[0])[0] == "memory/errors.md"


def test_meaning_may_count_more_for_messages_but_never_beyond_the_bound(index: Any, note: Any, message: Any) -> None:
    """Twice as much for a message as for a note, up to what was measured; a score stays within 1."""
    index.put(note("memory/cat.md", "The tabby is purring in the sun."), message(1, 1, "purring in the sun"))
    give(index.connection, {"memory/cat.md": (1.0, 0.0, 0.0), "s1m1": (1.0, 0.0, 0.0)})
    for weight, expected in ((0.25, 0.5), (0.4, rank.MESSAGE_MEANING_MOST), (0.7, 0.7)):
        vector = replace(asked(1, 0, 0), latin=weight, messages=2.0)
        hits, _ = find(index.connection, "purring in the sun", vector)
        counted = {hit.path: hit.explanation["meaning weight"] for hit in hits}
        assert counted["memory/cat.md"] == pytest.approx(weight)
        assert counted["sessions/token1"] == pytest.approx(expected)
        assert all(0.0 < hit.score <= 1.0 for hit in hits)
    fewer = replace(asked(1, 0, 0), latin=0.5, messages=0.4)
    hits, _ = find(index.connection, "purring in the sun", fewer)
    assert {hit.explanation["meaning weight"] for hit in hits} == {0.5, 0.2}
