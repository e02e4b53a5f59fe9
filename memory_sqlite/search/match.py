"""Running one MATCH: the expression, the best rows, and where in each of them every phrase was found.

Lives here: the only place where tokens become FTS syntax, and the auxiliary function that reads positions. Not here:
which terms are asked (``retrieve``). SQLite evaluates an FTS5 auxiliary function only for rows that enter the best
``limit`` (measured: 765 calls for 20,000 hits and a limit of 200, 1 ms), so exact positions cost next to nothing and
no text has to be tokenised again.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Sequence
from typing import Any, Final

import apsw

from memory_sqlite.search.candidates import Places
from memory_sqlite.values import dataclass

_FUNCTION: Final = "memory_sqlite_positions"


@dataclass(slots=True)
class Row:
    """One row of a lexical table: its rowid, its length in tokens, and the places of each phrase that was found.

    The length is that of the body in ``lexical``, and that of the whole window in ``lexical_context``.
    """

    rowid: int
    length: int
    places: dict[int, Places]


class _Collector:
    """Receives positions from the auxiliary function; one per connection, used by one search at a time."""

    def __init__(self) -> None:
        self.phrases = 0
        self.rows: dict[int, Row] = {}
        self.average = 1.0
        self.length_of = 0

    def __call__(self, api: Any, *_: object) -> None:
        if not self.rows:
            self.average = max(1.0, api.column_total_size(self.length_of) / max(1, api.row_count))
        places: dict[int, Places] = {}
        for phrase in range(self.phrases):
            found = api.phrase_locations(phrase)
            if any(found):
                places[phrase] = found
        rowid = int(api.rowid)
        self.rows[rowid] = Row(rowid, int(api.column_size(self.length_of)), places)


_collectors: weakref.WeakKeyDictionary[apsw.Connection, _Collector] = weakref.WeakKeyDictionary()


def _collector(connection: apsw.Connection) -> _Collector:
    collector = _collectors.get(connection)
    if collector is None:
        collector = _collectors[connection] = _Collector()
        connection.register_fts5_function(_FUNCTION, collector)
    return collector


def quoted(tokens: Sequence[str]) -> str:
    """Tokens as one FTS5 string: a phrase. Tokens hold no quote mark; doubling is the second line of defence."""
    return '"' + " ".join(tokens).replace('"', '""') + '"'


def any_of(phrases: Sequence[Sequence[str]]) -> str:
    """Rows that hold one of the phrases."""
    return " OR ".join(quoted(phrase) for phrase in phrases)


def expression(columns: str, chosen: str, required: Sequence[str], filters: Sequence[str]) -> str:
    """The whole MATCH expression: terms confined to ``columns``, demanded phrases, filters."""
    clauses = [f"{{{columns}}} : ({chosen})"]
    clauses.extend(f"{{{columns}}} : ({phrase})" for phrase in required)
    clauses.extend(f"({clause})" for clause in filters)
    return " AND ".join(clauses)


def best_rows(
    connection: apsw.Connection,
    table: str,
    match: str,
    phrases: int,
    limit: int,
    *,
    since: int | None = None,
    until: int | None = None,
) -> tuple[list[Row], float]:
    """The best ``limit`` rows by FTS5's bm25, best first, with the places of the first ``phrases`` phrases.

    Beside them the average length in tokens.

    ``table`` is ``lexical`` or ``lexical_context``. Times join the documents, so they are asked for only when given.
    """
    weights = _WEIGHTS[table]
    join, condition, times = _between(table, since, until)
    collector = _collector(connection)
    collector.phrases = phrases
    collector.length_of = 0 if table == "lexical" else -1
    collector.rows = {}
    # the score among the result columns is what lets SQLite put the function off until a row has entered the best
    statement = (
        f"SELECT {table}.rowid, bm25({table}, {weights}) AS score, {_FUNCTION}({table}) FROM {table}{join} "
        f"WHERE {table} MATCH ?{condition} ORDER BY bm25({table}, {weights}) LIMIT {int(limit)}"
    )
    order = [int(rowid) for rowid, _, _ in connection.execute(statement, (match, *times))]
    found = collector.rows
    collector.rows = {}
    return [found[rowid] for rowid in order], collector.average


def count_rows(
    connection: apsw.Connection,
    table: str,
    match: str,
    limit: int,
    *,
    since: int | None = None,
    until: int | None = None,
) -> int:
    """How many rows match, at most ``limit``; unranked, so it is cheap."""
    join, condition, times = _between(table, since, until)
    row = connection.execute(
        f"SELECT count(*) FROM (SELECT 1 FROM {table}{join} WHERE {table} MATCH ?{condition} LIMIT {int(limit)})",
        (match, *times),
    ).fetchone()
    return 0 if row is None else int(row[0])


def holding(
    connection: apsw.Connection,
    table: str,
    match: str,
    rowids: Sequence[int],
    *,
    since: int | None = None,
    until: int | None = None,
) -> set[int]:
    """Which of these rows match. For explanations: a search never asks about rows it has chosen already."""
    join, condition, times = _between(table, since, until)
    statement = (
        f"SELECT {table}.rowid FROM {table}{join} WHERE {table} MATCH ?"
        f" AND {table}.rowid IN (SELECT value FROM json_each(?)){condition}"
    )
    return {int(rowid) for (rowid,) in connection.execute(statement, (match, json.dumps(list(rowids)), *times))}


def within(
    connection: apsw.Connection, chunks: Sequence[int], *, since: int | None = None, until: int | None = None
) -> set[int]:
    """Which of these chunks are of a time."""
    join, condition, times = _between("lexical", since, until)
    statement = f"SELECT lexical.rowid FROM lexical{join} WHERE lexical.rowid IN (SELECT value FROM json_each(?))"
    return {int(rowid) for (rowid,) in connection.execute(statement + condition, (json.dumps(list(chunks)), *times))}


def _between(table: str, since: int | None, until: int | None) -> tuple[str, str, tuple[int, ...]]:
    """Join, condition and bindings that keep the rows of a time; nothing at all where no time is given."""
    if since is None and until is None:
        return "", "", ()
    times = (since if since is not None else -(2**62), until if until is not None else 2**62)
    return _JOINS[table], " AND d.at >= ? AND d.at < ?", times


_WEIGHTS: Final = {"lexical": "1.0, 0.35, 1.5, 1.5, 2.0, 0.0", "lexical_context": "1.0, 1.2, 0.6, 0.5, 0.0"}
_JOINS: Final = {
    "lexical": " JOIN chunks AS c ON c.id = lexical.rowid JOIN documents AS d ON d.id = c.document_id",
    "lexical_context": " JOIN documents AS d ON d.id = lexical_context.rowid",
}
