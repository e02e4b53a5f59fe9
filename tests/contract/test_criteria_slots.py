"""Criteria 1 to 10: the exclusive memory slot, its owner and sidecars, the effective flush resolver, artifacts."""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import Any

import pytest

from memory_sqlite import errors
from memory_sqlite.host.artifacts import list_active_memory_public_artifacts
from memory_sqlite.host.memory_host import MemoryHost
from memory_sqlite.host.scripted import ScriptedProvider
from memory_sqlite.host.slots import MemorySlot, Plugin, SlotReport
from memory_sqlite.runtime.callers import CallerContext, HostAuthority
from memory_sqlite.runtime.flush_plans import FlushFilePlan, FlushPlanRequest
from memory_sqlite.runtime.plugins import MemoryCapability, PromptRequest, PublicArtifact
from memory_sqlite.runtime.shapes import OpenRequest

MEMORY = frozenset({"memory"})
OWNER, SIDECAR = Plugin("owner", MEMORY), Plugin("sidecar", MEMORY)
CONFIG: dict[str, Any] = {"plugins": {"slots": {"memory": "owner"}}}
OWNER_ONLY = (
    "runtime",
    "provider_runtime",
    "recall_tool_names",
    "deterministic_recall_tool_name",
    "supports_private_transcript_recall",
)
SHARED = ("prompt_builder", "flush_plan_resolver", "provider_flush_plan_resolver", "public_artifacts")


class Artifacts:
    """Lists what it was given."""

    def __init__(self, listed: Any = ()) -> None:
        self.listed = listed

    async def list_artifacts(self, config: Any) -> Any:
        return self.listed


def plan(name: str) -> FlushFilePlan:
    return FlushFilePlan(0, 0, 0, name, name, "memory/x.md")


def resolver(name: str, asked: list[str] | None = None) -> Any:
    def resolve(request: FlushPlanRequest) -> FlushFilePlan:
        if asked is not None:
            asked.append(name)
        return plan(name)

    return resolve


def whole(name: str) -> MemoryCapability:
    """A capability with every field, each telling whose it is."""
    return MemoryCapability(
        prompt_builder=lambda request: [name],
        flush_plan_resolver=resolver(f"{name} released"),
        provider_flush_plan_resolver=resolver(f"{name} provider"),
        runtime=f"{name} runtime",
        provider_runtime=ScriptedProvider(name),
        public_artifacts=Artifacts(),
        recall_tool_names=(name,),
        deterministic_recall_tool_name=name,
        supports_private_transcript_recall=True,
    )


def registered(*pairs: tuple[Plugin, Any], config: dict[str, Any] | None = None) -> MemorySlot:
    slot = MemorySlot(CONFIG if config is None else config)
    for plugin, capability in pairs:
        slot.register(plugin, capability)
    return slot


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("kinds", [frozenset(), frozenset({"channel"})])
def test_criterion_001_other_kinds_cannot_register(kinds: frozenset[str]) -> None:
    """It raises, also for the plugin that is selected, and nothing is stored."""
    slot = MemorySlot(CONFIG)
    with pytest.raises(errors.ProviderInvalid, match=r"^only memory plugins can register a memory capability$"):
        slot.register(Plugin("owner", kinds), whole("owner"))
    assert slot.active() is None


def test_criterion_002_unselected_plugin_of_several_kinds_stores_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """One warning that names it; when it is selected it is stored whole."""
    both = frozenset({"memory", "context-engine"})
    slot = registered((Plugin("sidecar", both), whole("sidecar")))
    assert slot.active() is None
    assert len(warnings_of(caplog)) == 1
    assert '"sidecar"' in warnings_of(caplog)[0]
    active = registered((Plugin("owner", both), whole("owner"))).active()
    assert active is not None
    assert active.slot_selected


def test_criterion_003_unselected_plugin_loses_exactly_the_owners_fields(caplog: pytest.LogCaptureFixture) -> None:
    """Five fields go, with one warning; four stay. Without any of the five there is no warning."""
    capability = whole("sidecar")
    active = registered((SIDECAR, capability)).active()
    assert active is not None
    assert not active.slot_selected
    assert [getattr(active.capability, name) for name in OWNER_ONLY] == [None] * 5
    assert all(getattr(active.capability, name) is getattr(capability, name) for name in SHARED)
    assert len(warnings_of(caplog)) == 1
    assert all(name in warnings_of(caplog)[0] for name in OWNER_ONLY)
    caplog.clear()
    registered((SIDECAR, MemoryCapability(prompt_builder=lambda request: [])))
    assert warnings_of(caplog) == []


@pytest.mark.parametrize("owner_first", [True, False])
def test_criterion_004_owners_fields_win_in_both_orders(owner_first: bool) -> None:
    """Whoever registers first."""
    mine, other = whole("owner"), whole("sidecar")
    pairs = [(OWNER, mine), (SIDECAR, other)]
    active = registered(*(pairs if owner_first else reversed(pairs))).active()
    assert active is not None
    assert (active.plugin_id, active.slot_selected) == ("owner", True)
    assert all(getattr(active.capability, name) is getattr(mine, name) for name in (*OWNER_ONLY, *SHARED))


@pytest.mark.parametrize("owner_first", [True, False])
@pytest.mark.parametrize("field", SHARED)
def test_criterion_005_sidecar_supplies_what_the_owner_omits(field: str, owner_first: bool) -> None:
    """Each field that a sidecar may bring, in both orders."""
    other = whole("sidecar")
    pairs = [(OWNER, MemoryCapability(recall_tool_names=("x",))), (SIDECAR, other)]
    active = registered(*(pairs if owner_first else reversed(pairs))).active()
    assert active is not None
    assert getattr(active.capability, field) is getattr(other, field)
    assert active.capability.recall_tool_names == ("x",)


def test_criterion_006_provider_resolver_alone_is_called() -> None:
    """Of two resolvers of one plugin."""
    asked: list[str] = []
    capability = MemoryCapability(
        flush_plan_resolver=resolver("released", asked), provider_flush_plan_resolver=resolver("provider", asked)
    )
    active = registered((OWNER, capability)).active()
    assert active is not None
    assert active.flush_source is not None
    active.flush_source.resolver(FlushPlanRequest())
    assert asked == ["provider"]
    assert active.flush_source.kind == "provider"


@pytest.mark.parametrize("owner_first", [True, False])
def test_criterion_007_owners_released_resolver_beats_a_sidecars_provider_resolver(owner_first: bool) -> None:
    """An owner's of either kind beats a sidecar's of either kind, and the sidecar's is not left lying about."""
    mine = MemoryCapability(flush_plan_resolver=resolver("owner"))
    other = MemoryCapability(provider_flush_plan_resolver=resolver("sidecar"))
    pairs = [(OWNER, mine), (SIDECAR, other)]
    active = registered(*(pairs if owner_first else reversed(pairs))).active()
    assert active is not None
    source = active.flush_source
    assert source is not None
    assert source.resolver is mine.flush_plan_resolver
    assert (source.plugin_id, source.kind, source.slot_owner) == ("owner", "released", True)
    assert active.capability.provider_flush_plan_resolver is None


@pytest.mark.parametrize("owner_first", [True, False])
def test_criterion_008_plan_names_the_supplier(owner_first: bool) -> None:
    """A sidecar's resolver under an owner without one: the sidecar is named, and it does not own the slot."""
    pairs = [
        (OWNER, MemoryCapability(provider_runtime=ScriptedProvider("owner"))),
        (SIDECAR, MemoryCapability(provider_flush_plan_resolver=resolver("sidecar"))),
    ]
    active = registered(*(pairs if owner_first else reversed(pairs))).active()
    assert active is not None
    assert active.plugin_id == "owner"
    assert active.flush_source is not None
    assert (active.flush_source.plugin_id, active.flush_source.slot_owner) == ("sidecar", False)
    alone = registered(pairs[1]).active()
    assert alone is not None
    assert alone.flush_source is not None
    assert not alone.flush_source.slot_owner


def test_criterion_009_no_runtime_is_neutral_and_a_load_failure_an_error() -> None:
    """A selected plugin may do without the host's search; one that failed to load, or a bad runtime, is an error."""
    slot = registered((OWNER, MemoryCapability(prompt_builder=lambda request: [])))
    assert slot.describe().status == "no-host-search"
    assert registered((OWNER, MemoryCapability(runtime=object()))).describe() == SlotReport("legacy", "owner")
    native = MemoryCapability(provider_runtime=ScriptedProvider("owner"), runtime=object())
    assert registered((OWNER, native)).describe() == SlotReport("native", "owner")
    slot = MemorySlot(CONFIG)
    slot.failed("owner", ImportError("with a path"))
    assert slot.describe() == SlotReport("error", "owner", "memory plugin failed to load (ImportError)")
    slot.register(OWNER, MemoryCapability(runtime=object()))
    assert slot.describe().status == "legacy"
    assert registered((OWNER, {"provider_runtime": None})).describe().status == "error"
    assert MemorySlot(CONFIG).describe().status == "error"

    def broken(plugin_id: str) -> Any:
        raise OSError("with a path")

    failing = MemorySlot(CONFIG, load=broken)
    assert failing.describe() == SlotReport("error", "owner", "memory plugin failed to load (OSError)")


def test_configuration_without_an_owner() -> None:
    """Nobody selected, or the selected one globally off, denied, not allowed, or its entry disabled: no owner."""
    assert MemorySlot({}).describe().status == "none"
    slots = {"memory": "owner"}
    for plugins in (
        {"slots": slots, "enabled": False},
        {"slots": slots, "deny": ["owner"]},
        {"slots": slots, "allow": ["another"]},
        {"slots": slots, "entries": {"owner": {"enabled": False}}},
    ):
        slot = registered((OWNER, whole("owner")), config={"plugins": plugins})
        assert slot.owner() is None
        assert slot.active() is None
        assert slot.describe().status == "disabled"
    for odd in ("x", None, {"slots": "x"}, {"slots": {"memory": 5}}, {"slots": {"memory": " "}}):
        assert MemorySlot({"plugins": odd}).selected is None
    assert MemorySlot({"plugins": {"slots": {"memory": " owner "}, "allow": ["owner"]}}).selected == "owner"


def test_disabled_sidecar_contributes_nothing_and_the_owner_stays(caplog: pytest.LogCaptureFixture) -> None:
    """A sidecar that is switched off is not there; the owner does not depend on it."""
    config = {"plugins": {"slots": {"memory": "owner"}, "entries": {"sidecar": {"enabled": False}}}}
    mine = MemoryCapability(provider_runtime=ScriptedProvider("owner"))
    active = registered((OWNER, mine), (SIDECAR, whole("sidecar")), config=config).active()
    assert active is not None
    assert active.capability == mine
    assert len(warnings_of(caplog)) == 1


@pytest.mark.parametrize("plugin", [OWNER, SIDECAR])
def test_same_status_later_replaces_earlier(plugin: Plugin) -> None:
    """Nothing of the earlier survives, its flush source neither; the earlier instance is retired."""
    slot = MemorySlot(CONFIG)
    first = slot.register(plugin, MemoryCapability(prompt_builder=lambda r: ["1"], flush_plan_resolver=resolver("1")))
    second = slot.register(plugin, MemoryCapability(prompt_builder=lambda r: ["2"]))
    active = slot.active()
    assert active is not None
    assert active.flush_source is None
    assert first is not None and second is not None
    assert (first.alive, second.alive) == (False, True)


@pytest.mark.parametrize("plugin", [OWNER, SIDECAR])
def test_registration_of_artifacts_alone_is_laid_over(plugin: Plugin) -> None:
    """Its fields are added to the earlier one, whose flush source and instance stay."""
    slot = MemorySlot(CONFIG)
    released = resolver("1")
    first = slot.register(plugin, MemoryCapability(flush_plan_resolver=released, public_artifacts=Artifacts()))
    later = Artifacts()
    assert slot.register(plugin, MemoryCapability(public_artifacts=later)) is first
    active = slot.active()
    assert active is not None
    assert active.capability.public_artifacts is later
    assert active.flush_source is not None
    assert active.flush_source.resolver is released
    assert first is not None
    assert first.alive
    for main in ("prompt_builder", "runtime", "provider_flush_plan_resolver"):
        if plugin is SIDECAR and main == "runtime":
            continue  # stripped before it counts
        slot.register(plugin, MemoryCapability(flush_plan_resolver=released))
        slot.register(plugin, MemoryCapability(public_artifacts=later, **{main: lambda *_: []}))
        active = slot.active()
        assert active is not None
        assert active.capability.flush_plan_resolver is None


def test_what_was_laid_over_goes_with_its_plugin() -> None:
    """And what was under it comes out; without that it stands by itself, under its own name."""
    under, over = Artifacts(), Artifacts()
    third = Plugin("third", MEMORY)
    slot = MemorySlot(CONFIG)
    first = slot.register(SIDECAR, MemoryCapability(flush_plan_resolver=resolver("1"), public_artifacts=under))
    slot.register(third, MemoryCapability(public_artifacts=over))
    slot.unregister("third")
    active = slot.active()
    assert first is not None and active is not None
    assert first.alive and active.instance is first
    assert active.capability.public_artifacts is under
    slot.register(third, MemoryCapability(public_artifacts=over))
    slot.unregister("sidecar")
    active = slot.active()
    assert active is not None and not first.alive
    assert (active.plugin_id, active.capability, active.flush_source) == (
        "third",
        MemoryCapability(public_artifacts=over),
        None,
    )
    assert active.instance.alive


def test_any_order_of_registrations_gives_the_same() -> None:
    """Owner, sidecar, and the sidecar's artifacts: what is active depends on their own order only."""
    pairs = [
        (OWNER, MemoryCapability(recall_tool_names=("x",))),
        (SIDECAR, MemoryCapability(prompt_builder=lambda r: ["s"])),
        (Plugin("third", MEMORY), MemoryCapability(public_artifacts=Artifacts())),
    ]
    seen = set()
    for order in itertools.permutations(range(3)):
        if order.index(1) < order.index(2):
            active = registered(*(pairs[number] for number in order)).active()
            assert active is not None
            seen.add(active.capability)
    assert len(seen) == 1


def test_unregistered_plugins_are_gone() -> None:
    """The owner's leaving leaves the sidecar, and no owner."""
    slot = registered((OWNER, whole("owner")), (SIDECAR, whole("sidecar")))
    slot.unregister("owner")
    active = slot.active()
    assert active is not None
    assert (active.plugin_id, active.slot_selected) == ("sidecar", False)
    assert slot.owner() is None
    slot.unregister("sidecar")
    assert slot.active() is None


def test_configured_plugin_is_loaded_without_activation() -> None:
    """Only when it has not registered, once, and without becoming active; another plugin than asked for is refused."""
    asked: list[str] = []

    def load(plugin_id: str) -> Any:
        asked.append(plugin_id)
        return OWNER, MemoryCapability(provider_runtime=ScriptedProvider("owner"))

    async def work() -> None:
        host = MemoryHost(CONFIG, load=load)
        context = CallerContext(HostAuthority("test"), lambda: None)
        for _ in range(2):
            assert (await host.open(OpenRequest("main", context))).provider is not None
        assert asked == ["owner"]
        assert host.slot.active() is None
        loaded = (await host.open(OpenRequest("main", context))).provider
        host.slot.register(OWNER, MemoryCapability(provider_runtime=ScriptedProvider("owner")))
        assert loaded is not None
        with pytest.raises(errors.ProviderUnavailable):
            await loaded.health()
        registered_host = MemoryHost(CONFIG, load=load)
        registered_host.slot.register(OWNER, MemoryCapability(provider_runtime=ScriptedProvider("owner")))
        assert (await registered_host.open(OpenRequest("main", context))).provider is not None
        assert asked == ["owner"]
        wrong = MemoryHost(CONFIG, load=lambda plugin_id: (SIDECAR, whole("sidecar")))
        assert (await wrong.open(OpenRequest("main", context))).error == "memory plugin unavailable"
        assert wrong.slot.describe().status == "error"

    asyncio.run(work())


@pytest.mark.parametrize("capability", [None, 5, "x", [MemoryCapability()]])
def test_what_is_no_capability_is_refused(capability: Any) -> None:
    """And nothing is stored."""
    slot = MemorySlot(CONFIG)
    with pytest.raises(errors.ProviderInvalid):
        slot.register(OWNER, capability)
    assert slot.active() is None


def artifact(**changes: Any) -> Any:
    fields: dict[str, Any] = {
        "workspace_dir": "/w",
        "relative_path": "MEMORY.md",
        "kind": "note",
        "content_type": "markdown",
        "agent_ids": ("main",),
        "absolute_path": "/w/MEMORY.md",
    }
    return PublicArtifact(**{**fields, **changes})


def listed(answer: Any) -> list[PublicArtifact]:
    slot = registered((OWNER, MemoryCapability(public_artifacts=Artifacts(answer))))
    return asyncio.run(list_active_memory_public_artifacts(slot, CONFIG))


def test_criterion_010_malformed_artifacts_are_dropped_and_the_rest_sorted(caplog: pytest.LogCaptureFixture) -> None:
    """By workspace, relative path, kind, content type, agents and absolute path; one warning that counts."""
    good = [
        artifact(workspace_dir="/v", relative_path="z.md"),
        artifact(relative_path="a.md", kind="a", content_type="json"),
        artifact(relative_path="a.md", kind="a", content_type="markdown", agent_ids=("a", "b")),
        artifact(relative_path="a.md", kind="a", content_type="markdown", agent_ids=("b",), absolute_path="/w/1"),
        artifact(relative_path="a.md", kind="a", content_type="markdown", agent_ids=("b",), absolute_path="/w/2"),
        artifact(relative_path="a.md", kind="b", content_type="json"),
        artifact(relative_path="b.md", kind="a"),
    ]
    bad: list[Any] = [
        None,
        "x",
        {},
        artifact(kind=""),
        artifact(workspace_dir=None),
        artifact(content_type="html"),
        artifact(absolute_path=5),
    ]
    mixed = [*reversed(good), *bad]
    got = listed(mixed)
    assert got == good
    assert len(warnings_of(caplog)) == 1
    assert f" {len(bad)} " in warnings_of(caplog)[0]
    mixed.clear()
    assert got == good


def test_criterion_010_other_answers(caplog: pytest.LogCaptureFixture) -> None:
    """No list is ignored with a warning; agents that are no list are none; the wire's own form is taken."""
    assert listed({"a": 1}) == []
    assert len(warnings_of(caplog)) == 1
    assert listed([artifact(agent_ids="main")]) == [artifact(agent_ids=())]
    assert listed([artifact(agent_ids=["main", 5])]) == [artifact(agent_ids=("main",))]
    wire = {
        "workspaceDir": "/w",
        "relativePath": "MEMORY.md",
        "kind": "note",
        "contentType": "markdown",
        "agentIds": ["main"],
        "absolutePath": "/w/MEMORY.md",
    }
    assert listed([wire]) == [artifact()]
    assert asyncio.run(list_active_memory_public_artifacts(MemorySlot(CONFIG), CONFIG)) == []


def test_prompt_lines_are_strings() -> None:
    """What a builder returns that is no string is left out; without a builder there are no lines."""
    request = PromptRequest(frozenset({"memory_search"}))
    for answer, expected in ((["a", 5, None, "b"], ["a", "b"]), ("abc", []), (None, [])):
        host = MemoryHost(CONFIG)

        def build(given: PromptRequest, answer: Any = answer) -> Any:
            return answer

        host.slot.register(OWNER, MemoryCapability(prompt_builder=build))
        assert host.prompt_lines(request) == expected
    assert MemoryHost(CONFIG).prompt_lines(request) == []
