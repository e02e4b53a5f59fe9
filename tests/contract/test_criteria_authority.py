"""Who may read what through our provider, and for how long (criteria 51 to 59 of the contract)."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory, errors, limits
from memory_sqlite.agent.answer import answer
from memory_sqlite.config import Settings
from memory_sqlite.runtime.callers import (
    CallerAuthority,
    CallerContext,
    ConversationAudience,
    ConversationRecall,
    HostAuthority,
    OperatorAuthority,
    OwnerPrivateAudience,
    SessionAuthority,
)
from memory_sqlite.runtime.handle import Handle
from memory_sqlite.runtime.shapes import CandidateRequest, GetRequest, OpenRequest, Reference, SearchPage, SearchRequest
from memory_sqlite.runtime.signals import AbortSignal
from memory_sqlite.transcripts import sessions as session_rows

DIRECT, SECOND, ROOM, OTHER, STRANGER = (
    "agent:main:direct",
    "agent:main:second",
    "agent:main:room",
    "agent:main:other-room",
    "agent:main:stranger",
)
OPERATOR = OperatorAuthority(("operator.read",))


def session(audience: Any = None, key: str = DIRECT, *, sandboxed: bool = False, recall: Any = None) -> CallerAuthority:
    return SessionAuthority(key, sandboxed, None, audience, recall)


def owner(key: str = DIRECT, agent: str = "main", **more: Any) -> CallerAuthority:
    return session(OwnerPrivateAudience(agent), key, **more)


def conversation(key: str, **more: Any) -> CallerAuthority:
    return session(ConversationAudience("main", key, "any-id"), key, **more)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """One word in every partition: a note, two direct chats of the owner, two rooms, a stranger's direct chat."""
    workspace = tmp_path / "workspace"
    (workspace / "memory").mkdir(parents=True)
    (workspace / "memory" / "note.md").write_text("walnut note <!-- triggers: walnut -->\n", encoding="utf-8")
    with Memory.open(settings=Settings(data_dir=tmp_path / "data", workspace=workspace)) as opened:
        for key, chat, is_owner in (
            (DIRECT, "direct", True),
            (SECOND, "direct", True),
            (ROOM, "group", None),
            (OTHER, "group", None),
            (STRANGER, "direct", False),
        ):
            text = f"walnut words of {key.rpartition(':')[2]}"
            opened.remember(
                session=key,
                messages=[{"role": "user", "content": text}],
                chat_type=chat,  # type: ignore[arg-type]
                sender_is_owner=is_owner,
            )
        opened.index()
        yield opened


ALL = {"note", "direct", "second", "room", "other-room", "stranger"}
PRIVATE = {"note", "direct", "second"}


async def handle_of(memory: Memory, authority: CallerAuthority, **more: Any) -> Handle:
    context = CallerContext(authority, more.pop("current", lambda: None), more.pop("signal", None))
    result = await memory.provider_runtime().open(OpenRequest("main", context, **more))
    assert isinstance(result.provider, Handle)
    return result.provider


def seen(memory: Memory, authority: CallerAuthority, **more: Any) -> set[str]:
    """The partitions of which a caller gets at something, by searching, reading and candidates."""

    async def run() -> set[str]:
        handle = await handle_of(memory, authority, **more)
        page = await handle.search(SearchRequest("walnut", max_results=50))
        texts = [hit.excerpt for hit in page.hits]
        texts += [hit.excerpt for hit in (await handle.candidates(CandidateRequest("trigger"))).hits]
        every = [hit.reference.id for hit in page.hits]
        for reference in {*every, "note:memory/note.md", *(f"message:{at}" for at in range(1, 6))}:
            try:
                result = await handle.get(GetRequest(Reference("memory-sqlite", reference)))
            except errors.AccessDenied:
                assert reference not in every, "a hit that may not be read"
                continue
            assert result.status == "ok"
            texts.append(result.text)
        return {name for text in texts for name in re.findall(r"walnut (?:words of )?([\w-]+)", text)}

    return asyncio.run(run())


def read(memory: Memory, authority: CallerAuthority, **more: Any) -> set[str]:
    """The same by searching alone, told by its words."""

    async def run() -> SearchPage:
        return await (await handle_of(memory, authority, **more)).search(SearchRequest("walnut", max_results=50))

    return {hit.excerpt.split()[-1] for hit in asyncio.run(run()).hits}


async def refusals(memory: Memory, authority: CallerAuthority, **more: Any) -> None:
    """Nothing is found, and that is told; nothing is read, which is an error; health goes on."""
    handle = await handle_of(memory, authority, **more)
    for page in (
        await handle.search(SearchRequest("walnut")),
        await handle.candidates(CandidateRequest("trigger")),
        await handle.candidates(CandidateRequest("project")),
    ):
        assert page.hits == () and page.warning and page.coverage == "partial"
    for reference in ("note:memory/note.md", "message:1", "message:3", "message:99", "nothing"):
        with pytest.raises(errors.AccessDenied):
            await handle.get(GetRequest(Reference("memory-sqlite", reference)))
    assert (await handle.health()).status == "ready"


def test_criterion_051_host_authority_reads_nothing(memory: Memory) -> None:
    """Whatever the operation is called."""
    for operation in ("status", "post-compaction-refresh", DIRECT, ""):
        asyncio.run(refusals(memory, HostAuthority(operation)))


def test_criterion_052_a_session_without_audience_reads_nothing(memory: Memory) -> None:
    """Not even its own conversation, and not as the owner's own session."""
    for key in (DIRECT, ROOM, STRANGER, "never-seen", ""):
        asyncio.run(refusals(memory, session(None, key)))


def test_criterion_053_an_audience_of_another_agent_is_rejected(memory: Memory) -> None:
    """At open, for both kinds."""
    for audience in (
        OwnerPrivateAudience("other"),
        ConversationAudience("other", ROOM, "id"),
        OwnerPrivateAudience(""),
    ):
        with pytest.raises(errors.CallerNotCurrent, match="another agent"):
            asyncio.run(handle_of(memory, session(audience)))


@pytest.mark.parametrize("key", [DIRECT, ROOM, OTHER, STRANGER])
def test_criterion_054_a_conversation_reads_only_itself(memory: Memory, key: str) -> None:
    """Also when it is the owner's direct chat, of which the audience says that it is a conversation."""
    assert read(memory, conversation(key)) == {key.rpartition(":")[2]}
    assert seen(memory, conversation(key)) == {key.rpartition(":")[2]}


def test_criterion_054_the_root_is_the_audiences_not_the_callers(memory: Memory) -> None:
    """A child of a room reads the room; a conversation that never spoke has nothing, and that is no refusal."""
    child = session(ConversationAudience("main", ROOM, "id"), f"{ROOM}:child")
    assert read(memory, child) == {"room"}

    async def run() -> SearchPage:
        return await (await handle_of(memory, conversation("agent:main:new"))).search(SearchRequest("walnut"))

    page = asyncio.run(run())
    assert (page.hits, page.warning) == ((), None), "nothing tells that others speak of it"


def test_what_ails_the_owners_notes_is_not_told_in_a_room(memory: Memory) -> None:
    """Not that there are notes, nor how many of them cannot be read."""
    assert memory.settings.workspace is not None
    for number in range(3):
        with (memory.settings.workspace / "memory" / f"huge{number}.md").open("wb") as note:
            note.truncate(limits.NOTE_MAX_BYTES + 1)
    rooms = memory.rooms()
    assert rooms is not None
    rooms.opened.looked_at = None  # as after a second: the next search looks at the notes

    async def run(authority: CallerAuthority) -> list[str]:
        handle = await handle_of(memory, authority)
        pages = [await handle.search(SearchRequest("walnut")), await handle.candidates(CandidateRequest("trigger"))]
        return [page.warning or "" for page in pages]

    assert all("3 notes" in warning for warning in asyncio.run(run(owner())))
    for warning in asyncio.run(run(conversation(ROOM))):
        assert "note" not in warning and "3" not in warning


def test_criterion_055_an_operator_is_no_owner(memory: Memory) -> None:
    """With the scope it reads the whole agent, which no audience does; without, nothing."""
    assert read(memory, OPERATOR) == ALL
    assert read(memory, OperatorAuthority(("operator.admin",), "conn")) == ALL
    assert read(memory, owner()) == PRIVATE
    for scopes in ((), ("operator.write",), ("operator",), ("operator.read.not",)):
        asyncio.run(refusals(memory, OperatorAuthority(scopes)))


def configured(said: object) -> dict[str, Any]:
    return {"plugins": {"entries": {"memory-sqlite": {"config": {"sandboxed": said}}}}}


def test_criterion_056_sandboxed_callers_are_refused_by_configuration(memory: Memory) -> None:
    """Others are not touched by it; without it a sandboxed caller reads what its audience says."""
    denying = configured("deny")
    for authority in (owner(sandboxed=True), conversation(ROOM, sandboxed=True)):
        asyncio.run(refusals(memory, authority, config=denying))
    assert read(memory, owner(), config=denying) == PRIVATE
    assert read(memory, OPERATOR, config=denying) == ALL
    silent: list[dict[str, Any]] = [{}, configured("allow"), {"plugins": None}]
    silent.append({"plugins": {"entries": {"memory-sqlite": {}}}})
    for config in silent:
        assert read(memory, owner(sandboxed=True), config=config) == PRIVATE
    with pytest.raises(errors.InvalidConfiguration, match="sandboxed must be allow or deny"):
        asyncio.run(handle_of(memory, owner(sandboxed=True), config=configured("no")))


def test_criterion_057_no_session_is_looked_up_to_make_an_audience(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller's own key is never looked up; a conversation's is, as the audience gives it."""
    asked: list[str] = []
    by_key = session_rows.by_key

    def spy(store: Any, key: str) -> Any:
        asked.append(key)
        return by_key(store, key)

    monkeypatch.setattr(session_rows, "by_key", spy)
    for authority, looked_up in (
        (session(None, DIRECT), set()),
        (owner(ROOM), set()),
        (OPERATOR, set()),
        (HostAuthority(DIRECT), set()),
        (session(ConversationAudience("main", ROOM, "id"), DIRECT), {ROOM}),
    ):
        asked.clear()
        read(memory, authority)
        assert set(asked) == looked_up


class Log:
    """What was done in which order: checks of currency, reads. Lapses at the check with a number."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.lapse_at: int | None = None
        self.lock = threading.Lock()

    def current(self) -> None:
        with self.lock:
            self.events.append("check")
            if self.lapse_at is not None and self.events.count("check") >= self.lapse_at:
                self.events.append("lapsed")
                raise errors.CallerNotCurrent("memory audience is no longer current")

    def read(self, name: str) -> None:
        with self.lock:
            self.events.append(name)


READS = {
    "memory_sqlite.runtime.handle.rooms_of": "open",
    "memory_sqlite.runtime.answering.freshness.freshen": "freshen",
    "memory_sqlite.runtime.answering.freshness.index": "index",
    "memory_sqlite.runtime.answering.view_of": "view",
    "memory_sqlite.runtime.listing.answer": "search",
    "memory_sqlite.runtime.answering.reading_back.read": "get",
    "memory_sqlite.runtime.answering.candidates.entries": "candidates",
    "memory_sqlite.runtime.answering.Naming.references": "references",
    "memory_sqlite.runtime.answering.Holding.take": "hold",
}


@pytest.fixture
def log(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> Log:
    """A log into which each read of the provider is written."""
    from importlib import import_module

    log = Log()
    for target, name in READS.items():
        path, _, attribute = target.rpartition(".")
        try:
            home = import_module(path)
        except ModuleNotFoundError:
            module, _, member = path.rpartition(".")
            home = getattr(import_module(module), member)
        real = getattr(home, attribute)

        def wrapped(*args: Any, _real: Any = real, _name: str = name, **more: Any) -> Any:
            log.read(_name)
            return _real(*args, **more)

        monkeypatch.setattr(home, attribute, wrapped)
    return log


Call = Callable[[Handle], Awaitable[Any]]
CALLS: dict[str, tuple[Call, set[str]]] = {
    "search": (
        lambda handle: handle.search(SearchRequest("walnut", max_results=1)),
        {"open", "freshen", "view", "search", "references", "hold"},
    ),
    "get": (
        lambda handle: handle.get(GetRequest(Reference("memory-sqlite", "message:1"))),
        {"open", "view", "get"},
    ),
    "candidates": (
        lambda handle: handle.candidates(CandidateRequest("trigger")),
        {"open", "freshen", "view", "candidates", "references"},
    ),
    "health": (lambda handle: handle.health(), {"open"}),
    "refresh": (lambda handle: handle.refresh(), {"open", "index"}),
}


@pytest.mark.parametrize("name", CALLS)
def test_criterion_058_currency_is_asked_immediately_before_each_read_and_before_release(
    memory: Memory, log: Log, name: str
) -> None:
    """Wherever it lapses: not one more read, and nothing comes out."""
    call, reads = CALLS[name]

    async def run() -> None:
        handle = await handle_of(memory, owner(), current=log.current)
        log.events.clear()
        await call(handle)
        assert set(log.events) - {"check"} == reads
        assert log.events[-1] == "check", "released without asking"
        for before, event in zip(log.events, log.events[1:], strict=False):
            assert event == "check" or before == "check", f"{event} was not preceded by a check"
        checks = log.events.count("check")
        for at in range(1, checks + 1):
            log.events.clear()
            log.lapse_at = at
            with pytest.raises(errors.CallerNotCurrent):
                await call(handle)
            assert "lapsed" in log.events
            assert log.events[log.events.index("lapsed") :] == ["lapsed"], "went on after the lapse"

    asyncio.run(run())


def test_criterion_058_open_asks_before_it_opens_a_memory_and_again_after(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller who lapses meanwhile gets no handle."""
    log = Log()
    real = memory.rooms

    def rooms() -> Any:
        log.read("rooms")
        return real()

    monkeypatch.setattr(memory, "rooms", rooms)
    asyncio.run(handle_of(memory, owner(), current=log.current))
    assert log.events == ["check", "check", "rooms", "check"]
    for at in (1, 2, 3):
        log.events.clear()
        log.lapse_at = at
        with pytest.raises(errors.CallerNotCurrent):
            asyncio.run(handle_of(memory, owner(), current=log.current))
        assert ("rooms" in log.events) == (at == 3)
    with pytest.raises(
        errors.CallerNotCurrent, match=r"^memory provider requires caller authority with assertCurrent$"
    ):
        asyncio.run(handle_of(memory, owner(), current=None))


def test_criterion_059_revocation_stops_the_next_effect_and_not_the_signal(memory: Memory) -> None:
    """The signal says that nobody waits, currency that nobody may be told; one does not stand for the other."""
    revoked = threading.Event()

    def current() -> None:
        if revoked.is_set():
            raise errors.CallerNotCurrent("memory audience is no longer current")

    async def run() -> None:
        signal = AbortSignal()
        handle = await handle_of(memory, owner(), current=current, signal=signal)
        page = await handle.search(SearchRequest("walnut", max_results=1))
        revoked.set()
        calls: list[Awaitable[Any]] = [
            handle.search(SearchRequest("walnut")),
            handle.search(SearchRequest("walnut", cursor=page.next_cursor)),
            handle.get(GetRequest(page.hits[0].reference)),
            handle.candidates(CandidateRequest("trigger")),
            handle.refresh(),
        ]
        for call in calls:
            with pytest.raises(errors.CallerNotCurrent):
                await call
        assert not signal.aborted
        await handle.close()

    asyncio.run(run())


def test_an_aborted_call_is_cancelled(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it begins, and while it runs: the search is told."""
    told: list[bool] = []

    async def run() -> None:
        signal = AbortSignal()
        handle = await handle_of(memory, owner(), signal=signal)

        def aborting(*args: Any, **more: Any) -> Any:
            signal.abort()
            told.append(more["guard"].is_over())
            return answer(*args, **more)

        monkeypatch.setattr("memory_sqlite.runtime.listing.answer", aborting)
        with pytest.raises(errors.Cancelled):
            await handle.search(SearchRequest("walnut"))
        with pytest.raises(errors.Cancelled):
            await handle.get(GetRequest(Reference("memory-sqlite", "message:1")))

    asyncio.run(run())
    assert told == [True]


# --- recall passes -------------------------------------------------------------------------------------------------

CHILD = f"{DIRECT}:active-memory:0123456789ab"


@pytest.mark.parametrize("key", [DIRECT, CHILD])
@pytest.mark.parametrize("audience", [None, OwnerPrivateAudience("main")])
def test_a_recall_pass_admits_what_it_allows_and_no_more(memory: Memory, key: str, audience: Any) -> None:
    """Other private conversations; notes only under ``configured``; never the anchor's own."""
    sessions = session(audience, key, recall=ConversationRecall(DIRECT, "sessions"))
    assert seen(memory, sessions) == {"second"} == read(memory, sessions)
    everything = session(audience, key, recall=ConversationRecall(DIRECT, "configured"))
    assert read(memory, everything) >= {"second", "note"}
    assert read(memory, everything).isdisjoint({"room", "other-room", "stranger"})


def test_what_was_asked_again_does_not_hide_what_was_said_before(memory: Memory) -> None:
    """The anchor's own copy of a sentence is newer, and may not be shown: the other conversation's is."""
    again = "The ferry to the island leaves at seven from the northern pier."
    for key in ("agent:main:third", DIRECT):
        said = [{"role": "user", "content": again}]
        memory.remember(session=key, messages=said, chat_type="direct", sender_is_owner=True)

    async def run() -> None:
        handle = await handle_of(memory, session(None, DIRECT, recall=ConversationRecall(DIRECT, "sessions")))
        page = await handle.search(SearchRequest("when does the ferry to the island leave?"))
        assert page.hits
        assert again in page.hits[0].excerpt
        third = next(row["token"] for row in memory.sessions() if row["session"] == "agent:main:third")
        assert all(third in hit.citations[0].label for hit in page.hits)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("key", "recall", "sandboxed"),
    [
        (DIRECT, ConversationRecall(DIRECT, "sessions"), True),
        (SECOND, ConversationRecall(DIRECT, "sessions"), False),
        (f"{DIRECT}:active-memory:xyz", ConversationRecall(DIRECT, "sessions"), False),
        (ROOM, ConversationRecall(ROOM, "sessions"), False),
        (STRANGER, ConversationRecall(STRANGER, "configured"), False),
        ("new", ConversationRecall("new", "configured"), False),
        ("", ConversationRecall("", "sessions"), False),
        (DIRECT, ConversationRecall(DIRECT, "everything"), False),  # type: ignore[arg-type]
        (DIRECT, ConversationRecall(DIRECT, "sessions", "any-agent"), False),  # type: ignore[arg-type]
    ],
)
def test_an_invalid_pass_admits_nothing(memory: Memory, key: str, recall: ConversationRecall, sandboxed: bool) -> None:
    """A stranger's chat and a room are no private conversations; a sandbox is none either. It is said, and no read is
    anything but denied."""
    authority = session(None, key, sandboxed=sandboxed, recall=recall)
    assert seen(memory, authority) == set()
    asyncio.run(refusals(memory, authority))


def test_a_pass_for_sessions_says_that_it_admits_nothing_else(memory: Memory) -> None:
    """What is refused is no empty success."""

    async def run() -> None:
        handle = await handle_of(memory, session(None, DIRECT, recall=ConversationRecall(DIRECT, "sessions")))
        for page in (
            await handle.search(SearchRequest("granite", sources=("memory",))),
            await handle.candidates(CandidateRequest("trigger")),
        ):
            assert (page.hits, page.coverage) == ((), "partial")
            assert page.warning is not None and "pass" in page.warning

    asyncio.run(run())


def test_a_conversation_is_given_no_pass(memory: Memory) -> None:
    """A group that holds one is refused whole."""
    audience = ConversationAudience("main", ROOM, "id")
    asyncio.run(refusals(memory, session(audience, DIRECT, recall=ConversationRecall(DIRECT, "sessions"))))


def test_a_reset_keeps_the_partition(memory: Memory) -> None:
    """The partition is the key's: after a reset the session has another id, and reads what was said before."""
    for session_id in ("before", "after"):
        assert read(memory, session(ConversationAudience("main", ROOM, session_id), ROOM)) == {"room"}


def test_what_is_no_authority_is_an_error(memory: Memory) -> None:
    """Rubbish is not taken for anybody."""
    for rubbish in (None, "operator", {"kind": "operator"}, session(object())):
        with pytest.raises((errors.InvalidArgument, errors.CallerNotCurrent, AttributeError)):
            asyncio.run(handle_of(memory, rubbish))  # type: ignore[arg-type]
