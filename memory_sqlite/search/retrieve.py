"""Retrieval: from an understood query to scored candidates of one generation.

Lives here: the order of asking (counts, expansion, choosing, contexts, hydration) and its bounds. Not here: FTS syntax
(``match``), the formula (``rank``), what an answer may hold twice (``assemble``). Reads only; runs on any read-only
connection, later inside a retrieval worker. ``connection.interrupt()`` from another thread ends it with ``Cancelled``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import apsw

from memory_sqlite import limits
from memory_sqlite.errors import Cancelled
from memory_sqlite.limits import QUERY_MAX_TERMS
from memory_sqlite.search import match, rank
from memory_sqlite.search.candidates import Candidate, Candidates, Meaning, Places, Reading, Resolved
from memory_sqlite.search.filters import Filters
from memory_sqlite.search.hydrate import describe, weighables
from memory_sqlite.search.query import Query, Term
from memory_sqlite.search.texts import count_in_texts, read_texts
from memory_sqlite.search.unfinished import longer_words
from memory_sqlite.search.vocabulary import TEXT_COLUMNS, WINDOW_COLUMNS, Vocabulary

if TYPE_CHECKING:
    from memory_sqlite.search.fusion import Residents
    from memory_sqlite.search.trace import Trace
    from memory_sqlite.search.vectors.query_vector import QueryVector

Leg = Callable[..., Meaning]
"""``fusion.look`` with all that it knows before the words have found something."""

BEST_ROWS: Final = 128
"""Rows taken from each lexical table before exact scoring (LoCoMo R@10: .808 with 200, .806 with 100)."""
COUNTED_ROWS: Final = 48
"""Of these the common terms are counted on the text, where they were left out of choosing."""
GUESS_SHARE: Final = 0.999
"""Guesses that would be above the best that words found stand between this share of it and it, in their order."""
LARGE_INDEX_ROWS: Final = 20_000
"""Above it, common terms do not choose candidates while a rarer term is left (375 -> 0.8 ms at 1,000,000 rows)."""
TRUST_COMPLETION: Final = 0.8
TRUST_NEAR: Final = (1.0, 0.7, 0.5)
_NEAR: Final[tuple[Reading, ...]] = ("exact", "one edit", "two edits")
"""By number of edits."""

_WEAK: Final = frozenset({"character", "part"})


def retrieve(
    connection: apsw.Connection,
    query: Query,
    filters: Filters,
    *,
    now_ms: int,
    limit: int,
    max_bytes: int,
    cancelled: Callable[[], bool] | None = None,
    trace: Trace | None = None,
    vector: QueryVector | None = None,
    residents: Residents | None = None,
) -> Candidates:
    """The best ``limit`` candidates with their texts, best first; how they were found is written into ``trace``.

    With ``vector`` what is near in meaning is found too; ``residents`` gives what a warm process keeps in memory.
    ``max_bytes`` bounds the text read; over it ``coverage`` is ``partial``. Raises ``Cancelled`` when ``cancelled()``
    says so or the connection is interrupted.
    """
    if query.is_empty:
        return Candidates((), [], warnings=query.warnings)
    leg: Leg | None = None
    if vector is not None:
        from memory_sqlite.search import fusion  # words alone need none of it

        leg = partial(fusion.look, connection, query.text, vector, filters, residents=residents)
    bounds = (filters, now_ms, limit, max_bytes, cancelled or _never, trace, leg)
    try:
        found = _retrieve(connection, query, *bounds)
        if not found.rows and any(term.required for term in query.terms):
            from memory_sqlite.search.relaxing import relaxed  # rarely needed

            for gentler in relaxed(connection, query, filters):
                again = _retrieve(connection, gentler, *bounds)
                if again.rows:
                    if trace is not None:
                        trace.query = gentler
                    return again
        return found
    except apsw.InterruptError as error:
        raise Cancelled("the search was interrupted") from error


def _never() -> bool:
    return False


def _retrieve(
    connection: apsw.Connection,
    query: Query,
    filters: Filters,
    now_ms: int,
    limit: int,
    max_bytes: int,
    cancelled: Callable[[], bool],
    trace: Trace | None,
    leg: Leg | None,
) -> Candidates:
    averages, rows = _statistics(connection)
    vocabulary = Vocabulary(connection, filters.viewer.expression())
    terms = _resolve(vocabulary, query, rows)
    _check(cancelled)
    demanded = [term for term in terms if term.term.required]
    spoken = any(term.chosen and term.count for term in terms)
    if (not spoken and leg is None) or not all(term.count for term in demanded):
        return Candidates(
            terms, [], withheld=_withheld(connection, vocabulary, terms, filters), warnings=query.warnings
        )
    candidates: list[Candidate] = []
    if spoken:
        candidates, averages["context"] = _collect(connection, terms, filters, max(BEST_ROWS, limit), cancelled, trace)
    meaning = Meaning()
    if leg is not None:
        by_chunk = {candidate.chunk_id: candidate for candidate in candidates}
        # a text without the words that were demanded is no answer, however near
        meaning = leg(by_chunk, may_add=not demanded, cancelled=cancelled)
        candidates = list(by_chunk.values())
    if any(candidate.window for candidate in candidates):
        _weigh_windows(connection, vocabulary, terms)
    _check(cancelled)
    weighables(connection, candidates)
    kept = _strong(candidates, terms)
    names = {name for c in kept if c.speaker and c.kind == "message" for name in c.speaker.casefold().split()}
    projects = frozenset(filters.boost_projects)
    scorer = rank.Scorer(query, terms, averages, now_ms, projects, frozenset(names), meaning)
    _score(scorer, kept)
    if trace is not None:
        trace.scored = list(kept)
        trace.weak = frozenset(c.chunk_id for c in candidates).difference(c.chunk_id for c in kept)
    skipped = [index for index, term in enumerate(terms) if not term.chosen and term.count]
    wanted = max(limit, COUNTED_ROWS) if skipped else limit
    if trace is not None:
        trace.wanted = wanted
    coverage = read_texts(connection, kept, wanted, max_bytes)
    if meaning.partial:
        coverage = "partial"
    kept = [candidate for candidate in kept[:wanted] if candidate.text]
    if skipped:
        count_in_texts(kept, skipped, terms, vocabulary.stem)
        _score(scorer, kept)
        kept = kept[:limit]
    describe(connection, kept)
    _check(cancelled)
    return Candidates(
        terms,
        kept,
        coverage,
        _withheld(connection, vocabulary, terms, filters),
        (*query.warnings, meaning.warning) if meaning.warning is not None else query.warnings,
        ("lexical", meaning.route) if meaning.route is not None else ("lexical",),
    )


def _score(scorer: rank.Scorer, candidates: list[Candidate]) -> None:
    """Score and sort. What is only a guess of the vector leg never stands before the best that words found."""
    for candidate in candidates:
        scorer.score(candidate)
    best = max((candidate.score for candidate in candidates if not candidate.guessed), default=1.0)
    ceiling = best * GUESS_SHARE
    for candidate in candidates:
        if candidate.guessed and candidate.score > ceiling:
            held = ceiling + (best - ceiling) * candidate.score
            candidate.parts["guess"] = held / candidate.score
            candidate.score = held
    candidates.sort(key=_order)


def _order(candidate: Candidate) -> tuple[float, int, int]:
    return (-candidate.score, -(candidate.at or 0), candidate.chunk_id)


def _check(cancelled: Callable[[], bool]) -> None:
    if cancelled():
        raise Cancelled("the search was cancelled")


def _statistics(connection: apsw.Connection) -> tuple[dict[str, float], int]:
    averages: dict[str, float] = {}
    total = 0
    for name, rows, tokens in connection.execute("SELECT name, row_count, tokens FROM statistics"):
        averages[str(name)] = max(1.0, int(tokens) / max(1, int(rows)))
        total += int(rows)
    return averages, total


def _resolve(vocabulary: Vocabulary, query: Query, rows: int) -> tuple[Resolved, ...]:
    wanted = query.terms
    common: set[str] = set()
    if rows > LARGE_INDEX_ROWS:
        tokens = {token for term in wanted for probe in term.probes for token in probe}
        common = vocabulary.learn_common(sorted(tokens))
    resolved = [_resolve_one(vocabulary, term, rows) for term in wanted]
    more = None if query.unfinished is None else longer_words(vocabulary, query.unfinished, resolved, rows)
    if more is not None:
        resolved.append(more)
        if rows > LARGE_INDEX_ROWS:
            common |= vocabulary.learn_common([word for (word,) in more.probes])
    resolved.sort(key=lambda item: (not item.term.required, -item.idf * item.term.weight))
    del resolved[QUERY_MAX_TERMS:]
    if common and any(item.count and not _is_common(item, common) for item in resolved):
        for item in resolved:
            item.chosen = item.term.required or not _is_common(item, common)
    return tuple(resolved)


def _is_common(item: Resolved, common: set[str]) -> bool:
    return all(token in common for probe in item.probes for token in probe)


def _resolve_one(vocabulary: Vocabulary, term: Term, rows: int) -> Resolved:
    probes = term.probes
    counts = [min(vocabulary.count(token) for token in probe) for probe in probes]
    trust = 1.0
    reading: Reading = "exact"
    if term.kind == "prefix":
        reading = "completed"
        found = vocabulary.completions(probes[0][0])
        probes = tuple((stem,) for stem in found) or probes
        counts = [vocabulary.count(probe[0]) for probe in probes]
    elif term.kind in ("word", "identifier") and not any(counts):
        found = vocabulary.completions(probes[0][0]) if len(probes[0][0]) > 2 else []
        if found:
            trust, reading = TRUST_COMPLETION, "completed"
        else:
            near = vocabulary.near(probes[0][0])
            found = [stem for stem, _ in near]
            if near:
                trust, reading = TRUST_NEAR[near[0][1]], _NEAR[near[0][1]]
        if found:
            probes = tuple((stem,) for stem in found)
            counts = [vocabulary.count(probe[0]) for probe in probes]
    count = max(counts, default=0)
    return Resolved(term, probes, count, rank.idf(count, rows), trust, reading=reading)


def _collect(
    connection: apsw.Connection,
    terms: tuple[Resolved, ...],
    filters: Filters,
    best: int,
    cancelled: Callable[[], bool],
    trace: Trace | None,
) -> tuple[list[Candidate], float]:
    """The best ``best`` rows of both tables, merged by chunk, and the average length of a window."""
    phrases: list[tuple[str, ...]] = []
    owners: list[int] = []
    for index, term in enumerate(terms):
        if term.chosen and term.count:
            for probe in term.probes:
                phrases.append(probe)
                owners.append(index)
    required = [match.any_of(term.probes) for term in terms if term.term.required]
    clauses = [clause for clause in (filters.viewer.expression(), filters.expression()) if clause is not None]
    chosen = match.any_of(phrases)
    if trace is not None:
        own = filters.expression()
        trace.match = match.expression(TEXT_COLUMNS, chosen, required, [] if own is None else [own])
        trace.chosen = best
    by_chunk: dict[int, Candidate] = {}
    found, _ = match.best_rows(
        connection,
        "lexical",
        match.expression(TEXT_COLUMNS, chosen, required, clauses),
        len(phrases),
        best,
        since=filters.since,
        until=filters.until,
    )
    for row in found:
        by_chunk[row.rowid] = Candidate(
            0,
            row.rowid,
            own=_merge(row.places, owners),
            whole=frozenset(owners[phrase] for phrase in row.places if len(phrases[phrase]) == 1),
            length=row.length,
        )
    _check(cancelled)
    average = 1.0
    if filters.may_hold_messages():
        windows, average = match.best_rows(
            connection,
            "lexical_context",
            match.expression(WINDOW_COLUMNS, chosen, required, clauses),
            len(phrases),
            best,
            since=filters.since,
            until=filters.until,
        )
        _add_windows(connection, by_chunk, windows, owners)
    return list(by_chunk.values()), average


def _merge(places: dict[int, Places], owners: list[int]) -> dict[int, Places]:
    """Phrases back to terms; of several probes of a term the one found most often counts."""
    merged: dict[int, Places] = {}
    for phrase, found in places.items():
        index = owners[phrase]
        known = merged.get(index)
        if known is None or sum(map(len, known)) < sum(map(len, found)):
            merged[index] = found
    return merged


def _add_windows(
    connection: apsw.Connection, by_chunk: dict[int, Candidate], windows: list[match.Row], owners: list[int]
) -> None:
    if not windows:
        return
    chunks = {
        int(document): int(chunk)
        for document, chunk in connection.execute(
            "SELECT document_id, min(id) FROM chunks WHERE document_id IN (SELECT value FROM json_each(?)) "
            "GROUP BY document_id",
            (json.dumps([row.rowid for row in windows]),),
        )
    }
    for row in windows:
        chunk = chunks.get(row.rowid)
        if chunk is None:
            continue
        candidate = by_chunk.setdefault(chunk, Candidate(row.rowid, chunk))
        candidate.window = _merge(row.places, owners)
        candidate.window_length = row.length


def _weigh_windows(connection: apsw.Connection, vocabulary: Vocabulary, terms: tuple[Resolved, ...]) -> None:
    """A word is less rare among windows of five messages than among messages."""
    row = connection.execute("SELECT row_count FROM statistics WHERE name = 'message'").fetchone()
    windows = int(row[0]) if row is not None else 0
    for term in terms:
        if term.chosen and term.count:
            count = max(min(vocabulary.window_count(token) for token in probe) for probe in term.probes)
            term.window_idf = rank.idf(count, windows)
        else:
            term.window_idf = term.idf


def _strong(candidates: list[Candidate], terms: tuple[Resolved, ...]) -> list[Candidate]:
    """Without rows that hold nothing but single characters or pieces of identifiers, when more was to be had."""
    strong = {index for index, term in enumerate(terms) if term.term.kind not in _WEAK}
    worded = [c for c in candidates if c.own or c.window]
    kept = [c for c in worded if not strong.isdisjoint(c.own) or not strong.isdisjoint(c.window)]
    return (kept or worded) + [c for c in candidates if not (c.own or c.window)]


def _withheld(
    connection: apsw.Connection, vocabulary: Vocabulary, terms: tuple[Resolved, ...], filters: Filters
) -> int:
    viewer = filters.viewer.expression()
    if viewer is None:
        return 0
    phrases = [
        probe for term in terms if term.chosen and term.count and term.term.kind not in _WEAK for probe in term.probes
    ]
    # words that stand only where this viewer may not look
    phrases += [
        probe
        for term in terms
        if (not term.count or term.trust < 1.0) and term.term.kind not in _WEAK
        for probe in term.term.probes
        if min(vocabulary.count_anywhere(token) for token in probe)
    ]
    if not phrases:
        return 0
    # only what would have been an answer: demanded phrases, the caller's filters and times count here too
    required = [match.any_of(term.term.probes) for term in terms if term.term.required]
    own = filters.expression()
    wanted = match.expression(TEXT_COLUMNS, match.any_of(phrases), required, [own] if own is not None else [])
    return match.count_rows(
        connection,
        "lexical",
        f"({wanted}) NOT ({viewer})",
        limits.WITHHELD_MAX,
        since=filters.since,
        until=filters.until,
    )
