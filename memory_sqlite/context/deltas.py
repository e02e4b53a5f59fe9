"""Reading a stored transcript on from where somebody stopped: pages of visible messages, oldest first.

The Python form of ``readSessionTranscriptVisibleMessageDelta`` of the context-engine contract, over our transcripts.
They are flat: what a host's transcript shows on its active branch, in the order in which it reached us. Not here: the
cursor's spelling (``delta_cursors``), following a transcript (``following``). Called by the door and our engine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import apsw

from memory_sqlite import errors, limits, paths
from memory_sqlite.clock import iso
from memory_sqlite.context import delta_cursors
from memory_sqlite.context.delta_cursors import Place
from memory_sqlite.context.shapes import (
    DeltaEntry,
    DeltaMissing,
    DeltaPage,
    DeltaReset,
    DeltaResult,
    DeltaUnavailable,
    ResetReason,
    TurnAnchor,
)
from memory_sqlite.runtime.agents import AgentRooms
from memory_sqlite.storage.fetch import Row, one_row
from memory_sqlite.text.units import utf8_length
from memory_sqlite.transcripts import names, rewritten, sessions
from memory_sqlite.transcripts.sessions import Session

_COLUMNS = "id, position, host_id, role, text, raw, at, text_digest"


def own_store(rooms: AgentRooms) -> str:
    """What anchors in our transcripts name as their store."""
    return str(rooms.opened.store.directory / paths.STORE_FILE)


def generation_of(connection: apsw.Connection, session: Session) -> str:
    """Another one after anything but an append; of a session that was forgotten and began anew, too."""
    return f"{session.id}.{rewritten.number(connection, session.id)}"


def read_delta(
    rooms: AgentRooms,
    *,
    session_key: str,
    session_id: str,
    cursor: str | None = None,
    max_messages: int = limits.DELTA_MESSAGES[2],
    max_bytes: int = limits.DELTA_BYTES[2],
    store_path: str | None = None,
    fence: TurnAnchor | None = None,
) -> DeltaResult:
    """The messages after ``cursor`` (from the beginning without one), at most so many and so many bytes of JSON.

    ``missing`` also for a ``store_path`` that is not our store's: what lies elsewhere is not read here.
    With a ``fence`` reading ends before the admitted entry of a turn that is running. ``unavailable`` while what is
    being forgotten is still in the transcript, and while the store is busy. Raises ``InvalidArgument`` for limits out
    of range, ``FenceBroken`` when the cursor has passed the fence or the fence's entry is not where it was.
    """
    _check_limit("max_messages", max_messages, limits.DELTA_MESSAGES)
    _check_limit("max_bytes", max_bytes, limits.DELTA_BYTES)
    called = [sessions.check_key(name) for name in (session_key, session_id) if name.strip()]
    own_path = own_store(rooms)
    if not called:
        raise errors.InvalidArgument("session_key and session_id must not both be blank")
    if store_path is not None and store_path != own_path:
        return DeltaMissing()
    scope = delta_cursors.scope_of(rooms.settings.agent, session_key, session_id)
    try:
        with rooms.opened.store.readers.borrow() as connection, _snapshot(connection):
            session = names.meant(connection, called)
            if session is None:
                return DeltaMissing()
            if _is_being_forgotten(connection, session):
                return DeltaUnavailable()
            end = None if fence is None else _fenced(connection, session, fence, session_key, session_id, own_path)
            start = Place(scope, generation_of(connection, session))
            place = start if cursor is None else delta_cursors.read(cursor)
            reason = _reset_reason(connection, session, start, place)
            if place is None or reason is not None:
                return DeltaReset(delta_cursors.write(start), reason or "invalid_cursor")
            if end is not None and place.position >= end:
                raise errors.FenceBroken("the cursor has passed the entry that the running turn began with")
            return _page(connection, session, place, end, max_messages, max_bytes)
    except errors.StoreBusy:
        return DeltaUnavailable()


def _check_limit(name: str, value: object, bounds: tuple[int, int, int]) -> None:
    if type(value) is not int or not bounds[0] <= value <= bounds[1]:
        raise errors.InvalidArgument(f"{name} must be an integer between {bounds[0]} and {bounds[1]}")


@contextmanager
def _snapshot(connection: apsw.Connection) -> Iterator[None]:
    """Several statements over one state of the store."""
    connection.execute("BEGIN DEFERRED").fetchall()
    try:
        yield
    finally:
        connection.execute("ROLLBACK").fetchall()


def _is_being_forgotten(connection: apsw.Connection, session: Session) -> bool:
    """Whether something of the session is on the list of what goes and is not gone yet: nobody may read it."""
    sql = (
        "SELECT EXISTS (SELECT 1 FROM forgetting_targets WHERE kind = 'session' AND target = ?1) OR EXISTS"
        " (SELECT 1 FROM forgetting_targets f JOIN turns t ON t.id = f.target"
        " WHERE f.kind = 'turn' AND t.session_id = ?1)"
    )
    return bool(connection.execute(sql, (session.id,)).get)


def _reset_reason(
    connection: apsw.Connection, session: Session, start: Place, place: Place | None
) -> ResetReason | None:
    if place is None:
        return "invalid_cursor"
    if place.scope != start.scope:
        return "scope_mismatch"
    if place.generation != start.generation:
        return "generation_mismatch"
    if place.position == 0:
        return None
    sql = "SELECT position, text_digest FROM messages WHERE id = ? AND session_id = ?"
    anchor = one_row(connection, sql, (place.message_id, session.id))
    if anchor is None:
        return "anchor_missing"
    return None if (anchor[0], anchor[1].hex()) == (place.position, place.digest) else "anchor_moved"


def _fenced(
    connection: apsw.Connection, session: Session, fence: TurnAnchor, session_key: str, session_id: str, own: str
) -> int | None:
    """The position that reading ends before; ``None`` when the entry has not reached our transcript.

    A host's own transcript counts its entries its own way; an anchor in ours must be exactly where it says.
    """
    if fence.session_id != session_id or (session_key.strip() and fence.session_key != session_key):
        raise errors.FenceBroken("the read fence is of another session")
    found = one_row(
        connection,
        "SELECT m.position, m.role FROM messages m WHERE m.session_id = ?1 AND (m.host_id = ?2 OR m.id IN"
        " (SELECT message_id FROM message_entries WHERE session_id = ?1 AND entry_id = ?2)"
        " OR 'message:' || m.id = ?2) ORDER BY m.position DESC LIMIT 1",
        (session.id, fence.entry_id),
    )
    if fence.store_path == own:
        moved = found is None or found != (fence.raw_seq, "user")
        if moved or fence.generation != generation_of(connection, session):
            raise errors.FenceBroken("the entry that the running turn began with is gone, rewritten or moved")
    return None if found is None else int(found[0])


def _page(
    connection: apsw.Connection, session: Session, place: Place, end: int | None, max_messages: int, max_bytes: int
) -> DeltaPage:
    parent = _entry_before(connection, session, place.position)
    entries: list[DeltaEntry] = []
    size, required = 0, None
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM messages WHERE session_id = ? AND position > ? AND position < ? ORDER BY position",
        (session.id, place.position, end if end is not None else 2**63 - 1),
    )
    more = False
    for row in rows:
        if more := len(entries) == max_messages:
            break
        entry = _entry(row, parent)
        bytes_of_it = entry_bytes(entry)
        if more := size + bytes_of_it > max_bytes:
            required = bytes_of_it if not entries else None
            break
        entries.append(entry)
        size += bytes_of_it
        parent = entry.entry_id
        place = Place(place.scope, place.generation, int(row[1]), int(row[0]), row[7].hex())
    return DeltaPage(delta_cursors.write(place), tuple(entries), more, size, required)


def _entry_before(connection: apsw.Connection, session: Session, position: int) -> str | None:
    row = one_row(
        connection,
        "SELECT id, host_id FROM messages WHERE session_id = ? AND position <= ? ORDER BY position DESC LIMIT 1",
        (session.id, position),
    )
    return None if row is None else str(row[1] or f"message:{row[0]}")


def _entry(row: Row, parent: str | None) -> DeltaEntry:
    row_id, position, host_id, role, text, raw, at, _ = row
    record = json.loads(raw)
    message = _message_in(record)
    key = message.get("idempotencyKey", record.get("idempotencyKey")) if message is not None else None
    return DeltaEntry(
        entry_id=host_id or f"message:{row_id}",
        parent_id=parent,
        seq=position,
        message=message if message is not None else {"role": role, "content": text},
        role=role,
        created_at=iso(at),
        idempotency_key=key if isinstance(key, str) else None,
    )


def _message_in(record: Any) -> Mapping[str, Any] | None:
    """The host's message in its record, which may be a whole line of a transcript."""
    inner = record.get("message") if isinstance(record, dict) else None
    for one in (record, inner):
        if isinstance(one, dict) and isinstance(one.get("role"), str) and "content" in one:
            return one
    return None


def to_wire(entry: DeltaEntry) -> dict[str, Any]:
    """An entry as JSON has it; what is optional and unknown is left out."""
    said = {"createdAt": entry.created_at, "idempotencyKey": entry.idempotency_key}
    return {
        "entryId": entry.entry_id,
        "parentId": entry.parent_id,
        "seq": entry.seq,
        "message": entry.message,
        "role": entry.role,
        **{name: value for name, value in said.items() if value is not None},
    }


def entry_bytes(entry: DeltaEntry) -> int:
    """UTF-8 bytes of an entry's compact JSON: what ``max_bytes`` counts."""
    return utf8_length(json.dumps(to_wire(entry), ensure_ascii=False, separators=(",", ":")))
