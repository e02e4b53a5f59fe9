"""The agents' notes as files that others may know of: where they lie, and whose they are.

Others learn of them through the host alone (``host.artifacts``). Only notes inside of a workspace: an extra path
elsewhere is the owner's own affair. Nothing is opened. Registered by ``capability``.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from memory_sqlite import errors
from memory_sqlite.runtime.agents import Agents
from memory_sqlite.runtime.plugins import PublicArtifact
from memory_sqlite.sources.discovery import discover
from memory_sqlite.sources.places import CURATED, FOLDER

AgentIds = Callable[[Mapping[str, Any]], Sequence[str]]
"""Which agents there are, by the host's configuration."""
_DEFAULT_AGENT: Final = "main"


class Artifacts:
    """What our plugin registers as ``public_artifacts``."""

    def __init__(self, agents: Agents, agent_ids: AgentIds) -> None:
        self._agents = agents
        self._agent_ids = agent_ids

    async def list_artifacts(self, config: Mapping[str, Any]) -> list[PublicArtifact]:
        """Every note once, in the contract's order; agents that share a workspace are named together. An agent whose
        memory is disabled has none. Raises the store's errors."""
        return await asyncio.to_thread(self._list, config)

    def _list(self, config: Mapping[str, Any]) -> list[PublicArtifact]:
        owners: dict[str, list[str]] = {}
        extras: dict[str, Sequence[Any]] = {}
        for agent_id in self._agent_ids(config):
            try:
                opened = self._agents.rooms(agent_id).opened
            except errors.ProviderUnavailable:
                continue
            if opened.workspace is not None and opened.workspace.is_dir():
                place = os.path.abspath(opened.workspace)  # noqa: PTH100 - `resolve` would follow links
                owners.setdefault(place, []).append(agent_id)
                extras[place] = (*extras.get(place, ()), *opened.settings.extra_paths)
        found = [
            artifact
            for place, agent_ids in owners.items()
            for artifact in _of_workspace(place, tuple(sorted(agent_ids)), extras[place])
        ]
        return sorted(found)


def _of_workspace(place: str, agent_ids: tuple[str, ...], extra_paths: Sequence[Any]) -> list[PublicArtifact]:
    from pathlib import Path

    return [
        PublicArtifact(place, note.path, _kind(note.path), "markdown", agent_ids, f"{place}/{note.path}")
        for note in discover(Path(place), extra_paths).places
        if not note.path.startswith("/")
    ]


def _kind(path: str) -> str:
    """The kinds that companion plugins of the product know: what is curated, what is kept by day, anything else."""
    if path in CURATED:
        return "memory-root"
    return "daily-note" if path.startswith(f"{FOLDER}/") else "note"


def configured_agents(config: Mapping[str, Any]) -> list[str]:
    """The ids of ``agents.list`` in a host's configuration, else the default agent."""
    agents = config.get("agents")
    listed = agents.get("list") if isinstance(agents, Mapping) else None
    entries = listed if isinstance(listed, list | tuple) else ()
    ids = [entry.get("id") for entry in entries if isinstance(entry, Mapping)]
    named = [one.strip() for one in ids if isinstance(one, str) and one.strip()]
    return list(dict.fromkeys(named)) or [_DEFAULT_AGENT]
