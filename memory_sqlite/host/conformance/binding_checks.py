"""Checks of opening, binding and calling a provider (criteria 12 to 26, 29 to 35, 59)."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from memory_sqlite.context.conformance_kit import PATIENCE_S, must
from memory_sqlite.host.conformance.subject import KEY, SLOT, Check, MakeHost, Stage, refused, run
from memory_sqlite.host.scripted import PLAIN, ScriptedHandle, ScriptedProvider
from memory_sqlite.runtime.callers import CallerContext, HostAuthority, OwnerPrivateAudience
from memory_sqlite.runtime.shapes import (
    CandidateRequest,
    Capabilities,
    Citation,
    Found,
    GetRequest,
    OpenRequest,
    OpenResult,
    ProviderHit,
    Reference,
    SearchPage,
    SearchRequest,
)

OWN, FOREIGN = Reference(SLOT, "1"), Reference("another", "1")


class _Legacy:
    """A legacy runtime whose every use is seen."""

    def __init__(self) -> None:
        self.used = False

    def __getattr__(self, name: str) -> Any:
        object.__setattr__(self, "used", True)
        raise AttributeError(name)


class _Openless:
    """A provider runtime that cannot be opened."""


def check_invalid_runtime_raises_without_legacy(make: MakeHost) -> None:
    """Criterion 12."""

    async def work() -> None:
        legacy = _Legacy()
        stage = Stage(make, provider_runtime=_Openless(), runtime=legacy)
        await refused(stage.open(), "an invalid runtime is opened", "memory providerRuntime must implement open")
        must(not legacy.used, "an invalid runtime leads to the legacy one")

    run(work)


def check_failed_open_never_leads_to_legacy(make: MakeHost) -> None:
    """Criterion 20."""

    async def work() -> None:
        legacy = _Legacy()
        stage = Stage(make, runtime=legacy)
        stage.provider.answers["open"] = OpenResult(None, "declined")
        result = await stage.open()
        must(result.provider is None and result.error == "declined", "a declined open is not told as such")
        must(result.adapter == "native", "a declined open does not name the adapter native")
        stage.provider.answers["open"] = "rubbish"
        await refused(stage.open(), "rubbish counts as an opened provider")
        must(not legacy.used, "a failure leads to the legacy runtime")

    run(work)


def check_caller_without_a_check_is_refused(make: MakeHost) -> None:
    """Criterion 13."""

    async def work() -> None:
        stage = Stage(make)
        unguarded: Any = None
        request = OpenRequest("main", CallerContext(HostAuthority("conformance"), unguarded))
        text = "memory provider requires caller authority with assertCurrent"
        await refused(stage.host.open(request), "a caller without a check opens", text)
        must(stage.provider.calls == [], "the provider is opened for a caller without a check")

    run(work)


def check_unminted_audience_is_refused(make: MakeHost) -> None:
    """Criterion 14."""

    async def work() -> None:
        stage = Stage(make)
        minted = await stage.audience()
        text = "memory provider requires a host-minted memory audience"
        await refused(stage.open(OwnerPrivateAudience("main")), "an audience equal to a minted one is accepted", text)
        other = Stage(make)
        await refused(other.open(minted), "an audience of another host is accepted", text)
        must(stage.provider.calls == other.provider.calls == [], "the provider is opened for a forged audience")

    run(work)


def check_audience_of_another_session_is_refused(make: MakeHost) -> None:
    """Criterion 15."""

    async def work() -> None:
        stage = Stage(make)
        text = "memory audience is bound to a different session"
        opening = stage.open(await stage.audience(), "agent:main:direct:another")
        await refused(opening, "an audience opens for another session", text)
        must(stage.provider.calls == [], "the provider is opened for another session")

    run(work)


def check_stale_audience_is_refused(make: MakeHost) -> None:
    """Criterion 16."""

    async def work() -> None:
        stage = Stage(make)
        minted = await stage.audience()
        stage.reset()
        await refused(stage.open(minted), "a stale audience opens", "memory audience is no longer current")
        must(stage.provider.calls == [], "the provider is opened for a stale audience")

    run(work)


def check_lapse_during_open_closes_once(make: MakeHost) -> None:
    """Criterion 17."""

    async def work() -> None:
        stage = Stage(make)
        minted = await stage.audience()
        stage.provider.before["open"] = stage.reset
        await refused(stage.open(minted), "an audience that lapsed during open gets a handle")
        must(stage.provider.count("close") == 1, "a handle opened for a lapsed audience is not closed exactly once")

    run(work)


def check_malformed_handles_are_closed_and_refused(make: MakeHost) -> None:
    """Criteria 18 and 19."""

    async def work() -> None:
        empty: Any = ()
        unknown: Any = ("memory", "mail")
        number: Any = 1
        for declared in (
            None,
            Capabilities(empty, True, (), True),
            Capabilities(unknown, True, (), True),
            Capabilities(("memory",), number, (), True),
            Capabilities(("memory",), True, unknown, True),
        ):
            stage = Stage(make, ScriptedProvider(SLOT, declared))
            await refused(stage.open(), "malformed capabilities are accepted")
            must(stage.provider.count("close") == 1, "a malformed handle is not closed exactly once")
        stage = Stage(make, ScriptedProvider(SLOT, PLAIN))
        handle: Any = ScriptedHandle(stage.provider)
        handle.candidates = handle.search
        stage.provider.answers["open"] = OpenResult(handle)
        await refused(stage.open(), "candidates without a declared kind are accepted")

    run(work)


def check_capabilities_are_frozen(make: MakeHost) -> None:
    """Criterion 21."""

    async def work() -> None:
        sources: Any = ["memory"]
        stage = Stage(make, ScriptedProvider(SLOT, Capabilities(sources, False, (), False)))
        handle = await stage.handle()
        sources.append("sessions")
        await refused(handle.search(SearchRequest("q", sources=("sessions",))), "capabilities change after binding")

    run(work)


def check_undeclared_requests_reach_no_provider(make: MakeHost) -> None:
    """Criteria 29 to 34."""

    async def work() -> None:
        stage = Stage(make, ScriptedProvider(SLOT, Capabilities(("memory",), False, ("trigger",), False)))
        handle = await stage.handle()
        unable = "memory provider does not support the {} capability"
        for call, request, text in (
            (handle.search, SearchRequest("q", sources=("sessions",)), unable.format("sessions source")),
            (handle.search, SearchRequest("q", cursor="c"), unable.format("pagination")),
            (handle.search, SearchRequest("q", active_project_keys=("p",)), unable.format("project filter")),
            (handle.candidates, CandidateRequest("project"), unable.format("project candidates")),
            (
                handle.candidates,
                CandidateRequest("trigger", active_project_keys=("p",)),
                unable.format("project filter"),
            ),
            (handle.get, GetRequest(FOREIGN), "memory reference belongs to a different provider"),
        ):
            await refused(call(request), "what is not declared is served", text)
        must(stage.provider.calls == ["open"], "an undeclared request reaches the provider")
        await handle.search(SearchRequest("q", active_project_keys=()))

    run(work)


def check_foreign_references_are_refused(make: MakeHost) -> None:
    """Criterion 35."""

    async def work() -> None:
        stage = Stage(make)
        handle = await stage.handle()
        text = "memory reference belongs to a different provider"
        for hit in (ProviderHit(FOREIGN, "x"), ProviderHit(OWN, "x", citations=(Citation("c", FOREIGN),))):
            stage.provider.answers["search"] = SearchPage((hit,))
            await refused(handle.search(SearchRequest("q")), "a page with a foreign reference is released", text)
        stage.provider.answers["get"] = Found(OWN, "x", (Citation("c", FOREIGN),))
        await refused(handle.get(GetRequest(OWN)), "a text with a foreign citation is released", text)

    run(work)


def check_results_of_a_revoked_caller_are_discarded(make: MakeHost) -> None:
    """Criteria 22 and 59."""

    async def work() -> None:
        for by_reset in (True, False):
            stage = Stage(make)
            handle = await stage.handle(await stage.audience())

            def revoke(stage: Stage = stage, by_reset: bool = by_reset) -> None:
                if by_reset:
                    stage.reset()
                else:
                    stage.revoked = True

            stage.provider.before["search"] = revoke
            await refused(handle.search(SearchRequest("q")), "a result is released to a caller revoked meanwhile")
            must(not stage.signal.aborted, "revocation aborts the caller's signal")

    run(work)


def check_close_is_once_and_final(make: MakeHost) -> None:
    """Criteria 23 and 24."""

    async def work() -> None:
        stage = Stage(make)
        handle = await stage.handle(await stage.audience())
        stage.reset()
        await handle.close()
        await handle.close()
        must(stage.provider.count("close") == 1, "the provider's close does not run exactly once")
        stage = Stage(make)
        handle = await stage.handle()
        await handle.close()
        for call in (partial(handle.search, SearchRequest("q")), partial(handle.get, GetRequest(OWN)), handle.health):
            await refused(call(), "a closed handle answers", "memory provider handle is closed")

    run(work)


def check_retired_instance_answers_nothing(make: MakeHost) -> None:
    """Criterion 25."""

    async def work() -> None:
        stage = Stage(make)
        handle = await stage.handle()
        stage.host.retire(SLOT)
        text = "memory provider instance is no longer current"
        await refused(handle.search(SearchRequest("q")), "a retired plugin answers", text)

    run(work)


def check_pending_publications_are_awaited(make: MakeHost) -> None:
    """Criterion 26."""

    async def work() -> None:
        stage = Stage(make)
        handle = await stage.handle(await stage.audience())
        with stage.host.publishing(KEY):
            searching = asyncio.ensure_future(handle.search(SearchRequest("q")))
            for _ in range(5):
                await asyncio.sleep(0)
            must(stage.provider.count("search") == 0, "a provider is called while currency is unavailable")
            must(not searching.done(), "a pending publication is told as a failure")
        must(len((await searching).hits) == 1, "a publication that settled unchanged ends the call")

    run(work)


def check_abort_ends_a_hanging_call(make: MakeHost) -> None:
    """A provider that hangs keeps nobody who no longer wants the answer."""

    async def work() -> None:
        stage = Stage(make)
        handle = await stage.handle()
        inside = asyncio.Event()

        async def hang() -> None:
            inside.set()
            await asyncio.Event().wait()

        stage.provider.before["search"] = hang
        searching = asyncio.ensure_future(handle.search(SearchRequest("q")))
        await inside.wait()
        stage.signal.abort()
        done, _ = await asyncio.wait({searching}, timeout=PATIENCE_S)
        if not done:
            searching.cancel()
        must(bool(done), "an aborted call goes on waiting for its provider")
        await refused(searching, "an aborted call answers")

    run(work)


ALL: tuple[Check, ...] = (
    check_invalid_runtime_raises_without_legacy,
    check_failed_open_never_leads_to_legacy,
    check_caller_without_a_check_is_refused,
    check_unminted_audience_is_refused,
    check_audience_of_another_session_is_refused,
    check_stale_audience_is_refused,
    check_lapse_during_open_closes_once,
    check_malformed_handles_are_closed_and_refused,
    check_capabilities_are_frozen,
    check_undeclared_requests_reach_no_provider,
    check_foreign_references_are_refused,
    check_results_of_a_revoked_caller_are_discarded,
    check_close_is_once_and_final,
    check_retired_instance_answers_nothing,
    check_pending_publications_are_awaited,
    check_abort_ends_a_hanging_call,
)
