"""Our provider behind our host, with audiences that were really minted: currency reaches into every read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.agent.answer import answer
from memory_sqlite.config import Settings
from memory_sqlite.host.memory_host import MemoryHost
from memory_sqlite.host.session_rows import SessionRow
from memory_sqlite.host.slots import Plugin
from memory_sqlite.runtime.callers import CallerContext, SessionAuthority
from memory_sqlite.runtime.plugins import MemoryCapability
from memory_sqlite.runtime.shapes import CandidateRequest, GetRequest, OpenRequest, SearchRequest

CONFIG = {"plugins": {"slots": {"memory": "memory-sqlite"}}}
DIRECT, ROOM = "agent:main:direct", "agent:main:room"
IDS = {DIRECT: "10000000-0000-4000-8000-000000000001", ROOM: "10000000-0000-4000-8000-000000000002"}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """Notes, and a room where others speak."""
    workspace = tmp_path / "workspace"
    (workspace / "memory").mkdir(parents=True)
    for at in range(6):
        note = workspace / "memory" / f"{at}.md"
        note.write_text(f"The owner's walnut {at} {'xyz'[at % 3] * (at + 1)}.\n", encoding="utf-8")
    with Memory.open(settings=Settings(data_dir=tmp_path / "data", workspace=workspace)) as opened:
        message = {"role": "user", "content": "the room's walnut"}
        opened.remember(session=ROOM, messages=[message], chat_type="group")
        opened.index()
        yield opened


def host_over(memory: Memory) -> MemoryHost:
    """A host whose slot our provider has, and two sessions."""
    host = MemoryHost(CONFIG)
    capability = MemoryCapability(provider_runtime=memory.provider_runtime())
    host.slot.register(Plugin("memory-sqlite", frozenset({"memory"})), capability)
    host.rows.put(SessionRow(DIRECT, IDS[DIRECT], "r1", "direct"))
    host.rows.put(SessionRow(ROOM, IDS[ROOM], "r1", "group"))
    return host


async def open_for(host: MemoryHost, key: str) -> Any:
    audience = await host.audiences.resolve(agent_id="main", session_key=key, session_id=IDS[key], sender_is_owner=True)
    context = CallerContext(SessionAuthority(key, False, IDS[key], audience), lambda: None)
    result = await host.open(OpenRequest("main", context))
    assert (result.provider_id, result.adapter, result.error) == ("memory-sqlite", "native", None)
    return result.provider


def test_each_audience_sees_its_own_through_the_host(memory: Memory) -> None:
    """The owner, also in a group, is there as the group."""

    async def run() -> None:
        host = host_over(memory)
        owner, room = await open_for(host, DIRECT), await open_for(host, ROOM)
        words = {hit.excerpt for hit in (await room.search(SearchRequest("walnut", max_results=20))).hits}
        assert words and not any("owner" in word for word in words)
        page = await owner.search(SearchRequest("walnut", max_results=4))
        assert len(page.hits) == 4 and all("owner" in hit.excerpt for hit in page.hits)
        assert (await owner.get(GetRequest(page.hits[0].reference))).status == "ok"
        with pytest.raises(errors.AccessDenied):
            await room.get(GetRequest(page.hits[0].reference))
        following = await owner.search(SearchRequest("walnut", max_results=4, cursor=page.next_cursor))
        assert len(following.hits) == 2
        with pytest.raises(errors.CursorExpired):
            await room.search(SearchRequest("walnut", max_results=4, cursor=page.next_cursor))
        for handle in (owner, room):
            await handle.close()

    asyncio.run(run())


def test_a_reset_in_the_middle_of_a_search_stops_it(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider asks again before it releases; the other caller goes on."""

    async def run() -> None:
        host = host_over(memory)
        owner, room = await open_for(host, DIRECT), await open_for(host, ROOM)
        before = await owner.search(SearchRequest("walnut"))

        def resetting(*args: Any, **more: Any) -> Any:
            found = answer(*args, **more)
            host.rows.update(DIRECT, session_id="20000000-0000-4000-8000-000000000009")
            return found

        monkeypatch.setattr("memory_sqlite.runtime.listing.answer", resetting)
        with pytest.raises(errors.CallerNotCurrent):
            await owner.search(SearchRequest("walnut"))
        monkeypatch.setattr("memory_sqlite.runtime.listing.answer", answer)
        for call in (
            owner.search(SearchRequest("walnut")),
            owner.get(GetRequest(before.hits[0].reference)),
            owner.candidates(CandidateRequest("trigger")),
        ):
            with pytest.raises(errors.CallerNotCurrent):
                await call
        assert (await room.search(SearchRequest("walnut"))).hits
        await owner.close()

    asyncio.run(run())
