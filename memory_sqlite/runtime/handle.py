"""One caller's lease on our provider: its own view, its own cursors, closed alone.

Each call asks whether the caller is still current immediately before each read, in the thread that reads, and again
before anything is released. Not here: opening (``provider``), who may read what (``visibility``), what is answered
(``answering``). Called by hosts, on an event loop; reads run in threads.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from memory_sqlite import errors, limits
from memory_sqlite.agent import arguments
from memory_sqlite.model import SOURCES
from memory_sqlite.runtime import answering
from memory_sqlite.runtime.agents import AgentRooms, Agents
from memory_sqlite.runtime.answering import Asking
from memory_sqlite.runtime.callers import CallerContext
from memory_sqlite.runtime.gate import Gate
from memory_sqlite.runtime.holding import Budget, Holding
from memory_sqlite.runtime.shapes import (
    CANDIDATE_KINDS,
    CandidateRequest,
    Capabilities,
    GetRequest,
    GetResult,
    Health,
    Reference,
    SearchPage,
    SearchRequest,
)
from memory_sqlite.runtime.visibility import PROVIDER_ID, Access

CAPABILITIES = Capabilities(SOURCES, pagination=True, candidates=CANDIDATE_KINDS, project_filter=True)
CLOSED = "memory provider handle is closed"

_T = TypeVar("_T")
_Work = Callable[[Asking], _T]


class Handle:
    """A caller-bound lease (``shapes.ProviderHandle``). All methods raise ``ProviderUnavailable`` once it was closed or
    its provider was retired, what ``assert_current`` raises, ``Cancelled``, and the errors of reading."""

    def __init__(
        self, agents: Agents, agent_id: str, context: CallerContext, access: Access, gate: Gate, budget: Budget
    ) -> None:
        self._agents = agents
        self._agent_id = agent_id
        self._context = context
        self._access = access
        self._gate = gate
        self._budget = budget
        self._closed = False
        self._holding: Holding | None = None
        self._sweeping: asyncio.TimerHandle | None = None
        self._swept_in: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    @property
    def capabilities(self) -> Capabilities:
        """Everything that the contract knows."""
        return CAPABILITIES

    async def search(self, request: SearchRequest) -> SearchPage:
        """Find what was meant, best first. A caller who may read nothing gets no hits and a warning.

        Raises ``InvalidArgument``, ``CursorExpired``, ``IndexUnavailable``, ``Overloaded``, ``WorkerLost``.
        """
        asked = answering.asked(request)
        if self._access.refusal is not None:
            return self._refused()
        page = await self._run(lambda asking: answering.search(asking, request, asked, self._held(asking.rooms)))
        if page.next_cursor is not None:
            self._watch()
        return page

    async def get(self, request: GetRequest) -> GetResult:
        """Read what a reference names. Raises ``AccessDenied``, ``ProviderRefused`` for another provider's reference,
        ``InvalidArgument``."""
        reference = request.reference
        if not isinstance(reference, Reference) or not isinstance(reference.revision, str | None):
            raise errors.InvalidArgument("reference must be one that a provider gave")
        if reference.provider_id != PROVIDER_ID:
            raise errors.ProviderRefused("memory reference belongs to a different provider")
        from_line = 1 if request.from_line is None else request.from_line
        arguments.check_range(reference.id, from_line, request.lines, 0, limits.MAX_READ_LINES[1])
        self._alive()
        self._check()
        self._access.require()
        return await self._run(lambda asking: answering.get(asking, request))

    async def health(self) -> Health:
        """How the provider is; every caller may ask, and none learns what is in it."""
        try:
            return await self._run(answering.look)
        except (errors.StoreDamaged, errors.StoreBusy, errors.StoreReadOnly) as error:
            return Health("unavailable", f"the memory cannot be read ({error.code})")

    async def candidates(self, request: CandidateRequest) -> SearchPage:
        """What may be recalled without being asked for, the most important first. Raises ``InvalidArgument``."""
        if request.kind not in CANDIDATE_KINDS:
            raise errors.InvalidArgument(f"kind must be one of {', '.join(CANDIDATE_KINDS)}")
        limit = request.limit
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
            raise errors.InvalidArgument("limit must be an integer of at least 1")
        active = request.active_project_keys
        if not isinstance(active, list | tuple) or not all(isinstance(one, str) for one in active):
            raise errors.InvalidArgument("active_project_keys must be a list of strings")
        if self._access.refusal is not None:
            return self._refused()
        return await self._run(lambda asking: answering.candidate_page(asking, request))

    async def refresh(self) -> None:
        """Take what is new into the search index. Nothing is deleted, repaired or dreamt.

        Raises ``AccessDenied``, ``WorkspaceUnavailable`` and the store's errors.
        """

        self._alive()
        self._check()
        if self._context.authority.kind != "host":  # it only sets the work going, and learns nothing
            self._access.require()
        while not await self._run(answering.refresh):
            await asyncio.sleep(limits.REFRESH_RETRY_S)  # in no thread: those that wait would leave none for searches

    async def close(self) -> None:
        """Give this lease back, and no other; safe to call twice, also when the caller is no longer current."""
        with self._lock:
            self._closed = True
            holding, self._holding = self._holding, None
        if self._sweeping is not None:
            self._sweeping.cancel()
        if holding is not None:
            await asyncio.to_thread(holding.close)

    def _watch(self) -> None:
        """Let go of generations that were kept for long enough, also when nobody asks any more. A loop that has ended
        watches nothing: the one that runs now takes over."""
        if self._sweeping is not None and self._swept_in is not None and self._swept_in.is_running():
            return
        self._swept_in, holding = asyncio.get_running_loop(), self._holding
        due_s = holding.due_s() if holding is not None else None
        self._sweeping = None if due_s is None else self._swept_in.call_later(due_s, self._sweep)

    def _sweep(self) -> asyncio.Future[None] | None:
        self._sweeping = None
        if self._holding is None:
            return None
        swept = asyncio.get_running_loop().run_in_executor(None, self._holding.sweep)
        swept.add_done_callback(lambda _: self._watch())
        return swept

    # --- in a thread -----------------------------------------------------------------------------------------------

    def _held(self, rooms: AgentRooms) -> Holding:
        with self._lock:
            if self._closed:
                raise errors.ProviderUnavailable(CLOSED)
            if self._holding is None:
                self._holding = Holding(rooms.opened, rooms.clock, self._budget)
            return self._holding

    # --- around every call -----------------------------------------------------------------------------------------

    async def _run(self, work: _Work[_T]) -> _T:
        """Do the work in a thread; what it found is released only to a caller who still is who they were."""
        self._alive()
        self._check()
        stop = threading.Event()
        signal = self._context.signal
        forget = signal.on_abort(stop.set) if signal is not None else None

        def read() -> _T:
            with self._gate.using():  # by the thread: a call that was given up is inside until it has really ended
                self._check()
                rooms = rooms_of(self._agents, self._agent_id)
                guard = arguments.deadline(None, stop, rooms.clock)
                return work(Asking(rooms, self._agent_id, self._access, self._check, guard))

        try:
            found = await asyncio.to_thread(read)
        except asyncio.CancelledError:
            stop.set()
            raise
        finally:
            if forget is not None:
                forget()
        self._alive()
        self._check()
        return found

    def _refused(self) -> SearchPage:
        self._alive()
        self._check()
        return SearchPage((), coverage="partial", warning=self._access.refusal)

    def _alive(self) -> None:
        if self._closed:
            raise errors.ProviderUnavailable(CLOSED)

    def _check(self) -> None:
        self._context.assert_current()
        if self._context.signal is not None:
            self._context.signal.raise_if_aborted()


def rooms_of(agents: Agents, agent_id: str) -> AgentRooms:
    """The agent's rooms. Raises ``ProviderUnavailable``, and what opening a memory raises."""
    try:
        return agents.rooms(agent_id)
    except errors.MemoryClosed:
        raise errors.ProviderUnavailable("memory provider instance is no longer current") from None
