"""Criteria 12 to 26, 29 to 35, 48, 59 and 71: opening, binding and calling a provider, on the host's side."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from typing import Any

import pytest

from memory_sqlite import errors
from memory_sqlite.host.memory_host import MemoryHost
from memory_sqlite.host.scripted import EVERYTHING, PLAIN, ScriptedHandle, ScriptedProvider
from memory_sqlite.host.session_rows import SessionRow
from memory_sqlite.host.slots import Plugin
from memory_sqlite.host.tools import caller_of_tool
from memory_sqlite.recall import project_candidates, trigger_scores
from memory_sqlite.runtime.callers import (
    CallerContext,
    ConversationRecall,
    HostAuthority,
    MemoryAudience,
    OperatorAuthority,
    OwnerPrivateAudience,
    SessionAuthority,
)
from memory_sqlite.runtime.plugins import MemoryCapability, Tool, ToolContext, ToolResult
from memory_sqlite.runtime.shapes import (
    AutomaticRecall,
    CandidateRequest,
    Capabilities,
    Citation,
    Found,
    GetRequest,
    Health,
    NotFound,
    OpenRequest,
    OpenResult,
    ProviderHit,
    Reference,
    SearchPage,
    SearchRequest,
)
from memory_sqlite.runtime.signals import AbortSignal

ID = "10000000-0000-4000-8000-000000000001"
KEY = "agent:main:direct:a"
CONFIG = {"plugins": {"slots": {"memory": "scripted"}}}
MEMORY = frozenset({"memory"})
FORGED = "memory provider requires a host-minted memory audience"
UNGUARDED = "memory provider requires caller authority with assertCurrent"
BAD_HANDLE = (
    "memory provider must implement search, get, health, close, and valid capabilities with matching candidates"
)


class Legacy:
    """A legacy runtime whose every use is seen."""

    def __init__(self) -> None:
        self.used: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.used.append(name)
        raise AttributeError(name)


class World:
    """A host with the scripted provider in its slot, an owner's direct session, and what one opens with."""

    def __init__(self, provider: Any = None, *, runtime: Any = None) -> None:
        self.provider = provider if provider is not None else ScriptedProvider()
        self.host = MemoryHost(CONFIG)
        self.instance = self.host.slot.register(
            Plugin("scripted", MEMORY), MemoryCapability(provider_runtime=self.provider, runtime=runtime)
        )
        self.host.rows.put(SessionRow(KEY, ID, "r1", "direct"))
        self.signal = AbortSignal()
        self.revoked = False

    def assert_current(self) -> None:
        if self.revoked:
            raise errors.CallerNotCurrent("the caller was revoked")

    async def audience(self) -> MemoryAudience:
        return await self.host.audiences.resolve(agent_id="main", session_key=KEY, session_id=ID, sender_is_owner=True)

    def context(self, audience: Any = None, key: str = KEY) -> CallerContext:
        return CallerContext(SessionAuthority(key, False, ID, audience), self.assert_current, self.signal)

    async def open(self, audience: Any = None, key: str = KEY) -> OpenResult:
        return await self.host.open(OpenRequest("main", self.context(audience, key)))

    async def handle(self, audience: Any = None) -> Any:
        result = await self.open(audience)
        assert result.provider is not None
        return result.provider


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(work())


async def entered(event: asyncio.Event, call: asyncio.Future[Any]) -> None:
    """Wait for what a call does on its way; a call that ends before it fails the test instead of hanging it."""
    waiting = asyncio.ensure_future(event.wait())
    await asyncio.wait({waiting, call}, return_when=asyncio.FIRST_COMPLETED)
    if not waiting.done():
        waiting.cancel()
        raise AssertionError("the call ended too early")


def reset_session(world: World, revision: str) -> None:
    world.host.rows.update(KEY, lifecycle_revision=revision)


class Openless:
    """A runtime without ``open``."""


@pytest.mark.parametrize("provider_runtime", [None, Openless(), 5])
def test_criterion_012_invalid_runtime_raises_without_legacy(provider_runtime: Any) -> None:
    """A provider runtime declared as nothing, or without ``open``, raises, and the legacy manager is not asked for."""
    legacy = Legacy()
    host = MemoryHost(CONFIG)
    host.slot.register(Plugin("scripted", MEMORY), {"provider_runtime": provider_runtime, "runtime": legacy})
    context = CallerContext(HostAuthority("test"), lambda: None)
    with pytest.raises(errors.ProviderInvalid, match=r"^memory providerRuntime must implement open$"):
        asyncio.run(host.open(OpenRequest("main", context)))
    assert legacy.used == []


async def _async_check() -> None:
    raise errors.CallerNotCurrent("never run")


class Bare:
    """A context without any check."""

    authority = HostAuthority("test")
    signal = None


@pytest.mark.parametrize(
    "context",
    [
        Bare(),
        CallerContext(HostAuthority("x"), None),  # type: ignore[arg-type]
        CallerContext(HostAuthority("x"), 5),  # type: ignore[arg-type]
        CallerContext(HostAuthority("x"), _async_check),  # type: ignore[arg-type]
        CallerContext(HostAuthority("x"), lambda: _async_check()),  # type: ignore[arg-type,return-value]
        CallerContext("operator", lambda: None),  # type: ignore[arg-type]
    ],
)
def test_criterion_013_context_without_check_is_refused(context: Any) -> None:
    """Also a check that is a coroutine, which nobody would run, and an authority of no known kind."""
    world = World()
    with pytest.raises(errors.CallerNotCurrent, match=f"^{UNGUARDED}$"):
        asyncio.run(world.host.open(OpenRequest("main", context)))
    assert world.provider.calls == []


class Lookalike(OwnerPrivateAudience):
    """An audience that says it is equal to any other."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash(self.agent_id)


def test_criterion_014_unminted_audience_is_refused() -> None:
    """Built by hand, copied, replaced, of a class that claims equality, of another host, or no audience at all."""

    async def work() -> None:
        world, other = World(), World()
        minted = await world.audience()
        forged = [
            OwnerPrivateAudience("main"),
            dataclasses.replace(minted),
            Lookalike("main"),
            await other.audience(),
            {"kind": "owner-private", "agentId": "main"},
        ]
        for audience in forged:
            with pytest.raises(errors.CallerNotCurrent, match=f"^{FORGED}$"):
                await world.open(audience)
        assert world.provider.calls == []
        assert (await world.open(minted)).provider is not None
        world.revoked = True  # looked at before the caller's own check is asked at all
        with pytest.raises(errors.CallerNotCurrent, match=f"^{FORGED}$"):
            await world.open(forged[0])

    run(work)


def test_criterion_015_audience_of_another_session_is_refused() -> None:
    """A minted audience opens nothing for another session key."""

    async def work() -> None:
        world = World()
        minted = await world.audience()
        with pytest.raises(errors.CallerNotCurrent, match=r"^memory audience is bound to a different session$"):
            await world.open(minted, key="agent:main:direct:b")
        assert world.provider.calls == []

    run(work)


def test_criterion_016_stale_audience_is_refused_before_open() -> None:
    """After a reset the audience is not current, and ``open`` is not called."""

    async def work() -> None:
        world = World()
        minted = await world.audience()
        reset_session(world, "r2")
        with pytest.raises(errors.CallerNotCurrent, match=r"^memory audience is no longer current$"):
            await world.open(minted)
        assert world.provider.calls == []

    run(work)


@pytest.mark.parametrize("how", ["audience", "caller", "abort", "retired"])
def test_criterion_017_lapse_during_open_closes_once_and_raises(how: str) -> None:
    """Whatever lapses while ``open`` runs: its handle is closed exactly once and the caller gets an error."""

    async def work() -> None:
        world = World()
        minted = await world.audience()

        def lapse() -> None:
            if how == "audience":
                reset_session(world, "r2")
            elif how == "caller":
                world.revoked = True
            elif how == "abort":
                world.signal.abort()
            else:
                assert world.instance is not None
                world.instance.retire()

        world.provider.before["open"] = lapse
        expected = {"abort": errors.Cancelled, "retired": errors.ProviderUnavailable}
        with pytest.raises(expected.get(how, errors.CallerNotCurrent)):
            await world.open(minted)
        for _ in range(3):
            await asyncio.sleep(0)
        assert world.provider.calls == ["open", "close"]

    run(work)


def test_cancelled_open_closes_the_handle_that_comes_late() -> None:
    """A caller's task that is cancelled, or aborts, while ``open`` hangs returns at once; the handle that is returned
    all the same is closed, once."""

    async def work(abort: bool) -> None:
        world = World()
        inside, go_on = asyncio.Event(), asyncio.Event()
        seen: list[str] = []

        async def stubborn() -> None:
            inside.set()
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                seen.append("cancelled")
                await go_on.wait()

        world.provider.before["open"] = stubborn
        opening = asyncio.ensure_future(world.open())
        await entered(inside, opening)
        if abort:
            world.signal.abort()
            with pytest.raises(errors.Cancelled):
                await opening
        else:
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
        assert world.provider.calls == ["open"]
        closed = asyncio.Event()
        world.provider.before["close"] = closed.set
        go_on.set()
        await closed.wait()
        assert world.provider.calls == ["open", "close"]
        assert seen == ["cancelled"]

    asyncio.run(work(True))
    asyncio.run(work(False))


@pytest.mark.parametrize(
    "declared",
    [
        None,
        Capabilities((), True, (), True),
        Capabilities(("memory", "mail"), True, (), True),  # type: ignore[arg-type]
        Capabilities("memory", True, (), True),  # type: ignore[arg-type]
        Capabilities(None, True, (), True),  # type: ignore[arg-type]
        Capabilities(("memory",), 1, (), True),  # type: ignore[arg-type]
        Capabilities(("memory",), True, (), None),  # type: ignore[arg-type]
        Capabilities(("memory",), True, ("dream",), True),  # type: ignore[arg-type]
        Capabilities(("memory",), True, None, True),  # type: ignore[arg-type]
        Capabilities(([],), True, (), True),  # type: ignore[arg-type]
    ],
)
def test_criterion_018_malformed_capabilities_close_once_and_raise(declared: Any) -> None:
    """Missing, empty, unknown or of the wrong type: refused at open, with the handle closed once."""
    world = World(ScriptedProvider(capabilities=declared))
    with pytest.raises(errors.ProviderInvalid, match=f"^{BAD_HANDLE}$"):
        asyncio.run(world.open())
    assert world.provider.calls == ["open", "close"]


@pytest.mark.parametrize("missing", ["search", "get", "health", "close"])
def test_criterion_018_missing_methods_close_once_and_raise(missing: str) -> None:
    """A handle without one of the four methods is none; what cannot be closed is refused like the others."""
    world = World()
    handle = ScriptedHandle(world.provider)
    setattr(handle, missing, None)
    world.provider.answers["open"] = OpenResult(handle)
    with pytest.raises(errors.ProviderInvalid, match=f"^{BAD_HANDLE}$"):
        asyncio.run(world.open())
    assert world.provider.calls == (["open"] if missing == "close" else ["open", "close"])


@pytest.mark.parametrize("kinds", [(), ("trigger",)])
def test_criterion_019_candidates_exist_exactly_when_declared(kinds: tuple[Any, ...]) -> None:
    """Declared without the method, or the method without a declaration: refused at open."""

    async def work() -> None:
        declared = Capabilities(("memory",), False, kinds, False)
        fitting = World(ScriptedProvider(capabilities=declared))
        assert hasattr(await fitting.handle(), "candidates") is bool(kinds)
        world = World(ScriptedProvider(capabilities=declared))
        handle: Any = ScriptedHandle(world.provider)
        if kinds:
            del handle.candidates
        else:
            handle.candidates = handle.search
        world.provider.answers["open"] = OpenResult(handle)
        with pytest.raises(errors.ProviderInvalid, match=f"^{BAD_HANDLE}$"):
            await world.open()
        assert world.provider.calls == ["open", "close"]

    run(work)


def test_criterion_020_failed_open_never_leads_to_legacy() -> None:
    """``open`` raises, or declines with a reason: the legacy runtime of the same plugin is not touched."""

    async def work() -> None:
        legacy = Legacy()
        world = World(runtime=legacy)
        world.provider.answers["open"] = OpenResult(None, "memory is disabled for this agent")
        result = await world.open()
        assert result == OpenResult(None, "memory is disabled for this agent", "scripted", "native")
        for said in (None, "", 5):
            world.provider.answers["open"] = OpenResult(None, said)  # type: ignore[arg-type]
            assert await world.open() == OpenResult(None, "memory plugin unavailable", "scripted", "native")

        def fail() -> None:
            raise RuntimeError("no")

        world.provider.before["open"] = fail
        with pytest.raises(RuntimeError):
            await world.open()
        world.provider.before.clear()
        world.provider.answers["open"] = "rubbish"
        with pytest.raises(errors.ProviderInvalid):
            await world.open()
        assert legacy.used == []

    run(work)


def test_criterion_021_capabilities_are_frozen_at_bind() -> None:
    """Lists that the provider changes afterwards change nothing."""

    async def work() -> None:
        sources, kinds = ["memory"], ["trigger"]
        declared = Capabilities(sources, False, kinds, False)  # type: ignore[arg-type]
        world = World(ScriptedProvider(capabilities=declared))
        handle = await world.handle()
        sources.append("sessions")
        kinds.append("project")
        object.__setattr__(declared, "pagination", True)
        assert handle.capabilities == Capabilities(("memory",), False, ("trigger",), False)
        for request in (SearchRequest("q", sources=("sessions",)), SearchRequest("q", cursor="c")):
            with pytest.raises(errors.ProviderRefused):
                await handle.search(request)
        with pytest.raises(errors.ProviderRefused):
            await handle.candidates(CandidateRequest("project"))
        assert world.provider.calls == ["open"]

    run(work)


async def _everything(handle: Any) -> list[Callable[[], Coroutine[Any, Any, Any]]]:
    return [
        lambda: handle.search(SearchRequest("q")),
        lambda: handle.get(GetRequest(Reference("scripted", "1"))),
        lambda: handle.health(),
        lambda: handle.candidates(CandidateRequest("trigger")),
    ]


@pytest.mark.parametrize("method", ["search", "get", "health", "candidates"])
@pytest.mark.parametrize("how", ["audience", "caller"])
def test_criterion_022_result_of_a_revoked_caller_is_discarded(method: str, how: str) -> None:
    """Revoked while the provider works: no result, whether it answers or fails; the failure's text is not told."""

    async def work() -> None:
        world = World()
        handle = await world.handle(await world.audience())
        call = dict(zip(("search", "get", "health", "candidates"), await _everything(handle), strict=True))[method]

        def revoke() -> None:
            if how == "audience":
                reset_session(world, "r2")
            else:
                world.revoked = True

        def revoke_and_fail() -> None:
            revoke()
            raise RuntimeError("a record's text")

        world.provider.before[method] = revoke
        with pytest.raises(errors.CallerNotCurrent):
            await call()
        assert world.provider.count(method) == 1
        world.revoked = False
        reset_session(world, "r3")
        again = await world.host.audiences.resolve(
            agent_id="main", session_key=KEY, session_id=ID, sender_is_owner=True
        )
        handle = await world.handle(again)
        call = dict(zip(("search", "get", "health", "candidates"), await _everything(handle), strict=True))[method]
        world.provider.before[method] = revoke_and_fail
        with pytest.raises(errors.CallerNotCurrent) as told:
            await call()
        assert told.value.__context__ is None

    run(work)


def test_criterion_023_after_close_everything_raises_and_close_runs_once() -> None:
    """Two closes, one of the provider's; every method says that the handle is closed."""

    async def work() -> None:
        world = World()
        handle = await world.handle()
        calls = await _everything(handle)
        await handle.close()
        await handle.close()
        await asyncio.gather(handle.close(), handle.close())
        for call in calls:
            with pytest.raises(errors.ProviderUnavailable, match=r"^memory provider handle is closed$"):
                await call()
        assert world.provider.calls == ["open", "close"]

    run(work)


class Refreshing(ScriptedHandle):
    """A handle that can be refreshed."""

    async def refresh(self) -> Any:
        return await self._provider.play("refresh")


@pytest.mark.parametrize("ending", ["close", "caller", "audience", "retired", "during"])
def test_criterion_023_refresh_is_a_call_like_the_others(ending: str) -> None:
    """There where the provider has it; refused after the close, to who lapsed and when the plugin is gone; who lapses
    meanwhile hears so."""

    async def work() -> None:
        world = World()
        assert not hasattr(await world.handle(), "refresh")
        world.provider.answers["open"] = OpenResult(Refreshing(world.provider))
        handle = await world.handle(await world.audience())
        assert await handle.refresh() is None
        if ending == "close":
            await handle.close()
        elif ending == "caller":
            world.revoked = True
        elif ending == "audience":
            reset_session(world, "r2")
        elif ending == "retired":
            assert world.instance is not None
            world.instance.retire()
        else:
            world.provider.before["refresh"] = lambda: reset_session(world, "r2")
        expected = errors.ProviderUnavailable if ending in ("close", "retired") else errors.CallerNotCurrent
        with pytest.raises(expected):
            await handle.refresh()
        assert world.provider.count("refresh") == (2 if ending == "during" else 1)

    run(work)


def test_close_ends_a_call_that_is_under_way() -> None:
    """A call that hangs does not outlive its lease, and its late answer goes to nobody."""

    async def work() -> None:
        world = World()
        handle = await world.handle()
        inside = asyncio.Event()

        async def hang() -> None:
            inside.set()
            await asyncio.Event().wait()

        world.provider.before["search"] = hang
        searching = asyncio.ensure_future(handle.search(SearchRequest("q")))
        await entered(inside, searching)
        await handle.close()
        with pytest.raises(errors.ProviderUnavailable, match=r"^memory provider handle is closed$"):
            await searching

    run(work)


def test_criterion_024_close_succeeds_after_revocation() -> None:
    """Whoever may no longer read may still give the lease back, also when the plugin is gone and the wait aborted."""

    async def work() -> None:
        world = World()
        handle = await world.handle(await world.audience())
        reset_session(world, "r2")
        world.revoked = True
        world.signal.abort()
        assert world.instance is not None
        world.instance.retire()
        await handle.close()
        assert world.provider.calls == ["open", "close"]

    run(work)


def test_criterion_025_retired_instance_makes_calls_raise() -> None:
    """Retired by a reload, replaced, unregistered or paused; a call under way ends, too."""

    async def work() -> None:
        gone = r"^memory provider instance is no longer current$"
        for retire in ("retire", "replace", "unregister", "pause"):
            world = World()
            handle = await world.handle()
            assert world.instance is not None
            if retire == "retire":
                world.instance.retire()
            elif retire == "replace":
                capability = MemoryCapability(provider_runtime=ScriptedProvider())
                world.host.slot.register(Plugin("scripted", MEMORY), capability)
            elif retire == "unregister":
                world.host.slot.unregister("scripted")
            else:
                world.instance.pause()
            for call in await _everything(handle):
                with pytest.raises(errors.ProviderUnavailable, match=gone):
                    await call()
            assert world.provider.calls == ["open"]
            if retire == "pause":
                world.instance.resume()
                assert (await handle.health()).status == "ready"
        world = World()
        handle = await world.handle()
        inside = asyncio.Event()

        async def hang() -> None:
            inside.set()
            await asyncio.Event().wait()

        world.provider.before["search"] = hang
        searching = asyncio.ensure_future(handle.search(SearchRequest("q")))
        await entered(inside, searching)
        assert world.instance is not None
        world.instance.retire()
        with pytest.raises(errors.ProviderUnavailable, match=gone):
            await searching

    run(work)


def test_criterion_026_pending_publications_are_awaited() -> None:
    """Before and after ``open`` and each call; one that settles unchanged is no failure."""

    async def work() -> None:
        world = World()
        minted = await world.audience()
        rows = world.host.rows

        async def settled_later(call: Coroutine[Any, Any, Any], calls_before: int) -> Any:
            """Run a call while a write is under way before it; it enters the provider only when that settled."""
            with rows.publishing(KEY):
                with pytest.raises(errors.CurrencyUnavailable):
                    world.host.audiences.assert_current(minted, KEY)
                task = asyncio.ensure_future(call)
                for _ in range(5):
                    await asyncio.sleep(0)
                assert len(world.provider.calls) == calls_before
                assert not task.done()
            return await task

        opened = await settled_later(world.open(minted), 0)
        handle = opened.provider
        for number, call in enumerate(await _everything(handle)):
            await settled_later(call(), number + 1)

        async def during(method: str, call: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
            """A write begins while the provider works and settles after it answered; the answer waits for that."""
            answered = asyncio.Event()
            with ExitStack() as writing:

                def begin() -> None:
                    writing.enter_context(rows.publishing(KEY))
                    answered.set()

                world.provider.before[method] = begin
                task = asyncio.ensure_future(call())
                await entered(answered, task)
                for _ in range(5):
                    await asyncio.sleep(0)
                assert not task.done()
            del world.provider.before[method]
            return await task

        assert (await during("open", lambda: world.open(minted))).provider is not None
        for method, call in zip(("search", "get", "health", "candidates"), await _everything(handle), strict=True):
            assert await during(method, call) is not None

    run(work)


def test_criterion_026_publication_that_ends_the_life_revokes() -> None:
    """A reset that was pending when the call came: the call waits, and is refused; a wait can be aborted."""

    async def work() -> None:
        world = World()
        handle = await world.handle(await world.audience())
        with world.host.rows.publishing(KEY):
            waiting = asyncio.ensure_future(handle.search(SearchRequest("q")))
            await asyncio.sleep(0)
            reset_session(world, "r2")
        with pytest.raises(errors.CallerNotCurrent, match=r"^memory audience is no longer current$"):
            await waiting
        handle = await world.handle(await world.audience())
        with world.host.rows.publishing(KEY):
            waiting = asyncio.ensure_future(handle.search(SearchRequest("q")))
            await asyncio.sleep(0)
            world.signal.abort()
            with pytest.raises(errors.Cancelled):
                await waiting
        assert world.provider.calls == ["open", "open"]

    run(work)


def test_publication_that_flickers_is_no_failure() -> None:
    """One that begins between two questions, and has settled when it is asked about again, is waited for all the same;
    a caller whose own check says so is believed."""

    async def work() -> None:
        world = World()
        handle = await world.handle(await world.audience())
        answers = [False, True, False]

        def flicker(key: str) -> bool:
            return answers.pop(0) if answers else False

        world.host.rows.is_pending = flicker  # type: ignore[method-assign]
        assert len((await handle.search(SearchRequest("q"))).hits) == 1
        assert answers == []

        def unavailable() -> None:
            raise errors.CurrencyUnavailable("the caller's own word")

        authority = SessionAuthority(KEY, False)
        with pytest.raises(errors.CurrencyUnavailable, match="the caller's own word"):
            await world.host.open(OpenRequest("main", CallerContext(authority, unavailable)))

    run(work)


def test_publications_of_other_threads_are_awaited() -> None:
    """A write that another thread begins and settles wakes the loop that waits for it."""

    async def work() -> None:
        world = World()
        handle = await world.handle(await world.audience())
        begun, go_on = threading.Event(), threading.Event()

        def write() -> None:
            with world.host.rows.publishing(KEY):
                begun.set()
                go_on.wait(30)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            begun.wait(30)
            searching = asyncio.ensure_future(handle.search(SearchRequest("q")))
            await asyncio.sleep(0)
            assert not searching.done()
            go_on.set()
            assert len((await searching).hits) == 1
        finally:
            go_on.set()
            writer.join(30)

    run(work)


def test_abort_ends_the_wait_for_a_provider_that_hangs() -> None:
    """The call raises; the provider's work is cancelled, and what it brings after that is thrown away."""

    async def work() -> None:
        world = World()
        handle = await world.handle()
        inside, let_go, brought = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def stubborn() -> None:
            inside.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await let_go.wait()
                brought.set()

        world.provider.before["search"] = stubborn
        searching = asyncio.ensure_future(handle.search(SearchRequest("q")))
        await entered(inside, searching)
        threading.Thread(target=world.signal.abort).start()
        with pytest.raises(errors.Cancelled):
            await searching
        assert not brought.is_set()
        let_go.set()
        await brought.wait()
        with pytest.raises(errors.Cancelled):
            await handle.search(SearchRequest("q"))
        assert world.provider.count("search") == 1

    run(work)


def test_provider_that_gives_up_by_itself_does_not_cancel_the_caller() -> None:
    """``CancelledError`` out of a provider, though nobody cancelled, and what is no ``Exception`` at all: failures like
    any other, in ``open``, in a call and in ``close``."""

    class Odd(BaseException):
        pass

    async def work(raised: type[BaseException], expected: type[Exception]) -> None:
        world = World()
        handle = await world.handle()

        def give_up() -> None:
            raise raised

        world.provider.before.update(dict.fromkeys(("open", "search", "close"), give_up))
        for call in (lambda: handle.search(SearchRequest("q")), handle.close, world.open):
            with pytest.raises(expected):
                await call()

    asyncio.run(work(asyncio.CancelledError, errors.Cancelled))
    asyncio.run(work(Odd, errors.ProviderInvalid))


def _plain() -> World:
    return World(ScriptedProvider(capabilities=PLAIN))


def _refused(world: World, request: Any, text: str) -> None:
    async def work() -> None:
        handle = await world.handle()
        call = handle.candidates if isinstance(request, CandidateRequest) else handle.search
        with pytest.raises(errors.ProviderRefused, match=f"^memory provider does not support the {text} capability$"):
            await call(request)
        assert world.provider.calls == ["open"]

    run(work)


def test_criterion_029_undeclared_source_is_refused() -> None:
    """Zero calls of the provider; an empty list of sources passes."""
    _refused(_plain(), SearchRequest("q", sources=("memory", "sessions")), "sessions source")
    world = _plain()

    async def work() -> None:
        await (await world.handle()).search(SearchRequest("q", sources=()))

    run(work)
    assert world.provider.calls == ["open", "search"]


@pytest.mark.parametrize("cursor", ["c", ""])
def test_criterion_030_cursor_without_pagination_is_refused(cursor: str) -> None:
    """Any cursor that is there, the empty one too."""
    _refused(_plain(), SearchRequest("q", cursor=cursor), "pagination")


def test_criterion_031_project_keys_without_filter_are_refused() -> None:
    """For search and for candidates."""
    _refused(_plain(), SearchRequest("q", active_project_keys=("p",)), "project filter")
    declared = Capabilities(("memory",), False, ("project",), False)
    world = World(ScriptedProvider(capabilities=declared))
    _refused(world, CandidateRequest("project", active_project_keys=("p",)), "project filter")


def test_criterion_032_undeclared_candidate_kind_is_refused() -> None:
    """A declared kind does not open the other."""
    world = World(ScriptedProvider(capabilities=Capabilities(("memory",), False, ("project",), True)))
    _refused(world, CandidateRequest("trigger"), "trigger candidates")


def test_criterion_033_empty_project_keys_are_accepted() -> None:
    """An empty list asks for nothing, whatever is declared."""

    async def work() -> None:
        world = World(ScriptedProvider(capabilities=Capabilities(("memory",), False, ("project",), False)))
        handle = await world.handle()
        await handle.search(SearchRequest("q", active_project_keys=()))
        await handle.candidates(CandidateRequest("project", active_project_keys=()))
        assert world.provider.calls == ["open", "search", "candidates"]

    run(work)


def test_criterion_034_foreign_reference_of_a_get_is_refused() -> None:
    """Another provider's reference never reaches this provider."""

    async def work() -> None:
        world = World()
        handle = await world.handle()
        with pytest.raises(errors.ProviderRefused, match=r"^memory reference belongs to a different provider$"):
            await handle.get(GetRequest(Reference("other", "1")))
        assert world.provider.calls == ["open"]

    run(work)


OWN, FOREIGN = Reference("scripted", "1"), Reference("other", "1")


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("search", SearchPage((ProviderHit(OWN, "x"), ProviderHit(FOREIGN, "x")))),
        ("search", SearchPage((ProviderHit(OWN, "x", citations=(Citation("a"), Citation("b", FOREIGN))),))),
        ("candidates", SearchPage((ProviderHit(FOREIGN, "x"),))),
        ("candidates", SearchPage((ProviderHit(OWN, "x", citations=(Citation("b", FOREIGN),)),))),
        ("get", Found(FOREIGN, "x")),
        ("get", Found(OWN, "x", (Citation("b", FOREIGN),))),
    ],
)
def test_criterion_035_foreign_references_in_answers_are_refused(method: str, answer: Any) -> None:
    """In hits, in what was read, and inside citations."""

    async def work() -> None:
        world = World()
        handle = await world.handle()
        world.provider.answers[method] = answer
        call = dict(zip(("search", "get", "health", "candidates"), await _everything(handle), strict=True))[method]
        with pytest.raises(errors.ProviderRefused, match=r"^memory reference belongs to a different provider$"):
            await call()

    run(work)


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("search", None),
        ("search", [ProviderHit(OWN, "x")]),
        ("search", SearchPage(None)),  # type: ignore[arg-type]
        ("search", SearchPage(("x",))),  # type: ignore[arg-type]
        ("search", SearchPage((ProviderHit(None, "x"),))),  # type: ignore[arg-type]
        ("search", SearchPage((ProviderHit(Reference("scripted", ""), "x"),))),
        ("search", SearchPage((ProviderHit(OWN, None),))),  # type: ignore[arg-type]
        ("search", SearchPage((ProviderHit(OWN, "x", float("nan")),))),
        ("search", SearchPage((ProviderHit(OWN, "x", "high"),))),  # type: ignore[arg-type]
        ("search", SearchPage((ProviderHit(OWN, "x", citations="abc"),))),  # type: ignore[arg-type]
        ("search", SearchPage((ProviderHit(OWN, "x", citations=(5,)),))),  # type: ignore[arg-type]
        ("search", SearchPage((ProviderHit(OWN, "x", automatic_recall=True),))),  # type: ignore[arg-type]
        ("search", SearchPage((ProviderHit(OWN, "x", 10**400),))),
        ("search", SearchPage((ProviderHit(OWN, "x", source=5),))),  # type: ignore[arg-type]
        ("search", SearchPage((ProviderHit(Reference("scripted", "1", revision=5), "x"),))),  # type: ignore[arg-type]
        ("search", SearchPage((ProviderHit(OWN, "x", citations=(Citation("c", url=5),)),))),  # type: ignore[arg-type]
        ("search", SearchPage((ProviderHit(OWN, "x", citations=(Citation("c", start_line="1"),)),))),  # type: ignore[arg-type]
        ("search", SearchPage((ProviderHit(OWN, "x", automatic_recall=AutomaticRecall(True, "abc")),))),  # type: ignore[arg-type]
        ("search", SearchPage((ProviderHit(OWN, "x", automatic_recall=AutomaticRecall(True, (5,))),))),  # type: ignore[arg-type]
        ("search", SearchPage((ProviderHit(OWN, "x", automatic_recall=AutomaticRecall(True, importance="x")),))),  # type: ignore[arg-type]
        ("search", SearchPage((), next_cursor=5)),  # type: ignore[arg-type]
        ("search", SearchPage((), coverage="most")),  # type: ignore[arg-type]
        ("candidates", {}),
        ("get", None),
        ("get", ""),
        ("get", Found(OWN, None)),  # type: ignore[arg-type]
        ("get", Found(None, "x")),  # type: ignore[arg-type]
        ("get", Found(OWN, "x", lines="1")),  # type: ignore[arg-type]
        ("get", Found(OWN, "x", truncated=1)),  # type: ignore[arg-type]
        ("get", NotFound("ok")),  # type: ignore[arg-type]
        ("health", None),
        ("health", Health("fine")),  # type: ignore[arg-type]
        ("health", Health("ready", 5)),  # type: ignore[arg-type]
        ("health", Health("ready", details=[])),  # type: ignore[arg-type]
    ],
)
def test_rubbish_of_a_provider_is_an_error(method: str, answer: Any) -> None:
    """Denial and failure never become an empty success, and neither does rubbish."""

    async def work() -> None:
        world = World()
        handle = await world.handle()
        world.provider.answers[method] = answer
        call = dict(zip(("search", "get", "health", "candidates"), await _everything(handle), strict=True))[method]
        with pytest.raises(errors.ProviderInvalid):
            await call()

    run(work)


class Shifting(Reference):
    """A reference that is the provider's own when it is first looked at, and another's from then on."""

    def __getattribute__(self, name: str) -> Any:
        if name != "provider_id":
            return super().__getattribute__(name)
        looked_at = self.__dict__.setdefault("looked_at", [])
        looked_at.append(name)
        return "scripted" if len(looked_at) == 1 else "other"


def test_criterion_035_what_was_looked_at_is_what_is_given_out() -> None:
    """Answers of classes of the provider's own come out in the contract's, and cannot become others afterwards."""

    async def work() -> None:
        world = World()
        handle = await world.handle()

        def shifting() -> Reference:
            reference = Shifting("scripted", "1")
            reference.__dict__.clear()
            reference.__dict__.update(id="1", revision=None, fragment=None)
            return reference

        hit = ProviderHit(shifting(), "x", citations=(Citation("c", shifting()),))
        world.provider.answers["search"] = type("Page", (SearchPage,), {})((hit,))
        page = await handle.search(SearchRequest("q"))
        assert page == SearchPage((ProviderHit(OWN, "x", citations=(Citation("c", OWN),)),))
        world.provider.answers["get"] = type("Text", (Found,), {})(shifting(), "x")
        assert await handle.get(GetRequest(OWN)) == Found(OWN, "x")
        for answer in (page, page.hits[0].reference, page.hits[0].citations[0].reference):
            assert type(answer) in (SearchPage, Reference)

    run(work)


def test_requests_that_are_none_are_refused() -> None:
    """A request of another class does not reach the provider."""

    async def work() -> None:
        world = World()
        handle = await world.handle()
        for call in (handle.search, handle.get, handle.candidates):
            with pytest.raises(errors.InvalidArgument):
                await call({"query": "q"})
        with pytest.raises(errors.InvalidArgument):
            await handle.get(GetRequest("scripted:1"))  # type: ignore[arg-type]
        assert world.provider.calls == ["open"]

    run(work)


def test_not_found_comes_through_and_hits_come_as_a_tuple() -> None:
    """What is well-formed is given as it is; a list that the provider keeps is not shared with it."""

    async def work() -> None:
        world = World()
        handle = await world.handle()
        world.provider.answers["get"] = NotFound()
        assert await handle.get(GetRequest(OWN)) == NotFound()
        hits = [ProviderHit(OWN, "x", 0.5, "memory", (Citation("c", OWN),))]
        world.provider.answers["search"] = SearchPage(hits, "next", "partial", "slow")  # type: ignore[arg-type]
        page = await handle.search(SearchRequest("q"))
        hits.clear()
        assert page.hits == (ProviderHit(OWN, "x", 0.5, "memory", (Citation("c", OWN),)),)
        assert (page.next_cursor, page.coverage, page.warning) == ("next", "partial", "slow")

    run(work)


@pytest.mark.parametrize("eligible", [True, False, 1, "true", None])
def test_criterion_048_injectable_only_when_explicitly_eligible(eligible: Any) -> None:
    """In both lanes nothing but the truth value itself, as the host gives it out; missing metadata never permits it."""

    async def work() -> None:
        world = World()
        handle = await world.handle()
        said = AutomaticRecall(eligible, ("p",), "tea")
        world.provider.answers["candidates"] = SearchPage(
            (ProviderHit(OWN, "x", 1.0, automatic_recall=said), ProviderHit(Reference("scripted", "2"), "y", 1.0))
        )
        page = await handle.candidates(CandidateRequest("project"))
        expected = [OWN] if eligible is True else []
        by_project = project_candidates.chosen(page.hits, frozenset({"p"}))
        by_trigger = trigger_scores.chosen("tea", page.hits, frozenset({"p"}))
        assert [hit.reference for hit in by_project] == [hit.reference for hit in by_trigger] == expected

    run(work)


def test_criterion_059_revocation_leaves_the_signal_and_stops_the_next_effect() -> None:
    """The provider, which rechecks after its own await, is refused; nobody aborted anything."""

    async def work() -> None:
        world = World()
        minted = await world.audience()
        handle = await world.handle(minted)
        context: CallerContext = world.provider.given[0].context
        effects: list[str] = []

        async def read() -> None:
            context.assert_current()
            effects.append("first")
            world.host.audiences.release(minted)
            await asyncio.sleep(0)
            context.assert_current()
            effects.append("second")

        world.provider.before["search"] = read
        with pytest.raises(errors.CallerNotCurrent, match=r"^memory audience was released by its owner$"):
            await handle.search(SearchRequest("q"))
        assert effects == ["first"]
        assert context.signal is world.signal
        assert not world.signal.aborted

    run(work)


def test_check_given_to_the_provider_is_the_whole_check_in_order() -> None:
    """Caller, then audience, then abort; it may be called from any thread."""

    async def work() -> None:
        world = World()
        await world.handle(await world.audience())
        context: CallerContext = world.provider.given[0].context
        await asyncio.to_thread(context.assert_current)
        world.signal.abort()
        with pytest.raises(errors.Cancelled):
            context.assert_current()
        reset_session(world, "r2")
        with pytest.raises(errors.CallerNotCurrent, match="no longer current"):
            context.assert_current()
        world.revoked = True
        with pytest.raises(errors.CallerNotCurrent, match="the caller was revoked"):
            context.assert_current()

    run(work)


def test_signal_that_is_none_is_refused() -> None:
    """Anything else than an abort signal is named, before the provider is opened."""
    world = World()
    context = CallerContext(HostAuthority("x"), lambda: None, "never")  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgument, match="signal"):
        asyncio.run(world.host.open(OpenRequest("main", context)))
    assert world.provider.calls == []


def test_authority_is_a_snapshot() -> None:
    """What is done to the given authority after opening does not reach the provider."""

    async def work() -> None:
        world = World()
        scopes = ["operator.read"]
        authority = OperatorAuthority(scopes)  # type: ignore[arg-type]
        await world.host.open(OpenRequest("main", CallerContext(authority, lambda: None)))
        scopes.append("operator.admin")
        assert world.provider.given[0].context.authority == OperatorAuthority(("operator.read",))

    run(work)


def test_criterion_071_recall_pass_is_the_tool_contexts_own() -> None:
    """The provider sees the very pass of the tool's context; one among the model's arguments is nothing."""

    async def work() -> None:
        world = World()
        granted = ConversationRecall(KEY, "sessions")

        async def ask(arguments: Any, context: ToolContext) -> ToolResult:
            caller = caller_of_tool(context, world.assert_current)
            result = await world.host.open(OpenRequest("main", caller))
            assert result.provider is not None
            await result.provider.search(SearchRequest(str(arguments["query"])))
            return ToolResult("done")

        world.host.tools.register(Tool("memory_search", "", {}, ask, "scripted"))
        tool = world.host.tools.get("scripted", "memory_search")
        assert tool is not None
        arguments = {"query": "q", "conversationRecall": {"anchorSessionKey": "agent:main:direct:b"}}
        await tool.run(arguments, ToolContext("main", KEY, ID, conversation_recall=granted))
        await tool.run(arguments, ToolContext("main", KEY, ID))
        with_pass, without = (given for given in world.provider.given if isinstance(given, OpenRequest))
        assert with_pass.context.authority.conversation_recall is granted  # type: ignore[union-attr]
        assert without.context.authority.conversation_recall is None  # type: ignore[union-attr]

    run(work)


def test_no_owner_says_why() -> None:
    """No plugin selected, none loaded, one without runtimes, one without an id: nothing to ask, and a reason."""

    async def work() -> None:
        context = CallerContext(HostAuthority("test"), lambda: None)
        for config in ({}, {"plugins": {"slots": {"memory": "none"}}}, CONFIG):
            result = await MemoryHost(config).open(OpenRequest("main", context))
            assert result == OpenResult(None, "memory plugin unavailable")
        host = MemoryHost(CONFIG)
        host.slot.register(Plugin("scripted", MEMORY), MemoryCapability(recall_tool_names=("x",)))
        result = await host.open(OpenRequest("main", context))
        assert (result.provider, result.error) == (None, "memory plugin unavailable")

    run(work)


def test_everything_scripted_is_declared() -> None:
    """The scripted provider these tests stand on answers every method."""

    async def work() -> None:
        world = World(ScriptedProvider(capabilities=EVERYTHING))
        handle = await world.handle()
        for call in await _everything(handle):
            assert await call() is not None
        assert world.provider.calls == ["open", "search", "get", "health", "candidates"]

    run(work)
