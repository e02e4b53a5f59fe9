"""The windows of messages: each message with its two neighbours on each side, as a row of its own.

Lives here: which windows a change touches and what they are made of. Not here: the messages themselves (``rows``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import apsw

from memory_sqlite.generations.layout import filter_tokens
from memory_sqlite.limits import CONTEXT_MESSAGES
from memory_sqlite.processes.prepare import joined

_INSERT_CONTEXT: Final = (
    "INSERT INTO lexical_context (rowid, body, before, after, far, filter) VALUES (?, ?, ?, ?, ?, ?)"
)


def refresh_contexts(
    connection: apsw.Connection,
    session_id: int,
    positions: Iterable[int],
    words: Mapping[int, str] = MappingProxyType({}),
) -> None:
    """Rewrite the context rows of these positions of a session and of their neighbours on each side.

    Call it after messages were put or deleted. ``words`` are the messages whose tokens the caller has made already
    (``prepare.whole``), by position; those of the others are made from the texts in the index. Neighbours are the
    nearest messages that are indexed: tool output between two of them does not part them.
    """
    changed = sorted(set(positions))
    if not changed:
        return
    owners: list[Any] = connection.execute(
        """SELECT id, position, source, layer, owner_private FROM documents
        WHERE session_id = ? AND position BETWEEN ? AND ? AND kind = 'message' ORDER BY position""",
        (session_id, *_reach(connection, session_id, changed[0], changed[-1])),
    ).fetchall()
    touched = sorted(_touched([owner[1] for owner in owners], changed))
    said = _words(connection, owners, touched, words)
    steps = range(2, CONTEXT_MESSAGES + 1)
    rows = []
    for place in touched:
        document_id, _, source, layer, private = owners[place]
        far = [other for step in steps for other in (place - step, place + step)]
        properties = filter_tokens(
            kind="message", source=source, layer=layer, session_id=session_id, owner_private=bool(private)
        )
        parts = (_joined(said, places) for places in ([place], [place - 1], [place + 1], far))
        rows.append((document_id, *parts, properties))
    connection.executemany("DELETE FROM lexical_context WHERE rowid = ?", [(row[0],) for row in rows])
    connection.executemany(_INSERT_CONTEXT, rows)


def _words(
    connection: apsw.Connection,
    owners: Sequence[Any],
    touched: Iterable[int],
    known: Mapping[int, str],
) -> dict[int, str]:
    """Joined tokens of every message in a window of what is touched, by its place in ``owners``."""
    reach = range(-CONTEXT_MESSAGES, CONTEXT_MESSAGES + 1)
    needed = {place + step for place in touched for step in reach}
    said = {}
    for place in needed & set(range(len(owners))):
        document_id, position = owners[place][:2]
        words = known.get(position)
        if words is None:
            texts: list[Any] = connection.execute(
                "SELECT text FROM chunks WHERE document_id = ? ORDER BY ordinal", (document_id,)
            ).fetchall()
            words = " ".join([joined(text)[0] for (text,) in texts])
        said[place] = words
    return said


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


def _joined(said: Mapping[int, str], places: Iterable[int]) -> str:
    return " ".join([said[place] for place in places if place in said])
