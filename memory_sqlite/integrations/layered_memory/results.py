"""The product's result objects and options: shapes and checks, nothing that reads.

Facts: section 4.3 of the layered-memory reference (keys and their order, bounds of arguments). Called by ``agents`` and
the surfaces.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, Protocol

from memory_sqlite import errors
from memory_sqlite.config import Settings
from memory_sqlite.model import Coverage
from memory_sqlite.search.layered_order import Found
from memory_sqlite.text.frame import one_line
from memory_sqlite.text.units import cut_utf16

SNIPPET_UNITS: Final = 500
NOTHING_FOUND: Final = "未找到相关记忆。"
"""The product's answer to a search without results; hosts compare it."""


class Signal(Protocol):
    """What cancels a call; a ``threading.Event`` is one."""

    def is_set(self) -> bool:
        """True once the caller no longer wants an answer."""
        ...


class Results(list[dict[str, Any]]):
    """The result list of the product. ``warning`` says why it may be empty or not whole; ``None`` when there is nothing
    to say."""

    def __init__(
        self, found: tuple[Found, ...] = (), *, coverage: Coverage = "complete", warning: str | None = None
    ) -> None:
        super().__init__(result(one) for one in found)
        self.coverage: Coverage = coverage
        self.warning = warning


def result(found: Found) -> dict[str, Any]:
    """One result object, keys in the product's order. A whole score is an integer, as JavaScript writes it."""
    line = found.line
    score = int(found.score) if found.score.is_integer() else found.score
    return {
        "path": line.path,
        "startLine": line.ordinal,
        "endLine": line.ordinal,
        "score": score,
        "textScore": score,
        "snippet": cut_utf16(f"{line.label} {line.content}", SNIPPET_UNITS),
        "source": "memory",
        "citation": line.citation,
    }


def as_text(results: Results) -> str:
    """Results for a person or a model: one numbered line each, so that no stored text can look like another line."""
    if not results:
        return NOTHING_FOUND if results.warning is None else f"{NOTHING_FOUND}\n({results.warning})"
    return "\n".join(
        f"{number}. {one_line(one['snippet'])} ({one['citation']})" for number, one in enumerate(results, 1)
    )


def check_query(query: object) -> str:
    """Raise ``InvalidArgument`` for a query that is no string."""
    if not isinstance(query, str):
        raise errors.InvalidArgument("[memory] query must be a string")
    return query


def max_results_of(options: Mapping[str, Any], settings: Settings) -> int:
    """``maxResults``: a positive integer, by default and at most ``maxSearchResults``. Raises ``InvalidArgument``."""
    value = options.get("maxResults")
    if value is None:
        return settings.max_search_results
    whole = not isinstance(value, bool) and (
        isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    )
    if not whole or value < 1:
        raise errors.InvalidArgument("[memory] maxResults must be a positive integer")
    return min(int(value), settings.max_search_results)


def min_score_of(options: Mapping[str, Any]) -> float:
    """``minScore``: a finite number, 0 by default. Raises ``InvalidArgument``."""
    value = options.get("minScore")
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise errors.InvalidArgument("[memory] minScore must be a finite number")
    return float(value)
