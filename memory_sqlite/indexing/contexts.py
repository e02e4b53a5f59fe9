"""The windows of messages: each message with its two neighbours on each side, as a row of its own.

Lives here: which windows a change touches and what they are made of. Not here: the messages themselves (``rows``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any, Final

import apsw

from memory_sqlite.generations.layout import filter_tokens
from memory_sqlite.indexing.lexical import joined_tokens
from memory_sqlite.limits import CONTEXT_MESSAGES

_INSERT_CONTEXT: Final = (
    "INSERT INTO lexical_context (rowid, body, before, after, far, filter) VALUES (?, ?, ?, ?, ?, ?)"
)


def refresh_contexts(connection: apsw.Connection, session_id: int, positions: Iterable[int]) -> None:
    """Rewrite the context rows of these positions of a session and of their neighbours on each side.

    Call it after messages were put or deleted; texts come from the index. Neighbours are the nearest messages that are
    indexed: tool output between two of them does not part them.
    """
    changed = sorted(set(positions))
    if not changed:
        return
    owners: list[tuple[int, int, str, str | None, int]] = []
    texts: list[str] = []
    rows: list[Any] = connection.execute(
        """SELECT d.id, d.position, d.source, d.layer, d.owner_private, c.text FROM documents AS d
        JOIN chunks AS c ON c.document_id = d.id
        WHERE d.session_id = ? AND d.position BETWEEN ? AND ? AND d.kind = 'message' ORDER BY d.position, c.ordinal""",
        (session_id, *_reach(connection, session_id, changed[0], changed[-1])),
    ).fetchall()
    for document_id, position, source, layer, private, text in rows:
        if owners and owners[-1][0] == document_id:
            texts[-1] += "\n" + text
        else:
            owners.append((document_id, position, source, layer, private))
            texts.append(text)
    known = [owner[1] for owner in owners]
    for place in sorted(_touched(known, changed)):
        document_id, _, source, layer, private = owners[place]
        connection.execute("DELETE FROM lexical_context WHERE rowid = ?", (document_id,))
        steps = range(2, CONTEXT_MESSAGES + 1)
        far = [other for step in steps for other in (place - step, place + step)]
        connection.execute(
            _INSERT_CONTEXT,
            (
                document_id,
                *(_joined(texts, places) for places in ([place], [place - 1], [place + 1], far)),
                filter_tokens(
                    kind="message", source=source, layer=layer, session_id=session_id, owner_private=bool(private)
                ),
            ),
        )


def _reach(connection: apsw.Connection, session_id: int, first: int, last: int) -> tuple[int, int]:
    """Positions between which all texts lie that the windows around ``first`` to ``last`` are made of."""
    reach = 2 * CONTEXT_MESSAGES
    before: list[Any] = connection.execute(
        "SELECT position FROM documents WHERE session_id = ? AND position < ? ORDER BY position DESC LIMIT ?",
        (session_id, first, reach),
    ).fetchall()
    after: list[Any] = connection.execute(
        "SELECT position FROM documents WHERE session_id = ? AND position > ? ORDER BY position LIMIT ?",
        (session_id, last, reach),
    ).fetchall()
    return (before[-1][0] if before else first), (after[-1][0] if after else last)


def _touched(known: list[int], changed: Iterable[int]) -> set[int]:
    """Indexes into ``known`` of what lies within a window of a changed position, which may itself be gone."""
    touched: set[int] = set()
    for position in changed:
        place = bisect_left(known, position)
        present = place < len(known) and known[place] == position
        touched.update(range(place - CONTEXT_MESSAGES, place + CONTEXT_MESSAGES + present))
    return {place for place in touched if 0 <= place < len(known)}


def _joined(texts: list[str], places: Iterable[int]) -> str:
    return " ".join(joined_tokens(texts[place])[0] for place in places if 0 <= place < len(texts))
