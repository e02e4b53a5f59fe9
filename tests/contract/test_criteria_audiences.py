"""Criteria 60 to 70: who is minted what, from which lineage, and when it ends."""

from __future__ import annotations

import asyncio
import copy
import gc
import logging
import pickle
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from memory_sqlite import errors, limits
from memory_sqlite.host import audiences
from memory_sqlite.host.audiences import Audiences
from memory_sqlite.host.memory_host import MemoryHost
from memory_sqlite.host.session_rows import SessionRow, SessionRows, SpawnReceipt
from memory_sqlite.host.slots import Plugin
from memory_sqlite.runtime.callers import ConversationAudience, MemoryAudience, OwnerPrivateAudience
from memory_sqlite.runtime.plugins import MemoryCapability

KEY = "agent:main:direct:a"
STALE = r"^memory audience is no longer current$"
RELEASED = r"^memory audience was released by its owner$"
ELSEWHERE = r"^memory audience is bound to a different session$"
FORGED = r"^memory provider requires a host-minted memory audience$"
UNAVAILABLE = r"^memory audience currency is unavailable; retry the operation$"


def sid(number: int) -> str:
    return f"10000000-0000-4000-8000-{number:012x}"


class World:
    """Rows and audiences; ``chain`` makes a root with descendants."""

    def __init__(self, rows: SessionRows | None = None) -> None:
        self.rows = rows if rows is not None else SessionRows()
        self.audiences = Audiences(self.rows)

    def root(self, chat_type: str | None = "direct", key: str = KEY) -> None:
        self.rows.put(SessionRow(key, sid(0), "r0", chat_type))

    def chain(self, length: int, *, owner: bool = True, chat_type: str | None = "direct") -> str:
        """A root and ``length - 1`` descendants; the key of the last one. Children claim to be direct chats."""
        self.root(chat_type)
        parent = self.rows.get(KEY)
        for number in range(1, length):
            assert parent is not None
            receipt = SpawnReceipt(parent.key, parent.session_id, owner, parent.lifecycle_revision)
            row = SessionRow(f"agent:main:subagent:{number}", sid(number), f"r{number}", "direct", receipt)
            self.rows.put(row)
            parent = row
        assert parent is not None
        return parent.key

    async def mint(self, key: str = KEY, *, owner: bool = True, agent: str = "main", **more: Any) -> MemoryAudience:
        row = self.rows.get(key)
        session_id = row.session_id if row is not None else sid(0)
        return await self.audiences.resolve(
            agent_id=agent, session_key=key, session_id=session_id, sender_is_owner=owner, **more
        )


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(work())


def content(audience: MemoryAudience) -> tuple[str, ...]:
    if isinstance(audience, ConversationAudience):
        return audience.kind, audience.agent_id, audience.session_key, audience.session_id
    return audience.kind, audience.agent_id


@pytest.mark.parametrize(
    ("chat_type", "owner", "expected"),
    [
        ("direct", True, ("owner-private", "main")),
        ("direct", False, ("conversation", "main", KEY, sid(0))),
        ("group", True, ("conversation", "main", KEY, sid(0))),
        ("group", False, ("conversation", "main", KEY, sid(0))),
        ("channel", True, ("conversation", "main", KEY, sid(0))),
        ("channel", False, ("conversation", "main", KEY, sid(0))),
    ],
)
def test_criterion_060_turns_map_to_audiences(chat_type: str, owner: bool, expected: tuple[str, ...]) -> None:
    """The owner's direct turn is owner-private; everything else is its root conversation, whoever speaks."""

    async def work() -> None:
        world = World()
        world.root(chat_type)
        assert content(await world.mint(owner=owner)) == expected
        child = world.chain(3, owner=owner, chat_type=chat_type)
        assert content(await world.mint(child, owner=not owner)) == expected

    run(work)


def test_criterion_061_thread_shaped_key_is_its_own_conversation() -> None:
    """A key that looks like a thread of another gets no special treatment: it is the conversation of that key."""

    async def work() -> None:
        world = World()
        key = "agent:main:group:g1:thread:7"
        world.root("group", key)
        assert content(await world.mint(key)) == ("conversation", "main", key, sid(0))

    run(work)


@pytest.mark.parametrize("recorded", [True, False])
def test_criterion_062_children_inherit_by_the_recorded_owner_bit(recorded: bool) -> None:
    """Of the root's own child, whatever the launching turn and the later receipts say."""

    async def work() -> None:
        world = World()
        world.root()
        rows = world.rows
        rows.put(SessionRow("agent:main:subagent:1", sid(1), "r1", "direct", SpawnReceipt(KEY, sid(0), recorded, "r0")))
        receipt = SpawnReceipt("agent:main:subagent:1", sid(1), not recorded, "r1")
        rows.put(SessionRow("agent:main:subagent:2", sid(2), "r2", "group", receipt))
        for launched_by_owner in (True, False):
            got = await world.mint("agent:main:subagent:2", owner=launched_by_owner)
            assert content(got) == (("owner-private", "main") if recorded else ("conversation", "main", KEY, sid(0)))

    run(work)


def _receipt(**changes: Any) -> SpawnReceipt:
    fields: dict[str, Any] = {"parent_key": KEY, "parent_session_id": sid(0), "owner": True, "parent_revision": "r0"}
    return SpawnReceipt(**{**fields, **changes})


CHILD = "agent:main:subagent:1"


def _child(**changes: Any) -> SessionRow:
    fields: dict[str, Any] = {
        "key": CHILD,
        "session_id": sid(1),
        "lifecycle_revision": "r1",
        "chat_type": "direct",
        "spawned_by": _receipt(),
    }
    return SessionRow(**{**fields, **changes})


DEFECTS: list[tuple[str, SessionRow, str]] = [
    ("parent of another session id", _child(spawned_by=_receipt(parent_session_id=sid(9))), "stale-lineage"),
    ("parent of another revision", _child(spawned_by=_receipt(parent_revision="r9")), "stale-lineage"),
    ("no revision recorded, but there is one", _child(spawned_by=_receipt(parent_revision=None)), "stale-lineage"),
    ("parent without a row", _child(spawned_by=_receipt(parent_key="agent:main:gone")), "stale-lineage"),
    ("row older than receipts: no owner bit", _child(spawned_by=_receipt(owner=None)), "stale-lineage"),
    ("row older than receipts: no id", _child(spawned_by=_receipt(parent_session_id="")), "stale-lineage"),
    ("owner bit that is no truth value", _child(spawned_by=_receipt(owner=1)), "ineligible"),
    ("empty spawner key", _child(spawned_by=_receipt(parent_key="")), "ineligible"),
    ("spawner key of another type", _child(spawned_by=_receipt(parent_key=5)), "ineligible"),
    ("navigation parent that is another", _child(navigation_parent="agent:main:direct:b"), "ineligible"),
    ("malformed spawner id", _child(spawned_by=_receipt(parent_session_id=sid(0).upper() + "Z")), "ineligible"),
    ("empty recorded revision", _child(spawned_by=_receipt(parent_revision="")), "ineligible"),
    ("receipt that is none", _child(spawned_by={"parent_key": KEY}), "ineligible"),
    ("spawner of another agent", _child(spawned_by=_receipt(parent_key="agent:other:direct:a")), "ineligible"),
    ("key of another form", _child(spawned_by=_receipt(parent_key="direct")), "ineligible"),
    ("its own parent", _child(spawned_by=_receipt(parent_key=CHILD, parent_session_id=sid(1))), "ineligible"),
    ("malformed own id", _child(session_id="not-an-id"), "ineligible"),
    ("own id in capitals", _child(session_id="A" * 36), "ineligible"),
]


@pytest.mark.parametrize(("row", "kind"), [pytest.param(row, kind, id=name) for name, row, kind in DEFECTS])
def test_criterion_063_lineage_defects_are_denied_by_kind(
    row: SessionRow, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Each defect gives its kind, logged at the kind's level, and leaves no lease open."""
    world = World()
    world.root()
    world.rows.put(row)
    with caplog.at_level(logging.DEBUG, "memory_sqlite.host.audiences"), pytest.raises(errors.AudienceDenied) as denied:
        asyncio.run(world.mint(CHILD))
    assert denied.value.kind == kind
    assert world.rows.watched() == {}
    level = {"stale-lineage": logging.WARNING, "unverified": logging.INFO, "ineligible": logging.DEBUG}[kind]
    told = [record for record in caplog.records if record.name == "memory_sqlite.host.audiences"]
    assert [record.levelno for record in told] == [level]


@pytest.mark.parametrize("chat_type", [None, "", "thread", "unknown", "Direct"])
def test_criterion_063_unknown_chat_type_is_ineligible(chat_type: str | None) -> None:
    """What is not known to be direct, group or channel grants nothing, and children cannot make up for it."""
    world = World()
    child = world.chain(2, chat_type=chat_type)
    for key in (KEY, child):
        with pytest.raises(errors.AudienceDenied) as denied:
            asyncio.run(world.mint(key))
        assert denied.value.kind == "ineligible"
    assert world.rows.watched() == {}


@pytest.mark.parametrize(
    ("key", "agent", "session_id", "owner", "kind"),
    [
        (KEY, "other", sid(0), True, "ineligible"),
        (KEY, "Main", sid(0), True, "ineligible"),
        ("main", "main", sid(0), True, "ineligible"),
        ("agent:main:", "main", sid(0), True, "ineligible"),
        (KEY, "main", "short", True, "ineligible"),
        (KEY, "main", sid(0) + "\n", True, "ineligible"),
        (KEY, "main", sid(0), "yes", "ineligible"),
        (KEY, "main", sid(5), True, "unverified"),
        ("agent:main:direct:nobody", "main", sid(0), True, "unverified"),
    ],
)
def test_criterion_063_what_the_turn_says_must_fit_its_row(
    key: str, agent: str, session_id: str, owner: Any, kind: str
) -> None:
    """A turn of another agent, with a malformed key, id or owner bit, or whose row is another by now."""
    world = World()
    world.root()
    with pytest.raises(errors.AudienceDenied) as denied:
        asyncio.run(
            world.audiences.resolve(agent_id=agent, session_key=key, session_id=session_id, sender_is_owner=owner)
        )
    assert denied.value.kind == kind
    assert world.rows.watched() == {}


def test_criterion_063_cycle_is_ineligible() -> None:
    """Two sessions that claim to have spawned each other, with every field fitting."""
    world = World()
    other = "agent:main:subagent:2"
    world.rows.put(_child(spawned_by=_receipt(parent_key=other, parent_session_id=sid(2), parent_revision="r2")))
    receipt = _receipt(parent_key=CHILD, parent_session_id=sid(1), parent_revision="r1")
    world.rows.put(SessionRow(other, sid(2), "r2", "direct", receipt))
    with pytest.raises(errors.AudienceDenied) as denied:
        asyncio.run(world.mint(CHILD))
    assert denied.value.kind == "ineligible"
    assert world.rows.watched() == {}


class Storage(SessionRows):
    """Rows whose reading can move a row, or fail."""

    def __init__(self) -> None:
        super().__init__()
        self.on_read: Callable[[str], None] | None = None
        self.reads: list[str] = []

    async def read(self, key: str) -> SessionRow | None:
        self.reads.append(key)
        row = await super().read(key)
        if self.on_read is not None:
            self.on_read(key)
        return row


@pytest.mark.parametrize("what", ["child moves", "root moves", "storage fails"])
def test_criterion_063_what_moves_while_resolving_is_unverified(what: str) -> None:
    """A row that is reset after it was read, or storage that fails: a later turn may try again, and succeeds."""

    async def work() -> None:
        rows = Storage()
        world = World(rows)
        child = world.chain(2)

        def disturb(key: str) -> None:
            if what == "storage fails":
                raise OSError("a path")
            if key == KEY:
                moved = child if what == "child moves" else KEY
                rows.update(moved, session_id=sid(77))

        rows.on_read = disturb
        with pytest.raises(errors.AudienceDenied) as denied:
            await world.mint(child)
        assert denied.value.kind == "unverified"
        assert "a path" not in str(denied.value)
        assert rows.watched() == {}
        rows.on_read = None
        world.chain(2)
        assert content(await world.mint(child)) == ("owner-private", "main")

    run(work)


def test_admitted_row_is_not_read_again() -> None:
    """A host that has the admitted row gives it, and only ancestors are read; a row that moved since is unverified."""

    async def work() -> None:
        rows = Storage()
        world = World(rows)
        child = world.chain(3)
        admitted = rows.get(child)
        await world.mint(child, row=admitted)
        assert rows.reads == ["agent:main:subagent:1", KEY]
        rows.update(child, lifecycle_revision="later")
        with pytest.raises(errors.AudienceDenied) as denied:
            await world.mint(child, row=admitted)
        assert denied.value.kind == "unverified"

    run(work)


def test_cancelled_resolution_leaves_no_lease() -> None:
    """A turn that is cancelled while its lineage is read holds nothing."""

    async def work() -> None:
        rows = Storage()
        world = World(rows)
        child = world.chain(2)
        with rows.publishing(KEY):
            minting = asyncio.ensure_future(world.mint(child))
            await asyncio.sleep(0)
            assert child in rows.watched()
            minting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await minting
        assert rows.watched() == {}

    run(work)


def test_criterion_064_more_than_64_hops_is_denied() -> None:
    """64 sessions, root and child counted, are walked; 65 are not."""

    async def work() -> None:
        world = World()
        deepest = world.chain(limits.LINEAGE_HOPS_MAX)
        assert limits.LINEAGE_HOPS_MAX == 64
        assert content(await world.mint(deepest)) == ("owner-private", "main")
        gc.collect()
        deepest = world.chain(65)
        with pytest.raises(errors.AudienceDenied) as denied:
            await world.mint(deepest)
        assert denied.value.kind == "ineligible"
        assert world.rows.watched() == {}

    run(work)


@pytest.mark.parametrize("change", [{"lifecycle_revision": "r9"}, {"lifecycle_revision": None}, {"session_id": sid(9)}])
@pytest.mark.parametrize("moved", ["own", "middle", "root"])
def test_criterion_065_restored_row_does_not_revive(change: dict[str, Any], moved: str) -> None:
    """Any session of the lineage that begins another life ends the audience, for good."""

    async def work() -> None:
        world = World()
        child = world.chain(3)
        audience = await world.mint(child)
        key = {"own": child, "middle": "agent:main:subagent:1", "root": KEY}[moved]
        old = world.rows.get(key)
        assert old is not None
        world.audiences.assert_current(audience, child)
        world.rows.update(key, **change)
        with pytest.raises(errors.CallerNotCurrent, match=STALE):
            world.audiences.assert_current(audience, child)
        world.rows.put(old)
        with pytest.raises(errors.CallerNotCurrent, match=STALE):
            world.audiences.assert_current(audience, child)
        again = await world.mint(child)
        world.rows.delete(key)
        world.rows.put(old)
        with pytest.raises(errors.CallerNotCurrent, match=STALE):
            world.audiences.assert_current(again, child)

    run(work)


def test_criterion_066_writes_of_the_same_life_keep_it_current() -> None:
    """A turn's bookkeeping interrupts nobody, not even while it is published; a pending reset is unavailable."""

    async def work() -> None:
        world = World()
        child = world.chain(2)
        audience = await world.mint(child)
        for key in (KEY, child):
            world.rows.update(key, compaction_count=3)
            with world.rows.publishing(key, keeps_incarnation=True):
                world.audiences.assert_current(audience, child)
            with world.rows.publishing(key), pytest.raises(errors.CurrencyUnavailable, match=UNAVAILABLE):
                world.audiences.assert_current(audience, child)
            world.audiences.assert_current(audience, child)

    run(work)


def test_criterion_066_only_a_write_that_ends_a_life_is_pending() -> None:
    """Seen from inside of the write: bookkeeping is no pending publication, a reset and a removal are."""
    world = World()
    world.root()
    seen: list[bool] = []
    world.rows.watch(KEY, lambda row: seen.append(world.rows.is_pending(KEY)))
    world.rows.update(KEY, compaction_count=4)
    world.rows.update(KEY, lifecycle_revision="r9")
    world.rows.delete(KEY)
    assert seen == [False, True, True]


def test_failed_write_leaves_it_current() -> None:
    """A reset that could not be written has not happened."""

    async def work() -> None:
        world = World()
        world.root()
        audience = await world.mint()
        with pytest.raises(OSError), world.rows.publishing(KEY):
            raise OSError
        world.audiences.assert_current(audience, KEY)

    run(work)


def test_criterion_067_released_audience_raises() -> None:
    """The run that owns it ended: it and its delegates are over; releasing twice is once; leases are given back."""

    async def work() -> None:
        world = World()
        world.chain(2)
        audience = await world.mint()
        delegate = await world.audiences.delegate(audience, child_key=CHILD)
        world.audiences.release(audience)
        world.audiences.release(audience)
        for one, key in ((audience, KEY), (delegate, CHILD)):
            with pytest.raises(errors.CallerNotCurrent, match=RELEASED):
                world.audiences.assert_current(one, key)
        world.rows.update(KEY, lifecycle_revision="r9")
        with pytest.raises(errors.CallerNotCurrent, match=RELEASED):
            world.audiences.assert_current(audience, KEY)
        world.audiences.release(delegate)
        assert world.rows.watched() == {}

    run(work)


def test_criterion_068_delegate_is_its_own_object_bound_to_the_child() -> None:
    """Of equal content, for the child's key alone; the parent's end or the child's change ends it, not the reverse."""

    async def work() -> None:
        world = World()
        world.chain(2)
        parent = await world.mint()
        delegate = await world.audiences.delegate(parent, child_key=CHILD)
        assert delegate is not parent
        assert content(delegate) == content(parent)
        world.audiences.assert_current(delegate, CHILD)
        with pytest.raises(errors.CallerNotCurrent, match=ELSEWHERE):
            world.audiences.assert_current(delegate, KEY)
        with pytest.raises(errors.CallerNotCurrent, match=ELSEWHERE):
            world.audiences.assert_current(parent, CHILD)
        world.audiences.release(delegate)
        world.audiences.assert_current(parent, KEY)
        of_old_child = await world.audiences.delegate(parent, child_key=CHILD)
        world.rows.update(CHILD, lifecycle_revision="r9")
        with pytest.raises(errors.CallerNotCurrent, match=STALE):
            world.audiences.assert_current(of_old_child, CHILD)
        world.audiences.assert_current(parent, KEY)
        of_old_parent = await world.audiences.delegate(parent, child_key=CHILD)
        world.rows.update(KEY, lifecycle_revision="r9")
        with pytest.raises(errors.CallerNotCurrent, match=STALE):
            world.audiences.assert_current(of_old_parent, CHILD)
        with pytest.raises(errors.CallerNotCurrent, match=STALE):
            await world.audiences.delegate(parent, child_key=CHILD)

    run(work)


def test_criterion_068_delegation_waits_for_a_write_of_the_child() -> None:
    """A child that is being reset is delegated to in its new life; a parent that ends meanwhile ends the delegate."""

    async def work() -> None:
        world = World()
        world.chain(2)
        parent = await world.mint()
        with world.rows.publishing(CHILD):
            delegating = asyncio.ensure_future(world.audiences.delegate(parent, child_key=CHILD))
            for _ in range(5):
                await asyncio.sleep(0)
            assert not delegating.done()
            world.rows.update(CHILD, lifecycle_revision="r9")
        delegate = await delegating
        world.audiences.assert_current(delegate, CHILD)
        with world.rows.publishing(CHILD):
            delegating = asyncio.ensure_future(world.audiences.delegate(parent, child_key=CHILD))
            await asyncio.sleep(0)
            world.rows.update(KEY, lifecycle_revision="r9")
        late = await delegating
        with pytest.raises(errors.CallerNotCurrent, match=STALE):
            world.audiences.assert_current(late, CHILD)

    run(work)


def test_criterion_068_delegation_is_refused_where_there_is_no_such_child() -> None:
    """A child of another agent, without a row, with a malformed id; a forged or stale parent."""

    async def work() -> None:
        world = World()
        world.chain(2)
        parent = await world.mint()
        world.rows.put(SessionRow("agent:other:direct:a", sid(1), None, "direct"))
        world.rows.put(SessionRow("agent:main:subagent:bad", "bad", None, "direct"))
        for key, kind in (
            ("agent:other:direct:a", "ineligible"),
            (None, "ineligible"),
            ("agent:main:subagent:none", "unverified"),
            ("agent:main:subagent:bad", "ineligible"),
        ):
            with pytest.raises(errors.AudienceDenied) as denied:
                await world.audiences.delegate(parent, child_key=key)  # type: ignore[arg-type]
            assert denied.value.kind == kind
        with pytest.raises(errors.CallerNotCurrent, match=FORGED):
            await world.audiences.delegate(OwnerPrivateAudience("main"), child_key=CHILD)
        world.audiences.release(parent)
        with pytest.raises(errors.CallerNotCurrent, match=RELEASED):
            await world.audiences.delegate(parent, child_key=CHILD)
        assert world.rows.watched() == {}

    run(work)


def test_delegates_of_delegates_without_end() -> None:
    """Runs that delegate to runs, thousands deep: the root's end ends the last one, and nothing overflows."""

    async def work() -> None:
        world = World()
        world.root()
        first = last = await world.mint()
        for number in range(2_000):
            last = await world.audiences.delegate(last, child_key=f"agent:main:run:{number}", detached=True)
        world.audiences.assert_current(last, "agent:main:run:1999")
        world.audiences.release(first)
        with pytest.raises(errors.CallerNotCurrent, match=RELEASED):
            world.audiences.assert_current(last, "agent:main:run:1999")
        del first, last
        gc.collect()
        assert world.rows.watched() == {}

    run(work)


def test_delegate_outlives_its_parents_object() -> None:
    """A parent that nobody holds any more has not ended; its lineage still counts for the delegate."""

    async def work() -> None:
        world = World()
        world.chain(2)
        delegate = await world.audiences.delegate(await world.mint(), child_key=CHILD)
        gc.collect()
        world.audiences.assert_current(delegate, CHILD)
        world.rows.update(KEY, lifecycle_revision="r9")
        with pytest.raises(errors.CallerNotCurrent, match=STALE):
            world.audiences.assert_current(delegate, CHILD)
        del delegate
        gc.collect()
        assert world.rows.watched() == {}

    run(work)


def test_criterion_069_detached_delegate_ends_when_a_row_appears() -> None:
    """Bound to the absence of a row for its key: a row that appears ends it, also when it goes away again."""

    async def work() -> None:
        world = World()
        world.root()
        parent = await world.mint()
        key = "agent:main:flush:1"
        with pytest.raises(errors.AudienceDenied):
            await world.audiences.delegate(parent, child_key=key)
        delegate = await world.audiences.delegate(parent, child_key=key, detached=True)
        world.audiences.assert_current(delegate, key)
        world.rows.put(SessionRow(key, sid(5), None, "direct"))
        world.rows.delete(key)
        with pytest.raises(errors.CallerNotCurrent, match=STALE):
            world.audiences.assert_current(delegate, key)
        world.audiences.assert_current(parent, KEY)
        world.rows.put(SessionRow(key, sid(5), None, "direct"))
        with pytest.raises(errors.AudienceDenied) as denied:
            await world.audiences.delegate(parent, child_key=key, detached=True)
        assert denied.value.kind == "ineligible"

    run(work)


@pytest.mark.parametrize("capability", [MemoryCapability(runtime=object()), MemoryCapability(), None])
def test_criterion_070_legacy_owner_causes_no_resolution(capability: MemoryCapability | None) -> None:
    """No audience and no read of the lineage, unless the owner is native."""

    async def work() -> None:
        rows = Storage()
        host = MemoryHost({"plugins": {"slots": {"memory": "p"}}}, rows)
        rows.put(SessionRow(KEY, sid(0), "r0", "direct"))
        turn: dict[str, Any] = {"agent_id": "main", "session_key": KEY, "session_id": sid(0), "sender_is_owner": True}
        plugin = Plugin("p", frozenset({"memory"}))
        if capability is not None:
            host.slot.register(plugin, capability)
        assert await host.turn_audience(**turn) is None
        assert rows.reads == []
        assert rows.watched() == {}
        host.slot.register(plugin, {"provider_runtime": object()})
        got = await host.turn_audience(**turn)
        assert got is not None
        assert content(got) == ("owner-private", "main")
        assert await host.turn_audience(**{**turn, "session_id": sid(9)}) is None

    run(work)


def test_keys_of_another_form() -> None:
    """A host whose keys look otherwise says whose session a key names; a key that names nobody's grants nothing."""

    async def work() -> None:
        host = MemoryHost({}, agent_of=lambda key: key.partition("/")[0] or None)
        for key in ("main/a", "/a"):
            host.rows.put(SessionRow(key, sid(0), None, "direct"))
        turn: dict[str, Any] = {"agent_id": "main", "session_id": sid(0), "sender_is_owner": True}
        got = await host.audiences.resolve(session_key="main/a", **turn)
        assert content(got) == ("owner-private", "main")
        with pytest.raises(errors.AudienceDenied):
            await host.audiences.resolve(session_key="/a", **turn)

    run(work)


def test_only_the_minted_object_counts() -> None:
    """Copies, pickles and equal ones grant nothing, nor does a minted one whose fields or class were changed."""

    class Disguised(ConversationAudience):
        pass

    async def work() -> None:
        world = World()
        world.root("group")
        minted = await world.mint()
        others = [copy.copy(minted), copy.deepcopy(minted), pickle.loads(pickle.dumps(minted))]
        for other in [*others, "owner-private", None, object()]:
            assert not world.audiences.is_minted(other)
            with pytest.raises(errors.CallerNotCurrent, match=FORGED):
                world.audiences.assert_current(other, KEY)  # type: ignore[arg-type]
        assert world.audiences.is_minted(minted)
        object.__setattr__(minted, "__class__", Disguised)
        assert not world.audiences.is_minted(minted)
        object.__setattr__(minted, "__class__", ConversationAudience)
        assert world.audiences.is_minted(minted)
        object.__setattr__(minted, "session_key", "agent:main:group:other")
        with pytest.raises(errors.CallerNotCurrent, match=FORGED):
            world.audiences.assert_current(minted, KEY)

    run(work)


def test_collected_audience_leaves_nothing_behind() -> None:
    """A new object at the address of a collected one was not minted, and leases go with who held them."""

    async def work() -> None:
        world = World()
        world.root()
        for _ in range(50):
            number = id(await world.mint())
            forged = OwnerPrivateAudience("main")
            assert not world.audiences.is_minted(forged), id(forged) == number
        gc.collect()
        assert world.rows.watched() == {}

    run(work)


def test_audience_that_is_collected_inside_a_write_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """The collector runs anywhere: one audience goes while another thread writes a row, and one while a third is being
    minted. Neither of the two threads waits for the other."""
    world = World()
    world.root()
    held = [asyncio.run(world.mint()) for _ in range(2)]
    minting, writing = threading.Event(), threading.Event()
    plain = audiences._content

    def in_the_middle(audience: MemoryAudience) -> tuple[Any, ...]:
        if threading.current_thread() is minter and not minting.is_set():
            minting.set()
            writing.wait()
            held.pop()
        return plain(audience)

    def told(row: SessionRow | None) -> None:
        writing.set()
        held.pop()

    monkeypatch.setattr(audiences, "_content", in_the_middle)
    world.rows.watch("agent:main:direct:b", told)
    minter = threading.Thread(target=lambda: asyncio.run(world.mint()), daemon=True)
    writer = threading.Thread(target=lambda: world.root(key="agent:main:direct:b"), daemon=True)
    minter.start()
    minting.wait()
    writer.start()
    for thread in (minter, writer):
        thread.join()
    assert held == []


def test_currency_is_asked_in_threads_while_rows_move() -> None:
    """Many threads ask while another resets: each hears yes, wait, or no; and after the first no only no."""

    async def mint(world: World) -> MemoryAudience:
        return await world.mint()

    world = World()
    world.root()
    audience = asyncio.run(mint(world))
    start = threading.Barrier(5)
    wrong: list[str] = []

    def ask() -> None:
        start.wait()
        ended = False
        for _ in range(2_000):
            try:
                world.audiences.assert_current(audience, KEY)
                if ended:
                    wrong.append("revived")
            except errors.CurrencyUnavailable:
                if ended:
                    wrong.append("unavailable after the end")
            except errors.CallerNotCurrent:
                ended = True

    def reset() -> None:
        start.wait()
        for number in range(200):
            world.rows.update(KEY, compaction_count=number)
        for number in range(200):
            world.rows.update(KEY, lifecycle_revision=f"r{number % 2}")

    threads = [threading.Thread(target=ask) for _ in range(4)] + [threading.Thread(target=reset)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    with pytest.raises(errors.CallerNotCurrent, match=STALE):
        world.audiences.assert_current(audience, KEY)


def test_updates_of_several_threads_are_all_kept() -> None:
    """Each writes a field of its own, over and over: none undoes another's."""
    rows = SessionRows()
    rows.put(SessionRow(KEY, sid(0), None, "direct"))

    def write(field: str) -> None:
        for number in range(500):
            rows.update(KEY, **{field: number if field == "compaction_count" else str(number)})

    fields = ("compaction_count", "navigation_parent", "chat_type")
    threads = [threading.Thread(target=write, args=(field,)) for field in fields]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    row = rows.get(KEY)
    assert row is not None
    assert (row.compaction_count, row.navigation_parent, row.chat_type) == (499, "499", "499")
    with pytest.raises(KeyError):
        rows.update("agent:main:nobody", compaction_count=1)
