"""Reading what is known about candidates: first what scoring asks, for all; then what a hit shows, for those kept.

Lives here: two statements. Not here: texts (``texts``). Called by ``retrieve``.
"""

from __future__ import annotations

import json
from typing import Any, cast

import apsw

from memory_sqlite.search.candidates import Candidate


def weighables(connection: apsw.Connection, candidates: list[Candidate]) -> None:
    """What scoring asks about rows, for all of them; the rest is read for the few that are kept."""
    by_chunk = {candidate.chunk_id: candidate for candidate in candidates}
    for (
        chunk,
        document,
        kind,
        at,
        speaker,
        flags,
        starts,
        importance,
        projects,
        tokens,
        line,
        layer,
        origin,
    ) in connection.execute(
        """SELECT c.id, c.document_id, d.kind, d.at, d.speaker, c.flags, c.line_starts, c.importance, c.projects,
            c.tokens, c.start_line, d.layer, d.origin
        FROM chunks AS c JOIN documents AS d ON d.id = c.document_id
        WHERE c.id IN (SELECT value FROM json_each(?))""",
        (json.dumps(list(by_chunk)),),
    ):
        candidate = by_chunk[chunk]
        candidate.document_id, candidate.kind, candidate.at, candidate.speaker = document, kind, at, speaker
        candidate.flags, candidate.line_starts, candidate.importance = flags, starts, importance
        candidate.start_line, candidate.layer, candidate.origin = line, layer, origin
        if projects != "[]":
            candidate.projects = tuple(json.loads(projects))
        candidate.length = candidate.length or tokens


def describe(connection: apsw.Connection, candidates: list[Candidate]) -> None:
    """Everything else that a hit shows."""
    by_chunk = {candidate.chunk_id: candidate for candidate in candidates}
    for row in connection.execute(
        """SELECT c.id, c.end_line, c.heading, c.triggers, c.supersedes, c.text_hash, d.key, d.source, d.path, d.title,
            d.session_id, d.origin, d.record_kind, d.position, d.details
        FROM chunks AS c JOIN documents AS d ON d.id = c.document_id
        WHERE c.id IN (SELECT value FROM json_each(?))""",
        (json.dumps(list(by_chunk)),),
    ):
        candidate = by_chunk[cast(int, row[0])]
        (candidate.end_line, candidate.heading, triggers, candidate.supersedes, candidate.text_hash) = cast(
            Any, row[1:6]
        )
        (candidate.key, candidate.source, candidate.path, candidate.title, candidate.session_id) = cast(Any, row[6:11])
        (candidate.origin, candidate.record_kind, candidate.position, details) = cast(Any, row[11:])
        candidate.triggers = tuple(json.loads(triggers)) if triggers != "[]" else ()
        candidate.details = json.loads(details)
