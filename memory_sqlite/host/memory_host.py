"""The host of a memory provider, whole: the slot, the session rows, audiences, tools, and opening for a caller.

Works with anybody's provider. Not here: the flush (``flush``), gateway methods, recall lanes, context engines; they
take a ``MemoryHost``. A host written in Python makes one and keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from memory_sqlite import errors
from memory_sqlite.host import legacy_open
from memory_sqlite.host.audiences import Audiences
from memory_sqlite.host.binding import NO_PLUGIN, bind
from memory_sqlite.host.caller_checks import BoundCaller
from memory_sqlite.host.contributions import BAD_RUNTIME
from memory_sqlite.host.lineage import agent_of_key
from memory_sqlite.host.session_rows import SessionRow, SessionRows
from memory_sqlite.host.slots import ActiveMemory, Loader, MemorySlot
from memory_sqlite.host.tools import ToolRegistry
from memory_sqlite.runtime.callers import MemoryAudience
from memory_sqlite.runtime.plugins import PromptRequest, ToolContext
from memory_sqlite.runtime.shapes import OpenRequest, OpenResult

NO_IDENTITY = "memory provider identity unavailable"


class MemoryHost:
    """One host. Thread-safe as far as its parts are; a handle belongs to the event loop it was opened in."""

    def __init__(
        self,
        config: Mapping[str, Any],
        rows: SessionRows | None = None,
        *,
        load: Loader | None = None,
        agent_of: Callable[[str], str | None] = agent_of_key,
    ) -> None:
        """``config`` is the host's whole configuration, in the contract's camelCase form; plugins get it as it is.

        ``load`` loads the slot's plugin when it has not registered; ``agent_of`` says whose session a key names.
        """
        self.config = config
        self.rows = rows if rows is not None else SessionRows()
        self.slot = MemorySlot(config, load=load)
        self.audiences = Audiences(self.rows, agent_of=agent_of)
        self.tools = ToolRegistry()

    async def open(self, request: OpenRequest) -> OpenResult:
        """Open the slot owner's provider for a caller: the native one, or, only where none is declared, the legacy
        runtime behind an adapter. Without an owner, or when the provider declines, ``provider`` is ``None`` and
        ``error`` says why.

        Raises ``CallerNotCurrent``, ``CurrencyUnavailable``, ``Cancelled``, ``ProviderInvalid``,
        ``ProviderUnavailable`` and what the provider raises; a failure never leads to another storage.
        """
        caller = BoundCaller(self.audiences, request.context)
        await caller.current()
        owner = self.slot.owner()
        if owner is None:
            return OpenResult(None, NO_PLUGIN)
        native = owner.capability.provider_runtime
        if native is not None and not callable(getattr(native, "open", None)):
            raise errors.ProviderInvalid(BAD_RUNTIME)
        runtime = owner.capability.runtime
        if native is None and runtime is None:
            return OpenResult(None, NO_PLUGIN, owner.plugin_id or None)
        if not owner.plugin_id.strip():
            return OpenResult(None, NO_IDENTITY)
        given = OpenRequest(request.agent_id, caller.context, request.purpose, request.config or self.config)

        async def open_native() -> OpenResult:
            assert native is not None
            return await native.open(given)

        async def open_legacy() -> OpenResult:
            return await legacy_open.open_legacy(runtime, given, owner.plugin_id)

        return await bind(
            open_legacy if native is None else open_native,
            provider_id=owner.plugin_id,
            adapter="legacy" if native is None else "native",
            caller=caller,
            instance=owner.instance,
        )

    async def turn_audience(
        self,
        *,
        agent_id: str,
        session_key: str,
        session_id: str,
        sender_is_owner: bool,
        row: SessionRow | None = None,
    ) -> MemoryAudience | None:
        """The audience of a turn; ``None`` when it is denied (which is logged) and for everything but a native owner,
        for whom no lineage is read."""
        if not self.is_native:
            return None
        try:
            return await self.audiences.resolve(
                agent_id=agent_id,
                session_key=session_key,
                session_id=session_id,
                sender_is_owner=sender_is_owner,
                row=row,
            )
        except errors.AudienceDenied:
            return None

    def tool_context(self, facts: ToolContext, audience: MemoryAudience | None) -> ToolContext:
        """The context of a turn's tools, or of its hooks: the trusted facts with the audience and its check."""
        guard = None if audience is None else self.audiences.guard(audience, facts.session_key)
        return replace(facts, memory_audience=audience, assert_memory_audience_current=guard)

    @property
    def is_native(self) -> bool:
        """Whether the slot owner declares a provider runtime."""
        owner: ActiveMemory | None = self.slot.owner()
        return owner is not None and owner.capability.provider_runtime is not None

    def prompt_lines(self, request: PromptRequest) -> list[str]:
        """The active memory's lines for a prompt; what is no string is left out."""
        active = self.slot.owner() or self.slot.active()
        if active is None or active.capability.prompt_builder is None:
            return []
        lines: Any = active.capability.prompt_builder(request)
        return [line for line in lines if isinstance(line, str)] if isinstance(lines, (list, tuple)) else []
