"""One engine instance in a host's hands: called with what it accepts, quarantined when it fails, disposed once.

A call ends for the caller when it settles, when the caller aborts, or when its time is over; what the engine was given
goes on in the two latter cases and keeps the instance until it settles. Not here: what a turn does when a call fails
(``turn``). Who calls it: ``turn``, ``drain``, ``engine_host``.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import fields
from typing import Any, Final, TypeVar

from memory_sqlite import errors
from memory_sqlite.context.shapes import (
    AssembleResult,
    BootstrapResult,
    CompactResult,
    ContextEngine,
    EngineInfo,
    MaintainResult,
)
from memory_sqlite.host.engines.bounded import Retained, Waits, first, keep
from memory_sqlite.host.engines.host_params import accepted
from memory_sqlite.host.engines.registry import LEGACY, EngineRegistry
from memory_sqlite.host.racing import outcome
from memory_sqlite.runtime.signals import AbortSignal

Result = TypeVar("Result")

_log: Final = logging.getLogger("memory_sqlite.host.engines.hosted")
_ASSEMBLED_TOO: Final = tuple(field.name for field in fields(AssembleResult))[2:]
"""What an assembly may hold beside its messages and their tokens."""


class HostedEngine:
    """An engine and the id and plugin it is registered under. Belongs to one event loop."""

    def __init__(
        self, engine: ContextEngine, registry: EngineRegistry, *, engine_id: str, owner_id: str, waits: Waits
    ) -> None:
        self.engine = engine
        self.engine_id = engine_id
        self.owner_id = owner_id
        self._registry = registry
        self._waits = waits
        self._retained = Retained()
        self._disposal: asyncio.Task[None] | None = None
        registry.instances.take(engine)

    @property
    def info(self) -> EngineInfo:
        """What it says of itself."""
        return self.engine.info

    @property
    def is_legacy(self) -> bool:
        """Whether it is the host's own path."""
        return self.engine_id == LEGACY

    def has(self, method: str) -> bool:
        """Whether it has an optional method."""
        return callable(getattr(self.engine, method, None))

    # --- calls -------------------------------------------------------------------------------------------------------

    async def assemble(
        self,
        params: Mapping[str, Any],
        signal: AbortSignal | None = None,
        fence_broken: Callable[[], bool] = lambda: False,
    ) -> AssembleResult:
        """``assemble``; an answer without a list of messages is a failure."""
        return await self.call("assemble", params, _assembled, signal, fence_broken=fence_broken)

    async def bootstrap(
        self,
        params: Mapping[str, Any],
        signal: AbortSignal | None = None,
        fence_broken: Callable[[], bool] = lambda: False,
    ) -> BootstrapResult:
        """``bootstrap``, where it has one."""
        return await self.call("bootstrap", params, _shaped(BootstrapResult), signal, fence_broken=fence_broken)

    async def maintain(self, params: Mapping[str, Any], signal: AbortSignal | None = None) -> MaintainResult:
        """``maintain``, where it has one."""
        return await self.call("maintain", {**params, "abort_signal": signal}, _shaped(MaintainResult), signal)

    async def compact(self, params: Mapping[str, Any], signal: AbortSignal | None = None) -> CompactResult:
        """``compact``, bounded by the host's time also when the engine takes no notice of its signal.

        Raises ``EngineTimedOut``, ``Cancelled``, and what the engine raises.
        """
        stop = AbortSignal()
        forget = signal.on_abort(stop.abort) if signal is not None else lambda: None
        try:
            return await self.call(
                "compact",
                {**params, "abort_signal": stop},
                _shaped(CompactResult),
                signal,
                timeout_s=self._waits.compaction_s,
            )
        except errors.EngineTimedOut:
            stop.abort("the compaction took too long")
            raise
        finally:
            forget()

    async def call(
        self,
        method: str,
        params: Mapping[str, Any],
        shaped: Callable[[Any], Result],
        signal: AbortSignal | None = None,
        *,
        timeout_s: float | None = None,
        fence_broken: Callable[[], bool] = lambda: False,
    ) -> Result:
        """Call a method with what the engine accepts. Any failure quarantines the engine, and is raised.

        A caller's abort is no failure, nor is a fence that really broke: the turn's own bad luck. Raises ``Cancelled``,
        ``EngineTimedOut`` and whatever the engine raises.
        """
        if signal is not None:
            signal.raise_if_aborted()
        task = self.retain(self._run(method, dict(params)))
        others: list[Awaitable[Any]] = []
        if signal is not None:
            others.append(signal.wait())
        if timeout_s is not None:
            others.append(self._waits.timer(timeout_s))
        try:
            try:
                settled = await first(task, *others)
            except asyncio.CancelledError:
                task.cancel()
                raise
            if settled:
                return shaped(outcome(task))
            if signal is not None:
                signal.raise_if_aborted()
            raise errors.EngineTimedOut(f"context engine {self.engine_id!r} did not answer {method} in time")
        except Exception as error:
            if signal is not None and signal.aborted:
                raise
            if isinstance(error, errors.FenceBroken) and fence_broken():
                raise
            self.fail(method, error)
            raise

    async def _run(self, method: str, params: dict[str, Any]) -> Any:
        answer = getattr(self.engine, method)(**accepted(self.info, method, params))
        return await answer if inspect.isawaitable(answer) else answer

    def fail(self, method: str, error: Exception) -> None:
        """Quarantine it: said once, by the error's type, since its text may hold anything."""
        if self.is_legacy:
            return
        if self._registry.quarantine(self.engine_id, f"{method} failed: {type(error).__name__}"):
            _log.warning(
                "context engine %r failed in %s (%s) and is not used for runs of this process any more",
                self.engine_id,
                method,
                type(error).__name__,
            )

    # --- life --------------------------------------------------------------------------------------------------------

    def retain(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Let work go on that keeps the engine until it settles."""
        return self._retained.start(work)

    @property
    def busy(self) -> bool:
        """Whether work that it was given has not settled."""
        return self._retained.busy

    def leave(self) -> asyncio.Task[None]:
        """Have it disposed of once, after retained work, without waiting for either."""
        if self._disposal is None:
            self._disposal = keep(self._dispose())
        return self._disposal

    async def dispose(self) -> bool:
        """The same, waiting so long as the foreground may; whether it is done. Else it is done later."""
        return await first(self.leave(), self._waits.timer(self._waits.foreground_s))

    async def _dispose(self) -> None:
        await self._retained.settle()
        if not self._registry.instances.give_back(self.engine) or not self.has("dispose"):
            return
        engine: Any = self.engine
        try:
            answer = engine.dispose()
            if inspect.isawaitable(answer):
                await answer
        except Exception as error:
            _log.warning("context engine %r failed in dispose (%s)", self.engine_id, type(error).__name__)


def _assembled(answer: Any) -> AssembleResult:
    """The answer in the contract's own class, also where an engine has one of its own."""
    messages, tokens = getattr(answer, "messages", None), getattr(answer, "estimated_tokens", None)
    if not isinstance(messages, list | tuple) or not all(isinstance(message, Mapping) for message in messages):
        raise errors.ProviderInvalid("assemble must answer with a list of messages")
    if type(tokens) is not int or tokens < 0:
        raise errors.ProviderInvalid("assemble must answer with a number of tokens")
    more = {name: getattr(answer, name) for name in _ASSEMBLED_TOO if hasattr(answer, name)}
    return AssembleResult(tuple(messages), tokens, **more)


def _shaped(kind: type[Result]) -> Callable[[Any], Result]:
    def check(answer: Any) -> Result:
        if not isinstance(answer, kind):
            raise errors.ProviderInvalid(f"a context engine must answer with {kind.__name__}")
        return answer

    return check
