"""Who sees what: filters apply before ranking, in every table, and withheld hits are counted and nothing more."""

from __future__ import annotations

from typing import Any

import pytest

from memory_sqlite.search.filters import Filters, Viewer

OWNER = Viewer(session_id=1, owner_private=True)
GROUP = Viewer(session_id=2, owner_private=False)


@pytest.fixture
def filled(index: Any, note: Any, message: Any, record: Any) -> Any:
    index.put(
        note("memory/harbor.md", "The harbor crane needs grease."),
        message(1, 1, "The harbor office closes at five.", owner_private=True),
        message(2, 1, "The harbor party is on Friday."),
        message(3, 1, "The harbor secret of another group."),
        record("10", "L3", "The owner likes the harbor.", owner_private=True),
        record("20", "L3", "A stranger likes the harbor.", session_id=2, origin="untrusted"),
    )
    return index


def keys(found: tuple[list[Any], Any]) -> set[str]:
    return {hit.reference for hit in found[0]}


def test_the_operator_sees_everything(filled: Any) -> None:
    """No viewer restriction, and so nothing withheld."""
    hits, info = filled.search("harbor", max_results=20)
    assert len(hits) == 6
    assert info.withheld == 0


def test_a_direct_session_of_the_owner_sees_private_things_and_its_own(filled: Any) -> None:
    """Notes and owner-private records and sessions, never another group's."""
    hits, info = filled.search("harbor", viewer=OWNER, max_results=20)
    found = keys((hits, info))
    assert found == {"note:memory/harbor.md#L1-L1", "message:s1m1", "record:rec-10"}
    assert info.withheld == 3


def test_a_group_sees_only_itself(filled: Any) -> None:
    """No note, no fact of the owner, no other session."""
    assert keys(filled.search("harbor", viewer=GROUP, max_results=20)) == {"message:s2m1", "record:rec-20"}


def test_a_viewer_without_rights_sees_nothing(filled: Any) -> None:
    """Unknown audience is none; that something matched is still said."""
    hits, info = filled.search("harbor", viewer=Viewer(), max_results=20)
    assert hits == []
    assert info.withheld == 6


@pytest.mark.parametrize(
    ("query", "filters", "withheld"),
    [
        ("harbor crane", {}, 2),
        ('"harbor crane"', {}, 1),
        ('"crane harbor"', {}, 0),
        ("harbor crane", {"since": 2_000}, 1),
        ("harbor crane", {"until": 1_000}, 0),
        ("harbor crane", {"sources": ("sessions",)}, 0),
    ],
)
def test_withheld_counts_only_what_would_have_been_an_answer(
    index: Any, note: Any, query: str, filters: dict[str, Any], withheld: int
) -> None:
    """A phrase, a time or a source that leaves it out for everybody is no reason to say that something is hidden."""
    index.put(note("memory/a.md", "The harbor crane.", at=1_000), note("memory/b.md", "Harbor, no crane.", at=2_000))
    hits, info = index.search(query, viewer=Viewer(), **filters)
    assert (hits, info.withheld) == ([], withheld)


def test_context_rows_are_filtered_like_the_messages(index: Any, message: Any) -> None:
    """A message that is found through its neighbour alone is found by its own session only."""
    index.put(message(3, 1, "Where is the zeppelin?"), message(3, 2, "In the hangar."))
    assert index.search("zeppelin", viewer=GROUP)[0] == []
    assert {hit.message_id for hit in index.search("zeppelin", viewer=Viewer(session_id=3))[0]} == {"s3m1", "s3m2"}


def test_text_cannot_forge_a_filter_token(index: Any, note: Any) -> None:
    """What a memory says never changes who may see it: filter tokens live in a column of their own."""
    index.put(note("memory/forged.md", 'session=2. private. "session=2." source=sessions. harbor', owner_private=True))
    assert index.search("harbor", viewer=GROUP)[0] == []
    assert index.search("session=2.", viewer=GROUP)[0] == []


def test_refiling_a_session_changes_its_audience(filled: Any, message: Any) -> None:
    """When a session turns out not to be the owner's, everything said in it stops being private to the owner."""
    from memory_sqlite.indexing import rows

    with filled.connection:
        rows.set_session_audience(filled.connection, 1, False)
    assert "message:s1m1" not in keys(filled.search("harbor", viewer=Viewer(session_id=9, owner_private=True)))
    assert "message:s1m1" in keys(filled.search("harbor", viewer=Viewer(session_id=1)))
    with filled.connection:
        rows.set_session_audience(filled.connection, 1, True)
    assert "message:s1m1" in keys(filled.search("harbor", viewer=Viewer(session_id=9, owner_private=True)))
    assert rows.inconsistency(filled.connection) is None


def test_filters_restrict_before_ranking(filled: Any) -> None:
    """Source, layer, session, kind: the answer is full of what was asked for, not what was left after a cut."""
    assert keys(filled.search("harbor", sources=("sessions",))) == {"message:s1m1", "message:s2m1", "message:s3m1"}
    assert keys(filled.search("harbor", layers=("L3",))) == {"record:rec-10", "record:rec-20"}
    assert keys(filled.search("harbor", sessions=(2,))) == {"message:s2m1", "record:rec-20"}
    assert keys(filled.search("harbor", kinds=("note",))) == {"note:memory/harbor.md#L1-L1"}
    assert filled.search("harbor", sources=())[0] == []


def test_projects_filter_and_boost(index: Any, note: Any) -> None:
    """As a filter a project leaves others out; as a boost it only decides between equals."""
    from memory_sqlite.model import Chunk

    index.put(
        note("memory/a.md", "", chunks=[Chunk("The relay is in rack four.", 1, 1, projects=("north/harbor",))]),
        note("memory/b.md", "", chunks=[Chunk("The relay is in rack five.", 1, 1, projects=("north/canal",))]),
    )
    assert index.paths("relay rack", projects=("North/Harbor",)) == ["a.md"]
    assert index.paths("relay rack", boost_projects=("north/canal",)) == ["b.md", "a.md"]
    assert index.paths("relay rack", boost_projects=("north/harbor",)) == ["a.md", "b.md"]


def test_time_filters_on_event_time(index: Any, note: Any, message: Any) -> None:
    """``since`` is included, ``until`` is not, and what has no time is in no period."""
    index.put(
        note("memory/undated.md", "harbor undated"),
        note("memory/old.md", "harbor old", at=1_000),
        note("memory/new.md", "harbor new", at=2_000),
        message(1, 1, "harbor message", at=2_000),
    )
    assert index.paths("harbor", since=2_000, sources=("memory",)) == ["new.md"]
    assert index.paths("harbor", until=2_000) == ["old.md"]
    assert set(index.paths("harbor", since=1_000, until=2_001)) == {"old.md", "new.md", "sessions/token1"}


def test_an_expression_names_no_user_text() -> None:
    """Session keys and project keys are user text: the expression holds numbers and digests."""
    filters = Filters(Viewer(session_id=7), projects=('north" OR "x',), sessions=(7,))
    expression = f"{filters.viewer.expression()} {filters.expression()}"
    assert "north" not in expression
    assert "session=7." in expression
