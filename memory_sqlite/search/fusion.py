"""The leg of meaning: what the query's vector adds to what its words found.

Lives here: which space answers, how much it counts for this query, and each candidate's share of meaning. Not here:
the routes (``vectors``), the formula that mixes both (``rank``). Called by ``retrieve``. Words come first: a leg that
cannot answer says so in a sentence, and nothing else changes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import apsw

from memory_sqlite.generations.vector_rows import Space, find_space
from memory_sqlite.search.candidates import Candidate, Meaning
from memory_sqlite.search.filters import Filters
from memory_sqlite.search.folding import fold
from memory_sqlite.search.scripts import script_of
from memory_sqlite.search.tokens import groups
from memory_sqlite.search.vectors.allowed import allowed
from memory_sqlite.search.vectors.nearest import cosines, nearest
from memory_sqlite.search.vectors.query_vector import QueryVector
from memory_sqlite.search.vectors.resident import Resident

Residents = Callable[[Space], Resident | None]
"""What a warm process keeps of a space in memory, where it does."""

NEAREST: Final = 100
"""Rows taken from the vector leg (LoCoMo dev: R@10 is the same with 50, 100 and 200)."""

COMPANY_SHARE: Final = 0.65
"""Of the way from ``low`` to ``floor``: how near a text must be that stands beside others which words found (LoCoMo
dev, e5: R@10 .833 and session hit@5 .946 with it, .829 and .940 with the whole way)."""
SURE_WORDS: Final = 3
CHARACTERS_A_WORD: Final = 2
"""Words of a question from which its vector has its full weight; without spaces a word is about two characters."""
LENGTH_CHARS: Final = 200
"""As much of a question is looked at to tell whether it is that long."""
BEFORE_WEIGHTS: Final = (1.0, 0.4)
AFTER_WEIGHTS: Final = (0.6, 0.4)
"""What the neighbours of a message count among themselves, the nearest first: as in the windows of words (``rank``).
With them multilingual-e5-small finds .834 of LoCoMo dev's evidence in ten, without them .822."""

_SIDE: Final = """(SELECT group_concat(id) FROM (
    SELECT n.id FROM documents AS o JOIN chunks AS n ON n.document_id = o.id AND n.ordinal = 0
    WHERE o.session_id = d.session_id AND o.position {side} d.position AND o.kind = 'message'
    ORDER BY o.position {order} LIMIT 2))"""
_NEIGHBOURS: Final = f"""SELECT c.id, {_SIDE.format(side="<", order="DESC")}, {_SIDE.format(side=">", order="ASC")}
    FROM chunks AS c JOIN documents AS d ON d.id = c.document_id
    WHERE c.id IN (SELECT value FROM json_each(?)) AND d.kind = 'message' AND d.position IS NOT NULL"""
"""In one statement: two for each of two hundred candidates cost 6 ms of Python."""

STILL_FILLING: Final = "not every text has its vector yet; meaning was searched in part"
NO_SPACE: Final = "the index has no vectors of this embedding model yet; run `memory-sqlite index`"


def look(
    connection: apsw.Connection,
    text: str,
    vector: QueryVector,
    filters: Filters,
    by_chunk: dict[int, Candidate],
    *,
    may_add: bool,
    residents: Residents | None,
    cancelled: Callable[[], bool],
) -> Meaning:
    """Give every candidate its share of meaning and, with ``may_add``, add those that no word found.

    A query in a script that the model does not know is left to the words.
    """
    weight = getattr(vector, script_of(text)) * _assurance(text)
    if weight <= 0.0:
        return Meaning()
    space = find_space(connection, vector.identity)
    if space is None:
        return Meaning(warning=NO_SPACE, partial=True)
    resident = residents(space) if residents is not None else None
    found = nearest(connection, space, vector.data, allowed(filters), NEAREST, resident=resident, cancelled=cancelled)
    if found.unavailable is not None:
        return Meaning(warning=found.unavailable, partial=True)
    filling = space.state == "filling"
    warning = STILL_FILLING if filling else None
    if not found.rows:  # nothing to weigh against words: their scores stay what they are
        return Meaning(route=found.route, warning=warning, partial=filling)
    known = dict(found.rows)
    worded = tuple(by_chunk)
    if may_add:
        # alone, meaning must be sure; beside words it only fills the places that they leave
        enough = vector.low + (COMPANY_SHARE if by_chunk else 1.0) * (vector.floor - vector.low)
        for chunk, cosine in found.rows:
            if cosine >= enough:
                by_chunk.setdefault(chunk, Candidate(0, chunk, guessed=cosine < vector.floor))
    around = _around(connection, by_chunk)
    asked = {chunk for chunks in around.values() for chunk, _ in chunks}.union(by_chunk).difference(known)
    known.update(cosines(connection, space, vector.data, asked))
    shares = {chunk: _meaning(chunk, around.get(chunk, ()), known, vector) for chunk in by_chunk}
    usual = _usual(shares, worded)
    for chunk, candidate in by_chunk.items():
        share = shares[chunk]
        candidate.meaning = usual if share is None else share
    return Meaning(weight, vector.messages, found.route, warning, filling)


def _assurance(text: str) -> float:
    """How far the vector of a question is to be trusted by its length: a single word is matched better than guessed at
    (``path:errors`` on the peer's notes: multilingual-e5-small put three others before ``errors.md``)."""
    found = groups(fold(text[:LENGTH_CHARS]))
    words = sum(len(group.raw) / CHARACTERS_A_WORD if group.kind == "cjk" else 1.0 for group in found)
    return min(1.0, words / SURE_WORDS)


def _around(connection: apsw.Connection, chunks: Iterable[int]) -> dict[int, list[tuple[int, float]]]:
    """For each chunk that is a message: the chunks of its neighbours, each with what it counts."""
    rows: Any = connection.execute(_NEIGHBOURS, (json.dumps(list(chunks)),))
    return {
        chunk: [
            (int(neighbour), weight)
            for side, weights in ((before, BEFORE_WEIGHTS), (after, AFTER_WEIGHTS))
            for neighbour, weight in zip(side.split(",") if side else (), weights, strict=False)
        ]
        for chunk, before, after in rows
    }


def _meaning(
    chunk: int, around: Iterable[tuple[int, float]], known: Mapping[int, float], vector: QueryVector
) -> float | None:
    """A chunk's own share; of a message the mean of its own and of what stands around it. ``None``: no vector yet."""
    own = _share(known[chunk], vector) if chunk in known else None
    near = [(_share(known[neighbour], vector), weight) for neighbour, weight in around if neighbour in known]
    if not near:
        return own
    company = sum(share * weight for share, weight in near) / sum(weight for _, weight in near)
    return company if own is None else (own + company) / 2.0


def _usual(shares: Mapping[int, float | None], worded: Iterable[int]) -> float:
    """What a text without a vector counts as: the mean of those that words found, so that what is new is not behind for
    being new."""
    known = [share for chunk in worded if (share := shares[chunk]) is not None]
    return sum(known) / len(known) if known else 0.0


def _share(cosine: float, vector: QueryVector) -> float:
    return min(1.0, max(0.0, (cosine - vector.low) / (vector.high - vector.low)))
