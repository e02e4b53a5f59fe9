"""An engine that writes down what it is asked, and a host with everything for durable turns. Loaded with ``runpy`` by
the criteria of hosting: no test lives here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from memory_sqlite import Memory
from memory_sqlite.context.shapes import (
    ADVANCEMENT_IDEMPOTENCY,
    CURRENT_TURN_FENCE,
    AssembleResult,
    BootstrapResult,
    CommitResult,
    CompactResult,
    EngineInfo,
    MaintainResult,
    TranscriptSemantics,
)
from memory_sqlite.host.engines.bounded import Waits
from memory_sqlite.host.engines.engine_host import EngineHost
from memory_sqlite.host.engines.memory_transcripts import MemoryTranscripts
from memory_sqlite.host.engines.registry import EngineRegistry
from memory_sqlite.host.engines.turn import TurnOutcome, TurnRequest

DURABLE = TranscriptSemantics(CURRENT_TURN_FENCE, ADVANCEMENT_IDEMPOTENCY)
SESSION, SESSION_ID = "agent:main:direct:ann", "10000000-0000-4000-8000-000000000001"
CONFIG = {"plugins": {"slots": {"contextEngine": "notes"}}}


class Happenings:
    """Lets a test wait until something is so, woken whenever something has happened: no clock, no polling."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    def tell(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future


class Engine:
    """Answers well unless ``fails`` names a method; waits where ``gates`` holds an event for one."""

    def __init__(self, semantics: TranscriptSemantics | None = DURABLE, **info: Any) -> None:
        self.info = EngineInfo("notes", "Notes", transcript_semantics=semantics, **info)
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.ledger: dict[str, tuple[Any, ...]] = {}
        self.fails: dict[str, BaseException] = {}
        self.gates: dict[str, asyncio.Event] = {}
        self.answers: dict[str, Any] = {}
        self.happenings = Happenings()

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self.calls]

    def given(self, method: str) -> dict[str, Any]:
        return next(params for name, params in reversed(self.calls) if name == method)

    async def asked(self, method: str) -> None:
        """Return when the method has been called."""
        await self.happenings.until(lambda: method in self.methods)

    async def _called(self, method: str, params: dict[str, Any], answer: Any) -> Any:
        self.calls.append((method, params))
        self.happenings.tell()
        if method in self.gates:
            await self.gates[method].wait()
        if method in self.fails:
            raise self.fails[method]
        return self.answers.get(method, answer)

    async def bootstrap(self, **params: Any) -> Any:
        return await self._called("bootstrap", params, BootstrapResult(True))

    async def ingest(self, **params: Any) -> Any:
        return await self._called("ingest", params, {"ingested": True})

    async def ingest_batch(self, **params: Any) -> Any:
        return await self._called("ingest_batch", params, {"ingestedCount": len(params["messages"])})

    async def after_turn(self, **params: Any) -> Any:
        return await self._called("after_turn", params, None)

    async def assemble(self, **params: Any) -> Any:
        mine = ({"role": "system", "content": "from the engine"},)
        return await self._called("assemble", params, AssembleResult((*mine, *params["messages"]), 7))

    async def commit_turn(self, **params: Any) -> Any:
        key = params["advancement_key"]
        answer = await self._called(
            "commit_turn", params, CommitResult("duplicate" if key in self.ledger else "committed")
        )
        self.ledger.setdefault(key, params["messages"])
        return answer

    async def maintain(self, **params: Any) -> Any:
        return await self._called("maintain", params, MaintainResult(False))

    async def compact(self, **params: Any) -> Any:
        return await self._called("compact", params, CompactResult(True, True))

    async def prepare_subagent_spawn(self, **params: Any) -> Any:
        return await self._called("prepare_subagent_spawn", params, None)

    async def on_subagent_ended(self, **params: Any) -> Any:
        return await self._called("on_subagent_ended", params, None)

    async def dispose(self) -> Any:
        return await self._called("dispose", {}, None)


class Kit:
    """One host over one memory, with the engine ``notes`` configured."""

    def __init__(self, memory: Memory, engine: Engine | None = None, config: Any = CONFIG, **more: Any) -> None:
        self.memory = memory
        self.engine = engine or Engine()
        self.config = config
        self.registry = EngineRegistry()
        self.registry.register("notes", lambda context: self.engine, plugin_id="notes-plugin")
        self.transcripts = MemoryTranscripts("main")
        self.transcripts.begin(SESSION, SESSION_ID)
        self.outbox = memory.turn_outbox()
        self.waited: list[float] = []
        self.happenings = Happenings()
        self.time_is_over = asyncio.Event()
        more.setdefault("waits", Waits(timer=self._timer))
        self.host = EngineHost(
            self.registry, config, outbox=self.outbox, transcripts=more.pop("transcripts", self.transcripts), **more
        )

    async def _timer(self, seconds: float) -> None:
        """No time passes unless a test says so."""
        self.waited.append(seconds)
        self.happenings.tell()
        await self.time_is_over.wait()

    def admit(self, turn_id: str, text: str = "hello", session: str = SESSION) -> Any:
        return self.transcripts.admit(session, {"role": "user", "content": text}, turn_id)

    def answer(self, text: str = "hi", session: str = SESSION) -> Any:
        return self.transcripts.append(session, {"role": "assistant", "content": text})

    def request(self, admission: Any, **more: Any) -> TurnRequest:
        fields: dict[str, Any] = {
            "agent_id": "main",
            "session_key": SESSION,
            "session_id": SESSION_ID,
            "store_path": "memory:transcripts",
            "admission": admission,
        }
        if admission is not None:
            anchor = admission.anchor
            fields |= {"session_key": anchor.session_key, "session_id": anchor.session_id}
        return TurnRequest(**(fields | more))

    async def begin(self, turn_id: str, text: str = "hello", session: str = SESSION, **more: Any) -> Any:
        return await self.host.begin_turn(self.request(self.admit(turn_id, text, session), **more))

    async def whole(self, turn_id: str, text: str = "hello", session: str = SESSION, **more: Any) -> Any:
        """One turn that ends well, from admission to the disposal of its engine."""
        turn = await self.begin(turn_id, text, session)
        await turn.finish(self.well(self.answer(session=session), **more))
        await turn.close()
        return turn

    def well(self, terminal: Any, **more: Any) -> TurnOutcome:
        return TurnOutcome(True, terminal, **more)

    def kept(self, turn_id: str) -> str | None:
        """The state of a turn's row."""
        row = self.outbox.row(turn_id)
        return None if row is None else row.state
