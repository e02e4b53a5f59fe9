"""Search in the order of the layered-memory product: its score over records, in its scan order, within its byte budget.

Facts: sections 4.2 and 4.3 of that product's reference. What is not confirmed there is decided here as it recommends:
every record costs its encoded line and one newline, and the first that does not fit ends the search. Reads the store,
not a generation. Not here: who may see what (the caller's ``Selection``), result shapes (the callers). Called by
``agent.layered_answer`` and ``integrations.layered_memory``.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import apsw

from memory_sqlite import errors
from memory_sqlite.layers.keywords import keywords, scorer
from memory_sqlite.model import Coverage
from memory_sqlite.sources.record_lines import Folder, RecordLine, Selection, days, encoded_size, lines

MAX_DAYS: Final = 365
"""Day files a folder is searched in at most, as in the product."""
_CHECK_EVERY: Final = 256
"""Records between two looks at the caller's signal, as in the product."""


@dataclass(frozen=True, slots=True)
class Root:
    """One folder that is scanned, and what of it may be seen."""

    folder: Folder
    selection: Selection


@dataclass(frozen=True, slots=True)
class Found:
    """One record with its score in 0 to 1."""

    line: RecordLine
    score: float


@dataclass(frozen=True, slots=True)
class Answer:
    """The best records; ``partial`` when the byte budget ended the scan."""

    found: tuple[Found, ...]
    coverage: Coverage


def compatible_search(
    connection: apsw.Connection,
    query: str,
    roots: Sequence[Root],
    *,
    agent: str,
    max_results: int,
    min_score: float,
    max_bytes: int,
    max_days: int | None,
    sort: Literal["score", "newest", "oldest"] = "score",
    keep: Callable[[RecordLine], bool] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Answer:
    """Score every record of ``roots`` that the budget reaches; ties keep the order of the scan.

    ``max_days`` bounds the day files of a root (never more than 365); ``keep`` leaves records out after they have cost
    their bytes. Raises ``Cancelled``.
    """
    if cancelled is not None and cancelled():
        raise errors.Cancelled("the search was cancelled")
    if not keywords(query):
        return Answer((), "complete")
    scan = _Scan(connection, roots, agent, max_bytes, min(max_days or MAX_DAYS, MAX_DAYS), cancelled)
    relevance = scorer(query)
    scored = (
        (Found(line, score), place)
        for place, line in enumerate(scan)
        if keep is None or keep(line)
        if (score := relevance(line.content, line.keywords)) > 0 and score >= min_score
    )
    if sort == "score":
        best = heapq.nsmallest(max_results, scored, key=lambda item: (-item[0].score, item[1]))
    else:
        sign = -1 if sort == "newest" else 1
        best = heapq.nsmallest(max_results, scored, key=lambda item: (sign * item[0].line.event_at, item[1]))
    return Answer(tuple(found for found, _ in best), "partial" if scan.stopped else "complete")


class _Scan:
    """Records in the order of the roots, the newest day first, the oldest line first, until the budget is used."""

    def __init__(
        self,
        connection: apsw.Connection,
        roots: Sequence[Root],
        agent: str,
        max_bytes: int,
        max_days: int,
        cancelled: Callable[[], bool] | None,
    ) -> None:
        self._connection = connection
        self._roots = roots
        self._agent = agent
        self._left = max_bytes
        self._max_days = max_days
        self._cancelled = cancelled
        self.stopped = False

    def __iter__(self) -> Iterator[RecordLine]:
        seen = 0
        for root in self._roots:
            for day in days(self._connection, root.folder, root.selection, self._max_days):
                self._check()
                for line in lines(self._connection, root.folder, day, root.selection):
                    self._left -= encoded_size(line, self._agent) + 1
                    if self._left < 0:
                        self.stopped = True
                        return
                    seen += 1
                    if seen % _CHECK_EVERY == 0:
                        self._check()
                    yield line

    def _check(self) -> None:
        if self._cancelled is not None and self._cancelled():
            raise errors.Cancelled("the search was cancelled")
