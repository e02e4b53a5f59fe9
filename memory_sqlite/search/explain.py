"""An explanation of one search of one generation: the search itself with a notebook, and the notes in order.

Lives here: reading the notes of ``trace`` for a person. Not here: searching (``run``), and why one thing was found or
not (``explain_target``). Called by ``agent.explaining``; reads only.

An explanation is bound by the audience of the search: it is made of rows that whoever asks may see, counts words in
these rows alone, and leaves out the rarity of words, which is that of the whole index.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from datetime import date
from typing import TYPE_CHECKING, Any, cast

import apsw

from memory_sqlite import limits
from memory_sqlite.clock import iso
from memory_sqlite.model import Hit
from memory_sqlite.search import match
from memory_sqlite.search.assemble import Sort
from memory_sqlite.search.candidates import Candidate, Candidates, Resolved
from memory_sqlite.search.dates import NamedDate
from memory_sqlite.search.explain_target import look_up
from memory_sqlite.search.explanation import CandidateReading, Explanation, TermReading
from memory_sqlite.search.filters import Filters, Viewer
from memory_sqlite.search.folding import fold
from memory_sqlite.search.query import Query, Term
from memory_sqlite.search.run import citation, reference, search
from memory_sqlite.search.tokens import groups
from memory_sqlite.search.trace import Trace
from memory_sqlite.search.vocabulary import TEXT_COLUMNS

if TYPE_CHECKING:
    from memory_sqlite.search.vectors.query_vector import QueryVector


def explain(
    connection: apsw.Connection,
    text: str,
    filters: Filters,
    target: str | None = None,
    *,
    reveal: bool = False,
    now_ms: int,
    zone: str = "UTC",
    max_results: int,
    min_score: float = 0.0,
    max_bytes: int,
    sort: Sort = "score",
    cancelled: Callable[[], bool] | None = None,
    vector: QueryVector | None = None,
) -> tuple[Explanation, list[Hit]]:
    """Search as ``run.search`` does and say how, beside the hits. Raises what it raises.

    ``target`` is a reference, a citation or a path: why it was found or not; ``target.reason`` is ``not_indexed`` for
    what these rows do not hold, or this viewer may not see. With ``reveal`` the operator looks over a viewer's shoulder
    and is told which.
    """
    trace = Trace()
    hits, info = search(
        connection,
        text,
        filters,
        now_ms=now_ms,
        zone=zone,
        max_results=max_results,
        min_score=min_score,
        max_bytes=max_bytes,
        sort=sort,
        cancelled=cancelled,
        trace=trace,
        vector=vector,
    )
    assert trace.query is not None and trace.candidates is not None, "the search wrote them down"
    places = {hit.reference: place for place, hit in enumerate(hits, 1)}
    tokens = tuple(token for group in groups(fold(trace.query.text)) for token in group.tokens)
    searched = {token for term in trace.query.terms for probe in term.probes for token in probe}
    explained = Explanation(
        query=text,
        now=iso(now_ms),
        zone=trace.query.zone,
        tokens=tokens,
        left_out=tuple(dict.fromkeys(token for token in tokens if token not in searched)),
        terms=_terms(connection, trace.query, trace.candidates, filters.viewer),
        dates=tuple(_date(named) for named in trace.query.dates),
        filters=_filters(filters),
        match=trace.match,
        routes=info.routes,
        scored=len(trace.scored),
        candidates=_candidates(trace, places),
        target=None if target is None else look_up(connection, target, filters, trace, places, reveal=reveal),
        coverage=info.coverage,
        warnings=info.warnings,
        withheld=info.withheld,
    )
    return explained, hits


def _terms(
    connection: apsw.Connection, query: Query, candidates: Candidates, viewer: Viewer
) -> tuple[TermReading, ...]:
    """The terms in the order of their worth, as ranking has them, then those that were too many to be searched."""
    known = {resolved.term: resolved for resolved in candidates.terms}
    cut = [term for term in query.terms if term not in known]
    visible = viewer.expression()
    return (
        *(_term(connection, resolved, viewer, visible) for resolved in candidates.terms),
        *(_unread(term) for term in cut),
    )


def _term(connection: apsw.Connection, resolved: Resolved, viewer: Viewer, visible: str | None) -> TermReading:
    wanted = match.expression(TEXT_COLUMNS, match.any_of(resolved.probes), [], [] if visible is None else [visible])
    return TermReading(
        text=resolved.term.text,
        kind=resolved.term.kind,
        reading=resolved.reading if resolved.count else "dropped",
        words=tuple(" ".join(probe) for probe in resolved.probes) if resolved.count else (),
        weight=resolved.term.weight * resolved.trust,
        documents=match.count_rows(connection, "lexical", wanted, limits.EXPLAINED_COUNT_MAX) if resolved.count else 0,
        rarity=round(resolved.idf, 4) if viewer.operator and resolved.count else None,
        required=resolved.term.required,
        chosen=resolved.chosen,
    )


def _unread(term: Term) -> TermReading:
    return TermReading(term.text, term.kind, "dropped", (), term.weight, 0, None, term.required, False)


def _date(named: NamedDate) -> dict[str, Any]:
    """The fields of a date that were said; days as ISO-8601, the last one not included."""
    said: dict[str, Any] = {}
    for entry in fields(cast(Any, named)):
        value = getattr(named, entry.name)
        if isinstance(value, tuple):
            said["first"], said["before"] = (day.isoformat() for day in value)
        elif value is not None:
            said[entry.name] = value.isoformat() if isinstance(value, date) else value
    return said


def _filters(filters: Filters) -> dict[str, Any]:
    return {
        "viewer": "operator" if filters.viewer.operator else "session",
        "owner_private": filters.viewer.operator or filters.viewer.owner_private,
        "sources": filters.sources,
        "layers": filters.layers,
        "projects": filters.projects,
        "active_projects": filters.boost_projects or None,
        "since": None if filters.since is None else iso(filters.since),
        "until": None if filters.until is None else iso(filters.until),
        "expression": filters.expression(),
    }


def _candidates(trace: Trace, places: dict[str, int]) -> tuple[CandidateReading, ...]:
    assert trace.candidates is not None, "checked by the caller"
    rows = trace.candidates.rows[: limits.EXPLAINED_CANDIDATES_MAX]
    return tuple(_candidate(rank, row, trace, places) for rank, row in enumerate(rows, 1))


def _candidate(rank: int, row: Candidate, trace: Trace, places: dict[str, int]) -> CandidateReading:
    assert trace.candidates is not None, "checked by the caller"
    outcome = trace.outcomes[row.chunk_id]
    texts = [resolved.term.text for resolved in trace.candidates.terms]
    return CandidateReading(
        rank=rank,
        reference=reference(row),
        citation=citation(row),
        source="sessions" if row.source == "sessions" else "memory",
        layer=row.layer,  # type: ignore[arg-type]
        score=round(row.score, 6),
        parts={name: round(value, 6) for name, value in row.parts.items()},
        terms=tuple(texts[index] for index in sorted(row.own)),
        nearby=tuple(texts[index] for index in sorted(row.window)),
        verdict=outcome.verdict,
        place=places.get(reference(row)),
        of=None if outcome.of is None else citation(outcome.of),
    )
