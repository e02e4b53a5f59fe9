"""How our provider is, for every caller: whether it answers, and what it must do without. Never what is in it.

No text of a memory, no path of the machine; counts only for the operator, who may read all that is counted. Not here:
what a person wants to know of a memory (``agent.reporting``). Called by ``handle``, in a thread.
"""

from __future__ import annotations

from typing import Any

from memory_sqlite import errors
from memory_sqlite.agent.opened import Opened
from memory_sqlite.indexing import apply
from memory_sqlite.runtime.agents import AgentRooms
from memory_sqlite.runtime.shapes import Health
from memory_sqlite.storage import change_log


def look(rooms: AgentRooms, *, counts: bool) -> Health:
    """``unavailable`` without an index that answers, ``degraded`` when something is missing or behind, else ``ready``.

    ``counts`` adds how many documents of each kind there are.
    """
    details: dict[str, Any] = {"dreaming": "unsupported"}
    try:
        behind = _index(rooms.opened, details, counts)
    except errors.MemorySqliteError as error:
        return Health("unavailable", f"the memory cannot be read ({error.code})", details)
    problems = [name for name, there in _problems(rooms.opened, behind) if there]
    if problems:
        return Health("degraded", "; ".join(problems), details)
    return Health("ready", details=details)


def _index(opened: Opened, details: dict[str, Any], counts: bool) -> bool:
    """Whether the index is behind the store. Raises what keeps it from answering."""
    with opened.store.readers.borrow() as store, opened.keeper.reader() as index:
        if counts:
            rows: list[Any] = index.execute("SELECT kind, count(*) FROM documents GROUP BY kind").fetchall()
            details["documents"] = dict(rows)
        return apply.applied(index) != change_log.newest(store)


def _problems(opened: Opened, behind: bool) -> list[tuple[str, bool]]:
    workspace = opened.workspace
    return [
        ("the search index is behind what is stored", behind),
        ("the search index was built by another version", opened.outdated is not None),
        ("the workspace is not there", workspace is not None and not workspace.is_dir()),
        ("some notes could not be read", bool(opened.problems)),
        ("the notes are no longer watched", any(getattr(watch, "native", True) is False for watch in opened.watches)),
        ("the embedding provider does not answer", _is_silent(opened)),
    ]


def _is_silent(opened: Opened) -> bool:
    state = opened.embedding.state() if opened.embedding is not None else None
    return state is not None and state.get("error") is not None
