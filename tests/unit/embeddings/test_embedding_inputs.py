"""Texts for a provider: prepared, in batches, in halves."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from memory_sqlite import errors
from memory_sqlite.embeddings.inputs import batches, embed_in_halves, prepared
from memory_sqlite.embeddings.protocol import InputLimits, InputRefused
from memory_sqlite.limits import EMBEDDING_REFUSED_CHARS, EMBEDDING_REFUSED_MAX

LIMITS = InputLimits(text_chars=10, batch_texts=3, batch_chars=20)


def test_texts_are_cut_and_made_valid() -> None:
    """Lone surrogates and zero characters go; what is blank is nothing."""
    assert prepared("a\0b\ud800c", LIMITS) == "a b\ufffdc"
    assert prepared("0123456789abc", LIMITS) == "0123456789"
    assert prepared(" \n\t\0", LIMITS) == ""


def test_batches_keep_the_limits_and_the_places() -> None:
    """By number and by characters; blank texts are in none; one long text is a batch of its own."""
    texts = ["a", "", "b", "c", "d", "0123456789", "0123456789", "e", "  "]
    found = list(batches(texts, LIMITS))
    assert found == [
        ([0, 2, 3], ["a", "b", "c"]),
        ([4, 5], ["d", "0123456789"]),
        ([6, 7], ["0123456789", "e"]),
    ]
    assert list(batches([], LIMITS)) == list(batches(["", " "], LIMITS)) == []


def vector(text: str) -> bytes:
    return text.encode()


def test_a_refused_batch_is_halved_down_to_the_text_at_fault() -> None:
    """The others get their vectors, in their places; only the halves that hold it are asked again."""
    asked: list[list[str]] = []

    def ask(batch: Sequence[str]) -> list[bytes | None]:
        asked.append(list(batch))
        if "bad" in batch:
            raise InputRefused
        return [vector(text) for text in batch]

    assert embed_in_halves(ask, ["a", "b", "bad", "c"]) == [b"a", b"b", None, b"c"]
    assert asked == [["a", "b", "bad", "c"], ["a", "b"], ["bad", "c"], ["bad"], ["c"]]


def test_a_long_text_that_is_refused_is_tried_cut() -> None:
    """Some servers refuse what their model cannot hold, instead of cutting it."""

    def ask(batch: Sequence[str]) -> list[bytes | None]:
        if any(len(text) > EMBEDDING_REFUSED_CHARS for text in batch):
            raise InputRefused
        return [vector(text) for text in batch]

    long = "x" * (EMBEDDING_REFUSED_CHARS + 1)
    assert embed_in_halves(ask, [long, "a"]) == [vector(long[:EMBEDDING_REFUSED_CHARS]), b"a"]


def test_when_every_text_is_refused_it_is_not_the_texts() -> None:
    """A model that is not there answers so to everything: the batch fails instead of being filed as refused."""

    def ask(batch: Sequence[str]) -> list[bytes | None]:
        raise InputRefused

    assert embed_in_halves(ask, ["a"]) == [None]
    with pytest.raises(errors.EmbeddingFailed, match="refuses every text"):
        embed_in_halves(ask, ["a"] * EMBEDDING_REFUSED_MAX)


def test_a_failure_is_no_refusal() -> None:
    """A server that is down is not asked again in halves."""
    asked = []

    def ask(batch: Sequence[str]) -> list[bytes | None]:
        asked.append(batch)
        raise errors.EmbeddingFailed("down")

    with pytest.raises(errors.EmbeddingFailed, match="down"):
        embed_in_halves(ask, ["a", "b"])
    assert len(asked) == 1
