"""The residents of a process: one for each connection and space, within one bound of memory.

Lives here: finding one, and letting those used least go before another is loaded. Not here: loading and searching
(``resident``). Called by the retrieval worker, which is one thread. A resident goes with its connection.
"""

from __future__ import annotations

import os
import weakref
from typing import Any

import apsw

from memory_sqlite import errors, limits
from memory_sqlite.generations.vector_rows import Space
from memory_sqlite.search.vectors import exact, extension
from memory_sqlite.search.vectors.in_blocks import numpy_there
from memory_sqlite.search.vectors.resident import BATCH_ROWS, Resident


def one_thread() -> None:
    """Let NumPy multiply in the calling thread alone, for a process that is one of several. Call it before NumPy is
    loaded.

    A product of a matrix and a vector waits for memory, not for cores, and waits for every one of its threads: on two
    busy cores 20,000 x 384 took 52 ms with two threads and 3 with one.
    """
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")


class Residents:
    """Residents by connection and space, of spaces with more than ``least_rows`` rows where sqlite-vec is there for the
    smaller ones."""

    def __init__(
        self, max_bytes: int = limits.VECTOR_RESIDENT_MAX_BYTES, least_rows: int = limits.VECTOR_RESIDENT_ROWS
    ) -> None:
        self._max_bytes = max_bytes
        self._least_rows = least_rows
        self._of: weakref.WeakKeyDictionary[apsw.Connection, dict[int, Resident]] = weakref.WeakKeyDictionary()
        self._order: list[weakref.ref[Resident]] = []

    def get(
        self,
        connection: apsw.Connection,
        space: Space,
        cancelled: exact.Cancel | None = None,
        *,
        rows: int | None = limits.VECTOR_LOAD_ROWS,
    ) -> Resident | None:
        """The resident of a space, up to date.

        ``None`` where it does not pay, while it is not whole, where it is unfit, and without NumPy.
        Each call loads up to ``rows`` rows more, with ``None`` all of them; what they are asked meanwhile goes another
        way. Raises ``Cancelled``.
        """
        try:
            if not self._pays(connection, space) or not numpy_there():
                return None
            return self._refreshed(connection, space, cancelled, rows)
        except (apsw.SQLError, MemoryError):
            return None  # no such table, or no memory: the other routes say the one and do without the other

    def go_on(self) -> bool:
        """Load a few rows more of what a question has begun to load; whether there is more to load. Raises nothing.

        What cannot go on is left to the next question.
        """
        for connection, mine in list(self._of.items()):
            for space_id, resident in list(mine.items()):
                before = resident.loaded
                if resident.whole or not before:
                    continue
                try:
                    if resident.refresh(connection, rows=BATCH_ROWS) or resident.loaded > before:
                        return True
                except (apsw.Error, errors.MemorySqliteError, MemoryError):
                    del mine[space_id]
        return False

    def _pays(self, connection: apsw.Connection, space: Space) -> bool:
        if space.id in self._of.get(connection, {}):
            return True
        statement = "SELECT count(*) FROM vectors WHERE space_id = ?"
        row: Any = connection.execute(statement, (space.id,)).fetchone()
        return int(row[0]) > self._least_rows or not extension.load(connection)

    def _refreshed(
        self, connection: apsw.Connection, space: Space, cancelled: exact.Cancel | None, rows: int | None
    ) -> Resident | None:
        mine = self._of.setdefault(connection, {})
        resident = mine.get(space.id)
        if resident is None or resident.space.identity != space.identity:
            resident = mine[space.id] = Resident(space, max_bytes=self._max_bytes)
        self._order = [known for known in self._order if known() not in (None, resident)]
        self._order.append(weakref.ref(resident))
        if not resident.whole:
            self._make_room(resident.room_needed(connection), resident)
        return resident if resident.refresh(connection, cancelled, rows=rows) else None

    def _make_room(self, wanted: int, keep: Resident) -> None:
        """Let residents go, those used least first, until so many bytes are within the bound."""
        for known in list(self._order):
            resident = known()
            if resident is keep or sum(one.bytes for one in self._all() if one is not keep) + wanted <= self._max_bytes:
                return
            for mine in self._of.values():
                for space_id in [number for number, one in mine.items() if one is resident]:
                    del mine[space_id]

    def _all(self) -> list[Resident]:
        return [resident for mine in self._of.values() for resident in mine.values()]

    def describe(self) -> list[dict[str, Any]]:
        """What is in memory, see ``Resident.describe``."""
        return [resident.describe() for resident in self._all()]
