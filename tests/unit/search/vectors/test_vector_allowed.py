"""Which chunks a vector search may return: exactly those that the lexical leg may, whatever the filters."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_sqlite.model import DocumentKind, Layer, Source
from memory_sqlite.search import match
from memory_sqlite.search.filters import OPERATOR, Filters, Viewer
from memory_sqlite.search.vectors.allowed import EVERYTHING, Allowed, allowed
from memory_sqlite.search.vectors.nearest import SCANS, nearest
from memory_sqlite.search.vectors.resident import Resident

PROJECTS = ("Alpha", " beta", "GAMMA-1", "数据库")
ROWS = 160


def filled(make_store: Callable[[int], Any], blob: Any) -> tuple[Any, list[dict[str, Any]]]:
    """Chunks of every mixture of properties, each with a vector; and what they are."""
    rng = random.Random(2)
    store = make_store(2)
    rows = []
    for number in range(1, ROWS + 1):
        kind = rng.choice(get_args(DocumentKind))
        row = {
            "kind": kind,
            "source": "sessions" if kind == "message" else "memory",
            "layer": rng.choice([None, *get_args(Layer)]),
            "session": rng.choice([None, 1, 2, 3, 11]),
            "private": rng.random() < 0.5,
            "at": rng.choice([None, *range(0, 1_000, 50)]),
            "projects": tuple(rng.sample(PROJECTS, rng.randint(0, 2))) if kind != "message" else (),
        }
        store.add_chunk(number, **row)
        rows.append(row)
        store.file(number, blob([1, number / ROWS]))
    return store, rows


@pytest.fixture(name="filled")
def _filled(make_store: Callable[[int], Any], blob: Any) -> tuple[Any, list[dict[str, Any]]]:
    return filled(make_store, blob)


def admitted(row: dict[str, Any], filters: Filters) -> bool:
    """The rule in plain words, from the properties and not from any token."""

    def folded(names: tuple[str, ...]) -> set[str]:
        return {name.strip().casefold() for name in names}

    viewer = filters.viewer
    mine = viewer.session_id is not None and row["session"] == viewer.session_id
    return (
        (viewer.operator or mine or (viewer.owner_private and row["private"]))
        and row["source"] in filters.sources
        and (filters.layers is None or row["layer"] in filters.layers)
        and (filters.kinds is None or row["kind"] in filters.kinds)
        and (filters.sessions is None or row["session"] in filters.sessions)
        and (filters.projects is None or bool(folded(filters.projects) & folded(row["projects"])))
        and (filters.since is None or (row["at"] is not None and row["at"] >= filters.since))
        and (filters.until is None or (row["at"] is not None and row["at"] < filters.until))
    )


def some_of(*values: Any) -> st.SearchStrategy[tuple[Any, ...] | None]:
    return st.none() | st.lists(st.sampled_from(values), unique=True, max_size=3).map(tuple)


sessions = st.sampled_from([None, 1, 2, 3, 11, 4])
viewers = st.just(OPERATOR) | st.builds(Viewer, st.just(False), sessions, st.booleans())
all_filters = st.builds(
    Filters,
    viewers,
    st.lists(st.sampled_from(get_args(Source)), unique=True).map(tuple),
    some_of(*get_args(Layer)),
    some_of(1, 2, 3, 11, 4),
    some_of("alpha", "BETA ", "gamma-1", "数据库", "nothing"),
    some_of(*get_args(DocumentKind)),
    st.none() | st.integers(-10, 1_010),
    st.none() | st.integers(-10, 1_010),
)


def test_random_filters_mean_the_same_in_both_legs(filled: tuple[Any, list[dict[str, Any]]]) -> None:
    """As a condition, as a list of ids, by the lexical leg's own statement, and by the rule in plain words."""
    store, rows = filled

    @settings(max_examples=300, deadline=None)
    @given(all_filters)
    def check(filters: Filters) -> None:
        wanted = {number for number, row in enumerate(rows, 1) if admitted(row, filters)}
        asked = allowed(filters)
        condition, bindings = asked.condition("id")
        by_condition = store.connection.execute(f"SELECT id FROM chunks WHERE {condition}", bindings).fetchall()
        assert {number for (number,) in by_condition} == wanted
        listed = asked.chunk_ids(store.connection)
        assert sorted(int(number) for number in listed.split(",") if number) == sorted(wanted)
        clauses = [clause for clause in (filters.viewer.expression(), filters.expression()) if clause is not None]
        by_words, _ = match.best_rows(
            store.connection,
            "lexical",
            match.expression("body", '"text"', [], clauses),
            1,
            ROWS,
            since=filters.since,
            until=filters.until,
        )
        assert {row.rowid for row in by_words} == wanted

    check()


@pytest.mark.parametrize("route", [*SCANS, "resident"])
def test_filters_apply_before_selection(filled: tuple[Any, list[dict[str, Any]]], blob: Any, route: str) -> None:
    """However far the allowed rows are from the query, as many are found as there are: nothing starves."""
    store, rows = filled
    if route in ("exact-numpy", "resident"):
        pytest.importorskip("numpy", reason="NumPy comes with the extra `vectors`")
    if route == "sqlite-vec":
        from memory_sqlite.search.vectors import extension

        if not extension.load(store.connection):
            pytest.skip("sqlite-vec comes with the extra `vectors`")
    resident = Resident(store.space)
    if route == "resident":
        assert resident.refresh(store.connection)
    for viewer in (
        Viewer(session_id=11),
        Viewer(owner_private=True),
        Viewer(session_id=1, owner_private=True),
        Viewer(),
    ):
        filters = Filters(viewer)
        wanted = [number for number, row in enumerate(rows, 1) if admitted(row, filters)]
        found = nearest(
            store.connection,
            store.space,
            blob([1, 0]),  # the nearest are those with the lowest numbers
            allowed(filters),
            7,
            resident=resident if route == "resident" else None,
            route=None if route == "resident" else route,  # type: ignore[arg-type]
        )
        assert [chunk for chunk, _ in found.rows] == wanted[:7]


def test_the_operator_without_restrictions_is_allowed_everything() -> None:
    """No condition at all, so that nothing has to be looked up."""
    assert allowed(Filters(OPERATOR)) == EVERYTHING
    assert EVERYTHING.everything
    assert EVERYTHING.condition("id") == ("TRUE", ())
    assert not allowed(Filters(OPERATOR, since=0)).everything
    assert not allowed(Filters(Viewer())).everything


def test_ids_of_a_time_read_the_words_once(filled: tuple[Any, list[dict[str, Any]]]) -> None:
    """Not once for every id, as SQLite does where ids stand beside MATCH: that took 1.4 s at 200,000 chunks."""
    connection = filled[0].connection
    asked = Allowed('filter : ("source=memory.")', 0, 500)
    statements: list[str] = []
    connection.exec_trace = lambda _cursor, sql, _bindings: statements.append(sql) or True
    try:
        listed = asked.chunk_ids(connection)
    finally:
        connection.exec_trace = None
    (statement,) = statements
    plan = [
        row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", ('filter : ("source=memory.")', 0, 500))
    ]
    (words,) = [step for step in plan if "lexical" in step]
    assert listed and words.startswith("SCAN lexical") and "=" not in words
