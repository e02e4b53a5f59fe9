"""Checks of the exclusive slot: who may register, and what of whom is active (criteria 1 to 5)."""

from __future__ import annotations

from typing import Any

from memory_sqlite.context.conformance_kit import must
from memory_sqlite.host.conformance.subject import SLOT, Check, MakeHost, refuses
from memory_sqlite.host.contributions import OWNER_FIELDS
from memory_sqlite.host.scripted import ScriptedProvider
from memory_sqlite.runtime.plugins import MemoryCapability

MEMORY = frozenset({"memory"})


def _lines(name: str) -> Any:
    return lambda request: [name]


def _whole(name: str) -> MemoryCapability:
    return MemoryCapability(
        prompt_builder=_lines(name),
        runtime=object(),
        provider_runtime=ScriptedProvider(name),
        recall_tool_names=(name,),
        deterministic_recall_tool_name=name,
        supports_private_transcript_recall=True,
    )


def check_registering_needs_the_kind_memory(make: MakeHost) -> None:
    """Criterion 1."""
    host = make()
    refuses(lambda: host.register(SLOT, frozenset({"channel"}), _whole(SLOT)), "a plugin of another kind registers")
    must(host.active() is None, "a refused registration is stored")


def check_unselected_plugin_of_several_kinds_stores_nothing(make: MakeHost) -> None:
    """Criterion 2."""
    host = make()
    host.register("other", frozenset({"memory", "channel"}), _whole("other"))
    must(host.active() is None, "the capability of an unselected plugin of several kinds is stored")


def check_unselected_plugin_loses_the_owners_fields(make: MakeHost) -> None:
    """Criterion 3."""
    host = make()
    host.register("other", MEMORY, _whole("other"))
    active = host.active()
    must(active is not None, "an unselected memory plugin contributes nothing")
    assert active is not None
    must(all(getattr(active[1], name) is None for name in OWNER_FIELDS), "an unselected plugin keeps an owner's field")
    must(active[1].prompt_builder is not None, "an unselected plugin loses a field that it may bring")


def check_owners_fields_win_in_both_orders(make: MakeHost) -> None:
    """Criteria 4 and 5."""
    for order in ((SLOT, "other"), ("other", SLOT)):
        host = make()
        mine = MemoryCapability(prompt_builder=_lines("mine"))
        released: Any = _lines("other")
        theirs = MemoryCapability(prompt_builder=_lines("theirs"), flush_plan_resolver=released)
        for plugin_id in order:
            host.register(plugin_id, MEMORY, mine if plugin_id == SLOT else theirs)
        active = host.active()
        must(active is not None and active[0] == SLOT, "the slot's owner is not the active plugin")
        assert active is not None
        must(active[1].prompt_builder is mine.prompt_builder, "a sidecar's field wins over the owner's")
        must(active[1].flush_plan_resolver is released, "what the owner omits is not supplied by the sidecar")


ALL: tuple[Check, ...] = (
    check_registering_needs_the_kind_memory,
    check_unselected_plugin_of_several_kinds_stores_nothing,
    check_unselected_plugin_loses_the_owners_fields,
    check_owners_fields_win_in_both_orders,
)
