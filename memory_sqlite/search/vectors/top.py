"""Choosing the best of an array of scores with NumPy, so that equal scores are cut the same way each time.

Called by the routes that have NumPy. Importing this module does not import it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEAR: Final = 2e-6
"""Scores that differ by less may be the same one: sums of float32 products come out differently by their place in an
array (measured: up to 4e-7 at 384 dimensions)."""


def largest(scores: NDArray[Any], k: int, ties: NDArray[Any]) -> NDArray[Any]:
    """Places of the ``k`` largest scores and of a few near ones; of equal ones those with the lowest ``ties``.

    Scores that are not numbers, or minus infinity, are never chosen. At most ``4 * k + 64`` places.
    """
    import numpy as np

    finite = np.isfinite(scores)
    usable = int(np.count_nonzero(finite))
    if usable <= k:
        return np.flatnonzero(finite)
    clean = scores if usable == len(scores) else np.where(finite, scores, -np.inf)
    cut = np.partition(clean, len(clean) - k)[len(clean) - k]
    places = np.flatnonzero(clean >= cut - NEAR)
    most = 4 * k + 64
    if len(places) > most:  # all but equal: what is above the cut for certain stays, the others by their tie
        certain = places[clean[places] > cut + NEAR]
        level = places[clean[places] <= cut + NEAR]
        # ordered by tie; a partition would do, but many equal rows are rare
        level = level[np.argsort(ties[level], kind="stable")]
        places = np.concatenate((certain, level[: max(0, most - len(certain))]))
    return places


def smallest(distances: NDArray[Any], k: int) -> NDArray[Any]:
    """Places of the ``k`` smallest whole numbers; of those equal to the last one the first in order."""
    import numpy as np

    if len(distances) <= k:
        return np.arange(len(distances))
    cut = np.partition(distances, k - 1)[k - 1]
    below = np.flatnonzero(distances < cut)
    level = np.flatnonzero(distances == cut)
    return np.concatenate((below, level[: k - len(below)]))
