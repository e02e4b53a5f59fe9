"""Cursors of our provider: bound, bounded, never an empty page, never a hit twice; and what they keep open."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory, errors, limits, paths
from memory_sqlite.clock import FixedClock
from memory_sqlite.config import Settings
from memory_sqlite.generations import files
from memory_sqlite.runtime import cursors
from memory_sqlite.runtime.callers import (
    CallerAuthority,
    CallerContext,
    ConversationAudience,
    OperatorAuthority,
    OwnerPrivateAudience,
    SessionAuthority,
)
from memory_sqlite.runtime.cursors import Place
from memory_sqlite.runtime.handle import Handle
from memory_sqlite.runtime.shapes import GetRequest, OpenRequest, SearchPage, SearchRequest

OWNER = SessionAuthority("direct", False, None, OwnerPrivateAudience("main"))
OPERATOR = OperatorAuthority(("operator.read",))


@pytest.fixture
def memory(tmp_path: Path, clock: FixedClock) -> Iterator[Memory]:
    """Twelve notes and three messages of the owner, in a memory whose clock stands still."""
    workspace = tmp_path / "workspace"
    (workspace / "memory").mkdir(parents=True)
    with Memory.open(settings=Settings(data_dir=tmp_path / "data", workspace=workspace), clock=clock) as opened:
        for at in range(12):
            write(opened, at)
        for at in range(3):
            opened.remember(
                session="direct",
                messages=[{"role": "user", "content": f"the walnut of day {at} {'pqr'[at] * 5} is gone"}],
                chat_type="direct",
                sender_is_owner=True,
            )
        opened.index()
        yield opened


def write(memory: Memory, at: int) -> None:
    assert memory.settings.workspace is not None
    path = memory.settings.workspace / "memory" / f"n{at:03}.md"
    path.write_text(f"The walnut of drawer {at} has {'xyz'[at % 3] * (at % 9 + 1)} rings.\n", encoding="utf-8")


async def opened(memory: Memory, authority: CallerAuthority = OWNER) -> Handle:
    result = await memory.provider_runtime().open(OpenRequest("main", CallerContext(authority, lambda: None)))
    assert isinstance(result.provider, Handle)
    return result.provider


async def page(handle: Handle, cursor: str | None = None, query: str = "walnut", **request: Any) -> SearchPage:
    request = {"max_results": 4, "sources": ("memory",), **request}
    return await handle.search(SearchRequest(query, cursor=cursor, **request))


def names(*pages: SearchPage) -> list[str]:
    return [hit.reference.id for one in pages for hit in one.hits]


async def rest(handle: Handle, cursor: str | None, **request: Any) -> list[SearchPage]:
    pages = []
    while cursor is not None:
        pages.append(await page(handle, cursor, **request))
        cursor = pages[-1].next_cursor
    return pages


def test_an_open_handle_keeps_its_generation(memory: Memory, tmp_path: Path) -> None:
    """The rest of a listing is of the generation it began in, also when the notes and two generations have changed."""

    async def run() -> None:
        handle = await opened(memory)
        first = await page(handle)
        assert handle._holding is not None
        number = handle._holding.numbers()[0]
        assert memory.settings.workspace is not None
        for path in (memory.settings.workspace / "memory").iterdir():
            path.write_text("Nothing of that kind.\n", encoding="utf-8")
        memory.index(full=True)
        memory.index(full=True)
        file = paths.generation_file(memory._opened.store.directory, number)  # type: ignore[union-attr]
        assert files.is_held(file), "the open connection is the hold"
        pages = await rest(handle, first.next_cursor)
        every = names(first, *pages)
        assert len(every) == len(set(every)) >= 12
        for hit in pages[0].hits:  # of notes that say something else by now
            if hit.reference.id.startswith("note:"):
                assert "walnut" in hit.excerpt
                assert (await handle.get(GetRequest(hit.reference))).status == "not_found"
        await handle.close()
        assert not files.is_held(file)

    asyncio.run(run())


def test_after_ten_minutes_it_goes_on_in_the_current_generation(memory: Memory, clock: FixedClock) -> None:
    """The old one is let go; what came meanwhile may be listed, nothing twice."""

    async def run() -> None:
        handle = await opened(memory)
        first = await page(handle)
        assert handle._holding is not None
        before = handle._holding.numbers()[0]
        memory.index(full=True)
        write(memory, 40)
        memory.index()
        clock.advance(int(limits.CURSOR_HOLD_S * 1_000))
        second = await page(handle, first.next_cursor)
        assert before not in handle._holding.numbers()
        every = names(first, second, *await rest(handle, second.next_cursor))
        assert len(every) == len(set(every))
        assert set(every) >= {f"note:memory/n{at:03}.md#L1-L1" for at in range(12)}

    asyncio.run(run())


def test_who_asks_no_more_keeps_nothing_open(memory: Memory, clock: FixedClock) -> None:
    """After ten minutes the generation is let go by the handle itself."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        handle = await opened(memory)
        await page(handle)
        watch = handle._sweeping
        assert watch is not None and handle._holding is not None
        assert 0 < watch.when() - loop.time() <= limits.CURSOR_HOLD_S
        clock.advance(int(limits.CURSOR_HOLD_S * 1_000))
        swept = handle._sweep()
        assert swept is not None
        await swept
        assert handle._holding.numbers() == []
        await asyncio.sleep(0)
        assert handle._sweeping is None, "nothing is left to be watched"
        await handle.close()

    asyncio.run(run())


def test_a_later_cursor_is_kept_no_longer_than_an_earlier_one(memory: Memory, clock: FixedClock) -> None:
    """Each is let go when its own ten minutes are over."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        handle = await opened(memory)
        await page(handle)
        clock.advance(300_000)
        await page(handle)
        clock.advance(300_000)
        assert handle._holding is not None
        swept = handle._sweep()
        assert swept is not None
        await swept
        await asyncio.sleep(0)
        assert len(handle._holding.numbers()) == 1
        assert handle._sweeping is not None
        assert handle._sweeping.when() - loop.time() <= 300.0
        await handle.close()
        assert handle._sweeping.cancelled()

    asyncio.run(run())


def test_a_handle_that_outlives_its_loop_is_watched_by_the_next(memory: Memory) -> None:
    """A loop that has ended calls nobody any more."""
    handle = asyncio.run(opened(memory))
    asyncio.run(page(handle))
    first = handle._sweeping
    asyncio.run(page(handle))
    assert handle._sweeping is not None and handle._sweeping is not first
    asyncio.run(handle.close())


def test_all_handles_together_keep_few_generations_open(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of handles are no thousands of open files: the oldest goes on in the current generation."""
    monkeypatch.setattr(limits, "CURSOR_HOLDS_ALL_MAX", 3)
    provider = memory.provider_runtime()

    async def run() -> None:
        handles, pages = [], []
        for _ in range(6):
            result = await provider.open(OpenRequest("main", CallerContext(OWNER, lambda: None)))
            assert isinstance(result.provider, Handle)
            handles.append(result.provider)
            pages.append(await page(result.provider))
        held = [len(handle._holding.numbers()) for handle in handles if handle._holding is not None]
        assert held == [0, 0, 0, 1, 1, 1]
        for handle, first in zip(handles, pages, strict=True):
            every = names(first, *await rest(handle, first.next_cursor))
            assert len(every) == len(set(every)) == 15
            await handle.close()

    asyncio.run(run())


def test_without_its_handle_a_cursor_goes_on_after_the_last_hit(memory: Memory) -> None:
    """Each page by a handle of its own, while the index is built anew between them: every hit once."""

    async def run() -> None:
        cursor, every = None, []
        while True:
            handle = await opened(memory)
            one = await page(handle, cursor)
            await handle.close()
            assert one.hits
            every += names(one)
            cursor = one.next_cursor
            if cursor is None:
                break
            memory.index(full=True)
        assert len(every) == len(set(every))
        assert set(every) >= {f"note:memory/n{at:03}.md#L1-L1" for at in range(12)}

    asyncio.run(run())


def test_nothing_left_is_an_error_and_no_empty_page(memory: Memory) -> None:
    """All that was still to come is forgotten in between; what is forgotten is never listed."""

    async def run() -> None:
        handle = await opened(memory)
        first = await page(handle, sources=("sessions",), max_results=2)
        assert len(first.hits) == 2 and first.next_cursor is not None
        memory.forget(sessions=["direct"])
        with pytest.raises(errors.CursorExpired):
            await page(handle, first.next_cursor, sources=("sessions",), max_results=2)
        assert (await page(handle, sources=("sessions",))).hits == ()

    asyncio.run(run())


def test_a_cursor_is_bound_to_everything_that_was_asked(memory: Memory) -> None:
    """Query, floor, sources, projects, hint and caller; the number of results may change."""
    strangers: dict[str, dict[str, Any]] = {
        "query": {"query": "rings"},
        "floor": {"min_score": 0.01},
        "sources": {"sources": ("memory", "sessions")},
        "projects": {"active_project_keys": ("a",)},
        "hint": {"lexical_only": True},
    }

    async def run() -> None:
        handle = await opened(memory)
        cursor = (await page(handle)).next_cursor
        assert cursor is not None
        for name, request in strangers.items():
            with pytest.raises(errors.CursorExpired):
                await page(handle, cursor, **request)
                pytest.fail(f"followed with another {name}")
        for authority in (
            OPERATOR,
            SessionAuthority("other", False, None, OwnerPrivateAudience("main")),
            SessionAuthority("direct", False, None, ConversationAudience("main", "direct", "id")),
        ):
            with pytest.raises(errors.CursorExpired):
                await page(await opened(memory, authority), cursor)
        assert len((await page(handle, cursor, max_results=7)).hits) == 7
        assert names(await page(handle, cursor)) == names(await page(handle, cursor)), "a cursor may be used again"

    asyncio.run(run())


def test_another_agents_cursor_is_none(tmp_path: Path) -> None:
    """Though both stores have one key."""
    cursor_of = {}
    workspace = tmp_path / "ws"
    (workspace / "memory").mkdir(parents=True)
    for at in range(6):
        (workspace / "memory" / f"{at}.md").write_text(f"walnut {at} {'ab'[at % 2] * at}\n", encoding="utf-8")
    provider = Memory.serve_agents(
        tmp_path / "data", workspaces={"ada": workspace, "bob": workspace}, serving=False, settings=Settings()
    )

    async def run() -> None:
        for agent in ("ada", "bob"):
            result = await provider.open(OpenRequest(agent, CallerContext(OPERATOR, lambda: None)))
            assert isinstance(result.provider, Handle)
            cursor_of[agent] = (await page(result.provider, max_results=2)).next_cursor
            if agent == "bob":
                with pytest.raises(errors.CursorExpired):
                    await page(result.provider, cursor_of["ada"], max_results=2)
        await provider.close_all_memory_search_managers()

    asyncio.run(run())
    assert all(cursor_of.values())


def test_strange_cursors_are_refused(memory: Memory) -> None:
    """Cut, lengthened, changed in any place, of 5 KB, of no letters, and of no text at all."""

    async def run() -> None:
        handle = await opened(memory)
        cursor = (await page(handle)).next_cursor
        assert cursor is not None
        changed = [
            cursor[:at] + ("A" if cursor[at] != "A" else "B") + cursor[at + 1 :] for at in range(0, len(cursor) - 1, 7)
        ]
        for strange in [cursor[:-4], cursor[:10], cursor + "AAAA", "é", "~~~", "A", *changed]:
            with pytest.raises(errors.CursorExpired):
                await page(handle, strange)
        for wrong in ("", "   ", "x" * 5_120, "x" * (limits.CURSOR_MAX_CHARS + 1), 7):
            with pytest.raises(errors.InvalidArgument, match="cursor"):
                await page(handle, wrong)  # type: ignore[arg-type]

    asyncio.run(run())


def test_a_cursor_is_bounded_and_says_nothing() -> None:
    """The longest one stays below the contract's 4,096 characters, and reads back."""
    given = tuple(cursors.seen(f"note:memory/{at}.md") for at in range(limits.LISTING_MAX))
    place = Place(1_784_104_200_120, 0.731, b"12345678", given)
    bound = cursors.binding("main", "operator", "walnut", None, ["memory"], False, [])
    text = cursors.write(b"k" * 32, bound, place)
    assert len(text) < limits.CURSOR_MAX_CHARS
    assert cursors.read(b"k" * 32, bound, text) == place
    with pytest.raises(errors.CursorExpired):
        cursors.read(b"j" * 32, bound, text)


def test_a_listing_is_bounded_and_says_so(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of what is listed is not taken for the end of what matched."""
    monkeypatch.setattr(limits, "LISTING_MAX", 8)

    async def run() -> None:
        handle = await opened(memory)
        first = await page(handle)
        last = (await rest(handle, first.next_cursor))[-1]
        assert (last.coverage, last.next_cursor) == ("partial", None)
        assert last.warning == "only the first 8 hits are listed; ask more narrowly"

    asyncio.run(run())


def test_a_handle_keeps_few_generations_open(memory: Memory) -> None:
    """Of more listings the oldest goes on in the current generation; closing lets go of all."""

    async def run() -> None:
        handle = await opened(memory)
        first = await page(handle)
        for _ in range(limits.CURSOR_HOLDS_MAX + 2):
            await page(handle)
        assert handle._holding is not None
        assert len(handle._holding.numbers()) == limits.CURSOR_HOLDS_MAX
        every = names(first, *await rest(handle, first.next_cursor))
        assert len(every) == len(set(every))
        holding = handle._holding
        await handle.close()
        assert holding.numbers() == []

    asyncio.run(run())


def test_one_long_conversation_loses_nothing_between_pages(memory: Memory) -> None:
    """Every page is in the order of scores, however many hits are of one session."""
    for at in range(14):
        memory.remember(
            session="long",
            messages=[{"role": "assistant", "content": f"plum {at} plum {'jkl'[at % 3] * (at + 1)}"}],
            chat_type="direct",
            sender_is_owner=True,
        )
    assert memory.settings.workspace is not None
    for at in range(5):
        note = memory.settings.workspace / "memory" / f"plum{at}.md"
        note.write_text(f"A note on gardens and on trees, {'mno'[at % 3] * (at + 2)}, with a plum.\n", encoding="utf-8")
    memory.index()

    async def run() -> None:
        handle = await opened(memory)
        request: dict[str, Any] = {"query": "plum", "sources": ("memory", "sessions"), "max_results": 4}
        first = await page(handle, **request)
        pages = [first, *await rest(handle, first.next_cursor, **request)]
        every = names(*pages)
        assert len(every) == len(set(every)) and len(every) >= 19
        scores = [hit.score for one in pages for hit in one.hits if hit.score is not None]
        assert scores == sorted(scores, reverse=True)

    asyncio.run(run())


def test_what_comes_first_meanwhile_does_not_come_back(memory: Memory) -> None:
    """In a newer generation: what would have stood before the last hit is not listed behind it."""

    async def run() -> None:
        handle = await opened(memory)
        first = await page(handle, query="walnut drawer rings")
        await handle.close()
        assert memory.settings.workspace is not None
        better = memory.settings.workspace / "memory" / "better.md"
        better.write_text("# walnut drawer rings\n\nwalnut drawer rings\n", encoding="utf-8")
        memory.index()
        other = await opened(memory)
        assert names(await page(other, query="walnut drawer rings"))[0].startswith("note:memory/better.md")
        later = await rest(other, first.next_cursor, query="walnut drawer rings")
        assert not any("better" in name for name in names(*later))

    asyncio.run(run())


def test_many_callers_of_a_serving_memory_each_list_everything_once(tmp_path: Path) -> None:
    """Searches in worker processes, further pages in this one; all at once, and one of them cancelled."""
    workspace = tmp_path / "workspace"
    (workspace / "memory").mkdir(parents=True)
    settings = Settings(data_dir=tmp_path / "data", workspace=workspace)
    with Memory.open(settings=settings, serving=True) as memory:
        for at in range(12):
            write(memory, at)
        memory.index()

        async def everything() -> list[str]:
            handle = await opened(memory, OPERATOR)
            try:
                first = await page(handle)
                return names(first, *await rest(handle, first.next_cursor))
            finally:
                await handle.close()

        async def run() -> None:
            tasks = [asyncio.create_task(everything()) for _ in range(5)]
            await asyncio.sleep(0)
            tasks[0].cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(done[0], asyncio.CancelledError)
            for every in done[1:]:
                assert not isinstance(every, BaseException)
                assert len(every) == len(set(every)) == 12

        asyncio.run(run())
