"""Entries that may be recalled unasked, as the legacy contract lists them: by trigger phrase, by project.

Only what the owner or the agent wrote and the owner's direct sessions may see; what a stranger said is never among
them. Read from the index, bounded. Not here: whether they fit the turn (the host's thresholds and budgets), the neutral
runtime's candidates. Called by ``manager``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

import apsw

from memory_sqlite import errors, limits
from memory_sqlite.agent import remembered
from memory_sqlite.model import OriginClass
from memory_sqlite.runtime.agents import AgentRooms
from memory_sqlite.runtime.manager_results import prompt_safe
from memory_sqlite.runtime.manager_shapes import MemorySearchResult, ResultProvenance
from memory_sqlite.runtime.outside import OutsideNotes
from memory_sqlite.text.project_keys import project_key
from memory_sqlite.text.units import cut_utf16

_ROWS: Final = """
SELECT d.kind, d.path, c.start_line, c.end_line, c.text, c.triggers, c.importance, c.projects, d.origin, d.at,
  json_extract(d.details, '$.record_id')
FROM chunks AS c JOIN documents AS d ON d.id = c.document_id
WHERE d.source = 'memory' AND d.owner_private AND d.origin IN ('owner', 'agent') AND {which}
ORDER BY coalesce(c.importance, 0) DESC, d.path, c.start_line
"""


def triggers(rooms: AgentRooms, limit: int | None, active: Sequence[str]) -> list[MemorySearchResult]:
    """Entries with trigger phrases, the most important first; where projects are active, none of other projects.

    Raises ``InvalidArgument``, ``IndexUnavailable``.
    """
    return _listed(rooms, "c.triggers <> '[]'", limit, active if active else None)


def projects(rooms: AgentRooms, limit: int | None, active: Sequence[str]) -> list[MemorySearchResult]:
    """Entries all of whose projects are active. Raises ``InvalidArgument``, ``IndexUnavailable``."""
    return _listed(rooms, "c.projects <> '[]'", limit, active)


def _listed(rooms: AgentRooms, which: str, limit: int | None, active: Sequence[str] | None) -> list[MemorySearchResult]:
    most = limits.CANDIDATES_DEFAULT if limit is None else limit
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise errors.InvalidArgument("limit must be an integer of at least 1")
    if active is not None and not all(isinstance(project, str) for project in active):
        raise errors.InvalidArgument("active_project_keys must be a list of strings")
    wanted = None if active is None else {project_key(project) for project in active}
    with rooms.opened.keeper.reader() as index:
        fitting = (row for row in _rows(index, which) if wanted is None or wanted.issuperset(_keys(row)))
        rows = list(islice(fitting, min(most, limits.CANDIDATES_MAX)))
    named = {f"record:{row[10]}" for row in rows if row[0] == "record"}
    kept = remembered.still_named(rooms.opened, named)
    names = OutsideNotes(rooms.opened)
    return [_result(row, names) for row in rows if row[0] != "record" or f"record:{row[10]}" in kept]


def _rows(index: apsw.Connection, which: str) -> Iterator[tuple[Any, ...]]:
    return iter(index.execute(_ROWS.format(which=which)))


def _keys(row: tuple[Any, ...]) -> set[str]:
    return {project_key(project) for project in json.loads(row[7])}


def _result(row: tuple[Any, ...], names: OutsideNotes) -> MemorySearchResult:
    _, path, first, last, text, phrases, importance, keys, origin, at, _ = row
    shown = names.hide(path)
    known: OriginClass = origin
    return MemorySearchResult(
        shown,
        first,
        last,
        1.0,
        prompt_safe(cut_utf16(text, limits.EXCERPT_MAX_CHARS)),
        "memory",
        importance=importance,
        triggers="\n".join(json.loads(phrases)) or None,
        project_key=";".join(json.loads(keys)) or None,
        origin_class=known,
        citation=f"{shown}#L{first}" if first == last else f"{shown}#L{first}-L{last}",
        provenance=ResultProvenance(known, "unknown", at),
    )
