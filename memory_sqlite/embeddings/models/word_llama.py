"""A static model: a text is the mean of its tokens' vectors. Table and tokens come inside the package ``wordllama``.

Only its data files are read; its code is never imported (it would import an HTTP client, look in a cache outside the
package, download what it does not find, and set up logging). Tokens are cut by ``tokenizers``, which comes with it. MIT
(WordLlama, Miller 2024; the table is trained from Llama 2's token embeddings, 256 dimensions).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from memory_sqlite.embeddings.models import tensors
from memory_sqlite.embeddings.models.bert import normalised
from memory_sqlite.embeddings.models.tensors import Array


class WordLlama:
    """The table, loaded."""

    def __init__(self, directory: Path) -> None:
        """``directory`` is the package's. Raises ``ImportError``, ``OSError``, ``ValueError``."""
        from tokenizers import Tokenizer

        self._table: Array = tensors.read(directory / "weights" / "l2_supercat_256.safetensors")["embedding.weight"]
        self._tokens = Tokenizer.from_file(str(directory / "tokenizers" / "l2_supercat_tokenizer_config.json"))
        self._tokens.no_padding()
        self._tokens.no_truncation()

    def vectors(self, texts: Sequence[str], query: bool) -> Array:
        """One row of length 1 for each text, zeros for a text without a token."""
        del query
        rows = np.zeros((len(texts), self._table.shape[1]), np.float32)
        for row, encoded in zip(rows, self._tokens.encode_batch(list(texts), add_special_tokens=False), strict=True):
            if encoded.ids:
                row += self._table[np.asarray(encoded.ids, np.int64)].astype(np.float32).mean(0)
        return normalised(rows)
