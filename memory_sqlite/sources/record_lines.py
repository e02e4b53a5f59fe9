"""L1 to L3 records as lines of the layered-memory product's day files: which files there are, what stands on a line.

The files are virtual: ``sessions/<token>/<folder>/<day>.jsonl`` and ``agent-profiles/<day>.jsonl``, line = ordinal.
Facts: sections 1, 2 and 4.3 of that product's reference. Not here: ranking (``search.layered_order``), who may read
(``transcripts.audience``). Called by the compatible order of search and by ``integrations.layered_memory``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

import apsw

from memory_sqlite.clock import iso
from memory_sqlite.model import Layer, OriginClass
from memory_sqlite.sources.conversation import record_path
from memory_sqlite.values import dataclass

Folder = Literal["memories", "scenarios", "profiles", "agent-profiles"]

FOLDERS: Final[tuple[Folder, ...]] = ("memories", "scenarios", "profiles", "agent-profiles")
"""In the order in which the product scans them."""
TYPES: Final = {"L1": "episodic", "L2": "scenario", "L3": "profile"}

_JSON: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_TIME_BYTES: Final = len("2026-07-15T08:30:00.120Z")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
# a scenario has no message of its own: its sender is whoever spoke in its turn
_COLUMNS: Final = (
    "r.id, r.record_id, r.layer, r.content, r.keywords, s.key, s.token, coalesce(r.sender, (SELECT m.sender FROM"
    " messages m WHERE m.turn_id = r.turn_id AND m.sender IS NOT NULL AND m.role = 'user' ORDER BY m.position LIMIT"
    " 1)),"
    " r.run_id, r.created_at, r.event_at, r.day, r.folder, r.ordinal, r.session_id, r.agent_wide, r.origin, r.status,"
    " r.importance, r.triggers, r.projects"
)


@dataclass(frozen=True, slots=True)
class RecordLine:
    """One record with its place. Times are milliseconds; ``run_id`` and ``sender`` are as the host gave them."""

    row_id: int
    record_id: str
    layer: Layer
    content: str
    keywords: tuple[str, ...]
    session: str
    token: str
    sender: str | None
    run_id: str | None
    created_at: int
    event_at: int
    day: str
    folder: Folder
    ordinal: int
    session_id: int
    agent_wide: bool
    origin: OriginClass
    status: str
    importance: int | None
    triggers: tuple[str, ...]
    projects: tuple[str, ...]

    @property
    def path(self) -> str:
        """The virtual file, relative to the agent's directory."""
        return record_path(self.folder, self.token, self.day)

    @property
    def citation(self) -> str:
        """``path#L<line>``."""
        return f"{self.path}#L{self.ordinal}"

    @property
    def label(self) -> str:
        """What the product writes before the content: ``[L1/episodic]``."""
        return f"[{self.layer}/{TYPES[self.layer]}]"


@dataclass(frozen=True, slots=True)
class Selection:
    """Records one reader may see: a condition over ``r`` (records) and ``s`` (sessions) with its bindings."""

    where: str = "1"
    bindings: tuple[Any, ...] = ()


def days(connection: apsw.Connection, folder: Folder, selection: Selection, limit: int) -> list[str]:
    """The day files of a folder that hold a record of the selection, the newest first."""
    rows = connection.execute(
        f"SELECT DISTINCT r.day FROM records r JOIN sessions s ON s.id = r.session_id WHERE {_in(folder)}"
        f" AND ({selection.where}) ORDER BY r.day DESC LIMIT ?",
        (*selection.bindings, limit),
    )
    return [str(day) for (day,) in rows]


def lines(
    connection: apsw.Connection, folder: Folder, day: str, selection: Selection, *, after: int = 0, limit: int = -1
) -> Iterator[RecordLine]:
    """Records of a day, the oldest line first, from the line behind ``after`` on; a negative limit means all."""
    order = "r.ordinal" if folder == "agent-profiles" else "r.session_id, r.ordinal"
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM records r JOIN sessions s ON s.id = r.session_id WHERE {_in(folder)} AND r.day = ?"
        f" AND r.ordinal > ? AND ({selection.where}) ORDER BY {order} LIMIT ?",
        (day, after, *selection.bindings, limit),
    )
    return map(_line, rows)


def _in(folder: Folder) -> str:
    """The folder as a condition that lets the partial indexes over places be used."""
    assert folder in FOLDERS
    return f"r.folder = '{folder}'" + ("" if folder == "agent-profiles" else " AND r.folder <> 'agent-profiles'")


def _line(row: Sequence[Any]) -> RecordLine:
    values = list(row)
    values[4] = tuple(json.loads(values[4]))
    values[15] = bool(values[15])
    values[19] = () if values[19] == "[]" else tuple(json.loads(values[19]))
    values[20] = () if values[20] == "[]" else tuple(json.loads(values[20]))
    return RecordLine(*values)


def encoded(line: RecordLine, agent: str) -> str:
    """The record as the product's own line, without the newline: compact JSON in its key order, nothing escaped but
    lone surrogates."""
    return _encode(line, agent, iso(line.created_at))


def encoded_size(line: RecordLine, agent: str) -> int:
    """UTF-8 bytes of ``encoded``; a time always takes as many, so it need not be written out."""
    text = _encode(line, agent, "")
    return _TIME_BYTES + (len(text) if text.isascii() else len(text.encode("utf-8")))


def _encode(line: RecordLine, agent: str, created_at: str) -> str:
    value: dict[str, Any] = {
        "id": line.record_id,
        "level": line.layer,
        "type": TYPES[line.layer],
        "content": line.content,
        "keywords": line.keywords,
        "agentId": agent,
        "sessionKey": line.session,
    }
    if line.sender:
        value["senderId"] = line.sender
    if line.run_id:
        value["runId"] = line.run_id
    value["createdAt"] = created_at
    text = _JSON.encode(value)
    return text if text.isascii() else _SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)
