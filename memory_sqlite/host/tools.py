"""The tools that plugins registered, by plugin, and the caller context of a tool that runs.

Ownership comes from registration alone: two plugins may have a tool of the same name, and neither is the other's. Not
here: which tools a turn may use (policy of the host), the projection of a flush (``flush``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from memory_sqlite import errors
from memory_sqlite.runtime.callers import CallerContext, SessionAuthority
from memory_sqlite.runtime.plugins import Tool, ToolContext
from memory_sqlite.runtime.signals import AbortSignal


class ToolRegistry:
    """Tools by plugin id and name. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tools: dict[tuple[str, str], Tool] = {}

    def register(self, tool: Tool) -> None:
        """Take a tool; a plugin that registers a name again replaces its own. Raises ``ProviderInvalid``."""
        if not tool.name or not tool.plugin_id:
            raise errors.ProviderInvalid("a tool needs a name and the id of its plugin")
        with self._lock:
            self._tools[(tool.plugin_id, tool.name)] = tool

    def unregister(self, plugin_id: str) -> None:
        """All tools of a plugin go."""
        with self._lock:
            for key in [key for key in self._tools if key[0] == plugin_id]:
                del self._tools[key]

    def owned_by(self, plugin_id: str) -> dict[str, Tool]:
        """A plugin's own tools by name."""
        with self._lock:
            return {name: tool for (owner, name), tool in self._tools.items() if owner == plugin_id}

    def get(self, plugin_id: str, name: str) -> Tool | None:
        """One tool of one plugin."""
        with self._lock:
            return self._tools.get((plugin_id, name))

    def all(self) -> tuple[Tool, ...]:
        """Every tool, in the order of registration."""
        with self._lock:
            return tuple(self._tools.values())


def caller_of_tool(
    context: ToolContext, assert_current: Callable[[], None], signal: AbortSignal | None = None
) -> CallerContext:
    """On whose behalf a tool asks a provider: the trusted facts of its turn, the pass among them as it is.

    ``assert_current`` is the run's own check. A tool's arguments are no part of this: nothing that a model said can
    bring an audience or a pass.
    """
    authority = SessionAuthority(
        session_key=context.session_key,
        sandboxed=context.sandboxed,
        session_id=context.session_id,
        audience=context.memory_audience,
        conversation_recall=context.conversation_recall,
    )
    return CallerContext(authority, assert_current, signal)
