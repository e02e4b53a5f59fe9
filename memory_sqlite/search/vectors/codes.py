"""Vectors made small: what a resident keeps of each row, and how a block of it is compared with a query.

Lives here: float32 as it is, int8 around the mean, and one bit a dimension. Pure functions of arrays. Not here: which
of them a space gets (``resident``). NumPy is imported when a function is called.

Everything is measured from the mean of a sample: it moves every score by the same amount, so the order stays, and both
int8 and bits spend their precision on what tells vectors apart (models give cosines of 0.7 to 0.9 to unrelated texts).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from memory_sqlite.values import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray

PERCENTILE: Final = 99.95
"""Share of the numbers that int8 can hold; the few beyond are cut. With the best 40 read again exactly, recall is 1.0
on clustered vectors and on noise (measured)."""


@dataclass(frozen=True, slots=True)
class Coding:
    """How numbers of one space become small ones: the mean of its vectors, and the step of int8."""

    mean: NDArray[Any]
    step: float


def coding(sample: NDArray[Any]) -> Coding:
    """The coding of a space, from some of its vectors (float32, one a row)."""
    import numpy as np

    mean = sample.mean(axis=0, dtype=np.float64).astype(np.float32)
    step = float(np.percentile(np.abs(sample - mean), PERCENTILE)) / 127
    return Coding(mean, step if step > 0 else 1.0)  # all vectors equal: nothing to tell apart


def to_int8(vectors: NDArray[Any], how: Coding) -> NDArray[Any]:
    """int8, one vector a row."""
    import numpy as np

    near: NDArray[Any] = np.clip(np.rint((vectors - how.mean) / how.step), -127, 127)
    return near.astype(np.int8)


def words(dimensions: int) -> int:
    """64-bit words that hold a bit for each dimension."""
    return (dimensions + 63) // 64


def to_bits(vectors: NDArray[Any], how: Coding) -> NDArray[Any]:
    """Whether each number is above the mean: uint64, a row for each word, so that a scan reads straight on."""
    import numpy as np

    packed = np.packbits(vectors > how.mean, axis=1)
    wide = np.zeros((len(vectors), words(vectors.shape[1]) * 8), dtype=np.uint8)
    wide[:, : packed.shape[1]] = packed
    return np.ascontiguousarray(wide.view(np.uint64).T)


def has_bit_count() -> bool:
    """Whether this NumPy counts bits (2.0 and later); without it there are no bits."""
    import numpy as np

    return hasattr(np, "bitwise_count")


def distances(bits: NDArray[Any], query: NDArray[Any]) -> NDArray[Any]:
    """Number of bits in which each vector (a column) differs from the query (one word a row)."""
    import numpy as np

    numpy: Any = np  # the types of NumPy 1 do not know of counting bits
    total = np.zeros(bits.shape[1], dtype=np.uint16)
    for word in range(bits.shape[0]):
        total += numpy.bitwise_count(bits[word] ^ query[word, 0])
    return total


def scores(codes: NDArray[Any], query: NDArray[Any], how: Coding) -> NDArray[Any]:
    """Cosines of a block of rows with the query; for int8 less what the mean gives to every row alike."""
    import numpy as np

    if codes.dtype == np.int8:
        codes, query = codes.astype(np.float32), query * np.float32(how.step)
    found: NDArray[Any] = codes @ query
    return found
