"""The engines that plugins have registered, and those that this process has stopped using.

An id belongs to the plugin that registered it first; ``legacy`` is the host's own. A factory is asked for a new engine
for each logical turn or run, and what it returns is checked before anything of it is called. Called by plugins (to
register) and by ``selection``.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from memory_sqlite import errors
from memory_sqlite.context.shapes import ContextEngine
from memory_sqlite.host.engines.instances import Instances
from memory_sqlite.host.engines.requirements import contract_gaps

LEGACY: Final = "legacy"
"""The id of the host's own context path, reserved."""


@dataclass(frozen=True)
class FactoryContext:
    """What a factory is told; all of it is optional."""

    config: Mapping[str, Any] = field(default_factory=dict)
    agent_dir: str | None = None
    workspace_dir: str | None = None


EngineFactory = Callable[[FactoryContext], ContextEngine | Awaitable[ContextEngine]]


@dataclass(frozen=True)
class Registration:
    """Who registered an engine, and how it is made."""

    engine_id: str
    owner_id: str
    factory: EngineFactory

    async def make(self, context: FactoryContext) -> ContextEngine:
        """A new engine. Raises what the factory raises, and ``ProviderInvalid`` naming what the engine lacks."""
        made: Any = self.factory(context)
        if inspect.isawaitable(made):
            made = await made
        if gaps := contract_gaps(made):
            raise errors.ProviderInvalid(f"context engine {self.engine_id!r} lacks {', '.join(gaps)}")
        engine: ContextEngine = made
        return engine


class EngineRegistry:
    """Registered engines by id. Thread-safe; one for a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._registered: dict[str, Registration] = {}
        self._quarantined: dict[str, str] = {}
        self.instances = Instances()

    def register(self, engine_id: str, factory: EngineFactory, *, plugin_id: str) -> None:
        """Register an engine; the same plugin may do so again, with another factory.

        Raises ``InvalidArgument`` for a blank id or a factory that cannot be called, ``ProviderRefused`` for an id that
        is reserved or belongs to another plugin.
        """
        if not isinstance(engine_id, str) or not (engine_id := engine_id.strip()):
            raise errors.InvalidArgument("the id of a context engine must be a string that is not blank")
        if not callable(factory):
            raise errors.InvalidArgument("a context engine is registered with a factory")
        if engine_id == LEGACY:
            raise errors.ProviderRefused(f"the context engine id {LEGACY!r} is reserved")
        with self._lock:
            known = self._registered.get(engine_id)
            if known is not None and known.owner_id != plugin_id:
                raise errors.ProviderRefused(
                    f"the context engine id {engine_id!r} belongs to plugin {known.owner_id!r}"
                )
            self._registered[engine_id] = Registration(engine_id, plugin_id, factory)

    def unregister(self, engine_id: str, *, plugin_id: str) -> bool:
        """Take a plugin's engine away; whether there was one of that plugin."""
        with self._lock:
            known = self._registered.get(engine_id)
            if known is None or known.owner_id != plugin_id:
                return False
            del self._registered[engine_id]
            return True

    def get(self, engine_id: str) -> Registration | None:
        """Who registered an id, or ``None``."""
        with self._lock:
            return self._registered.get(engine_id)

    def quarantine(self, engine_id: str, why: str) -> bool:
        """Stop using an engine in this process; ``False`` when that was so already. ``why`` is no text of a memory."""
        with self._lock:
            if engine_id in self._quarantined:
                return False
            self._quarantined[engine_id] = why
            return True

    def quarantined(self, engine_id: str) -> str | None:
        """Why an engine is not used any more, or ``None``."""
        with self._lock:
            return self._quarantined.get(engine_id)
