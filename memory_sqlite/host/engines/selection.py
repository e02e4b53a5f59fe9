"""Which engine: the one that is configured, or the legacy path and why.

A run that is no logical turn (a compaction, a sub-agent's spawn) respects quarantine. A logical turn does not: it tries
the configured engine afresh each time. Resolving never changes the configuration. Called by ``engine_host`` and
``logical_turn``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from memory_sqlite import errors
from memory_sqlite.context.shapes import ContextEngine
from memory_sqlite.host.engines.bounded import Waits
from memory_sqlite.host.engines.hosted import HostedEngine
from memory_sqlite.host.engines.legacy_engine import LegacyEngine
from memory_sqlite.host.engines.registry import LEGACY, EngineRegistry, FactoryContext, Registration
from memory_sqlite.host.engines.requirements import Operation, lacking
from memory_sqlite.host.racing import ends_of, raced
from memory_sqlite.runtime.signals import AbortSignal

_log: Final = logging.getLogger("memory_sqlite.host.engines.selection")
HOST: Final = "host"
"""The owner of the legacy path."""


def configured(config: Mapping[str, Any]) -> str:
    """The engine that the host's configuration names: ``plugins.slots.contextEngine``, by default ``legacy``."""
    value: Any = config
    for name in ("plugins", "slots", "contextEngine"):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value.strip() if isinstance(value, str) and value.strip() else LEGACY


class Selection:
    """Makes hosted engines for one host."""

    def __init__(
        self,
        registry: EngineRegistry,
        config: Mapping[str, Any],
        *,
        legacy: LegacyEngine,
        capabilities: frozenset[str],
        context: FactoryContext,
        waits: Waits,
    ) -> None:
        self.registry = registry
        self.capabilities = capabilities
        self._config = config
        self._context = context
        self._waits = waits
        self.legacy = HostedEngine(legacy, registry, engine_id=LEGACY, owner_id=HOST, waits=waits)

    @property
    def engine_id(self) -> str:
        """The id that is configured now."""
        return configured(self._config)

    async def make(self, registration: Registration, signal: AbortSignal | None = None) -> HostedEngine:
        """A new instance. A factory that fails, or returns what is no engine, is raised, and quarantines the engine.

        Raises ``Cancelled`` when the caller aborts, which is no failure; an engine that is made all the same goes.
        """
        engine_id = registration.engine_id

        def hosted(engine: ContextEngine) -> HostedEngine:
            owner_id, waits = registration.owner_id, self._waits
            return HostedEngine(engine, self.registry, engine_id=engine_id, owner_id=owner_id, waits=waits)

        async def too_late(engine: ContextEngine) -> None:
            await hosted(engine).leave()

        try:
            return hosted(await raced(registration.make(self._context), ends_of(signal), too_late))
        except Exception as error:
            if signal is not None:
                signal.raise_if_aborted()
            if self.registry.quarantine(engine_id, f"its factory failed: {type(error).__name__}"):
                said = f": {error}" if isinstance(error, errors.ProviderInvalid) else f" ({type(error).__name__})"
                _log.warning("context engine %r could not be made%s", engine_id, said)
            raise

    async def for_run(self, operation: Operation, signal: AbortSignal | None = None) -> HostedEngine:
        """The engine of one run or compaction; the legacy path where the configured one is unknown or quarantined.

        Raises ``ProviderRefused`` when the host lacks a capability that the engine requires for the operation, and
        ``Cancelled``.
        """
        registration = self.registry.get(self.engine_id)
        if registration is None or self.registry.quarantined(registration.engine_id) is not None:
            return self.legacy
        try:
            hosted = await self.make(registration, signal)
        except Exception:
            if signal is not None:
                signal.raise_if_aborted()
            return self.legacy
        try:
            lacks = lacking(hosted.info, operation, self.capabilities)
        except Exception as error:
            hosted.fail("info", error)
            hosted.leave()
            return self.legacy
        if lacks is not None:
            hosted.leave()
            raise errors.ProviderRefused(lacks)
        return hosted

    async def of(self, engine_id: str, owner_id: str) -> HostedEngine | None:
        """A new instance of the engine that a kept turn is meant for; ``None`` when that owner has none (any more)."""
        registration = self.registry.get(engine_id)
        if registration is None or registration.owner_id != owner_id:
            return None
        try:
            return await self.make(registration)
        except Exception:
            return None
