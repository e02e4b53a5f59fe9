"""Checks of audiences: minting, lineage, currency, delegation (criteria 60 to 69)."""

from __future__ import annotations

import asyncio
import copy
from dataclasses import replace
from functools import partial
from typing import Any

from memory_sqlite.context.conformance_kit import must
from memory_sqlite.host.conformance.subject import (
    CHILD_ID,
    KEY,
    SESSION_ID,
    Check,
    MakeHost,
    Stage,
    refused,
    refuses,
    run,
)
from memory_sqlite.host.session_rows import SessionRow, SpawnReceipt
from memory_sqlite.runtime.callers import ConversationAudience, MemoryAudience

CHILD = "agent:main:subagent:conformance"
ROW = SessionRow(KEY, SESSION_ID, "r1", "direct")
RECEIPT = SpawnReceipt(KEY, SESSION_ID, True, "r1")
CHILD_ROW = SessionRow(CHILD, CHILD_ID, "c1", "direct", RECEIPT)


def _says(audience: MemoryAudience) -> tuple[str, ...]:
    if isinstance(audience, ConversationAudience):
        return audience.kind, audience.agent_id, audience.session_key, audience.session_id
    return audience.kind, audience.agent_id


def check_turns_map_to_audiences(make: MakeHost) -> None:
    """Criteria 60 and 61."""

    async def work() -> None:
        conversation = ("conversation", "main", KEY, SESSION_ID)
        for chat_type, owner, expected in (
            ("direct", True, ("owner-private", "main")),
            ("direct", False, conversation),
            ("group", True, conversation),
            ("channel", True, conversation),
        ):
            stage = Stage(make)
            stage.host.write(replace(ROW, chat_type=chat_type))
            got = _says(await stage.audience(owner=owner))
            must(got == expected, f"{chat_type} turn, owner {owner}: {got[0]}")
        stage = Stage(make)
        stage.host.write(replace(ROW, chat_type=None))
        await refused(stage.audience(), "a session of unknown chat type has an audience")

    run(work)


def check_children_inherit_by_the_recorded_owner_bit(make: MakeHost) -> None:
    """Criterion 62."""

    async def work() -> None:
        for recorded in (True, False):
            stage = Stage(make)
            stage.host.write(replace(CHILD_ROW, spawned_by=replace(RECEIPT, owner=recorded)))
            for launched in (True, False):
                got = _says(await stage.audience(owner=launched, key=CHILD, session_id=CHILD_ID))
                must((got[0] == "owner-private") is recorded, "a child's audience follows its launching turn")

    run(work)


def check_lineage_defects_are_denied(make: MakeHost) -> None:
    """Criteria 63 and 64."""

    async def work() -> None:
        nothing: Any = None
        for why, receipt in (
            ("of a parent that was reset", replace(RECEIPT, parent_revision="r0")),
            ("of a parent with another id", replace(RECEIPT, parent_session_id=CHILD_ID)),
            ("without a parent", replace(RECEIPT, parent_key="agent:main:gone")),
            ("of another agent", replace(RECEIPT, parent_key="agent:other:x")),
            ("that is its own parent", SpawnReceipt(CHILD, CHILD_ID, True, "c1")),
            ("without an owner bit", replace(RECEIPT, owner=nothing)),
            ("with a malformed id", replace(RECEIPT, parent_session_id="x")),
        ):
            stage = Stage(make)
            stage.host.write(replace(CHILD_ROW, spawned_by=receipt))
            await refused(stage.audience(key=CHILD, session_id=CHILD_ID), f"a child {why} has an audience")
        stage = Stage(make)
        parent = ROW
        for number in range(65):
            session_id = f"20000000-0000-4000-8000-{number:012d}"
            made = SpawnReceipt(parent.key, parent.session_id, True, parent.lifecycle_revision)
            parent = SessionRow(f"{CHILD}:{number}", session_id, "c", "direct", made)
            stage.host.write(parent)
        deep = stage.audience(key=parent.key, session_id=parent.session_id)
        await refused(deep, "a lineage of more than 64 sessions has an audience")

    run(work)


def check_restored_row_does_not_revive(make: MakeHost) -> None:
    """Criterion 65."""

    async def work() -> None:
        for change in (True, False):
            stage = Stage(make)
            audience = await stage.audience()
            if change:
                stage.reset()
            else:
                stage.host.remove(KEY)
            stage.host.write(ROW)
            text = "memory audience is no longer current"
            refuses(partial(stage.host.assert_current, audience, KEY), "a restored row revives", text)

    run(work)


def check_same_life_keeps_current_and_pending_is_unavailable(make: MakeHost) -> None:
    """Criterion 66, and the pending state."""

    async def work() -> None:
        stage = Stage(make)
        audience = await stage.audience()
        stage.host.write(replace(ROW, compaction_count=7))
        stage.host.assert_current(audience, KEY)
        with stage.host.publishing(KEY):
            text = "memory audience currency is unavailable; retry the operation"
            refuses(lambda: stage.host.assert_current(audience, KEY), "a pending write counts as current", text)
        stage.host.assert_current(audience, KEY)

    run(work)


def check_released_and_copied_audiences_are_refused(make: MakeHost) -> None:
    """Criterion 67, and authority by identity."""

    async def work() -> None:
        stage = Stage(make)
        audience = await stage.audience()
        copied = copy.copy(audience)
        text = "memory provider requires a host-minted memory audience"
        refuses(lambda: stage.host.assert_current(copied, KEY), "a copy of an audience is current", text)
        stage.host.release(audience)
        text = "memory audience was released by its owner"
        refuses(lambda: stage.host.assert_current(audience, KEY), "a released audience is current", text)

    run(work)


def check_delegates_are_bound_to_their_child(make: MakeHost) -> None:
    """Criterion 68."""

    async def work() -> None:
        stage = Stage(make)
        stage.host.write(CHILD_ROW)
        parent = await stage.audience()
        delegate = await stage.host.delegate(parent, child_key=CHILD, detached=False)
        must(delegate is not parent and _says(delegate) == _says(parent), "a delegate is not an equal, other object")
        stage.host.assert_current(delegate, CHILD)
        text = "memory audience is bound to a different session"
        refuses(lambda: stage.host.assert_current(delegate, KEY), "a delegate is valid for its parent's session", text)
        stage.host.write(replace(CHILD_ROW, lifecycle_revision="c2"))
        refuses(lambda: stage.host.assert_current(delegate, CHILD), "a delegate survives the child's reset")
        stage.host.assert_current(parent, KEY)
        again = await stage.host.delegate(parent, child_key=CHILD, detached=False)
        stage.reset()
        refuses(lambda: stage.host.assert_current(again, CHILD), "a delegate survives its parent")

    run(work)


def check_detached_delegate_ends_when_a_row_appears(make: MakeHost) -> None:
    """Criterion 69."""

    async def work() -> None:
        stage = Stage(make)
        delegate = await stage.host.delegate(await stage.audience(), child_key=CHILD, detached=True)
        stage.host.assert_current(delegate, CHILD)
        stage.host.write(CHILD_ROW)
        refuses(lambda: stage.host.assert_current(delegate, CHILD), "a detached delegate survives a row for its key")
        stage.host.remove(CHILD)
        await asyncio.sleep(0)
        refuses(lambda: stage.host.assert_current(delegate, CHILD), "a detached delegate is revived")

    run(work)


ALL: tuple[Check, ...] = (
    check_turns_map_to_audiences,
    check_children_inherit_by_the_recorded_owner_bit,
    check_lineage_defects_are_denied,
    check_restored_row_does_not_revive,
    check_same_life_keeps_current_and_pending_is_unavailable,
    check_released_and_copied_audiences_are_refused,
    check_delegates_are_bound_to_their_child,
    check_detached_delegate_ends_when_a_row_appears,
)
