"""Opening a legacy owner: its manager for the agent, behind the adapter; or none, and why.

Not here: the adapter itself (``legacy``), when it is used at all (``memory_host``: only where no provider runtime is
declared).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memory_sqlite import errors
from memory_sqlite.host.binding import NO_PLUGIN
from memory_sqlite.host.legacy import adapt
from memory_sqlite.host.legacy_values import text_of, value_of
from memory_sqlite.host.racing import calling
from memory_sqlite.runtime.callers import Purpose
from memory_sqlite.runtime.manager_shapes import ManagerResult
from memory_sqlite.runtime.shapes import OpenRequest, OpenResult


async def open_legacy(runtime: Any, request: OpenRequest, provider_id: str) -> OpenResult:
    """A manager of the runtime as a provider. Raises ``ProviderInvalid`` for a runtime that gives out none, and what
    the runtime raises."""
    found = await manager_of(runtime, config=request.config, agent_id=request.agent_id, purpose=request.purpose)
    if found.manager is None:
        return OpenResult(None, found.error or NO_PLUGIN, provider_id, "legacy")
    handle = adapt(
        found.manager,
        runtime=runtime,
        provider_id=provider_id,
        agent_id=request.agent_id,
        context=request.context,
        purpose=request.purpose,
        config=request.config,
    )
    return OpenResult(handle, None, provider_id, "legacy")


async def manager_of(
    runtime: Any,
    *,
    config: Mapping[str, Any],
    agent_id: str,
    purpose: Purpose = "default",
    inspect_sources: bool = False,
) -> ManagerResult:
    """What a runtime answers when it is asked for a manager, whichever form it answers in.

    Raises ``ProviderInvalid`` for a runtime that gives out none, and what the runtime raises.
    """
    asking = getattr(runtime, "get_memory_search_manager", None)
    if not callable(asking):
        raise errors.ProviderInvalid("memory runtime must implement get_memory_search_manager")

    def ask() -> Any:
        return asking(config=config, agent_id=agent_id, purpose=purpose, inspect_sources=inspect_sources)

    answer = await calling(ask)
    if isinstance(answer, ManagerResult):
        return answer
    if value_of(answer, "manager") is None and text_of(answer, "error") is None and not _says_none(answer):
        raise errors.ProviderInvalid("memory runtime must answer with a manager, or with none and why")
    debug = value_of(answer, "debug")
    return ManagerResult(
        value_of(answer, "manager"), text_of(answer, "error"), debug if isinstance(debug, Mapping) else None
    )


def _says_none(answer: Any) -> bool:
    """Whether an answer has the contract's member ``manager`` at all, be it empty."""
    return "manager" in answer if isinstance(answer, Mapping) else hasattr(answer, "manager")
