"""All routes find the same rows: whatever the shape, the filter, the number wanted, and however many are equal."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from math import isclose
from typing import Any

import pytest

from memory_sqlite.search.vectors import extension
from memory_sqlite.search.vectors.allowed import EVERYTHING, Allowed
from memory_sqlite.search.vectors.nearest import Nearest, cosines, nearest
from memory_sqlite.search.vectors.resident import Resident

SESSION = Allowed('filter : ("session=1.")')
PRIVATE = Allowed('filter : ("private.")')
NOBODY = Allowed('filter : ("nobody.")')
TIMED = Allowed(None, 20_000, 90_000)
TIMED_SESSION = Allowed('filter : ("session=2.")', 20_000, None)
FILTERS = (EVERYTHING, SESSION, PRIVATE, NOBODY, TIMED, TIMED_SESSION)

ROUTES = ("exact-python", "exact-numpy", "sqlite-vec", "resident-float32", "resident-int8")


def ask(store: Any, route: str, query: bytes, allowed: Allowed, k: int) -> Nearest:
    """The answer by one route; skips where what it needs is not installed."""
    if route != "exact-python" and route != "sqlite-vec":
        pytest.importorskip("numpy", reason="NumPy comes with the extra `vectors`")
    if route == "sqlite-vec" and not extension.load(store.connection):
        pytest.skip("sqlite-vec comes with the extra `vectors`")
    if not route.startswith("resident"):
        return nearest(store.connection, store.space, query, allowed, k, route=route)  # type: ignore[arg-type]
    resident = Resident(store.space, float_rows=10**9 if route.endswith("float32") else 0)
    assert resident.refresh(store.connection)
    return nearest(store.connection, store.space, query, allowed, k, resident=resident)


def by_hand(store: Any, query: bytes, allowed: Allowed, k: int) -> list[tuple[int, float]]:
    """The answer by comparing everything, with nothing of the product but one cosine at a time."""
    condition, bindings = allowed.condition("id")
    ids = [row[0] for row in store.connection.execute(f"SELECT id FROM chunks WHERE {condition}", bindings)]
    compared = cosines(store.connection, store.space, query, ids)
    return sorted(compared.items(), key=lambda row: (-row[1], row[0]))[:k]


def same(found: Sequence[tuple[int, float]], wanted: Sequence[tuple[int, float]]) -> bool:
    """The same cosines in the same order, and the same chunks wherever a cosine is nobody else's."""
    if len(found) != len(wanted):
        return False
    if not all(isclose(a[1], b[1], abs_tol=1e-6) for a, b in zip(found, wanted, strict=True)):
        return False
    last = wanted[-1][1] if wanted else 0.0
    certain = {chunk for chunk, cosine in wanted if cosine > last + 1e-6}
    return certain <= {chunk for chunk, _ in found}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(("rows", "dimensions"), [(1, 3), (2, 1), (90, 64), (300, 100), (257, 7)])
def test_every_route_finds_what_comparing_everything_finds(
    make_store: Callable[[int], Any], clustered: Callable[..., list[bytes]], route: str, rows: int, dimensions: int
) -> None:
    """Shapes that are no multiple of anything, every filter, fewer and more neighbours than there are rows."""
    store = make_store(dimensions)
    store.add(clustered(rows, dimensions, seed=rows))
    for query in clustered(3, dimensions, seed=rows + 1):
        for allowed in FILTERS:
            for k in (1, 10, rows + 5):
                found = ask(store, route, query, allowed, k)
                assert found.unavailable is None
                assert found.route == route
                assert same(found.rows, by_hand(store, query, allowed, k)), (allowed, k)


@pytest.mark.parametrize("route", ROUTES)
def test_equal_vectors_come_in_the_order_of_their_chunks(
    make_store: Callable[[int], Any], blob: Callable[..., bytes], route: str
) -> None:
    """All rows equal: every route returns the same ones, the lowest ids first, and the same again."""
    store = make_store(5)
    store.add([blob([1, 2, 3, 4, 5])] * 700)
    answers = [ask(store, route, blob([5, 4, 3, 2, 1]), EVERYTHING, 10) for _ in range(3)]
    assert [chunk for chunk, _ in answers[0].rows] == list(range(1, 11))
    assert answers[0] == answers[1] == answers[2]
    for chunk in range(1, 6):  # filed again, so that they lie behind all others
        store.file(chunk, blob([1, 2, 3, 4, 5]))
    again = ask(store, route, blob([5, 4, 3, 2, 1]), EVERYTHING, 10)
    assert [chunk for chunk, _ in again.rows] == list(range(1, 11))


@pytest.mark.parametrize("route", ROUTES)
def test_case_C022_more_neighbours_than_the_extension_takes_at_once(
    make_store: Callable[[int], Any], blob: Callable[..., bytes], route: str
) -> None:
    """5,000 chunks: ten, and all of them, without a word about a limit of 4,096; the true nearest ones."""
    import math

    store = make_store(4)
    store.add([blob([math.cos(i / 800), math.sin(i / 800), 0, 0]) for i in range(5_000)])
    query = blob([1, 0, 0, 0])
    for k in (10, 4_097, 5_000):
        found = ask(store, route, query, EVERYTHING, k)
        assert found.unavailable is None
        assert len(found.rows) == k
        assert same(found.rows, by_hand(store, query, EVERYTHING, k))
    assert [chunk for chunk, _ in ask(store, route, query, EVERYTHING, 1).rows] == [1]


@pytest.mark.parametrize("route", ROUTES)
def test_case_C030_a_replaced_vector_is_gone_and_cosines_stay_in_range(
    make_store: Callable[[int], Any], blob: Callable[..., bytes], route: str
) -> None:
    """The second wording is nearest with 1.0, the opposite one lies at -1.0, and twenty answers are one."""
    store = make_store(2)
    first, opposite = store.add([blob([1, 0]), blob([-1, 0])])
    store.file(first, blob([0, 1]))
    answers = [ask(store, route, blob([0, 1]), EVERYTHING, 5).rows for _ in range(20)]
    assert answers[0] == [(first, 1.0), (opposite, 0.0)]
    assert all(answer == answers[0] for answer in answers)
    assert ask(store, route, blob([1, 0]), EVERYTHING, 5).rows == [(first, 0.0), (opposite, -1.0)]


def test_bits_find_the_same_ten_as_comparing_everything(
    make_store: Callable[[int], Any], clustered: Callable[..., list[bytes]]
) -> None:
    """The cascade, on clustered vectors, without and with filters, also those that leave little."""
    pytest.importorskip(
        "numpy", minversion="2.0", reason="NumPy comes with the extra `vectors`, and counts bits from 2.0 on"
    )
    store = make_store(128)
    store.add(clustered(4_000, 128, seed=5, centres=150), sessions=25)
    resident = Resident(store.space, float_rows=0)
    assert resident.refresh(store.connection)
    assert resident.route == "resident-int8+bits", resident.describe()
    found = wanted = 0
    queries = clustered(15, 128, seed=5, centres=150)
    for query in queries:
        for allowed in (EVERYTHING, PRIVATE, SESSION, TIMED):
            answer = nearest(store.connection, store.space, query, allowed, 10, resident=resident)
            truth = by_hand(store, query, allowed, 10)
            assert answer.route == "resident-int8+bits"
            assert len(answer.rows) == len(truth)
            wanted += len(truth)
            found += len({chunk for chunk, _ in truth} & {chunk for chunk, _ in answer.rows})
    assert found / wanted >= 0.99


def test_cosines_are_the_same_with_and_without_numpy(
    make_store: Callable[[int], Any],
    clustered: Callable[..., list[bytes]],
    request: pytest.FixtureRequest,
) -> None:
    """Point reads of candidates: to the last digit that is kept, so that an order never hangs on what is installed."""
    pytest.importorskip("numpy", reason="NumPy comes with the extra `vectors`")
    store = make_store(384)
    ids = store.add(clustered(200, 384, seed=9))
    query = clustered(1, 384, seed=10)[0]
    with_numpy = cosines(store.connection, store.space, query, ids)
    request.getfixturevalue("no_numpy")
    assert cosines(store.connection, store.space, query, ids) == with_numpy
    assert set(with_numpy) == set(ids)


def test_random_small_stores_by_every_route(make_store: Callable[[int], Any], blob: Callable[..., bytes]) -> None:
    """Many tiny stores with repeated vectors, where ties are everywhere."""
    rng = random.Random(11)
    for _ in range(25):
        dimensions = rng.randint(1, 6)
        store = make_store(dimensions)
        vectors = [blob([rng.choice((-1, 1, 2)) for _ in range(dimensions)]) for _ in range(rng.randint(1, 40))]
        store.add(vectors)
        query, allowed, k = rng.choice(vectors), rng.choice(FILTERS), rng.randint(1, 12)
        wanted = by_hand(store, query, allowed, k)
        for route in ROUTES:
            assert same(ask(store, route, query, allowed, k).rows, wanted), route
