"""A BERT encoder with NumPy alone: token numbers in, one vector of length 1 for each text out.

The forward pass is that of Devlin et al., "BERT" (2018): embeddings of word, place and segment; in every layer
attention and two dense steps with the error-function GELU, each added to what was there and normalised (post-norm).
Texts become vectors by the mean over their tokens. Long texts are cut into windows of equal length, and their means
are weighed by length: the end of a long text counts too. Not here: tokens, where weights come from. Called by models.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from memory_sqlite.embeddings.models.tensors import Array
from memory_sqlite.values import dataclass

_BATCH_TOKENS: Final = 1_024
"""Tokens of one pass. Measured on two cores with 384 dimensions: larger passes are no faster and take more memory."""
_GELU_ROWS: Final = 64
"""Rows at a time through the activation, so that they stay in the processor's cache."""


@dataclass(frozen=True, slots=True)
class Layer:
    """Weights of one layer; matrices are (in, out)."""

    qkv: Array
    qkv_bias: Array
    out: Array
    out_bias: Array
    attention_scale: Array
    attention_shift: Array
    up: Array
    up_bias: Array
    down: Array
    down_bias: Array
    output_scale: Array
    output_shift: Array


@dataclass(frozen=True, slots=True)
class Shape:
    """What the numbers of a model do not say themselves. ``window`` is tokens, marks included."""

    heads: int
    epsilon: float
    window: int
    first: int
    last: int


class Words:
    """The embeddings of words; a model that keeps them packed has another one."""

    def __init__(self, table: Array) -> None:
        self._table = table

    def rows(self, ids: Sequence[int]) -> Array:
        """One row for each number."""
        rows: Array = self._table[np.asarray(ids, np.int64)]
        return rows


class Encoder:
    """A model ready to encode. Not thread-safe."""

    def __init__(
        self, words: Words, places: Array, scale: Array, shift: Array, layers: Sequence[Layer], shape: Shape
    ) -> None:
        """``places`` has the embedding of each place with that of the one segment already added."""
        self._words = words
        self._places = places
        self._scale = scale
        self._shift = shift
        self._layers = layers
        self._shape = shape

    def vectors(self, texts: Sequence[Sequence[int]]) -> Array:
        """One vector for each text, given as numbers of tokens without marks; a text without tokens gives zeros."""
        sums = np.zeros((len(texts), self._places.shape[1]), np.float32)
        windows = [(index, window) for index, ids in enumerate(texts) for window in self._windows(ids)]
        windows.sort(key=lambda one: len(one[1]))
        for batch in _batches(windows):
            means = self._means([ids for _, ids in batch])
            for (index, ids), mean in zip(batch, means, strict=True):
                sums[index] += mean * (len(ids) - 2)
        return normalised(sums)

    def _windows(self, ids: Sequence[int]) -> Iterator[list[int]]:
        shape = self._shape
        count = math.ceil(len(ids) / (shape.window - 2))
        for number in range(count):
            part = ids[len(ids) * number // count : len(ids) * (number + 1) // count]
            yield [shape.first, *part, shape.last]

    def _means(self, batch: Sequence[Sequence[int]]) -> Array:
        """The mean over the tokens of each of these windows."""
        longest = max(map(len, batch))
        mask = np.zeros((len(batch), longest), bool)
        padded = np.zeros((len(batch), longest), np.int64)
        for row, ids in enumerate(batch):
            mask[row, : len(ids)] = True
            padded[row, : len(ids)] = ids
        words = self._words.rows(padded.ravel().tolist()).reshape(*padded.shape, -1)
        hidden: Array = (words + self._places[:longest]).reshape(padded.size, -1)
        _normalise(hidden, self._scale, self._shift, self._shape.epsilon)
        penalty = None if mask.all() else np.where(mask, 0, -1e9).astype(np.float32)[:, None, None, :]
        for layer in self._layers:
            hidden = self._through(layer, hidden, padded.shape, penalty)
        kept = mask[:, :, None].astype(np.float32)
        means: Array = (hidden.reshape(*padded.shape, -1) * kept).sum(1) / kept.sum(1)
        return means

    def _through(self, layer: Layer, hidden: Array, size: tuple[int, ...], mask: Array | None) -> Array:
        texts, length = size
        heads = self._shape.heads
        width = hidden.shape[1] // heads
        projected = hidden @ layer.qkv
        projected += layer.qkv_bias
        query, key, value = projected.reshape(texts, length, 3, heads, width).transpose(2, 0, 3, 1, 4)
        scores = query @ key.transpose(0, 1, 3, 2)
        scores *= np.float32(1 / math.sqrt(width))
        if mask is not None:
            scores += mask
        scores -= scores.max(-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(-1, keepdims=True)
        context = (scores @ value).transpose(0, 2, 1, 3).reshape(texts * length, heads * width)
        attended = context @ layer.out
        attended += layer.out_bias
        attended += hidden
        _normalise(attended, layer.attention_scale, layer.attention_shift, self._shape.epsilon)
        inner = attended @ layer.up
        inner += layer.up_bias
        for start in range(0, len(inner), _GELU_ROWS):
            _gelu(inner[start : start + _GELU_ROWS])
        outer: Array = inner @ layer.down
        outer += layer.down_bias
        outer += attended
        _normalise(outer, layer.output_scale, layer.output_shift, self._shape.epsilon)
        return outer


def _batches(windows: Sequence[tuple[int, list[int]]]) -> Iterator[list[tuple[int, list[int]]]]:
    """Windows of about one length together, so that little is padded. They come sorted by length."""
    batch: list[tuple[int, list[int]]] = []
    for window in windows:
        if batch and (len(batch) + 1) * len(window[1]) > _BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(window)
    if batch:
        yield batch


def normalised(rows: Array) -> Array:
    """Rows of length 1; rows of zeros stay what they are."""
    lengths = np.sqrt((rows * rows).sum(1, keepdims=True))
    lengths[lengths == 0] = 1
    rows /= lengths
    return rows


def _normalise(rows: Array, scale: Array, shift: Array, epsilon: float) -> None:
    """Layer normalisation, in place."""
    rows -= rows.mean(1, keepdims=True)
    rows /= np.sqrt((rows * rows).mean(1, keepdims=True) + np.float32(epsilon))
    rows *= scale
    rows += shift


def _gelu(rows: Array) -> None:
    """``x * Phi(x)``, in place. The error function is Abramowitz and Stegun, 7.1.26: wrong by 1.5e-7 at most."""
    half = rows * np.float32(math.sqrt(0.5))
    size = np.abs(half)
    part = 1 / (1 + np.float32(0.3275911) * size)
    series = np.float32(1.061405429) * part
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series += np.float32(coefficient)
        series *= part
    size *= size
    np.negative(size, out=size)
    np.exp(size, out=size)
    series *= size
    np.subtract(1, series, out=series)
    np.copysign(series, half, out=series)
    series += 1
    series *= np.float32(0.5)
    rows *= series


def stacked(parts: Mapping[str, Array], names: Sequence[str]) -> Array:
    """Several arrays side by side, as one product of matrices computes them at once."""
    return np.ascontiguousarray(np.concatenate([parts[name] for name in names], axis=-1))
