"""A provider that does what a test tells it, and a clock that stands still."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite.embeddings.protocol import CostClass, EmbeddingIdentity, InputLimits, Weight
from memory_sqlite.embeddings.service import EmbeddingService

sys.path.insert(0, str(Path(__file__).parent))  # for tiny_models


class StillClock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class ScriptedProvider:
    """Three dimensions: how long a text is, how many vowels it has, and one. Each call can be replaced."""

    cost: CostClass = "free"

    def __init__(self) -> None:
        self.identity = EmbeddingIdentity("scripted", "model", 3, "1")
        self.limits = InputLimits(text_chars=5_000, batch_texts=4, batch_chars=20_000)
        self.weight = Weight()
        self.batches: list[list[str]] = []
        self.questions: list[str] = []
        self.loads = 0
        self.closes = 0
        self.on_load: Callable[[], None] = lambda: None
        self.on_query: Callable[[str], Any] = self.vector
        self.on_batch: Callable[[Sequence[str]], Any] = lambda texts: [self.vector(text) for text in texts]

    @staticmethod
    def vector(text: str) -> list[float]:
        return [float(len(text)), float(sum(text.count(vowel) for vowel in "aeiou")), 1.0]

    def load(self, timeout_s: float) -> None:
        self.loads += 1
        self.on_load()

    def embed_query(self, text: str, timeout_s: float) -> Sequence[float]:
        self.questions.append(text)
        answer: Sequence[float] = self.on_query(text)
        return answer

    def embed_documents(self, texts: Sequence[str], timeout_s: float) -> Sequence[Sequence[float]]:
        self.batches.append(list(texts))
        answer: Sequence[Sequence[float]] = self.on_batch(texts)
        return answer

    def close(self) -> None:
        self.closes += 1


@pytest.fixture
def provider() -> ScriptedProvider:
    return ScriptedProvider()


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def service(provider: ScriptedProvider, clock: StillClock) -> Iterator[EmbeddingService]:
    """A service over the scripted provider, loaded."""
    made = EmbeddingService(provider, batch_timeout_s=60, clock=clock)
    yield made
    made.close()


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """An event that a call can hang on; set when the test is over, so that no thread is left behind."""
    event = threading.Event()
    yield event
    event.set()
