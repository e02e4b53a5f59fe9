"""What a provider returned, checked and made comparable: vectors of length 1 as little-endian float32 numbers.

Nothing else gets into an index or a comparison. Zero vectors and vectors with a number that is not finite have no
direction: their texts get none. Works without NumPy. Called by ``service`` and ``conformance``.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Iterable, Sequence

from memory_sqlite import errors

LENGTH_MIN = 1e-12
"""A shorter vector is zero but for rounding."""


def vectors(found: object, count: int, dimensions: int) -> list[bytes | None]:
    """One entry for each of ``count`` texts: the normalised vector, ``None`` where it has no direction.

    Raises ``EmbeddingFailed`` for another number of vectors, for vectors of another size, for what are no numbers, and
    when of several texts none has a direction: then the model is at fault.
    """
    size = _size(found)
    if size != count:
        raise errors.EmbeddingFailed(f"the embedding provider answered with {size} vectors for {count} texts")
    assert isinstance(found, Iterable), "what has a size here can be gone through"
    checked = [vector(one, dimensions) for one in found]
    if count > 1 and not any(checked):
        raise errors.EmbeddingFailed("the embedding provider answered with vectors that point nowhere")
    return checked


def vector(found: object, dimensions: int) -> bytes | None:
    """One normalised vector, ``None`` if it is zero or not finite.

    Raises ``EmbeddingFailed`` for a vector of another size and for what are no numbers.
    """
    size = _size(found)
    if size != dimensions:
        raise errors.EmbeddingFailed(f"the embedding provider answered with {size} dimensions instead of {dimensions}")
    assert isinstance(found, Iterable), "what has a size here can be gone through"
    try:
        numbers = [float(number) for number in found]
    except (TypeError, ValueError, OverflowError):
        raise errors.EmbeddingFailed("the embedding provider answered with vectors that hold no numbers") from None
    largest = max(map(abs, numbers), default=0.0)
    # a comparison with what is not a number does not hold; max() alone could pass over it
    if not all(map(math.isfinite, numbers)) or largest < LENGTH_MIN:
        return None
    # divided by the largest first: squares of very large or very small numbers would not be finite or not be there
    numbers = [number / largest for number in numbers]
    length = math.sqrt(math.fsum([number * number for number in numbers]))
    return packed([number / length for number in numbers])


def packed(numbers: Sequence[float]) -> bytes:
    """Numbers as little-endian float32."""
    found = array("f", numbers)
    if sys.byteorder != "little":
        found.byteswap()
    return found.tobytes()


def unpacked(data: bytes) -> Sequence[float]:
    """The numbers of ``packed``."""
    found = array("f", data)
    if sys.byteorder != "little":
        found.byteswap()
    return found


def _size(found: object) -> int:
    if isinstance(found, str | bytes | dict):
        raise errors.EmbeddingFailed("the embedding provider answered with something that is no vector")
    try:
        return len(found)  # type: ignore[arg-type]
    except TypeError:
        raise errors.EmbeddingFailed("the embedding provider answered with something that is no vector") from None
