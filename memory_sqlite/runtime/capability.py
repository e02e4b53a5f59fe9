"""What our plugin registers with a host: the whole memory capability over the agents it serves.

Dreaming is no part of it: it is not a capability of a provider, and is not done here. Not here: each of the parts, and
what a host makes of them (``host.slots``). Called by the door's ``capability``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from memory_sqlite.clock import Clock
from memory_sqlite.runtime.agents import Agents
from memory_sqlite.runtime.legacy_runtime import LegacyRuntime
from memory_sqlite.runtime.plans import FilePlans, tools_plan
from memory_sqlite.runtime.plugins import MemoryCapability, Tool
from memory_sqlite.runtime.prompt import build_prompt
from memory_sqlite.runtime.public_artifacts import AgentIds, Artifacts, configured_agents
from memory_sqlite.runtime.shapes import ProviderRuntime
from memory_sqlite.runtime.tool_names import MEMORY_GET, MEMORY_SEARCH
from memory_sqlite.runtime.tools import MemoryTools
from memory_sqlite.runtime.visibility import PROVIDER_ID

PLUGIN_ID: Final = PROVIDER_ID
RECALL_TOOL_NAMES: Final = (MEMORY_SEARCH, MEMORY_GET)


def capability(
    agents: Agents,
    provider_runtime: ProviderRuntime,
    clock: Clock,
    *,
    agent_ids: AgentIds = configured_agents,
) -> MemoryCapability:
    """The capability of one plugin instance. ``clock`` tells the day of a note where a host gives no time."""
    return MemoryCapability(
        prompt_builder=build_prompt,
        flush_plan_resolver=FilePlans(clock),
        provider_flush_plan_resolver=tools_plan,
        runtime=LegacyRuntime(agents),
        provider_runtime=provider_runtime,
        public_artifacts=Artifacts(agents, agent_ids),
        recall_tool_names=RECALL_TOOL_NAMES,
        deterministic_recall_tool_name=MEMORY_SEARCH,
        supports_private_transcript_recall=True,
    )


@dataclass(frozen=True)
class MemoryPlugin:
    """All that a host registers of us: the capability for the memory slot, and the tools."""

    capability: MemoryCapability
    tools: tuple[Tool, ...]
    id: str = PLUGIN_ID
    kinds: frozenset[str] = frozenset({"memory"})


def plugin(
    agents: Agents,
    provider_runtime: ProviderRuntime,
    clock: Clock,
    config: Mapping[str, Any],
    *,
    agent_ids: AgentIds = configured_agents,
) -> MemoryPlugin:
    """One plugin instance. ``config`` is the host's configuration, from which the tools read our settings."""
    tools = MemoryTools(provider_runtime, agents, config).tools()
    return MemoryPlugin(capability(agents, provider_runtime, clock, agent_ids=agent_ids), tools)
