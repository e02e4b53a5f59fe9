"""What a host of context engines implements to be tested, an engine that does as it is told, and the adapter over ours.

Not here: the checks (``engine_checks``), what an engine owes (``context.conformance``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol

from memory_sqlite.context.shapes import (
    ADVANCEMENT_IDEMPOTENCY,
    CURRENT_TURN_FENCE,
    AssembleResult,
    BootstrapResult,
    CommitResult,
    CompactResult,
    DeltaEntry,
    DeltaPage,
    DeltaResult,
    EngineInfo,
    MaintainResult,
    TranscriptSemantics,
    TurnAdmission,
    TurnAnchor,
)
from memory_sqlite.host.engines.bounded import Waits
from memory_sqlite.host.engines.engine_host import EngineHost
from memory_sqlite.host.engines.memory_transcripts import MemoryTranscripts
from memory_sqlite.host.engines.outbox import TurnOutbox
from memory_sqlite.host.engines.registry import EngineRegistry
from memory_sqlite.host.engines.selection import configured
from memory_sqlite.host.engines.turn import EngineTurn, TurnOutcome, TurnRequest
from memory_sqlite.host.racing import calling
from memory_sqlite.host.scripted import Hook
from memory_sqlite.runtime.signals import AbortSignal

ENGINE, PLUGIN = "notes", "notes-plugin"
"""The engine that every host under test is configured with, and the plugin that registers it."""
SESSION, OTHER = "agent:main:direct:conformance", "agent:main:direct:another"
IDS: Final = {SESSION: "10000000-0000-4000-8000-000000000001", OTHER: "10000000-0000-4000-8000-000000000002"}
DURABLE = TranscriptSemantics(CURRENT_TURN_FENCE, ADVANCEMENT_IDEMPOTENCY)

End = Literal["failed", "aborted", "yielded", "timed_out"]


class TurnUnderTest(Protocol):
    """One logical turn of a host."""

    @property
    def legacy(self) -> bool:
        """Whether it runs on the host's own path now."""

    async def assemble(self) -> Sequence[Mapping[str, Any]]:
        """What goes before the model, the user's message included. Raises when the caller has aborted."""

    async def succeed(self, *answers: Any) -> None:
        """Append the run's answers (contents of assistant messages) to the transcript and end the turn well."""

    async def end(self, how: End) -> None:
        """Append an answer and end the turn otherwise."""

    async def close(self) -> None:
        """Give up what was not ended, and let go of the engine. Several calls are one."""


class EngineHostUnderTest(Protocol):
    """A host of agent ``main``, fresh: the engine ``notes`` configured and nothing registered; the sessions ``SESSION``
    and ``OTHER`` empty."""

    def register(self, engine_id: str, plugin_id: str, factory: Callable[[Any], Any]) -> None:
        """A plugin registers an engine's factory, which takes one argument."""

    def configured(self) -> str:
        """The engine that the configuration names now."""

    async def make(self, engine_id: str) -> Any:
        """Make a registered engine. Raises for what is none, naming what it lacks."""

    async def begin(
        self, turn_id: str, text: str, *, session: str = SESSION, signal: AbortSignal | None = None
    ) -> TurnUnderTest:
        """Admit the user's message under a logical turn id and begin the turn. The same id in the same session again
        is a retry: nothing is admitted a second time."""

    async def compact(self, session: str, signal: AbortSignal | None = None) -> Any:
        """Let the engine compact, as for a user's command."""

    async def readable(self, session: str) -> Sequence[Any]:
        """The contents of what an engine may read of the transcript now."""

    def rewrite(self, session: str, turn_id: str, text: str) -> None:
        """The transcript's entry of an admitted message is changed."""

    async def drain(self) -> None:
        """Deliver what waits."""

    async def restart(self) -> None:
        """The process ends as it is and another begins: the same store and transcripts, the same plugins, recovery."""

    def kept(self, turn_id: str) -> tuple[str, int] | None:
        """The state of a turn's row (``admitted``, ``accepted``, ``ready``, ``blocked``) and its attempts, if any."""


MakeEngineHost = Callable[[], EngineHostUnderTest]


class ScriptedEngines:
    """The factory of an engine that does as it is told: register the object itself.

    ``answers`` holds what each method returns and ``before`` what runs inside it first: a hook that raises, waits or
    aborts somebody. ``calls`` lists the methods entered with their arguments, over all instances; ``ledger`` what was
    committed, in order. ``lacking`` names members that an instance does not have.
    """

    def __init__(self, semantics: TranscriptSemantics | None = DURABLE, **info: Any) -> None:
        self.info = EngineInfo(ENGINE, "Notes", transcript_semantics=semantics, **info)
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.answers: dict[str, Any] = {}
        self.before: dict[str, Hook] = {}
        self.ledger: dict[str, list[Any]] = {}
        self.lacking: frozenset[str] = frozenset()
        self.made: list[ScriptedEngine] = []

    def __call__(self, context: Any) -> Any:
        engine = ScriptedEngine(self)
        self.made.append(engine)
        return engine

    @property
    def methods(self) -> list[str]:
        """The methods entered, but for ``dispose``."""
        return [method for method, _ in self.calls if method != "dispose"]

    def given(self, method: str) -> dict[str, Any]:
        """What a method was called with last; empty when it was not."""
        return next((params for name, params in reversed(self.calls) if name == method), {})

    async def play(self, method: str, params: dict[str, Any]) -> Any:
        """Enter a method."""
        self.calls.append((method, params))
        if (hook := self.before.get(method)) is not None:
            await calling(hook)
        if method in self.answers:
            return self.answers[method]
        if method == "commit_turn":
            key = params["advancement_key"]
            known = key in self.ledger
            self.ledger.setdefault(key, [message["content"] for message in params["messages"]])
            return CommitResult("duplicate" if known else "committed")
        if method == "assemble":
            mine = ({"role": "system", "content": "from the engine"},)
            return AssembleResult((*mine, *params["messages"]), 7)
        return _ANSWERS.get(method)


_ANSWERS: Final[Mapping[str, Any]] = {
    "bootstrap": BootstrapResult(True),
    "ingest": {"ingested": True},
    "maintain": MaintainResult(False),
    "compact": CompactResult(True, True),
}
_METHODS: Final = (*_ANSWERS, "ingest_batch", "after_turn", "assemble", "commit_turn")


class ScriptedEngine:
    """One instance; ``disposed`` counts."""

    def __init__(self, script: ScriptedEngines) -> None:
        self.disposed = 0
        self._script = script
        self.info = script.info
        for name in _METHODS:
            if name not in script.lacking:
                setattr(self, name, self._method(name))

    def _method(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def method(**params: Any) -> Any:
            return await self._script.play(name, params)

        return method

    async def dispose(self) -> None:
        """Count it."""
        self.disposed += 1
        await self._script.play("dispose", {})


async def _for_ever(seconds: float) -> None:
    """The time of a host under test is never over: what a check sees does not hang on how fast a machine is."""
    await asyncio.Event().wait()


class OwnEngineHost:
    """``EngineHost`` over an outbox, with transcripts in memory."""

    def __init__(self, outbox: TurnOutbox) -> None:
        self.outbox = outbox
        self.config = {"plugins": {"slots": {"contextEngine": ENGINE}}}
        self.transcripts = MemoryTranscripts("main")
        for key, session_id in IDS.items():
            self.transcripts.begin(key, session_id)
        self._plugins: list[tuple[str, str, Any]] = []
        self._admitted: dict[tuple[str, str], TurnAdmission] = {}
        self._start()

    def _start(self) -> None:
        self.registry = EngineRegistry()
        self.host = EngineHost(
            self.registry,
            self.config,
            outbox=self.outbox,
            transcripts=self.transcripts,
            deltas=self._delta,
            waits=Waits(timer=_for_ever),
        )
        for engine_id, plugin_id, factory in self._plugins:
            self.registry.register(engine_id, factory, plugin_id=plugin_id)

    def register(self, engine_id: str, plugin_id: str, factory: Callable[[Any], Any]) -> None:
        self._plugins.append((engine_id, plugin_id, factory))
        self.registry.register(engine_id, factory, plugin_id=plugin_id)

    def configured(self) -> str:
        return configured(self.config)

    async def make(self, engine_id: str) -> Any:
        registration = self.registry.get(engine_id)
        assert registration is not None, "registered by the check"
        return await registration.make(None)  # type: ignore[arg-type]

    async def begin(
        self, turn_id: str, text: str, *, session: str = SESSION, signal: AbortSignal | None = None
    ) -> OwnTurn:
        place = (session, turn_id)
        if place not in self._admitted:
            self._admitted[place] = self.transcripts.admit(session, {"role": "user", "content": text}, turn_id)
        admission = self._admitted[place]
        store = admission.anchor.store_path
        request = TurnRequest("main", session, IDS[session], store, admission, signal=signal)
        return OwnTurn(self.transcripts, await self.host.begin_turn(request))

    async def compact(self, session: str, signal: AbortSignal | None = None) -> Any:
        target = {"agentId": "main", "sessionKey": session, "sessionId": IDS[session]}
        params = {"session_id": IDS[session], "session_key": session, "session_target": target}
        return await self.host.compact(params, signal)

    async def readable(self, session: str) -> Sequence[Any]:
        page = await self.host.transcript_delta(agent_id="main", session_key=session, session_id=IDS[session])
        assert isinstance(page, DeltaPage), "transcripts in memory are always there"
        return [entry.message["content"] for entry in page.entries]

    def rewrite(self, session: str, turn_id: str, text: str) -> None:
        entry_id = self._admitted[(session, turn_id)].anchor.entry_id
        self.transcripts.rewrite(session, entry_id, {"role": "user", "content": text})

    async def drain(self) -> None:
        await self.host.drain()

    async def restart(self) -> None:
        self._start()
        await self.host.recover_all()

    def kept(self, turn_id: str) -> tuple[str, int] | None:
        row = self.outbox.row(turn_id)
        return None if row is None else (row.state, row.attempts)

    def _delta(
        self, *, session_key: str, session_id: str, fence: TurnAnchor | None = None, **bounds: Any
    ) -> DeltaResult:
        messages = self.transcripts.messages(session_key)
        end = len(messages) if fence is None else fence.active_message_position - 1
        entries = [
            DeltaEntry(str(place), None, place, message, message["role"])
            for place, message in enumerate(messages[:end], 1)
        ]
        return DeltaPage(str(end), tuple(entries), False, 0)


class OwnTurn:
    """``EngineTurn`` as a turn under test."""

    def __init__(self, transcripts: MemoryTranscripts, turn: EngineTurn) -> None:
        self.turn = turn
        self._transcripts = transcripts

    @property
    def legacy(self) -> bool:
        return self.turn.engine.is_legacy

    async def assemble(self) -> Sequence[Mapping[str, Any]]:
        assert self.turn.request.admission is not None, "admitted by the host under test"
        before = self.turn.request.admission.anchor.active_message_position - 1
        path = self._transcripts.messages(self.turn.request.session_key)
        result = await self.turn.assemble(path[:before], pending=path[before:])
        return result.messages

    async def succeed(self, *answers: Any) -> None:
        await self.turn.finish(TurnOutcome(True, self._append(*answers)))

    async def end(self, how: End) -> None:
        await self.turn.finish(TurnOutcome(how == "yielded", self._append("half an answer"), **{how: True}))  # type: ignore[arg-type]

    async def close(self) -> None:
        await self.turn.close()

    def _append(self, *answers: Any) -> TurnAnchor:
        said = [{"role": "assistant", "content": answer} for answer in answers]
        return [self._transcripts.append(self.turn.request.session_key, message) for message in said][-1]


class Theatre:
    """One fresh host with the scripted engine registered."""

    def __init__(self, make: MakeEngineHost, engines: ScriptedEngines | None = None) -> None:
        self.engines = engines or ScriptedEngines()
        self.host = make()
        self.host.register(ENGINE, PLUGIN, self.engines)

    async def whole(self, turn_id: str, session: str = SESSION, *answers: Any) -> TurnUnderTest:
        """One turn that ends well, from admission to letting go."""
        turn = await self.host.begin(turn_id, f"question of {turn_id}", session=session)
        await turn.succeed(*(answers or (f"answer of {turn_id}",)))
        await turn.close()
        return turn

    def refusing(self, refuses: bool = True) -> None:
        """Whether the engine answers commits with a status that there is not."""
        self.engines.answers = {"commit_turn": {"status": "perhaps"}} if refuses else {}

    def commits(self) -> list[str]:
        """The keys that the engine was asked to commit, in order, repeats included."""
        return [params["advancement_key"] for method, params in self.engines.calls if method == "commit_turn"]


async def settled(work: Awaitable[Any], patience_s: float) -> bool:
    """Whether work comes to its end by itself; it is cancelled when it does not."""
    task = asyncio.ensure_future(work)
    done, _ = await asyncio.wait({task}, timeout=patience_s)
    if not done:
        task.cancel()
    return bool(done)
