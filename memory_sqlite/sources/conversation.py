"""Messages and records of the store as documents for a generation.

What may be searched is decided here: tool output, system prompts, empty texts and the host's own sessions are not;
superseded records are not. Who calls it: ``indexing``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import apsw

from memory_sqlite.model import Chunk, Document
from memory_sqlite.transcripts.sessions import Session, by_id

_MESSAGE_COLUMNS = "id, session_id, position, host_id, role, name, sender, text, at, origin, is_tool_output, turn_id"
_RECORD_COLUMNS = (
    "id, record_id, layer, kind, content, session_id, sender, run_id, origin, agent_wide, importance, triggers,"
    " projects, status, day, folder, ordinal, event_at"
)


def _hash(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def message_document(row: tuple[Any, ...], session: Session) -> Document | None:
    """The document of one message row (``_MESSAGE_COLUMNS``), or ``None`` when it is not searched."""
    row_id, session_id, position, host_id, role, name, sender, text, at, origin, is_tool, _ = row
    if is_tool or session.is_internal or origin == "system" or not text.strip():
        return None
    details = {"session": session.key, "token": session.token, "message_id": host_id or str(row_id)}
    if sender is not None:
        details["sender"] = sender
    return Document(
        kind="message",
        key=str(row_id),
        source="sessions",
        path=f"sessions/{session.token}",
        chunks=(Chunk(text=text, start_line=position, end_line=position),),
        hash=_hash(text, role, name or "", str(position)),
        at=at,
        layer="L0",
        session_id=session_id,
        owner_private=session.owner_private,
        origin=origin,
        role=role,
        speaker=name or sender or role,
        position=position,
        details=details,
    )


def record_path(folder: str, token: str, day: str) -> str:
    """The virtual path of a record, as the layered-memory product's citations name it."""
    return f"agent-profiles/{day}.jsonl" if folder == "agent-profiles" else f"sessions/{token}/{folder}/{day}.jsonl"


def record_document(row: tuple[Any, ...], session: Session) -> Document | None:
    """The document of one record row (``_RECORD_COLUMNS``), or ``None`` when it is not searched."""
    (row_id, record_id, layer, kind, content, session_id, sender, run_id, origin, agent_wide, importance, triggers) = (
        row[:12]
    )
    projects, status, day, folder, ordinal, event_at = row[12:]
    if status != "active" or session.is_internal or not content.strip():
        return None
    details = {"session": session.key, "token": session.token, "record_id": record_id}
    if sender is not None:
        details["sender"] = sender
    if run_id is not None:
        details["run_id"] = run_id
    return Document(
        kind="record",
        key=str(row_id),
        source="memory",
        path=record_path(folder, session.token, day),
        chunks=(
            Chunk(
                text=content,
                start_line=ordinal,
                end_line=ordinal,
                triggers=tuple(json.loads(triggers)),
                importance=importance,
                projects=tuple(json.loads(projects)),
            ),
        ),
        hash=_hash(content, layer, status, str(event_at)),
        at=event_at,
        layer=layer,
        session_id=session_id,
        owner_private=bool(agent_wide) or (layer != "L3" and session.owner_private),
        origin=origin,
        record_kind=kind,
        details=details,
    )


def message_row(connection: apsw.Connection, row_id: int) -> tuple[Any, ...] | None:
    """One message row in the order ``message_document`` takes."""
    return connection.execute(f"SELECT {_MESSAGE_COLUMNS} FROM messages WHERE id = ?", (row_id,)).fetchone()


def record_row(connection: apsw.Connection, row_id: int) -> tuple[Any, ...] | None:
    """One record row in the order ``record_document`` takes."""
    return connection.execute(f"SELECT {_RECORD_COLUMNS} FROM records WHERE id = ?", (row_id,)).fetchone()


def session_documents(connection: apsw.Connection, session: Session) -> Iterator[Document]:
    """Every searchable document of one session: its messages in order, then its records."""
    for row in connection.execute(
        f"SELECT {_MESSAGE_COLUMNS} FROM messages WHERE session_id = ? ORDER BY position", (session.id,)
    ):
        document = message_document(row, session)
        if document is not None:
            yield document
    for row in connection.execute(
        f"SELECT {_RECORD_COLUMNS} FROM records WHERE session_id = ? AND status = 'active' ORDER BY id", (session.id,)
    ):
        document = record_document(row, session)
        if document is not None:
            yield document


class SessionCache:
    """Session rows by id for one pass over the change log, so that a batch reads each once."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._known: dict[int, Session | None] = {}

    def get(self, session_id: int) -> Session | None:
        """The session, or ``None`` when it is gone."""
        if session_id not in self._known:
            self._known[session_id] = by_id(self._connection, session_id)
        return self._known[session_id]
