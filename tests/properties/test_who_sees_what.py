"""Random sequences of what callers do, against a simple model of who may see what: nothing ever leaks.

Several sessions, their children and an operator open, search, get, delegate, reset, restore, forget, publish, release
and close, in any order, over our own provider through our own host. The model knows, for each moment, which words each
caller may see and whether the caller is still current; an answer to a caller who is not is a failure, and so is a word
too many, or, for a caller who is, a word too few.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.host.memory_host import MemoryHost
from memory_sqlite.host.session_rows import SessionRow, SpawnReceipt
from memory_sqlite.host.slots import Plugin
from memory_sqlite.runtime.callers import (
    CallerAuthority,
    CallerContext,
    ConversationAudience,
    HostAuthority,
    MemoryAudience,
    OperatorAuthority,
    SessionAuthority,
)
from memory_sqlite.runtime.plugins import MemoryCapability
from memory_sqlite.runtime.shapes import CandidateRequest, Found, GetRequest, OpenRequest, Reference, SearchRequest

SEQUENCES = int(os.environ.get("MEMORY_SQLITE_SWEEP", "60"))
STEPS = 20
PLUGIN = "memory-sqlite"
OWNERS = ("agent:main:direct:a", "agent:main:direct:b")
PLACES = {
    OWNERS[0]: "direct",
    OWNERS[1]: "direct",
    "agent:main:direct:stranger": "direct",
    "agent:main:group:g": "group",
    "agent:main:channel:c": "channel",
}
CHILDREN = ("agent:main:subagent:1", "agent:main:subagent:2")
NOTE = "mark0"
WORDS_KEPT = 4


@dataclass
class Held:
    """An audience with what the model knows of it: on which lives it stands, and what ended it."""

    audience: MemoryAudience
    bound_to: str
    lives: dict[str, int]
    released: bool = False
    parent: Held | None = None

    def says(self) -> tuple[str, str | None]:
        key = self.audience.session_key if isinstance(self.audience, ConversationAudience) else None
        return self.audience.kind, key


@dataclass
class Lease:
    """An opened handle and whose it is: an audience, the operator, or somebody who may read nothing."""

    handle: Any
    held: Held | None
    who: str
    closed: bool = False


@dataclass
class Shared:
    """The memory that all sequences share, and which words stand where in it."""

    memory: Memory
    words: dict[str, set[str]] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    references: list[Reference] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def remember(self, key: str) -> None:
        number = next(self.numbers)
        word = f"mark{number}"
        self.memory.remember(
            session=key,
            run_id=f"run {number}",
            chat_type=PLACES[key],
            sender_is_owner=key in OWNERS,
            messages=[{"role": "user", "content": f"The beacon {word} was lit on that evening."}],
        )
        self.words.setdefault(key, set()).add(word)

    def forget(self, key: str) -> None:
        self.memory.forget(sessions=[key])
        self.words[key] = set()

    def visible(self, lease: Lease) -> set[str]:
        """What the caller of a lease may see now."""
        if lease.who == "operator":
            return {NOTE}.union(*self.words.values())
        if lease.held is None:
            return set()
        kind, key = lease.held.says()
        if kind == "owner-private":
            return {NOTE}.union(*(self.words[owner] for owner in OWNERS))
        assert key is not None
        return set(self.words.get(key, ()))

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1


class Sequence:
    """One sequence over a fresh host."""

    def __init__(self, shared: Shared, seed: int) -> None:
        self.shared = shared
        self.random = random.Random(seed)
        self.host = MemoryHost({"plugins": {"slots": {"memory": PLUGIN}}})
        self.host.slot.register(
            Plugin(PLUGIN, frozenset({"memory"})), MemoryCapability(provider_runtime=shared.memory.provider_runtime())
        )
        self.lives: dict[str, int] = {}
        self.former: list[SessionRow] = []
        self.held: list[Held] = []
        self.leases: list[Lease] = []
        self.done: list[str] = []
        for number, (key, chat_type) in enumerate(PLACES.items()):
            self.write(SessionRow(key, f"10000000-0000-4000-8000-{number:012d}", "r0", chat_type))

    # --- the rows, with the model's count of lives ------------------------------------------------------------------

    def write(self, row: SessionRow) -> None:
        old = self.host.rows.get(row.key)
        if old is None or old.incarnation != row.incarnation:
            self.lives[row.key] = self.lives.get(row.key, 0) + 1
        if old is not None:
            self.former.append(old)
        self.host.rows.put(row)

    def remove(self, key: str) -> None:
        old = self.host.rows.get(key)
        if old is not None:
            self.lives[key] += 1
            self.former.append(old)
        self.host.rows.delete(key)

    def expected(self, key: str, owner: bool) -> tuple[str, str | None] | None:
        """What a turn's audience must be, or ``None`` for a denial."""
        row = self.host.rows.get(key)
        if row is None:
            return None
        while row.spawned_by is not None:
            receipt = row.spawned_by
            parent = self.host.rows.get(receipt.parent_key)
            if parent is None or parent.incarnation != (receipt.parent_session_id, receipt.parent_revision):
                return None
            row, owner = parent, receipt.owner
        return ("owner-private", None) if row.chat_type == "direct" and owner else ("conversation", row.key)

    def standing_on(self, key: str) -> dict[str, int]:
        lives = {key: self.lives[key]}
        row = self.host.rows.get(key)
        while row is not None and row.spawned_by is not None:
            key = row.spawned_by.parent_key
            lives[key] = self.lives[key]
            row = self.host.rows.get(key)
        return lives

    def is_current(self, held: Held | None) -> bool:
        while held is not None:
            if held.released or any(self.lives.get(key, 0) != life for key, life in held.lives.items()):
                return False
            held = held.parent
        return True

    def pick(self, among: list[Any]) -> Any:
        """One of these, more often than not one of the latest: what just happened is what matters to it."""
        among = among[-2:] if self.random.random() < 0.6 else among
        return self.random.choice(among) if among else None

    # --- the steps --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        steps = {
            self.turn: 4,
            self.open: 6,
            self.search: 8,
            self.get: 3,
            self.candidates: 1,
            self.delegate: 3,
            self.spawn: 3,
            self.reset: 2,
            self.restore: 1,
            self.touch: 1,
            self.release: 1,
            self.publish: 2,
            self.race: 2,
            self.close: 1,
            self.remember: 1,
            self.forget: 0.1,
        }
        await self.turn()
        await self.open()
        for step in self.random.choices(list(steps), list(steps.values()), k=STEPS):
            self.done.append(step.__name__)
            await step()
        for lease in self.leases:
            await lease.handle.close()

    async def turn(self) -> None:
        key = self.random.choice(list(PLACES) if self.random.random() < 0.6 else CHILDREN)
        owner = self.random.random() < 0.7
        row = self.host.rows.get(key)
        expected = self.expected(key, owner)
        try:
            audience = await self.host.audiences.resolve(
                agent_id="main",
                session_key=key,
                session_id=row.session_id if row is not None else "0" * 36,
                sender_is_owner=owner,
            )
        except errors.AudienceDenied:
            assert expected is None, (key, expected)
            self.shared.count("denied")
            return
        held = Held(audience, key, self.standing_on(key))
        assert held.says() == expected
        self.held.append(held)

    async def open(self) -> None:
        who = self.random.choice(["audience"] * 6 + ["operator", "host", "bare", "elsewhere", "copied"])
        held = self.pick(self.held)
        authority: CallerAuthority
        refused = False
        if who == "operator":
            authority, held = OperatorAuthority(("operator.read",)), None
        elif who == "host":
            authority, held = HostAuthority("sequence"), None
        elif who == "bare" or held is None:
            authority, held, who = SessionAuthority(OWNERS[0], False), None, "bare"
        elif who == "elsewhere":
            other = self.random.choice([key for key in PLACES if key != held.bound_to])
            authority, refused = SessionAuthority(other, False, None, held.audience), True
        elif who == "copied":
            copied = type(held.audience)(*(getattr(held.audience, name) for name in held.audience.__match_args__[:-1]))
            authority, refused = SessionAuthority(held.bound_to, False, None, copied), True
        else:
            authority = SessionAuthority(held.bound_to, False, None, held.audience)
        request = OpenRequest("main", CallerContext(authority, lambda: None))
        if refused or not self.is_current(held):
            with pytest.raises(errors.CallerNotCurrent):
                await self.host.open(request)
            self.shared.count("not opened")
            return
        result = await self.host.open(request)
        assert result.provider is not None
        self.leases.append(Lease(result.provider, held, who))

    def seen(self, lease: Lease, texts: list[str]) -> set[str]:
        words = {word for text in texts for word in re.findall(r"mark\d+", text)}
        leaked = words - self.shared.visible(lease)
        assert not leaked, (lease.who, leaked, self.done)
        return words

    async def refused(self, lease: Lease, call: Any) -> bool:
        """Whether the caller must be refused now; then the call is made, and is."""
        if not lease.closed and self.is_current(lease.held):
            return False
        with pytest.raises(errors.ProviderUnavailable if lease.closed else errors.CallerNotCurrent):
            await call()
        self.shared.count("refused")
        return True

    async def search(self) -> None:
        lease = self.pick(self.leases)
        if lease is None:
            return
        request = SearchRequest("beacon", max_results=100)
        if await self.refused(lease, lambda: lease.handle.search(request)):
            return
        self.found(lease, await lease.handle.search(request))

    def found(self, lease: Lease, page: Any) -> None:
        words = self.seen(lease, [hit.excerpt for hit in page.hits])
        if page.coverage != "partial":  # an index that is behind says so, and owes no word
            assert words == self.shared.visible(lease), (lease.who, self.done)
        self.shared.references.extend(hit.reference for hit in page.hits)
        del self.shared.references[:-60]
        if words:
            self.shared.count("found")
        elif page.warning is not None:
            self.shared.count("nothing with a warning")

    async def get(self) -> None:
        lease, reference = self.pick(self.leases), self.pick(self.shared.references)
        if lease is None or reference is None:
            return
        request = GetRequest(reference)
        if await self.refused(lease, lambda: lease.handle.get(request)):
            return
        try:
            answer = await lease.handle.get(request)
        except errors.AccessDenied:
            self.shared.count("denied read")
            return
        if isinstance(answer, Found):
            assert self.seen(lease, [answer.text, *(citation.label for citation in answer.citations)])
            self.shared.count("read")
        else:
            self.shared.count("not found")

    async def candidates(self) -> None:
        lease = self.pick(self.leases)
        if lease is None:
            return
        request = CandidateRequest(self.random.choice(["trigger", "project"]))
        if not await self.refused(lease, lambda: lease.handle.candidates(request)):
            page = await lease.handle.candidates(request)
            self.seen(lease, [hit.excerpt for hit in page.hits])

    async def spawn(self) -> None:
        parent = self.host.rows.get(self.random.choice([*PLACES, *CHILDREN]))
        key = self.random.choice(CHILDREN)
        if parent is None or key in self.standing_on(parent.key):
            return
        receipt = SpawnReceipt(
            parent.key, parent.session_id, self.random.random() < 0.5, parent_revision=parent.lifecycle_revision
        )
        session_id = f"20000000-0000-4000-8000-{self.random.randrange(10**12):012d}"
        self.write(SessionRow(key, session_id, None, "direct", receipt))

    async def delegate(self) -> None:
        held = self.pick(self.held)
        if held is None:
            return
        detached = self.random.random() < 0.5
        key = f"agent:main:detached:{self.random.randrange(3)}" if detached else self.random.choice(CHILDREN)
        try:
            audience = await self.host.audiences.delegate(held.audience, child_key=key, detached=detached)
        except errors.CallerNotCurrent:
            assert not self.is_current(held)
            return
        except errors.AudienceDenied:
            assert (self.host.rows.get(key) is None) is not detached
            return
        assert self.is_current(held)
        self.held.append(Held(audience, key, {key: self.lives.get(key, 0)}, parent=held))

    def end_life(self, key: str) -> None:
        row = self.host.rows.get(key)
        if row is None:
            self.write(SessionRow(key, f"30000000-0000-4000-8000-{0:012d}", None, PLACES.get(key, "direct")))
        elif self.random.random() < 0.3:
            self.remove(key)
        else:
            self.write(SessionRow(key, row.session_id, f"r{self.random.randrange(10**9)}", row.chat_type))

    def somewhere(self) -> str:
        """A key that somebody stands on, more often than not."""
        held = self.pick(self.held)
        while held is not None and held.parent is not None and self.random.random() < 0.5:
            held = held.parent
        if held is not None and self.random.random() < 0.7:
            return str(self.random.choice(list(held.lives)))
        return self.random.choice([*PLACES, *CHILDREN])

    async def reset(self) -> None:
        self.end_life(self.somewhere())

    async def restore(self) -> None:
        row = self.pick(self.former)
        if row is not None and (row.spawned_by is None or row.spawned_by.parent_key in PLACES):
            self.write(row)

    async def touch(self) -> None:
        key = self.somewhere()
        if self.host.rows.get(key) is not None:
            self.host.rows.update(key, compaction_count=self.random.randrange(9))

    async def release(self) -> None:
        held = self.pick(self.held)
        if held is not None:
            self.host.audiences.release(held.audience)
            held.released = True

    async def publish(self) -> None:
        """A call that comes while a session is being written waits, and is answered by what the session then is."""
        lease = self.pick(self.leases)
        if lease is None or lease.closed:
            return
        key = self.somewhere()
        with self.host.rows.publishing(key):
            searching = asyncio.ensure_future(lease.handle.search(SearchRequest("beacon", max_results=100)))
            for _ in range(self.random.randrange(3)):
                await asyncio.sleep(0)
            if self.random.random() < 0.5:
                self.end_life(key)
        await self.settled(lease, searching)

    async def race(self) -> None:
        """Somebody's life or lease ends while a search is under way."""
        lease = self.pick(self.leases)
        if lease is None or lease.closed:
            return
        searching = asyncio.ensure_future(lease.handle.search(SearchRequest("beacon", max_results=100)))
        for _ in range(self.random.randrange(12)):
            await asyncio.sleep(0)
        if searching.done():
            await self.settled(lease, searching)
            return
        if lease.held is not None and self.random.random() < 0.5:
            self.end_life(self.random.choice(list(lease.held.lives)))
        else:
            await self.reset()
        await self.settled(lease, searching)

    async def settled(self, lease: Lease, searching: asyncio.Future[Any]) -> None:
        try:
            page = await searching
        except errors.CallerNotCurrent:
            assert not self.is_current(lease.held), self.done
            self.shared.count("refused in the middle")
            return
        assert self.is_current(lease.held), (lease.who, self.done)
        self.found(lease, page)

    async def close(self) -> None:
        lease = self.pick(self.leases)
        if lease is not None:
            await lease.handle.close()
            lease.closed = True

    async def remember(self) -> None:
        key = self.random.choice(list(PLACES))
        if len(self.shared.words[key]) < WORDS_KEPT:
            self.shared.remember(key)

    async def forget(self) -> None:
        key = self.random.choice(list(PLACES))
        self.shared.forget(key)
        self.shared.count("forgotten")


@pytest.mark.timeout(0 if "MEMORY_SQLITE_SWEEP" in os.environ else 240)
def test_nobody_sees_what_is_not_theirs(tmp_path: Path) -> None:
    """No leak in any sequence; ``MEMORY_SQLITE_SWEEP`` says how many, 10,000 for a long run."""
    workspace = tmp_path / "workspace"
    (workspace / "memory").mkdir(parents=True)
    (workspace / "MEMORY.md").write_text(f"The beacon {NOTE} stands on the hill.\n", encoding="utf-8")

    async def work(shared: Shared) -> None:
        for seed in range(SEQUENCES):
            sequence = Sequence(shared, seed)
            try:
                await sequence.run()
            except BaseException:
                print(f"sequence {seed}: {sequence.done}")
                raise

    with Memory.open(tmp_path / "data", workspace=workspace) as memory:
        shared = Shared(memory)
        for key in PLACES:
            shared.remember(key)
        memory.index()
        asyncio.run(work(shared))
    print(shared.counts)
    expected = {"found", "read", "refused", "refused in the middle", "denied", "denied read", "not opened"}
    assert expected <= set(shared.counts), shared.counts
