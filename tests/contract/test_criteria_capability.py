"""Criteria 11, 72, 75, 147 and 148, provider side: what our plugin registers, and its legacy runtime over a store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.config import ExtraPath, Settings
from memory_sqlite.embeddings import registry
from memory_sqlite.embeddings.protocol import CostClass, EmbeddingIdentity, InputLimits, Weight
from memory_sqlite.runtime.callers import ConversationRecall
from memory_sqlite.runtime.capability import PLUGIN_ID
from memory_sqlite.runtime.manager_shapes import MemorySearchResult, SearchOptions
from memory_sqlite.runtime.plugins import PublicArtifact

ANCHOR = "agent:main:main"
OTHER = "agent:main:other"
GROUP = "agent:main:hall:group:1"
STRANGER = "agent:main:direct:bob"
CHILD = f"{ANCHOR}:active-memory:0123456789ab"


def tell(memory: Memory, session: str, text: str, chat_type: Any, owner: bool) -> None:
    memory.remember(
        session=session,
        chat_type=chat_type,
        sender_is_owner=owner,
        messages=[{"role": "user", "content": text}, {"role": "assistant", "content": "Noted."}],
    )


@pytest.fixture
def told(memory: Memory, workspace: Path) -> Memory:
    """The same word in a note, in two private conversations of the owner, in a group, and by a stranger."""
    (workspace / "MEMORY.md").write_text("# Home\n\nThe granite key is the owner's.\n", encoding="utf-8")
    tell(memory, ANCHOR, "The granite key lies under the mat.", "direct", True)
    tell(memory, OTHER, "The granite key was cut in Oslo.", "direct", True)
    tell(memory, GROUP, "The granite key opens the hall.", "group", False)
    tell(memory, STRANGER, "The granite key is mine.", "direct", False)
    return memory


@dataclass
class Asking:
    """Authorises what the operator's raw search found, for somebody."""

    memory: Memory

    def __post_init__(self) -> None:
        self.runtime = self.memory.capability().runtime
        manager = self.memory.search_manager("cli")
        options = SearchOptions(max_results=50)
        self.hits = asyncio.run(manager.search("granite key", options))

    def __call__(self, **said: Any) -> list[str]:
        """Where each hit that is left was said: a session's key, or the path of a note."""
        values = {"config": {}, "agent_id": "main", "hits": self.hits, **said}
        return sorted(self.name(hit) for hit in asyncio.run(self.runtime.authorize_search_hits(**values)))

    def sessions(self, **said: Any) -> set[str]:
        return {name for name in self(**said) if name.startswith("agent:")}

    def name(self, hit: MemorySearchResult) -> str:
        if hit.source == "memory":
            return hit.path
        return self.memory.get(hit.path).provenance["session"]


@pytest.fixture
def asking(told: Memory) -> Asking:
    found = Asking(told)
    assert {found.name(hit) for hit in found.hits} >= {ANCHOR, OTHER, GROUP, STRANGER, "MEMORY.md"}
    return found


def granted(corpus: Any = "sessions", anchor: str = ANCHOR) -> ConversationRecall:
    return ConversationRecall(anchor, corpus)


# --- 72: what a pass admits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("requester", [ANCHOR, CHILD])
def test_criterion_072_a_valid_pass_admits_the_agents_other_private_conversations(
    asking: Asking, requester: str
) -> None:
    """Not the anchor's own transcript, no room, no stranger, and with corpus ``sessions`` nothing else."""
    said = {"requester_session_key": requester, "conversation_recall": granted()}
    assert set(asking(**said)) == {OTHER}
    configured = asking(requester_session_key=requester, conversation_recall=granted("configured"))
    assert {name for name in configured if name.startswith("agent:")} == {OTHER}
    assert "MEMORY.md" in configured


@pytest.mark.parametrize(
    ("requester", "recall", "sandboxed"),
    [
        (ANCHOR, granted(), True),
        (OTHER, granted(), False),
        (f"{ANCHOR}:active-memory:0123456789a", granted(), False),
        (f"{ANCHOR}:active-memory:0123456789abc", granted(), False),
        (f"{ANCHOR}:other:0123456789ab", granted(), False),
        (None, granted(), False),
        (GROUP, granted(anchor=GROUP), False),
        (STRANGER, granted(anchor=STRANGER), False),
        ("agent:main:new", granted(anchor="agent:main:new"), False),
        (ANCHOR, granted(anchor=""), False),
        (ANCHOR, replace(granted(), scope="any-agent"), False),
        (ANCHOR, replace(granted(), corpus="everything"), False),
    ],
)
def test_criterion_072_an_invalid_pass_admits_no_session_hit(
    asking: Asking, requester: str | None, recall: ConversationRecall, sandboxed: bool
) -> None:
    """Sandboxed, somebody else's, misspelt, of a room, of a stranger, of nobody, of another scope or corpus: with
    ``sessions`` nothing at all, with ``configured`` what is not of a session and the requester may see anyway."""
    said = {"requester_session_key": requester, "sandboxed": sandboxed, "conversation_recall": recall}
    assert asking(**said) == []
    if recall.corpus == "sessions":
        configured = replace(recall, corpus="configured")
        assert asking.sessions(**{**said, "conversation_recall": configured}) == set()


def test_criterion_072_a_valid_pass_does_not_widen_what_is_no_pass(asking: Asking) -> None:
    """The same requester without the pass is an unknown session, and sees nothing."""
    assert asking(requester_session_key=CHILD) == []
    assert set(asking(requester_session_key=CHILD, conversation_recall=granted())) == {OTHER}


@pytest.mark.parametrize(
    ("requester", "seen"),
    [(ANCHOR, {ANCHOR, OTHER}), (OTHER, {ANCHOR, OTHER}), (GROUP, {GROUP}), (STRANGER, {STRANGER}), ("new", set())],
)
def test_without_a_pass_a_session_sees_what_it_may_read(asking: Asking, requester: str, seen: set[str]) -> None:
    """The same as ``get`` for that session; a note is owner-private."""
    names = asking(requester_session_key=requester)
    assert {name for name in names if name.startswith("agent:")} == seen
    assert ("MEMORY.md" in names) == (requester in (ANCHOR, OTHER))


def test_a_sandboxed_session_sees_nothing_where_that_is_configured(asking: Asking) -> None:
    """As through the neutral runtime; an unsandboxed one is not affected."""
    deny = {"plugins": {"entries": {"memory-sqlite": {"config": {"sandboxed": "deny"}}}}}
    assert asking(requester_session_key=ANCHOR, sandboxed=True) != []
    assert asking(requester_session_key=ANCHOR, sandboxed=True, config=deny) == []
    assert asking(requester_session_key=ANCHOR, config=deny) != []


# --- 75: trusted scope ----------------------------------------------------------------------------------------------


def test_criterion_075_trusted_scope_is_this_agents_and_nobody_elses(asking: Asking, tmp_path: Path) -> None:
    """A hit of another agent's transcript is not of this agent, whatever the hit says."""
    assert asking.sessions(trusted_agent_scope=True) == {ANCHOR, OTHER, GROUP, STRANGER}
    with Memory.open(tmp_path / "data", agent="guest") as guest:
        tell(guest, "agent:guest:main", "The granite key is the guest's.", "direct", True)
        foreign = Asking(guest).hits
    assert any(hit.source == "sessions" for hit in foreign)
    mixed = [*asking.hits, *foreign]
    allowed = asyncio.run(
        asking.runtime.authorize_search_hits(config={}, agent_id="main", hits=mixed, trusted_agent_scope=True)
    )
    assert [hit for hit in allowed if hit in foreign] == []
    assert len(allowed) == len(asking.hits)


@pytest.mark.parametrize(
    "said",
    [
        {"trusted_agent_scope": True, "requester_session_key": GROUP},
        {"trusted_agent_scope": True, "conversation_recall": granted()},
        {"trusted_agent_scope": True, "conversation_recall": granted("configured")},
        {"trusted_agent_scope": False},
    ],
)
def test_criterion_075_trusted_scope_counts_only_without_session_and_pass(asking: Asking, said: dict[str, Any]) -> None:
    """With either it is no host's or operator's call; without both nobody is known to ask."""
    assert asking.sessions(**said) <= {GROUP}
    assert "MEMORY.md" not in asking(**said)


def test_criterion_075_a_hit_without_an_owner_is_nobodys(asking: Asking) -> None:
    """A session hit whose transcript the store does not know: forged, foreign, or forgotten since."""
    forged = [
        MemorySearchResult("sessions/" + "0" * 32, 1, 1, 1.0, "x", "sessions"),
        MemorySearchResult("memory/x.md", 1, 1, 1.0, "x", "sessions"),
        MemorySearchResult("sessions/" + "0" * 32 + "/memories/2026-01-01.jsonl", 1, 1, 1.0, "x", "memory"),
    ]
    assert asking(hits=forged, trusted_agent_scope=True) == []
    asking.memory.forget(sessions=[OTHER])
    assert OTHER not in {
        hit.path
        for hit in asyncio.run(
            asking.runtime.authorize_search_hits(config={}, agent_id="main", hits=asking.hits, trusted_agent_scope=True)
        )
    }


def test_records_go_by_the_session_they_were_made_in(told: Memory) -> None:
    """A group is not shown what was remembered of the owner's private words, although that is no transcript."""
    runtime = told.capability().runtime
    manager = told.search_manager("cli")
    hits = [
        hit
        for hit in asyncio.run(manager.search("granite key", SearchOptions(max_results=50, sources=("memory",))))
        if hit.path.startswith("sessions/")
    ]
    assert hits
    shown = {
        requester: asyncio.run(
            runtime.authorize_search_hits(
                config={}, agent_id="main", hits=hits, requester_session_key=requester, trusted_agent_scope=False
            )
        )
        for requester in (ANCHOR, GROUP, STRANGER)
    }
    assert shown[ANCHOR]
    assert not {hit.snippet for hit in shown[ANCHOR]} & {hit.snippet for hit in shown[GROUP] + shown[STRANGER]}


# --- 11: artifacts --------------------------------------------------------------------------------------------------


def test_criterion_011_every_artifact_has_all_six_fields(told: Memory, workspace: Path) -> None:
    (workspace / "memory" / "2026-07-15.md").write_text("A day.\n", encoding="utf-8")
    artifacts = told.capability().public_artifacts
    assert artifacts is not None
    listed = asyncio.run(artifacts.list_artifacts({}))
    place = str(workspace)
    assert list(listed) == [
        PublicArtifact(place, "MEMORY.md", "memory-root", "markdown", ("main",), f"{place}/MEMORY.md"),
        PublicArtifact(
            place, "memory/2026-07-15.md", "daily-note", "markdown", ("main",), f"{place}/memory/2026-07-15.md"
        ),
    ]
    for artifact in listed:
        assert all(getattr(artifact, field.name) for field in fields(artifact))
        assert Path(artifact.absolute_path).is_file()


def test_criterion_011_nothing_but_notes_is_listed(told: Memory, workspace: Path, tmp_path: Path) -> None:
    """No link, no file of another kind, nothing outside of the workspace."""
    (workspace / "memory" / "secret.txt").write_text("x", encoding="utf-8")
    (tmp_path / "elsewhere.md").write_text("x", encoding="utf-8")
    (workspace / "memory" / "link.md").symlink_to(tmp_path / "elsewhere.md")
    artifacts = told.capability().public_artifacts
    assert artifacts is not None
    assert [one.relative_path for one in asyncio.run(artifacts.list_artifacts({}))] == ["MEMORY.md"]
    outside = (ExtraPath(str(tmp_path / "elsewhere.md")),)
    settings = replace(told.settings, data_dir=tmp_path / "other", extra_paths=outside)
    with Memory.open(settings=settings) as wider:
        artifacts = wider.capability().public_artifacts
        assert artifacts is not None
        assert [one.relative_path for one in asyncio.run(artifacts.list_artifacts({}))] == ["MEMORY.md"]


# --- 147: the tools that are named ----------------------------------------------------------------------------------


def test_criterion_147_every_recall_tool_is_one_of_our_tools(memory: Memory) -> None:
    """Those of the capability, and the deterministic one."""
    capability = memory.capability()
    assert capability.recall_tool_names == ("memory_search", "memory_get")
    assert capability.deterministic_recall_tool_name == "memory_search"
    registered = {tool.name: tool.plugin_id for tool in memory.plugin().tools}
    for name in (*capability.recall_tool_names, capability.deterministic_recall_tool_name):
        assert registered[name] == PLUGIN_ID


class TwoNumbers:
    """An embedding provider of two numbers a text."""

    cost: CostClass = "free"
    made: ClassVar[list[TwoNumbers]] = []

    def __init__(self) -> None:
        self.made.append(self)
        self.identity = EmbeddingIdentity("reloading", "two", 2, "1")
        self.limits = InputLimits(text_chars=5_000, batch_texts=4, batch_chars=20_000)
        self.weight = Weight()
        self.closed = False

    def load(self, timeout_s: float) -> None:
        """There is nothing to load."""

    def embed_query(self, text: str, timeout_s: float) -> list[float]:
        return [float(len(text)), 1.0]

    def embed_documents(self, texts: Any, timeout_s: float) -> list[list[float]]:
        return [[float(len(text)), 1.0] for text in texts]

    def close(self) -> None:
        self.closed = True


# --- 148: reload ----------------------------------------------------------------------------------------------------


def test_criterion_148_drain_waits_for_what_is_under_way_and_lets_nobody_in(told: Memory) -> None:
    """A search that had begun ends with its answer; one that comes later is refused; resume lets everybody in again."""
    runtime = told.capability().runtime

    async def run() -> None:
        manager = (await runtime.get_memory_search_manager(config={}, agent_id="main")).manager
        entered, leave = threading.Event(), threading.Event()

        ended: list[str] = []

        def hold() -> None:
            with runtime._gate.using():
                entered.set()
                assert leave.wait(30)
                ended.append("the search")

        under_way = asyncio.ensure_future(asyncio.to_thread(hold))
        await asyncio.to_thread(entered.wait, 30)
        prepared = runtime.prepare_reload(retire_runtime=True, retiring_embedding_providers=())
        draining = asyncio.ensure_future(prepared.drain())
        await asyncio.sleep(0)
        assert not draining.done()
        with pytest.raises(errors.ProviderUnavailable, match="memory provider instance is no longer current"):
            await manager.search("granite")
        refused = await runtime.get_memory_search_manager(config={}, agent_id="main")
        assert refused.manager is None and "no longer current" in refused.error
        leave.set()
        await draining
        assert ended == ["the search"]
        await under_way
        assert manager.closed
        prepared.resume()
        prepared.resume()
        again = (await runtime.get_memory_search_manager(config={}, agent_id="main")).manager
        assert again is not manager and await again.search("granite")

    asyncio.run(run())


def test_criterion_148_a_retained_runtime_without_that_provider_is_not_disturbed(told: Memory) -> None:
    """No embedding provider is set here: one that retires concerns nobody."""
    runtime = told.capability().runtime

    async def run() -> None:
        prepared = runtime.prepare_reload(retire_runtime=False, retiring_embedding_providers=("openai",))
        await prepared.drain()
        manager = (await runtime.get_memory_search_manager(config={}, agent_id="main")).manager
        assert await manager.search("granite")

    asyncio.run(run())


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Memory]:
    """A memory whose embedding provider is a plugin's."""
    registry.REGISTRY.plugin("reloading", ["reloading"]).register("reloading", lambda settings: TwoNumbers())
    try:
        settings = Settings(data_dir=tmp_path / "data", embedding_provider="reloading")
        with Memory.open(settings=settings) as memory:
            tell(memory, ANCHOR, "The granite key lies under the mat.", "direct", True)
            assert memory.index().vectors is not None
            yield memory
    finally:
        registry.REGISTRY.retire("reloading", 0.0)


def test_criterion_148_a_retiring_embedding_provider_is_let_go_and_made_anew(embedded: Memory) -> None:
    """The runtime that uses it drains, searches go by words meanwhile, and after resume there is a new one."""
    runtime = embedded.capability().runtime

    async def run() -> None:
        manager = (await runtime.get_memory_search_manager(config={}, agent_id="main")).manager
        assert (await manager.probe_embedding_availability()).ok
        prepared = runtime.prepare_reload(retire_runtime=False, retiring_embedding_providers=("reloading",))
        await prepared.drain()
        assert TwoNumbers.made[-1].closed
        with pytest.raises(errors.ProviderUnavailable):
            await manager.search("granite")
        assert embedded.search("granite").hits, "the door goes on, by words"
        before = len(TwoNumbers.made)
        prepared.resume()
        assert (await manager.probe_embedding_availability()).ok
        assert len(TwoNumbers.made) == before + 1

    asyncio.run(run())


def test_keyword_candidates_come_before_meaning_was_asked(embedded: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where meaning is searched at all; when the search then fails they are taken back."""
    from memory_sqlite.runtime import manager as managers

    manager = embedded.search_manager()
    assert asyncio.run(manager.probe_vector_availability())
    assert manager.status().custom["searchMode"] == "hybrid"
    heard: list[Any] = []
    options = SearchOptions(on_partial_results=heard.append)
    results = asyncio.run(manager.search("granite key", options))
    assert len(heard) == 1 and {hit.path for hit in heard[0]} <= {hit.path for hit in results}
    heard.clear()
    asyncio.run(manager.search("granite key", replace(options, lexical_only=True)))
    assert heard == []
    answering = managers.answer

    def by_words_alone(*arguments: Any, **said: Any) -> Any:
        if not said["lexical_only"]:
            raise errors.IndexUnavailable("gone")
        return answering(*arguments, **said)

    monkeypatch.setattr(managers, "answer", by_words_alone)
    with pytest.raises(errors.IndexUnavailable):
        asyncio.run(manager.search("granite key", options))
    assert heard[0] and heard[1:] == [None]


@pytest.fixture
def disabled(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(settings=Settings(data_dir=tmp_path / "off", enabled=False)) as memory:
        yield memory


def test_a_disabled_memory_gives_no_manager_and_says_so(disabled: Memory) -> None:
    runtime = disabled.capability().runtime
    found = asyncio.run(runtime.get_memory_search_manager(config={}, agent_id="main"))
    assert found.manager is None and "disabled" in found.error
    assert asyncio.run(disabled.capability().public_artifacts.list_artifacts({})) == []  # type: ignore[union-attr]
