"""Quoted phrases that no text holds: which of them to stop demanding, and how that is said.

Lives here: the gentler questions that are asked after one has found nothing, in order. Not here: what a phrase is
(``query``) and asking (``retrieve``, which calls this only then). Reads only. A question that quotes a title asks for
more than the title; phrases alone in quotes are meant to the letter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import apsw

from memory_sqlite.search import match
from memory_sqlite.search.filters import Filters
from memory_sqlite.search.query import Query, Term
from memory_sqlite.search.vocabulary import TEXT_COLUMNS, WINDOW_COLUMNS


def relaxed(connection: apsw.Connection, query: Query, filters: Filters) -> Iterator[Query]:
    """The same without the phrases that nothing holds; then without any demand. Nothing where it demands nothing, or
    nothing but phrases. Phrases are named by their place in the query, never by their words."""
    demanded = [term for term in query.terms if term.required]
    quoted = {token for term in demanded for token in term.probes[0]}
    if not demanded or all(quoted.issuperset(term.probes[0]) for term in query.terms):
        return
    unmet = [term for term in demanded if not _is_held(connection, term, filters)]
    if unmet and len(unmet) < len(demanded):
        yield _without(query, unmet, _said(unmet))
    yield _without(query, demanded, _said(demanded, together=len(unmet) < len(demanded)))


def _is_held(connection: apsw.Connection, term: Term, filters: Filters) -> bool:
    """Whether a row that may be an answer, or the window of a message that may be, holds the phrase."""
    clauses = [clause for clause in (filters.viewer.expression(), filters.expression()) if clause is not None]
    tables = [("lexical", TEXT_COLUMNS)]
    if filters.may_hold_messages():
        tables.append(("lexical_context", WINDOW_COLUMNS))
    return any(
        match.count_rows(
            connection,
            table,
            match.expression(columns, match.any_of(term.probes), [], clauses),
            1,
            since=filters.since,
            until=filters.until,
        )
        for table, columns in tables
    )


def _without(query: Query, given_up: Sequence[Term], warning: str) -> Query:
    terms = tuple(replace(term, required=False) if term in given_up else term for term in query.terms)
    return replace(query, terms=terms, warnings=(*query.warnings, warning))


def _said(phrases: Sequence[Term], *, together: bool = False) -> str:
    numbers = [str(term.quote) for term in phrases]
    if together and len(phrases) > 1:
        return "nothing holds all quoted phrases together; their words were searched"
    if numbers == ["0"]:
        return "nothing holds the quoted phrase; its words were searched"
    if len(numbers) == 1:
        return f"nothing holds quoted phrase {numbers[0]}; its words were searched"
    return f"nothing holds quoted phrases {', '.join(numbers[:-1])} and {numbers[-1]}; their words were searched"
