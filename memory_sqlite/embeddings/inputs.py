"""Texts as a provider may have them: cut, in batches, in halves when it refuses them. Pure; called by ``service``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from memory_sqlite import errors
from memory_sqlite.embeddings.protocol import InputLimits, InputRefused
from memory_sqlite.limits import EMBEDDING_REFUSED_CHARS, EMBEDDING_REFUSED_MAX
from memory_sqlite.text.units import valid_unicode

Ask = Callable[[Sequence[str]], list[bytes | None]]


def prepared(text: str, limits: InputLimits) -> str:
    """Valid Unicode without zero characters, within the limit of one text; empty when there is nothing but spaces."""
    return valid_unicode(text[: limits.text_chars]).replace("\0", " ").strip()


def batches(texts: Sequence[str], limits: InputLimits) -> Iterator[tuple[list[int], list[str]]]:
    """The texts that have words, prepared, in batches within the limits: their places and themselves."""
    places: list[int] = []
    batch: list[str] = []
    size = 0
    for place, text in enumerate(texts):
        ready = prepared(text, limits)
        if not ready:
            continue
        if batch and (len(batch) >= limits.batch_texts or size + len(ready) > limits.batch_chars):
            yield places, batch
            places, batch, size = [], [], 0
        places.append(place)
        batch.append(ready)
        size += len(ready)
    if batch:
        yield places, batch


def embed_in_halves(ask: Ask, batch: Sequence[str]) -> list[bytes | None]:
    """Ask for a batch; if it is refused, for its halves, down to single texts, and for those once more cut short.

    ``None`` for a text that is refused whatever is done. Raises what ``ask`` raises, and ``EmbeddingFailed`` when all
    of ``EMBEDDING_REFUSED_MAX`` texts or more are refused: that is no matter of the texts.
    """
    answer = _halved(ask, batch)
    if len(batch) >= EMBEDDING_REFUSED_MAX and not any(answer):
        raise errors.EmbeddingFailed("the embedding provider refuses every text it is given")
    return answer


def _halved(ask: Ask, batch: Sequence[str]) -> list[bytes | None]:
    try:
        return ask(batch)
    except InputRefused:
        if len(batch) > 1:
            middle = len(batch) // 2
            return _halved(ask, batch[:middle]) + _halved(ask, batch[middle:])
    if len(batch[0]) <= EMBEDDING_REFUSED_CHARS:
        return [None]
    try:
        return ask([batch[0][:EMBEDDING_REFUSED_CHARS]])
    except InputRefused:
        return [None]
