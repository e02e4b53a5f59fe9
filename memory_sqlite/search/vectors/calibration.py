"""How many rows the bits must hand on so that the true neighbours are among them: measured on the space's own vectors.

Bits keep the neighbourhoods of text embeddings and lose those of noise (recall@10 of 400 rows: 1.0 on clustered
vectors, 0.41 on isotropic ones; measured), so nothing is assumed. Some rows serve as questions: their nearest ones are
found exactly while the rows are loaded, and then looked up in the order of the bits. Called by ``resident``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from memory_sqlite.values import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray

QUESTIONS: Final = 50
CHOICES: Final = (200, 300, 400, 600, 800, 1_200, 1_600, 2_400, 3_200, 4_800, 6_400, 8_000, 12_000)
RECALL: Final = 0.99
LARGEST_SHARE: Final = 0.2
"""Of the rows. Looking at so many again costs half of a scan of int8; beyond it that is as quick, and surer."""


@dataclass(frozen=True, slots=True)
class Depth:
    """So many neighbours, and the margin by which what was enough for rows is multiplied.

    Questions lie further from texts than texts from one another. What it takes to find .99 of the ten neighbours of
    real questions, over what it takes for rows: MiniLM 1.5 x, multilingual-e5-small 3 x, WordLlama 2 x, on many short
    sentences 0.5 x; of a hundred neighbours all of them 2 x or less (LoCoMo, XQuAD, SciFact; 3,240 to 50,089 texts).
    """

    neighbours: int
    margin: int


DEPTHS: Final = (Depth(10, 3), Depth(100, 2))


class Calibration:
    """The exact neighbours of some rows, found in passing."""

    def __init__(self, numbers: NDArray[Any], vectors: NDArray[Any]) -> None:
        """``numbers`` and ``vectors`` (float32, one a row) of the rows that serve as questions."""
        import numpy as np

        self.vectors = vectors
        self._numbers = numbers
        self._scores = np.full((DEPTHS[-1].neighbours, len(numbers)), -np.inf, dtype=np.float32)
        self._places = np.zeros(self._scores.shape, dtype=np.int64)

    def see(self, numbers: NDArray[Any], vectors: NDArray[Any], first: int) -> None:
        """Rows that are being loaded; ``first`` is the place of the first of them. No row is its own neighbour."""
        import numpy as np

        scores = vectors @ self.vectors.T
        scores[numbers[:, None] == self._numbers[None, :]] = -np.inf
        places = np.broadcast_to(np.arange(first, first + len(numbers))[:, None], scores.shape)
        scores = np.concatenate((self._scores, scores))
        places = np.concatenate((self._places, places))
        kept = np.argpartition(-scores, len(self._scores) - 1, axis=0)[: len(self._scores)]
        self._scores = np.take_along_axis(scores, kept, axis=0)
        self._places = np.take_along_axis(places, kept, axis=0)

    def ranks(self, question: int, distances: NDArray[Any]) -> list[int]:
        """At which place in the order of the bits each neighbour comes, the nearest neighbour first; the question's own
        row left out, and equal distances counted against it."""
        import numpy as np

        up_to = np.cumsum(np.bincount(distances))
        scores = self._scores[:, question]
        order = np.argsort(-scores, kind="stable")
        places = self._places[order[np.isfinite(scores[order])], question]
        return [int(up_to[distance]) - 1 for distance in distances[places]]


def enough(ranks: Sequence[Sequence[int]], depth: Depth, rows: int) -> tuple[int | None, float]:
    """How many rows have to be handed on for so many neighbours, ``None`` where that is too many; and the recall that
    was measured before the margin. ``ranks`` are those of each question."""
    wanted = [rank for of_one in ranks for rank in of_one[: depth.neighbours]]
    found = 0.0
    for choice in CHOICES:
        handed_on = choice * depth.margin
        if handed_on > rows * LARGEST_SHARE or not wanted:
            break
        found = sum(rank <= choice for rank in wanted) / len(wanted)
        if found >= RECALL:
            return handed_on, found
    return None, found
