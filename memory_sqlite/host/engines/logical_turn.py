"""Beginning a logical turn: on the configured engine where everything for a durable turn is there, else on legacy.

What sends a turn to the legacy path: a declaration that is missing, a capability that the host lacks, no receipt of the
admission, a target that has changed, turns that have not reached the engine yet, a fence that does not stand, or an
outbox that cannot keep the turn. It is said once, and it holds for the turn and all its retries. Called by
``engine_host``; the turn itself is ``turn``.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import Final

from memory_sqlite import errors, limits
from memory_sqlite.host.engines.fence import Fences, ReadFence
from memory_sqlite.host.engines.hosted import HostedEngine
from memory_sqlite.host.engines.outbox import TurnOutbox
from memory_sqlite.host.engines.registry import LEGACY
from memory_sqlite.host.engines.requirements import lacking, undeclared
from memory_sqlite.host.engines.selection import Selection
from memory_sqlite.host.engines.transcript_reader import TranscriptReader
from memory_sqlite.host.engines.turn import EngineTurn, TurnRequest, TurnServices
from memory_sqlite.host.engines.turn_rows import AdmittedTurn

_log: Final = logging.getLogger("memory_sqlite.host.engines.logical_turn")


class _Degraded(Exception):
    """Carries the reason; never leaves this module."""


class DegradedTurns:
    """Which logical turns run on the legacy path, so that their retries do; the oldest are forgotten."""

    def __init__(self) -> None:
        self._reasons: OrderedDict[str, str] = OrderedDict()

    def reason(self, logical_turn_id: str) -> str | None:
        """Why a turn runs on the legacy path, or ``None``."""
        return self._reasons.get(logical_turn_id)

    def note(self, engine_id: str, logical_turn_id: str | None, reason: str) -> None:
        """Say it, once for a turn, and remember it."""
        if logical_turn_id is not None:
            if logical_turn_id in self._reasons:
                return
            self._reasons[logical_turn_id] = reason
            if len(self._reasons) > limits.DEGRADED_TURNS_KEPT:
                self._reasons.popitem(last=False)
        _log.warning("a turn runs without context engine %r: %s", engine_id, reason)


class LogicalTurns:
    """Begins turns for one host."""

    def __init__(
        self,
        selection: Selection,
        services: TurnServices,
        fences: Fences,
        degraded: DegradedTurns,
        *,
        outbox: TurnOutbox | None,
        reader: TranscriptReader | None,
    ) -> None:
        self._selection = selection
        self.services = services
        self._fences = fences
        self._degraded = degraded
        self._outbox = outbox
        self._reader = reader

    async def begin(self, request: TurnRequest) -> EngineTurn:
        """The turn, on its engine or on the legacy path. Raises ``Cancelled`` and nothing else."""
        legacy = self._selection.legacy
        if request.signal is not None:
            request.signal.raise_if_aborted()
        if self._selection.engine_id == LEGACY:
            return EngineTurn(request, legacy, legacy, self.services)
        engine: HostedEngine | None = None
        fence: ReadFence | None = None
        try:
            self._receipt(request)
            engine = await self._engine(request)
            fence = await self._fence(request)
            admitted = await self._admit(request, engine)
        except _Degraded as error:
            reason = str(error)
            self.services.degraded(request.turn_id, reason)
            self.services.ended(None, fence)
            if engine is not None:
                engine.leave()
            return EngineTurn(request, legacy, legacy, self.services, degraded=reason)
        except BaseException:  # the caller aborted, or its task was cancelled: nothing of the turn stays behind
            self.services.ended(None, fence)
            if engine is not None:
                engine.leave()
            raise
        return EngineTurn(request, engine, legacy, self.services, admitted=admitted, fence=fence)

    def _receipt(self, request: TurnRequest) -> None:
        admission = request.admission
        if admission is None:
            raise _Degraded("the admission receipt is missing")
        if request.turn_id is None:
            raise _Degraded("the admission receipt has no id that can be an advancement key")
        known = self._degraded.reason(request.turn_id)
        if known is not None:
            raise _Degraded(known)
        anchor = admission.anchor
        if (anchor.agent_id, anchor.session_key, anchor.session_id, anchor.store_path) != (
            request.agent_id,
            request.session_key,
            request.session_id,
            request.store_path,
        ):
            raise _Degraded("the turn's target has changed since it was admitted")

    async def _engine(self, request: TurnRequest) -> HostedEngine:
        registration = self._selection.registry.get(self._selection.engine_id)
        if registration is None:
            raise _Degraded("it is not registered")
        try:
            engine = await self._selection.make(registration, request.signal)
        except Exception as error:
            if request.signal is not None:
                request.signal.raise_if_aborted()
            raise _Degraded("it could not be made") from error
        try:
            problem = undeclared(engine.engine) or lacking(engine.info, "agent-run", self._selection.capabilities)
        except Exception:  # whatever a plugin declares is looked at here for the first time
            problem = "what it declares cannot be read"
        if problem is not None:
            engine.leave()
            raise _Degraded(problem)
        return engine

    async def _fence(self, request: TurnRequest) -> ReadFence:
        if self._outbox is None or self._reader is None:
            raise _Degraded("the host has no turn outbox")
        assert request.admission is not None
        fence = ReadFence(request.admission, self._reader)
        try:
            await asyncio.to_thread(fence.check)
        except errors.FenceBroken as error:
            raise _Degraded(str(error)) from error
        except Exception as error:
            raise _Degraded("the transcript cannot be read") from error
        self._fences.put(fence)
        return fence

    async def _admit(self, request: TurnRequest, engine: HostedEngine) -> AdmittedTurn:
        assert self._outbox is not None and request.admission is not None
        admitted = AdmittedTurn(request.admission, engine.engine_id, engine.owner_id)
        try:
            if await self._pending(engine, request):
                raise _Degraded("earlier turns have not reached it yet")
            await asyncio.to_thread(self._outbox.admit, admitted)
        except errors.AdvancementCollision as error:
            _log.error("a turn collides with another one of the same advancement key")
            raise _Degraded("its advancement key is in use for another turn, engine or owner") from error
        except _Degraded:
            raise
        except Exception as error:
            said = getattr(error, "code", type(error).__name__)
            raise _Degraded(f"the turn cannot be kept for it ({said})") from error
        return admitted

    async def _pending(self, engine: HostedEngine, request: TurnRequest) -> bool:
        assert self._outbox is not None
        await self.services.recover(engine, request.session_key)
        mine = (request.session_key, engine.engine_id, engine.owner_id)
        return await asyncio.to_thread(self._outbox.is_pending, *mine)
