"""A provider's handle as a caller gets it: capabilities enforced before its code runs, the caller checked around it.

Around each call: closed? pending publications awaited, caller checked, instance alive, request within the declared
capabilities, the provider, its answer looked at, publications awaited again, everything checked again, and only then
the answer. Not here: opening and validating a handle (``binding``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from memory_sqlite import errors
from memory_sqlite.host import pages
from memory_sqlite.host.caller_checks import BoundCaller
from memory_sqlite.host.instances import PluginInstance
from memory_sqlite.host.racing import End, calling, finished, raced
from memory_sqlite.runtime.shapes import (
    CandidateRequest,
    Capabilities,
    GetRequest,
    GetResult,
    Health,
    Reference,
    SearchPage,
    SearchRequest,
)
from memory_sqlite.runtime.signals import AbortSignal

CLOSED = "memory provider handle is closed"
T = TypeVar("T")


class BoundHandle:
    """One caller's lease. ``candidates`` is there exactly when kinds are declared, ``refresh`` where the provider has
    one. Methods raise ``ProviderUnavailable`` (closed, or the plugin is gone), ``CallerNotCurrent``, ``Cancelled``,
    ``ProviderRefused`` (not declared, or another provider's reference), ``ProviderInvalid`` (rubbish came back), and
    what the provider raises."""

    candidates: Callable[[CandidateRequest], Awaitable[SearchPage]]
    refresh: Callable[[], Awaitable[None]]

    def __init__(
        self,
        provider: Any,
        capabilities: Capabilities,
        *,
        provider_id: str,
        caller: BoundCaller,
        instance: PluginInstance,
    ) -> None:
        self._provider = provider
        self._capabilities = capabilities
        self._provider_id = provider_id
        self._caller = caller
        self._instance = instance
        self._closing = AbortSignal()
        self._ends = (
            End(self._closing, self._assert_open),
            *caller.ends,
            End(instance.lifecycle, instance.assert_alive),
        )
        if capabilities.candidates:
            self.candidates = self._candidates
        if callable(getattr(provider, "refresh", None)):
            self.refresh = self._refresh

    @property
    def capabilities(self) -> Capabilities:
        """What was declared when the handle was bound; the provider cannot change it afterwards."""
        return self._capabilities

    async def search(self, request: SearchRequest) -> SearchPage:
        """One page of hits."""
        request = _of_class(request, SearchRequest)
        request = replace(
            request,
            sources=None if request.sources is None else tuple(request.sources),
            active_project_keys=tuple(request.active_project_keys or ()),
        )
        return await self._call("search", partial(self._check_search, request), self._page, request)

    async def get(self, request: GetRequest) -> GetResult:
        """What a reference names, or ``NotFound``."""
        request = _of_class(request, GetRequest)
        _of_class(request.reference, Reference)

        def check() -> None:
            if request.reference.provider_id != self._provider_id:
                raise errors.ProviderRefused(pages.FOREIGN)

        return await self._call("get", check, partial(pages.passage, provider_id=self._provider_id), request)

    async def health(self) -> Health:
        """How the provider is."""
        return await self._call("health", _nothing, pages.health)

    async def close(self) -> None:
        """Give the lease back, whether or not the caller is still current. The provider's own close runs once."""
        if self._closing.aborted:
            return
        self._closing.abort()
        await finished(calling(self._provider.close), ())

    async def _candidates(self, request: CandidateRequest) -> SearchPage:
        request = _of_class(request, CandidateRequest)
        request = replace(request, active_project_keys=tuple(request.active_project_keys or ()))
        return await self._call("candidates", partial(self._check_candidates, request), self._page, request)

    async def _refresh(self) -> None:
        await self._call("refresh", _nothing, lambda _: None)

    async def _call(self, method: str, check: Callable[[], None], look: Callable[[Any], T], *arguments: Any) -> T:
        await self._verify()
        check()
        failure: Exception | None = None
        try:
            answer = look(await raced(calling(getattr(self._provider, method), *arguments), self._ends))
        except Exception as error:
            failure = error
        # before the failure is told, too: whoever may no longer ask does not learn how it failed, either
        await self._verify()
        if failure is not None:
            raise failure
        return answer

    async def _verify(self) -> None:
        self._assert_open()
        await self._caller.current(self._ends)
        self._assert_open()
        self._instance.assert_alive()

    def _assert_open(self) -> None:
        if self._closing.aborted:
            raise errors.ProviderUnavailable(CLOSED)

    def _page(self, answer: Any) -> SearchPage:
        return pages.page(answer, self._provider_id)

    def _check_search(self, request: SearchRequest) -> None:
        for source in request.sources or ():
            if source not in self._capabilities.sources:
                raise _unsupported(f"{source} source")
        if request.cursor is not None and not self._capabilities.pagination:
            raise _unsupported("pagination")
        self._check_projects(request.active_project_keys)

    def _check_candidates(self, request: CandidateRequest) -> None:
        if request.kind not in self._capabilities.candidates:
            raise _unsupported(f"{request.kind} candidates")
        self._check_projects(request.active_project_keys)

    def _check_projects(self, keys: tuple[str, ...]) -> None:
        if keys and not self._capabilities.project_filter:
            raise _unsupported("project filter")


def _unsupported(what: str) -> errors.ProviderRefused:
    return errors.ProviderRefused(f"memory provider does not support the {what} capability")


def _of_class(request: T, expected: type[T]) -> T:
    if not isinstance(request, expected):
        raise errors.InvalidArgument(f"request: expected a {expected.__name__}")
    return request


def _nothing() -> None:
    return None
