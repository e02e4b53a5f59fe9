"""Filing vectors: what gets in, what is replaced, and what is refused."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

import pytest

from memory_sqlite import errors
from memory_sqlite.generations import vector_rows


def floats(*numbers: float) -> bytes:
    return array("f", numbers).tobytes()


@pytest.mark.parametrize(
    "vector",
    [
        floats(0, 0, 0),
        floats(float("nan"), 0, 1),
        floats(float("inf"), 0, 0),
        floats(float("-inf"), float("inf"), 0),
        floats(3e38, 3e38, 3e38),
        floats(0.5, 0.5, 0.5),
        floats(1.01, 0, 0),
        floats(1, 0),
        floats(1, 0, 0, 0),
        b"",
    ],
)
def test_what_is_no_vector_of_length_one_is_refused(make_store: Callable[[int], Any], vector: bytes) -> None:
    """Zero, not a number, infinite, not normalised, of another size: nothing of the kind is ever stored."""
    store = make_store(3)
    store.add_chunk(1)
    with pytest.raises(errors.InvalidArgument), store.connection:
        vector_rows.put(store.connection, store.space, [(1, b"h", vector)])
    assert vector_rows.filed(store.connection, store.space) == 0


def test_an_equal_input_is_not_written_again(make_store: Callable[[int], Any], blob: Any) -> None:
    """Two processes that embed one text at the same time: the second one's row is a no-op, and no error."""
    store = make_store(2)
    store.add_chunk(1)
    assert vector_rows.put(store.connection, store.space, [(1, b"h", blob([1, 0]))]) == 1
    row = store.connection.execute("SELECT id, vector FROM vectors").fetchall()
    assert vector_rows.put(store.connection, store.space, [(1, b"h", blob([0, 1]))]) == 0
    assert store.connection.execute("SELECT id, vector FROM vectors").fetchall() == row


def test_another_input_replaces_the_vector_under_a_new_number(make_store: Callable[[int], Any], blob: Any) -> None:
    """So that whoever holds rows in memory sees it; and a chunk never has two vectors."""
    store = make_store(2)
    store.add_chunk(1)
    vector_rows.put(store.connection, store.space, [(1, b"old", blob([1, 0]))])
    ((before,),) = store.connection.execute("SELECT id FROM vectors").fetchall()
    assert vector_rows.put(store.connection, store.space, [(1, b"new", blob([0, 1]))]) == 1
    ((after, vector),) = store.connection.execute("SELECT id, vector FROM vectors").fetchall()
    assert after > before
    assert vector == blob([0, 1])


def test_a_chunk_that_is_gone_is_passed_over(make_store: Callable[[int], Any], blob: Any) -> None:
    """Forgotten while it was being embedded: nothing returns."""
    store = make_store(2)
    store.add_chunk(1)
    rows = [(1, b"a", blob([1, 0])), (2, b"b", blob([0, 1]))]
    assert vector_rows.put(store.connection, store.space, rows) == 1
    assert vector_rows.by_input(store.connection, store.space, [b"a", b"b"]) == {b"a": blob([1, 0])}


def test_vectors_are_found_by_what_was_embedded(make_store: Callable[[int], Any], blob: Any) -> None:
    """More hashes than one statement takes; those of another space are not found."""
    store = make_store(2)
    store.add([blob([1, 0])] * 1_200)
    wanted = [number.to_bytes(16, "big") for number in range(1, 2_000)]
    found = vector_rows.by_input(store.connection, store.space, wanted)
    assert set(found) == set(wanted[:1_200])
    other = vector_rows.make_space(store.connection, "{}", 2, {})
    assert vector_rows.by_input(store.connection, other, wanted) == {}


def test_spaces_are_made_once_and_keep_their_size(make_store: Callable[[int], Any]) -> None:
    """The same identity, however its keys were ordered, is one space; a changed weight is taken over."""
    store = make_store(4)
    connection = store.connection
    text = vector_rows.identity_text({"model": "m", "dimensions": 3})
    assert text == vector_rows.identity_text({"dimensions": 3, "model": "m"})
    made = vector_rows.make_space(connection, text, 3, {"latin": 0.1})
    again = vector_rows.make_space(connection, text, 3, {"latin": 0.2})
    assert (again.id, again.state) == (made.id, "filling")
    assert (made.weight, again.weight) == ('{"latin":0.1}', '{"latin":0.2}')
    with pytest.raises(errors.InvalidArgument, match="dimensions"):
        vector_rows.make_space(connection, text, 4, {})
    vector_rows.set_state(connection, made, "complete")
    assert vector_rows.find_space(connection, text) == vector_rows.spaces(connection)[-1]
    assert vector_rows.spaces(connection)[-1].state == "complete"
    assert vector_rows.make_space(connection, text, 3, {"latin": 0.2}).state == "complete"
    assert vector_rows.find_space(connection, "{}") is None


def test_a_space_goes_with_its_vectors_and_leaves_the_others(make_store: Callable[[int], Any], blob: Any) -> None:
    """The old model's rows, once the new one is complete."""
    store = make_store(2)
    store.add([blob([1, 0])] * 3)
    other = vector_rows.make_space(store.connection, "{}", 2, {})
    vector_rows.put(store.connection, other, [(1, b"h", blob([1, 0]))])
    assert (vector_rows.filed(store.connection, other), vector_rows.missing(store.connection, other)) == (1, 2)
    assert vector_rows.delete_space(store.connection, store.space) == 3
    assert [space.id for space in vector_rows.spaces(store.connection)] == [other.id]
    assert vector_rows.filed(store.connection, other) == 1
    vector_rows.delete(store.connection, [1, 99])
    assert vector_rows.filed(store.connection, other) == 0
