"""An explanation is of the search itself; each reason why something was found or not is met once."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable
from importlib import resources
from typing import Any, Protocol, get_args

import apsw
import pytest

from memory_sqlite import limits
from memory_sqlite.agent import explaining
from memory_sqlite.generations import vector_rows
from memory_sqlite.model import Chunk, Document, Hit
from memory_sqlite.search import explain_target, retrieve
from memory_sqlite.search.explain import explain
from memory_sqlite.search.explanation import Explanation, Reason, TargetReading
from memory_sqlite.search.filters import Filters, Viewer
from memory_sqlite.search.vectors.query_vector import QueryVector

NOW_MS = 1_796_040_000_000
"""2026-11-30T12:00:00Z."""
Make = Callable[..., Document]


class Index(Protocol):
    """What ``conftest`` gives."""

    connection: apsw.Connection

    def put(self, *documents: Document) -> None: ...

    def search(self, text: str, **arguments: Any) -> tuple[list[Hit], Any]: ...


def asked(index: Index, query: str, target: str | None = None, **arguments: Any) -> Explanation:
    """One explanation; what is no argument of the search is a filter."""
    known = ("reveal", "max_results", "min_score", "max_bytes", "sort", "now_ms", "zone", "vector")
    own = {name: arguments.pop(name) for name in known if name in arguments}
    filters = Filters(arguments.pop("viewer", Viewer(operator=True)), **arguments)
    defaults: dict[str, Any] = {"now_ms": NOW_MS, "max_results": 6, "max_bytes": 16 * 1024 * 1024}
    return explain(index.connection, query, filters, target, **{**defaults, **own})[0]


def why(index: Index, query: str, target: str, **arguments: Any) -> TargetReading:
    """Why ``target`` was found or not; the sentence is whole."""
    about = asked(index, query, target, **arguments).target
    assert about is not None
    assert about.reference == target
    assert about.detail and "{" not in about.detail and "None" not in about.detail
    assert about.found is (about.reason == "hit")
    return about


def name(number: int) -> str:
    """A word of its own for each number, in letters that stem to nothing else."""
    return "w" + "".join("bcdfghjklm"[int(digit)] for digit in f"{number:03}") + "x"


def test_it_is_the_search_itself(index: Index, note: Make) -> None:
    """Hits, their order, scores and parts are those of the same search."""
    index.put(*(note(f"memory/{n}.md", f"The harbour {'crane ' * n}is note {n}.") for n in range(1, 9)))
    hits, _ = index.search("harbour crane", explain=True)
    explained = asked(index, "harbour crane")
    rows = [row for row in explained.candidates if row.place is not None]
    rows.sort(key=lambda row: row.place or 0)
    assert [(row.reference, row.score, row.citation) for row in rows] == [
        (hit.reference, hit.score, hit.citation) for hit in hits
    ]
    assert [row.parts for row in rows] == [
        {name: round(value, 6) for name, value in (hit.explanation or {}).items()} for hit in hits
    ]
    assert explained.scored == 8
    assert explained.routes == ("lexical",)


def test_terms_say_how_they_were_read(index: Index, note: Make) -> None:
    """Exact, completed, one edit, two edits, dropped; words nobody looks for are named, too."""
    index.put(note("memory/a.md", "granite lighthouse telescope harbour"), note("memory/b.md", "granite"))
    explained = asked(index, "what about granite lightho telescpoe harbrou xylophone")
    readings = {term.text: (term.reading, term.documents) for term in explained.terms}
    assert readings["granite"] == ("exact", 2)
    assert readings["lightho"] == ("completed", 1)
    assert readings["telescpoe"] == ("one edit", 1)
    assert readings["xylophone"] == ("dropped", 0)
    assert {term.text: term.words for term in explained.terms}["lightho"] == ("lighthouse",)
    assert "what" in explained.left_out and "what" in explained.tokens
    rarity = {term.text: term.rarity for term in explained.terms}
    assert rarity["granite"] is not None and rarity["xylophone"] is None


def test_two_edits_and_phrases_and_dates(index: Index, note: Make) -> None:
    """A word two letters off, a demanded phrase, a date with its fields and the clock it was read by."""
    index.put(note("memory/a.md", "The lighthouse keeper left in June."))
    explained = asked(index, 'lighthxuze "lighthouse keeper" June 2026 yesterday')
    terms = {term.text: term for term in explained.terms}
    assert terms["lighthxuze"].reading == "two edits"
    assert terms["lighthouse keeper"].required
    month, day = explained.dates
    assert (month["year"], month["month"], "day" in month) == (2026, 6, False)
    assert (day["first"], day["before"]) == ("2026-11-29", "2026-11-30")
    assert (explained.now, explained.zone) == ("2026-11-30T12:00:00.000Z", "UTC")


def test_the_zone_decides_which_day_yesterday_is(index: Index) -> None:
    """The caller's clock in the caller's zone."""
    late = asked(index, "yesterday", now_ms=NOW_MS, zone="Pacific/Kiritimati")
    assert (late.zone, late.dates[0]["first"]) == ("Pacific/Kiritimati", "2026-11-30")


def test_common_terms_are_told(index: Index, note: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a large index a word that is everywhere does not choose; the explanation says so."""
    from memory_sqlite.indexing import rows

    index.put(*(note(f"memory/{n}.md", f"harbour {name(n)}") for n in range(40)))
    with index.connection:
        rows.finish(index.connection)
        index.connection.execute("INSERT OR REPLACE INTO common_terms VALUES ('harbour', 40)")
    monkeypatch.setattr(retrieve, "LARGE_INDEX_ROWS", 10)
    chosen = {term.text: term.chosen for term in asked(index, f"harbour {name(7)}").terms}
    assert chosen == {"harbour": False, name(7): True}
    about = why(index, f"harbour {name(7)}", "memory/8.md")
    assert (about.reason, about.terms) == ("not_chosen", ("harbour",))


def test_terms_beyond_the_bound_are_told(index: Index, note: Make) -> None:
    """More words than are searched: each that was left out is a term that was dropped."""
    words = [name(n) for n in range(limits.QUERY_MAX_TERMS + 5)]
    index.put(note("memory/a.md", " ".join(words)))
    explained = asked(index, " ".join(words))
    assert len(explained.terms) == len(words)
    assert sum(term.reading == "dropped" for term in explained.terms) == 5
    assert explained.warnings


def test_a_phrase_that_was_relaxed_is_one_term_and_not_demanded(index: Index, note: Make) -> None:
    """Its term is as it was searched, once, and whatever lacks it is no miss for that."""
    index.put(note("memory/a.md", "The granite kettle is blue."))
    explained = asked(index, '"kettle granite" blue', "memory/a.md")
    phrases = [term for term in explained.terms if term.kind == "phrase"]
    assert [(term.text, term.required) for term in phrases] == [("kettle granite", False)]
    assert explained.target is not None and explained.target.reason == "hit"
    assert explained.warnings


def test_filters_are_shown_as_they_are_applied(index: Index) -> None:
    """Every restriction, and the expression that applies it."""
    explained = asked(
        index, "x", sources=("sessions",), layers=("L0",), since=0, until=1_000, boost_projects=("harbor",)
    )
    assert explained.filters["active_projects"] == ("harbor",)
    assert asked(index, "x").filters["active_projects"] is None
    assert explained.filters["sources"] == ("sessions",)
    assert explained.filters["since"] == "1970-01-01T00:00:00.000Z"
    assert "source=sessions." in explained.filters["expression"]
    assert explained.filters["viewer"] == "operator"


# --- reasons -------------------------------------------------------------------------------------------------------


def test_hit(index: Index, note: Make) -> None:
    """By reference, citation, path: the same thing, with its place, score, and what it lacks."""
    index.put(note("memory/a.md", "The harbour crane."), note("memory/b.md", "harbour"))
    for name in ("memory/a.md", "note:memory/a.md#L1-L1", "memory/a.md#L1"):
        about = why(index, "harbour crane pelican", name)
        assert (about.reason, about.place, about.rank, about.passages) == ("hit", 1, 1, 1)
    assert about.terms == ("harbour", "crane") or set(about.terms) == {"harbour", "crane"}
    assert about.missing == ("pelican",)
    assert about.score and about.parts


def test_lines_choose_the_passage(index: Index, note: Make) -> None:
    """A citation means the passages that share a line with it; a path all, and the one that came farthest counts."""
    chunks = [Chunk("harbour crane", 1, 4), Chunk("pelican", 5, 9)]
    index.put(note("memory/a.md", "", chunks=chunks))
    assert why(index, "harbour", "memory/a.md#L6-L7").reason == "no_term"
    assert why(index, "harbour", "memory/a.md#L4-L6").reason == "hit"
    assert (why(index, "harbour", "memory/a.md").passages, why(index, "harbour", "memory/a.md#L9").passages) == (2, 1)


def test_messages_and_records_by_reference(index: Index, message: Make, record: Make) -> None:
    """``message:`` and ``record:``; a message may hold a word only in its neighbours."""
    index.put(message(1, 1, "The harbour?"), message(1, 2, "Yes, the crane."), record("r9", "L3", "likes harbours"))
    assert why(index, "harbour", "message:s1m1").found
    assert why(index, "harbour", "record:rec-r9").found
    about = why(index, "harbour", "message:s1m2")
    assert (about.terms, about.found) == (("harbour",), True)


def test_duplicate(index: Index, note: Make) -> None:
    """What says the same is listed under the hit."""
    index.put(note("memory/a.md", "The harbour crane.", at=1), note("memory/b.md", "The harbour crane.", at=2))
    about = why(index, "harbour crane", "memory/a.md")
    assert (about.reason, about.of, about.place) == ("duplicate", "memory/b.md#L1", None)


def test_overlap(index: Index, note: Make) -> None:
    """A passage that shares lines with a better one and adds no term."""
    chunks = [Chunk("harbour crane at the pier", 1, 4), Chunk("harbour and nothing else here at all", 3, 9)]
    index.put(note("memory/a.md", "", chunks=chunks))
    about = why(index, "harbour crane", "memory/a.md#L9")
    assert (about.reason, about.of) == ("overlap", "memory/a.md#L1-L4")


def test_session_cap(index: Index, message: Make, note: Make) -> None:
    """One session may not fill an answer while others have something to say."""
    index.put(*(message(1, position, f"harbour harbour crane {position}") for position in range(1, 40, 6)))
    index.put(*(note(f"memory/{n}.md", f"crane {n}") for n in range(6)))
    explained = asked(index, "harbour crane", max_results=5)
    capped = [row for row in explained.candidates if row.verdict == "session_cap"]
    assert capped
    assert why(index, "harbour crane", capped[0].reference, max_results=5).reason == "session_cap"


def test_no_session_is_capped_among_sessions_alone(index: Index, message: Make) -> None:
    """Whoever searches transcripts alone wants the best messages, be they of one session."""
    index.put(*(message(1, position, f"harbour harbour crane {position}") for position in range(1, 40, 6)))
    index.put(*(message(2, position, f"crane {position}") for position in range(1, 40, 6)))
    explained = asked(index, "harbour crane", max_results=5, sources=("sessions",))
    assert [row.verdict for row in explained.candidates[:5]] == ["hit"] * 5
    assert {row.citation.partition("#")[0] for row in explained.candidates[:5]} == {"sessions/token1"}
    assert "session_cap" not in {row.verdict for row in explained.candidates}


def test_below_min_score_and_below_the_floor_of_time(index: Index, note: Make) -> None:
    """The caller's floor; and, sorted by time, half of the best score."""
    index.put(
        note("memory/a.md", "harbour crane pier", at=1),
        note("memory/b.md", "pier " + "sand " * 200, at=2),
    )
    about = why(index, "harbour crane pier", "memory/b.md", min_score=0.4)
    assert about.reason == "below_min_score"
    assert about.score is not None and about.score < 0.4
    assert why(index, "harbour crane pier", "memory/b.md", sort="newest").reason == "below_time_floor"


def test_beyond_max_results(index: Index, note: Make) -> None:
    """Its rank says how far beyond, also when its text was never read."""
    index.put(*(note(f"memory/{n:03}.md", "harbour " + "sand " * n) for n in range(60)))
    near = why(index, "harbour", "memory/002.md", max_results=2)
    assert (near.reason, near.rank) == ("beyond_max_results", 3)
    far = why(index, "harbour", "memory/059.md", max_results=2)
    assert (far.reason, far.rank) == ("beyond_max_results", 60)
    assert "60" in far.detail
    late = why(index, "harbour", "memory/000.md", max_results=2, sort="newest")
    assert late.reason in ("hit", "beyond_max_results")


def test_empty_query(index: Index, note: Make) -> None:
    """Stop words are no question."""
    index.put(note("memory/a.md", "harbour"))
    assert why(index, "what is the", "memory/a.md").reason == "empty_query"


@pytest.mark.parametrize(
    ("filters", "named"),
    [
        ({"sources": ("sessions",)}, ("source",)),
        ({"layers": ("L3",)}, ("layer",)),
        ({"kinds": ("message",)}, ("kind",)),
        ({"sessions": (7,)}, ("session",)),
        ({"projects": ("other",)}, ("project",)),
        ({"since": 2_000}, ("since",)),
        ({"until": 1_000}, ("until",)),
        ({"since": 2_000, "sources": ("sessions",)}, ("source", "since")),
        ({"since": 1_000, "until": 1_001}, None),
    ],
)
def test_filtered(index: Index, note: Make, filters: dict[str, Any], named: tuple[str, ...] | None) -> None:
    """Each restriction that keeps it out is named, and none that does not."""
    index.put(note("memory/a.md", "harbour", at=1_000))
    about = why(index, "harbour", "memory/a.md", **filters)
    assert (about.reason, about.filters) == (("hit", ()) if named is None else ("filtered", named))


def test_filtered_by_several_together(index: Index, note: Make) -> None:
    """Where no restriction keeps out all passages alone, those that keep out some are named."""
    chunks = [Chunk("harbour", 1, 1, projects=("one",)), Chunk("pier", 2, 2, projects=("two",))]
    index.put(note("memory/a.md", "", chunks=chunks))
    assert why(index, "harbour", "memory/a.md", projects=("three",)).filters == ("project",)
    assert why(index, "harbour", "memory/a.md#L2", projects=("one",)).filters == ("project",)


def test_no_term_and_phrase_missing(index: Index, note: Make) -> None:
    """It holds no word of the query; or the words of a phrase, and not the phrase."""
    index.put(note("memory/a.md", "crane harbour"), note("memory/b.md", "harbour crane"))
    assert why(index, "pelican", "memory/a.md").reason == "no_term"
    about = why(index, '"harbour crane"', "memory/a.md")
    assert about.reason == "phrase_missing"
    assert "harbour" in about.terms


def test_not_chosen(index: Index, note: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the rows that are scored there is no rank, and the number of those is told."""
    monkeypatch.setattr(retrieve, "BEST_ROWS", 10)
    index.put(*(note(f"memory/{n:03}.md", "harbour " + "sand " * n) for n in range(60)))
    about = why(index, "harbour", "memory/059.md", max_results=1)
    assert (about.reason, about.rank, about.terms) == ("not_chosen", None, ("harbour",))
    assert "23" in about.detail


def test_weak_match(index: Index, note: Make) -> None:
    """One character of a Chinese word is no match while others hold the word."""
    index.put(note("memory/a.md", "我们在上海的机房"), note("memory/b.md", "海水很冷"))
    about = why(index, "上海", "memory/b.md")
    assert (about.reason, about.terms) == ("weak_match", ("海",))


def test_not_read(index: Index, note: Make) -> None:
    """The bound of the texts that one search reads."""
    index.put(*(note(f"memory/{n}.md", "harbour " + f"sand{n} " * 300) for n in range(6)))
    explained = asked(index, "harbour", max_bytes=5_000)
    assert explained.coverage == "partial"
    reasons = {why(index, "harbour", f"memory/{n}.md", max_bytes=5_000).reason for n in range(6)}
    assert reasons == {"hit", "not_read"}


def test_not_indexed(index: Index) -> None:
    """A name that no row bears."""
    for name in ("memory/none.md", "message:77", "record:rec-none", "note:memory/x.md#L2"):
        assert why(index, "harbour", name).reason == "not_indexed"


# --- audience ------------------------------------------------------------------------------------------------------


def test_what_a_viewer_may_not_see_is_as_what_is_not_there(index: Index, note: Make, message: Make) -> None:
    """Same words about both; counts are of visible rows; no rarity; and the operator may ask which it is."""
    index.put(
        note("memory/secret.md", "harbour granite"), note("memory/more.md", "harbour"), message(1, 1, "the harbour")
    )
    viewer = Viewer(session_id=1)
    hidden = why(index, "harbour granite", "memory/secret.md", viewer=viewer)
    absent = why(index, "harbour granite", "memory/absent.md", viewer=viewer)
    assert (hidden.reason, hidden.detail, hidden.passages) == (absent.reason, absent.detail, absent.passages)
    assert hidden.reason == "not_indexed"
    explained = asked(index, "harbour granite", viewer=viewer)
    terms = {term.text: term for term in explained.terms}
    assert (terms["harbour"].documents, terms["granite"].documents, terms["granite"].reading) == (1, 0, "dropped")
    assert all(term.rarity is None for term in explained.terms)
    assert [row.reference for row in explained.candidates] == ["message:s1m1"]
    assert "session=" not in explained.match and explained.withheld == 2
    revealed = why(index, "harbour granite", "memory/secret.md", viewer=viewer, reveal=True)
    assert (revealed.reason, revealed.filters) == ("filtered", ("audience",))
    assert why(index, "harbour", "memory/absent.md", viewer=viewer, reveal=True).reason == "not_indexed"


def test_no_text_of_a_memory_is_in_an_explanation(index: Index, note: Make) -> None:
    """Words of the query, names and numbers; nothing else of what is stored."""
    index.put(note("memory/a.md", "harbour marzipan", title="quince"))
    text = str(asked(index, "harbour", "memory/a.md"))
    assert "harbour" in text and "marzipan" not in text and "quince" not in text


def test_every_reason_is_in_words_and_on_the_page() -> None:
    """Each has a sentence here or where the store is asked, and a row in the page about searching."""
    page = (resources.files("memory_sqlite") / "docs" / "searching.md").read_text("utf-8")
    reasons = set(get_args(Reason))
    assert reasons == explain_target.SENTENCES.keys() | explaining.SENTENCES.keys()
    assert reasons == set(re.findall(r"^\| `(\w+)` \|", page.split("## Why it was found", 1)[1], re.M))


# --- meaning -------------------------------------------------------------------------------------------------------


def test_the_route_of_meaning_is_told(index: Index, note: Make) -> None:
    """With a vector: its route, a hit without any word of the query, and what is neither said nor near."""
    index.put(note("memory/a.md", "harbour"), note("memory/b.md", "port for ships"), note("memory/c.md", "marzipan"))
    numbers = {"memory/a.md": (1.0, 0.0), "memory/b.md": (1.0, 0.0), "memory/c.md": (0.0, 1.0)}
    identity = vector_rows.identity_text({"model": "test"})
    with index.connection:
        space = vector_rows.make_space(index.connection, identity, 2, {})
        for path, vector in numbers.items():
            (chunk,) = explain_target.meant(index.connection, path).chunks
            vector_rows.put(index.connection, space, [(chunk, path.encode(), array("f", vector).tobytes())])
        vector_rows.set_state(index.connection, space, "complete")
    query = QueryVector(identity, array("f", (1.0, 0.0)).tobytes(), 0.5, 0.5, 0.2, 0.9)
    explained = asked(index, "harbour", "memory/b.md", vector=query)
    assert explained.routes[0] == "lexical" and len(explained.routes) == 2
    assert explained.target is not None
    assert (explained.target.reason, explained.target.terms) == ("hit", ())
    about = why(index, "harbour", "memory/c.md", vector=query)
    assert about.reason == "no_term" and "nearest in meaning" in about.detail
