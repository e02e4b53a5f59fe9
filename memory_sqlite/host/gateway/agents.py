"""Which agent a request is for: its id as ids are compared, and only one that the host's configuration has.

A request that only reads must not bring up storage for an agent that somebody made up: it is refused before any memory
is asked. Not here: session keys, audiences.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from memory_sqlite import errors, limits

DEFAULT: Final = "main"
UNKNOWN: Final = "unknown agentId"
_OTHER: Final = re.compile(r"[^a-z0-9_-]+")
_UPPER: Final = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


def normalized(agent_id: str) -> str:
    """An id as ids are compared: ASCII lower case, other characters as single dashes, none at the ends, bounded; empty
    when nothing is left."""
    name = _OTHER.sub("-", agent_id.strip().translate(_UPPER)).strip("-")
    return name[: limits.AGENT_ID_MAX_CHARS].rstrip("-")


def configured(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The ids in ``agents.entries`` (a mapping) or else ``agents.list`` (objects with ``id``); ``main`` for none."""
    return tuple(dict.fromkeys(name for name, _ in _entries(config))) or (DEFAULT,)


def selected(config: Mapping[str, Any], said: str | None) -> str:
    """The configured agent that was named, else the default one: the one marked ``default``, else the first.

    Raises ``InvalidArgument``: ``unknown agentId``; and when nobody is the default because ``agents.ownership`` is
    ``explicit`` and there are several.
    """
    agents = configured(config)
    if said is not None:
        name = normalized(said)
        if not name or name not in agents:
            raise errors.InvalidArgument(UNKNOWN)
        return name
    marked = [name for name, entry in _entries(config) if entry.get("default") is True]
    if marked:
        return marked[0]
    if len(agents) > 1 and _mapping(config.get("agents")).get("ownership") == "explicit":
        raise errors.InvalidArgument(
            "agent selection required: pass agentId to select a configured agent", hint=f"One of {', '.join(agents)}."
        )
    return agents[0]


def _entries(config: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    agents = _mapping(config.get("agents"))
    entries = agents.get("entries")
    if isinstance(entries, Mapping) and entries:
        named = [(name, _mapping(entry)) for name, entry in entries.items()]
    else:
        listed = agents.get("list")
        told = [_mapping(entry) for entry in listed] if isinstance(listed, list | tuple) else []
        named = [(entry.get("id"), entry) for entry in told]
    return [(name, entry) for said, entry in named if isinstance(said, str) and (name := normalized(said))]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
