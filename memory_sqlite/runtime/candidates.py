"""What may be recalled without being asked for: entries with trigger phrases, entries of projects.

From the current generation, in SQL, for one view. Only what the owner or the agent itself said is ``eligible``. Not
here: choosing among them for a turn (a host's). ``automatic_recall`` also says which hits of a search are eligible.
Called by ``handle``, in a thread.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import apsw

from memory_sqlite import limits
from memory_sqlite.agent import remembered
from memory_sqlite.generations.layout import project_token
from memory_sqlite.runtime.agents import AgentRooms
from memory_sqlite.runtime.shapes import AutomaticRecall, CandidateKind
from memory_sqlite.runtime.visibility import View
from memory_sqlite.text.units import cut_utf16

TRUSTED: Final = frozenset({"owner", "agent"})
_HELD: Final[dict[str, str]] = {"trigger": "c.triggers <> '[]'", "project": "c.projects <> '[]'"}


@dataclass(frozen=True)
class Entry:
    """One candidate, as it is filed."""

    reference: str
    path: str
    start_line: int
    end_line: int
    text: str
    source: str
    recall: AutomaticRecall


def automatic_recall(
    source: str, origin: object, projects: Sequence[str], triggers: Sequence[str], importance: int | None
) -> AutomaticRecall:
    """What may be done with something unasked. Nothing but memory of trusted origin is ever put before a prompt."""
    return AutomaticRecall(
        source == "memory" and origin in TRUSTED,
        tuple(projects) or None,
        "\n".join(triggers) or None,
        importance,
    )


def entries(
    rooms: AgentRooms, view: View, kind: CandidateKind, limit: int, active: Sequence[str]
) -> tuple[list[Entry], bool]:
    """At most ``limit`` entries, the most important first, then by their place; and whether there are more.

    With ``active`` projects, what belongs to projects and to none of these is left out.
    """
    wanted = {project_token(project) for project in active}
    with rooms.opened.keeper.reader() as index, rooms.opened.store.readers.borrow() as store:
        chosen: list[Entry] = []
        for entry, origin_session in _rows(index, view, kind):
            if (
                wanted
                and entry.recall.project_keys
                and wanted.isdisjoint(map(project_token, entry.recall.project_keys))
            ):
                continue
            if view.admits(store, rooms.settings.agent, entry.source, origin_session):
                chosen.append(entry)
            if len(chosen) > limit:
                break
    there = remembered.still_named(rooms.opened, [entry.reference for entry in chosen])
    return [entry for entry in chosen[:limit] if entry.reference in there], len(chosen) > limit


def _rows(index: apsw.Connection, view: View, kind: CandidateKind) -> Iterator[tuple[Entry, str | None]]:
    audience = view.audience
    rows: Iterator[Any] = index.execute(
        f"""SELECT d.kind, d.key, d.path, d.source, d.origin, d.details, c.start_line, c.end_line, c.text, c.triggers,
            c.projects, c.importance
        FROM documents AS d JOIN chunks AS c ON c.document_id = d.id
        WHERE d.kind IN ('note', 'record') AND {_HELD[kind]} AND (? OR (? AND d.owner_private = 1) OR d.session_id = ?)
        ORDER BY coalesce(c.importance, 0) DESC, d.kind, d.key, c.start_line""",
        (audience.operator, audience.owner_private, audience.session_id),
    )
    for what, key, path, source, origin, details, start, end, text, triggers, projects, importance in rows:
        about = json.loads(details)
        reference = f"note:{path}#L{start}-L{end}" if what == "note" else f"record:{about.get('record_id', key)}"
        recall = automatic_recall(source, origin, json.loads(projects), json.loads(triggers), importance)
        excerpt = cut_utf16(text, limits.EXCERPT_MAX_CHARS)
        yield Entry(reference, path, start, end, excerpt, source, recall), about.get("session")
