"""What a provider returns becomes a vector of length 1, or is refused with a sentence."""

from __future__ import annotations

import math
import struct
from array import array
from typing import Any

import pytest

from memory_sqlite import errors
from memory_sqlite.embeddings import checked
from memory_sqlite.generations import vector_rows


def test_vectors_are_normalised_little_endian_float32() -> None:
    """Whatever sequence of numbers it is; what the index checks when it is filed holds."""
    for found in ([3, 4], (3.0, 4.0), array("f", [3, 4]), array("d", [3, 4])):
        data = checked.vector(found, 2)
        assert data is not None
        assert struct.unpack("<2f", data) == pytest.approx((0.6, 0.8))
        vector_rows.check(data, 2)
        assert list(checked.unpacked(data)) == list(struct.unpack("<2f", data))


@pytest.mark.parametrize("scale", [1e-9, 1e-200, 1e200, 1e30])
def test_very_small_and_very_large_numbers_keep_their_direction(scale: float) -> None:
    """Their squares would vanish or be infinite; below 1e-12 a vector is zero but for rounding."""
    data = checked.vector([3 * scale, 4 * scale], 2)
    if scale < 1e-100:
        assert data is None
    else:
        assert data is not None
        assert struct.unpack("<2f", data) == pytest.approx((0.6, 0.8))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_is_not_finite_points_nowhere(bad: float, place: int) -> None:
    """A NaN in any place, also the first, which ``max`` would pass over."""
    numbers = [1.0, 2.0, 3.0]
    numbers[place] = bad
    assert checked.vector(numbers, 3) is None
    assert checked.vectors([[1.0, 2.0, 3.0], numbers], 2, 3)[1] is None


def test_zero_points_nowhere() -> None:
    """A model gives it for a text without a word that it knows: that text has no vector, the others have."""
    assert checked.vector([0.0, -0.0], 2) is None
    found = checked.vectors([[0.0, 0.0], [1.0, 0.0]], 2, 2)
    assert [one is None for one in found] == [True, False]


def test_a_batch_without_any_direction_is_the_models_fault() -> None:
    """Several texts and no vector at all: it is said, instead of filing nothing for ever."""
    with pytest.raises(errors.EmbeddingFailed, match="point nowhere"):
        checked.vectors([[math.nan, 1.0], [0.0, 0.0]], 2, 2)
    assert checked.vectors([[0.0, 0.0]], 1, 2) == [None]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([[1.0, 0.0]], "1 vectors for 2 texts"),
        ([[1.0, 0.0]] * 3, "3 vectors for 2 texts"),
        ([[1.0, 0.0], [1.0]], "1 dimensions instead of 2"),
        ([[1.0, 0.0], [1.0, 0.0, 0.0]], "3 dimensions instead of 2"),
        ([[1.0, 0.0], None], "no vector"),
        ([[1.0, 0.0], "ab"], "no vector"),
        ([[1.0, 0.0], [1.0, "x"]], "no numbers"),
        ([[1.0, 0.0], [1.0, [0.0]]], "no numbers"),
        ([[1.0, 0.0], [1.0, 10**400]], "no numbers"),
        (None, "no vector"),
        ("ab", "no vector"),
        ({"a": 1, "b": 2}, "no vector"),
        (7, "no vector"),
    ],
)
def test_anything_else_is_refused_with_a_sentence(found: Any, said: str) -> None:
    """Fewer, more, other sizes, changed dimensions, no numbers at all."""
    with pytest.raises(errors.EmbeddingFailed, match=said):
        checked.vectors(found, 2, 2)
