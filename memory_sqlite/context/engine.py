"""Our context engine: one agent's conversations, committed once, assembled within a budget, recalled where it helps.

The contract's methods, each handing on to the room that does it, in a thread: the loop never waits for a disk. Not
here: selecting an engine, the outbox, the fence (``host.engines``). Made by ``Memory.context_engine``.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from memory_sqlite import errors, limits
from memory_sqlite.context.assemble import Prompt, assemble
from memory_sqlite.context.budget import Counter, CountTokens
from memory_sqlite.context.commit import commit
from memory_sqlite.context.compaction import DELEGATE, Compaction, delegate, until_aborted
from memory_sqlite.context.deltas import read_delta
from memory_sqlite.context.following import Follower, ReadDelta
from memory_sqlite.context.host_sessions import Describe, HostSession, check_agent, host_session, key_of
from memory_sqlite.context.ingesting import Ingesting, of_turn
from memory_sqlite.context.maintain import maintain
from memory_sqlite.context.messages import check_messages
from memory_sqlite.context.shapes import (
    ADVANCEMENT_IDEMPOTENCY,
    CURRENT_TURN_FENCE,
    AssembleResult,
    BootstrapResult,
    CommitResult,
    CompactResult,
    DeltaResult,
    EngineInfo,
    MaintainResult,
    TranscriptSemantics,
    TurnAdmission,
    TurnAnchor,
)
from memory_sqlite.runtime.agents import AgentRooms, Agents
from memory_sqlite.runtime.signals import AbortSignal

ENGINE_ID: Final = "memory-sqlite"


class MemoryContextEngine:
    """The engine of one agent. Every method may be called from any event loop, several at once.

    All raise ``ProviderUnavailable`` when memory is disabled or the engine was disposed of, ``MemoryClosed`` when the
    memory was closed, ``InvalidArgument`` for what is not as the contract says, and the store's errors. Host fields
    that are not used here are accepted and left alone.
    """

    def __init__(
        self,
        agents: Agents,
        agent_id: str,
        *,
        count_tokens: CountTokens | None = None,
        image_tokens: int = limits.IMAGE_TOKENS_MAX,
        compaction: Compaction | None = None,
        describe: Describe | None = None,
        read_delta: ReadDelta | None = None,
    ) -> None:
        """``count_tokens`` is the model's tokenizer and ``image_tokens`` what it takes for an image; without them upper
        bounds count. ``compaction`` is the host's own, ``describe`` says what a session is, ``read_delta`` reads the
        host's transcript (without it there is no history to take up but what is stored already)."""
        self._agents = agents
        self._agent_id = agent_id
        self._counter = Counter(count_tokens, image_tokens)
        self._compaction = compaction
        self._describe = describe
        self._follower = Follower(self._rooms, read_delta or self._own_delta, keep=read_delta is not None)
        self._ingesting = Ingesting()
        self._disposed = False

    @property
    def info(self) -> EngineInfo:
        """What this engine is and promises."""
        return EngineInfo(
            id=ENGINE_ID,
            name="memory-sqlite",
            accepted_host_params=("sessionKey", "prompt", "sessionTarget", "runtimeContext", "abortSignal"),
            transcript_semantics=TranscriptSemantics(CURRENT_TURN_FENCE, ADVANCEMENT_IDEMPOTENCY),
            owns_compaction=False,
            turn_maintenance_mode="background",
        )

    # --- what is remembered ------------------------------------------------------------------------------------------

    async def bootstrap(
        self, *, session_id: str, session_file: str | None = None, session_key: str | None = None, **host: Any
    ) -> BootstrapResult:
        """Take up a session from the beginning of its transcript. ``imported_messages`` are those that were new.

        Where the transcript cannot be read now, ``reason`` says so, and the next call tries again.
        """
        followed = await self._follower.follow(self._session(session_id, session_key, host))
        return BootstrapResult(followed.reason is None, followed.stored, followed.reason)

    async def ingest(
        self,
        *,
        session_id: str,
        message: Mapping[str, Any],
        is_heartbeat: bool | None = None,
        session_key: str | None = None,
        **host: Any,
    ) -> Mapping[str, bool]:
        """Store one message; ``ingested`` is false for one that was there, and for one that says nothing."""
        session = self._session(session_id, session_key, host)
        return {"ingested": await self._store(session, [message], is_heartbeat) > 0}

    async def ingest_batch(
        self,
        *,
        session_id: str,
        messages: Sequence[Mapping[str, Any]],
        is_heartbeat: bool | None = None,
        session_key: str | None = None,
        **host: Any,
    ) -> Mapping[str, int]:
        """Store messages; ``ingested_count`` are those that were new."""
        session = self._session(session_id, session_key, host)
        return {"ingested_count": await self._store(session, messages, is_heartbeat)}

    async def after_turn(
        self,
        *,
        session_id: str,
        messages: Sequence[Mapping[str, Any]],
        pre_prompt_message_count: int,
        session_file: str | None = None,
        is_heartbeat: bool | None = None,
        session_key: str | None = None,
        **host: Any,
    ) -> None:
        """Store what a turn added, where the host does not commit turns durably."""
        added = of_turn(messages, pre_prompt_message_count)
        await self._store(self._session(session_id, session_key, host), added, is_heartbeat)

    async def commit_turn(
        self,
        *,
        advancement_key: str,
        admission: TurnAdmission,
        terminal: TurnAnchor,
        messages: Sequence[Mapping[str, Any]],
        session_id: str,
        is_heartbeat: bool | None = None,
        **host: Any,
    ) -> CommitResult:
        """One accepted turn and its key in one transaction: ``committed`` once, ``duplicate`` ever after.

        A call that is cancelled may still be carried out whole; the key makes asking again safe.
        """
        check_agent(self._agent_id, host.get("session_target"))
        return await asyncio.to_thread(
            commit,
            self._rooms(),
            advancement_key=advancement_key,
            admission=admission,
            terminal=terminal,
            messages=messages,
            session_id=session_id,
            is_heartbeat=is_heartbeat is True,
            describe=self._describe,
        )

    # --- what goes before a prompt -----------------------------------------------------------------------------------

    async def assemble(
        self,
        *,
        session_id: str,
        messages: Sequence[Mapping[str, Any]],
        token_budget: int | None = None,
        prompt: str | None = None,
        session_key: str | None = None,
        abort_signal: AbortSignal | None = None,
        **host: Any,
    ) -> AssembleResult:
        """History within ``token_budget``: the newest turns whole, of earlier ones what the prompt asks for, memory.

        Raises ``BudgetTooSmall`` when the newest turn does not fit even with its tool output shortened; ``Cancelled``.
        """
        if token_budget is not None and (type(token_budget) is not int or token_budget < 1):
            raise errors.InvalidArgument("token_budget must be an integer of at least 1, or absent")
        session = self._session(session_id, session_key, host)
        said = check_messages(messages)
        await self._catch_up(session, abort_signal)
        wanted = Prompt(session, said, token_budget, prompt if isinstance(prompt, str) else None, abort_signal)
        making = asyncio.to_thread(assemble, self._rooms(), wanted, self._counter)
        result: AssembleResult = await until_aborted(making, abort_signal)
        return result

    async def compact(
        self,
        *,
        session_id: str,
        session_key: str,
        runtime_context: Mapping[str, Any] | None = None,
        abort_signal: AbortSignal | None = None,
        **host: Any,
    ) -> CompactResult:
        """Hand on to the host's compaction: that of this call's ``runtime_context`` (``delegateCompactionToRuntime``),
        else the engine's. Without one the answer is ``ok`` false and says why.

        Raises ``Cancelled`` promptly when aborted, and what the host's compaction raises.
        """
        self._rooms()
        check_agent(self._agent_id, host.get("agent_id"), host.get("session_target"))
        own = (runtime_context or {}).get(DELEGATE)
        given = {
            "session_id": session_id,
            "session_key": session_key,
            "runtime_context": runtime_context,
            "abort_signal": abort_signal,
            **host,
        }
        return await delegate(own if callable(own) else self._compaction, given, abort_signal)

    # --- between turns -----------------------------------------------------------------------------------------------

    async def maintain(
        self,
        *,
        session_id: str,
        session_file: str | None = None,
        session_key: str | None = None,
        abort_signal: AbortSignal | None = None,
        **host: Any,
    ) -> MaintainResult:
        """Catch up with the transcript where that failed before, bring the index up, cut the logs back.

        An abort is heard between two steps; the answer then says what was done before it.
        """
        await self._catch_up(self._session(session_id, session_key, host), abort_signal)
        return await asyncio.to_thread(maintain, self._rooms(), abort_signal)

    async def dispose(self) -> None:
        """End this engine; safe to call twice. The memory stays open: it belongs to whoever opened it."""
        self._disposed = True

    # --- within ------------------------------------------------------------------------------------------------------

    def _rooms(self) -> AgentRooms:
        if self._disposed:
            raise errors.ProviderUnavailable("the context engine was disposed of")
        return self._agents.rooms(self._agent_id)

    def _session(self, session_id: str, session_key: str | None, host: Mapping[str, Any]) -> HostSession:
        self._rooms()
        target = host.get("session_target")
        check_agent(self._agent_id, target)
        return host_session(key_of(session_key, target), session_id, self._describe)

    async def _store(
        self, session: HostSession, messages: Sequence[Mapping[str, Any]], is_heartbeat: bool | None
    ) -> int:
        rooms = self._rooms()
        return await asyncio.to_thread(
            self._ingesting.store, rooms, session, messages, is_heartbeat=is_heartbeat is True
        )

    async def _catch_up(self, session: HostSession, signal: AbortSignal | None) -> None:
        """What could not be read before is tried again; a prompt and maintenance go on without it, whatever the host's
        reader raises, and at once when aborted."""
        if self._follower.is_behind(session):
            with contextlib.suppress(Exception):
                await until_aborted(self._follower.follow(session), signal)

    async def _own_delta(
        self, *, session_key: str, session_id: str, cursor: str | None, max_messages: int, max_bytes: int, **_: Any
    ) -> DeltaResult:
        return await asyncio.to_thread(
            read_delta,
            self._rooms(),
            session_key=session_key,
            session_id=session_id,
            cursor=cursor,
            max_messages=max_messages,
            max_bytes=max_bytes,
        )
