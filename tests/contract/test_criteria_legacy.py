"""Criteria 73 to 81: the host's adapter over anybody's file-shaped search manager.

The managers here are foreign on purpose: frozen objects, mappings in the contract's own names, reads without a status.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from memory_sqlite import errors
from memory_sqlite.host import legacy, legacy_hits
from memory_sqlite.host.legacy_open import open_legacy
from memory_sqlite.runtime.callers import (
    CallerAuthority,
    CallerContext,
    ConversationRecall,
    HostAuthority,
    OperatorAuthority,
    Purpose,
    SessionAuthority,
)
from memory_sqlite.runtime.manager_shapes import (
    ManagerResult,
    ManagerStatus,
    MemorySearchResult,
    ReadMissing,
    ReadText,
    ResultProvenance,
    SearchOptions,
)
from memory_sqlite.runtime.shapes import (
    Capabilities,
    Found,
    GetRequest,
    NotFound,
    OpenRequest,
    Reference,
    SearchRequest,
)
from memory_sqlite.runtime.signals import AbortSignal

NOTE = MemorySearchResult("memory/net.md", 3, 5, 0.8, "The router is upstairs.", "memory")
SAID = MemorySearchResult("sessions/abc.jsonl", 1, 1, 0.7, "user: where is it?", "sessions")
OPERATOR = OperatorAuthority(("operator.read",))
PASS = ConversationRecall("agent:main:main", "sessions")


class Manager:
    """Keeps what it was asked; ``__slots__`` and private state, so that a copy would not work."""

    __slots__ = ("__secret", "asked", "closed", "health", "hits", "read", "synced")

    def __init__(self, hits: Sequence[Any] = (NOTE, SAID), read: Any = None, health: Any = None) -> None:
        self.__secret = object()
        self.hits = hits
        self.read = read
        self.health = health if health is not None else ManagerStatus("none")
        self.asked: list[Any] = []
        self.synced: list[Mapping[str, Any]] = []
        self.closed = 0

    async def search(self, query: str, options: SearchOptions | None = None) -> list[Any]:
        assert self.__secret is not None
        self.asked.append((query, options))
        return list(self.hits)

    async def read_file(self, rel_path: str, from_line: int | None = None, lines: int | None = None) -> Any:
        self.asked.append((rel_path, from_line, lines))
        return self.read

    def status(self) -> Any:
        return self.health

    async def sync(self, **said: Any) -> None:
        self.synced.append(said)

    async def close(self) -> None:
        self.closed += 1


@dataclass
class Runtime:
    """A legacy runtime that lets everything through and keeps what it was asked."""

    manager: Any
    asked: list[dict[str, Any]] = field(default_factory=list)
    refused: str | None = None

    async def get_memory_search_manager(self, **said: Any) -> Any:
        self.asked.append(said)
        return ManagerResult(None if self.refused else self.manager, self.refused)

    async def authorize_search_hits(self, **said: Any) -> list[Any]:
        self.asked.append(said)
        return list(said["hits"])


class Hookless:
    """A legacy runtime without authorisation."""


def current() -> None:
    """Nobody's authority lapses here."""


def adapted(
    manager: Any,
    authority: CallerAuthority = OPERATOR,
    runtime: Any = None,
    purpose: Purpose = "default",
    signal: AbortSignal | None = None,
) -> Any:
    return legacy.adapt(
        manager,
        runtime=runtime if runtime is not None else Runtime(manager),
        provider_id="files",
        agent_id="main",
        context=CallerContext(authority, current, signal),
        purpose=purpose,
        config={"marked": True},
    )


def search(handle: Any, **said: Any) -> Any:
    return asyncio.run(handle.search(SearchRequest("router", **said)))


def paths(page: Any) -> list[str]:
    return [hit.reference.id for hit in page.hits]


def test_criterion_073_without_authorisation_only_session_hits_are_withheld() -> None:
    """No hook means: fail closed for what was said, and nothing else."""
    manager = Manager()
    assert paths(search(adapted(manager, runtime=Hookless()))) == ["memory/net.md"]
    assert paths(search(adapted(manager))) == ["memory/net.md", "sessions/abc.jsonl"]


@pytest.mark.parametrize("authority", [OPERATOR, HostAuthority("doctor")])
def test_criterion_074_host_and_operator_callers_are_trusted_with_the_agent(authority: CallerAuthority) -> None:
    """They have no session: the hook is told so, and for which agent."""
    runtime = Runtime(Manager())
    search(adapted(runtime.manager, authority, runtime))
    said = runtime.asked[-1]
    assert (said["trusted_agent_scope"], said["requester_session_key"], said["sandboxed"]) == (True, None, False)
    assert (said["agent_id"], said["config"], said["conversation_recall"]) == ("main", {"marked": True}, None)
    assert said["hits"] == [NOTE, SAID]


@pytest.mark.parametrize("sandboxed", [False, True])
def test_criterion_074_session_callers_are_not(sandboxed: bool) -> None:
    """Their key, their sandbox and the very pass that they were granted reach the hook."""
    runtime = Runtime(Manager())
    authority = SessionAuthority("agent:main:main", sandboxed, conversation_recall=PASS)
    search(adapted(runtime.manager, authority, runtime))
    said = runtime.asked[-1]
    assert (said["trusted_agent_scope"], said["requester_session_key"]) == (False, "agent:main:main")
    assert said["sandboxed"] is sandboxed
    assert said["conversation_recall"] is PASS


def test_criterion_074_what_the_hook_leaves_out_is_not_shown() -> None:
    """And what it raises is raised: no answer is made of the raw hits."""

    class Strict(Runtime):
        async def authorize_search_hits(self, **said: Any) -> list[Any]:
            return [hit for hit in said["hits"] if hit.source == "memory"]

    class Broken(Runtime):
        async def authorize_search_hits(self, **said: Any) -> list[Any]:
            raise errors.StoreBusy("another process is writing")

    assert paths(search(adapted(Manager(), runtime=Strict(None)))) == ["memory/net.md"]
    with pytest.raises(errors.StoreBusy):
        search(adapted(Manager(), runtime=Broken(None)))


def test_criterion_076_capabilities_of_the_adapter() -> None:
    """Both sources, project filtering, no pages, no candidates and no such member."""
    handle = adapted(Manager())
    assert handle.capabilities == Capabilities(("memory", "sessions"), False, (), True)
    assert not hasattr(handle, "candidates")
    with pytest.raises(errors.ProviderRefused, match="memory provider does not support the pagination capability"):
        search(handle, cursor="next")


def test_criterion_076_candidates_are_not_derived_from_a_manager_that_lists_some() -> None:
    """An older adapter did; this one never does."""

    class Listing(Manager):
        async def list_trigger_candidates(self) -> list[Any]:
            raise AssertionError("never asked")

    assert not hasattr(adapted(Listing()), "candidates")


def test_criterion_077_a_frozen_manager_is_called_on_itself() -> None:
    """The manager has private state that only its own methods find, and takes no attribute."""
    manager = Manager(read=ReadText("text", "memory/net.md"))
    handle = adapted(manager)
    assert search(handle).hits
    assert asyncio.run(handle.get(GetRequest(Reference("files", "memory/net.md")))).text == "text"
    asyncio.run(handle.refresh())
    assert len(manager.asked) == 2 and manager.synced == [{"reason": "provider-refresh"}]
    with pytest.raises(AttributeError):
        manager.another = 1  # type: ignore[attr-defined]


def test_criterion_077_methods_are_looked_up_when_they_are_called() -> None:
    """A host that replaces a member of its manager is not called on an older one."""

    class Plain:
        async def search(self, query: str, options: SearchOptions | None = None) -> list[Any]:
            return []

    manager = Plain()
    handle = adapted(manager)

    async def later(query: str, options: SearchOptions | None = None) -> list[Any]:
        return [NOTE]

    manager.search = later  # type: ignore[method-assign]
    assert paths(search(handle)) == ["memory/net.md"]


@pytest.mark.parametrize(
    "read",
    [
        {"text": "", "path": "a.md", "from": 4, "lines": 0, "nextFrom": 9, "truncated": True},
        {"text": "", "path": "a.md", "from": 4, "lines": 0, "nextFrom": 9, "truncated": True, "status": "odd"},
        ReadText("", "a.md", truncated=True, from_line=4, lines=0, next_from=9),
    ],
)
def test_criterion_078_a_read_without_a_status_counts_as_read(read: Any) -> None:
    """Also with an empty text; its range comes through."""
    handle = adapted(Manager(read=read))
    reference = Reference("files", "a.md", revision="r1", fragment="L1-L2")
    found = asyncio.run(handle.get(GetRequest(reference, from_line=4, lines=2)))
    assert found == Found(reference, "", truncated=True, from_line=4, lines=0, next_from=9)


@pytest.mark.parametrize("read", [ReadMissing("a.md"), {"status": "not_found", "text": "", "path": "a.md"}])
def test_criterion_078_not_found_stays_not_found(read: Any) -> None:
    handle = adapted(Manager(read=read))
    assert asyncio.run(handle.get(GetRequest(Reference("files", "a.md")))) == NotFound()


def test_criterion_078_a_read_goes_by_the_path_alone() -> None:
    """Fragment and revision are none of a file's; a read without any text is a failure and no empty success."""
    manager = Manager(read=ReadText("x", "a.md"))
    asyncio.run(adapted(manager).get(GetRequest(Reference("files", "a.md", "r", "L3-L4"), 2, 5)))
    assert manager.asked == [("a.md", 2, 5)]
    with pytest.raises(errors.ProviderInvalid):
        asyncio.run(adapted(Manager(read=None)).get(GetRequest(Reference("files", "a.md"))))


STATUSES = [
    ManagerStatus(
        "openai",
        files=3,
        workspace_dir="/home/ann/w",
        db_path="/home/ann/x.sqlite",
        extra_paths=("/home/ann/e",),
        vector={"enabled": True, "extensionPath": "/home/ann/vec.so"},
    ),
    {
        "backend": "builtin",
        "provider": "openai",
        "files": 3,
        "workspaceDir": "/home/ann/w",
        "dbPath": "/home/ann/x.sqlite",
        "extraPaths": ["/home/ann/e"],
        "vector": {"enabled": True, "extensionPath": "/home/ann/vec.so"},
    },
]


@pytest.mark.parametrize("status", STATUSES)
def test_criterion_079_health_hides_the_places_of_the_machine(status: Any) -> None:
    """Workspace, database, extra paths, extension; the rest is under ``legacy``."""
    health = asyncio.run(adapted(Manager(health=status)).health())
    assert health.status == "ready"
    assert "/home" not in repr(health)
    said = health.details["legacy"]
    assert (said["provider"], said["files"], said["vector"]) == ("openai", 3, {"enabled": True})


def test_criterion_079_a_failed_sync_is_degraded() -> None:
    health = asyncio.run(adapted(Manager(health={"provider": "none", "lastSyncError": "busy"})).health())
    assert (health.status, health.message) == ("degraded", "busy")


@pytest.mark.parametrize(("purpose", "times"), [("default", 0), ("cli", 1), ("status", 1)])
def test_criterion_080_who_closes_a_manager(purpose: Purpose, times: int) -> None:
    """The kept one outlives a lease; one that was made for a lease is closed with it, once."""
    manager = Manager()
    handle = adapted(manager, purpose=purpose)
    asyncio.run(handle.close())
    asyncio.run(handle.close())
    assert manager.closed == times


def recalled(**said: Any) -> Any:
    values = {"path": "m.md", "start_line": 1, "end_line": 1, "score": 1.0, "snippet": "x", "source": "memory"}
    page = search(adapted(Manager([MemorySearchResult(**{**values, **said})])))
    return page.hits[0].automatic_recall


OWNER = ResultProvenance("owner", "interactive")


def test_criterion_081_session_hits_and_empty_project_lists_are_never_eligible() -> None:
    """Whatever else speaks for them."""
    assert recalled(provenance=OWNER).eligible
    assert recalled(provenance=OWNER, project_key="a; b").project_keys == ("a", "b")
    assert recalled(provenance=OWNER, project_key="a").eligible
    assert not recalled(provenance=OWNER, source="sessions").eligible
    assert not recalled(provenance=OWNER, project_key="").eligible
    assert not recalled(provenance=OWNER, project_key=" ; ").eligible


@pytest.mark.parametrize("origin", ["untrusted", "system", None])
def test_criterion_081_nor_is_what_nobody_trusted_said(origin: Any) -> None:
    """The deprecated class of a result does not count."""
    provenance = None if origin is None else ResultProvenance(origin, "interactive")
    assert not recalled(provenance=provenance, origin_class="owner").eligible
    assert recalled(provenance=ResultProvenance("agent", "interactive")).eligible


def test_criterion_079_nor_does_an_error_name_them() -> None:
    """A failed sync often names its file: the place is masked wherever it stands."""
    status = ManagerStatus(
        "none",
        workspace_dir="/home/ann/w",
        db_path="/home/ann/w/x.sqlite",
        last_sync_error="cannot read /home/ann/w/x.sqlite",
        custom={"notes": ["/home/ann/w/memory/a.md"]},
    )
    health = asyncio.run(adapted(Manager(health=status)).health())
    assert health.status == "degraded"
    assert health.message == "cannot read (hidden)"
    assert "/home" not in repr(health) and health.details["legacy"]["custom"]["notes"] == ["(hidden)/memory/a.md"]


def test_a_manager_that_does_not_keep_to_the_request_is_kept_to_it() -> None:
    """Floor, number, sources and projects, which the adapter declares."""
    hits = [
        MemorySearchResult("a.md", 1, 1, 0.9, "x", "memory"),
        MemorySearchResult("b.md", 1, 1, 0.2, "x", "memory", project_key="Red; blue"),
        {"path": "c.md", "snippet": "x", "source": "sessions"},
    ]
    handle = adapted(Manager(hits))
    assert paths(search(handle)) == ["a.md", "b.md", "c.md"]
    assert paths(search(handle, min_score=0.0)) == ["a.md", "b.md", "c.md"]
    assert paths(search(handle, min_score=0.5)) == ["a.md"]
    assert paths(search(handle, max_results=2)) == ["a.md", "b.md"]
    assert paths(search(handle, sources=("sessions",))) == ["c.md"]
    assert paths(search(handle, active_project_keys=("green",))) == ["a.md", "c.md"]
    assert paths(search(handle, active_project_keys=("red",))) == ["a.md", "b.md", "c.md"]


# --- what section 2.15 says besides ---------------------------------------------------------------------------------


def test_a_hit_is_named_by_path_and_lines_and_cited() -> None:
    """The reference is the path, the fragment its lines; a citation of the manager's own wins."""
    page = search(adapted(Manager([NOTE, MemorySearchResult("m.md", 2, 2, 0.5, "x", "memory", citation="m.md#L2")])))
    first, second = page.hits
    assert first.reference == Reference("files", "memory/net.md", fragment="L3-L5")
    assert (first.excerpt, first.score, first.source) == ("The router is upstairs.", 0.8, "memory")
    (cited,) = first.citations
    assert (cited.label, cited.start_line, cited.end_line) == ("memory/net.md#L3-L5", 3, 5)
    assert second.citations[0].label == "m.md#L2"
    assert page.coverage == "complete" and page.next_cursor is None


def test_what_an_entry_says_to_the_machine_is_not_in_the_excerpt() -> None:
    """Annotation carriers go, the words around them stay; triggers and importance come apart from the text."""
    result = MemorySearchResult(
        "m.md",
        1,
        2,
        1.0,
        "<!-- trigger: wifi -->\nThe router <!-- importance: 8 --> is upstairs. <!-- a remark -->",
        "memory",
        triggers="wifi",
        importance=8,
    )
    hit = search(adapted(Manager([result]))).hits[0]
    assert hit.excerpt == "The router is upstairs. <!-- a remark -->"
    assert (hit.automatic_recall.triggers, hit.automatic_recall.importance) == ("wifi", 8)


def test_a_search_is_passed_on_whole() -> None:
    """Every option, the session's key, and the caller's signal."""
    manager, signal = Manager(), AbortSignal()
    handle = adapted(manager, SessionAuthority("agent:main:main", False), signal=signal)
    search(handle, max_results=7, min_score=0.3, lexical_only=True, active_project_keys=("p",), sources=("memory",))
    query, options = manager.asked[0]
    assert query == "router"
    assert options == SearchOptions(
        max_results=7,
        min_score=0.3,
        session_key="agent:main:main",
        lexical_only=True,
        active_project_keys=("p",),
        sources=("memory",),
        signal=signal,
    )


@pytest.mark.parametrize(("method", "name"), [("search", "search"), ("get", "read_file")])
def test_a_manager_without_a_method_is_named_when_it_is_called(method: str, name: str) -> None:
    handle = adapted(object())
    request = SearchRequest("x") if method == "search" else GetRequest(Reference("files", "a.md"))
    with pytest.raises(errors.ProviderInvalid, match=f"memory runtime manager must implement {name}"):
        asyncio.run(getattr(handle, method)(request))


def test_refresh_is_there_only_where_the_manager_syncs() -> None:
    assert hasattr(adapted(Manager()), "refresh")
    assert not hasattr(adapted(object()), "refresh")


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf"), True, "7"])
def test_what_is_no_number_counts_as_not_said(number: Any) -> None:
    """A line, a score, an importance: the hit is shown without it."""
    hit = {
        "path": "memory/a.md",
        "startLine": number,
        "endLine": 2,
        "score": number,
        "snippet": "x",
        "source": "memory",
    }
    page = search(adapted(Manager([hit])))
    assert (page.hits[0].score, page.hits[0].reference.fragment) == (None, None)


def test_rubbish_of_a_manager_is_no_answer() -> None:
    """Neither no list nor a hit without a place becomes an empty page."""
    for rubbish in ("text", None, 3):
        manager = Manager()

        async def answer(query: str, options: Any, rubbish: Any = rubbish) -> Any:
            return rubbish

        foreign = type("Foreign", (), {"search": staticmethod(answer)})()
        with pytest.raises(errors.ProviderInvalid):
            search(adapted(foreign, runtime=Runtime(manager)))
    with pytest.raises(errors.ProviderInvalid):
        search(adapted(Manager([{"snippet": "no path"}])))


def test_a_caller_that_lapses_between_search_and_authorisation_gets_nothing() -> None:
    """The adapter asks again before it lets anything go on."""
    runtime = Runtime(Manager())
    lapsed = False

    def check() -> None:
        if lapsed:
            raise errors.CallerNotCurrent("memory audience is no longer current")

    class Slow(Manager):
        async def search(self, query: str, options: SearchOptions | None = None) -> list[Any]:
            nonlocal lapsed
            lapsed = True
            return [NOTE]

    handle = legacy.adapt(
        Slow(),
        runtime=runtime,
        provider_id="files",
        agent_id="main",
        context=CallerContext(OPERATOR, check),
    )
    with pytest.raises(errors.CallerNotCurrent):
        search(handle)
    assert runtime.asked == []


def test_a_caller_that_lapses_during_authorisation_gets_nothing() -> None:
    """It is asked once more before anything is released."""
    lapsed = False

    def check() -> None:
        if lapsed:
            raise errors.CallerNotCurrent("memory audience is no longer current")

    class Slow(Runtime):
        async def authorize_search_hits(self, **said: Any) -> list[Any]:
            nonlocal lapsed
            lapsed = True
            return list(said["hits"])

    manager = Manager()
    handle = legacy.adapt(
        manager, runtime=Slow(manager), provider_id="files", agent_id="main", context=CallerContext(OPERATOR, check)
    )
    with pytest.raises(errors.CallerNotCurrent):
        search(handle)


def test_opening_asks_the_runtime_for_a_manager() -> None:
    """With configuration, agent and purpose; no manager is no provider, and the reason comes along."""
    runtime = Runtime(Manager())
    request = OpenRequest("main", CallerContext(OPERATOR, current), "cli", {"k": 1})
    opened = asyncio.run(open_legacy(runtime, request, "files"))
    assert (opened.provider_id, opened.adapter, opened.error) == ("files", "legacy", None)
    assert runtime.asked == [{"config": {"k": 1}, "agent_id": "main", "purpose": "cli", "inspect_sources": False}]
    runtime.refused = "no index"
    refused = asyncio.run(open_legacy(runtime, request, "files"))
    assert (refused.provider, refused.error, refused.adapter) == (None, "no index", "legacy")
    with pytest.raises(errors.ProviderInvalid):
        asyncio.run(open_legacy(object(), request, "files"))


def test_opening_takes_the_contracts_json() -> None:
    """A runtime that answers with a plain mapping."""

    class Json:
        def get_memory_search_manager(self, **said: Any) -> Mapping[str, Any]:
            return {"manager": Manager([]), "debug": {"backend": "builtin"}}

    request = OpenRequest("main", CallerContext(OPERATOR, current))
    opened = asyncio.run(open_legacy(Json(), request, "files"))
    assert opened.provider is not None and search(opened.provider).hits == ()


@pytest.mark.parametrize("answer", [None, 3, {}, "manager", object()])
def test_a_runtime_that_answers_rubbish_is_not_taken_for_one_that_is_switched_off(answer: Any) -> None:
    """No manager and no word of why is a broken runtime; an answer that says so is a refusal."""

    class Rubbish:
        said: Any = answer

        def get_memory_search_manager(self, **asked: Any) -> Any:
            return self.said

    request = OpenRequest("main", CallerContext(OPERATOR, current))
    with pytest.raises(errors.ProviderInvalid):
        asyncio.run(open_legacy(Rubbish(), request, "files"))
    Rubbish.said = {"manager": None}
    assert asyncio.run(open_legacy(Rubbish(), request, "files")).provider is None


def test_a_project_of_a_manager_is_one_however_its_name_is_composed() -> None:
    """The adapter compares project keys as the search does."""
    hit = legacy_hits.hit({"path": "a.md", "snippet": "oven", "source": "memory", "project_key": "cafe\u0301"}, "files")
    other = legacy_hits.hit({"path": "b.md", "snippet": "oven", "source": "memory", "project_key": "harbor"}, "files")
    assert legacy_hits.as_asked((hit, other), SearchRequest("oven", active_project_keys=(" CAF\u00c9 ",))) == (hit,)
