"""Why one thing was found by a search, or why not.

Lives here: the chunks that a name means, and the first reason that kept all of them out, in the order in which a search
decides: seen by the viewer, let through by the filters, holding a term, chosen, scored, read, kept. Every question is
asked with the search's own expressions. Not here: the search, and what the store or the disk knows about a name that
the index does not (``agent.explaining``). Called by ``explain``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import apsw

from memory_sqlite.search import match
from memory_sqlite.search.candidates import Candidate, Resolved
from memory_sqlite.search.explanation import Reason, TargetReading
from memory_sqlite.search.filters import OPERATOR, Filters
from memory_sqlite.search.run import citation, reference
from memory_sqlite.search.trace import Trace
from memory_sqlite.search.vocabulary import TEXT_COLUMNS, WINDOW_COLUMNS
from memory_sqlite.sources.reading import LINE_RANGE
from memory_sqlite.values import dataclass

SENTENCES: Final[dict[Reason, str]] = {
    "hit": "it is hit {place} of the answer",
    "duplicate": "it says the same as {of}, and is listed under it",
    "overlap": "it overlaps {of} and adds nothing to it",
    "session_cap": "its session has its share of the answer, and others have something to say",
    "below_min_score": "its score is below the floor (min_score)",
    "below_time_floor": "sorted by time, only what has half of the best score takes part",
    "beyond_max_results": "it ranks {rank}, after the last place of the answer (max_results)",
    "empty_query": "the query holds nothing to look for",
    "filtered": "it is kept out by: {filters}",
    "no_term": "it holds no term of the query{near}",
    "phrase_missing": "it does not hold a quoted phrase of the query",
    "not_chosen": "by its words it is not among the {chosen} best that are scored{near}",
    "weak_match": "it holds nothing but single characters or pieces, where others hold more",
    "not_read": "its text was not read: max_search_bytes was reached",
    "not_indexed": "it is not in the index",
}
_FAR: Final = ", and it is not among the nearest in meaning"


@dataclass(frozen=True, slots=True)
class Meant:
    """Chunks that a name means, with their documents: the rows of ``lexical`` and of ``lexical_context``."""

    chunks: tuple[int, ...]
    documents: tuple[int, ...]

    def only(self, chunks: set[int]) -> Meant:
        """Those of the chunks alone."""
        pairs = [pair for pair in zip(self.chunks, self.documents, strict=True) if pair[0] in chunks]
        return Meant(tuple(chunk for chunk, _ in pairs), tuple(document for _, document in pairs))


def meant(connection: apsw.Connection, named: str) -> Meant:
    """The chunks of a reference (``note:…``, ``message:…``, ``record:…``), a citation or a path; none for a stranger.

    A range of lines takes the chunks that share a line with it.
    """
    kind, _, rest = named.partition(":")
    first, last = 1, 2**53
    if kind == "message":
        where, value = "d.kind = 'message' AND d.key = ?", rest
    elif kind == "record":
        where, value = "d.kind = 'record' AND d.details ->> 'record_id' = ?", rest
    else:
        where, value = "d.path = ?", rest if kind == "note" else named
        lines = LINE_RANGE.search(value)
        if lines:
            value = value[: lines.start()]
            first = int(lines[1])
            last = int(lines[2]) if lines[2] else first
    rows: list[Any] = connection.execute(
        "SELECT c.id, d.id FROM documents AS d JOIN chunks AS c ON c.document_id = d.id"
        f" WHERE {where} AND c.start_line <= ? AND c.end_line >= ? ORDER BY c.id",
        (value, last, first),
    ).fetchall()
    return Meant(tuple(chunk for chunk, _ in rows), tuple(document for _, document in rows))


def look_up(
    connection: apsw.Connection, named: str, filters: Filters, trace: Trace, places: dict[str, int], *, reveal: bool
) -> TargetReading:
    """Why ``named`` is in the answer or not. ``places`` are the references of the answer.

    What the viewer may not see is ``not_indexed``, as what is not there, unless ``reveal``.
    """
    there = meant(connection, named)
    seen = there.only(_admitted(connection, Filters(filters.viewer), there.chunks))
    if there.chunks and not seen.chunks and reveal:
        return _told(named, "filtered", len(there.chunks), filters=("audience",))
    if not seen.chunks:
        return _told(named, "not_indexed", 0)
    assert trace.query is not None and trace.candidates is not None, "checked by the caller"
    passages = len(seen.chunks)
    let_in = seen.only(_admitted(connection, filters, seen.chunks))
    if not let_in.chunks:
        return _told(named, "filtered", passages, filters=_keeping_out(connection, filters, seen.chunks))
    if trace.query.is_empty:
        return _told(named, "empty_query", passages)
    terms = trace.candidates.terms
    row = _farthest(trace, let_in, places)
    if row is not None:
        return _scored(named, row, terms, trace, places, passages)
    held = [_holders(connection, resolved, let_in) for resolved in terms]
    found = tuple(resolved.term.text for resolved, holders in zip(terms, held, strict=True) if holders)
    missing = tuple(resolved.term.text for resolved, holders in zip(terms, held, strict=True) if not holders)
    demanded = [holders for resolved, holders in zip(terms, held, strict=True) if resolved.term.required]
    if not found:
        reason: Reason = "no_term"
    elif demanded and not set.intersection(*demanded):
        reason = "phrase_missing"
    else:
        reason = "weak_match" if trace.weak.intersection(let_in.chunks) else "not_chosen"
    near = _FAR if len(trace.candidates.routes) > 1 else ""
    return _told(named, reason, passages, chosen=trace.chosen, near=near, terms=found, missing=missing)


def _admitted(connection: apsw.Connection, filters: Filters, chunks: Sequence[int]) -> set[int]:
    """The chunks that a search with these filters may return at all."""
    clauses = [clause for clause in (filters.viewer.expression(), filters.expression()) if clause is not None]
    wanted = " AND ".join(f"({clause})" for clause in clauses)
    if wanted:
        return match.holding(connection, "lexical", wanted, chunks, since=filters.since, until=filters.until)
    return match.within(connection, chunks, since=filters.since, until=filters.until)


def _keeping_out(connection: apsw.Connection, filters: Filters, chunks: Sequence[int]) -> tuple[str, ...]:
    """Which restrictions keep all of the chunks out; where none does alone, those that keep out some of them."""
    alone = {
        "source": Filters(OPERATOR, sources=filters.sources),
        "layer": Filters(OPERATOR, layers=filters.layers),
        "kind": Filters(OPERATOR, kinds=filters.kinds),
        "session": Filters(OPERATOR, sessions=filters.sessions),
        "project": Filters(OPERATOR, projects=filters.projects),
        "since": Filters(OPERATOR, since=filters.since),
        "until": Filters(OPERATOR, until=filters.until),
    }
    passed = {name: _admitted(connection, one, chunks) for name, one in alone.items()}
    whole = tuple(name for name, left in passed.items() if not left)
    return whole or tuple(name for name, left in passed.items() if len(left) < len(chunks))


def _holders(connection: apsw.Connection, resolved: Resolved, let_in: Meant) -> set[int]:
    """The chunks that hold a term, or whose neighbours do."""
    if not resolved.count:
        return set()
    phrases = match.any_of(resolved.probes)
    own = match.holding(connection, "lexical", match.expression(TEXT_COLUMNS, phrases, [], []), let_in.chunks)
    window = match.expression(WINDOW_COLUMNS, phrases, [], [])
    around = match.holding(connection, "lexical_context", window, let_in.documents)
    pairs = zip(let_in.chunks, let_in.documents, strict=True)
    return own | {chunk for chunk, document in pairs if document in around}


def _farthest(trace: Trace, let_in: Meant, places: dict[str, int]) -> Candidate | None:
    """The chunk that came farthest: in the answer, among the read, among the scored."""
    assert trace.candidates is not None, "checked by the caller"
    among = set(let_in.chunks)
    read = [row for row in trace.candidates.rows if row.chunk_id in among]
    answered = [row for row in read if reference(row) in places]
    scored = [row for row in trace.scored if row.chunk_id in among]
    return next(iter([*answered, *read, *scored]), None)


def _scored(
    named: str, row: Candidate, terms: Sequence[Resolved], trace: Trace, places: dict[str, int], passages: int
) -> TargetReading:
    assert trace.candidates is not None, "checked by the caller"
    outcome = trace.outcomes.get(row.chunk_id)
    rows = [candidate.chunk_id for candidate in (trace.candidates.rows if outcome else trace.scored)]
    rank = rows.index(row.chunk_id) + 1
    if outcome is not None:
        reason: Reason = outcome.verdict
    else:
        unread = trace.candidates.coverage == "partial" and rank <= trace.wanted and not row.text
        reason = "not_read" if unread else "beyond_max_results"
    found = row.own.keys() | row.window.keys()
    return _told(
        named,
        reason,
        passages,
        citation=citation(row) if outcome else None,
        rank=rank,
        place=places.get(reference(row)) if outcome else None,
        score=round(row.score, 6),
        parts={name: round(value, 6) for name, value in row.parts.items()},
        terms=tuple(resolved.term.text for index, resolved in enumerate(terms) if index in found),
        missing=tuple(resolved.term.text for index, resolved in enumerate(terms) if index not in found),
        of=None if outcome is None or outcome.of is None else citation(outcome.of),
    )


def _told(named: str, reason: Reason, passages: int, *, chosen: int = 0, near: str = "", **more: Any) -> TargetReading:
    detail = SENTENCES[reason].format(
        place=more.get("place"),
        rank=more.get("rank"),
        of=more.get("of"),
        filters=", ".join(more.get("filters", ())),
        chosen=chosen,
        near=near,
    )
    return TargetReading(named, reason == "hit", reason, detail, passages, **more)
