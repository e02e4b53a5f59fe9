"""The smallest corpus there is: one chunk. Every way of asking finds it, every route, and an explanation is whole."""

from __future__ import annotations

from array import array
from typing import Any

import pytest

from memory_sqlite.generations import vector_rows
from memory_sqlite.search.explain import explain
from memory_sqlite.search.filters import OPERATOR, Filters, Viewer
from memory_sqlite.search.run import search
from memory_sqlite.search.vectors import extension, nearest
from memory_sqlite.search.vectors.query_vector import QueryVector
from memory_sqlite.search.vectors.resident import Resident

NOW_MS = 1_796_040_000_000
TEXT = "The granite kettle (ERR_KETTLE_42) is in 上海, says María. Long-term!"
IDENTITY = '{"model":"one"}'
ROUTES = ("exact-python", "exact-numpy", "sqlite-vec", "resident-float32", "resident-int8")


@pytest.fixture
def only(index: Any, note: Any) -> Any:
    """The index with its one chunk."""
    index.put(note("memory/only.md", TEXT))
    return index


@pytest.mark.parametrize(
    "query",
    [
        *("granite", "is the granite kettle where?", "granit", "grnaite", "kett*", '"granite kettle"', "maria", "42"),
        *("上海", "海", "ERR_KETTLE_42", "err kettle", "long-term", "only.md", 'zebra "kettle granite" granite'),
    ],
)
def test_one_chunk_is_found_by_words(only: Any, query: str) -> None:
    """Where every word stands in every chunk, rarity is worth something still, and scores stay in 0 to 1."""
    (hit,), info = only.search(query)
    assert (hit.path, hit.excerpt) == ("memory/only.md", TEXT)
    assert 0.0 < hit.score <= 1.0
    assert (info.routes, info.coverage) == (("lexical",), "complete")


@pytest.mark.parametrize("query", ["zebra", '"kettle granite"', "北京", "the"])
def test_one_chunk_is_not_found_by_others(only: Any, query: str) -> None:
    """What it does not say finds nothing; nor does a session that may not see it, which is told that there is more."""
    assert only.search(query)[0] == []
    hits, info = only.search("granite", viewer=Viewer(session_id=3))
    assert (hits, info.withheld) == ([], 1)


@pytest.mark.parametrize("route", ROUTES)
def test_one_vector_is_found_by_every_route(only: Any, route: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By meaning alone, and with words; the answer names the route that was used."""
    connection = only.connection
    if route not in ("exact-python", "sqlite-vec"):
        pytest.importorskip("numpy", reason="NumPy comes with the extra `vectors`")
    if route == "sqlite-vec" and not extension.load(connection):
        pytest.skip("sqlite-vec comes with the extra `vectors`")
    unit = array("f", [1.0, 0.0, 0.0]).tobytes()
    with connection:
        space = vector_rows.make_space(connection, IDENTITY, 3, {})
        chunk = connection.execute("SELECT id FROM chunks").get
        vector_rows.put(connection, space, [(chunk, b"0" * 16, unit)])
        vector_rows.set_state(connection, space, "complete")
    monkeypatch.setattr(nearest, "choose", lambda *_: route)
    resident = None
    if route.startswith("resident"):
        resident = Resident(space, float_rows=10**9 if route == "resident-float32" else 0)
        assert resident.refresh(connection)
    vector = QueryVector(IDENTITY, unit, latin=0.5, cjk=0.5, other=0.5, low=0.0, high=1.0, floor=0.5)
    scores = {}
    for query in ("teapot of stone", "granite kettle here"):
        (hit,), info = search(
            connection,
            query,
            Filters(OPERATOR),
            now_ms=NOW_MS,
            max_results=6,
            max_bytes=1 << 20,
            vector=vector,
            residents=lambda space: resident,
            explain=True,
        )
        assert info.routes == ("lexical", route)
        assert hit.explanation["meaning"] == pytest.approx(1.0)
        scores[query] = hit.score
    assert 0.0 < scores["teapot of stone"] < scores["granite kettle here"] <= 1.0


def test_one_chunk_is_explained(only: Any) -> None:
    """Terms with their counts, the one candidate, its parts, and why."""
    explained, hits = explain(
        only.connection,
        "granite zebra",
        Filters(OPERATOR),
        "memory/only.md",
        now_ms=NOW_MS,
        max_results=6,
        max_bytes=9999,
    )
    assert [hit.path for hit in hits] == ["memory/only.md"]
    assert {term.text: term.documents for term in explained.terms} == {"granite": 1, "zebra": 0}
    (row,) = explained.candidates
    assert (row.rank, row.place, row.verdict, row.terms) == (1, 1, "hit", ("granite",))
    assert row.parts["words"] > 0.0 and row.parts["covered"] > 0.0
    target = explained.target
    assert target is not None and (target.reason, target.place, target.missing) == ("hit", 1, ("zebra",))


def test_no_chunk_at_all(index: Any) -> None:
    """An index without a row is asked like any other."""
    assert index.search("granite")[0] == []
    explained, hits = explain(
        index.connection, "granite", Filters(OPERATOR), "memory/only.md", now_ms=NOW_MS, max_results=6, max_bytes=9999
    )
    assert (hits, explained.candidates) == ([], ())
    assert explained.target is not None and explained.target.reason == "not_indexed"
