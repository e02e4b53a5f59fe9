"""The tools that recall by itself may use, and whether a turn may be recalled for by trigger.

Precedence: an explicit valid list, else what the slot's owner declares, else the built-in two; then the policy of the
turn that recall is for. Not here: running the tools, declaring them (``runtime.capability``), recalling by trigger
(``consumers.trigger_recall``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from memory_sqlite import limits
from memory_sqlite.host.slots import ActiveMemory

FALLBACK: Final = ("memory_search", "memory_get")
RESERVED: Final = frozenset(
    {
        *("agents_list", "apply_patch", "browser", "canvas", "cron", "edit", "exec", "gateway", "heartbeat_respond"),
        *("heartbeat_response", "image", "image_generate", "message", "music_generate", "nodes", "pdf", "process"),
        *("progress_card", "read", "session_status", "sessions_history", "sessions_list", "sessions_send"),
        *("sessions_spawn", "sessions_yield", "subagents", "tts", "update_plan", "video_generate", "web_fetch"),
        *("web_search", "write"),
    }
)
"""Core tools of the product (2026.9.6): recall can never be given one of these."""

Allows = Callable[[str], bool]
"""Whether the turn's tool policy lets it use a tool."""


def explicit_tools(value: Any) -> tuple[str, ...] | None:
    """A configured ``toolsAllow`` as names: trimmed, in lower case, once each, at most ``limits.RECALL_TOOLS_MAX``.

    ``*``, groups and reserved core tools are left out; ``None`` when nothing is left: then nothing was configured.
    """
    if not isinstance(value, list | tuple):
        return None
    named = (entry.strip().lower() for entry in value if isinstance(entry, str))
    kept = tuple(dict.fromkeys(name for name in named if name and not _is_reserved(name)))
    return kept[: limits.RECALL_TOOLS_MAX] or None


def _is_reserved(name: str) -> bool:
    return name == "*" or name.startswith("group:") or name in RESERVED


def deep_recall_tools(owner: ActiveMemory | None, tools_allow: Any, allows: Allows) -> tuple[str, ...]:
    """The tools that a deep recall gets. A partial list runs; an empty one means that it is skipped."""
    declared = owner.capability.recall_tool_names if owner is not None and owner.slot_selected else None
    names = explicit_tools(tools_allow) or (FALLBACK if declared is None else tuple(declared))
    return tuple(name for name in names if allows(name))


def trigger_lane_is_open(owner: ActiveMemory, allows: Allows) -> bool:
    """Whether a turn may be recalled for by trigger.

    A native owner must declare recall tools and the turn be allowed every one of them; of a legacy owner the
    deterministic recall tool is what counts.
    """
    if not owner.slot_selected:
        return False
    if owner.capability.provider_runtime is not None:
        declared = owner.capability.recall_tool_names or ()
        return bool(declared) and all(allows(name) for name in declared)
    name = owner.capability.deterministic_recall_tool_name
    return bool(name) and allows(str(name))
