"""One logical turn on its engine: prepared, assembled, finished. It ends well for the user whatever the engine does.

A turn that cannot go on with its engine goes on with the legacy path, with all its retries; nothing of the
configuration changes, and the next turn tries the engine again. Not here: on which engine it begins (``logical_turn``),
delivery (``drain``). A host answers its user when ``finish`` has returned, and then calls ``close``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from memory_sqlite.context.shapes import AssembleResult, TurnAdmission, TurnAnchor
from memory_sqlite.host.engines import finalising
from memory_sqlite.host.engines.fence import ReadFence
from memory_sqlite.host.engines.host_params import before_the_turn
from memory_sqlite.host.engines.hosted import HostedEngine
from memory_sqlite.host.engines.legacy_engine import upper_bound
from memory_sqlite.host.engines.turn_rows import AdmittedTurn, is_key
from memory_sqlite.runtime.signals import AbortSignal

_log: Final = logging.getLogger("memory_sqlite.host.engines.turn")

Message = Mapping[str, Any]
Count = Callable[[Sequence[Message]], int]


@dataclass(frozen=True)
class TurnRequest:
    """A turn as its host begins it. ``admission`` is the receipt of the admitted user entry; without one the turn is
    not durable. ``store_path`` and the ids are the session's as the host knows them now."""

    agent_id: str
    session_key: str
    session_id: str
    store_path: str
    admission: TurnAdmission | None = None
    session_file: str | None = None
    heartbeat: bool = False
    runtime_settings: Mapping[str, Any] | None = None
    runtime_context: Mapping[str, Any] = field(default_factory=dict)
    signal: AbortSignal | None = None

    @property
    def turn_id(self) -> str | None:
        """The logical turn's id; ``None`` without a receipt, and with one whose id can be no advancement key."""
        key = self.admission.logical_turn_id if self.admission is not None else None
        return key if is_key(key) else None

    @property
    def target(self) -> dict[str, Any]:
        """The session in the contract's form."""
        return {
            "agentId": self.agent_id,
            "sessionId": self.session_id,
            "sessionKey": self.session_key,
            "storePath": self.store_path,
        }


@dataclass(frozen=True)
class TurnOutcome:
    """How a turn ended. ``completed``: the run, with its fallbacks, gave an answer; ``terminal`` is its last entry."""

    completed: bool
    terminal: TurnAnchor | None = None
    messages: Sequence[Message] = ()
    pre_prompt_message_count: int = 0
    aborted: bool = False
    yielded: bool = False
    failed: bool = False
    timed_out: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)
    token_budget: int | None = None
    auto_compaction_summary: str | None = None

    @property
    def is_well(self) -> bool:
        """Whether it may be kept by an engine."""
        return self.completed and not (self.aborted or self.yielded or self.failed or self.timed_out)


@dataclass(frozen=True)
class TurnServices:
    """What a turn asks of its host: see ``EngineHost``, which gives them."""

    degraded: Callable[[str | None, str], None]
    accept: Callable[[AdmittedTurn, TurnAnchor, TurnOutcome, bool], bool]
    discard: Callable[[str], None]
    deliver: Callable[[HostedEngine, str], Awaitable[None]]
    recover: Callable[[HostedEngine, str], Awaitable[None]]
    ended: Callable[[AdmittedTurn | None, ReadFence | None], None]


class EngineTurn:
    """One turn. ``degraded`` says why it runs on the legacy path, ``None`` when it does not. Belongs to one loop."""

    def __init__(
        self,
        request: TurnRequest,
        engine: HostedEngine,
        legacy: HostedEngine,
        services: TurnServices,
        *,
        admitted: AdmittedTurn | None = None,
        fence: ReadFence | None = None,
        degraded: str | None = None,
    ) -> None:
        self.request = request
        self.engine = engine
        self.degraded = degraded
        self._configured = engine
        self._legacy = legacy
        self._services = services
        self._admitted = admitted
        self._fence = fence
        self._finished = False
        self._ended = asyncio.Event()

    @property
    def durable(self) -> bool:
        """Whether it will be committed to its engine by its advancement key."""
        return self._admitted is not None and self.degraded is None

    async def bootstrap(self) -> None:
        """Let the engine take up an existing session; a failure leaves the turn to the legacy path."""
        if self.request.session_file is None or not self.engine.has("bootstrap"):
            return
        params = {**self._common(), "session_file": self.request.session_file}
        try:
            await self._fenced()
            await self.engine.bootstrap(params, self.request.signal, self._fence_broken)
        except Exception as error:
            self._go_on(error, "bootstrap")
            return
        await finalising.maintain(self.engine, params, "bootstrap")

    async def assemble(
        self,
        messages: Sequence[Message],
        *,
        pending: Sequence[Message] = (),
        token_budget: int | None = None,
        count: Count | None = None,
        **own: Any,
    ) -> AssembleResult:
        """What goes before the model. ``messages`` is the history before the turn, ``pending`` the admitted entry and
        whatever the turn has added since: the host appends that itself, and it is taken off the budget.

        ``own`` are further arguments of the contract (``model``, ``prompt`` …). Raises ``Cancelled`` only.
        """
        if self.durable and self._fence is not None:
            given, appended = tuple(messages), tuple(pending)
        else:
            given, appended = (*messages, *pending), ()
        taken = (count or upper_bound)(appended) if appended else 0
        budget = None if token_budget is None else max(1, token_budget - taken)
        params = {**self._common(), "messages": given, "token_budget": budget, **own}
        if self.request.signal is not None:
            params["abort_signal"] = self.request.signal
        try:
            await self._fenced()
            result = await self.engine.assemble(params, self.request.signal, self._fence_broken)
        except Exception as error:
            self._go_on(error, "assemble")
            return await self._legacy.assemble(
                {"session_id": self.request.session_id, "messages": (*messages, *pending), "token_budget": token_budget}
            )
        return replace(result, messages=(*result.messages, *appended), estimated_tokens=result.estimated_tokens + taken)

    async def finish(self, outcome: TurnOutcome) -> None:
        """End the turn: an accepted durable one is kept for its engine and delivered; others as engines without the
        durable contract are told. Raises nothing of an engine or of the store. The second call does nothing."""
        if self._finished:
            return
        self._finished = True
        try:
            if self.durable and outcome.is_well and outcome.terminal is not None:
                await self._accept(outcome, outcome.terminal)
            elif self._admitted is not None:
                await asyncio.to_thread(self._services.discard, self._admitted.key)
            elif outcome.is_well:
                await finalising.tell(self.engine, self._common(), outcome, self._maintenance(), self.request)
        except Exception as error:
            said = getattr(error, "code", type(error).__name__)
            _log.warning("a turn could not be kept for its context engine (%s)", said)
        finally:
            self._services.ended(self._admitted, self._fence)
            self._ended.set()

    async def close(self) -> None:
        """Give up a turn that was not finished, and dispose of its engine when its work has settled."""
        await self.finish(TurnOutcome(completed=False, aborted=True))
        if self._configured is not self._legacy:
            self._configured.retain(self._ended.wait())  # somebody else may be finishing it, and needs the engine
            await self._configured.dispose()

    async def _accept(self, outcome: TurnOutcome, terminal: TurnAnchor) -> None:
        assert self._admitted is not None
        try:
            await self._fenced()
        except Exception:
            self.degrade((self._fence and self._fence.broken) or "the transcript cannot be read")
            await asyncio.to_thread(self._services.discard, self._admitted.key)
            return
        accept = self._services.accept
        if not await asyncio.to_thread(accept, self._admitted, terminal, outcome, self.request.heartbeat):
            _log.info("an accepted turn is not kept any more: it was forgotten meanwhile")
            return
        # the turn is over: what it has added may be read, also by the engine that commits it
        self._services.ended(self._admitted, self._fence)
        await self._services.deliver(self.engine, self.request.session_key)

    # --- going on without the engine ---------------------------------------------------------------------------------

    def _go_on(self, error: Exception, where: str) -> None:
        """Leave the turn to the legacy path. Raises ``Cancelled`` and nothing else, when the caller has aborted."""
        if self.request.signal is not None:
            self.request.signal.raise_if_aborted()
        if self.engine is self._legacy:  # the host's own path does not fail
            raise error
        reason = self._fence.broken if self._fence is not None and self._fence.broken else None
        self.degrade(reason or f"the engine failed in {where}")

    def degrade(self, reason: str) -> None:
        """From now on this turn, with its retries, runs on the legacy path."""
        if self.degraded is None:
            self.degraded = reason
            self.engine = self._legacy
            self._services.degraded(self.request.turn_id, reason)

    async def _fenced(self) -> None:
        if self._fence is not None and self.degraded is None:
            await asyncio.to_thread(self._fence.check)

    def _fence_broken(self) -> bool:
        return self._fence is not None and self._fence.broken is not None

    # --- arguments ---------------------------------------------------------------------------------------------------

    def _common(self) -> dict[str, Any]:
        return {
            "session_id": self.request.session_id,
            "session_key": self.request.session_key,
            "session_target": self.request.target,
            "runtime_settings": self.request.runtime_settings,
            "runtime_context": before_the_turn(self.request.runtime_context),
        }

    def _maintenance(self) -> dict[str, Any]:
        return {
            **self._common(),
            "session_file": self.request.session_file,
            "runtime_context": dict(self.request.runtime_context),
        }
