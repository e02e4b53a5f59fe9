"""Requests and results of the provider contract, as a host and a provider exchange them.

Python names are snake_case; ``wire`` gives the camelCase JSON of the contract. Everything is frozen. Not here: who asks
(``callers``), what a plugin registers (``plugins``), our own provider (``provider``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from memory_sqlite.model import Coverage, Source
from memory_sqlite.runtime.callers import CallerContext, Purpose

CandidateKind = Literal["trigger", "project"]
HealthStatus = Literal["ready", "degraded", "unavailable"]

CANDIDATE_KINDS: tuple[CandidateKind, ...] = ("trigger", "project")


@dataclass(frozen=True)
class Capabilities:
    """What a handle supports, declared before anything is called. ``sources`` is never empty."""

    sources: tuple[Source, ...]
    pagination: bool
    candidates: tuple[CandidateKind, ...]
    project_filter: bool


@dataclass(frozen=True)
class Reference:
    """The opaque, provider-scoped name of something findable. It grants nothing.

    ``revision`` names one version of it, ``fragment`` a part of it.
    """

    provider_id: str
    id: str
    revision: str | None = None
    fragment: str | None = None


@dataclass(frozen=True)
class Citation:
    """What to show as the place of a hit; lines are 1-based and inclusive."""

    label: str
    reference: Reference | None = None
    url: str | None = None
    start_line: int | None = None
    end_line: int | None = None


@dataclass(frozen=True)
class AutomaticRecall:
    """Whether a hit may be put before a prompt unasked, and what it needs for that.

    Missing eligibility never permits injection. ``triggers`` holds phrases split by newline, ``;`` or ``|``;
    ``importance`` is 1 to 10.
    """

    eligible: bool
    project_keys: tuple[str, ...] | None = None
    triggers: str | None = None
    importance: float | None = None


@dataclass(frozen=True)
class ProviderHit:
    """One hit. ``excerpt`` is safe to put into a prompt as it is; ``score`` is in 0 to 1 where there is one."""

    reference: Reference
    excerpt: str
    score: float | None = None
    source: str | None = None
    citations: tuple[Citation, ...] = ()
    automatic_recall: AutomaticRecall | None = None


@dataclass(frozen=True)
class SearchRequest:
    """A search. ``None`` means: not said. ``lexical_only`` is a hint that may be ignored."""

    query: str
    max_results: int | None = None
    min_score: float | None = None
    cursor: str | None = None
    sources: tuple[Source, ...] | None = None
    lexical_only: bool = False
    active_project_keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class SearchPage:
    """Hits, best first. ``next_cursor`` only where pagination is declared; a partial result says so."""

    hits: tuple[ProviderHit, ...]
    next_cursor: str | None = None
    coverage: Coverage | None = None
    warning: str | None = None


@dataclass(frozen=True)
class GetRequest:
    """Read what a reference names, from line ``from_line`` (1-based), at most ``lines`` lines."""

    reference: Reference
    from_line: int | None = None
    lines: int | None = None


@dataclass(frozen=True)
class Found:
    """What was read. ``lines`` is how many came back; ``next_from`` continues without gap or overlap."""

    reference: Reference
    text: str
    citations: tuple[Citation, ...] = ()
    truncated: bool | None = None
    from_line: int | None = None
    lines: int | None = None
    next_from: int | None = None
    status: Literal["ok"] = "ok"


@dataclass(frozen=True)
class NotFound:
    """There is no such thing, or not in that revision. Denial and failure are errors, never this."""

    status: Literal["not_found"] = "not_found"


GetResult = Found | NotFound


@dataclass(frozen=True)
class Health:
    """How a provider is. Never a record's text, a host path, or, for those who may not read, a count."""

    status: HealthStatus
    message: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CandidateRequest:
    """Ask for what may be recalled automatically. Hits carry ``automatic_recall``."""

    kind: CandidateKind
    limit: int | None = None
    active_project_keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class OpenRequest:
    """Open a caller-bound handle over one agent's memory."""

    agent_id: str
    context: CallerContext
    purpose: Purpose = "default"
    config: Mapping[str, Any] = field(default_factory=dict)
    """The host's configuration, which a provider may read its own settings from."""


@runtime_checkable
class ProviderHandle(Protocol):
    """A caller-bound lease. ``candidates(request)`` is there exactly when capabilities declare a kind, and
    ``refresh()`` where the provider has one; both are looked up by name."""

    @property
    def capabilities(self) -> Capabilities: ...

    async def search(self, request: SearchRequest) -> SearchPage: ...

    async def get(self, request: GetRequest) -> GetResult: ...

    async def health(self) -> Health: ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class OpenResult:
    """A handle, or none and why. A host fills in which provider and adapter it was."""

    provider: ProviderHandle | None
    error: str | None = None
    provider_id: str | None = None
    adapter: Literal["native", "legacy"] | None = None


class ProviderRuntime(Protocol):
    """What a native provider registers. May also have ``prepare_reload``, ``close_memory_search_manager`` and
    ``close_all_memory_search_managers``; they are looked up by name."""

    async def open(self, request: OpenRequest) -> OpenResult: ...
