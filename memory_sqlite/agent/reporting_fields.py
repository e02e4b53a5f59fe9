"""What hosts and monitors ask of every memory, in one shape: how it is searched, how fresh it is, what it lacks.

Derived from what ``reporting`` has read, and a few cheap questions more. Called by ``reporting``.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import apsw

from memory_sqlite import errors, paths
from memory_sqlite.agent.opened import Opened
from memory_sqlite.clock import iso
from memory_sqlite.storage.fetch import all_rows, integer

ISOLATION: Final = "agent file and session filter"
"""What keeps memories apart, and nothing more: each agent has files of its own; within them every query is filtered."""
_REBUILD: Final = "memory-sqlite index --full"
_INDEX: Final = "memory-sqlite index"
_REASONS: Final = {
    "outdated": "it was built with another format, tokenizer or chunker than this version's",
    "rebuilding": "it was built by another version; its successor is being built beside it",
    "missing": "there is no search index yet",
    "unavailable": "the file of the search index cannot be read",
}


def fields(opened: Opened, report: dict[str, Any], store: apsw.Connection) -> dict[str, Any]:
    """To be added to ``report``, which has ``index``, ``vectors`` and ``sizes`` already."""
    index = report["index"]
    readable = index["state"] not in ("missing", "unavailable")
    report["sizes"]["reusable"] = _reusable(store)
    sources = {source: {"documents": 0, "chunks": 0} for source in ("memory", "sessions")}
    if readable:
        try:
            with opened.keeper.reader() as connection:
                report["sizes"]["reusable"] += _reusable(connection)
                _count(sources, "documents", index.get("documents", {}).items())
                _count(sources, "chunks", all_rows(connection, "SELECT name, row_count FROM statistics"))
        except errors.IndexUnavailable:
            readable = False
    return {
        "files": index.get("documents", {}).get("note", 0),
        "chunks": index.get("chunks", 0),
        "dirty": index.get("dirty", True),
        "dirty_because": _because(opened, index),
        "sources": sources,
        "generation": _generation(opened, index, store),
        "identity": _identity(index["state"]),
        "fts": {"enabled": True, "available": readable, "error": None if readable else _REASONS[_lack(index)]},
        "vector": _vector(report["vectors"]),
        "last_sync": {"at": _written(opened, index), "error": opened.sync_error},
        "isolation": ISOLATION,
        "pending_writes": integer(store, "SELECT count(*) FROM turn_outbox"),
    }


def _count(sources: dict[str, dict[str, int]], what: str, numbers: Iterable[tuple[str, int]]) -> None:
    for kind, number in numbers:
        sources["sessions" if kind == "message" else "memory"][what] += number


def _reusable(connection: apsw.Connection) -> int:
    """Bytes of pages that are free: the file does not shrink, they are filled again."""
    return integer(connection, "PRAGMA freelist_count") * integer(connection, "PRAGMA page_size")


def _because(opened: Opened, index: dict[str, Any]) -> list[str]:
    """Why the index is not as new as its sources, in words; empty when it is."""
    because = [_REASONS[index["state"]]] if index["state"] in _REASONS else []
    if index.get("lag"):
        because.append(f"changes of the store that are not applied yet: {index['lag']}")
    if index.get("dirty_notes"):
        because.append(f"notes that came, went or changed: {index['dirty_notes']}")
    if opened.workspace is not None and not opened.workspace.is_dir():
        because.append("the workspace is not there")
    return because


def _lack(index: dict[str, Any]) -> str:
    return "missing" if index["state"] == "missing" else "unavailable"


def _identity(state: str) -> dict[str, Any]:
    status = {"current": "valid", "missing": "missing", "unavailable": "unavailable"}.get(state, "mismatched")
    command = {"valid": None, "missing": _INDEX}.get(status, None if state == "rebuilding" else _REBUILD)
    return {"status": status, "reason": _REASONS.get(state), "command": command}


def _generation(opened: Opened, index: dict[str, Any], store: apsw.Connection) -> dict[str, Any]:
    """The current one, and those whose files are still there: held by a reader, being built, or to be tidied away."""
    states: dict[int, str] = dict(all_rows(store, "SELECT number, state FROM generations"))
    kept = []
    for path in sorted(opened.store.directory.iterdir()):
        number = paths.generation_number(path.name)
        if number is not None and number != index["generation"]:
            kept.append({"number": number, "state": states.get(number, "unknown"), "bytes": path.lstat().st_size})
    return {"number": index["generation"], "state": index["state"], "kept": kept}


def _vector(vectors: dict[str, Any]) -> dict[str, Any]:
    service = vectors["service"] or {}
    error = service.get("error")
    if vectors["state"] == "unavailable":
        error = error or "the vectors cannot be read"
    return {
        "enabled": vectors["provider"] is not None,
        "available": vectors["provider"] is not None and bool(vectors["filed"]),
        "route": vectors["route"],
        "dims": vectors["dimensions"],
        "error": error,
    }


def _written(opened: Opened, index: dict[str, Any]) -> str | None:
    """When the current generation last took something in: its file's time or its WAL's."""
    if index["generation"] is None:
        return None
    path = paths.generation_file(opened.store.directory, index["generation"])
    times = [_time(path), _time(path.with_name(path.name + "-wal"))]
    newest = max((time for time in times if time is not None), default=None)
    return None if newest is None else iso(newest)


def _time(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except FileNotFoundError:
        return None
