"""A model for tests that embeds by hashing, and filing with it into the current generation of a memory."""

from __future__ import annotations

import hashlib
import math
import threading
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_sqlite import Memory
from memory_sqlite.config import Settings
from memory_sqlite.embeddings.protocol import CostClass, EmbeddingIdentity, InputLimits, Weight
from memory_sqlite.embeddings.registry import REGISTRY
from memory_sqlite.indexing import vector_filing
from memory_sqlite.indexing.vector_filing import Filling
from memory_sqlite.paths import generation_file


def vector_of(text: str, dimensions: int) -> bytes:
    """A vector of length 1 that an equal text has again."""
    drawn = hashlib.shake_128(text.encode()).digest(dimensions)
    numbers = [byte - 127.5 for byte in drawn]
    length = math.sqrt(sum(number * number for number in numbers))
    return array("f", [number / length for number in numbers]).tobytes()


class HashModel:
    """Counts what it is asked; ``during`` runs while a batch is being embedded; texts with "refuse" get no vector."""

    def __init__(self, model: str = "one", dimensions: int = 4, bounds: InputLimits | None = None) -> None:
        self.identity = EmbeddingIdentity("hash", model, dimensions)
        self.bounds = bounds or InputLimits(1_600, 8, 10_000)
        self.asked: list[list[str]] = []
        self.during: Callable[[], object] | None = None

    @property
    def texts(self) -> list[str]:
        return [text for batch in self.asked for text in batch]

    def embed(self, texts: Sequence[str]) -> list[bytes | None]:
        self.asked.append(list(texts))
        if self.during is not None:
            self.during()
        return [None if "refuse" in text else vector_of(text, self.identity.dimensions) for text in texts]


class Filer:
    """Files the vectors of a memory's current generation with a model, over a connection of its own each time."""

    def __init__(self, memory: Memory) -> None:
        assert memory._opened is not None
        self.opened = memory._opened

    def index(self) -> apsw.Connection:
        number = self.opened.keeper.number()
        assert number is not None
        return vector_filing.open_for_filing(generation_file(self.opened.store.directory, number))

    def fill(self, model: HashModel, filling: Filling | None = None, **more: Any) -> tuple[bool, Filling]:
        filling = filling if filling is not None else Filling()
        index = self.index()
        try:
            space = vector_filing.open_space(index, model.identity, Weight(), "free")
            more = {"stopped": lambda: False, **more}
            return vector_filing.fill(index, space, model.bounds, model.embed, filling, **more), filling
        finally:
            index.close()

    def rows(self, statement: str, *bindings: Any) -> list[tuple[Any, ...]]:
        index = self.index()
        try:
            return index.execute(statement, bindings).fetchall()
        finally:
            index.close()

    def filed(self) -> dict[str, bytes]:
        """Text of each chunk that has a vector, and the vector."""
        return {
            str(text): bytes(vector)
            for text, vector in self.rows("SELECT c.text, v.vector FROM vectors v JOIN chunks c ON c.id = v.chunk_id")
        }

    def spaces(self) -> list[tuple[str, str, int]]:
        """Model, state and number of vectors of each space."""
        return self.rows(
            "SELECT s.identity ->> 'model', s.state, (SELECT count(*) FROM vectors v WHERE v.space_id = s.id)"
            " FROM vector_spaces s ORDER BY s.id"
        )  # type: ignore[return-value]


@pytest.fixture
def filer(memory: Memory) -> Filer:
    """Filing into the memory of the fixture ``memory``."""
    return Filer(memory)


@pytest.fixture
def hash_model() -> type[HashModel]:
    """The class of the model."""
    return HashModel


class HashProvider:
    """``HashModel`` as an embedding provider. ``before`` runs at the start of each batch, in the thread that embeds."""

    def __init__(self, model: HashModel, cost: CostClass = "free") -> None:
        self.model = model
        self.identity = model.identity
        self.limits = model.bounds
        self.cost: CostClass = cost
        self.weight = Weight()
        self.before: Callable[[], object] | None = None
        self.loaded = 0
        self.closed = threading.Event()

    def load(self, timeout_s: float) -> None:
        self.loaded += 1

    def embed_query(self, text: str, timeout_s: float) -> list[float]:
        return list(array("f", vector_of(text, self.identity.dimensions)))

    def embed_documents(self, texts: Sequence[str], timeout_s: float) -> list[list[float]]:
        if self.before is not None:
            self.before()
        nothing = [0.0] * self.identity.dimensions
        return [nothing if one is None else list(array("f", one)) for one in self.model.embed(texts)]

    def close(self) -> None:
        self.closed.set()


class Plugin:
    """The embedding provider ``hash`` of the settings: whatever ``provider`` is when a memory first needs it."""

    def __init__(self) -> None:
        self.provider = HashProvider(HashModel())
        self.opened = 0

    def use(self, model: HashModel, cost: CostClass = "free") -> HashProvider:
        self.provider = HashProvider(model, cost)
        return self.provider

    def make(self, settings: Settings) -> HashProvider:
        self.opened += 1
        return self.provider


@pytest.fixture
def plugin() -> Iterator[Plugin]:
    """A plugin with the provider ``hash``, for as long as the test runs."""
    made = Plugin()
    REGISTRY.plugin("tests", ["hash"]).register("hash", made.make)
    yield made
    REGISTRY.retire("tests", 0)


@pytest.fixture
def opening(tmp_path: Path, workspace: Path) -> Callable[..., Memory]:
    """Opens the same agent again and again, with the provider ``hash``."""

    def open_memory(**more: Any) -> Memory:
        provider = more.pop("provider", "hash")
        settings = Settings(data_dir=tmp_path / "data", workspace=workspace, embedding_provider=provider)
        return Memory.open(settings=settings, **more)

    return open_memory
