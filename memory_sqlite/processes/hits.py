"""Search requests and their hits as JSON, and back.

Each type has one table for both directions, so that neither can forget a field; a test holds the tables against the
types. Called by ``retrieval`` (parent) and ``workers.retrieval``.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any, Final

from memory_sqlite.limits import OPERATOR_MAX_RESULTS, QUERY_MAX_CHARS
from memory_sqlite.model import LAYERS, SOURCES, Hit, Span
from memory_sqlite.processes import checks
from memory_sqlite.processes.checks import Check
from memory_sqlite.processes.frames import WireError
from memory_sqlite.search.assemble import Sort
from memory_sqlite.search.filters import Filters, Viewer
from memory_sqlite.search.run import SearchInfo
from memory_sqlite.search.vectors.query_vector import QueryVector
from memory_sqlite.values import dataclass

KINDS: Final = ("note", "record", "message")
_words: Final = checks.several(checks.text)


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """What one search asks of a generation: the arguments of ``search.run.search``."""

    text: str
    filters: Filters
    now_ms: int
    max_results: int
    max_bytes: int
    min_score: float = 0.0
    sort: Sort = "score"
    explain: bool = False
    vector: QueryVector | None = None
    zone: str = "UTC"


Found = tuple[list[Hit], SearchInfo]
"""What ``search.run.search`` returns."""


def _bytes(value: object) -> bytes:
    try:
        return b64decode(checks.text(value), validate=True)
    except ValueError:
        raise WireError("not base64") from None


def _results(value: object) -> int:
    results = checks.count(value)
    # recall asks for a few times what it shows, and chooses
    if results > 10 * OPERATOR_MAX_RESULTS:
        raise WireError("more results than anybody may ask for")
    return results


VIEWER: Final[dict[str, Check[Any]]] = {
    "operator": checks.truth,
    "session_id": checks.optional(checks.whole),
    "owner_private": checks.truth,
}
FILTERS: Final[dict[str, Check[Any]]] = {
    "viewer": lambda value: Viewer(**checks.row(value, VIEWER)),
    "sources": checks.several(checks.one_of(*SOURCES)),
    "layers": checks.optional(checks.several(checks.one_of(*LAYERS))),
    "sessions": checks.optional(checks.several(checks.whole)),
    "projects": checks.optional(_words),
    "kinds": checks.optional(checks.several(checks.one_of(*KINDS))),
    "since": checks.optional(checks.whole),
    "until": checks.optional(checks.whole),
    "boost_projects": _words,
    "active_projects": checks.optional(_words),
    "except_session": checks.optional(checks.whole),
}
VECTOR: Final[dict[str, Check[Any]]] = {
    "identity": checks.text,
    "data": _bytes,
    "latin": checks.number,
    "cjk": checks.number,
    "other": checks.number,
    "messages": checks.number,
    "low": checks.number,
    "high": checks.number,
    "floor": checks.number,
}
REQUEST: Final[dict[str, Check[Any]]] = {
    "text": checks.text,
    "filters": lambda value: Filters(**checks.row(value, FILTERS)),
    "now_ms": checks.whole,
    "max_results": _results,
    "max_bytes": checks.count,
    "min_score": checks.number,
    "sort": checks.one_of("score", "diverse", "newest", "oldest"),
    "explain": checks.truth,
    "zone": checks.text,
    "vector": checks.optional(lambda value: QueryVector(**checks.row(value, VECTOR))),
}
SPAN: Final[dict[str, Check[Any]]] = {"start": checks.count, "end": checks.count}
HIT: Final[dict[str, Check[Any]]] = {
    "reference": checks.text,
    "path": checks.text,
    "start_line": checks.whole,
    "end_line": checks.whole,
    "excerpt": checks.text,
    "matches": checks.several(lambda value: Span(**checks.row(value, SPAN))),
    "score": checks.number,
    "source": checks.one_of(*SOURCES),
    "layer": checks.optional(checks.one_of(*LAYERS)),
    "citation": checks.text,
    "provenance": checks.mapping,
    "time": checks.optional(checks.text),
    "heading": checks.text,
    "title": checks.text,
    "session": checks.optional(checks.text),
    "message_id": checks.optional(checks.text),
    "speaker": checks.optional(checks.text),
    "importance": checks.optional(checks.whole),
    "triggers": _words,
    "projects": _words,
    "duplicates": _words,
    "explanation": checks.optional(checks.numbers_by_name),
}
INFO: Final[dict[str, Check[Any]]] = {
    "coverage": checks.one_of("complete", "partial"),
    "withheld": checks.count,
    "warnings": _words,
    "routes": _words,
}


def request_json(asked: SearchRequest) -> dict[str, Any]:
    """A request as JSON. A query is cut just above its bound, so that the worker still sees, and says, that it was."""
    body = {name: getattr(asked, name) for name in REQUEST}
    body["text"] = asked.text[: QUERY_MAX_CHARS + 1]
    filters = _row(asked.filters, FILTERS)
    filters[0] = _row(asked.filters.viewer, VIEWER)
    body["filters"] = filters
    if asked.vector is not None:
        body["vector"] = _row(asked.vector, VECTOR)
        body["vector"][_DATA] = b64encode(asked.vector.data).decode("ascii")
    return body


def request_of(body: object) -> SearchRequest:
    """A request from JSON. Raises ``WireError``."""
    return SearchRequest(**checks.fields(body, REQUEST))


def answer_json(found: Found) -> dict[str, Any]:
    """An answer as JSON."""
    hits, info = found
    return {"hits": [_hit_row(hit) for hit in hits], "info": _row(info, INFO)}


def answer_of(body: object, asked: SearchRequest) -> Found:
    """An answer from JSON. Raises ``WireError``, also for more hits than were asked for."""
    hits = checks.several(lambda value: Hit(**checks.row(value, HIT)), at_most=asked.max_results)
    found = checks.fields(body, {"hits": hits, "info": lambda value: SearchInfo(**checks.row(value, INFO))})
    return list(found["hits"]), found["info"]


def _hit_row(hit: Hit) -> list[Any]:
    values = _row(hit, HIT)
    values[_MATCHES] = [(span.start, span.end) for span in hit.matches]
    return values


_DATA: Final = list(VECTOR).index("data")
_MATCHES: Final = list(HIT).index("matches")


def _row(value: object, table: dict[str, Check[Any]]) -> list[Any]:
    return [getattr(value, name) for name in table]
