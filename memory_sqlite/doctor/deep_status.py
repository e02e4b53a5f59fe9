"""What ``status --deep`` adds: everything that costs reading whole files. Reads only, repairs and judges nothing.

Called by ``Memory.status``. Not here: the fast part (``agent.reporting``), findings (``examine``).
"""

from __future__ import annotations

import json
from typing import Any

import apsw

from memory_sqlite import errors, paths
from memory_sqlite.agent.opened import Opened
from memory_sqlite.doctor import holders
from memory_sqlite.generations import vector_rows
from memory_sqlite.indexing import rows, vector_inputs
from memory_sqlite.storage.fetch import all_rows, integer


def deep(opened: Opened) -> dict[str, Any]:
    """``integrity``, ``tables``, ``pages``, ``parity`` and ``processes``; of the index ``None`` where none can be read.

    Raises ``StoreDamaged`` where not even the store's schema can be read.
    """
    store_file = opened.store.directory / paths.STORE_FILE
    with opened.store.readers.borrow() as store:
        said: dict[str, Any] = {
            "integrity": {"store": _integrity(store), "index": None},
            "tables": {"store": _tables(store), "index": {}},
            "pages": {"store": _pages(store), "index": None},
            "parity": {"lexical": None, "vectors": []},
            "processes": {"store": holders.of([store_file]).shown(), "index": None},
        }
    try:
        with opened.keeper.reader() as index:
            said["integrity"]["index"] = _integrity(index)
            said["tables"]["index"] = _tables(index)
            said["pages"]["index"] = _pages(index)
            said["parity"] = {"lexical": rows.inconsistency(index, reading=True) or "ok", "vectors": _vectors(index)}
    except errors.IndexUnavailable:
        return said
    number = opened.keeper.number()
    if number is not None:
        file = paths.generation_file(opened.store.directory, number)
        said["processes"]["index"] = holders.of([file]).shown()
    return said


def _integrity(connection: apsw.Connection) -> str:
    problems = [str(row[0]) for row in all_rows(connection, "PRAGMA quick_check(100)")]
    return "ok" if problems == ["ok"] else f"{len(problems)} problems"


def _tables(connection: apsw.Connection) -> dict[str, int]:
    """Bytes of each table and index, the largest first."""
    sql = "SELECT name, pgsize FROM dbstat WHERE aggregate = 1 ORDER BY pgsize DESC, name"
    return {str(name): int(size) for name, size in all_rows(connection, sql)}


def _pages(connection: apsw.Connection) -> dict[str, int]:
    return {
        "size": integer(connection, "PRAGMA page_size"),
        "count": integer(connection, "PRAGMA page_count"),
        "reusable": integer(connection, "PRAGMA freelist_count"),
    }


def _vectors(index: apsw.Connection) -> list[dict[str, Any]]:
    """Of each model: vectors that there are and that are missing; and those of another text than their chunk's."""
    outdated = vector_inputs.outdated(index)
    return [
        {
            "model": json.loads(space.identity).get("model"),
            "filed": vector_rows.filed(index, space),
            "missing": vector_rows.missing(index, space),
            "outdated": outdated,
        }
        for space in vector_rows.spaces(index)
    ]
