"""The conformance kit for providers: ours keeps every rule, so does a small one of somebody else's, and broken ones are
caught by the rule that they break."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.config import Settings
from memory_sqlite.runtime import conformance
from memory_sqlite.runtime.callers import (
    ConversationAudience,
    OperatorAuthority,
    OwnerPrivateAudience,
    SessionAuthority,
)
from memory_sqlite.runtime.conformance import OTHER_ROOM, ROOM, Planted, ProviderUnderTest
from memory_sqlite.runtime.shapes import (
    AutomaticRecall,
    CandidateRequest,
    Capabilities,
    Found,
    GetRequest,
    GetResult,
    Health,
    NotFound,
    OpenRequest,
    OpenResult,
    ProviderHit,
    Reference,
    SearchPage,
    SearchRequest,
)

Make = Callable[[], AbstractContextManager[ProviderUnderTest]]

# --- ours ----------------------------------------------------------------------------------------------------------


@contextmanager
def our_provider(place: Path, **settings: Any) -> Iterator[ProviderUnderTest]:
    """Our provider over an empty memory with a workspace of notes."""
    workspace = place / "workspace"
    (workspace / "memory").mkdir(parents=True)
    with Memory.open(settings=Settings(data_dir=place / "data", workspace=workspace, **settings)) as memory:

        def plant(one: Planted) -> None:
            if one.source == "memory":
                if one.partition != "owner" or not one.trusted:
                    raise NotImplementedError  # the kit's word for "this provider has no such partition"
                said = [("project", p) for p in one.projects] + [("triggers", t) for t in one.triggers]
                said += [("importance", str(one.importance))] if one.importance else []
                carriers = "".join(f" <!-- {name}: {value} -->" for name, value in said)
                note = workspace / "memory" / f"{one.name}.md"
                note.write_text(one.text.rstrip("\n") + carriers + "\n", encoding="utf-8")
                memory.index()
                return
            keys = {"owner": "kit:direct", "room": ROOM, "other-room": OTHER_ROOM}
            owner = one.partition == "owner"
            memory.remember(
                session=keys[one.partition],
                messages=[{"role": "user", "content": one.text}],
                chat_type="direct" if owner else "group",
                sender_is_owner=owner or None,
            )

        def change(name: str, text: str) -> None:
            (workspace / "memory" / f"{name}.md").write_text(text, encoding="utf-8")

        yield ProviderUnderTest(
            memory.provider_runtime(), "memory-sqlite", "main", plant, change, secrets=(str(place), str(workspace))
        )


@pytest.fixture
def ours(tmp_path: Path) -> Make:
    """A maker of fresh ones."""
    made: list[int] = []

    def make() -> AbstractContextManager[ProviderUnderTest]:
        made.append(1)
        return our_provider(tmp_path / str(len(made)))

    return make


@pytest.mark.parametrize("name", conformance.RULES)
def test_ours_keeps_every_rule(name: str, ours: Make) -> None:
    """One rule of the kit, with a memory of its own."""
    with ours() as subject:
        conformance.RULES[name](subject)


# --- somebody else's -----------------------------------------------------------------------------------------------


@dataclass
class Kept:
    """A record of the small provider."""

    planted: Planted

    @property
    def revision(self) -> str:
        return hashlib.sha256(self.planted.text.encode()).hexdigest()[:8]


class SmallProvider:
    """Records in a list, found by counting words; sources, projects and candidates, and no pagination."""

    def __init__(self) -> None:
        self.records: dict[str, Kept] = {}

    def plant(self, one: Planted) -> None:
        self.records[one.name] = Kept(one)

    def change(self, name: str, text: str) -> None:
        self.records[name] = Kept(replace(self.records[name].planted, text=text))

    async def open(self, request: OpenRequest) -> OpenResult:
        authority = request.context.authority
        request.context.assert_current()
        if request.agent_id == "nobody":
            return OpenResult(None, "memory is off for this agent")
        partition = None
        if isinstance(authority, OperatorAuthority) and "operator.read" in authority.scopes:
            partition = "*"
        if isinstance(authority, SessionAuthority) and authority.audience is not None:
            if authority.audience.agent_id != request.agent_id:
                raise PermissionError("an audience of another agent")
            if isinstance(authority.audience, OwnerPrivateAudience):
                partition = "owner"
            if isinstance(authority.audience, ConversationAudience):
                partition = {ROOM: "room", OTHER_ROOM: "other-room"}.get(authority.audience.session_key)
        return OpenResult(SmallHandle(self, request.context.assert_current, partition))


class SmallHandle:
    """A lease on it."""

    capabilities = Capabilities(("memory", "sessions"), False, ("trigger", "project"), True)

    def __init__(self, provider: SmallProvider, current: Callable[[], None], partition: str | None) -> None:
        self.provider, self.current, self.partition = provider, current, partition
        self.closed = False

    def seen(self) -> list[Kept]:
        """What the caller may see, asked for anew each time."""
        if self.closed:
            raise RuntimeError("closed")
        self.current()
        every = self.provider.records.values()
        return [one for one in every if self.partition in ("*", one.planted.partition)]

    def score(self, query: str, text: str) -> float:
        words = query.lower().split()
        return sum(word in text.lower() for word in words) / (len(words) or 1)

    async def search(self, request: SearchRequest) -> SearchPage:
        if self.partition is None and not self.closed:
            self.current()
            return SearchPage((), warning="this caller reads nothing")
        hits = [self.hit(one, self.score(request.query, one.planted.text)) for one in self.seen()]
        hits = [hit for hit in hits if (hit.score or 0) >= (request.min_score or 0.01)]
        if request.sources is not None:
            hits = [hit for hit in hits if hit.source in request.sources]
        if request.active_project_keys:
            active = set(request.active_project_keys)
            hits = [hit for hit in hits if not self.keys(hit) or active & self.keys(hit)]
        hits.sort(key=lambda hit: -(hit.score or 0))
        return SearchPage(tuple(hits[: request.max_results or 10]), coverage="complete")

    def keys(self, hit: ProviderHit) -> set[str]:
        return set((hit.automatic_recall and hit.automatic_recall.project_keys) or ())

    def hit(self, one: Kept, score: float | None = None) -> ProviderHit:
        planted = one.planted
        recall = AutomaticRecall(
            planted.trusted and planted.source == "memory",
            planted.projects or None,
            "|".join(planted.triggers) or None,
            planted.importance,
        )
        return ProviderHit(self.reference(one), planted.text[:80], score, planted.source, automatic_recall=recall)

    def reference(self, one: Kept) -> Reference:
        return Reference("small", one.planted.name, one.revision)

    async def get(self, request: GetRequest) -> GetResult:
        if self.partition is None:
            raise PermissionError("this caller reads nothing")
        self.current()
        one = self.provider.records.get(request.reference.id)
        if one is None:
            return NotFound()
        if one not in self.seen():
            raise PermissionError("not this caller's")
        if request.reference.revision not in (None, one.revision):
            return NotFound()
        lines = one.planted.text.splitlines()
        first = request.from_line or 1
        shown = lines[first - 1 :][: request.lines or 100]
        following = first + len(shown)
        more = following <= len(lines)
        return Found(
            self.reference(one),
            "\n".join(shown) + "\n",
            truncated=more,
            from_line=first,
            lines=len(shown),
            next_from=following if more else None,
        )

    async def candidates(self, request: CandidateRequest) -> SearchPage:
        if self.partition is None:
            return SearchPage((), warning="this caller reads nothing")
        field = "triggers" if request.kind == "trigger" else "projects"
        hits = [self.hit(one) for one in self.seen() if getattr(one.planted, field)]
        return SearchPage(tuple(hits[: request.limit or 10]))

    async def health(self) -> Health:
        return Health("ready")

    async def close(self) -> None:
        self.closed = True


def small(provider: type[SmallProvider] = SmallProvider, handle: type[SmallHandle] = SmallHandle) -> Make:
    """A maker of fresh small providers, with another kind of handle where a test breaks it."""

    @contextmanager
    def make() -> Iterator[ProviderUnderTest]:
        made = provider()

        class Runtime:
            async def open(self, request: OpenRequest) -> OpenResult:
                result = await made.open(request)
                if result.provider is not None:
                    result.provider.__class__ = handle
                return result

        yield ProviderUnderTest(Runtime(), "small", "main", made.plant, made.change, disabled_agent="nobody")

    return make


def test_a_provider_of_somebody_else_keeps_every_rule() -> None:
    """The kit asks for nothing that only ours has."""
    assert conformance.run_all(small()) == []


class WithoutFloor(SmallHandle):
    """Ignores ``min_score``."""

    async def search(self, request: SearchRequest) -> SearchPage:
        return await super().search(replace(request, min_score=None))


class Open(SmallHandle):
    """Sees every partition as soon as it sees one."""

    def seen(self) -> list[Kept]:
        self.current()
        return list(self.provider.records.values()) if self.partition else super().seen()


class Careless(SmallHandle):
    """Reads whatever bears the name, in whichever revision, and calls what is not there empty."""

    async def get(self, request: GetRequest) -> GetResult:
        result = await super().get(replace(request, reference=replace(request.reference, revision=None)))
        return Found(request.reference, "") if isinstance(result, NotFound) else result


class Credulous(SmallHandle):
    """Takes everybody's word, and remembers the caller for ever."""

    def hit(self, one: Kept, score: float | None = None) -> ProviderHit:
        hit = super().hit(one, score)
        assert hit.automatic_recall is not None
        return replace(hit, automatic_recall=replace(hit.automatic_recall, eligible=True))

    def seen(self) -> list[Kept]:
        self.current = lambda: None
        return super().seen()


@pytest.mark.parametrize(
    ("handle", "rules"),
    [
        (WithoutFloor, {"min_score_is_a_floor"}),
        (Open, {"closing_one_lease_leaves_the_others", "a_conversation_reads_only_itself"}),
        (Careless, {"unknown_is_not_found_and_denied_raises", "a_stale_revision_gives_no_other_content"}),
        (Credulous, {"only_what_is_trusted_is_eligible", "a_lapsed_caller_gets_nothing"}),
    ],
)
def test_a_broken_provider_is_caught_by_name(handle: type[SmallHandle], rules: set[str]) -> None:
    """Each breaks exactly the rules that it is made to break."""
    assert {one.rule for one in conformance.run_all(small(handle=handle))} >= rules


def test_the_example_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """docs/contracts-provider.md, its first block, in a clean place."""
    page = Path(conformance.__file__).parents[1] / "docs" / "contracts-provider.md"
    block = page.read_text(encoding="utf-8").split("```python\n", 1)[1].split("```", 1)[0]
    monkeypatch.chdir(tmp_path)
    exec(compile(block, str(page), "exec"), {"__name__": "page"})
    said = [line for line in capsys.readouterr().out.splitlines() if line]
    assert len(said) == 2 and all("The walnut key lies under the mat." in line for line in said)


def test_a_provider_that_raises_breaks_every_rule_that_needs_it() -> None:
    """An exception is told as such and ends nothing."""

    class Raising(SmallHandle):
        async def search(self, request: SearchRequest) -> SearchPage:
            raise errors.IndexUnavailable("no index")

    broken = conformance.run_all(small(handle=Raising))
    assert any(one.rule == "max_results_is_a_bound" and "IndexUnavailable" in one.reason for one in broken)
