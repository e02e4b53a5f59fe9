"""The context engine and what is nasty: odd messages, images, hosts that fail, two keys and one session id."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.clock import FixedClock
from memory_sqlite.config import Settings
from memory_sqlite.context.engine import MemoryContextEngine
from memory_sqlite.context.shapes import (
    CompactResult,
    DeltaMissing,
    DeltaPage,
    DeltaResult,
    DeltaUnavailable,
    TurnAdmission,
    TurnAnchor,
)
from memory_sqlite.model import SessionInfo
from memory_sqlite.runtime.signals import AbortSignal

KEY, ID = "agent:main:main", "10000000-0000-4000-8000-000000000001"
ROOM, ROOM_ID = "agent:main:group:garden", "10000000-0000-4000-8000-000000000002"
OWNERS = SessionInfo("", "direct", "interactive", True)
GROUPS = SessionInfo("", "group", "interactive", False)
HELLO = {"role": "user", "content": "hello"}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(settings=Settings(data_dir=tmp_path / "data"), clock=FixedClock()) as opened:
        yield opened


def tokens(memory: Memory, *messages: dict[str, Any], budget: int = 100_000, **engine: Any) -> int:
    made = memory.context_engine(**engine)
    return asyncio.run(made.assemble(session_id=ID, messages=messages, token_budget=budget)).estimated_tokens


def commit(memory: Memory, key: str, session_id: str, text: str, info: SessionInfo | None, entry: str = "") -> str:
    """One committed turn, whose text names it."""
    start = TurnAnchor("main", session_id, key, "host", "g", entry or text, 1, None, 1)
    engine = memory.context_engine(describe=lambda key, id: info)
    done = engine.commit_turn(
        advancement_key=text,
        admission=TurnAdmission(start, text),
        terminal=start,
        messages=[{"role": "user", "content": text}],
        session_id=session_id,
    )
    return asyncio.run(done).status


def recalled(memory: Memory, key: str, session_id: str, info: SessionInfo | None) -> str:
    engine = memory.context_engine(describe=lambda key, id: info)
    asked = [{"role": "compactionSummary", "summary": "before"}, {"role": "user", "content": "The walnut safe code?"}]
    made = engine.assemble(session_id=session_id, session_key=key, messages=asked)
    return asyncio.run(made).system_prompt_addition or ""


# --- what messages cost -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [["string", "null"], {}, None, 7])
def test_a_type_that_is_no_word_is_counted(memory: Memory, kind: Any) -> None:
    """As in a JSON schema among the arguments of a call."""
    call = {"type": "toolCall", "id": "c1", "name": "ask", "arguments": {"type": kind, "title": "x" * 500}}
    odd = {"role": "assistant", "content": [call, {"type": kind, "text": "y" * 500}]}
    assert tokens(memory, HELLO, odd) > 1_000


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "image", "data": "A" * 90_000},
        {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "image", "data": "AAAA"}]},
    ],
    ids=["small", "address", "large", "in a result"],
)
def test_an_image_counts_as_one_however_small_its_file(memory: Memory, block: dict[str, Any]) -> None:
    """Its bytes do not tell what it costs: a small file may be a large picture."""
    assert 50_000 <= tokens(memory, {"role": "user", "content": ["Look.", block]}) < 50_300
    assert 900 <= tokens(memory, {"role": "user", "content": ["Look.", block]}, image_tokens=900) < 1_200


def test_what_only_calls_itself_an_image_is_text(memory: Memory) -> None:
    """In the arguments of a call, and beside the image in its block."""
    drawn = {"type": "toolCall", "id": "c1", "name": "draw", "arguments": {"type": "image", "prompt": "x" * 9_000}}
    assert tokens(memory, HELLO, {"role": "assistant", "content": [drawn]}, image_tokens=10) > 9_000
    told = {"type": "image", "data": "A" * 9_500, "alt": "y" * 9_000}
    assert tokens(memory, {"role": "user", "content": [told]}, image_tokens=10) > 9_000


@pytest.mark.parametrize("count", [-1, float("nan"), 1.5, True])
def test_image_tokens_that_are_no_count_are_refused(memory: Memory, count: Any) -> None:
    with pytest.raises(errors.InvalidArgument, match="image_tokens"):
        memory.context_engine(image_tokens=count)


def test_what_is_recalled_takes_a_quarter_of_the_room_and_no_more(memory: Memory) -> None:
    for number in range(9):
        commit(
            memory, KEY, ID, f"The walnut safe code of floor {number} is {7_000 + number}, and was so before.", OWNERS
        )
    engine = memory.context_engine(describe=lambda key, id: OWNERS)
    asked = {"role": "user", "content": "What is the walnut safe code of each floor?"}
    bare = tokens(memory, asked, budget=80)
    for budget in (bare + 2_400, bare + 3_200, bare + 4_800):
        made = engine.assemble(session_id=ID, session_key=KEY, messages=[asked], token_budget=budget)
        added = asyncio.run(made).system_prompt_addition or ""
        assert 0 < len(added.encode()) <= (budget - bare) // 4


def test_what_the_prompt_shows_is_not_recalled_beside_it(memory: Memory) -> None:
    """A record of a turn that is in the messages, too."""
    said = "The walnut safe code is 7731."
    commit(memory, KEY, ID, said, OWNERS)
    engine = memory.context_engine(describe=lambda key, id: OWNERS)
    asked = {"role": "user", "content": "What is the walnut safe code?"}
    for shown in ([], [{"role": "user", "content": said}, {"role": "assistant", "content": "Noted."}]):
        made = engine.assemble(session_id=ID, session_key=KEY, messages=[*shown, asked])
        assert ("7731" in (asyncio.run(made).system_prompt_addition or "")) == (not shown)


# --- a prompt is made all the same ------------------------------------------------------------------------------------


def test_a_busy_store_costs_a_prompt_its_recall_only(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    rooms = memory.rooms()
    assert rooms is not None

    def busy() -> Any:
        raise errors.StoreBusy("another process writes")

    commit(memory, KEY, ID, "The walnut safe code is 7731.", OWNERS)
    assert "7731" in recalled(memory, KEY, ID, OWNERS)
    monkeypatch.setattr(rooms.opened.store.readers, "borrow", busy)
    assert recalled(memory, KEY, ID, OWNERS) == ""


class Behind:
    """A host's transcript that cannot be read at first, and then does as ``then`` says."""

    def __init__(self, then: str) -> None:
        self.then = then
        self.asked = 0
        self.hanging = asyncio.Event()

    async def read(self, **asked: Any) -> DeltaResult:
        self.asked += 1
        if self.asked == 1:
            return DeltaUnavailable()
        if self.then == "raises":
            raise RuntimeError("the host's own failure")
        self.hanging.set()
        await asyncio.Event().wait()
        raise AssertionError("nobody waits for it")


async def behind(memory: Memory, host: Behind) -> MemoryContextEngine:
    engine = memory.context_engine(read_delta=host.read)
    assert (await engine.bootstrap(session_id=ID, session_key=KEY)).bootstrapped is False
    return engine


def test_a_prompt_and_maintenance_go_on_without_a_transcript_that_raises(memory: Memory) -> None:
    async def scenario() -> None:
        host = Behind("raises")
        engine = await behind(memory, host)
        assert (await engine.assemble(session_id=ID, session_key=KEY, messages=[HELLO])).messages == (HELLO,)
        assert (await engine.maintain(session_id=ID, session_key=KEY)).reason is None
        assert host.asked == 3  # each tried again
        with pytest.raises(RuntimeError):  # who asks for the transcript is told
            await engine.bootstrap(session_id=ID, session_key=KEY)

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ["assemble", "maintain"])
def test_an_abort_is_heard_while_a_transcript_is_read(memory: Memory, name: str) -> None:
    async def scenario() -> None:
        host, signal = Behind("hangs"), AbortSignal()
        engine = await behind(memory, host)
        more = {"messages": [HELLO]} if name == "assemble" else {}
        doing = asyncio.ensure_future(
            getattr(engine, name)(session_id=ID, session_key=KEY, abort_signal=signal, **more)
        )
        await host.hanging.wait()
        signal.abort()
        if name == "assemble":
            with pytest.raises(errors.Cancelled):
                await doing
        else:
            assert (await doing).reason == "aborted"

    asyncio.run(scenario())


def test_a_compaction_that_ends_with_an_abort_was_aborted(memory: Memory) -> None:
    signal = AbortSignal()

    async def compaction(**given: Any) -> CompactResult:
        signal.abort()
        return CompactResult(ok=True, compacted=True)

    engine = memory.context_engine(compaction=compaction)
    with pytest.raises(errors.Cancelled):
        asyncio.run(engine.compact(session_id=ID, session_key=KEY, abort_signal=signal))


# --- entries that are none --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", ["", " ", "e" * 600, "e\ud800\0"], ids=["empty", "blank", "long", "no text"])
def test_a_turn_is_kept_whatever_its_entries_are_called(memory: Memory, entry: str) -> None:
    """As an import keeps it: an id that cannot be one is left out, and the key still makes it once."""
    start = TurnAnchor("main", ID, KEY, "host", "g", entry, 1, None, 1)
    given: dict[str, Any] = {"advancement_key": "k", "admission": TurnAdmission(start, "k"), "terminal": start}
    engine = memory.context_engine()
    for status in ("committed", "duplicate"):
        assert asyncio.run(engine.commit_turn(**given, messages=[HELLO], session_id=ID)).status == status
    assert memory.status()["messages"] == 1


@pytest.mark.parametrize("changes", [{"raw_seq": "1"}, {"raw_seq": None}, {"entry_id": None}])
def test_anchors_that_are_none_are_refused(memory: Memory, changes: dict[str, Any]) -> None:
    start = TurnAnchor("main", ID, KEY, "host", "g", "e", 1, None, 1)
    bad = replace(start, **changes)
    engine = memory.context_engine()
    for first, last in ((bad, start), (start, bad), ({}, start), (start, {})):
        given: dict[str, Any] = {"admission": TurnAdmission(first, "k"), "terminal": last}  # type: ignore[arg-type]
        with pytest.raises(errors.InvalidArgument, match="admission and terminal"):
            asyncio.run(engine.commit_turn(**given, advancement_key="k", messages=[HELLO], session_id=ID))
    assert memory.status()["messages"] == 0


def test_a_key_that_holds_a_secret_is_masked_where_it_is_shown(memory: Memory) -> None:
    """And is the same key when it comes again."""
    key = "sk-ant-api03-" + "Ab1Cd2Ef3" * 6
    assert [commit(memory, KEY, ID, key, None, "e") for _ in range(2)] == ["committed", "duplicate"]
    store = Path(memory.status()["store"])
    assert key.encode() not in store.read_bytes() + store.with_name(f"{store.name}-wal").read_bytes()


def test_a_turn_of_another_role_or_with_another_sessions_end_is_refused(memory: Memory) -> None:
    start = TurnAnchor("main", ID, KEY, "host", "g", "e", 1, None, 1)
    agents = TurnAdmission(start, "k", role="assistant")  # type: ignore[arg-type]
    elsewhere = replace(start, session_key=ROOM)
    engine = memory.context_engine()
    for admission, terminal in ((agents, start), (TurnAdmission(start, "k"), elsewhere)):
        given: dict[str, Any] = {"advancement_key": "k", "admission": admission, "terminal": terminal}
        with pytest.raises(errors.InvalidArgument):
            asyncio.run(engine.commit_turn(**given, messages=[HELLO], session_id=ID))
    assert memory.status()["messages"] == 0


# --- two keys and one session id --------------------------------------------------------------------------------------


@pytest.mark.parametrize("info", [GROUPS, None], ids=["described", "not described"])
def test_a_room_with_the_id_of_a_private_session_is_another_session(memory: Memory, info: SessionInfo | None) -> None:
    """It is told nothing of it, reads nothing of it, and what is said in it does not get there."""
    commit(memory, KEY, ID, "The walnut safe code is 7731.", OWNERS)
    assert "7731" in recalled(memory, KEY, ID, OWNERS)
    assert recalled(memory, ROOM, ID, info) == ""
    assert memory.transcript_delta(session_key=ROOM, session_id=ID) == DeltaMissing()
    assert commit(memory, ROOM, ID, "Hello, walnut room.", info) == "committed"
    assert recalled(memory, ROOM, ID, info) == "" or "7731" not in recalled(memory, ROOM, ID, info)
    assert [hit for hit in memory.search("walnut", session=ROOM).hits if "7731" in hit.excerpt] == []
    own, theirs = (memory.transcript_delta(session_key=key, session_id=ID) for key in (KEY, ROOM))
    assert isinstance(own, DeltaPage) and isinstance(theirs, DeltaPage)
    assert [len(page.entries) for page in (own, theirs)] == [1, 1]


@pytest.mark.parametrize("info", [OWNERS, None], ids=["described", "not described"])
@pytest.mark.parametrize("entry", ["mine", "theirs"])
def test_private_words_do_not_get_into_the_room_whose_id_they_name(
    memory: Memory, info: SessionInfo | None, entry: str
) -> None:
    """Also where an entry of theirs has the same id."""
    commit(memory, ROOM, ROOM_ID, "Hello, walnut room.", GROUPS, "theirs")
    assert commit(memory, KEY, ROOM_ID, "The walnut safe code is 7731.", info, entry) == "committed"
    assert [hit for hit in memory.search("walnut", session=ROOM).hits if "7731" in hit.excerpt] == []
    assert memory.search("7731", session=KEY).hits


def test_a_prompt_gets_what_both_the_host_and_the_store_allow(memory: Memory) -> None:
    """A session of the owner that the host calls a group gets nothing, one with somebody else what was said in it."""
    commit(memory, KEY, ID, "The walnut safe code is 7731.", OWNERS)
    elsewhere = "My other walnut safe code is 4142."
    commit(memory, "agent:main:phone", ROOM_ID, elsewhere, OWNERS)
    assert recalled(memory, KEY, ID, GROUPS) == ""
    stranger = recalled(memory, KEY, ID, SessionInfo("", "direct", None, False))
    assert "7731" in stranger and "4142" not in stranger
    assert "4142" in recalled(memory, KEY, ID, OWNERS)


@pytest.mark.parametrize(("mode", "left"), [("layered-memory", 0), ("standard", 1)])
def test_maintain_deletes_what_is_older_than_is_kept(tmp_path: Path, mode: Any, left: int) -> None:
    """Where the memory has a rule of retention (compatible mode), maintenance carries it out, but not when aborted."""
    clock = FixedClock()
    settings = Settings(data_dir=tmp_path / "data", compatibility=mode, retention_days=2)
    with Memory.open(settings=settings, clock=clock) as opened:
        opened.remember(session=KEY, messages=[{"role": "user", "content": "The walnut tree is old."}])
        clock.advance(4 * 86_400_000)
        engine = opened.context_engine()
        signal = AbortSignal()
        signal.abort()
        asyncio.run(engine.maintain(session_id=ID, session_key=KEY, abort_signal=signal))
        assert opened.status()["turns"] == 1
        assert asyncio.run(engine.maintain(session_id=ID, session_key=KEY)).changed
        assert opened.status()["turns"] == left
        assert bool(opened.search("walnut").hits) is bool(left)


@pytest.mark.parametrize("odd", [{"content": 5}, {"role": "", "content": "x"}, {"role": "r" * 5_000, "content": "x"}])
def test_an_odd_message_of_a_transcript_does_not_stop_its_session(
    memory: Memory, caplog: pytest.LogCaptureFixture, odd: dict[str, Any]
) -> None:
    """It is left out, as an import leaves out an odd line: refused, its turn would wait in the host's outbox for ever.
    A caller who hands one over by itself is told."""
    engine = memory.context_engine()
    anchors = [TurnAnchor("main", ID, KEY, "s", "0", f"e{number}", number, None, number) for number in (1, 3)]
    messages = [
        {"role": "user", "content": "The walnut tree is old."},
        {"role": "assistant", **odd},
        {"role": "assistant", "content": "Noted."},
    ]
    admission = TurnAdmission(anchors[0], "t1")
    committed = engine.commit_turn(
        advancement_key="t1", admission=admission, terminal=anchors[1], messages=messages, session_id=ID
    )
    assert asyncio.run(committed).status == "committed"
    assert memory.status()["messages"] == 2
    assert len([record for record in caplog.records if "left out" in record.getMessage()]) == 1
    with pytest.raises(errors.InvalidArgument):
        asyncio.run(engine.ingest(session_id=ID, session_key=KEY, message={"role": "assistant", **odd}))
