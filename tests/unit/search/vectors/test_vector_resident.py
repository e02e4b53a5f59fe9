"""What a warm worker keeps in memory: of how many rows, when it trusts it, and how it follows the table."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

import apsw
import pytest

from memory_sqlite import errors, limits
from memory_sqlite.search.vectors import calibration, codes, extension, resident, residents
from memory_sqlite.search.vectors.allowed import EVERYTHING, Allowed
from memory_sqlite.search.vectors.held import form_bytes
from memory_sqlite.search.vectors.nearest import nearest
from memory_sqlite.search.vectors.resident import Resident, choose_form
from memory_sqlite.search.vectors.residents import Residents

pytest.importorskip("numpy", reason="NumPy comes with the extra `vectors`")
with_bits = pytest.mark.skipif(not codes.has_bit_count(), reason="NumPy counts bits from 2.0 on")

Filed = Callable[[int], tuple[Any, apsw.Connection]]


def loaded(space: Any, connection: apsw.Connection, **bounds: int) -> Resident:
    made = Resident(space, **bounds)
    assert made.refresh(connection)
    return made


def ids(connection: apsw.Connection, kept: Resident, query: bytes, k: int = 10, allowed: Allowed = EVERYTHING) -> Any:
    found = nearest(connection, kept.space, query, allowed, k, resident=kept)
    assert found.route == kept.route
    return [chunk for chunk, _ in found.rows]


@with_bits
def test_noise_is_recognised_and_its_bits_are_not_used(
    make_store: Callable[[int], Any], noise: Callable[..., list[bytes]], clustered: Callable[..., list[bytes]]
) -> None:
    """Isotropic vectors: the measured recall is too low, int8 is scanned whole, the answers are right all the same."""
    store = make_store(96)
    store.add(noise(3_000, 96, seed=1))
    kept = loaded(store.space, store.connection, float_rows=0)
    assert kept.route == "resident-int8"
    assert kept.describe()["handed_on"] == (None, None)
    assert kept.describe()["recall"][0] < calibration.RECALL
    for query in noise(10, 96, seed=2):
        wanted = nearest(store.connection, store.space, query, EVERYTHING, 10, route="exact-python").rows
        assert ids(store.connection, kept, query) == [chunk for chunk, _ in wanted]


def test_vectors_that_are_all_equal_need_no_bits(make_store: Callable[[int], Any], blob: Any) -> None:
    """Nothing tells them apart, so nothing is handed on by bits; the lowest chunks come first."""
    store = make_store(8)
    store.add([blob([1] * 8)] * 3_000)
    kept = loaded(store.space, store.connection, float_rows=0)
    assert kept.route == "resident-int8"
    assert ids(store.connection, kept, blob([1] * 8), 3) == [1, 2, 3]


def test_what_comes_and_goes_is_followed(filed: Filed, clustered: Callable[..., list[bytes]], blob: Any) -> None:
    """Another connection files, replaces and removes; each next answer knows, and nothing is loaded anew."""
    store, reader = filed(16)
    store.add(clustered(500, 16, seed=3))
    kept = loaded(store.space, reader)
    before = kept.describe()["bytes"]
    query = blob([1] + [0] * 15)
    (added,) = store.add([query])
    assert ids(reader, kept, query, 1) == [added]
    store.file(7, blob([1, 0.01] + [0] * 14))
    assert ids(reader, kept, query, 2) == [added, 7]
    store.remove(added)
    assert ids(reader, kept, query, 1) == [7]
    store.remove(7, 8, 9)
    found = ids(reader, kept, query, 500)
    assert len(found) == 497
    assert not {7, 8, 9, added} & set(found)
    described = kept.describe()
    # the added one, the old vector of 7, its new one, 8 and 9
    assert (described["rows"], described["gone"]) == (497, 5)
    assert described["bytes"] == before


def test_its_own_connection_may_write_too(make_store: Callable[[int], Any], blob: Any) -> None:
    """SQLite's counter tells of other connections only; what this one wrote is seen as well."""
    store = make_store(2)
    store.add([blob([1, 0])])
    kept = loaded(store.space, store.connection)
    (added,) = store.add([blob([0, 1])])
    assert ids(store.connection, kept, blob([0, 1]), 1) == [added]


def test_a_chunk_number_that_is_used_again_has_its_new_vector(filed: Filed, blob: Any) -> None:
    """Numbers of chunks come again, those of vectors never do."""
    store, reader = filed(2)
    store.add([blob([1, 0]), blob([0, 1])])
    kept = loaded(store.space, reader)
    store.remove(2)
    store.chunks = 1
    assert store.add([blob([1, 0.1])]) == [2]
    found = nearest(reader, store.space, blob([0, 1]), EVERYTHING, 5, resident=kept).rows
    assert [chunk for chunk, _ in found] == [2, 1]
    assert found[0][1] < 0.2


def test_a_filter_is_asked_again_when_the_file_has_changed(filed: Filed, blob: Any) -> None:
    """Allowed rows are kept between two questions and not beyond a change."""
    store, reader = filed(2)
    store.add([blob([1, 0])] * 8)
    kept = loaded(store.space, reader)
    allowed = Allowed('filter : ("session=1.")')
    assert ids(reader, kept, blob([1, 0]), 10, allowed) == [1, 5]
    store.add([blob([1, 0])])  # the ninth, of session 1
    assert ids(reader, kept, blob([1, 0]), 10, allowed) == [1, 5, 9]
    for number in range(resident.FILTERS_KEPT + 2):  # no more are kept than that
        ids(reader, kept, blob([1, 0]), 10, Allowed(None, number, None))
    assert ids(reader, kept, blob([1, 0]), 10, allowed) == [1, 5, 9]


def test_it_is_loaded_in_parts_and_answers_when_it_is_whole(
    filed: Filed, clustered: Callable[..., list[bytes]]
) -> None:
    """Until then the question goes another way, and what is written meanwhile is taken in at the end."""
    store, reader = filed(8)
    store.add(clustered(resident.BATCH_ROWS + 100, 8, seed=4))
    kept = Resident(store.space)
    assert not kept.refresh(reader, rows=1)  # one batch
    assert kept.describe()["rows"] == resident.BATCH_ROWS
    (query,) = clustered(1, 8, seed=5)
    assert not nearest(reader, store.space, query, EVERYTHING, 3, resident=kept).route.startswith("resident")
    store.remove(1, 2)
    store.add(clustered(3, 8, seed=6))
    while not kept.refresh(reader, rows=1):
        pass
    assert kept.describe()["rows"] == resident.BATCH_ROWS + 101
    assert ids(reader, kept, query) == [
        chunk for chunk, _ in nearest(reader, store.space, query, EVERYTHING, 10, route="exact-python").rows
    ]


def test_loading_that_is_cancelled_goes_on_where_it_was(filed: Filed, clustered: Callable[..., list[bytes]]) -> None:
    """The flag is looked at between two batches; nothing is read twice."""
    store, reader = filed(8)
    store.add(clustered(resident.BATCH_ROWS + 10, 8, seed=7))
    looks = iter([False, True])
    kept = Resident(store.space)
    with pytest.raises(errors.Cancelled):
        kept.refresh(reader, lambda: next(looks))
    assert not kept.whole
    assert kept.describe()["rows"] == resident.BATCH_ROWS
    assert kept.refresh(reader)
    assert kept.describe()["rows"] == resident.BATCH_ROWS + 10


def test_more_rows_than_there_is_room_for_are_loaded_anew(
    filed: Filed, blob: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question that meets it goes another way; the next refresh makes room."""
    monkeypatch.setattr(limits, "VECTOR_SPARE_ROWS", 4)
    store, reader = filed(2)
    store.add([blob([1, 0])] * 10)
    kept = loaded(store.space, reader)
    added = store.add([blob([0, 1])] * 9)
    found = nearest(reader, store.space, blob([0, 1]), EVERYTHING, 1, resident=kept)
    assert not found.route.startswith("resident")
    assert found.rows == [(added[0], 1.0)]
    assert kept.refresh(reader)
    assert ids(reader, kept, blob([0, 1]), 1) == [added[0]]


def test_when_much_is_gone_it_is_loaded_anew_and_smaller(
    filed: Filed, blob: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost rows cost time and memory: from a fifth on they go."""
    monkeypatch.setattr(limits, "VECTOR_SPARE_ROWS", 4)
    store, reader = filed(2)
    store.add([blob([1, 0])] * 40)
    kept = loaded(store.space, reader)
    store.remove(*range(1, 21))
    assert not kept.refresh(reader)
    assert kept.refresh(reader)
    described = kept.describe()
    assert (described["rows"], described["gone"]) == (20, 0)
    assert ids(reader, kept, blob([1, 0]), 1) == [21]


def test_a_row_that_is_no_vector_is_never_found(filed: Filed, blob: Any) -> None:
    """A damaged file: not a number, infinite, zero, too short. Each is left out and nothing fails."""
    store, reader = filed(2)
    store.add([blob([1, 0])] * 6)
    for chunk, numbers in ((1, [float("nan"), 0]), (2, [float("inf"), 0]), (3, [float("-inf"), 1])):
        store.raw(chunk, array("f", numbers).tobytes())
    store.raw(4, b"\x00\x00\x80\x3f")
    for bounds in ({}, {"float_rows": 0}):
        kept = loaded(store.space, reader, **bounds)
        assert ids(reader, kept, blob([1, 0])) == [5, 6]


@with_bits
@pytest.mark.parametrize(
    ("rows", "max_bytes", "form"),
    [
        (1_000, 10**9, "float32"),
        (limits.VECTOR_FLOAT_ROWS, 10**9, "float32"),
        (limits.VECTOR_FLOAT_ROWS + 1, 10**9, "int8+bits"),
        (200_000, form_bytes("int8+bits", 200_000, 384), "int8+bits"),
        (200_000, form_bytes("int8+bits", 200_000, 384) - 1, "int8"),
        (200_000, form_bytes("int8", 200_000, 384) - 1, "bits"),
        (200_000, form_bytes("bits", 200_000, 384) - 1, None),
        (1_000_000, limits.VECTOR_RESIDENT_MAX_BYTES, "bits"),
    ],
)
def test_the_form_follows_from_rows_and_memory(rows: int, max_bytes: int, form: str | None) -> None:
    """Exact while it is small, quantised when it is not, bits alone when even that is too much, at last nothing."""
    assert choose_form(rows, 384, max_bytes, limits.VECTOR_FLOAT_ROWS) == form


def test_without_a_bit_count_there_are_no_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy 1.26 cannot count bits: int8 is scanned."""
    monkeypatch.setattr(codes, "has_bit_count", lambda: False)
    assert choose_form(200_000, 384, 10**9, limits.VECTOR_FLOAT_ROWS) == "int8"


@with_bits
def test_bits_alone_hand_their_rows_to_the_exact_comparison(
    make_store: Callable[[int], Any], clustered: Callable[..., list[bytes]]
) -> None:
    """Where int8 does not fit: still the same ten."""
    store = make_store(128)
    store.add(clustered(4_000, 128, seed=5, centres=90))
    room = 4_000 + limits.VECTOR_SPARE_ROWS
    kept = Resident(store.space, float_rows=0, max_bytes=form_bytes("bits", room, 128))
    assert kept.refresh(store.connection)
    assert kept.route == "resident-bits"
    for query in clustered(5, 128, seed=5, centres=90):
        wanted = nearest(store.connection, store.space, query, EVERYTHING, 10, route="exact-python").rows
        assert set(ids(store.connection, kept, query)) == {chunk for chunk, _ in wanted}
    assert kept.describe()["handed_on"][1] is None  # a hundred reach beyond the clusters of 44
    answer = nearest(store.connection, store.space, query, EVERYTHING, 100, resident=kept)
    assert not answer.route.startswith("resident")
    assert len(answer.rows) == 100


@with_bits
def test_bits_alone_of_noise_are_given_up(make_store: Callable[[int], Any], noise: Callable[..., list[bytes]]) -> None:
    """They cannot be trusted and there is nothing else: the space is unfit, and asked another way from then on."""
    store = make_store(64)
    store.add(noise(3_000, 64, seed=8))
    kept = Resident(store.space, float_rows=0, max_bytes=form_bytes("bits", 3_000 + limits.VECTOR_SPARE_ROWS, 64))
    assert not kept.refresh(store.connection)
    assert kept.unfit
    assert kept.bytes == 0
    assert not kept.refresh(store.connection)
    (query,) = noise(1, 64, seed=9)
    assert not nearest(store.connection, store.space, query, EVERYTHING, 1, resident=kept).route.startswith("resident")


def test_an_empty_space_is_whole_at_once(filed: Filed, blob: Any) -> None:
    """No rows, no answer, no error; the first row that comes is found."""
    store, reader = filed(3)
    kept = loaded(store.space, reader)
    assert ids(reader, kept, blob([1, 0, 0])) == []
    store.add([blob([1, 0, 0])])
    assert ids(reader, kept, blob([1, 0, 0])) == [1]


def test_residents_share_one_bound_and_the_least_used_goes(filed: Filed, blob: Any) -> None:
    """Two fit, three do not; what is let go is loaded again when it is asked for."""
    stores = [filed(4) for _ in range(3)]
    for store, _ in stores:
        store.add([blob([1, 0, 0, 0])] * 50)
    one = form_bytes("float32", 50 + limits.VECTOR_SPARE_ROWS, 4)
    kept = Residents(max_bytes=2 * one, least_rows=0)
    for store, reader in stores[:2]:
        assert kept.get(reader, store.space) is not None
    assert kept.get(stores[0][1], stores[0][0].space) is not None  # now the second is the one used least
    assert kept.get(stores[2][1], stores[2][0].space) is not None
    assert len(kept.describe()) == 2
    assert sum(row["bytes"] for row in kept.describe()) <= 2 * one
    first = kept.get(stores[0][1], stores[0][0].space)
    assert first is not None
    assert kept.get(stores[0][1], stores[0][0].space) is first
    assert kept.get(stores[1][1], stores[1][0].space) is not None
    assert len(kept.describe()) == 2


def test_a_resident_goes_with_its_connection(make_store: Callable[[int], Any], blob: Any) -> None:
    """A generation that is let go takes its vectors out of memory."""
    import gc

    kept = Residents(least_rows=0)
    store = make_store(2)
    store.add([blob([1, 0])])
    assert kept.get(store.connection, store.space) is not None
    store.connection.close()
    del store
    gc.collect()
    assert kept.describe() == []


def test_without_numpy_there_is_no_resident(make_store: Callable[[int], Any], blob: Any, no_numpy: None) -> None:
    """And the question is answered another way."""
    store = make_store(2)
    store.add([blob([1, 0])])
    assert Residents(least_rows=0).get(store.connection, store.space) is None
    assert nearest(store.connection, store.space, blob([1, 0]), EVERYTHING, 1).rows == [(1, 1.0)]


def test_a_small_space_is_kept_only_where_nothing_else_is_quick(
    make_store: Callable[[int], Any], blob: Any, request: pytest.FixtureRequest
) -> None:
    """Where sqlite-vec loads, a few thousand rows are its own; without it they are kept."""
    store = make_store(2)
    store.add([blob([1, 0])])
    kept = Residents()
    if extension.load(store.connection):
        assert kept.get(store.connection, store.space) is None
        assert Residents(least_rows=0).get(store.connection, store.space) is not None
    request.getfixturevalue("no_extension")
    assert kept.get(store.connection, store.space) is not None


def test_a_search_loads_a_part_and_goes_another_way(filed: Filed, blob: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large space does not hold the first question up until all of it is in memory."""
    store, reader = filed(1)
    store.add([blob([1])] * (resident.BATCH_ROWS + 5))
    kept = Residents(least_rows=0)
    assert kept.get(reader, store.space, rows=resident.BATCH_ROWS) is None
    assert [row["rows"] for row in kept.describe()] == [resident.BATCH_ROWS]
    assert kept.get(reader, store.space, rows=resident.BATCH_ROWS) is not None


def test_what_a_question_began_to_load_goes_on_while_nobody_asks(filed: Filed, blob: Any) -> None:
    """A batch at a time, to the end, and then there is nothing to do; nothing is begun that nobody asked for."""
    store, reader = filed(1)
    store.add([blob([1])] * (2 * resident.BATCH_ROWS + 5))
    kept = Residents(least_rows=0)
    assert not kept.go_on()
    assert kept.get(reader, store.space, rows=1) is None
    seen = []
    while kept.go_on():
        seen.append(kept.describe()[0]["rows"])
    assert seen == [2 * resident.BATCH_ROWS, 2 * resident.BATCH_ROWS + 5]
    assert kept.describe()[0]["whole"]
    store.add([blob([1])])
    assert not kept.go_on()  # a question takes in what came since
    assert kept.get(reader, store.space) is not None


def test_what_cannot_be_loaded_further_is_left_to_the_next_question(filed: Filed, blob: Any) -> None:
    """Its file was let go, or it has no room for what came: the worker does not try again and again."""
    store, reader = filed(1)
    store.add([blob([1])] * (resident.BATCH_ROWS + 5))
    kept = Residents(least_rows=0)
    assert kept.get(reader, store.space, rows=1) is None
    store.add([blob([1])] * (limits.VECTOR_SPARE_ROWS + 1))
    assert not kept.go_on()
    assert kept.get(reader, store.space, rows=1) is None
    reader.close()
    assert not kept.go_on()
    assert kept.describe() == []


def test_a_space_that_cannot_be_read_has_no_resident(make_store: Callable[[int], Any], blob: Any) -> None:
    """The table is gone, or there is no memory: the other routes are asked."""
    store = make_store(2)
    store.add([blob([1, 0])])
    store.connection.execute("DROP TABLE vectors").fetchall()
    assert Residents().get(store.connection, store.space) is None


def test_a_worker_multiplies_in_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the environment says already is left as it is."""
    import os

    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("MKL_NUM_THREADS", "")
    residents.one_thread()
    assert (os.environ["OPENBLAS_NUM_THREADS"], os.environ["OMP_NUM_THREADS"]) == ("1", "3")
