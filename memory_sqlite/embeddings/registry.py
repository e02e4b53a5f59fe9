"""Which embedding provider a setting names: the built-in ones, and those of plugins.

A plugin is an installed distribution with entry points in ``GROUP``: each name there is a provider id it declares, each
object a factory of ``Factory``'s kind. A host can register plugins by hand. An id belongs to one plugin; what is not
declared, or taken, is refused. Whatever is opened here can be retired: it takes no new calls, those under way end, then
it is closed. Not here: using a provider (``service``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Final

from memory_sqlite import errors
from memory_sqlite.config import Settings
from memory_sqlite.embeddings.adapter import Adapter
from memory_sqlite.embeddings.protocol import Provider
from memory_sqlite.values import dataclass

GROUP: Final = "memory_sqlite.embedding_providers"
BUILT_IN: Final = ("static", "local", "openai")
_HOUSE: Final = "memory-sqlite"
Factory = Callable[[Settings], Provider]
"""Makes a provider of the settings; cheap, see ``protocol.Provider``. Raises ``InvalidConfiguration``."""


@dataclass(frozen=True, slots=True)
class _Registered:
    plugin: str
    factory: Factory


class Registrar:
    """What a plugin registers with."""

    def __init__(self, registry: Registry, plugin: str, declared: frozenset[str]) -> None:
        self._registry = registry
        self._plugin = plugin
        self._declared = declared

    def register(self, provider: str, factory: Factory) -> None:
        """Offer a provider under an id. Raises ``InvalidConfiguration`` for one not declared, or taken."""
        if provider not in self._declared:
            raise errors.InvalidConfiguration(
                f"the plugin {self._plugin!r} registers the embedding provider {provider!r}, which it does not declare",
                hint=f"Declare {provider!r} in the plugin, or remove the plugin.",
            )
        self._registry.add(self._plugin, provider, factory)


class Registry:
    """Providers by id. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, _Registered] = {
            "static": _Registered(_HOUSE, _local),
            "local": _Registered(_HOUSE, _local),
            "openai": _Registered(_HOUSE, _openai),
        }
        self._open: dict[str, list[Adapter]] = {}

    def plugin(self, name: str, declares: Iterable[str]) -> Registrar:
        """Let a plugin register the providers it declares."""
        return Registrar(self, name, frozenset(declares))

    def add(self, plugin: str, provider: str, factory: Factory) -> None:
        """Called by ``Registrar``. Raises ``InvalidConfiguration`` for an id that is taken or no name."""
        with self._lock:
            taken = self._known.get(provider)
            if taken is not None or provider == "none":
                owner = _HOUSE if taken is None else taken.plugin
                raise errors.InvalidConfiguration(
                    f"the plugin {plugin!r} registers the embedding provider {provider!r}, which {owner!r} has",
                    hint="Remove one of the two plugins.",
                )
            self._known[provider] = _Registered(plugin, factory)

    def ids(self) -> list[str]:
        """Every id that can be chosen now, ``none`` aside."""
        with self._lock:
            return list(self._known)

    def open(self, settings: Settings) -> Provider | None:
        """The provider that the settings name, ``None`` for none of them. The caller closes it.

        Raises ``InvalidConfiguration``: no such provider, a wrong setting, a plugin that is at fault.
        """
        wanted = settings.embedding_provider
        if wanted is None:
            return None
        if wanted not in self.ids():
            self._discover()
        with self._lock:
            registered = self._known.get(wanted)
        if registered is None:
            raise errors.InvalidConfiguration(
                "embedding_provider names no provider that is installed",
                hint=f"There are: none, {', '.join(self.ids())}.",
            )
        try:
            adapter = Adapter(wanted, registered.plugin, registered.factory(settings))
        except errors.MemorySqliteError:
            raise
        except Exception as error:
            raise errors.InvalidConfiguration(
                f"the plugin {registered.plugin!r} cannot make the embedding provider {wanted!r}"
                f" ({type(error).__name__})",
                hint="Update the plugin, or choose another embedding_provider.",
            ) from None
        with self._lock:
            if self._known.get(wanted) is registered:
                opened = self._open.setdefault(wanted, [])
                opened[:] = [one for one in opened if not one.closed]
                opened.append(adapter)
                return adapter
        adapter.close()  # it was retired meanwhile
        raise errors.InvalidConfiguration(f"the plugin {registered.plugin!r} was taken away")

    def retire(self, plugin: str, timeout_s: float) -> bool:
        """Take a plugin's providers away: none is opened any more, those that are open drain and are closed.

        Whether every call under way had ended after ``timeout_s``; one that had not is closed over.
        """
        with self._lock:
            ids = [provider for provider, registered in self._known.items() if registered.plugin == plugin]
            for provider in ids:
                del self._known[provider]
            adapters = [adapter for provider in ids for adapter in self._open.pop(provider, [])]
        for adapter in adapters:
            adapter.retire()
        drained = [adapter.drain(timeout_s) for adapter in adapters]
        return all(drained)

    def _discover(self) -> None:
        """Register what installed plugins declare by entry points."""
        from importlib.metadata import entry_points

        points = [(point.dist.name, point) for point in entry_points(group=GROUP) if point.dist is not None]
        for plugin, point in points:
            with self._lock:
                known = self._known.get(point.name)
            if known is None or known.plugin != plugin:  # else it was found before
                declared = [other.name for name, other in points if name == plugin]
                self.plugin(plugin, declared).register(point.name, _loaded_late(point.load))


def _loaded_late(load: Callable[[], Factory]) -> Factory:
    """A factory whose module is loaded when it is used: of several plugins one is."""
    return lambda settings: load()(settings)


def _local(settings: Settings) -> Provider:
    from memory_sqlite.embeddings.catalogue import find
    from memory_sqlite.embeddings.local import LocalProvider

    assert settings.embedding_provider is not None, "it was chosen"
    return LocalProvider(find(settings.embedding_provider, settings.embedding_model))


def _openai(settings: Settings) -> Provider:
    from memory_sqlite.embeddings.openai import OpenAiProvider

    return OpenAiProvider(
        base_url=settings.embedding_base_url,
        model=settings.embedding_model,
        dimensions=settings.embedding_dimensions,
        key_variable=settings.embedding_api_key_env,
    )


REGISTRY: Final = Registry()
"""The one of this process."""


def open_provider(settings: Settings) -> Provider | None:
    """The provider that the settings name; ``None`` without one. Raises ``InvalidConfiguration``."""
    if settings.embedding_provider is None:
        return None
    return REGISTRY.open(settings)
