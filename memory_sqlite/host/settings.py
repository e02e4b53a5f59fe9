"""What a host's configuration says about plugins: which one owns the memory slot, and which may not register at all.

The configuration is a plain mapping in the contract's own form (camelCase). What has an unexpected type counts as not
said. Not here: the flush's settings (``flush``), a provider's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def selected_memory_plugin(config: Mapping[str, Any]) -> str | None:
    """The id in ``plugins.slots.memory``; ``None`` when it is absent, blank or ``none``: nobody owns the slot."""
    value = _mapping(_mapping(config.get("plugins")).get("slots")).get("memory")
    name = value.strip() if isinstance(value, str) else ""
    return None if name in ("", "none") else name


def is_plugin_enabled(config: Mapping[str, Any], plugin_id: str) -> bool:
    """Whether a plugin may be active.

    Not with ``plugins.enabled: false``, not when it is in ``plugins.deny`` or missing from a ``plugins.allow`` that
    lists any, not with ``plugins.entries.<id>.enabled: false``.
    """
    plugins = _mapping(config.get("plugins"))
    if plugins.get("enabled") is False or plugin_id in _names(plugins.get("deny")):
        return False
    allowed = _names(plugins.get("allow"))
    if allowed and plugin_id not in allowed:
        return False
    return _mapping(_mapping(plugins.get("entries")).get(plugin_id)).get("enabled") is not False


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _names(value: Any) -> tuple[str, ...]:
    return tuple(name for name in value if isinstance(name, str)) if isinstance(value, (list, tuple)) else ()
