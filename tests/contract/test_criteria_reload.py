"""Criterion 148, the host's side: who drains, who resumes, what a failure and a deadline do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.host.instances import PluginInstance
from memory_sqlite.host.memory_host import MemoryHost
from memory_sqlite.host.reload import Loaded, Reload, close_all, runtimes_of
from memory_sqlite.host.slots import Plugin
from memory_sqlite.runtime.callers import CallerContext, OperatorAuthority
from memory_sqlite.runtime.gate import Gate
from memory_sqlite.runtime.plugins import MemoryCapability
from memory_sqlite.runtime.reloading import Drain
from memory_sqlite.runtime.shapes import OpenRequest, SearchRequest


class Runtime:
    """Keeps what a reload asks of it, in ``log``; its drain can wait, fail or report."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.log = log
        self.asked: list[dict[str, Any]] = []
        self.waits: asyncio.Event | None = None
        self.fails: BaseException | None = None
        self.reports: Any = None
        self.resume_fails: Exception | None = None

    def prepare_reload(self, **said: Any) -> Any:
        self.asked.append(said)
        return self

    async def drain(self) -> Any:
        self.log.append(f"drain {self.name}")
        if self.waits is not None:
            await self.waits.wait()
        if self.fails is not None:
            raise self.fails
        self.log.append(f"drained {self.name}")
        return self.reports

    def resume(self) -> None:
        self.log.append(f"resume {self.name}")
        if self.resume_fails is not None:
            raise self.resume_fails


class Simple:
    """A runtime that knows nothing of reloads."""

    def __init__(self, log: list[str], name: str = "simple") -> None:
        self.log = log
        self.name = name

    async def close_all_memory_search_managers(self) -> None:
        self.log.append(f"close {self.name}")


def loaded(name: str, runtime: Any, *, retires: bool = False, native: Any = None) -> Loaded:
    return Loaded(name, MemoryCapability(runtime=runtime, provider_runtime=native), retires)


def test_criterion_148_only_what_retires_is_drained() -> None:
    """A runtime that stays, with its embedding providers, is not asked at all."""
    log: list[str] = []
    going, staying = Runtime("going", log), Runtime("staying", log)

    async def run() -> None:
        reload = Reload.prepare([loaded("a", going, retires=True), loaded("b", staying)])
        report = await reload.drain()
        assert (report.errors, report.unfinished) == ((), ())
        reload.commit()

    asyncio.run(run())
    assert log == ["drain going", "drained going"]
    assert going.asked == [{"retire_runtime": True, "retiring_embedding_providers": ()}]
    assert staying.asked == []


def test_criterion_148_retiring_embedding_providers_concern_every_runtime() -> None:
    """And one that is retained goes on afterwards; one that retired does not."""
    log: list[str] = []
    going, staying = Runtime("going", log), Runtime("staying", log)

    async def run() -> None:
        both = [loaded("a", going, retires=True), loaded("b", staying)]
        reload = Reload.prepare(both, retiring_embedding_providers=("local",))
        await reload.drain()
        reload.commit()

    asyncio.run(run())
    assert staying.asked == [{"retire_runtime": False, "retiring_embedding_providers": ("local",)}]
    assert [line for line in log if line.startswith("resume")] == ["resume staying"]


def test_criterion_148_a_roll_back_resumes_everybody() -> None:
    """Also what would have retired, and also when one of them fails to."""
    log: list[str] = []
    first, second = Runtime("first", log), Runtime("second", log)
    first.resume_fails = RuntimeError("no")

    async def run() -> None:
        reload = Reload.prepare([loaded("a", first, retires=True), loaded("b", second, retires=True)])
        await reload.drain()
        with pytest.raises(BaseExceptionGroup) as raised:
            reload.roll_back()
        assert raised.value.exceptions == (first.resume_fails,)

    asyncio.run(run())
    assert log[-2:] == ["resume first", "resume second"]


def test_criterion_148_drains_run_at_the_same_time_and_errors_aggregate() -> None:
    """All begin before one ends; a failure hinders no other; reported errors count as raised ones do."""
    log: list[str] = []
    runtimes = [Runtime(str(number), log) for number in range(4)]
    runtimes[0].fails = RuntimeError("raised")
    reported = ValueError("reported")
    runtimes[1].reports = {"errors": [reported]}
    runtimes[2].reports = {"errors": ["only a word"]}

    async def run() -> None:
        event = asyncio.Event()
        for runtime in runtimes:
            runtime.waits = event
        reload = Reload.prepare([loaded(one.name, one, retires=True) for one in runtimes])
        draining = asyncio.ensure_future(reload.drain())
        while len(log) < 4:
            await asyncio.sleep(0)
        assert log == [f"drain {number}" for number in range(4)]
        event.set()
        report = await draining
        assert report.errors[:2] == (runtimes[0].fails, reported)
        assert [str(one) for one in report.errors[2:]] == ["draining 2 failed"]
        with pytest.raises(BaseExceptionGroup):
            report.raise_errors()

    asyncio.run(run())
    assert "drained 3" in log


def test_criterion_148_a_deadline_ends_the_looking_and_not_the_cleanup() -> None:
    """The report names who is not done; the same drain goes on and is not begun again."""
    log: list[str] = []
    slow, quick = Runtime("slow", log), Runtime("quick", log)

    async def run() -> None:
        slow.waits = asyncio.Event()
        reload = Reload.prepare([loaded("s", slow, retires=True), loaded("q", quick, retires=True)])
        first = await reload.drain(deadline_s=0)
        assert "s" in first.unfinished
        slow.waits.set()
        last = await reload.drain()
        assert (last.errors, last.unfinished) == ((), ())

    asyncio.run(run())
    assert log.count("drain slow") == 1 and "drained slow" in log


class Embedding:
    """Counts how often it was let go; ``during`` happens in the middle of that."""

    def __init__(self, during: Callable[[], None] = lambda: None) -> None:
        self.times = 0
        self.gone = False
        self.during = during

    def let_go(self) -> None:
        self.times += 1
        self.during()
        self.gone = True

    def take_up(self) -> None:
        self.gone = False


def test_criterion_148_a_drain_that_ends_after_the_roll_back_takes_nothing_away() -> None:
    """The host looked on for a while, and let everything go on; the call that was waited for ends only then."""
    gate, embedding, closed = Gate(), Embedding(), []

    async def close(agent_id: str | None) -> None:
        closed.append(agent_id)

    async def run() -> None:
        drain: Any = Drain(gate, lambda: [embedding], close, retires=True)  # type: ignore[list-item]
        parts = MemoryCapability(runtime=type("Ours", (), {"prepare_reload": lambda self, **said: drain})())
        with gate.using():
            reload = Reload.prepare([Loaded("ours", parts, retires=True)])
            assert (await reload.drain(deadline_s=0)).unfinished == ("ours",)
            reload.roll_back()
        assert (await reload.drain()).unfinished == ()
        with gate.using():
            pass

    asyncio.run(run())
    assert closed == [] and embedding.times == 0


def test_criterion_148_what_is_let_go_while_everything_is_resumed_is_taken_up_again() -> None:
    """A roll-back in the middle leaves no provider away for good."""
    drains: list[Drain] = []
    embeddings = [Embedding(lambda: drains[0].resume()), Embedding()]

    async def close(agent_id: str | None) -> None:
        assert agent_id is None

    drains.append(Drain(Gate(), lambda: embeddings, close, retires=True))  # type: ignore[arg-type, return-value]
    asyncio.run(drains[0].drain())
    assert [(one.times, one.gone) for one in embeddings] == [(1, False), (0, False)]


def test_a_call_ends_well_though_the_loop_that_waited_for_it_has_ended() -> None:
    """Whoever drained it is gone; the call is somebody else's."""
    gate = Gate()

    async def give_up() -> None:
        waiting = asyncio.ensure_future(gate.drained())
        await asyncio.sleep(0)
        waiting.cancel()

    with gate.using():
        asyncio.run(give_up())


def test_criterion_148_without_prepare_reload_managers_are_closed_instead() -> None:
    """Nothing is there to resume: managers are made anew when they are needed."""
    log: list[str] = []

    async def run() -> None:
        reload = Reload.prepare([loaded("old", Simple(log), retires=True), loaded("none", object(), retires=True)])
        await reload.drain()
        reload.roll_back()

    asyncio.run(run())
    assert log == ["close simple"]


def test_criterion_148_a_runtime_that_cannot_prepare_stops_the_reload() -> None:
    """Those that were asked before it go on."""
    log: list[str] = []
    first = Runtime("first", log)

    class Broken:
        def prepare_reload(self, **said: Any) -> Any:
            raise RuntimeError("not now")

    with pytest.raises(RuntimeError, match="not now"):
        Reload.prepare([loaded("a", first, retires=True), loaded("b", Broken(), retires=True)])
    assert log == ["resume first"]


@pytest.mark.parametrize("kept", [False, True])
def test_criterion_148_the_plugin_takes_no_calls_while_it_is_reloaded(kept: bool) -> None:
    """Retained or rolled back it goes on; retired it never does, and calls under way end."""

    def one(retires: bool) -> tuple[PluginInstance, Reload]:
        instance = PluginInstance("a")
        reload = Reload.prepare(
            [Loaded("a", MemoryCapability(runtime=Runtime("a", [])), retires, instance)],
            retiring_embedding_providers=("local",),
        )
        assert not instance.alive
        return instance, reload

    instance, reload = one(retires=not kept)
    reload.commit()
    assert instance.alive == kept and instance.lifecycle.aborted == (not kept)
    instance, reload = one(retires=not kept)
    reload.roll_back()
    assert instance.alive and not instance.lifecycle.aborted


def test_criterion_148_our_plugin_goes_through_a_reload_in_its_host(memory: Memory) -> None:
    """Both runtimes are shut together, and both go on when it was rolled back; the same handle goes on, too."""
    memory.remember(session="s", messages=[{"role": "user", "content": "The granite key lies under the mat."}])
    config = {"plugins": {"slots": {"memory": "memory-sqlite"}}}
    host, ours = MemoryHost(config), memory.plugin(config)
    instance = host.slot.register(Plugin(ours.id, ours.kinds), ours.capability)
    caller = CallerContext(OperatorAuthority(("operator.read",)), lambda: None)

    async def run() -> None:
        handle = (await host.open(OpenRequest("main", caller))).provider
        found = await ours.capability.runtime.get_memory_search_manager(config=config, agent_id="main")
        assert handle is not None and (await handle.search(SearchRequest("granite"))).hits
        reload = Reload.prepare([Loaded(ours.id, ours.capability, True, instance)])
        assert (await reload.drain()).errors == ()
        for call in (handle.search(SearchRequest("granite")), found.manager.search("granite")):
            with pytest.raises(errors.ProviderUnavailable):
                await call
        reload.roll_back()
        assert (await handle.search(SearchRequest("granite"))).hits
        again = await ours.capability.runtime.get_memory_search_manager(config=config, agent_id="main")
        assert await again.manager.search("granite")
        assert (await close_all(ours.capability)).errors == ()
        with pytest.raises(errors.ProviderUnavailable):
            await handle.search(SearchRequest("granite"))

    asyncio.run(run())
    assert memory.search("granite").hits, "the memory is its opener's"


@pytest.mark.parametrize("same", [False, True])
def test_both_runtimes_of_an_owner_share_cleanup_and_each_is_asked_once(same: bool) -> None:
    log: list[str] = []
    legacy = Simple(log, "legacy")
    native = legacy if same else Simple(log, "native")
    capability = MemoryCapability(runtime=legacy, provider_runtime=native)  # type: ignore[arg-type]
    report = asyncio.run(close_all(capability))
    assert report.errors == ()
    assert sorted(log) == (["close legacy"] if same else ["close legacy", "close native"])


def test_a_failure_to_close_one_runtime_hinders_not_the_other() -> None:
    log: list[str] = []

    class Broken:
        async def close_all_memory_search_managers(self) -> None:
            raise OSError("gone")

    capability = MemoryCapability(runtime=Broken(), provider_runtime=Simple(log))  # type: ignore[arg-type]
    report = asyncio.run(close_all(capability))
    assert [type(error) for error in report.errors] == [OSError]
    assert log == ["close simple"]


def test_a_plugin_without_runtimes_has_nothing_to_drain() -> None:
    assert runtimes_of(MemoryCapability()) == ()
    found: Sequence[Loaded] = [Loaded("hooks", MemoryCapability(), True)]
    assert asyncio.run(Reload.prepare(found).drain()).unfinished == ()
