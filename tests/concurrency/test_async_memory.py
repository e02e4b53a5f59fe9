"""``AsyncMemory``: the same answers, a loop that never waits, cancellation that reaches the search, an orderly end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_sqlite import AsyncMemory, Memory, async_memory, errors
from memory_sqlite.clock import Clock
from memory_sqlite.config import Settings
from memory_sqlite.search import run

ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
PATIENCE_S = 60.0
OWNER: dict[str, Any] = {"chat_type": "direct", "sender_is_owner": True}


def user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def settings(tmp_path: Path, **others: Any) -> Settings:
    (tmp_path / "workspace").mkdir(exist_ok=True)
    (tmp_path / "workspace" / "MEMORY.md").write_text("# Network\n\nThe router VLAN is 42.\n", encoding="utf-8")
    return Settings(data_dir=tmp_path / "data", workspace=tmp_path / "workspace", **others)


class Standing(Clock):
    """No deadline passes by it, however busy the machine is; waiting for something takes as long as it takes."""

    def monotonic(self) -> float:
        return 1_000.0

    def wait(self, event: threading.Event, seconds: float) -> bool:
        return event.wait(seconds * 50)


@pytest.fixture
def standing(monkeypatch: pytest.MonkeyPatch) -> Standing:
    """The clock for recalls that must come back with an answer: their callers do not give up either."""
    monkeypatch.setattr(async_memory, "_SLACK", 50.0)
    return Standing()


def in_loop(work: Callable[[], Awaitable[None]]) -> None:
    """Run with a limit: a deadlock is a failure, not a hanging test run."""

    async def limited() -> None:
        await asyncio.wait_for(work(), 2 * PATIENCE_S)

    asyncio.run(limited())


def test_every_method_answers_as_memory_does(tmp_path: Path, standing: Standing) -> None:
    chosen = settings(tmp_path)
    transcript = tmp_path / "t.jsonl"
    transcript.write_text('{"role": "user", "content": "The quillon is in the attic."}\n', encoding="utf-8")

    async def work() -> None:
        async with await AsyncMemory.open(settings=chosen, clock=standing) as memory:
            receipt = await memory.remember(session="s1", run_id="r1", messages=user("I love oolong tea."), **OWNER)
            assert (receipt.status, len(receipt.facts)) == ("stored", 1)
            again = await memory.remember(session="s1", run_id="r1", messages=user("I love oolong tea."))
            assert again.status == "duplicate"
            assert (await memory.import_transcripts([transcript], format="generic", session="s2")).messages == 1
            assert (await memory.index()).status == "ok"
            page = await memory.search("router VLAN", session="s1")
            passage = await memory.get(page.hits[0].reference, session="s1")
            block = await memory.recall("what do I like to drink?", session="s1")
            sessions = await memory.sessions()
            status = await memory.status()
        with Memory.open(settings=chosen, clock=standing) as same:
            assert same.search("router VLAN", session="s1") == page
            assert same.get(page.hits[0].reference, session="s1") == passage
            plain = same.recall("what do I like to drink?", session="s1")
            assert (plain.text, plain.hits, plain.reason) == (block.text, block.hits, "ok")
            assert same.sessions() == sessions
            assert same.status()["messages"] == status["messages"] == 2

    in_loop(work)


def test_errors_come_out_as_they_are(tmp_path: Path) -> None:
    async def work() -> None:
        async with await AsyncMemory.open(settings=settings(tmp_path)) as memory:
            with pytest.raises(errors.InvalidArgument):
                await memory.search("x", max_results=0)
            with pytest.raises(errors.AccessDenied):
                await memory.get("MEMORY.md", session="nobody")
        with pytest.raises(errors.UnknownAgent):
            await AsyncMemory.open(tmp_path / "none", read_only=True)

    in_loop(work)


def test_many_calls_at_once_all_answer_and_none_is_lost(tmp_path: Path, standing: Standing) -> None:
    async def work() -> None:
        async with await AsyncMemory.open(settings=settings(tmp_path), clock=standing) as memory:
            await memory.index()  # a recall that finds a write going on answers from what is indexed
            writes = [
                memory.remember(
                    session=f"s{number % 5}", run_id=f"r{number}", messages=user(f"Quillon {number}."), **OWNER
                )
                for number in range(40)
            ]
            reads = [memory.search("router VLAN") for _ in range(40)]
            recalls = [memory.recall("which VLAN has the router?") for _ in range(20)]
            receipts, pages, blocks = await asyncio.gather(
                asyncio.gather(*writes), asyncio.gather(*reads), asyncio.gather(*recalls)
            )
            assert [receipt.status for receipt in receipts] == ["stored"] * 40
            assert all(page.hits[0].path == "MEMORY.md" for page in pages)
            assert all("VLAN is 42" in block.text for block in blocks)
            assert (await memory.status())["messages"] == 40
            assert len((await memory.search("quillon", max_results=100, sources=["sessions"])).hits) == 40

    in_loop(work)


def test_the_loop_is_never_blocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, release = threading.Event(), threading.Event()
    search = run.search

    def slow(*arguments: Any, **options: Any) -> Any:
        begun.set()
        assert release.wait(PATIENCE_S)
        return search(*arguments, **options)

    async def work() -> None:
        async with await AsyncMemory.open(settings=settings(tmp_path)) as memory:
            monkeypatch.setattr(run, "search", slow)
            searching = asyncio.create_task(memory.search("router"))
            assert await asyncio.to_thread(begun.wait, PATIENCE_S), "the loop went on while the search began"
            for _ in range(20):
                await asyncio.sleep(0)
            assert not searching.done()
            release.set()
            assert (await searching).hits

    in_loop(work)


class Hang:
    """A search that never ends by itself; counts how many began and how many were stopped."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.stopped = threading.Semaphore(0), threading.Semaphore(0)
        monkeypatch.setattr(run, "search", self)

    def __call__(self, connection: apsw.Connection, *_: object, **__: object) -> object:
        self.begun.release()
        try:
            return connection.execute(ENDLESS).fetchall()
        finally:
            self.stopped.release()


async def until(semaphore: threading.Semaphore) -> None:
    assert await asyncio.to_thread(semaphore.acquire, True, PATIENCE_S)


def test_cancelling_a_recall_stops_its_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, standing: Standing
) -> None:
    """No deadline passes here: what stops the search is the cancellation."""

    async def work() -> None:
        async with await AsyncMemory.open(settings=settings(tmp_path), clock=standing) as memory:
            with monkeypatch.context() as patched:
                hang = Hang(patched)
                task = asyncio.create_task(memory.recall("which VLAN has the router?"))
                await until(hang.begun)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await until(hang.stopped)
            assert (await memory.recall("which VLAN has the router?")).reason == "ok"

    in_loop(work)


def test_hanging_recalls_return_also_when_all_threads_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their searches never end by themselves: that every call returns is the deadline's doing."""

    async def work() -> None:
        async with await AsyncMemory.open(settings=settings(tmp_path, auto_recall_timeout_ms=300)) as memory:
            Hang(monkeypatch)
            blocks = await asyncio.gather(*(memory.recall("which VLAN has the router?") for _ in range(20)))
            assert {(block.text, block.reason) for block in blocks} == {("", "timeout")}

    in_loop(work)


def test_a_recall_does_not_wait_behind_long_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, standing: Standing
) -> None:
    """Every thread for other work is taken, and more of it waits: the recall is answered all the same."""
    begun, release = threading.Semaphore(0), threading.Event()

    def status() -> dict[str, Any]:
        begun.release()
        assert release.wait(3 * PATIENCE_S)
        return {}

    async def work() -> None:
        async with await AsyncMemory.open(settings=settings(tmp_path), clock=standing) as memory:
            monkeypatch.setattr(memory._memory, "status", status)
            long = [asyncio.create_task(memory.status()) for _ in range(2 * async_memory._THREADS)]
            for _ in range(async_memory._THREADS):
                await until(begun)
            block = await memory.recall("which VLAN has the router?")
            release.set()
            await asyncio.gather(*long)
            assert block.reason == "ok"

    in_loop(work)


def test_inv_094_closing_finishes_what_was_accepted_and_refuses_the_rest(tmp_path: Path) -> None:
    chosen = settings(tmp_path)

    async def work() -> None:
        memory = await AsyncMemory.open(settings=chosen)
        await memory.index()  # a search that meets a write takes no notes in
        accepted = [
            asyncio.create_task(memory.remember(session="s", run_id=f"r{n}", messages=user(f"Quillon {n}.")))
            for n in range(20)
        ]
        searching = asyncio.create_task(memory.search("router VLAN"))
        await asyncio.sleep(0)
        await memory.close()
        assert [(await task).status for task in accepted] == ["stored"] * 20
        assert (await searching).hits
        await memory.close()
        for call in (memory.search("x"), memory.recall("x"), memory.remember(session="s", messages=user("x"))):
            with pytest.raises(errors.MemoryClosed):
                await call

    in_loop(work)
    with Memory.open(settings=chosen) as memory:
        assert memory.status()["messages"] == 20


def test_closing_while_a_recall_hangs_waits_for_its_deadline_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        memory = await AsyncMemory.open(settings=settings(tmp_path, auto_recall_timeout_ms=200))
        hang = Hang(monkeypatch)
        task = asyncio.create_task(memory.recall("which VLAN has the router?"))
        await until(hang.begun)
        await memory.close()
        assert (await task).reason == "timeout"
        await until(hang.stopped)

    in_loop(work)


def test_no_file_stays_open_after_the_end(tmp_path: Path) -> None:
    chosen = settings(tmp_path)

    async def work() -> None:
        async with await AsyncMemory.open(settings=chosen) as memory:
            await asyncio.gather(*(memory.search("router") for _ in range(8)))
            await asyncio.gather(*(memory.recall("which VLAN has the router?") for _ in range(8)))

    in_loop(work)
    open_files = {str(path.resolve()) for path in Path("/proc/self/fd").iterdir() if path.exists()}
    assert not [name for name in open_files if name.startswith(str(chosen.data_dir))]


def test_opening_that_nobody_waits_for_lets_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, release, closed = threading.Event(), threading.Event(), threading.Event()
    opening, closing = Memory.open, Memory.close

    def slow(*arguments: Any, **options: Any) -> Memory:
        begun.set()
        assert release.wait(PATIENCE_S)
        return opening(*arguments, **options)

    def close(memory: Memory) -> None:
        closing(memory)
        closed.set()

    monkeypatch.setattr(Memory, "open", slow)
    monkeypatch.setattr(Memory, "close", close)

    async def work() -> None:
        task = asyncio.create_task(AsyncMemory.open(settings=settings(tmp_path)))
        assert await asyncio.to_thread(begun.wait, PATIENCE_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        release.set()
        assert await asyncio.to_thread(closed.wait, PATIENCE_S)

    in_loop(work)
