"""The shapes of the provider contract as the JSON of its wire, and back: camelCase, absent where not said.

Each shape has one table for both directions. Unknown fields are ignored, a ``null`` is a field not said, a value of the
wrong type is an ``InvalidArgument`` that names the field. Requests to open and their results have no wire form: they
hold live objects, and an audience that was written down is never valid. Not here: what a gateway adds or refuses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from memory_sqlite import errors
from memory_sqlite.model import SOURCES
from memory_sqlite.runtime.shapes import (
    CANDIDATE_KINDS,
    AutomaticRecall,
    CandidateRequest,
    Capabilities,
    Citation,
    Found,
    GetRequest,
    GetResult,
    Health,
    NotFound,
    ProviderHit,
    Reference,
    SearchPage,
    SearchRequest,
)

_T = TypeVar("_T")
_Read = Callable[[object, str], Any]
"""From JSON; told the field's full name."""


def _wrong(where: str, must: str) -> errors.InvalidArgument:
    return errors.InvalidArgument(f"{where} must be {must}")


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise _wrong(where, "a string")
    return value


def _truth(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise _wrong(where, "true or false")
    return value


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _wrong(where, "a finite number")
    return value


def _whole(value: object, where: str) -> int:
    number = _number(value, where)
    if number != int(number):
        raise _wrong(where, "a whole number")
    return int(number)


def _free(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise _wrong(where, "an object")
    return dict(value)


def _one_of(*known: str) -> _Read:
    def read(value: object, where: str) -> str:
        if value not in known:
            raise _wrong(where, f"one of {', '.join(known)}")
        return str(value)

    return read


def _several(item: _Read) -> _Read:
    def read(value: object, where: str) -> tuple[Any, ...]:
        if isinstance(value, str | bytes) or not isinstance(value, Sequence):
            raise _wrong(where, "a list")
        return tuple(item(one, f"{where}[{at}]") for at, one in enumerate(value))

    return read


def _shape(kind: type[Any]) -> _Read:
    return lambda value, where: from_wire(kind, value, where)


@dataclass(frozen=True)
class _Field:
    wire: str
    read: _Read
    required: bool = False


_REFERENCE: Final = {
    "provider_id": _Field("providerId", _text, True),
    "id": _Field("id", _text, True),
    "revision": _Field("revision", _text),
    "fragment": _Field("fragment", _text),
}
_TABLES: Final[dict[type[Any], dict[str, _Field]]] = {
    Reference: _REFERENCE,
    Capabilities: {
        "sources": _Field("sources", _several(_one_of(*SOURCES)), True),
        "pagination": _Field("pagination", _truth, True),
        "candidates": _Field("candidates", _several(_one_of(*CANDIDATE_KINDS)), True),
        "project_filter": _Field("projectFilter", _truth, True),
    },
    Citation: {
        "label": _Field("label", _text, True),
        "reference": _Field("reference", _shape(Reference)),
        "url": _Field("url", _text),
        "start_line": _Field("startLine", _whole),
        "end_line": _Field("endLine", _whole),
    },
    AutomaticRecall: {
        "eligible": _Field("eligible", _truth, True),
        "project_keys": _Field("projectKeys", _several(_text)),
        "triggers": _Field("triggers", _text),
        "importance": _Field("importance", _number),
    },
    ProviderHit: {
        "reference": _Field("reference", _shape(Reference), True),
        "excerpt": _Field("excerpt", _text, True),
        "score": _Field("score", _number),
        "source": _Field("source", _text),
        "citations": _Field("citations", _several(_shape(Citation))),
        "automatic_recall": _Field("automaticRecall", _shape(AutomaticRecall)),
    },
    SearchRequest: {
        "query": _Field("query", _text, True),
        "max_results": _Field("maxResults", _whole),
        "min_score": _Field("minScore", _number),
        "cursor": _Field("cursor", _text),
        "sources": _Field("sources", _several(_one_of(*SOURCES))),
        "lexical_only": _Field("lexicalOnly", _truth),
        "active_project_keys": _Field("activeProjectKeys", _several(_text)),
    },
    SearchPage: {
        "hits": _Field("hits", _several(_shape(ProviderHit)), True),
        "next_cursor": _Field("nextCursor", _text),
        "coverage": _Field("coverage", _one_of("complete", "partial")),
        "warning": _Field("warning", _text),
    },
    GetRequest: {
        "reference": _Field("reference", _shape(Reference), True),
        "from_line": _Field("from", _whole),
        "lines": _Field("lines", _whole),
    },
    Found: {
        "status": _Field("status", _one_of("ok"), True),
        "reference": _Field("reference", _shape(Reference), True),
        "text": _Field("text", _text, True),
        "citations": _Field("citations", _several(_shape(Citation))),
        "truncated": _Field("truncated", _truth),
        "from_line": _Field("from", _whole),
        "lines": _Field("lines", _whole),
        "next_from": _Field("nextFrom", _whole),
    },
    NotFound: {"status": _Field("status", _one_of("not_found"), True)},
    Health: {
        "status": _Field("status", _one_of("ready", "degraded", "unavailable"), True),
        "message": _Field("message", _text),
        "details": _Field("details", _free),
    },
    CandidateRequest: {
        "kind": _Field("kind", _one_of(*CANDIDATE_KINDS), True),
        "limit": _Field("limit", _whole),
        "active_project_keys": _Field("activeProjectKeys", _several(_text)),
    },
}
SHAPES: Final = tuple(_TABLES)
"""The shapes that have a wire form."""
_MATTERS: Final = {(Found, "truncated"), (SearchRequest, "sources"), (AutomaticRecall, "project_keys")}
"""Where an empty value says something else than an absent one."""


def to_wire(value: Any) -> dict[str, Any]:
    """A shape as JSON. What was not said is left out."""
    kind = type(value)
    said: dict[str, Any] = {}
    for name, field in _TABLES[kind].items():
        item = getattr(value, name)
        if field.required or not _is_unsaid(item) or (item is not None and (kind, name) in _MATTERS):
            said[field.wire] = _json(item)
    return said


def from_wire(kind: type[_T], body: object, where: str | None = None) -> _T:
    """A shape from JSON; ``where`` is how errors call it. Raises ``InvalidArgument`` naming the first wrong field."""
    place = where or kind.__name__
    if not isinstance(body, Mapping):
        raise _wrong(place, "an object")
    said: dict[str, Any] = {}
    for name, field in _TABLES[kind].items():
        value = body.get(field.wire)
        if value is not None:
            said[name] = field.read(value, f"{place}.{field.wire}")
        elif field.required:
            raise errors.InvalidArgument(f"{place}.{field.wire} is required")
    return kind(**said)


def get_result_from_wire(body: object, where: str = "GetResult") -> GetResult:
    """Which of the two it is, by its status. Raises ``InvalidArgument``."""
    if isinstance(body, Mapping) and body.get("status") == "not_found":
        return NotFound()
    return from_wire(Found, body, where)


def _is_unsaid(value: object) -> bool:
    """Zero is said: it is a floor, a score, an importance."""
    return value is None or value is False or (isinstance(value, tuple | Mapping) and not value)


def _json(value: Any) -> Any:
    if type(value) in _TABLES:
        return to_wire(value)
    if isinstance(value, Mapping):
        return {name: _json(item) for name, item in value.items()}
    return [_json(item) for item in value] if isinstance(value, tuple | list) else value
