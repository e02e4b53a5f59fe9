"""The door of vector search: the nearest allowed chunks of a space, by the route that is best here and now.

Lives here: checking the query, choosing a route, and what is said when there is no answer. Not here: the routes
(``exact``, ``in_sql``, ``in_blocks``, ``resident``). Called by ``retrieve``; reads only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from math import isfinite
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, Literal

import apsw

from memory_sqlite import limits
from memory_sqlite.errors import Cancelled
from memory_sqlite.generations.vector_rows import Space
from memory_sqlite.search.vectors import exact, extension, in_blocks, in_sql
from memory_sqlite.search.vectors.allowed import Allowed
from memory_sqlite.search.vectors.exact import cosines as cosines
from memory_sqlite.search.vectors.in_blocks import numpy_there
from memory_sqlite.values import dataclass

if TYPE_CHECKING:
    from memory_sqlite.search.vectors.resident import Resident

Route = Literal["exact-python", "exact-numpy", "sqlite-vec"]
Scan = Callable[[apsw.Connection, Space, bytes, Allowed, int, exact.Cancel], list[exact.Row]]

SCANS: Final[Mapping[Route, Scan]] = {
    "exact-python": exact.scan,
    "exact-numpy": in_blocks.scan,
    "sqlite-vec": in_sql.scan,
}
"""The routes that keep nothing between two questions."""


@dataclass(frozen=True, slots=True)
class Nearest:
    """``rows`` are chunk ids with their cosines, nearest first, equal ones by id. ``route`` says how they were found;
    ``unavailable`` says in a sentence, without any text of a user, why the vector leg has no answer."""

    rows: list[tuple[int, float]]
    route: str
    unavailable: str | None = None


def nearest(
    connection: apsw.Connection,
    space: Space,
    query: bytes,
    allowed: Allowed,
    k: int,
    *,
    resident: Resident | None = None,
    cancelled: exact.Cancel | None = None,
    route: Route | None = None,
) -> Nearest:
    """The ``k`` nearest chunks among those allowed; all of them where there are no more.

    ``query`` is the little-endian float32 numbers of a vector of length 1 of the space's identity. ``resident`` is what
    a warm worker keeps of the space in memory; it is used when it is whole. ``route`` forces one of the others.
    Raises ``Cancelled`` when ``cancelled()`` says so or the connection is interrupted.
    """
    problem = _problem(query, space)
    if problem is not None:
        return Nearest([], "none", problem)
    asked = cancelled or _never
    try:
        if route is None and resident is not None:
            found = resident.nearest(connection, query, allowed, k, asked)
            if found is not None:
                return Nearest(exact.rescored(connection, space, query, found, k), resident.route)
        chosen = route or choose(connection, space)
        return Nearest(SCANS[chosen](connection, space, query, allowed, k, asked), chosen)
    except apsw.InterruptError as error:
        raise Cancelled("the search was interrupted") from error
    except apsw.SQLError:
        if asked():  # an extension that is interrupted says it in words of its own
            raise Cancelled("the search was interrupted") from None
        return Nearest([], "none", "the vectors of the index cannot be read")


def choose(connection: apsw.Connection, space: Space) -> Route:
    """The route for a process that has nothing of the space in memory.

    sqlite-vec where it loads: nothing is imported and no row leaves SQLite (20,000 x 384: 16 ms, NumPy 48, Python 260).
    Else NumPy, once there are so many rows that importing it pays.
    """
    if extension.load(connection):
        return "sqlite-vec"
    if sys.modules.get("numpy") is not None:
        return "exact-numpy"
    row: Any = connection.execute("SELECT count(*) FROM vectors WHERE space_id = ?", (space.id,)).fetchone()
    return "exact-numpy" if int(row[0]) > limits.VECTOR_PYTHON_ROWS and numpy_there() else "exact-python"


def _problem(query: bytes, space: Space) -> str | None:
    if len(query) != 4 * space.dimensions:
        return "the query's vector has another size than those of the index"
    square = sum(number * number for number in Struct(f"<{space.dimensions}f").unpack(query))
    if not isfinite(square) or square == 0.0:
        return "the query's vector is zero or holds what is not a number"
    return None


def _never() -> bool:
    return False
