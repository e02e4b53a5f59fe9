"""The gateway's memory methods: ``memory.search``, ``memory.get``, ``memory.status``, ``doctor.memory.status`` and
``memory.search.owner``.

Who may not ask learns nothing, not even which agents there are. A request is parsed whole before any memory is asked
(``INVALID_REQUEST``); everything behind that which fails, is denied or is no longer wanted is ``UNAVAILABLE``. A lease
is always given back, and the caller is looked at once more after that, so that nobody who has gone gets an answer. Not
here: parsing (``requests``), who asks (``connections``), what is asked of file-shaped owners (``file_methods``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from memory_sqlite import errors
from memory_sqlite.host.binding import NO_PLUGIN
from memory_sqlite.host.bound_handle import BoundHandle
from memory_sqlite.host.consumers import legacy_lane
from memory_sqlite.host.consumers.health_findings import health_of
from memory_sqlite.host.consumers.lease import leased
from memory_sqlite.host.gateway import agents, file_methods, requests
from memory_sqlite.host.gateway.connections import Connection, StateOwner, caller_of
from memory_sqlite.host.gateway.responses import Response, failure, sayable, success, unavailable, version_2
from memory_sqlite.host.memory_host import MemoryHost
from memory_sqlite.runtime.callers import CallerContext
from memory_sqlite.runtime.shapes import GetRequest, SearchRequest
from memory_sqlite.runtime.signals import AbortSignal
from memory_sqlite.runtime.wire import to_wire

Params = Mapping[str, Any]
T = TypeVar("T")
Ask = Callable[[BoundHandle], Awaitable[Any]]
NATIVE_ON_V1: Final = 'memory plugin "{}" uses the provider runtime; retry memory.search with version: 2'


class GatewayMethods:
    """The methods of one host. ``owner`` is who owns the state, where command lines are routed to it."""

    def __init__(self, host: MemoryHost, owner: StateOwner | None = None) -> None:
        self._host = host
        self._owner = owner
        self.methods: Final[Mapping[str, Callable[..., Awaitable[Response]]]] = {
            "memory.search": self.memory_search,
            "memory.get": self.memory_get,
            "memory.status": self.memory_status,
            "doctor.memory.status": self.doctor_memory_status,
            "memory.search.owner": self.memory_search_owner,
        }
        """By their names on the wire."""

    async def call(
        self, method: object, params: object, connection: Connection, signal: AbortSignal | None = None
    ) -> Response:
        """One request; ``signal`` is aborted when it is no longer wanted. Never raises but for being cancelled."""
        function = self.methods.get(method) if isinstance(method, str) else None
        if function is None:
            return failure("INVALID_REQUEST", "unknown method")
        if params is not None and not isinstance(params, Mapping):
            return failure("INVALID_REQUEST", "params must be an object")
        return await function({} if params is None else params, connection, signal)

    async def memory_search(
        self, params: Params, connection: Connection, signal: AbortSignal | None = None
    ) -> Response:
        """Version 2 asks the owner's provider, whichever kind it is; version 1 is the file-shaped form."""

        def parsed() -> tuple[str, requests.FileSearch | SearchRequest]:
            version = requests.version_of(params)
            asked = requests.search(params) if version == requests.VERSION else requests.file_search(params)
            return self._agent(params), asked

        async def answered(request: tuple[str, requests.FileSearch | SearchRequest], caller: CallerContext) -> Response:
            agent_id, asked = request
            if isinstance(asked, SearchRequest):
                return await self._read(agent_id, caller, lambda handle: handle.search(asked))
            owner = self._host.slot.owner()
            if owner is not None and owner.capability.provider_runtime is not None:
                return failure("INVALID_REQUEST", NATIVE_ON_V1.format(owner.plugin_id))
            return await file_methods.search(self._host, owner, agent_id, asked, caller)

        return await _answer(connection, signal, parsed, answered)

    async def memory_get(self, params: Params, connection: Connection, signal: AbortSignal | None = None) -> Response:
        """Read what a reference names. That there is no such thing is an answer, a denial is none."""

        async def answered(request: tuple[GetRequest, str], caller: CallerContext) -> Response:
            asked, agent_id = request
            return await self._read(agent_id, caller, lambda handle: handle.get(asked))

        return await _answer(connection, signal, lambda: (requests.get(params), self._agent(params)), answered)

    async def memory_status(
        self, params: Params, connection: Connection, signal: AbortSignal | None = None
    ) -> Response:
        """How the provider is."""

        async def answered(agent_id: str, caller: CallerContext) -> Response:
            return await self._read(agent_id, caller, lambda handle: handle.health())

        return await _answer(connection, signal, lambda: self._agent(params), answered)

    async def doctor_memory_status(
        self, params: Params, connection: Connection, signal: AbortSignal | None = None
    ) -> Response:
        """The same for a doctor: whatever fails is in ``health``. The embedding provider is only tried on ``probe`` or
        ``deep``, and only of a legacy owner: a provider's embeddings are its own affair."""

        async def answered(agent_id: str, caller: CallerContext) -> Response:
            if (owner := legacy_lane.legacy_owner(self._host)) is not None:
                live = params.get("probe") is True or params.get("deep") is True
                payload = await file_methods.doctor_status(self._host, owner, agent_id, caller, live=live)
            else:
                health = to_wire(await health_of(self._host, agent_id, caller))
                provider = self._host.slot.describe().plugin_id or "none"
                skipped = {"ok": False, "checked": False, "skipped": True}
                payload = {"agentId": agent_id, "provider": provider, "health": health, "embedding": skipped}
            caller.assert_current()
            return success(payload)

        return await _answer(connection, signal, lambda: self._agent(params), answered)

    async def memory_search_owner(
        self, params: Params, connection: Connection, signal: AbortSignal | None = None
    ) -> Response:
        """A command line's search, by the process that owns the state: the recall is recorded before it is answered.

        Nothing is read, recorded or answered for another owner than the expected one, or once it is replaced.
        """

        async def answered(request: tuple[requests.OwnerSearch, str], caller: CallerContext) -> Response:
            asked, agent_id = request
            if self._owner is None:
                raise errors.ProviderUnavailable("no process owns the state that could be asked")
            both = self._owner.guarding(caller, asked.expected_owner)
            both.assert_current()
            payload = await file_methods.owner_search(self._host, agent_id, asked, both)
            both.assert_current()
            return success(payload)

        return await _answer(connection, signal, lambda: (requests.owner_search(params), self._agent(params)), answered)

    async def _read(self, agent_id: str, caller: CallerContext, ask: Ask) -> Response:
        async with leased(self._host, agent_id, caller, "cli") as lease:
            if lease.handle is None:
                raise errors.ProviderUnavailable(lease.error or NO_PLUGIN)
            payload = version_2(agent_id, lease.provider_id, to_wire(await ask(lease.handle)))
        caller.assert_current()  # giving the lease back took its time
        return success(payload)

    def _agent(self, params: Params) -> str:
        return agents.selected(self._host.config, requests.agent_of(params))


async def _answer(
    connection: Connection,
    signal: AbortSignal | None,
    parsed: Callable[[], T],
    answered: Callable[[T, CallerContext], Awaitable[Response]],
) -> Response:
    try:
        with caller_of(connection, signal) as caller:
            try:
                request = parsed()
            except errors.InvalidArgument as error:
                return failure("INVALID_REQUEST", error.message)
            return sayable(await answered(request, caller))
    except Exception as error:
        return unavailable(error)
