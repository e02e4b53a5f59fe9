"""The door's search under ``compatibility = "layered-memory"``: that product's score and order, our audience rule.

Records only, for that product searches nothing else; the answer says so where there is more. Called by ``answer``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, cast

import apsw

from memory_sqlite.agent.arguments import Asked
from memory_sqlite.agent.opened import Opened
from memory_sqlite.clock import iso
from memory_sqlite.config import Settings
from memory_sqlite.layers.keywords import keywords
from memory_sqlite.limits import EXCERPT_MAX_CHARS
from memory_sqlite.model import Hit, Page, Span
from memory_sqlite.search.layered_order import Found, Root, compatible_search
from memory_sqlite.sources.record_lines import FOLDERS, RecordLine, Selection
from memory_sqlite.text.units import cut_utf16
from memory_sqlite.transcripts.audience import Audience

RECORDS_ONLY: Final = "compatibility layered-memory searches records only, not notes and transcripts"

_OWNER_PRIVATE: Final = "(r.agent_wide = 1 OR (r.layer <> 'L3' AND s.chat_type = 'direct' AND s.sender_is_owner = 1))"


def visible(audience: Audience) -> Selection:
    """The one audience rule as a condition over records."""
    if audience.operator:
        return Selection()
    own = -1 if audience.session_id is None else audience.session_id
    if audience.owner_private:
        return Selection(f"r.session_id = ? OR {_OWNER_PRIVATE}", (own,))
    return Selection("r.session_id = ?", (own,))


def layered_answer(
    opened: Opened,
    store: apsw.Connection,
    asked: Asked,
    audience: Audience,
    settings: Settings,
    cancelled: Callable[[], bool] | None = None,
) -> Page:
    """Search the store's records, superseded ones included, as that product keeps every fact. Raises ``Cancelled``."""
    warnings = (RECORDS_ONLY,) if opened.workspace is not None or "memory" not in asked.sources else ()
    if "memory" not in asked.sources:
        return Page(asked.query, (), warnings=warnings)
    selection = visible(audience)
    answer = compatible_search(
        store,
        asked.query,
        [Root(folder, selection) for folder in FOLDERS],
        agent=opened.store.agent,
        max_results=asked.max_results,
        min_score=asked.min_score,
        max_bytes=settings.max_search_bytes,
        max_days=settings.retention_days,
        # that product knows no likeness between results
        sort="score" if asked.sort == "diverse" else cast(Literal["score", "newest", "oldest"], asked.sort),
        keep=lambda line: _wanted(asked, line),
        cancelled=cancelled,
    )
    words = keywords(asked.query)
    return Page(
        asked.query,
        tuple(_hit(found, words, asked.explain) for found in answer.found),
        coverage=answer.coverage,
        warnings=warnings,
    )


def _wanted(asked: Asked, line: RecordLine) -> bool:
    return (
        (asked.layers is None or line.layer in asked.layers)
        and (asked.projects is None or not set(asked.projects).isdisjoint(line.projects))
        and (asked.since is None or line.event_at >= asked.since)
        and (asked.until is None or line.event_at < asked.until)
    )


def _hit(found: Found, words: list[str], explain: bool) -> Hit:
    line = found.line
    excerpt = cut_utf16(line.content, EXCERPT_MAX_CHARS)
    provenance = {"origin": line.origin, "kind": "record", "session": line.session}
    if line.sender is not None:
        provenance["sender"] = line.sender
    if line.run_id is not None:
        provenance["run_id"] = line.run_id
    if line.status != "active":
        provenance["status"] = line.status
    return Hit(
        reference=f"record:{line.record_id}",
        path=line.path,
        start_line=line.ordinal,
        end_line=line.ordinal,
        excerpt=excerpt,
        matches=_spans(excerpt, words),
        score=round(found.score, 6),
        source="memory",
        layer=line.layer,
        citation=line.citation,
        provenance=provenance,
        time=iso(line.event_at),
        session=line.session,
        importance=line.importance,
        triggers=line.triggers,
        projects=line.projects,
        explanation={"layered": found.score} if explain else None,
    )


def _spans(excerpt: str, words: list[str]) -> tuple[Span, ...]:
    """Where the query's words stand in the excerpt, overlapping ones joined."""
    lowered = excerpt.lower()
    if len(lowered) != len(excerpt):
        return ()  # lower case of another length would shift every offset
    marked = bytearray(len(lowered))
    for word in words:
        at = lowered.find(word)
        while at >= 0:
            marked[at : at + len(word)] = b"\1" * len(word)
            at = lowered.find(word, at + 1)
    spans: list[Span] = []
    start = -1
    for index, mark in enumerate([*marked, 0]):
        if mark and start < 0:
            start = index
        elif not mark and start >= 0:
            spans.append(Span(start, index))
            start = -1
    return tuple(spans)
