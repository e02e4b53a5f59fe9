"""The adapter: anybody's file-shaped search manager as a provider handle, for one caller.

Owned by the host, so that owners with nothing but a manager go on working unchanged: the manager is called on itself,
never copied or rebound, and its hits pass the runtime's own authorisation before anybody gets them. Not here: mapping
results (``legacy_hits``) and health (``legacy_health``), enforcing capabilities and the caller around each call
(``bound_handle``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from memory_sqlite import errors
from memory_sqlite.host import legacy_health, legacy_hits
from memory_sqlite.host.hit_authorization import authorized, listed
from memory_sqlite.host.legacy_values import text_of, value_of, whole_of
from memory_sqlite.host.racing import calling
from memory_sqlite.runtime.callers import CallerContext, Purpose, SessionAuthority
from memory_sqlite.runtime.manager_shapes import SearchOptions
from memory_sqlite.runtime.shapes import (
    Capabilities,
    Found,
    GetRequest,
    GetResult,
    Health,
    NotFound,
    ProviderHandle,
    SearchPage,
    SearchRequest,
)

CAPABILITIES: Final = Capabilities(sources=("memory", "sessions"), pagination=False, candidates=(), project_filter=True)
REFRESH_REASON: Final = "provider-refresh"
_OWNED_PURPOSES: Final = ("cli", "status")
"""Managers made for these are the lease's own; the one for everything else is kept by its runtime."""


def adapt(
    manager: Any,
    *,
    runtime: Any,
    provider_id: str,
    agent_id: str,
    context: CallerContext,
    purpose: Purpose = "default",
    config: Mapping[str, Any] | None = None,
) -> ProviderHandle:
    """A manager as a handle. ``refresh`` is there exactly when the manager has ``sync``; ``candidates`` never is."""
    kind = _RefreshingHandle if callable(getattr(manager, "sync", None)) else _LegacyHandle
    return kind(manager, runtime, provider_id, agent_id, context, purpose, config or {})


class _LegacyHandle:
    def __init__(
        self,
        manager: Any,
        runtime: Any,
        provider_id: str,
        agent_id: str,
        context: CallerContext,
        purpose: Purpose,
        config: Mapping[str, Any],
    ) -> None:
        self._manager = manager
        self._runtime = runtime
        self._provider_id = provider_id
        self._agent_id = agent_id
        self._context = context
        self._purpose = purpose
        self._config = config
        self._closed = False

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    async def search(self, request: SearchRequest) -> SearchPage:
        if request.cursor is not None:
            raise errors.ProviderRefused("memory provider does not support the pagination capability")
        session = self._session()
        options = SearchOptions(
            max_results=request.max_results,
            min_score=request.min_score,
            session_key=session.session_key if session is not None else None,
            lexical_only=request.lexical_only,
            active_project_keys=request.active_project_keys,
            sources=request.sources,
            signal=self._context.signal,
        )
        self._needs("search")
        self._context.assert_current()
        raw = listed(await calling(self._manager.search, request.query, options), "search")
        self._context.assert_current()
        allowed = await authorized(self._runtime, raw, config=self._config, agent_id=self._agent_id, session=session)
        self._context.assert_current()
        hits = [legacy_hits.hit(one, self._provider_id) for one in allowed]
        return SearchPage(legacy_hits.as_asked(hits, request), coverage="complete")

    def _session(self) -> SessionAuthority | None:
        authority = self._context.authority
        return authority if isinstance(authority, SessionAuthority) else None

    async def get(self, request: GetRequest) -> GetResult:
        """What the manager lets be read: having found something by ``search`` grants no read."""
        self._needs("read_file")
        self._context.assert_current()
        read = await calling(self._manager.read_file, request.reference.id, request.from_line, request.lines)
        if text_of(read, "status") == "not_found":
            return NotFound()
        text = text_of(read, "text")
        if text is None:
            raise errors.ProviderInvalid("memory runtime manager read a file and returned no text")
        truncated = value_of(read, "truncated")
        return Found(
            request.reference,
            text,
            truncated=truncated if isinstance(truncated, bool) else None,
            from_line=whole_of(read, "from_line"),
            lines=whole_of(read, "lines"),
            next_from=whole_of(read, "next_from"),
        )

    async def health(self) -> Health:
        self._needs("status")
        said, message = legacy_health.shown(await calling(self._manager.status))
        return Health("ready" if message is None else "degraded", message, {"legacy": said})

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._purpose in _OWNED_PURPOSES and callable(getattr(self._manager, "close", None)):
            await calling(self._manager.close)

    def _needs(self, method: str) -> None:
        if not callable(getattr(self._manager, method, None)):
            raise errors.ProviderInvalid(f"memory runtime manager must implement {method}")


class _RefreshingHandle(_LegacyHandle):
    async def refresh(self) -> None:
        def sync() -> Any:
            return self._manager.sync(reason=REFRESH_REASON)

        self._context.assert_current()
        await calling(sync)
