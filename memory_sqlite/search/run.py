"""One search from text to hits: understand, retrieve, assemble, excerpt.

Lives here: the order of the rooms, and how a candidate becomes a ``model.Hit``. Not here: any decision about ranking.
Called by the memory door, ``recall`` and the quality harness.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import apsw

from memory_sqlite.clock import iso
from memory_sqlite.limits import CONTEXT_MESSAGES
from memory_sqlite.model import Coverage, Hit
from memory_sqlite.search.assemble import RankedHit, Sort, assemble
from memory_sqlite.search.candidates import Candidate, Candidates
from memory_sqlite.search.excerpt import Marker, conversation
from memory_sqlite.search.filters import Filters
from memory_sqlite.search.query import understand
from memory_sqlite.search.retrieve import retrieve
from memory_sqlite.search.vocabulary import Vocabulary
from memory_sqlite.values import dataclass

if TYPE_CHECKING:
    from memory_sqlite.search.fusion import Residents
    from memory_sqlite.search.trace import Trace
    from memory_sqlite.search.vectors.query_vector import QueryVector


@dataclass(frozen=True, slots=True)
class SearchInfo:
    """What a search has to say about itself."""

    coverage: Coverage = "complete"
    withheld: int = 0
    warnings: tuple[str, ...] = ()
    routes: tuple[str, ...] = ("lexical",)
    """By which ways candidates were looked for."""


def search(
    connection: apsw.Connection,
    text: str,
    filters: Filters,
    *,
    now_ms: int,
    max_results: int,
    min_score: float = 0.0,
    max_bytes: int,
    sort: Sort = "score",
    explain: bool = False,
    cancelled: Callable[[], bool] | None = None,
    trace: Trace | None = None,
    vector: QueryVector | None = None,
    residents: Residents | None = None,
    zone: str = "UTC",
) -> tuple[list[Hit], SearchInfo]:
    """Search one generation. Any text is a query; nothing to look for is an empty answer.

    What was done is written into ``trace``, where one is given.

    With ``vector`` what is near in meaning counts beside the words; ``residents`` gives what a warm process keeps in
    memory for that. ``now_ms`` gives meaning to relative dates and to recency, ``zone`` says where (``days``);
    ``max_bytes`` bounds the text read. Raises ``Cancelled``, and ``InvalidArgument`` for an unknown zone.
    """
    query = understand(text, now_ms=now_ms, zone=zone)
    if trace is not None:
        trace.query = query
    candidates = retrieve(
        connection,
        query,
        filters,
        now_ms=now_ms,
        limit=max_results * 3 + 20,
        max_bytes=max_bytes,
        cancelled=cancelled,
        trace=trace,
        vector=vector,
        residents=residents,
    )
    ranked = assemble(
        candidates,
        max_results=max_results,
        min_score=min_score,
        sort=sort,
        sessions_only=set(filters.sources) == {"sessions"},
        trace=trace,
    )
    if trace is not None:
        trace.candidates = candidates
    info = SearchInfo(candidates.coverage, candidates.withheld, candidates.warnings, candidates.routes)
    if not ranked:
        return [], info
    marker = _marker(connection, candidates)
    return [_hit(connection, hit, marker, explain) for hit in ranked], info


def _marker(connection: apsw.Connection, candidates: Candidates) -> Marker:
    vocabulary = Vocabulary(connection)
    worth: dict[str, float] = {}
    for resolved in candidates.terms:
        if resolved.term.kind in ("character", "part", "run") or not resolved.count:
            continue
        for probe in resolved.probes:
            for token in probe:
                stem = vocabulary.stem(token)
                worth[stem] = max(worth.get(stem, 0.0), resolved.idf * resolved.term.weight)
    if not worth:
        for resolved in candidates.terms:
            for probe in resolved.probes:
                worth.update((vocabulary.stem(token), resolved.idf) for token in probe)
    return Marker(worth, vocabulary.stem)


def _hit(connection: apsw.Connection, ranked: RankedHit, marker: Marker, explain: bool) -> Hit:
    found = ranked.candidate
    excerpt = _excerpt(connection, found, marker)
    return Hit(
        reference=reference(found),
        path=found.path,
        start_line=found.start_line,
        end_line=found.end_line,
        excerpt=excerpt,
        matches=marker.spans(excerpt),
        score=round(ranked.score, 6),
        source="sessions" if found.source == "sessions" else "memory",
        layer=found.layer,  # type: ignore[arg-type]
        citation=citation(found),
        provenance=_provenance(found),
        time=None if found.at is None else iso(found.at),
        heading=found.heading,
        title=found.title,
        session=_text(found.details, "session"),
        message_id=_text(found.details, "message_id"),
        speaker=found.speaker,
        importance=found.importance,
        triggers=found.triggers,
        projects=found.projects,
        duplicates=tuple(citation(duplicate) for duplicate in ranked.duplicates),
        explanation=dict(found.parts) if explain else None,
    )


def _excerpt(connection: apsw.Connection, found: Candidate, marker: Marker) -> str:
    if found.kind != "message" or found.position is None or found.session_id is None:
        return marker.passage(found.text)
    before = list(reversed(_neighbours(connection, found, "<", "DESC")))
    after = _neighbours(connection, found, ">", "ASC")
    return conversation(marker, (found.speaker or "", found.text), before, after)


def _neighbours(connection: apsw.Connection, found: Candidate, side: str, order: str) -> list[tuple[str, str]]:
    """``(name, text)`` of the nearest indexed messages on one side, the nearest first."""
    rows = connection.execute(
        f"""SELECT d.speaker, d.role, c.text FROM documents AS d
        JOIN chunks AS c ON c.document_id = d.id AND c.ordinal = 0
        WHERE d.session_id = ? AND d.position {side} ? AND d.kind = 'message'
        ORDER BY d.position {order} LIMIT {CONTEXT_MESSAGES}""",
        (found.session_id, found.position),
    )
    return [(str(speaker or role or "unknown"), str(text)) for speaker, role, text in rows]


def reference(found: Candidate) -> str:
    """The provider-scoped name of what was found."""
    if found.kind == "message":
        return f"message:{found.key}"
    if found.kind == "record":
        return f"record:{_text(found.details, 'record_id') or found.key}"
    return f"note:{found.path}#L{found.start_line}-L{found.end_line}"


def citation(found: Candidate) -> str:
    """``path#L3-L9``, or ``path#L3`` for one line."""
    if found.start_line == found.end_line:
        return f"{found.path}#L{found.start_line}"
    return f"{found.path}#L{found.start_line}-L{found.end_line}"


def _provenance(found: Candidate) -> Mapping[str, Any]:
    known: dict[str, Any] = {"origin": found.origin, "kind": found.kind}
    for name in ("session", "sender", "run_id"):
        if found.details.get(name) is not None:
            known[name] = found.details[name]
    return known


def _text(details: Mapping[str, Any], name: str) -> str | None:
    value = details.get(name)
    return None if value is None else str(value)
