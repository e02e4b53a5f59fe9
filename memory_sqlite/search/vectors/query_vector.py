"""A question as a vector, ready for comparing: plain data that can cross a pipe.

Made by ``embeddings.service``, read by ``search``. Not here: how it was made.
"""

from __future__ import annotations

from memory_sqlite.values import dataclass


@dataclass(frozen=True, slots=True)
class QueryVector:
    """``identity`` is that of its space (``generations.vector_rows.identity_text``), ``data`` the little-endian float32
    numbers of a vector of length 1. The others are those of ``embeddings.protocol.Weight``: the weight of meaning
    beside words by the script of the question, how many times it counts for messages, the cosines that count as 0
    and as 1, and the one from which a text without any word of the question can be an answer."""

    identity: str
    data: bytes
    latin: float
    cjk: float
    low: float
    high: float
    other: float = 0.0
    floor: float = 0.6
    messages: float = 1.0

    @property
    def dimensions(self) -> int:
        """How many numbers it has."""
        return len(self.data) // 4
