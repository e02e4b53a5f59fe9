"""The file-shaped legacy contract as types: a search manager, its results, and the runtime that gives managers out.

Python names are snake_case; ``wire`` gives the camelCase JSON. Everything is frozen; paths are relative to the
workspace or virtual. Not here: our own manager (``manager``) and runtime (``legacy_runtime``), the host's adapter over
anybody's (``host.legacy``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal, Protocol

from memory_sqlite.model import OriginClass, SessionKind, Source
from memory_sqlite.runtime.callers import Purpose
from memory_sqlite.runtime.signals import AbortSignal


@dataclass(frozen=True)
class ResultProvenance:
    """Where a result came from. ``observed_at`` is milliseconds since the epoch."""

    origin_class: OriginClass
    session_kind: SessionKind
    observed_at: int | None = None
    supersedes_key: str | None = None


@dataclass(frozen=True)
class MemorySearchResult:
    """One raw result, before anybody has asked whether the requester may see it. Lines are 1-based and inclusive."""

    path: str
    start_line: int
    end_line: int
    score: float
    snippet: str
    source: Source
    vector_score: float | None = None
    text_score: float | None = None
    importance: int | None = None
    triggers: str | None = None
    """Phrases, split by newlines."""
    project_key: str | None = None
    """Keys, split by semicolons."""
    origin_class: OriginClass | None = None
    """As older hosts read it; ``provenance`` is what counts."""
    citation: str | None = None
    provenance: ResultProvenance | None = None


@dataclass(frozen=True)
class SearchOptions:
    """What a search may be told. ``None``: not said. ``active_project_keys`` only favour.

    ``on_partial_results`` hears the keyword candidates before meaning was searched, and ``None`` when they do not hold;
    who shows them applies the same checks as to the answer. ``on_debug`` hears how the search went, in numbers. Both
    are called in the thread of the loop.
    """

    max_results: int | None = None
    min_score: float | None = None
    session_key: str | None = None
    lexical_only: bool = False
    active_project_keys: tuple[str, ...] = ()
    sources: tuple[Source, ...] | None = None
    signal: AbortSignal | None = None
    on_debug: Callable[[Mapping[str, Any]], object] | None = None
    on_partial_results: Callable[[Sequence[MemorySearchResult] | None], object] | None = None


@dataclass(frozen=True)
class ReadText:
    """What was read. ``lines`` is how many came back; ``next_from`` continues without gap or overlap."""

    text: str
    path: str
    truncated: bool | None = None
    from_line: int | None = None
    lines: int | None = None
    next_from: int | None = None
    status: Literal["ok"] = "ok"


@dataclass(frozen=True)
class ReadMissing:
    """There is no such file."""

    path: str
    text: str = ""
    status: Literal["not_found"] = "not_found"


MemoryReadResult = ReadText | ReadMissing


@dataclass(frozen=True)
class EmbeddingProbe:
    """Whether texts can be embedded now; ``checked`` says that it was tried and not assumed. Times are epoch ms."""

    ok: bool
    error: str | None = None
    checked: bool | None = None
    cached: bool | None = None
    checked_at_ms: int | None = None
    cache_expires_at_ms: int | None = None


@dataclass(frozen=True)
class SyncProgress:
    """How far a sync has come."""

    completed: int
    total: int
    label: str | None = None


@dataclass(frozen=True)
class SyncSession:
    """A session that a sync should bring up to date."""

    session_id: str
    agent_id: str | None = None
    session_key: str | None = None


@dataclass(frozen=True)
class ManagerStatus:
    """How a manager is. ``provider`` is the embedding provider; ``custom`` a free map. Hosts hide the paths in it."""

    provider: str
    backend: Literal["builtin"] = "builtin"
    model: str | None = None
    requested_provider: str | None = None
    files: int | None = None
    chunks: int | None = None
    dirty: bool | None = None
    last_sync_error: str | None = None
    workspace_dir: str | None = None
    db_path: str | None = None
    storage: Mapping[str, Any] | None = None
    extra_paths: tuple[str, ...] | None = None
    sources: tuple[Source, ...] | None = None
    source_counts: tuple[Mapping[str, Any], ...] | None = None
    cache: Mapping[str, Any] | None = None
    fts: Mapping[str, Any] | None = None
    fallback: Mapping[str, Any] | None = None
    vector: Mapping[str, Any] | None = None
    batch: Mapping[str, Any] | None = None
    custom: Mapping[str, Any] = field(default_factory=dict)


class MemorySearchManager(Protocol):
    """What a manager has. ``list_trigger_candidates``, ``list_curated_project_candidates``, ``sync``,
    ``get_cached_embedding_availability``, ``probe_vector_store_availability`` and ``close`` may be missing; they are
    looked up by name, on the manager itself."""

    async def search(self, query: str, options: SearchOptions | None = None) -> Sequence[MemorySearchResult]: ...

    async def read_file(
        self, rel_path: str, from_line: int | None = None, lines: int | None = None
    ) -> MemoryReadResult: ...

    def status(self) -> ManagerStatus: ...

    async def probe_embedding_availability(self) -> EmbeddingProbe: ...

    async def probe_vector_availability(self) -> bool: ...


@dataclass(frozen=True)
class ManagerResult:
    """A manager, or none and why. ``debug``: ``backend``, ``purpose``, ``managerMs``."""

    manager: Any
    error: str | None = None
    debug: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class ReadSource:
    """A file that was read elsewhere; without a canonical path nobody knows what it is."""

    relative_path: str
    canonical_relative_path: str | None = None


@dataclass(frozen=True)
class ClassifiedPath:
    """Whose words a file of the workspace holds."""

    relative_path: str
    origin_class: OriginClass


@dataclass(frozen=True)
class CliSearchResult:
    """The answer to a command line's search, recorded before it is given. ``action``: what to run, and why."""

    results: tuple[MemorySearchResult, ...]
    stale: bool = False
    warning: str | None = None
    action: str | None = None


class PreparedReload(Protocol):
    """What a runtime does around a reload: ``drain`` ends what is under way and takes no more, ``resume`` goes on.

    ``drain`` returns nothing or ``{"errors": [...]}``.
    """

    def drain(self) -> Awaitable[Any]: ...

    def resume(self) -> None: ...


class MemoryPluginRuntime(Protocol):
    """The legacy runtime. Optional, looked up by name: ``authorize_search_hits``, ``classify_workspace_memory_paths``,
    ``supports_workspace_memory_read_sources``, ``prepare_reload``, ``close_memory_search_manager``,
    ``close_all_memory_search_managers``, ``search_for_cli``."""

    async def get_memory_search_manager(
        self, *, config: Mapping[str, Any], agent_id: str, purpose: Purpose = "default", inspect_sources: bool = False
    ) -> ManagerResult: ...

    def resolve_memory_backend_config(self, *, config: Mapping[str, Any], agent_id: str) -> Mapping[str, Any]: ...


def wire(value: Any) -> Any:
    """Any of these as JSON-ready values: camelCase keys, what is ``None`` left out."""
    if is_dataclass(value) and not isinstance(value, type):
        said = {one.name: getattr(value, one.name) for one in fields(value)}
        return {camel(name): wire(item) for name, item in said.items() if item is not None}
    if isinstance(value, Mapping):
        return {str(key): wire(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [wire(item) for item in value]
    return value


def camel(name: str) -> str:
    """A member's name on the wire."""
    if name == "from_line":  # ``from`` is no name in Python
        return "from"
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
