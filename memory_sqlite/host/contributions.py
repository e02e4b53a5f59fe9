"""One registration of a memory capability, and how two of them become one.

What is declared is told apart from what is not: a field that a plugin declares as ``None`` (only a mapping can) is
declared, and a provider runtime declared so is invalid rather than absent. Not here: who is the owner (``slots``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from memory_sqlite import errors
from memory_sqlite.host.instances import PluginInstance
from memory_sqlite.runtime.flush_plans import FlushPlan, FlushPlanRequest
from memory_sqlite.runtime.plugins import MemoryCapability

OWNER_FIELDS = (
    "runtime",
    "provider_runtime",
    "recall_tool_names",
    "deterministic_recall_tool_name",
    "supports_private_transcript_recall",
)
BAD_RUNTIME = "memory providerRuntime must implement open"

_FIELDS = tuple(field.name for field in fields(MemoryCapability))
_RESOLVERS = ("provider_flush_plan_resolver", "flush_plan_resolver")
_MAIN = ("prompt_builder", *_RESOLVERS, "runtime", "provider_runtime")
"""What a registration must lack, beside having artifacts, to be laid over an earlier one."""

Resolver = Callable[[FlushPlanRequest], "FlushPlan | None"]


class DeclaredNothing:
    """Stands for a provider runtime that was declared as ``None``: it cannot be opened."""


@dataclass(frozen=True)
class FlushSource:
    """The effective flush resolver: whose it is, which of the two kinds, and whether that plugin owns the slot."""

    plugin_id: str
    resolver: Resolver
    kind: Literal["provider", "released"]
    slot_owner: bool


@dataclass(frozen=True)
class Registration:
    """What one plugin declared; ``flush`` is its resolver as a unit: supplier, resolver, kind."""

    plugin_id: str
    declared: Mapping[str, Any]
    flush: tuple[str, Resolver, Literal["provider", "released"]] | None
    instance: PluginInstance


def declared(capability: MemoryCapability | Mapping[str, Any]) -> dict[str, Any]:
    """The fields a capability declares. Raises ``ProviderInvalid`` for what is none."""
    if isinstance(capability, MemoryCapability):
        return {name: value for name in _FIELDS if (value := getattr(capability, name)) is not None}
    if not isinstance(capability, Mapping):
        raise errors.ProviderInvalid("a memory capability is a MemoryCapability or a mapping of its fields")
    found = {name: capability[name] for name in _FIELDS if name in capability}
    if "provider_runtime" in found and found["provider_runtime"] is None:
        found["provider_runtime"] = DeclaredNothing()
    return {name: value for name, value in found.items() if value is not None}


def without_owner_fields(fields_declared: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What a plugin that does not own the slot may contribute, and the names of what was left out."""
    stripped = tuple(name for name in OWNER_FIELDS if name in fields_declared)
    return {name: value for name, value in fields_declared.items() if name not in OWNER_FIELDS}, stripped


def registration(plugin_id: str, fields_declared: Mapping[str, Any]) -> Registration:
    """A registration with a new instance of its plugin."""
    flush: tuple[str, Resolver, Literal["provider", "released"]] | None = None
    if (resolver := fields_declared.get("provider_flush_plan_resolver")) is not None:
        flush = (plugin_id, resolver, "provider")
    elif (resolver := fields_declared.get("flush_plan_resolver")) is not None:
        flush = (plugin_id, resolver, "released")
    return Registration(plugin_id, dict(fields_declared), flush, PluginInstance(plugin_id))


def followed(earlier: Registration | None, later: Registration) -> Registration:
    """Two of the same standing: the later replaces the earlier, unless it only adds artifacts to it."""
    adds_only = "public_artifacts" in later.declared and not any(name in later.declared for name in _MAIN)
    if earlier is None or not adds_only:
        return later
    return Registration(earlier.plugin_id, {**earlier.declared, **later.declared}, earlier.flush, earlier.instance)


def merged(owner: Registration | None, sidecars: Registration | None) -> Registration | None:
    """The owner with what sidecars add: the owner's declared fields win, and its resolver of either kind does."""
    if owner is None or sidecars is None:
        return owner or sidecars
    added = dict(sidecars.declared)
    if owner.flush is not None:
        # an owner's resolver of either kind beats a sidecar's of either kind
        for name in _RESOLVERS:
            added.pop(name, None)
    return Registration(owner.plugin_id, {**added, **owner.declared}, owner.flush or sidecars.flush, owner.instance)


def flush_source(merged_registration: Registration, *, slot_selected: bool) -> FlushSource | None:
    """The effective resolver; its plugin owns the slot only if it supplied it itself."""
    if merged_registration.flush is None:
        return None
    plugin_id, resolver, kind = merged_registration.flush
    owned = slot_selected and plugin_id == merged_registration.plugin_id
    return FlushSource(plugin_id, resolver, kind, owned)


def capability(merged_registration: Registration) -> MemoryCapability:
    """The merged fields as a capability."""
    return MemoryCapability(**merged_registration.declared)
