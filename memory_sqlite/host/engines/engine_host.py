"""The host's side of context engines in one object: turns, compaction, sub-agents, delivery.

Everything else in this package is its parts. Give it a registry of engines, the host's configuration, an outbox and the
host's transcripts; a host without the latter two has no durable turns, and its turns run on the legacy path unless
no other engine is configured. Belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from memory_sqlite import errors
from memory_sqlite.context.shapes import CompactResult, DeltaMissing, DeltaResult, TurnAnchor
from memory_sqlite.host.engines import finalising, recovery
from memory_sqlite.host.engines.bounded import Waits, first
from memory_sqlite.host.engines.drain import Drain, DrainReport
from memory_sqlite.host.engines.fence import Fences, ReadFence
from memory_sqlite.host.engines.host_params import DELEGATE
from memory_sqlite.host.engines.hosted import HostedEngine
from memory_sqlite.host.engines.legacy_engine import Compaction, LegacyEngine
from memory_sqlite.host.engines.logical_turn import DegradedTurns, LogicalTurns
from memory_sqlite.host.engines.outbox import TurnOutbox
from memory_sqlite.host.engines.registry import EngineRegistry, FactoryContext
from memory_sqlite.host.engines.requirements import EMBEDDED
from memory_sqlite.host.engines.selection import Selection
from memory_sqlite.host.engines.transcript_reader import TranscriptReader
from memory_sqlite.host.engines.turn import EngineTurn, TurnOutcome, TurnRequest, TurnServices
from memory_sqlite.host.engines.turn_rows import AdmittedTurn, OutboxRow, session_target
from memory_sqlite.runtime.signals import AbortSignal

_log: Final = logging.getLogger("memory_sqlite.host.engines.engine_host")


class EngineHost:
    """Hosts the configured engine for one agent's sessions."""

    def __init__(
        self,
        registry: EngineRegistry,
        config: Mapping[str, Any],
        *,
        outbox: TurnOutbox | None = None,
        transcripts: TranscriptReader | None = None,
        deltas: Callable[..., DeltaResult] | None = None,
        compaction: Compaction | None = None,
        capabilities: frozenset[str] = EMBEDDED,
        context: FactoryContext | None = None,
        waits: Waits | None = None,
    ) -> None:
        """``deltas`` reads a transcript on for engines (``context.deltas.read_delta`` does, bound to its rooms);
        ``compaction`` is the host's own; ``capabilities`` what it can do (``requirements``)."""
        self._waits = waits or Waits()
        self._outbox = outbox
        self._reader = transcripts
        self._deltas = deltas
        self._compaction = compaction
        self._fences = Fences()
        self._running: set[str] = set()
        self._delivering: dict[str, asyncio.Task[None]] = {}
        self._overdue: set[asyncio.Task[None]] = set()
        self._selection = Selection(
            registry,
            config,
            legacy=LegacyEngine(compaction),
            capabilities=capabilities,
            context=context or FactoryContext(config=config),
            waits=self._waits,
        )
        degraded = DegradedTurns()
        services = TurnServices(
            degraded=lambda turn_id, why: degraded.note(self._selection.engine_id, turn_id, why),
            accept=self._accept,
            discard=self._discard,
            deliver=self._deliver,
            recover=self._recover,
            ended=self._ended,
        )
        self._turns = LogicalTurns(self._selection, services, self._fences, degraded, outbox=outbox, reader=transcripts)

    # --- turns -------------------------------------------------------------------------------------------------------

    async def begin_turn(self, request: TurnRequest) -> EngineTurn:
        """Begin a logical turn. The host alone runs the session meanwhile. Raises ``Cancelled`` only."""
        key = request.turn_id
        if key is None:
            return await self._turns.begin(request)
        self._running.add(key)  # before it is admitted: nobody's recovery here may take it for a leftover
        try:
            turn = await self._turns.begin(request)
        except BaseException:
            self._running.discard(key)
            raise
        if not turn.durable:
            self._running.discard(key)
        return turn

    async def begin_run(self, request: TurnRequest) -> EngineTurn:
        """Begin a run that is no admitted turn: one engine, the legacy path when it is quarantined, never durable.

        Raises ``ProviderRefused`` when the host lacks a capability that the engine requires, and ``Cancelled``.
        """
        engine = await self._selection.for_run("agent-run", request.signal)
        return EngineTurn(request, engine, self._selection.legacy, self._turns.services)

    def fence_of(self, agent_id: str, session_key: str) -> ReadFence | None:
        """The fence at which an engine's reads of a session end, while a turn of it runs."""
        return self._fences.of(agent_id, session_key, None)

    async def transcript_delta(self, *, agent_id: str, session_key: str, session_id: str, **params: Any) -> DeltaResult:
        """What an engine reads of a session's transcript (section 4.6); while a turn of it runs, it ends before the
        admitted entry. Raises ``FenceBroken`` when that cannot be, ``InvalidArgument`` for limits out of range."""
        if self._deltas is None:
            return DeltaMissing()
        fence = self._fences.of(agent_id, session_key, session_id)
        if fence is None:
            return await asyncio.to_thread(self._deltas, session_key=session_key, session_id=session_id, **params)
        return await asyncio.to_thread(
            fence.read, self._deltas, session_key=session_key, session_id=session_id, **params
        )

    # --- other operations --------------------------------------------------------------------------------------------

    async def compact(self, params: Mapping[str, Any], signal: AbortSignal | None = None) -> CompactResult:
        """Let the engine of this compaction compact. Failures are raised, and quarantine the engine.

        An engine that does not own compaction is given the host's, to delegate to. Raises ``EngineTimedOut`` when the
        host's time is over, ``Cancelled``, ``ProviderRefused``.
        """
        engine = await self._selection.for_run("manual-compact", signal)
        context = dict(params.get("runtime_context") or {})
        if self._compaction is not None and not engine.is_legacy:
            context.setdefault(DELEGATE, self._compaction)
        try:
            return await engine.compact({**params, "runtime_context": context}, signal)
        finally:
            await self._let_go(engine)

    async def prepare_subagent_spawn(self, params: Mapping[str, Any], signal: AbortSignal | None = None) -> Any:
        """Tell the engine that a sub-agent is about to be spawned: what it answers (an object with ``rollback``, or
        nothing). Failures are raised, and quarantine the engine."""
        engine = await self._selection.for_run("subagent-spawn", signal)
        try:
            if not engine.has("prepare_subagent_spawn"):
                return None
            return await engine.call("prepare_subagent_spawn", params, lambda answer: answer, signal)
        finally:
            await self._let_go(engine)

    async def on_subagent_ended(self, child_session_key: str, reason: str) -> None:
        """Tell the engine that a sub-agent has ended. Raises nothing of it."""
        try:
            engine = await self._selection.for_run("subagent-spawn")
        except errors.ProviderRefused:
            return
        try:
            if engine.has("on_subagent_ended"):
                params = {"child_session_key": child_session_key, "reason": reason}
                await engine.call("on_subagent_ended", params, lambda answer: None)
        except Exception as error:
            _log.warning("context engine %r failed in onSubagentEnded (%s)", engine.engine_id, type(error).__name__)
        finally:
            await self._let_go(engine)

    # --- delivery ----------------------------------------------------------------------------------------------------

    async def drain(self, session_key: str | None = None) -> DrainReport:
        """Deliver waiting turns once (16 rows over all sessions). Raises the store's errors."""
        if self._outbox is None or self._reader is None:
            return DrainReport()
        engines: dict[tuple[str, str], HostedEngine] = {}
        try:
            return await self._drain(self._outbox, self._reader, engines).run(session_key)
        finally:
            for engine in engines.values():
                await self._let_go(engine)

    async def recover_all(self) -> None:
        """What a host does when it starts and nobody else runs any session: give up what was only admitted, deliver
        the rest. Raises the store's errors."""
        if self._outbox is not None:
            await recovery.discard_unaccepted(self._outbox, None, frozenset(self._running))
            while (await self.drain()).advanced:
                pass

    async def settle(self) -> None:
        """Return when no delivery is under way."""
        while self._delivering:
            await asyncio.wait(set(self._delivering.values()))

    async def close(self) -> None:
        """Wait for deliveries as long as the foreground may; what is not delivered then is kept for the next start."""
        await first(asyncio.ensure_future(self.settle()), self._waits.timer(self._waits.foreground_s))

    def _drain(
        self, outbox: TurnOutbox, reader: TranscriptReader, engines: dict[tuple[str, str], HostedEngine]
    ) -> Drain:
        """A drain with these engines at hand; those it has to make are added to them."""

        async def engine_for(turn: AdmittedTurn) -> HostedEngine | None:
            place = (turn.engine_id, turn.owner_id)
            if place not in engines:
                made = await self._selection.of(*place)
                if made is None:
                    return None
                engines[place] = made
            return engines[place]

        return Drain(outbox, reader, engine_for, self._acknowledged)

    async def _acknowledged(self, row: OutboxRow, engine: HostedEngine) -> None:
        anchor = row.turn.admission.anchor
        await finalising.maintain(
            engine,
            {
                "session_id": anchor.session_id,
                "session_key": anchor.session_key,
                "session_file": anchor.store_path,
                "session_target": session_target(anchor),
            },
            "turn",
        )

    async def _deliver(self, engine: HostedEngine, session_key: str) -> None:
        """Deliver the session's turns; go on beside the caller when that takes longer than the foreground waits."""
        while (task := self._delivering.get(session_key)) is not None:
            # one that is under way may have looked at the queue before there was something new in it
            if not await self._wait_for(task):
                return
        task = self._delivering[session_key] = engine.retain(self._deliver_all(engine, session_key))
        task.add_done_callback(lambda _: self._delivering.pop(session_key, None))
        await self._wait_for(task)

    async def _wait_for(self, task: asyncio.Task[None]) -> bool:
        """Whether a delivery has settled, waiting for each once: what took too long does not delay the next turns."""
        if task in self._overdue:
            return False
        settled = await first(task, self._waits.timer(self._waits.foreground_s))
        if not settled:
            self._overdue.add(task)
            task.add_done_callback(self._overdue.discard)
        return settled

    async def _deliver_all(self, engine: HostedEngine, session_key: str) -> None:
        if self._outbox is None or self._reader is None:
            return
        mine = (engine.engine_id, engine.owner_id)
        engines = {mine: engine}
        try:
            await recovery.deliver_all(self._drain(self._outbox, self._reader, engines), session_key)
        except Exception as error:
            _log.warning("waiting turns could not be delivered (%s)", type(error).__name__)
        finally:
            for place, made in engines.items():
                if place != mine:
                    await self._let_go(made)

    async def _recover(self, engine: HostedEngine, session_key: str) -> None:
        if self._outbox is not None:
            await recovery.discard_unaccepted(self._outbox, session_key, frozenset(self._running))
            if await asyncio.to_thread(self._outbox.is_pending, session_key):
                await self._deliver(engine, session_key)

    def _accept(self, turn: AdmittedTurn, terminal: TurnAnchor, outcome: TurnOutcome, heartbeat: bool) -> bool:
        assert self._outbox is not None, "only a host with an outbox admits turns"
        return self._outbox.accept(turn, terminal, outcome.facts, heartbeat=heartbeat)

    def _discard(self, key: str) -> None:
        assert self._outbox is not None, "only a host with an outbox admits turns"
        self._outbox.discard(key)

    def _ended(self, admitted: AdmittedTurn | None, fence: ReadFence | None) -> None:
        """Whatever became of it, the turn runs no more: a recovery may look at its row, and readers at its entries."""
        if admitted is not None:
            self._running.discard(admitted.key)
        if fence is not None:
            self._fences.lift(fence)

    async def _let_go(self, engine: HostedEngine) -> None:
        if engine.is_legacy:
            return
        if engine.busy:  # whoever gave up on it does not wait for it here either
            engine.leave()
        else:
            await engine.dispose()
