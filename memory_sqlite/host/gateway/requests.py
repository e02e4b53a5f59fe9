"""Requests of the gateway's memory methods, parsed: what is wrong is refused before any memory is asked.

Everything raises ``InvalidArgument`` with a text for the client. Not here: answering (``methods``), which agents there
are (``agents``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from memory_sqlite import errors, limits
from memory_sqlite.model import SOURCES
from memory_sqlite.runtime.shapes import GetRequest, Reference, SearchRequest

VERSION: Final = 2
BAD_VERSION: Final = "unsupported memory version"
Params = Mapping[str, Any]


@dataclass(frozen=True)
class FileSearch:
    """A search in the file-shaped form (version 1). ``min_score`` of ``None``: the manager's own."""

    query: str
    max_results: int
    min_score: float | None


@dataclass(frozen=True)
class OwnerSearch:
    """A command line's search, routed to whoever owns the state. ``max_results`` of ``None``: the manager's own."""

    query: str
    max_results: int | None
    min_score: float | None
    expected_owner: str


def version_of(params: Params) -> int:
    """1 (also when absent) or 2."""
    said = params.get("version", 1)
    if isinstance(said, bool) or not isinstance(said, int | float) or said not in (1, VERSION):
        raise _wrong(BAD_VERSION)
    return int(said)


def agent_of(params: Params) -> str | None:
    """The agent that was named, ``None`` when none was."""
    if "agentId" not in params:
        return None
    if not isinstance(params["agentId"], str):
        raise _wrong("agentId must be a string")
    return params["agentId"]


def file_search(params: Params) -> FileSearch:
    """Version 1: the number of results is clamped, never refused."""
    query = _query(params).strip()
    most, least = params.get("maxResults"), params.get("minScore")
    if not all(value is None or _is_number(value) for value in (most, least)):
        raise _wrong("maxResults and minScore must be finite numbers when provided")
    wanted = limits.GATEWAY_RESULTS if most is None else math.floor(most)
    return FileSearch(query, min(limits.GATEWAY_RESULTS_MAX, max(1, wanted)), least)


def search(params: Params) -> SearchRequest:
    """Version 2."""
    most = _positive(params, "maxResults")
    sources = params.get("sources")
    if sources is not None and not (
        isinstance(sources, list | tuple) and sources and all(source in SOURCES for source in sources)
    ):
        raise _wrong("sources must be a non-empty list of memory and sessions")
    return SearchRequest(
        _query(params).strip(),
        max_results=min(limits.GATEWAY_RESULTS_MAX, limits.GATEWAY_RESULTS if most is None else most),
        min_score=_score(params),
        cursor=_said(params, "cursor"),
        sources=None if sources is None else tuple(dict.fromkeys(sources)),
    )


def get(params: Params) -> GetRequest:
    """``memory.get``: a reference and, where said, from which line and how many."""
    said = params.get("reference")
    if not isinstance(said, Mapping):
        raise _wrong("reference must be an object")
    provider_id, name = _said(said, "providerId"), _said(said, "id")
    if provider_id is None or name is None:
        raise _wrong("reference needs providerId and id")
    reference = Reference(provider_id, name, _said(said, "revision"), _said(said, "fragment"))
    return GetRequest(reference, _positive(params, "from"), _positive(params, "lines"))


def owner_search(params: Params) -> OwnerSearch:
    """``memory.search.owner``: the query as it was typed, as many results as the command line asks for."""
    expected = _said(params, "expectedOwnerId")
    if expected is None:
        raise _wrong("expectedOwnerId must be a non-empty string")
    return OwnerSearch(_query(params), _positive(params, "maxResults"), _score(params), expected)


def _query(params: Params) -> str:
    query = params.get("query")
    if not isinstance(query, str) or not query.strip():
        raise _wrong("query must be a non-empty string")
    return query


def _said(params: Params, name: str) -> str | None:
    if name not in params:
        return None
    value = params[name]
    if not isinstance(value, str) or not value.strip():
        raise _wrong(f"{name} must be a non-empty string")
    return value


def _positive(params: Params, name: str) -> int | None:
    if name not in params:
        return None
    value = params[name]
    if not _is_number(value) or value != int(value) or value < 1:
        raise _wrong(f"{name} must be a positive integer")
    return int(value)


def _score(params: Params) -> float | None:
    if "minScore" not in params:
        return None
    value = params["minScore"]
    if not _is_number(value):
        raise _wrong("minScore must be a finite number")
    return float(value)


def _is_number(value: Any) -> bool:
    """A number that JSON can say and a float can hold."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _wrong(text: str) -> errors.InvalidArgument:
    return errors.InvalidArgument(text)
