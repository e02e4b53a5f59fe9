"""The provider contract's JSON: every shape both ways, what is absent, and what is wrong."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest

from memory_sqlite import errors
from memory_sqlite.runtime import wire
from memory_sqlite.runtime.shapes import (
    AutomaticRecall,
    CandidateRequest,
    Capabilities,
    Citation,
    Found,
    GetRequest,
    Health,
    NotFound,
    ProviderHit,
    Reference,
    SearchPage,
    SearchRequest,
)

REFERENCE = Reference("p", "note:a.md#L1-L2", "r1", "L1-L2")
CITATION = Citation("a.md#L1-L2", REFERENCE, "https://example.org", 1, 2)
HIT = ProviderHit(REFERENCE, "text", 0.0, "memory", (CITATION,), AutomaticRecall(False, (), "a|b", 0))
EXAMPLES: list[tuple[Any, dict[str, Any]]] = [
    (Reference("p", "i"), {"providerId": "p", "id": "i"}),
    (
        Capabilities(("memory",), False, (), True),
        {"sources": ["memory"], "pagination": False, "candidates": [], "projectFilter": True},
    ),
    (
        HIT,
        {
            "reference": {"providerId": "p", "id": "note:a.md#L1-L2", "revision": "r1", "fragment": "L1-L2"},
            "excerpt": "text",
            "score": 0.0,
            "source": "memory",
            "citations": [
                {
                    "label": "a.md#L1-L2",
                    "reference": {"providerId": "p", "id": "note:a.md#L1-L2", "revision": "r1", "fragment": "L1-L2"},
                    "url": "https://example.org",
                    "startLine": 1,
                    "endLine": 2,
                }
            ],
            "automaticRecall": {"eligible": False, "projectKeys": [], "triggers": "a|b", "importance": 0},
        },
    ),
    (
        SearchRequest("q", 5, 0.0, "c", ("sessions",), True, ("red",)),
        {
            "query": "q",
            "maxResults": 5,
            "minScore": 0.0,
            "cursor": "c",
            "sources": ["sessions"],
            "lexicalOnly": True,
            "activeProjectKeys": ["red"],
        },
    ),
    (SearchRequest("q"), {"query": "q"}),
    (
        SearchPage((), "next", "partial", "late"),
        {"hits": [], "nextCursor": "next", "coverage": "partial", "warning": "late"},
    ),
    (GetRequest(Reference("p", "i"), 3, 4), {"reference": {"providerId": "p", "id": "i"}, "from": 3, "lines": 4}),
    (
        Found(Reference("p", "i"), "", truncated=False, from_line=1, lines=0),
        {
            "status": "ok",
            "reference": {"providerId": "p", "id": "i"},
            "text": "",
            "truncated": False,
            "from": 1,
            "lines": 0,
        },
    ),
    (NotFound(), {"status": "not_found"}),
    (Health("degraded", "late", {"a": 1}), {"status": "degraded", "message": "late", "details": {"a": 1}}),
    (CandidateRequest("trigger", 4, ("a",)), {"kind": "trigger", "limit": 4, "activeProjectKeys": ["a"]}),
    (CITATION, {}),
    (AutomaticRecall(True), {"eligible": True}),
]


@pytest.mark.parametrize(("shape", "body"), EXAMPLES)
def test_each_shape_goes_out_and_comes_back(shape: Any, body: dict[str, Any]) -> None:
    """As JSON text, too; unknown fields and nulls change nothing."""
    out = wire.to_wire(shape)
    assert not body or out == body
    back = json.loads(json.dumps(out))
    assert wire.from_wire(type(shape), {**back, "later": 1}) == shape
    nulls = {field.wire: None for field in wire._TABLES[type(shape)].values() if field.wire not in back}
    assert wire.from_wire(type(shape), {**back, **nulls}) == shape


def test_every_field_of_every_shape_is_in_its_table() -> None:
    """Neither direction can forget one; each shape has an example above."""
    for kind, table in wire._TABLES.items():
        assert set(table) == {field.name for field in fields(kind)}, kind
    assert {type(shape) for shape, _ in EXAMPLES} == set(wire.SHAPES)


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        (SearchRequest, [], "SearchRequest must be an object"),
        (SearchRequest, {}, "SearchRequest.query is required"),
        (SearchRequest, {"query": 1}, "SearchRequest.query must be a string"),
        (SearchRequest, {"query": "q", "maxResults": "5"}, "SearchRequest.maxResults must be a finite number"),
        (SearchRequest, {"query": "q", "maxResults": True}, "SearchRequest.maxResults must be a finite number"),
        (SearchRequest, {"query": "q", "maxResults": 1.5}, "SearchRequest.maxResults must be a whole number"),
        (SearchRequest, {"query": "q", "minScore": float("inf")}, "SearchRequest.minScore must be a finite number"),
        (SearchRequest, {"query": "q", "sources": "memory"}, "SearchRequest.sources must be a list"),
        (SearchRequest, {"query": "q", "sources": ["web"]}, "SearchRequest.sources[0] must be one of memory, sessions"),
        (SearchRequest, {"query": "q", "sources": [["memory"]]}, "SearchRequest.sources[0] must be one of"),
        (SearchRequest, {"query": "q", "lexicalOnly": 1}, "SearchRequest.lexicalOnly must be true or false"),
        (GetRequest, {"reference": {"id": "i"}}, "GetRequest.reference.providerId is required"),
        (SearchPage, {"hits": [{}]}, "SearchPage.hits[0].reference is required"),
        (SearchPage, {"hits": [], "coverage": "some"}, "SearchPage.coverage must be one of complete, partial"),
        (Health, {"status": "ready", "details": []}, "Health.details must be an object"),
        (CandidateRequest, {"kind": "other"}, "CandidateRequest.kind must be one of trigger, project"),
    ],
)
def test_a_wrong_field_is_named(kind: type[Any], body: Any, said: str) -> None:
    """And its value is not repeated."""
    with pytest.raises(errors.InvalidArgument) as raised:
        wire.from_wire(kind, body)
    assert raised.value.message.startswith(said)


def test_which_result_it_is_is_told_by_its_status() -> None:
    """Errors can be called by the name that the caller knows."""
    assert wire.get_result_from_wire({"status": "not_found", "text": "x"}) == NotFound()
    found = Found(Reference("p", "i"), "text")
    assert wire.get_result_from_wire(wire.to_wire(found)) == found
    with pytest.raises(errors.InvalidArgument, match=r"params\.reference is required"):
        wire.get_result_from_wire({"status": "ok"}, "params")
