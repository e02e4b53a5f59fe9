"""The active owner's own search manager, for consumers of the file-shaped contract: the released way, unchanged.

A record-only provider has none and gets none made up. Not here: the neutral way (``memory_host``), authorising what a
manager finds, which is its runtime's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memory_sqlite.host.binding import NO_PLUGIN
from memory_sqlite.host.legacy_open import manager_of
from memory_sqlite.host.slots import MemorySlot
from memory_sqlite.runtime.callers import Purpose
from memory_sqlite.runtime.manager_shapes import ManagerResult


async def get_active_memory_search_manager(
    slot: MemorySlot,
    *,
    config: Mapping[str, Any],
    agent_id: str,
    purpose: Purpose = "default",
    inspect_sources: bool = False,
) -> ManagerResult:
    """The slot owner's manager for an agent, or none and why. Raises ``ProviderInvalid`` for a runtime that is none,
    and what the runtime raises."""
    owner = slot.owner()
    if owner is None or owner.capability.runtime is None:
        return ManagerResult(None, NO_PLUGIN)
    return await manager_of(
        owner.capability.runtime,
        config=config,
        agent_id=agent_id,
        purpose=purpose,
        inspect_sources=inspect_sources,
    )
