"""The kit for third parties finds what it is there to find, and a plugin of a few lines passes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from memory_sqlite import errors
from memory_sqlite.embeddings.conformance import check
from memory_sqlite.embeddings.protocol import EmbeddingIdentity, InputLimits, InputRefused, Weight

LONG = 30.0


def well(provider: Any) -> Any:
    """One that conforms; the fixture's own does until the kit closes it."""
    provider.limits = InputLimits(text_chars=2_000, batch_texts=32, batch_chars=32_000)
    provider.on_query = spread
    provider.on_batch = lambda texts: [spread(text) for text in texts]
    return provider


def spread(text: str) -> list[float]:
    """Texts of this kit point into clearly different directions."""
    angle = sum(ord(letter) * (place + 1) for place, letter in enumerate(text)) % 360
    return [math.cos(math.radians(angle)), math.sin(math.radians(angle)), 0.1]


def test_one_that_conforms_has_no_problems(provider: Any) -> None:
    """It is loaded once, asked, and closed twice."""
    assert check(well(provider), timeout_s=LONG) == []
    assert (provider.loads, provider.closes) == (1, 2)


def raised(error: Exception) -> Callable[..., Any]:
    def call(*_: Any) -> Any:
        raise error

    return call


def first_only(texts: Sequence[str]) -> list[list[float]]:
    return [spread(texts[0]) for _ in texts]


def place_dependent(texts: Sequence[str]) -> list[list[float]]:
    return [spread(str(place)) for place, _ in enumerate(texts)]


def long_refused(texts: Sequence[str]) -> list[list[float]]:
    if any(len(text) > 1_000 for text in texts):
        raise InputRefused
    return [spread(text) for text in texts]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("cost", "cheap", "the cost is neither free nor paid"),
        ("limits", InputLimits(0, 1, 1), "each limit must be at least 1"),
        ("limits", None, "each limit must be at least 1"),
        ("weight", Weight(latin=2.0), "each weight must be between 0 and 1"),
        ("weight", Weight(low=0.9, high=0.2), "the weight's low must be below its high"),
        ("identity", EmbeddingIdentity("", "m", 3), "must name provider and model"),
        ("identity", EmbeddingIdentity("p", "m", 0), "dimensions must be known"),
        ("identity", EmbeddingIdentity("p", "m", 4), "3 dimensions instead of 4"),
        ("on_load", raised(OSError("secret")), "load: raised OSError"),
        ("on_load", raised(errors.EmbeddingFailed("no such model")), "load: no such model"),
        ("on_query", lambda text: [0.0, 0.0, 0.0], "text 0 got a vector that points nowhere"),
        ("on_query", lambda text: [1.0], "1 dimensions instead of 3"),
        ("on_query", raised(ValueError("secret")), "embed_query: raised ValueError"),
        ("on_batch", first_only, "text 0 got another vector when the batch was turned round"),
        ("on_batch", place_dependent, "another vector when the batch was turned round"),
        ("on_batch", lambda texts: [spread(text) for text in texts[:2]], "2 vectors for 5 texts"),
        ("on_batch", long_refused, "the longest text that the limits allow was refused"),
        ("close", raised(OSError("secret")), "close: raised OSError"),
    ],
)
def test_each_fault_is_found(provider: Any, name: str, value: Any, said: str) -> None:
    """In a sentence, without what an exception says."""
    setattr(well(provider), name, value)
    problems = check(provider, timeout_s=LONG)
    assert any(said in problem for problem in problems), problems
    assert "secret" not in " ".join(problems)


def test_questions_that_change_are_found(provider: Any) -> None:
    """The same question twice gives two vectors."""
    count = iter(range(1_000))
    well(provider).on_query = lambda text: spread(chr(1 + 50 * next(count)))
    assert "embed_query: the same question got two vectors" in check(provider, timeout_s=LONG)


def test_answers_that_mix_are_found(provider: Any) -> None:
    """A provider that keeps its text in one place for two threads: here it is shown by what a batch leaves behind."""
    left: list[str] = []

    def batch(texts: Sequence[str]) -> list[list[float]]:
        left[:] = [texts[0]]
        return [spread(text) for text in texts]

    well(provider).on_batch = batch
    provider.on_query = lambda text: spread(left[0] + str(len(provider.batches)) if left else text)
    problems = check(provider, timeout_s=LONG)
    assert "a question beside a batch: another vector than alone" in problems


def test_an_identity_that_changes_is_found(provider: Any) -> None:
    """Vectors of two identities are never compared: it is constant after ``load``."""

    def batch(texts: Sequence[str]) -> list[list[float]]:
        provider.identity = EmbeddingIdentity("scripted", "other", 3)
        return [spread(text) for text in texts]

    well(provider).on_batch = batch
    assert "identity: it changed after load" in check(provider, timeout_s=LONG)
