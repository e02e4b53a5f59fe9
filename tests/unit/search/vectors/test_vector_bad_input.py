"""What can go wrong costs the vector leg and is said in a sentence; it never raises, and never returns a wrong row."""

from __future__ import annotations

import subprocess
import sys
from array import array
from collections.abc import Callable
from typing import Any

import apsw
import pytest

from memory_sqlite import errors, limits
from memory_sqlite.search.vectors import exact, extension
from memory_sqlite.search.vectors import nearest as door
from memory_sqlite.search.vectors.allowed import EVERYTHING, Allowed
from memory_sqlite.search.vectors.nearest import SCANS, cosines, nearest

ROUTES = tuple(SCANS)


def usable(store: Any, route: str) -> None:
    if route == "exact-numpy":
        pytest.importorskip("numpy", reason="NumPy comes with the extra `vectors`")
    if route == "sqlite-vec" and not extension.load(store.connection):
        pytest.skip("sqlite-vec comes with the extra `vectors`")


def floats(*numbers: float) -> bytes:
    return array("f", numbers).tobytes()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (b"", "another size"),
        (floats(1, 0, 0), "another size"),
        (floats(1), "another size"),
        (b"\x00" * 7, "another size"),
        (floats(0, 0), "zero or holds"),
        (floats(float("nan"), 0), "zero or holds"),
        (floats(float("inf"), 0), "zero or holds"),
    ],
)
def test_case_C024_a_bad_query_vector_is_said_and_not_searched(
    make_store: Callable[[int], Any], blob: Any, query: bytes, said: str
) -> None:
    """Empty, of another size, zero, not a number: no rows, a reason, no error."""
    store = make_store(2)
    store.add([blob([1, 0])])
    found = nearest(store.connection, store.space, query, EVERYTHING, 10)
    assert (found.rows, found.route) == ([], "none")
    assert found.unavailable is not None and said in found.unavailable
    if "size" in said:
        assert cosines(store.connection, store.space, query, [1]) == {}


@pytest.mark.parametrize("route", ROUTES)
def test_rows_that_are_no_vectors_are_left_out(make_store: Callable[[int], Any], blob: Any, route: Any) -> None:
    """A damaged row is never the nearest: sqlite-vec would sort what is not a number first."""
    store = make_store(2)
    usable(store, route)
    store.add([blob([1, 0])] * 6)
    store.raw(1, floats(float("nan"), 0))
    store.raw(2, floats(float("inf"), 0))
    store.raw(3, floats(1))
    store.raw(4, b"")
    for k in (1, 2, 6):
        found = nearest(store.connection, store.space, blob([1, 0]), EVERYTHING, k, route=route)
        assert found.unavailable is None
        assert [chunk for chunk, _ in found.rows] == [5, 6][:k]
    assert set(cosines(store.connection, store.space, blob([1, 0]), range(1, 7))) == {5, 6}


@pytest.mark.parametrize("route", ROUTES)
def test_however_many_rows_are_no_vectors(make_store: Callable[[int], Any], blob: Any, route: Any) -> None:
    """More of them than a route takes beyond those wanted do not keep the others out."""
    store = make_store(2)
    usable(store, route)
    store.add([blob([1, 0])] * 30)
    for chunk in range(1, 29):
        store.raw(chunk, floats(float("nan"), 0))
    found = nearest(store.connection, store.space, blob([1, 0]), EVERYTHING, 2, route=route)
    assert [chunk for chunk, _ in found.rows] == [29, 30]


@pytest.mark.parametrize("route", ROUTES)
def test_an_empty_space_has_no_rows(make_store: Callable[[int], Any], blob: Any, route: Any) -> None:
    """Nothing filed yet is no error."""
    store = make_store(3)
    usable(store, route)
    found = nearest(store.connection, store.space, blob([1, 0, 0]), EVERYTHING, 10, route=route)
    assert (found.rows, found.unavailable, found.route) == ([], None, route)


@pytest.mark.parametrize("route", ROUTES)
def test_case_C028_missing_vectors_are_said(make_store: Callable[[int], Any], blob: Any, route: Any) -> None:
    """The table is gone: a reason, and words go on without it."""
    store = make_store(2)
    usable(store, route)
    store.add([blob([1, 0])])
    store.connection.execute("DROP TABLE vectors").fetchall()
    found = nearest(store.connection, store.space, blob([1, 0]), EVERYTHING, 10, route=route)
    assert found.rows == []
    assert found.unavailable == "the vectors of the index cannot be read"


@pytest.mark.parametrize("route", ROUTES)
def test_another_space_is_not_looked_into(make_store: Callable[[int], Any], blob: Any, route: Any) -> None:
    """Vectors of two models lie side by side and are never compared, also where they have one size."""
    from memory_sqlite.generations import vector_rows

    store = make_store(2)
    usable(store, route)
    store.add([blob([1, 0]), blob([0, 1])])
    with store.connection:
        other = vector_rows.make_space(store.connection, vector_rows.identity_text({"model": "other"}), 2, {})
        vector_rows.put(store.connection, other, [(2, b"h", blob([1, 0]))])
    assert nearest(store.connection, other, blob([1, 0]), EVERYTHING, 10, route=route).rows == [(2, 1.0)]
    assert nearest(store.connection, store.space, blob([1, 0]), EVERYTHING, 10, route=route).rows == [
        (1, 1.0),
        (2, 0.0),
    ]


@pytest.mark.parametrize("route", ROUTES)
def test_a_search_that_is_cancelled_says_so(make_store: Callable[[int], Any], blob: Any, route: Any) -> None:
    """By the flag, in every route."""
    store = make_store(2)
    usable(store, route)
    store.add([blob([1, 0])])
    with pytest.raises(errors.Cancelled):
        nearest(store.connection, store.space, blob([1, 0]), EVERYTHING, 1, route=route, cancelled=lambda: True)


def test_a_python_scan_looks_at_the_flag_while_it_runs(make_store: Callable[[int], Any], blob: Any) -> None:
    """Not at its beginning only."""
    store = make_store(1)
    store.add([blob([1])] * 1_100)
    looks: list[int] = []

    def cancelled() -> bool:
        looks.append(len(looks))
        return len(looks) == 2

    with pytest.raises(errors.Cancelled):
        exact.scan(store.connection, store.space, blob([1]), EVERYTHING, 1, cancelled)
    assert len(looks) == 2


@pytest.mark.parametrize("route", ROUTES)
def test_an_interrupted_statement_is_a_cancelled_search(
    make_store: Callable[[int], Any], blob: Any, route: Any
) -> None:
    """``interrupt`` from a progress handler, which is where another thread's would be heard."""
    store = make_store(2)
    usable(store, route)
    store.add([blob([1, 0])] * 2_000)
    store.connection.set_progress_handler(lambda: True, 500)
    with pytest.raises(errors.Cancelled):
        nearest(store.connection, store.space, blob([1, 0]), EVERYTHING, 1, route=route)
    store.connection.set_progress_handler(None)
    assert nearest(store.connection, store.space, blob([1, 0]), EVERYTHING, 1, route=route).rows == [(1, 1.0)]


def test_a_resident_that_is_cancelled_answers_the_next_time(make_store: Callable[[int], Any], blob: Any) -> None:
    """Its memory is as it was."""
    pytest.importorskip("numpy", reason="NumPy comes with the extra `vectors`")
    from memory_sqlite.search.vectors.resident import Resident

    store = make_store(2)
    store.add([blob([1, 0])] * 3)
    for float_rows in (0, 10):
        kept = Resident(store.space, float_rows=float_rows)
        assert kept.refresh(store.connection)
        with pytest.raises(errors.Cancelled):
            nearest(store.connection, store.space, blob([1, 0]), EVERYTHING, 1, resident=kept, cancelled=lambda: True)
        assert nearest(store.connection, store.space, blob([1, 0]), EVERYTHING, 1, resident=kept).rows == [(1, 1.0)]


# --- what is not installed, or will not load


def test_without_extension_and_numpy_everything_is_compared_in_python(
    make_store: Callable[[int], Any], blob: Any, no_extension: None, no_numpy: None
) -> None:
    """A plain install answers too, and says how; also where there are so many rows that NumPy would have been asked."""
    store = make_store(2)
    store.add([blob([1, 0]), blob([0, 1])])
    found = nearest(store.connection, store.space, blob([1, 0.5]), EVERYTHING, 1)
    assert (found.rows[0][0], found.route) == (1, "exact-python")


def test_numpy_is_imported_for_many_rows_only(
    make_store: Callable[[int], Any], blob: Any, no_extension: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Importing costs as much as comparing thousands of rows in Python; where it is loaded already it is used."""
    pytest.importorskip("numpy", reason="NumPy comes with the extra `vectors`")
    store = make_store(2)
    store.add([blob([1, 0])] * 3)
    assert door.choose(store.connection, store.space) == "exact-numpy"  # this process has it
    monkeypatch.delitem(sys.modules, "numpy")
    assert door.choose(store.connection, store.space) == "exact-python"
    monkeypatch.setattr(limits, "VECTOR_PYTHON_ROWS", 2)
    monkeypatch.setattr(door, "numpy_there", lambda: True)
    assert door.choose(store.connection, store.space) == "exact-numpy"
    monkeypatch.setattr(door, "numpy_there", lambda: False)
    assert door.choose(store.connection, store.space) == "exact-python"


class Refusing:
    """A connection whose SQLite loads no extensions."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.allowed: list[bool] = []

    def enable_load_extension(self, value: bool) -> None:
        self.allowed.append(value)

    def load_extension(self, *_: str) -> None:
        raise self.error


@pytest.mark.parametrize("error", [apsw.ExtensionLoadingError("no"), apsw.SQLError("no"), OSError("no")])
def test_an_extension_that_will_not_load_is_done_without(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """A binary for another machine, a build without extensions: tried once, and loading is forbidden again after it."""
    monkeypatch.setattr(extension, "path", lambda: "nowhere")
    connection: Any = Refusing(error)
    assert not extension.load(connection)
    assert not extension.load(connection)
    assert connection.allowed == [True, False]


def test_a_connection_that_cannot_load_extensions_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """An apsw that was built without them has no such methods."""
    monkeypatch.setattr(extension, "path", lambda: "nowhere")

    class Bare:
        pass

    connection: Any = Bare()
    assert not extension.load(connection)


def test_a_file_that_is_no_extension_is_done_without(
    make_store: Callable[[int], Any], blob: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real refusal by SQLite, and the answer all the same; text can load nothing afterwards."""
    (tmp_path / "vec0.so").write_bytes(b"not a library")
    monkeypatch.setattr(extension, "path", lambda: str(tmp_path / "vec0"))
    store = make_store(2)
    store.add([blob([1, 0])])
    assert not extension.load(store.connection)
    found = nearest(store.connection, store.space, blob([1, 0]), EVERYTHING, 1)
    assert found.rows == [(1, 1.0)]
    assert found.route.startswith("exact-")
    with pytest.raises(apsw.SQLError, match="not authorized"):
        store.connection.execute("SELECT load_extension('vec0')").fetchall()


def test_sql_can_load_nothing_once_the_extension_is_there(make_store: Callable[[int], Any]) -> None:
    """Loading was allowed for one call, and not to statements."""
    store = make_store(2)
    usable(store, "sqlite-vec")
    with pytest.raises(apsw.SQLError, match="not authorized"):
        store.connection.execute("SELECT load_extension('vec0')").fetchall()


ALONE = """
import sys
sys.modules["numpy"] = None
import apsw
from memory_sqlite.generations import layout, vector_rows
from memory_sqlite.search.vectors.allowed import EVERYTHING
from memory_sqlite.search.vectors.nearest import nearest
from memory_sqlite.search.vectors.residents import Residents
before = set(sys.modules)
assert not before & {"sqlite_vec", "sqlite3", "asyncio", "pydantic", "logging", "apsw.ext"}, before
connection = apsw.Connection(":memory:")
layout.create(connection, {})
space = vector_rows.make_space(connection, "{}", 1, {})
connection.execute(
    "INSERT INTO chunks VALUES (1, 1, 0, 1, 1, '', '', '[]', NULL, '[]', NULL, x'', 0, x'', 0)"
).fetchall()
one = b"\\x00\\x00\\x80\\x3f"
assert vector_rows.put(connection, space, [(1, b"", one)]) == 1
found = nearest(connection, space, one, EVERYTHING, 5, resident=Residents().get(connection, space))
assert found.rows == [(1, 1.0)], found
assert "sqlite_vec" not in sys.modules and "sqlite3" not in sys.modules
print(found.route)
"""


def test_a_process_without_numpy_searches_and_loads_no_second_sqlite() -> None:
    """In a process of its own: nothing that a search must not load is loaded, also not by the extension."""
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in ("sqlite-vec", "exact-python")


def test_a_filter_that_is_no_expression_does_not_stop_the_words(make_store: Callable[[int], Any], blob: Any) -> None:
    """It cannot happen, since all tokens are our own; if it did, only this leg would be without an answer."""
    store = make_store(2)
    store.add([blob([1, 0])])
    assert nearest(store.connection, store.space, blob([1, 0]), Allowed("("), 1).unavailable is not None
