"""What a warm worker keeps of a space in memory, and the search in it: bits -> int8 -> exact rows.

Lives here: loading, following the table, which form is kept and trusted, which rows are allowed. Not here: the arrays
(``held``), how far bits can be trusted (``calibration``), what all residents of a process may take (``residents``).
Needs NumPy. Used by one thread, with one connection to one generation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import apsw

from memory_sqlite import limits
from memory_sqlite.generations.vector_rows import Space
from memory_sqlite.search.vectors import calibration, codes, exact, reading
from memory_sqlite.search.vectors.allowed import Allowed
from memory_sqlite.search.vectors.held import Form, Held, form_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

BATCH_ROWS: Final = 4_096
"""Rows read at once while loading: 6 MiB at 384 dimensions, three times for a moment; 10 ms."""
SAMPLE_ROWS: Final = 1_000
"""Rows from which the mean and the step of int8 are taken."""
AGAIN_FLOAT: Final = 8
"""Rows that float32 hands on beyond those wanted, because it is rounded,"""
AGAIN_INT8: Final = 30
"""and int8 (measured: 40 for ten neighbours find all of them)."""
SPARE_SHARE: Final = 16
"""There is room for a sixteenth more rows; when it is full, everything is loaded anew."""
GONE_SHARE: Final = 5
"""Loaded anew when a fifth of the rows is gone from the table."""
FILTERS_KEPT: Final = 4
"""Allowed rows kept for filters that come again; forgotten with any change of the file."""


def choose_form(rows: int, dimensions: int, max_bytes: int, float_rows: int) -> Form | None:
    """What to keep of so many rows; ``None`` where nothing is small enough.

    Up to ``float_rows`` one multiplication is exact and quick enough (50,000 x 384: 6 ms). Above, bits choose and int8
    orders; where int8 is too much, bits alone.
    """
    forms: list[Form] = ["float32"] if rows <= float_rows else ["int8+bits", "int8", "bits"]
    if not codes.has_bit_count():
        forms = [form for form in forms if "bits" not in form]
    return next((form for form in forms if form_bytes(form, rows, dimensions) <= max_bytes), None)


class Resident:
    """One space of one generation in memory: ``refresh`` until it says that it is whole, then ``nearest``."""

    def __init__(
        self,
        space: Space,
        *,
        max_bytes: int = limits.VECTOR_RESIDENT_MAX_BYTES,
        float_rows: int = limits.VECTOR_FLOAT_ROWS,
    ) -> None:
        self.space = space
        self.whole = False
        self.unfit = False
        """No form of it is small enough, or none that is can be trusted."""
        self._max_bytes = max_bytes
        self._float_rows = float_rows
        self._held: Held | None = None
        self._calibration: calibration.Calibration | None = None
        self._version: tuple[int, int] | None = None
        self._handed_on: tuple[int | None, ...] = ()
        self._recall: tuple[float, ...] = ()
        self._allowed: dict[Allowed, NDArray[Any]] = {}

    def refresh(
        self, connection: apsw.Connection, cancelled: exact.Cancel | None = None, *, rows: int | None = None
    ) -> bool:
        """Take in what came and went; whether everything is in memory now.

        The first calls load the space, at most ``rows`` rows each (in whole batches); later ones cost a look at two
        counters while the file is unchanged. Raises ``Cancelled``; what was loaded by then stays.
        """
        if self.unfit:
            return False
        # read first: what is written after this is taken in the next time
        version = (int(connection.pragma("data_version")), connection.total_changes())
        if version == self._version:
            return self.whole
        if self._held is None and not self._begin(connection):
            return False
        if not self._load(connection, cancelled, rows):
            return False
        if not self._follow(connection):
            return False
        if not self.whole:
            self._trust()
        self.whole = self._held is not None
        self._version = version
        self._allowed.clear()
        return self.whole

    def room_needed(self, connection: apsw.Connection) -> int:
        """How many bytes it takes, or will take once it is loaded."""
        if self._held is not None or self.unfit:
            return self.bytes
        room, form = self._plan(reading.row_count(connection, self.space))
        return 0 if form is None else form_bytes(form, room, self.space.dimensions)

    def _plan(self, size: int) -> tuple[int, Form | None]:
        room = size + max(limits.VECTOR_SPARE_ROWS, size // SPARE_SHARE)
        return room, choose_form(room, self.space.dimensions, self._max_bytes, self._float_rows)

    def _begin(self, connection: apsw.Connection) -> bool:
        """Make room; ``False`` where nothing fits."""
        import numpy as np

        dimensions = self.space.dimensions
        numbers = reading.row_numbers(connection, self.space)
        room, form = self._plan(len(numbers))
        self.unfit = form is None
        if form is None:
            return False
        sample = numbers[_spread(len(numbers), SAMPLE_ROWS)]
        known, vectors = reading.some(connection, self.space, sample)
        coding = codes.coding(vectors) if len(known) else codes.Coding(np.zeros(dimensions, np.float32), 1.0)
        self._held = Held(form, room, dimensions, coding)
        self._handed_on, self._recall = (), ()
        self._calibration = None
        if "bits" in form:
            questions = _spread(len(known), calibration.QUESTIONS)
            self._calibration = calibration.Calibration(known[questions], vectors[questions])
        return True

    def _load(self, connection: apsw.Connection, cancelled: exact.Cancel | None, most: int | None) -> bool:
        """Take in rows beyond the last one; whether there are no more. Without room for them, all is loaded anew."""
        held = self._held
        assert held is not None
        loaded = 0
        for batch in reading.after(connection, self.space, held.last, BATCH_ROWS):
            if cancelled is not None:
                exact.check_cancelled(cancelled)
            if held.size + len(batch) > held.room:
                self._drop()
                return False
            first = held.size
            vectors = held.append(batch)
            if self._calibration is not None:
                self._calibration.see(held.numbers[first:], vectors, first)
            loaded += len(batch)
            if most is not None and loaded >= most:
                return False
        return True

    def _follow(self, connection: apsw.Connection) -> bool:
        """Mark what is gone from the table; ``False`` where that is so much that all is loaded anew."""
        held = self._held
        assert held is not None
        if reading.row_count(connection, self.space) != held.size - held.gone:
            held.bury(reading.row_numbers(connection, self.space))
            if held.gone > max(limits.VECTOR_SPARE_ROWS, held.size // GONE_SHARE):
                self._drop()
                return False
        return True

    def _trust(self) -> None:
        """Measure how many rows the bits have to hand on; do without them where that is too many."""
        held, measured = self._held, self._calibration
        self._calibration = None
        if held is None or held.bits is None or measured is None:
            return
        asked = codes.to_bits(measured.vectors, held.coding)
        ranks = [
            measured.ranks(question, codes.distances(held.bits[:, : held.size], asked[:, [question]]))
            for question in range(asked.shape[1])
        ]
        found = [calibration.enough(ranks, depth, held.size) for depth in calibration.DEPTHS]
        self._handed_on = tuple(handed_on for handed_on, _ in found)
        self._recall = tuple(round(recall, 4) for _, recall in found)
        if not any(self._handed_on):
            self.unfit = held.form == "bits"
            held.bits = None
        if self.unfit:
            self._drop()

    def _first(self, k: int) -> int | None:
        """How many rows the bits hand on for so many neighbours; ``None`` where they are not asked."""
        for depth, handed_on in zip(calibration.DEPTHS, self._handed_on, strict=False):
            if k <= depth.neighbours:
                return handed_on
        last = self._handed_on[-1] if self._handed_on else None
        return None if last is None else last * -(-k // calibration.DEPTHS[-1].neighbours)

    def _drop(self) -> None:
        self._held = self._calibration = self._version = None
        self.whole = False
        self._allowed.clear()

    @property
    def route(self) -> str:
        """How a search in it is carried out: ``resident-`` and what is kept of each row."""
        return f"resident-{self._held.form}" if self._held is not None else "none"

    def nearest(
        self, connection: apsw.Connection, query: bytes, allowed: Allowed, k: int, cancelled: exact.Cancel
    ) -> list[int] | None:
        """Numbers of rows among which the ``k`` nearest allowed ones are, for an exact comparison.

        ``None`` while not everything is in memory, and where bits alone cannot be trusted for so many. ``query`` has
        the size of the space. Raises ``Cancelled``.
        """
        import numpy as np

        if not self.whole or not self.refresh(connection, cancelled):
            return None
        held, first = self._held, self._first(k)
        assert held is not None
        if held.form == "bits" and first is None:
            return None
        asked = np.frombuffer(query, dtype="<f4")
        places = self._places(connection, held, allowed)
        if first is not None and first < (held.size if places is None else len(places)):
            places = held.closest(asked, places, first, cancelled)
        if held.form == "bits":
            found = np.flatnonzero(held.alive) if places is None else places
        else:
            again = AGAIN_FLOAT if held.form == "float32" else AGAIN_INT8
            found = held.best(asked, places, k + again, cancelled)
        return [int(number) for number in held.numbers[found]]

    def _places(self, connection: apsw.Connection, held: Held, allowed: Allowed) -> NDArray[Any] | None:
        """Places of the allowed rows that are alive, ascending; ``None`` for all."""
        import numpy as np

        if allowed.everything:
            return None
        known = self._allowed.get(allowed)
        if known is None:
            ids = reading.whole_numbers(allowed.chunk_ids(connection))
            known = np.flatnonzero(np.isin(held.chunks, ids) & held.alive)
            while len(self._allowed) >= FILTERS_KEPT:
                del self._allowed[next(iter(self._allowed))]
            self._allowed[allowed] = known
        return known

    @property
    def bytes(self) -> int:
        """What it takes in memory."""
        if self._held is None:
            return 0
        return self._held.bytes + sum(int(places.nbytes) for places in self._allowed.values())

    @property
    def loaded(self) -> int:
        """How many rows were taken in, those that are gone since among them."""
        return 0 if self._held is None else self._held.size

    def describe(self) -> dict[str, Any]:
        """For status and diagnostics: what is kept, of how many rows, in how many bytes, and how far bits are trusted:
        rows they hand on for ten neighbours and for a hundred, and the recall among rows that this rests on."""
        held = self._held
        return {
            "route": self.route,
            "whole": self.whole,
            "rows": 0 if held is None else held.size - held.gone,
            "gone": 0 if held is None else held.gone,
            "bytes": self.bytes,
            "handed_on": self._handed_on,
            "recall": self._recall,
        }


def _spread(size: int, wanted: int) -> NDArray[Any]:
    """So many places among ``size``, evenly spread."""
    import numpy as np

    return np.linspace(0, max(0, size - 1), min(size, wanted)).astype(np.int64)
