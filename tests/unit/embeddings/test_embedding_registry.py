"""Which provider a setting names: built-in ones, plugins, what they may register, and how they are taken away."""

from __future__ import annotations

import importlib.metadata
import threading
from typing import Any

import pytest

from memory_sqlite import errors
from memory_sqlite.config import Settings
from memory_sqlite.embeddings import registry
from memory_sqlite.embeddings.adapter import Adapter
from memory_sqlite.embeddings.protocol import Provider
from memory_sqlite.embeddings.registry import BUILT_IN, Registry, open_provider

LONG = 30.0


def settings(provider: str, **others: Any) -> Settings:
    return Settings(embedding_provider=provider, **others)


def test_without_a_provider_nothing_is_opened() -> None:
    """The default: words alone."""
    assert open_provider(Settings()) is None
    assert open_provider(settings("none")) is None


@pytest.mark.parametrize(
    ("provider", "model", "identity"),
    [
        ("static", None, ("static", "wordllama-l2-supercat-256", 256)),
        ("local", None, ("local", "multilingual-e5-small", 384)),
        ("local", "all-MiniLM-L6-v2", ("local", "all-MiniLM-L6-v2", 384)),
        ("openai", None, ("openai", "text-embedding-3-small", 0)),
        ("openai", "nomic-embed-text", ("openai", "nomic-embed-text", 0)),
    ],
)
def test_built_in_providers(provider: str, model: str | None, identity: tuple[str, str, int]) -> None:
    """Made without their packages, models and servers: nothing is touched before ``load``."""
    opened = open_provider(settings(provider, embedding_model=model))
    assert opened is not None
    found = opened.identity
    assert (found.provider, found.model, found.dimensions) == identity
    assert opened.cost == ("paid" if provider == "openai" else "free")
    opened.close()


def test_what_is_not_there_is_named_with_what_is() -> None:
    """An unknown id says which there are; an unknown model too."""
    with pytest.raises(errors.InvalidConfiguration, match="embedding_provider names no provider") as caught:
        open_provider(settings("opnai"))
    assert all(name in caught.value.hint for name in ("none", *BUILT_IN))
    with pytest.raises(errors.InvalidConfiguration, match=r"multilingual-e5-small, all-MiniLM-L6-v2"):
        open_provider(settings("local", embedding_model="bert"))


def test_a_plugin_registers_what_it_declares(provider: Any) -> None:
    """Then it can be chosen by its id, and is told the settings."""
    found = Registry()
    told: list[Settings] = []

    def factory(given: Settings) -> Provider:
        told.append(given)
        made: Provider = provider
        return made

    found.plugin("acme", ["acme-small"]).register("acme-small", factory)
    asked = settings("acme-small", embedding_model="m")
    opened = found.open(asked)
    assert opened is not None
    assert opened.identity == provider.identity
    assert told == [asked]
    assert found.ids() == [*BUILT_IN, "acme-small"]


def test_an_undeclared_id_is_refused_naming_plugin_and_id() -> None:
    """What a plugin does not declare it cannot offer."""
    found = Registry()
    with pytest.raises(errors.InvalidConfiguration, match=r"'acme'.*'acme-large'.*does not declare"):
        found.plugin("acme", ["acme-small"]).register("acme-large", lambda given: None)  # type: ignore[arg-type,return-value]
    assert found.ids() == list(BUILT_IN)


@pytest.mark.parametrize("taken", ["static", "openai", "none", "acme-small"])
def test_an_id_that_is_taken_is_refused_naming_plugin_and_id(taken: str, provider: Any) -> None:
    """Also the built-in ones, and ``none``; the first keeps it."""
    found = Registry()
    found.plugin("acme", ["acme-small"]).register("acme-small", lambda given: provider)
    with pytest.raises(errors.InvalidConfiguration, match=rf"'other'.*{taken!r}, which '(?:acme|memory-sqlite)' has"):
        found.plugin("other", [taken]).register(taken, lambda given: provider)


class FakePoint:
    """An entry point of an installed plugin."""

    def __init__(self, plugin: str, name: str, factory: Any) -> None:
        self.dist = type("Distribution", (), {"name": plugin})()
        self.name = name
        self.load = lambda: factory


def with_points(monkeypatch: pytest.MonkeyPatch, *points: FakePoint) -> None:
    def entry_points(*, group: str) -> list[FakePoint]:
        return list(points) if group == registry.GROUP else []

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)


def test_plugins_are_found_by_their_entry_points(monkeypatch: pytest.MonkeyPatch, provider: Any) -> None:
    """Looked for when an id is not known yet, every time; modules are loaded when they are chosen."""
    found = Registry()
    with_points(monkeypatch, FakePoint("acme", "acme-small", lambda given: provider), FakePoint("b", "b-1", None))
    assert found.open(settings("acme-small")) is not None
    assert found.open(settings("acme-small")) is not None
    with pytest.raises(errors.InvalidConfiguration, match=r"'b' cannot make the embedding provider 'b-1' \(TypeError"):
        found.open(settings("b-1"))
    with_points(monkeypatch, FakePoint("acme", "acme-large", lambda given: provider))
    assert found.open(settings("acme-large")) is not None


def test_two_plugins_with_one_id_are_told_apart(monkeypatch: pytest.MonkeyPatch, provider: Any) -> None:
    """Neither is chosen by chance; the built-in ones work all the same."""
    found = Registry()
    with_points(monkeypatch, FakePoint("a", "same", lambda given: provider), FakePoint("b", "same", None))
    with pytest.raises(errors.InvalidConfiguration, match="the plugin 'b' registers the embedding provider 'same'"):
        found.open(settings("same"))
    assert found.open(settings("static")) is not None


def test_retiring_drains_before_it_closes(provider: Any, gate: threading.Event) -> None:
    """A call under way ends with its answer; new ones are refused at once; then it is closed, and the id is free."""
    found = Registry()
    found.plugin("acme", ["acme-small"]).register("acme-small", lambda given: provider)
    opened = found.open(settings("acme-small"))
    assert isinstance(opened, Adapter)
    begun, told = threading.Event(), []

    def slow(text: str) -> list[float]:
        begun.set()
        gate.wait(LONG)
        assert provider.closes == 0
        return [1.0, 2.0, 3.0]

    provider.on_query = slow
    user = threading.Thread(target=lambda: told.append(opened.embed_query("a", LONG)))
    user.start()
    assert begun.wait(LONG)
    retired: list[bool] = []
    retiring = threading.Thread(target=lambda: retired.append(found.retire("acme", LONG)))
    retiring.start()
    while True:  # until it takes no more calls
        try:
            opened.embed_documents([], LONG)
        except errors.EmbeddingFailed as error:
            assert "'acme-small' was taken away" in error.message
            break
    assert provider.closes == 0
    gate.set()
    user.join(LONG)
    retiring.join(LONG)
    assert (told, retired, provider.closes) == ([[1.0, 2.0, 3.0]], [True], 1)
    assert found.ids() == list(BUILT_IN)
    with pytest.raises(errors.InvalidConfiguration, match="names no provider"):
        found.open(settings("acme-small"))
    found.plugin("acme", ["acme-small"]).register("acme-small", lambda given: provider)


def test_retiring_does_not_wait_for_ever(provider: Any, gate: threading.Event) -> None:
    """What hangs is closed over, and that is said; other plugins' providers are left alone."""
    found = Registry()
    found.plugin("acme", ["a"]).register("a", lambda given: provider)
    found.plugin("other", ["b"]).register("b", lambda given: provider)
    opened, other = found.open(settings("a")), found.open(settings("b"))
    assert opened is not None and other is not None
    begun = threading.Event()

    def hang(text: str) -> list[float]:
        begun.set()
        gate.wait(LONG)
        return []

    provider.on_query = hang
    user = threading.Thread(target=lambda: opened.embed_query("a", LONG))
    user.start()
    assert begun.wait(LONG)
    assert found.retire("acme", 0.0) is False
    assert provider.closes == 1
    assert len(other.embed_documents(["x"], LONG)) == 1
    gate.set()
    user.join(LONG)


def test_an_adapter_closes_once(provider: Any) -> None:
    """By its user or by retiring it, whichever comes first."""
    adapter = Adapter("a", "acme", provider)
    adapter.close()
    adapter.close()
    assert adapter.drain(0.0)
    assert provider.closes == 1
    with pytest.raises(errors.EmbeddingFailed):
        adapter.load(LONG)
