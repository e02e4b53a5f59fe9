"""What a legacy manager's status may tell a caller: all of it but the places of the machine.

Those are left out by name, and wherever else one of them stands in a text (an error that names a file). Not here:
calling the manager (``legacy``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from memory_sqlite.host.legacy_values import members

_HIDDEN: Final = ("workspaceDir", "dbPath", "extraPaths")
_HIDDEN_OF_VECTORS: Final = "extensionPath"
_MASK: Final = "(hidden)"


def shown(status: Any) -> tuple[dict[str, Any], str | None]:
    """A status without places, and what failed last (the provider is degraded then)."""
    said = members(status)
    vector = members(said.get("vector"))
    places = _texts([said.get(name) for name in _HIDDEN] + [vector.pop(_HIDDEN_OF_VECTORS, None)])
    kept = {name: value for name, value in said.items() if name not in _HIDDEN}
    if "vector" in kept:
        kept["vector"] = vector
    # the longest first: one place often lies below another
    masked: dict[str, Any] = _masked(kept, sorted(places, key=len, reverse=True))
    failed = masked.get("lastSyncError")
    return masked, failed if isinstance(failed, str) and failed else None


def _texts(values: Sequence[Any]) -> list[str]:
    found: list[str] = []
    for value in values:
        if isinstance(value, str) and value.strip("/"):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += _texts(value)
        elif isinstance(value, Mapping):  # an extra path with a pattern
            found += _texts(list(value.values()))
    return found


def _masked(value: Any, places: Sequence[str]) -> Any:
    if isinstance(value, str):
        for place in places:
            value = value.replace(place, _MASK)
        return value
    if isinstance(value, Mapping):
        return {name: _masked(item, places) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(item, places) for item in value]
    return value
