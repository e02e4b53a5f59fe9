"""What an answer holds and says: references, excerpts, duplicates, caps, floors, bounds, cancelling."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import pytest

from memory_sqlite.errors import Cancelled
from memory_sqlite.model import Chunk
from memory_sqlite.text.units import utf16_length


def test_references_citations_and_provenance(index: Any, note: Any, message: Any, record: Any) -> None:
    """Each kind of hit names itself so that ``get`` can find it."""
    index.put(
        note("memory/a.md", "", chunks=[Chunk("quartz one\nquartz two", 3, 9, heading="Stones")]),
        message(4, 2, "quartz in a message", speaker="Bea"),
        record("77", "L1", "quartz in an episode"),
    )
    hits = {hit.provenance["kind"]: hit for hit in index.search("quartz")[0]}
    assert hits["note"].reference == "note:memory/a.md#L3-L9"
    assert hits["note"].citation == "memory/a.md#L3-L9"
    assert hits["note"].heading == "Stones"
    assert hits["note"].time is None
    assert hits["message"].reference == "message:s4m2"
    assert hits["message"].citation == "sessions/token4#L2"
    assert (hits["message"].start_line, hits["message"].end_line) == (2, 2)
    assert hits["message"].session == "session-4"
    assert hits["message"].speaker == "Bea"
    assert hits["message"].time == "2026-02-02T02:42:00.000Z"
    assert hits["record"].reference == "record:rec-77"
    assert hits["record"].layer == "L1"


@pytest.mark.parametrize("query", ["", "   ", "\x00", "\ud800", "the of and", "AND", "OR NOT", "*", '"', '""', "( )"])
def test_nothing_to_look_for_is_an_empty_answer(index: Any, note: Any, query: str) -> None:
    """Empty, blank, operators, stop words, broken text: no hit and no error."""
    index.put(note("memory/a.md", "The band of the AND gate or not."))
    hits, info = index.search(query)
    assert hits == []
    assert info.coverage == "complete"


def test_a_query_of_100_000_characters_is_cut_and_answered(index: Any, note: Any) -> None:
    """A question is not a document: it is cut, said so, and still answered in reasonable time."""
    index.put(note("memory/a.md", "The harbor crane needs grease."))
    begin = time.thread_time()
    hits, info = index.search("harbor " + "lorem ipsum dolor " * 6_000)
    assert [hit.path for hit in hits] == ["memory/a.md"]
    assert any("cut" in warning for warning in info.warnings)
    assert time.thread_time() - begin < 2.0


def test_the_excerpt_holds_the_match_and_marks_it(index: Any, note: Any) -> None:
    """Far inside a long line the excerpt is around the match, short enough, and offsets are exact."""
    rng = random.Random(7)
    words = " ".join(rng.choice(["alpha", "bravo", "carol", "delta"]) for _ in range(4_000))
    index.put(note("memory/long.md", f"{words} PELICAN-SEVEN {words}"))
    hit = index.search("PELICAN-SEVEN")[0][0]
    assert utf16_length(hit.excerpt) <= 700
    assert "PELICAN-SEVEN" in [hit.excerpt[span.start : span.end] for span in hit.matches]


def test_the_excerpt_prefers_the_passage_with_most_of_the_query(index: Any, note: Any) -> None:
    """Many single mentions weigh less than one sentence that says it all."""
    filler = "The quartz was mentioned again. " + "Nothing else happened that day. " * 30
    index.put(note("memory/long.md", filler * 3 + "The quartz lamp hangs in the north tower. " + filler * 3))
    hit = index.search("quartz lamp north tower")[0][0]
    assert "quartz lamp hangs in the north tower" in hit.excerpt


def test_excerpts_never_cut_a_grapheme(index: Any, note: Any) -> None:
    """Families, flags and combining marks stay whole at both ends."""
    family = "👨‍👩‍👧‍👦"
    index.put(note("memory/emoji.md", family * 300 + "鹈鹕七号" + family * 300))
    hit = index.search("鹈鹕七号")[0][0]
    assert "鹈鹕七号" in hit.excerpt
    assert utf16_length(hit.excerpt) <= 700
    assert hit.excerpt.replace(family, "") == "鹈鹕七号"


def test_a_message_is_shown_among_its_neighbours(index: Any, message: Any) -> None:
    """Attributed lines in the order they were said, own text and matches among them."""
    index.put(
        message(1, 1, "Shall we look at the boat?", speaker="Bo"),
        message(1, 2, "The varnish on the boat is dry now.", speaker="Ann"),
        message(1, 3, "Great, let us sail.", speaker="Bo"),
    )
    hit = index.search("varnish")[0][0]
    assert hit.message_id == "s1m2"
    assert hit.excerpt.split("\n") == [
        "Bo: Shall we look at the boat?",
        "Ann: The varnish on the boat is dry now.",
        "Bo: Great, let us sail.",
    ]
    assert [hit.excerpt[span.start : span.end] for span in hit.matches] == ["varnish"]


def test_an_answer_is_found_through_the_question_before_it(index: Any, message: Any) -> None:
    """The message that answers holds none of the words; the one before it does, and is shown."""
    index.put(
        message(1, 1, "Where did you buy the telescope?", speaker="Bo"),
        message(1, 2, "At Keller's, on the corner.", speaker="Ann"),
        *(message(2, position, f"Small talk number {position}.") for position in range(1, 9)),
    )
    hits = index.search("telescope")[0]
    assert {hit.message_id for hit in hits} == {"s1m1", "s1m2"}
    assert all("telescope" in hit.excerpt for hit in hits)


def test_near_duplicates_are_one_hit_with_a_list(index: Any, note: Any) -> None:
    """Equal texts collapse into the newest, and the others are named."""
    text = "To descale the coffee machine, run two cycles of citric acid and then rinse it well twice."
    index.put(
        note("memory/dup-a.md", text, at=1_000),
        note("memory/dup-b.md", text, at=2_000),
        note("memory/other.md", "The coffee machine stands in the kitchen."),
    )
    hits = index.search("coffee machine descale")[0]
    assert [hit.path for hit in hits] == ["memory/dup-b.md", "memory/other.md"]
    assert hits[0].duplicates == ("memory/dup-a.md#L1",)


def test_almost_equal_texts_are_one_hit_and_similar_ones_two(index: Any, note: Any) -> None:
    """From 95 % of shared runs of three words: a changed last word collapses, one in the middle does not."""
    words = [f"cog{number}" for number in range(60)]

    def with_word(place: int, word: str) -> str:
        return " ".join(["coffee machine", *words[:place], word, *words[place + 1 :]])

    index.put(
        note("memory/first.md", with_word(59, "brass"), at=1_000),
        note("memory/last.md", with_word(59, "steel"), at=2_000),
        note("memory/middle.md", with_word(30, "steel"), at=1_500),
    )
    hits = index.search("coffee machine")[0]
    assert {hit.path: hit.duplicates for hit in hits} == {
        "memory/last.md": ("memory/first.md#L1",),
        "memory/middle.md": (),
    }


def test_an_episode_never_takes_a_second_place_beside_what_it_quotes(index: Any, message: Any, record: Any) -> None:
    """The L3 fact stands for the message and the episode that say the same."""
    said = "I drink green tea with jasmine every single morning before work"
    index.put(
        message(1, 1, said),
        record("1", "L1", said),
        record("3", "L3", said),
        record("4", "L1", "The user asked for jasmine rice recipes and got three of them."),
    )
    hits = index.search("jasmine tea")[0]
    assert [hit.reference for hit in hits] == ["record:rec-3", "record:rec-4"]
    assert len(hits[0].duplicates) == 2


def test_one_session_cannot_fill_an_answer(index: Any, note: Any, message: Any) -> None:
    """Above eight in ten of one session others come in, unless the search is over sessions alone."""
    for position in range(1, 21):
        index.put(message(1, position, f"harbor crane harbor crane, remark {position}"))
    index.put(*(note(f"memory/n{number}.md", f"{'padding word ' * 40} harbor {number}") for number in range(4)))
    hits = index.search("harbor crane", max_results=10)[0]
    assert sum(1 for hit in hits if hit.source == "sessions") == 8
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    alone = index.search("harbor crane", max_results=10, sources=("sessions",))[0]
    assert len(alone) == 10


def test_min_score_is_a_floor_for_every_hit(index: Any, note: Any) -> None:
    """No hit below it, whatever else is missing."""
    index.put(note("memory/a.md", "harbor crane grease"), note("memory/b.md", "harbor " + "word " * 300))
    every = index.search("harbor crane grease")[0]
    floor = (every[0].score + every[1].score) / 2
    assert [hit.path for hit in index.search("harbor crane grease", min_score=floor)[0]] == ["memory/a.md"]
    assert index.search("harbor", min_score=1.0)[0] == []


def test_sorting_by_time(index: Any, note: Any) -> None:
    """Newest and oldest order the good hits by event time; what has no time comes last."""
    index.put(
        *(note(f"memory/{year}.md", "The harbor report.", at=year * 1_000_000_000) for year in (1, 3, 2)),
        note("memory/undated.md", "A harbor report of no date."),
    )
    # equal texts would collapse: make them differ
    index.put(*(note(f"memory/{y}.md", f"The harbor report number {y}.", at=y * 1_000_000_000) for y in (1, 3, 2)))
    assert index.paths("harbor report", sort="newest") == ["3.md", "2.md", "1.md", "undated.md"]
    assert index.paths("harbor report", sort="oldest") == ["1.md", "2.md", "3.md", "undated.md"]


def test_sorted_by_time_a_poor_match_takes_no_part(index: Any, note: Any) -> None:
    """The newest note that answers, not the newest that shares a word: half of the best score is asked for."""
    filler = " ".join(f"word{number}" for number in range(300))
    index.put(
        note("memory/good.md", "The harbor crane needs grease.", at=1_000_000_000),
        note("memory/poor.md", f"{filler} crane {filler}", at=9_000_000_000),
    )
    assert index.paths("harbor crane grease") == ["good.md", "poor.md"]
    for order in ("newest", "oldest"):
        assert index.paths("harbor crane grease", sort=order) == ["good.md"]


def test_a_byte_budget_is_shared_by_the_best_the_facts_and_the_newest(index: Any, note: Any, record: Any) -> None:
    """Half of it is the best texts', an eighth each the facts' and the newest texts', the rest again the best's."""

    def text(name: str, times: int) -> str:
        words = "harbor " * times
        return (words + " ".join(f"{name}{number}" for number in range(400)))[:1_000]

    index.put(
        *(note(f"memory/n{n:02}.md", text(f"n{n}x", 30 - n), at=1_000 + n) for n in range(20)),
        note("memory/new.md", text("newx", 1), at=1_790_000_000_000),
        record("3", "L3", text("factx", 1), at=1),
    )
    hits, info = index.search("harbor", max_results=30, max_bytes=8_000)
    assert info.coverage == "partial"
    assert {hit.path.removeprefix("memory/") for hit in hits if hit.layer is None} == {
        "n00.md", "n01.md", "n02.md", "n03.md", "n04.md", "n05.md", "new.md",
    }  # fmt: skip
    assert [hit.reference for hit in hits if hit.layer == "L3"] == ["record:rec-3"]
    assert len(index.search("harbor", max_results=30)[0]) == 22


def test_boosts_are_a_few_per_cent(index: Any, note: Any) -> None:
    """The most that age, importance and project can do, each as a factor of the odds."""
    chunk = Chunk("The harbor crane.", 1, 1, importance=10, projects=("north",))
    index.put(note("memory/a.md", "", chunks=[chunk], at=1_796_040_000_000))
    (hit,) = index.search("harbor crane", explain=True, boost_projects=("north",))[0]
    assert hit.explanation is not None
    boosts = {name: hit.explanation[name] for name in ("recency", "importance", "project")}
    assert all(1.0 < factor <= 1.05 for factor in boosts.values()), boosts


def test_a_message_that_asks_comes_after_one_that_tells(index: Any, message: Any) -> None:
    """Of the same words the question is the newer one, and yet the second."""
    index.put(message(1, 9, "The gate is green?"), message(2, 1, "The gate is green."))
    hits, _ = index.search("gate green")
    assert hits[0].message_id == "s2m1"


def test_when_is_answered_by_a_message_with_a_time(index: Any, message: Any) -> None:
    """Of the same words the one with a time word is the older one, and yet the first; only "when" asks for it."""
    index.put(message(1, 9, "The ferry sails from Ardal."), message(2, 1, "The ferry sails on Monday."))
    assert [hit.message_id for hit in index.search("when does the ferry sail")[0]] == ["s2m1", "s1m9"]
    assert [hit.message_id for hit in index.search("the ferry sails")[0]] == ["s1m9", "s2m1"]


def test_relevance_beats_recency(index: Any, note: Any) -> None:
    """A two-year-old note that says it verbatim stands above yesterday's that does not (peer weakness W1)."""
    day = 86_400_000
    now = 1_796_040_000_000
    index.put(
        note("memory/old.md", "The router VLAN plan was agreed.", at=now - 700 * day),
        *(note(f"memory/new{n}.md", f"The router was restarted, try {n}.", at=now - n * day) for n in range(1, 9)),
    )
    assert index.paths("router VLAN")[0] == "old.md"


def test_recency_and_importance_decide_between_equals(index: Any, note: Any) -> None:
    """Bounded boosts: they turn the order of equals and of nothing else."""
    now = 1_796_040_000_000
    index.put(
        note("memory/old.md", "Relay alpha moved.", at=now - 10**11),
        note("memory/new.md", "Relay bravo moved.", at=now - 10**7),
    )
    assert index.paths("relay moved") == ["new.md", "old.md"]
    index.put(
        note("memory/c.md", "", chunks=[Chunk("Switch alpha moved.", 1, 1, importance=1)]),
        note("memory/d.md", "", chunks=[Chunk("Switch bravo moved.", 1, 1, importance=10)]),
    )
    assert index.paths("switch moved")[:2] == ["d.md", "c.md"]


def test_max_bytes_gives_partial_coverage_and_keeps_the_best(index: Any, note: Any, record: Any) -> None:
    """Over the budget the best stay, and the newest and the profile facts are not starved."""
    filler = "unrelated words of a long note " * 60
    index.put(
        note("memory/best.md", "The zircon ring is in the zircon box."),
        *(note(f"memory/n{n:02}.md", f"{filler} zircon {n}", at=n * 1_000) for n in range(40)),
        record("9", "L3", f"{filler} zircon fact"),
    )
    hits, info = index.search("zircon", max_results=20, max_bytes=24_000)
    assert info.coverage == "partial"
    paths = [hit.path for hit in hits]
    assert paths[0] == "memory/best.md"
    assert "memory/n39.md" in paths
    assert any(hit.layer == "L3" for hit in hits)
    assert index.search("zircon", max_results=20)[1].coverage == "complete"


def test_cancelling_and_interrupting_end_a_search(index: Any, note: Any) -> None:
    """Both ways give the typed error, and the next search works."""
    with index.connection:
        for number in range(4_000):
            index.put(note(f"memory/n{number}.md", f"harbor crane {number} " * 20))
    with pytest.raises(Cancelled):
        index.search("harbor", cancelled=lambda: True)
    stopped: list[bool] = []

    def ask() -> None:
        try:
            while True:
                index.search("harbor OR crane")
        except Cancelled:
            stopped.append(True)

    worker = threading.Thread(target=ask)
    worker.start()
    deadline = time.monotonic() + 120
    while worker.is_alive() and time.monotonic() < deadline:
        index.connection.interrupt()
        worker.join(0.002)
    assert stopped == [True]
    assert index.search("harbor")[0]


def test_explain_gives_the_parts(index: Any, note: Any) -> None:
    """The parts of a score are numbers with names; without asking there are none."""
    index.put(note("memory/a.md", "harbor crane"))
    explained = index.search("harbor", explain=True)[0][0].explanation
    assert explained is not None
    assert {"words", "covered", "line"} <= explained.keys()
    assert index.search("harbor")[0][0].explanation is None


def test_windows_reach_over_what_is_not_indexed(index: Any, message: Any) -> None:
    """Tool output takes positions and is not searched; question and answer on both sides of it are neighbours."""
    index.put(message(1, 1, "What is the zeppelin made of?"), message(1, 9, "Mostly aluminium."))
    hits = index.search("zeppelin")[0]
    assert {hit.message_id for hit in hits} == {"s1m1", "s1m9"}
    assert all("zeppelin" in hit.excerpt for hit in hits)


def test_windows_follow_changes_and_deletions(index: Any, message: Any) -> None:
    """A replaced or deleted message is no longer found through its neighbours."""
    from memory_sqlite.indexing import rows

    index.put(*(message(1, position, f"Remark {position}.") for position in range(1, 8)))
    index.put(message(1, 4, "The zeppelin."))
    assert len(index.search("zeppelin", max_results=20)[0]) == 5
    with index.connection:
        assert rows.delete_document(index.connection, "message", "s1m4")
        rows.refresh_contexts(index.connection, 1, [4])
    assert index.search("zeppelin", max_results=20)[0] == []
    # three and five are neighbours now
    index.put(message(1, 5, "The dirigible."))
    assert {hit.message_id for hit in index.search("dirigible", max_results=20)[0]} == {
        f"s1m{position}" for position in (2, 3, 5, 6, 7)
    }
    assert rows.inconsistency(index.connection) is None


@pytest.mark.parametrize("sort", ["score", "diverse", "newest"])
def test_texts_that_are_all_the_same_are_one_hit(index: Any, note: Any, message: Any, sort: str) -> None:
    """Notes and messages by the hundred: one of them, with others listed under it, and nothing is partial."""
    text = "The harbor crane is painted blue and stands at the quay."
    index.put(*(note(f"memory/n{number:03}.md", text) for number in range(150)))
    index.put(*(message(number % 3, number, text) for number in range(150)))
    hits, info = index.search("harbor crane", sort=sort)
    assert len(hits) == 1 and hits[0].duplicates
    assert (info.coverage, info.warnings) == ("complete", ())


def test_diverse_answers_give_room_to_what_is_unlike(index: Any, note: Any) -> None:
    """Two hits that say nearly the same: the second gives way to a weaker one that says something else."""
    index.put(
        note("memory/a.md", "The harbor gate opens at nine with the blue key from the office."),
        note("memory/b.md", "The harbor gate opens at nine with the blue key from the guard."),
        note("memory/c.md", "Repairs of the harbor gate cost four hundred last winter, paid by the town itself."),
    )
    plain = index.paths("harbor gate", max_results=2)
    assert set(plain) == {"a.md", "b.md"}
    assert index.paths("harbor gate", max_results=2, sort="diverse") == [plain[0], "c.md"]
    assert set(index.paths("harbor gate", max_results=3, sort="diverse")) == {"a.md", "b.md", "c.md"}


def test_diverse_answers_keep_to_what_was_asked(index: Any, note: Any) -> None:
    """Relevance weighs more than likeness, and likeness is to all hits before, not to the last one alone."""
    index.put(
        note("memory/a.md", "The harbor gate key hangs in the office beside the blue door of the guard."),
        note("memory/b.md", "The harbor gate key hangs in the office beside the old door of the guard."),
        note("memory/c.md", "Four hundred copies of this harbor gate key were made by smiths from Utrecht in spring."),
        note("memory/d.md", "A gate, somewhere; his harbor; no key: Tom told us about eleven towns and four rivers."),
        note("memory/e.md", "Painters like this harbor."),
    )
    assert set(index.paths("harbor gate key", max_results=2)) == {"a.md", "b.md"}
    order = index.paths("harbor gate key", max_results=5, sort="diverse")
    assert order == ["a.md", "d.md", "c.md", "b.md", "e.md"]


@pytest.mark.parametrize("origin", ["owner", "agent", "system", "untrusted"])
def test_trust_is_three_per_cent_and_of_strangers_alone(index: Any, note: Any, origin: str) -> None:
    """What the owner, the agent or the host said has no part for it."""
    index.put(note("memory/a.md", "The harbor crane.", origin=origin))
    (hit,) = index.search("harbor crane", explain=True)[0]
    assert hit.explanation.get("trust") == (0.97 if origin == "untrusted" else None)


def test_an_active_project_and_trust_decide_between_equals(index: Any, note: Any, message: Any) -> None:
    """A little: what belongs to the active project first, a stranger's word last; what is better stays first."""
    index.put(
        note("memory/a.md", "", chunks=[Chunk("harbor crane schedule alpha", 1, 1, projects=("Harbor ",))]),
        note("memory/b.md", "", chunks=[Chunk("harbor crane schedule bravo", 1, 1, projects=("ledger",))]),
        note("memory/c.md", "harbor crane schedule crane crane charlie", origin="untrusted"),
        note("memory/d.md", "a crane, and the harbor's weekly schedule of boats and trains and other things delta"),
    )
    assert index.paths("harbor crane schedule", boost_projects=("harbor",)).index("a.md") < 2
    assert index.paths("harbor crane schedule alpha bravo", boost_projects=("LEDGER",))[0] == "b.md"
    assert index.paths("harbor crane schedule alpha bravo", boost_projects=("harbor",))[0] == "a.md"
    hits = {hit.path: hit for hit in index.search("harbor crane schedule", explain=True)[0]}
    assert hits["memory/c.md"].explanation["trust"] < 1.0
    assert "trust" not in hits["memory/a.md"].explanation
    hits = {hit.path: hit for hit in index.search("harbor crane", explain=True, boost_projects=(" HARBOR",))[0]}
    assert [path for path, hit in hits.items() if "project" in hit.explanation] == ["memory/a.md"]


def test_a_project_is_one_however_its_key_is_written(index: Any, note: Any) -> None:
    """Composed or taken apart (as some systems name directories), in any case, with space around it: for favouring and
    for filtering."""
    taken_apart, composed = "Cafe\u0301 M\u00fcnchen", "caf\u00e9 MU\u0308NCHEN "
    index.put(
        note("memory/a.md", "", chunks=[Chunk("harbor crane", 1, 1, projects=(taken_apart,))]),
        note("memory/b.md", "", chunks=[Chunk("harbor crane far away", 1, 1, projects=("cafe munchen",))]),
    )
    assert index.paths("harbor", projects=(composed,)) == ["a.md"]
    assert index.paths("harbor", active_projects=(composed,)) == ["a.md"]
    hits = {hit.path: hit.explanation for hit in index.search("harbor", explain=True, boost_projects=(composed,))[0]}
    assert [path for path, parts in hits.items() if "project" in parts] == ["memory/a.md"]
