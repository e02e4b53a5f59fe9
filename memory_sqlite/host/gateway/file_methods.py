"""What the gateway asks of file-shaped owners: version 1 of ``memory.search``, the command line's routed search, and a
doctor's status.

A manager for one request is made for it and closed after it. Its raw hits pass the runtime's authorisation before
anybody sees one. Not here: parsing, who asks (``connections``), the neutral way (``methods``).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from memory_sqlite import errors
from memory_sqlite.host.binding import NO_PLUGIN
from memory_sqlite.host.caller_checks import BoundCaller
from memory_sqlite.host.consumers.health_findings import failed
from memory_sqlite.host.gateway import requests
from memory_sqlite.host.gateway.responses import Response, failure, file_result, success, unavailable
from memory_sqlite.host.hit_authorization import authorized, listed
from memory_sqlite.host.legacy_open import manager_of
from memory_sqlite.host.legacy_values import members, text_of, value_of
from memory_sqlite.host.memory_host import MemoryHost
from memory_sqlite.host.racing import End, calling, finished, raced
from memory_sqlite.host.slots import ActiveMemory
from memory_sqlite.runtime.callers import CallerContext, Purpose
from memory_sqlite.runtime.manager_shapes import ManagerResult, SearchOptions, wire
from memory_sqlite.runtime.wire import to_wire

_NO_SEARCH: Final = "memory search unavailable"
_log = logging.getLogger("memory_sqlite.host.gateway.file_methods")


class _Asking:
    """One request of one caller to one owner: everything is checked before and after each call."""

    def __init__(self, host: MemoryHost, owner: ActiveMemory, agent_id: str, context: CallerContext) -> None:
        self.host = host
        self.owner = owner
        self.agent_id = agent_id
        self._caller = BoundCaller(host.audiences, context)
        self._ends = (*self._caller.ends, End(owner.instance.lifecycle, owner.instance.assert_alive))

    def check(self) -> None:
        """Raise when the caller or the plugin is no longer current."""
        self._caller.check()
        self.owner.instance.assert_alive()

    async def call(self, function: Any, *arguments: Any) -> Any:
        """Somebody's function, between two checks; abort and a retired plugin end the waiting."""
        self.check()
        answer = await raced(calling(function, *arguments), self._ends)
        self.check()
        return answer

    @asynccontextmanager
    async def manager(
        self, purpose: Purpose, *, inspect_sources: bool = False, quietly: bool = False
    ) -> AsyncIterator[ManagerResult]:
        """A manager for this request, or none and why; closed in the end, whatever happens to who asked. Raises what
        closing it raises, unless ``quietly``: then that is logged."""

        async def acquire() -> ManagerResult:
            return await manager_of(
                self.owner.capability.runtime,
                config=self.host.config,
                agent_id=self.agent_id,
                purpose=purpose,
                inspect_sources=inspect_sources,
            )

        self.check()
        found = await raced(acquire(), self._ends, _close)
        try:
            yield found
        finally:
            try:
                await finished(_close(found), self._caller.ends)
            except Exception as error:
                if not quietly:
                    raise
                _log.warning("closing a memory manager failed: %s", type(error).__name__)


async def _close(found: ManagerResult) -> None:
    if found.manager is not None and callable(getattr(found.manager, "close", None)):
        await calling(found.manager.close)


async def search(
    host: MemoryHost, owner: ActiveMemory | None, agent_id: str, asked: requests.FileSearch, context: CallerContext
) -> Response:
    """Version 1. Raises ``ProviderUnavailable`` where there is nobody to ask; other failures are the response."""
    if owner is None or owner.capability.runtime is None:
        raise errors.ProviderUnavailable(NO_PLUGIN)
    asking = _Asking(host, owner, agent_id, context)
    acquired = False
    try:
        async with asking.manager("cli", quietly=True) as found:
            if found.manager is None:
                return failure("UNAVAILABLE", found.error or _NO_SEARCH)
            acquired = True
            options = SearchOptions(max_results=asked.max_results, min_score=asked.min_score, signal=context.signal)
            raw = listed(await asking.call(found.manager.search, asked.query, options), "search")
            allowed = await asking.call(
                partial(authorized, owner.capability.runtime, raw, config=host.config, agent_id=agent_id, session=None)
            )
            status = members(await asking.call(found.manager.status))
        asking.check()
        results = [file_result(one) for one in allowed[: asked.max_results]]
    except Exception as error:
        return unavailable(error, "memory search failed: " if acquired else "memory search unavailable: ")
    return success(
        {
            "agentId": agent_id,
            "provider": status.get("provider"),
            "searchMode": _mode(status),
            "results": results,
            **_staleness(status),
        }
    )


async def owner_search(
    host: MemoryHost, agent_id: str, asked: requests.OwnerSearch, context: CallerContext
) -> dict[str, Any]:
    """A command line's search with the recall recorded before it is answered; that memory is disabled or cannot be
    had is an answer, too.

    Raises ``ProviderUnavailable`` for an owner that has no such search, what the caller's check raises, and what
    searching, recording or closing raises.
    """
    owner = host.slot.owner()
    routed = getattr(owner.capability.runtime, "search_for_cli", None) if owner is not None else None
    if owner is None or not callable(routed):
        raise errors.ProviderUnavailable(NO_PLUGIN if owner is None else "this memory plugin has no search for owners")
    asking = _Asking(host, owner, agent_id, context)
    async with asking.manager("cli", inspect_sources=True) as found:
        asking.check()
        if found.manager is None:
            if found.error is None or (found.debug or {}).get("disabled") is True:
                return {"agentId": agent_id, "status": "disabled"}
            return {"agentId": agent_id, "status": "failed", "error": found.error}

        def ask() -> Any:
            return routed(
                manager=found.manager,
                config=host.config,
                agent_id=agent_id,
                query=asked.query,
                assert_current=asking.check,
                max_results=asked.max_results,
                min_score=asked.min_score,
            )

        answer = await asking.call(ask)
    said: dict[str, Any] = {
        "results": [file_result(one) for one in listed(value_of(answer, "results"), "search_for_cli")]
    }
    if value_of(answer, "stale") is True:
        said["stale"] = True
    for name in ("warning", "action"):
        if (text := text_of(answer, name)) is not None:
            said[name] = text
    return said


async def doctor_status(
    host: MemoryHost, owner: ActiveMemory, agent_id: str, context: CallerContext, *, live: bool
) -> dict[str, Any]:
    """A legacy owner's status for a doctor: its embedding provider, and whether it answers (asked only when ``live``).

    Raises what the caller's check raises; whatever else fails is in ``health``.
    """
    asking = _Asking(host, owner, agent_id, context)
    health: Any = {"status": "ready"}
    provider: Any = "none"
    embedding: dict[str, Any] = {"ok": False, "checked": False}
    try:
        async with asking.manager("status") as found:
            if found.manager is None:
                raise errors.ProviderUnavailable(found.error or NO_PLUGIN)
            status = members(await asking.call(found.manager.status))
            provider = status.get("provider")
            if status.get("lastSyncError"):
                health = {"status": "degraded", "message": str(status["lastSyncError"])}
            name = "probe_embedding_availability" if live else "get_cached_embedding_availability"
            probe = getattr(found.manager, name, None)
            if callable(probe) and (probed := await asking.call(probe)) is not None:
                embedding = {"checked": live, **wire(probed if isinstance(probed, Mapping) else members(probed))}
    except Exception as error:
        asking.check()
        health = to_wire(failed(error))
    return {"agentId": agent_id, "provider": provider, "health": health, "embedding": embedding}


def _mode(status: Mapping[str, Any]) -> str:
    """How is searched: as the manager says, else by what it has."""
    said = _mapping(status.get("custom")).get("searchMode")
    if said in ("hybrid", "fts-only"):
        return str(said)
    words = status.get("provider") == "none" or members(status.get("vector") or {}).get("enabled") is False
    return "fts-only" if words else "hybrid"


def _staleness(status: Mapping[str, Any]) -> dict[str, Any]:
    """Whether the index is known to lack something. Work that merely waits is no failure and is not told."""
    identity = members(_mapping(_mapping(status.get("custom")).get("indexIdentity")))
    why = status.get("lastSyncError")
    if not why and identity.get("status") == "mismatched":
        why = identity.get("reason") or "it was built for other settings"
    if not why:
        return {}
    return {
        "stale": True,
        "warning": f"the memory index is behind ({why}); results may lack something",
        "action": "bring the memory index of this agent up to date",
    }


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
