"""What is stored and indexed, for people and monitors: plain dictionaries, JSON-ready, read only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import apsw

from memory_sqlite import errors, library, paths
from memory_sqlite.agent import reporting_fields, vector_status
from memory_sqlite.agent.opened import Opened
from memory_sqlite.clock import iso
from memory_sqlite.config import Settings
from memory_sqlite.generations import registry
from memory_sqlite.indexing import apply, identity, notes
from memory_sqlite.model import SourceProblem
from memory_sqlite.sources.places import NotePlace
from memory_sqlite.sources.safe_read import VANISHED, read_note
from memory_sqlite.storage import change_log
from memory_sqlite.transcripts import sessions as session_rows

_TRIED: Final = 50
"""Notes that are not indexed and that ``status`` tries to read, to say of which the index must do without."""


def sessions(opened: Opened, limit: int, offset: int) -> list[dict[str, Any]]:
    """One dictionary a session; times are ISO-8601 UTC."""
    with opened.store.readers.borrow() as store:
        rows = session_rows.listing(store, limit, offset)
    return [
        {
            "session": row.key,
            "token": row.token,
            "chat_type": row.chat_type,
            "kind": row.kind,
            "sender_is_owner": row.sender_is_owner,
            "owner_private": row.owner_private,
            "indexed": not row.is_internal,
            "project": row.project,
            "turns": row.turn_count,
            "messages": row.message_count,
            "started_at": iso(row.started_at),
            "active_at": iso(row.active_at),
        }
        for row in rows
    ]


def _count(connection: apsw.Connection, statement: str) -> int:
    value = connection.execute(statement).get
    assert isinstance(value, int)
    return value


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def status(opened: Opened, settings: Settings) -> dict[str, Any]:
    """Counts, places, sizes, and whether the index is as new as its sources."""
    with opened.store.readers.borrow() as store:
        return _status(opened, settings, store)


def _status(opened: Opened, settings: Settings, store: apsw.Connection) -> dict[str, Any]:
    current = registry.current(store)
    path = opened.store.directory / paths.STORE_FILE
    report: dict[str, Any] = {
        "agent": opened.store.agent,
        "status": "ok",
        "data_dir": str(settings.data_dir),
        "store": str(path),
        "workspace": str(opened.workspace) if opened.workspace else None,
        "compatibility": settings.compatibility,
        "profile_scope": settings.profile_scope,
        "redact_secrets": settings.redact_secrets,
        "encrypted": opened.store.file_key is not None,
        "library": library.describe(),
        "retention_days": settings.retention_days,
        "read_only": opened.store.read_only,
        "sessions": _count(store, "SELECT count(*) FROM sessions"),
        "internal_sessions": _count(
            store, "SELECT count(*) FROM sessions WHERE kind IN ('cron', 'heartbeat', 'subagent')"
        ),
        "turns": _count(store, "SELECT count(*) FROM turns"),
        "messages": _count(store, "SELECT count(*) FROM messages"),
        "records": {
            layer: _count(store, f"SELECT count(*) FROM records WHERE layer = '{layer}' AND status = 'active'")
            for layer in ("L1", "L2", "L3")
        },
        "superseded": _count(store, "SELECT count(*) FROM records WHERE status = 'superseded'"),
        "redactions": _count(store, "SELECT coalesce(sum(redactions), 0) FROM messages"),
        "shortened": _count(store, "SELECT count(*) FROM messages WHERE cut_from_bytes IS NOT NULL"),
        "sizes": {
            "store": _size(path),
            "store_wal": _size(path.with_name(path.name + "-wal")),
            **opened.keeper.file_sizes(),
        },
        "index": {"generation": current.number if current else None, "state": "missing"},
        "dreaming": "unsupported",
    }
    if current is not None:
        try:
            report["index"] = _index(opened, current, store)
        except errors.IndexUnavailable as error:
            # the store answers; that its index does not is something to tell, not to fail with
            report["index"] |= {"state": "unavailable", "problems": [{"path": "index", "reason": error.message}]}
    report["vectors"] = _vectors(opened, settings, report["index"]["state"] not in ("missing", "unavailable"))
    return report | reporting_fields.fields(opened, report, store)


def _vectors(opened: Opened, settings: Settings, readable: bool) -> dict[str, Any]:
    if readable:
        try:
            with opened.keeper.reader() as index:
                return vector_status.vectors(opened, settings, index)
        except errors.IndexUnavailable:
            pass
    return vector_status.vectors(opened, settings, None)


def _index(opened: Opened, current: registry.Generation, store: apsw.Connection) -> dict[str, Any]:
    lag = 0
    counts: dict[str, int] = {}
    with opened.keeper.reader() as index:
        lag = change_log.newest(store) - apply.applied(index)
        for kind, number in index.execute("SELECT kind, count(*) FROM documents GROUP BY kind"):
            counts[kind] = number
        chunks = _count(index, "SELECT count(*) FROM chunks")
        changed: int | None = None
        problems: list[dict[str, Any]] = []
        if opened.workspace is not None and opened.workspace.is_dir():
            work = notes.plan(index, opened.workspace, opened.settings.extra_paths)
            unread = _unreadable(work.to_read[:_TRIED])
            changed = len(work.to_read) - len(unread) + len(work.to_remove)
            problems = [{"path": p.path, "reason": p.reason} for p in (*work.discovery.problems, *unread)]
    matches = current.identity == identity.expected()
    return {
        "generation": current.number,
        "state": "current" if matches else "rebuilding" if opened.outdated and opened.upkeep else "outdated",
        "published_at": iso(current.published_at) if current.published_at else None,
        "identity": current.identity,
        "documents": counts,
        "chunks": chunks,
        "lag": lag,
        "dirty_notes": changed,
        "dirty": bool(lag or changed),
        "problems": problems,
    }


def _unreadable(places: Sequence[NotePlace]) -> list[SourceProblem]:
    """Which of these notes cannot be read and why: nobody waits for them, so they do not count as changes to come."""
    read = (read_note(place) for place in places)
    return [found for found in read if isinstance(found, SourceProblem) and found.reason != VANISHED]
