"""One loaded instance of a plugin: whether it still takes calls. Thread-safe.

A reload pauses an instance and resumes it or retires it; a retired one never comes back. Not here: draining
(``reload``), what the plugin registered (``slots``).
"""

from __future__ import annotations

from memory_sqlite import errors
from memory_sqlite.runtime.signals import AbortSignal

GONE = "memory provider instance is no longer current"


class PluginInstance:
    """A plugin as it was registered once."""

    def __init__(self, plugin_id: str) -> None:
        self.plugin_id = plugin_id
        self.lifecycle = AbortSignal()
        """Aborted when the instance is retired."""
        self._accepting = True

    @property
    def alive(self) -> bool:
        """Whether it takes calls."""
        return self._accepting and not self.lifecycle.aborted

    def assert_alive(self) -> None:
        """Raise ``ProviderUnavailable`` when it takes no calls."""
        if not self.alive:
            raise errors.ProviderUnavailable(GONE)

    def pause(self) -> None:
        """Take no calls for now: a reload is under way."""
        self._accepting = False

    def resume(self) -> None:
        """Take calls again, when the reload was rolled back or kept it."""
        self._accepting = True

    def retire(self) -> None:
        """Take no calls ever again; calls under way end."""
        self._accepting = False
        self.lifecycle.abort()
