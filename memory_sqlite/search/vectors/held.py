"""The arrays a resident keeps, and the two ways through them: by bits, and by float32 or int8.

Lives here: how many bytes a form takes, appending, marking what is gone, comparing in slices. Not here: what is in the
table and when it is read (``resident``), and the arithmetic of one block (``codes``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from memory_sqlite.search.vectors import codes, exact, reading, top

if TYPE_CHECKING:
    from numpy.typing import NDArray

Form = Literal["float32", "int8+bits", "int8", "bits"]

SLICE_ROWS: Final = 16_384
"""Rows compared between two looks at the cancel flag: 3 ms of int8 at 384 dimensions."""
GATHER_SHARE: Final = 0.2
"""Up to this share of allowed rows they are gathered first; above, all are compared and the others left out."""
_ROW_BYTES: Final = 8 + 8 + 1
"""Number, chunk id, whether it is alive."""


def form_bytes(form: Form, rows: int, dimensions: int) -> int:
    """What so many rows take in memory."""
    of_one = _ROW_BYTES
    if form == "float32":
        of_one += 4 * dimensions
    if "int8" in form:
        of_one += dimensions
    if "bits" in form:
        of_one += 8 * codes.words(dimensions)
    return rows * of_one


class Held:
    """Rows in the order of their numbers, with room for some more. A place is an index into the arrays."""

    def __init__(self, form: Form, room: int, dimensions: int, coding: codes.Coding) -> None:
        import numpy as np

        self.room = room
        self.size = 0
        self.gone = 0
        self.coding = coding
        self._dimensions = dimensions
        self._numbers = np.empty(room, np.int64)
        self._chunks = np.empty(room, np.int64)
        self._alive = np.zeros(room, np.bool_)
        self._codes: NDArray[Any] | None = None
        self.bits: NDArray[Any] | None = None
        if form != "bits":
            self._codes = np.empty((room, dimensions), np.float32 if form == "float32" else np.int8)
        if "bits" in form:
            self.bits = np.empty((codes.words(dimensions), room), np.uint64)

    @property
    def form(self) -> Form:
        """What is kept of each row now."""
        if self._codes is None:
            return "bits"
        if self._codes.dtype.itemsize == 4:
            return "float32"
        return "int8" if self.bits is None else "int8+bits"

    @property
    def numbers(self) -> NDArray[Any]:
        """Numbers of the rows, ascending; a view."""
        return self._numbers[: self.size]

    @property
    def chunks(self) -> NDArray[Any]:
        """Their chunk ids; a view."""
        return self._chunks[: self.size]

    @property
    def alive(self) -> NDArray[Any]:
        """Whether each of them is still in the table and a vector; a view."""
        return self._alive[: self.size]

    @property
    def last(self) -> int:
        """The highest number there is."""
        return int(self._numbers[self.size - 1]) if self.size else 0

    @property
    def bytes(self) -> int:
        """What the arrays take."""
        arrays = (self._numbers, self._chunks, self._alive, self._codes, self.bits)
        return sum(int(array.nbytes) for array in arrays if array is not None)

    def append(self, batch: list[Any]) -> NDArray[Any]:
        """Rows as (number, chunk id, vector), in order, for which there is room; returns their vectors."""
        import numpy as np

        first, last = self.size, self.size + len(batch)
        vectors = reading.matrix([row[2] for row in batch], self._dimensions)
        good = np.isfinite(vectors).all(axis=1)
        if not good.all():  # nothing of the kind is ever filed; it is kept as zeros and never found
            vectors = np.where(good[:, None], vectors, np.float32(0))
        self._numbers[first:last] = [row[0] for row in batch]
        self._chunks[first:last] = [row[1] for row in batch]
        self._alive[first:last] = good
        if self._codes is not None:
            self._codes[first:last] = vectors if self.form == "float32" else codes.to_int8(vectors, self.coding)
        if self.bits is not None:
            self.bits[:, first:last] = codes.to_bits(vectors, self.coding)
        self.size = last
        self.gone += len(batch) - int(np.count_nonzero(good))
        return vectors

    def bury(self, there: NDArray[Any]) -> None:
        """Mark every row whose number is not among these as gone."""
        import numpy as np

        self._alive[: self.size] &= np.isin(self.numbers, there)
        self.gone = self.size - int(np.count_nonzero(self.alive))

    def closest(
        self, asked: NDArray[Any], places: NDArray[Any] | None, first: int, cancelled: exact.Cancel
    ) -> NDArray[Any]:
        """The first places in the order of the bits, of those given or of all that are alive."""
        import numpy as np

        assert self.bits is not None
        query = codes.to_bits(asked[None, :], self.coding)
        if places is not None and len(places) <= self.size * GATHER_SHARE:
            return _at(places, top.smallest(codes.distances(self.bits[:, places], query), first))
        far = np.empty(self.size, np.uint16)
        for start in range(0, self.size, SLICE_ROWS):
            exact.check_cancelled(cancelled)
            end = min(start + SLICE_ROWS, self.size)
            far[start:end] = codes.distances(self.bits[:, start:end], query)
        if places is not None:
            return _at(places, top.smallest(far[places], first))
        if self.gone:
            far[~self.alive] = np.iinfo(np.uint16).max
        return top.smallest(far, first)

    def best(self, asked: NDArray[Any], places: NDArray[Any] | None, k: int, cancelled: exact.Cancel) -> NDArray[Any]:
        """The places of the ``k`` best by float32 or int8 and of some near ones, of those given or of all alive."""
        import numpy as np

        assert self._codes is not None
        gathered = places if places is not None and len(places) <= self.size * GATHER_SHARE else None
        rows = self.size if gathered is None else len(gathered)
        scores = np.empty(rows, np.float32)
        for start in range(0, rows, SLICE_ROWS):
            exact.check_cancelled(cancelled)
            end = min(start + SLICE_ROWS, rows)
            block = self._codes[start:end] if gathered is None else self._codes[gathered[start:end]]
            scores[start:end] = codes.scores(block, asked, self.coding)
        if places is None:
            if self.gone:
                scores[~self.alive] = -np.inf
            return top.largest(scores, k, self.chunks)
        if gathered is None:
            scores = scores[places]
        return _at(places, top.largest(scores, k, self._chunks[places]))


def _at(places: NDArray[Any], chosen: NDArray[Any]) -> NDArray[Any]:
    found: NDArray[Any] = places[chosen]
    return found
