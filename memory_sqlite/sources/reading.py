"""Reading back: a note by path, a window of a transcript, a record; by reference, citation or path.

``not_found`` is a result, denial is an error, and what may not be seen is denied whether or not it exists.
Who calls it: the door's ``get``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import apsw

from memory_sqlite import errors, limits
from memory_sqlite.clock import iso
from memory_sqlite.model import Passage
from memory_sqlite.sources import notes
from memory_sqlite.sources.conversation import record_path
from memory_sqlite.sources.notes import ExtraPath
from memory_sqlite.storage.fetch import all_rows
from memory_sqlite.text.units import cut_utf16, utf16_length
from memory_sqlite.transcripts import sessions
from memory_sqlite.transcripts.audience import Audience
from memory_sqlite.values import dataclass

LINE_RANGE = re.compile(r"#L(\d{1,9})(?:-L(\d{1,9}))?$")
TRANSCRIPT_PATH = re.compile(r"^sessions/([0-9a-f]{32})$")
RECORD_PATH = re.compile(
    r"^(?:sessions/(?P<token>[0-9a-f]{32})/(?P<folder>memories|scenarios|profiles)|agent-profiles)"
    r"/(?P<day>\d{4}-\d{2}-\d{2})\.jsonl$"
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where notes may be read from."""

    workspace: Path | None
    extra_paths: Sequence[ExtraPath]


def read(
    store: apsw.Connection,
    audience: Audience,
    place: Place,
    requested: str,
    from_line: int,
    lines: int,
    offset: int,
) -> Passage:
    """Read what ``requested`` names, from line ``from_line`` (1-based), at most ``lines`` lines.

    ``offset`` is how many code points of the first line were already given, for lines too long for one answer.

    ``requested`` is a hit's reference (``note:…``, ``message:…``, ``record:…``), its citation, or a path. A line range
    in it counts unless ``from_line`` or ``lines`` say otherwise. Raises ``AccessDenied``, ``PathNotAllowed``.
    """
    kind, _, rest = requested.partition(":")
    if kind == "message":
        return _read_message(store, audience, requested, rest)
    if kind == "record":
        return _read_record(store, audience, requested, rest)
    target = rest if kind == "note" else requested
    match = LINE_RANGE.search(target)
    cites_one = False
    if match:
        target = target[: match.start()]
        if from_line == 1:
            from_line = int(match[1]) or 1
            cites_one = match[2] is None
            lines = min(lines, max(1, int(match[2]) - from_line + 1)) if match[2] else 1
    transcript = TRANSCRIPT_PATH.match(target)
    if transcript:
        if cites_one and not offset:
            # a hit's citation gives back what the hit showed: the message among its neighbours
            first = max(1, from_line - limits.CONTEXT_MESSAGES)
            from_line, lines = first, from_line + limits.CONTEXT_MESSAGES - first + 1
        return _read_transcript(store, audience, requested, transcript[1], from_line, lines, offset)
    records = RECORD_PATH.match(target)
    if records:
        return _read_records(store, audience, requested, target, records, from_line, lines)
    return _read_note(audience, place, requested, target, from_line, lines, offset)


def _read_note(
    audience: Audience, place: Place, requested: str, path: str, from_line: int, lines: int, offset: int
) -> Passage:
    audience.require(session_id=None, owner_private=True, what="note")
    if place.workspace is None:
        return Passage("not_found", requested, path)
    found = notes.resolve_note(place.workspace, tuple(place.extra_paths), path)
    if found is None:
        return Passage("not_found", requested, path)
    read_back = notes.read_lines(found, from_line, lines, limits.GET_MAX_CHARS, offset)
    if read_back is None:
        return Passage("not_found", requested, path)
    text, count, truncated, next_from = read_back
    return Passage(
        "ok",
        requested,
        found.path,
        text,
        from_line,
        count,
        truncated,
        next_from,
        # a line that was cut is read on where it was cut
        offset + len(text) if next_from == from_line else 0,
        source="memory",
        provenance={"kind": "note", "origin": "owner"},
    )


def _read_message(store: apsw.Connection, audience: Audience, requested: str, key: str) -> Passage:
    """A message with its neighbours, as the hit's excerpt shows them."""
    row = None
    if key.isascii() and key.isdigit() and len(key) < 19:
        row = store.execute("SELECT session_id, position FROM messages WHERE id = ?", (int(key),)).fetchone()
    session = sessions.by_id(store, row[0]) if row else None
    if row is None or session is None:
        if not audience.operator:
            raise errors.AccessDenied("this session may not read that message")
        return Passage("not_found", requested, "")
    audience.require(session_id=session.id, owner_private=session.owner_private, what="message")
    first = max(1, row[1] - limits.CONTEXT_MESSAGES)
    last = row[1] + limits.CONTEXT_MESSAGES
    return _read_transcript(store, audience, requested, session.token, first, last - first + 1, 0)


def _read_transcript(
    store: apsw.Connection, audience: Audience, requested: str, token: str, from_line: int, lines: int, offset: int
) -> Passage:
    path = f"sessions/{token}"
    session = sessions.by_token(store, token)
    if session is None:
        if not audience.operator:
            raise errors.AccessDenied("this session may not read that transcript")
        return Passage("not_found", requested, path)
    audience.require(session_id=session.id, owner_private=session.owner_private, what="transcript")
    rows = all_rows(
        store,
        "SELECT position, role, name, text, at FROM messages WHERE session_id = ? AND position >= ?"
        " ORDER BY position LIMIT ?",
        (session.id, from_line, lines + 1),
    )
    shown = rows[:lines]
    spoken = [f"{name or role}: {text}" for _, role, name, text, _ in shown]
    if spoken and offset:
        spoken[0] = spoken[0][offset:]
    text, count, cut = _bounded_lines(spoken)
    more = len(rows) > count
    return Passage(
        "ok",
        requested,
        path,
        text,
        from_line,
        count,
        more or cut > 0,
        from_line if cut else rows[count][0] if more else None,
        offset + cut if cut else 0,
        source="sessions",
        layer="L0",
        provenance={
            "kind": "message",
            "session": session.key,
            "chat_type": session.chat_type,
        },
        time=iso(shown[0][4]) if shown else None,
    )


def _bounded_lines(lines: list[str]) -> tuple[str, int, int]:
    """As many whole lines as fit, and how many; a first line that does not fit alone is cut at a grapheme, and then
    the last number says after how many code points."""
    text: list[str] = []
    used = 0
    for line in lines:
        size = utf16_length(line) + 1
        if used + size > limits.GET_MAX_CHARS:
            if not text:
                part = cut_utf16(line, limits.GET_MAX_CHARS) or line[: limits.GET_MAX_CHARS // 2]
                return part, 1, len(part)
            break
        text.append(line)
        used += size
    return "".join(line + "\n" for line in text), len(text), 0


def _record_passage(store: apsw.Connection, requested: str, row: tuple[Any, ...]) -> Passage:
    record_id, layer, content, session_id, origin, status, folder, day, ordinal, event_at, superseded_by = row
    session = sessions.by_id(store, session_id)
    assert session is not None, "a record's session cascades to the record"
    provenance: dict[str, Any] = {
        "kind": "record",
        "origin": origin,
        "session": session.key,
        "record_id": record_id,
        "status": status,
    }
    if superseded_by is not None:
        provenance["superseded_by"] = store.execute("SELECT record_id FROM records WHERE id = ?", (superseded_by,)).get
    return Passage(
        "ok",
        requested,
        record_path(folder, session.token, day),
        content + "\n",
        ordinal,
        1,
        source="memory",
        layer=layer,
        provenance=provenance,
        time=iso(event_at),
    )


_RECORD = (
    "SELECT r.record_id, r.layer, r.content, r.session_id, r.origin, r.status, r.folder, r.day, r.ordinal, r.event_at,"
    " r.superseded_by, r.agent_wide, s.chat_type = 'direct' AND s.sender_is_owner = 1"
    " FROM records r JOIN sessions s ON s.id = r.session_id"
)


def _may_read_record(audience: Audience, row: tuple[Any, ...]) -> bool:
    owner_private = bool(row[11]) or (row[1] != "L3" and bool(row[12]))
    return audience.may_read(session_id=row[3], owner_private=owner_private)


def _read_record(store: apsw.Connection, audience: Audience, requested: str, record_id: str) -> Passage:
    row = store.execute(f"{_RECORD} WHERE r.record_id = ?", (record_id,)).fetchone()
    if row is None and audience.operator:
        return Passage("not_found", requested, "")
    if row is None or not _may_read_record(audience, row):
        raise errors.AccessDenied("this session may not read that record")
    return _record_passage(store, requested, row[:11])


def _read_records(
    store: apsw.Connection,
    audience: Audience,
    requested: str,
    path: str,
    match: re.Match[str],
    from_line: int,
    lines: int,
) -> Passage:
    """A day file of the layered-memory product: one record a line, lines numbered as when they were written."""
    if match["token"] is None:
        where, bindings = "r.folder = 'agent-profiles' AND r.day = ?", (match["day"],)
    else:
        where = "s.token = ? AND r.folder = ? AND r.day = ?"
        bindings = (match["token"], match["folder"], match["day"])  # type: ignore[assignment]
    rows = store.execute(
        f"{_RECORD} WHERE {where} AND r.ordinal >= ? ORDER BY r.ordinal",
        (*bindings, from_line),
    )
    # a day's file has records of many sessions: others' must not fill the window before one's own is reached
    readable = list(islice((row for row in rows if _may_read_record(audience, row)), lines + 1))
    if not readable and audience.operator:
        return Passage("not_found", requested, path)
    if not readable:
        raise errors.AccessDenied("this session may not read those records")
    shown = readable[:lines]
    # a record is at most max_record_bytes and its lines are its own: many are cut between, one never inside
    text, count, _ = _bounded_lines([row[2].replace("\n", " ") for row in shown])
    more = len(readable) > count
    return Passage(
        "ok",
        requested,
        path,
        text,
        from_line,
        count,
        more,
        readable[count][8] if more else None,
        source="memory",
        layer=shown[0][1],
        provenance={"kind": "record"},
        time=iso(shown[0][9]),
    )
