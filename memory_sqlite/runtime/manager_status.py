"""How our manager is: its counts, what is searched and how, whether texts can be embedded.

Not here: what the door's ``status`` says of the same memory (``agent.reporting``, which is asked here). Paths are told
to the operator's own callers alone. Called by ``manager``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from memory_sqlite import errors
from memory_sqlite.agent import reporting
from memory_sqlite.generations import vector_rows
from memory_sqlite.generations.vector_rows import Space
from memory_sqlite.model import SOURCES
from memory_sqlite.runtime.agents import AgentRooms
from memory_sqlite.runtime.callers import Purpose
from memory_sqlite.runtime.manager_shapes import EmbeddingProbe, ManagerStatus

_NO_PROVIDER: Final = "no embedding provider is set; searches go by words"
_PROBED: Final = "memory"
"""What is embedded to see whether that works."""
DREAMING: Final = "unsupported"
"""Dreaming is no capability of a provider, and is not done here."""


def status(rooms: AgentRooms, purpose: Purpose, sync_error: str | None) -> ManagerStatus:
    """As ``agent.reporting`` knows it. ``sync_error`` is the code of the last sync that failed."""
    said = reporting.status(rooms.opened, rooms.settings)
    index, vectors = said["index"], said["vectors"]
    kinds: dict[str, int] = index.get("documents", {})
    provider = rooms.settings.embedding_provider
    counts = {"memory": kinds.get("note", 0) + kinds.get("record", 0), "sessions": kinds.get("message", 0)}
    searches_meaning = provider is not None and bool(vectors.get("filed"))
    shown = purpose != "default"
    return ManagerStatus(
        provider or "none",
        model=vectors.get("model"),
        requested_provider=provider,
        files=kinds.get("note", 0),
        chunks=index.get("chunks", 0),
        dirty=index.get("dirty", True),
        last_sync_error=sync_error or said["last_sync"]["error"],
        workspace_dir=said["workspace"] if shown else None,
        db_path=said["store"] if shown else None,
        sources=SOURCES,
        source_counts=tuple({"source": source, "files": counts[source]} for source in SOURCES),
        fts=said["fts"],
        vector=said["vector"],
        custom={
            "searchMode": "hybrid" if searches_meaning else "fts-only",
            "indexIdentity": _identity(said["identity"]),
            "generation": said["generation"],
            "dirtyBecause": said["dirty_because"],
            "lastSync": {"at": said["last_sync"]["at"], "error": sync_error or said["last_sync"]["error"]},
            "sizes": _sizes(said["sizes"]),
            "encrypted": said["encrypted"],
            "retentionDays": said["retention_days"],
            "isolation": said["isolation"],
            "profileScope": said["profile_scope"],
            "pendingWrites": said["pending_writes"],
            "dreaming": DREAMING,
        },
    )


def _identity(identity: dict[str, Any]) -> dict[str, Any]:
    """The older hosts know no index that is there and cannot be read: to them it is missing."""
    return identity | {"status": "missing"} if identity["status"] == "unavailable" else identity


def _sizes(sizes: dict[str, int]) -> dict[str, int]:
    names = {"store_wal": "storeWal", "index_wal": "indexWal"}
    return {names.get(name, name): number for name, number in sizes.items()}


def probe(rooms: AgentRooms) -> EmbeddingProbe:
    """Whether the provider that is set embeds a word; never raises for what it does."""
    now = rooms.clock.now_ms()
    if rooms.opened.embedding is None:
        return EmbeddingProbe(False, _NO_PROVIDER, checked=True, cached=False, checked_at_ms=now)
    from memory_sqlite.embeddings.service import Unavailable

    timeout_s = rooms.settings.embedding_query_timeout_ms / 1000
    try:
        found: Any = rooms.opened.embedding.service().query_vector(_PROBED, timeout_s, load_s=timeout_s)
    except errors.MemorySqliteError as error:
        found = Unavailable(error.message)
    reason = found.reason if isinstance(found, Unavailable) else None
    return EmbeddingProbe(reason is None, reason, checked=True, cached=False, checked_at_ms=now)


def as_cached(found: EmbeddingProbe) -> EmbeddingProbe:
    """An earlier probe, said to be one."""
    return replace(found, cached=True)


def vector_spaces(rooms: AgentRooms) -> list[Space] | None:
    """The spaces of the current generation; ``None`` where it has no place for vectors."""
    import apsw

    try:
        with rooms.opened.keeper.reader() as index:
            return vector_rows.spaces(index)
    except (errors.IndexUnavailable, apsw.SQLError):
        return None


def has_vectors(rooms: AgentRooms) -> bool:
    """Whether a question can be compared with vectors: a space is filled, and a provider is set."""
    return rooms.opened.embedding is not None and any(space.state == "complete" for space in vector_spaces(rooms) or [])
