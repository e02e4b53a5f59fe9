"""The exclusive memory slot: who owns it, what sidecars may add, and what of both is active.

Two layers are kept, the owner's registration and the sidecars', and merged when asked, so that the order in which
plugins register does not matter. Not here: opening a provider (``memory_host``), one registration's fields
(``contributions``). Called when a host loads plugins, and by all its consumers of memory.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from memory_sqlite import errors
from memory_sqlite.host import contributions
from memory_sqlite.host.contributions import FlushSource, Registration
from memory_sqlite.host.instances import PluginInstance
from memory_sqlite.host.settings import is_plugin_enabled, selected_memory_plugin
from memory_sqlite.runtime.plugins import MemoryCapability

__all__ = ["ActiveMemory", "FlushSource", "MemorySlot", "Plugin", "SlotReport"]

Loader = Callable[[str], "tuple[Plugin, MemoryCapability] | None"]
"""Loads a configured plugin without activating it; ``None`` when there is none of that id. May raise."""

_log = logging.getLogger("memory_sqlite.host.slots")


@dataclass(frozen=True)
class Plugin:
    """A plugin as the host loaded it. ``kinds`` must have ``memory`` for a memory capability."""

    id: str
    kinds: frozenset[str]


@dataclass(frozen=True)
class ActiveMemory:
    """What is active: the merged capability, of whom, and whether that plugin owns the slot.

    Without an owner it is what sidecars brought. ``instance`` is the owner's (or sidecar's) plugin as it is loaded.
    """

    plugin_id: str
    capability: MemoryCapability
    slot_selected: bool
    flush_source: FlushSource | None
    instance: PluginInstance


@dataclass(frozen=True)
class SlotReport:
    """How the slot is, for a settings page. ``no-host-search`` is neutral: the plugin may use hooks of its own."""

    status: Literal["none", "disabled", "native", "legacy", "no-host-search", "error"]
    plugin_id: str | None = None
    message: str | None = None


class MemorySlot:
    """The memory slot of one host. Thread-safe."""

    def __init__(self, config: Mapping[str, Any], *, load: Loader | None = None) -> None:
        """``load`` is tried once, when the configured owner has not registered."""
        self.config = config
        self._load = load
        self._lock = threading.RLock()
        self._layers: dict[bool, tuple[Registration, ...]] = {True: (), False: ()}
        """What the owner (``True``) and sidecars registered: one, and after it those that were laid over it."""
        self._loaded: Registration | None = None
        self._failure: tuple[str, str] | None = None
        self._tried = False

    @property
    def selected(self) -> str | None:
        """The plugin that may own the slot: configured and not switched off."""
        name = selected_memory_plugin(self.config)
        return name if name is not None and is_plugin_enabled(self.config, name) else None

    def register(self, plugin: Plugin, capability: MemoryCapability | Mapping[str, Any]) -> PluginInstance | None:
        """Take a plugin's capability; returns its instance, or ``None`` when nothing was stored.

        Nothing is stored, with a warning, of a plugin that is switched off, or that has several kinds and is not
        selected. An unselected plugin loses the fields that only an owner may bring, with one warning. A later
        registration of the same standing replaces the earlier one and retires it, unless it only brings artifacts: then
        it is laid over. A mapping has the capability's field names as keys and can say ``None`` for what is declared
        and empty. Raises ``ProviderInvalid`` for a plugin without the kind ``memory``, and for what is no capability.
        """
        if "memory" not in plugin.kinds:
            raise errors.ProviderInvalid("only memory plugins can register a memory capability")
        declared = contributions.declared(capability)
        if not is_plugin_enabled(self.config, plugin.id):
            _log.warning('plugin "%s" is switched off; its memory capability was not stored', plugin.id)
            return None
        selected = plugin.id == self.selected
        if not selected:
            if len(plugin.kinds) > 1:
                _log.warning('plugin "%s" is not selected for the memory slot; nothing of it was stored', plugin.id)
                return None
            declared, stripped = contributions.without_owner_fields(declared)
            if stripped:
                names = ", ".join(stripped)
                _log.warning('plugin "%s" is not selected for the memory slot; left out: %s', plugin.id, names)
        registration = contributions.registration(plugin.id, declared)
        with self._lock:
            earlier = self._registered(selected)
            stored = contributions.followed(earlier, registration)
            if earlier is not None and stored.instance is not earlier.instance:
                earlier.instance.retire()
                self._layers[selected] = ()
            self._layers[selected] += (registration,)
            if selected:
                self._failure = None
                if self._loaded is not None:
                    self._loaded.instance.retire()
                    self._loaded, self._tried = None, False
        return stored.instance

    def unregister(self, plugin_id: str) -> None:
        """A plugin goes: its instances are retired, every handle of them ends, and it contributes nothing more."""
        with self._lock:
            gone = [one for layers in self._layers.values() for one in layers if one.plugin_id == plugin_id]
            for selected, layers in self._layers.items():
                self._layers[selected] = tuple(one for one in layers if one.plugin_id != plugin_id)
            if self._loaded is not None and self._loaded.plugin_id == plugin_id:
                gone.append(self._loaded)
                self._loaded, self._tried = None, False
        for one in gone:
            one.instance.retire()

    def failed(self, plugin_id: str, error: BaseException) -> None:
        """Loading a plugin failed: told as an error of the slot while that plugin is selected."""
        with self._lock:
            self._failure = (plugin_id, f"memory plugin failed to load ({type(error).__name__})")

    def active(self) -> ActiveMemory | None:
        """What is active of all that was registered, or ``None``."""
        with self._lock:
            owner = self._registered(True)
            merged = contributions.merged(owner, self._registered(False))
        return None if merged is None else _active(merged, slot_selected=owner is not None)

    def owner(self) -> ActiveMemory | None:
        """The active memory of the slot's owner: registered, else loaded without activation. ``None``: no owner."""
        active = self.active()
        if active is not None and active.slot_selected:
            return active
        with self._lock:
            loaded = self._load_selected()
            merged = contributions.merged(loaded, self._registered(False)) if loaded is not None else None
        return None if merged is None else _active(merged, slot_selected=True)

    def describe(self) -> SlotReport:
        """How the slot is: an error only where loading failed or what was registered cannot be a runtime."""
        name = selected_memory_plugin(self.config)
        if name is None:
            return SlotReport("none", None, "no plugin is selected for the memory slot")
        if self.selected is None:
            return SlotReport("disabled", name, "the selected memory plugin is switched off")
        owner = self.owner()
        with self._lock:
            failure = self._failure
        if owner is None:
            if failure is not None and failure[0] == name:
                return SlotReport("error", name, failure[1])
            return SlotReport("error", name, "the selected memory plugin is not loaded")
        if owner.capability.provider_runtime is not None:
            if not callable(getattr(owner.capability.provider_runtime, "open", None)):
                return SlotReport("error", name, contributions.BAD_RUNTIME)
            return SlotReport("native", name)
        if owner.capability.runtime is not None:
            return SlotReport("legacy", name)
        return SlotReport("no-host-search", name, "this plugin does not offer search through the host")

    def _registered(self, selected: bool) -> Registration | None:
        """The registrations of one standing as one."""
        found: Registration | None = None
        for later in self._layers[selected]:
            found = contributions.followed(found, later)
        return found

    def _load_selected(self) -> Registration | None:
        name = self.selected
        if name is None:
            return None
        if self._load is not None and not self._tried:
            self._tried = True
            try:
                found = self._load(name)
                if found is not None:
                    plugin, capability = found
                    if plugin.id != name or "memory" not in plugin.kinds:
                        raise errors.ProviderInvalid("only memory plugins can register a memory capability")
                    self._loaded = contributions.registration(name, contributions.declared(capability))
            except Exception as error:
                self.failed(name, error)
        return self._loaded


def _active(merged: Registration, *, slot_selected: bool) -> ActiveMemory:
    source = contributions.flush_source(merged, slot_selected=slot_selected)
    capability = contributions.capability(merged)
    return ActiveMemory(merged.plugin_id, capability, slot_selected, source, merged.instance)
