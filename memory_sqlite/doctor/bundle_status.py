"""What a support bundle tells of ``status``: the parts that no person has worded, chosen one by one.

Called by ``bundle``. A field that ``status`` gets later is not in a bundle until somebody adds it here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from memory_sqlite.agent import opened as opening
from memory_sqlite.agent import reporting
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.indexing import identity

_PLAIN: Final = (
    "status", "encrypted", "library", "read_only", "sessions", "internal_sessions", "turns", "messages", "records",
    "superseded", "redactions", "shortened", "sizes", "dreaming", "files", "chunks", "dirty", "dirty_because",
    "sources", "generation", "identity", "fts", "last_sync", "isolation", "pending_writes",
)  # fmt: skip
"""Numbers, states and sentences of our own."""
_INDEX: Final = (
    "generation",
    "state",
    "published_at",
    "documents",
    "chunks",
    "lag",
    "dirty_notes",
    "dirty",
)
_VECTORS: Final = ("dimensions", "state", "cost", "filed", "missing", "characters", "route")


def known_identity(said: dict[str, Any]) -> dict[str, int]:
    """The numbers of an identity that this version knows."""
    return {name: said[name] for name in identity.expected() if isinstance(said.get(name), int)}


def status(settings: Settings, clock: Clock, digest: Callable[[str], str]) -> dict[str, Any]:
    """Paths of notes that cannot be read become digests. Raises what opening for reading raises."""
    if not settings.enabled:
        return {"status": "disabled"}
    opened = opening.open_agent(settings, clock, read_only=True)
    try:
        said = reporting.status(opened, settings)
    finally:
        opened.close()
    index, vectors = said["index"], said["vectors"]
    return {
        **{name: said[name] for name in _PLAIN},
        "workspace": said["workspace"] is not None,
        "index": {
            **{name: index[name] for name in _INDEX if name in index},
            "identity": known_identity(index.get("identity", {})),
            "problems": [
                {"path": digest(problem["path"]), "reason": problem["reason"]} for problem in index.get("problems", ())
            ],
        },
        "vectors": {
            **{name: vectors[name] for name in _VECTORS},
            "provider": vectors["provider"] is not None,
            "others": len(vectors["others"]),
            "service": None if vectors["service"] is None else vectors["service"].get("state"),
        },
    }
