"""Files that the active memory plugin declares public, for companion plugins: the only way to learn of them.

Not here: reading them. What a plugin answers is material: malformed parts are left out, and what is returned is a copy.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from memory_sqlite.host.racing import calling
from memory_sqlite.host.slots import MemorySlot
from memory_sqlite.runtime.plugins import PublicArtifact

_CONTENT_TYPES = ("markdown", "json", "text")
_log = logging.getLogger("memory_sqlite.host.artifacts")


async def list_active_memory_public_artifacts(slot: MemorySlot, config: Mapping[str, Any]) -> list[PublicArtifact]:
    """The declared artifacts, ordered by workspace, relative path, kind, content type, agents and absolute path.

    A result that is no list is ignored with a warning, malformed entries are left out with one warning that counts
    them, and agents that are no list become none. Raises what the plugin raises.
    """
    active = slot.owner() or slot.active()
    if active is None or active.capability.public_artifacts is None:
        return []
    listed = await calling(active.capability.public_artifacts.list_artifacts, config)
    if not isinstance(listed, (list, tuple)):
        _log.warning('plugin "%s" listed artifacts that are no list', active.plugin_id)
        return []
    read = [_artifact(entry) for entry in listed]
    kept = [artifact for artifact in read if artifact is not None]
    if len(kept) < len(read):
        _log.warning('plugin "%s" listed %d malformed artifacts', active.plugin_id, len(read) - len(kept))
    return sorted(kept, key=_order)


def _order(artifact: PublicArtifact) -> tuple[str, ...]:
    return (
        artifact.workspace_dir,
        artifact.relative_path,
        artifact.kind,
        artifact.content_type,
        ",".join(artifact.agent_ids),
        artifact.absolute_path,
    )


def _artifact(entry: Any) -> PublicArtifact | None:
    """A copy of one entry: of the class, or a mapping with the wire's names."""
    if isinstance(entry, PublicArtifact):
        values: list[Any] = [entry.workspace_dir, entry.relative_path, entry.kind, entry.content_type]
        agents: Any = entry.agent_ids
        absolute: Any = entry.absolute_path
    elif isinstance(entry, Mapping):
        values = [entry.get(name) for name in ("workspaceDir", "relativePath", "kind", "contentType")]
        agents, absolute = entry.get("agentIds"), entry.get("absolutePath")
    else:
        return None
    if not all(isinstance(value, str) and value for value in (*values, absolute)) or values[3] not in _CONTENT_TYPES:
        return None
    named = tuple(agent for agent in agents if isinstance(agent, str)) if isinstance(agents, (list, tuple)) else ()
    return PublicArtifact(values[0], values[1], values[2], values[3], named, absolute)
