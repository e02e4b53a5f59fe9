"""Pieces of what is being forgotten, to look for in the files afterwards. They live in memory only, and not for long.

Called by ``rows`` and ``notes``, which see the texts last, and by ``proof``.
"""

from __future__ import annotations

import re
from typing import Final

_PIECE_BYTES: Final = 40
"""Short enough to lie within one database page wherever it begins, long enough to be nobody else's words by chance."""
_LEAST_BYTES: Final = 12
_MOST: Final = 4_096
_PER_TEXT: Final = 3
# what JSON would write otherwise: the same piece is then in the text and in the host's raw record
_PLAIN: Final = re.compile(r'[^"\\\x00-\x1f\x7f]+')


class Samples:
    """At most some thousand pieces of texts, as UTF-8: beginning, middle and end of each text."""

    def __init__(self) -> None:
        self._pieces: dict[bytes, None] = {}
        self.skipped = 0
        """Texts too short to look for: ``yes`` is in every file."""

    def add(self, text: str) -> None:
        """Take pieces of a text that is about to go."""
        if len(self._pieces) >= _MOST:
            return
        runs = [run.strip().encode("utf-8", "replace") for run in _PLAIN.findall(text[:100_000])]
        longest = sorted((run for run in runs if len(run) >= _LEAST_BYTES), key=len, reverse=True)[:_PER_TEXT]
        if not longest:
            self.skipped += 1
        for run in longest:
            for start in {0, max(0, (len(run) - _PIECE_BYTES) // 2), max(0, len(run) - _PIECE_BYTES)}:
                self._pieces[run[start : start + _PIECE_BYTES]] = None

    def pieces(self, most: int) -> list[bytes]:
        """Up to ``most`` of them, spread evenly over what was taken."""
        every = list(self._pieces)
        if len(every) <= most:
            return every
        return [every[index * len(every) // most] for index in range(most)]

    def __bool__(self) -> bool:
        return bool(self._pieces)
