"""Which class runs a model, and the proof that its files are those that were vetted. Called by the embedding worker."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from memory_sqlite import errors

if TYPE_CHECKING:
    from memory_sqlite.embeddings.models.tensors import Array

_THREADS: Final = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")


class Model(Protocol):
    """A model that is loaded. Not thread-safe."""

    def vectors(self, texts: Sequence[str], query: bool) -> Array:
        """One row for each text, of length 1 or all zeros."""
        ...


def leave_cores() -> None:
    """Let products of matrices take half the cores, so that a search has the others. Works before NumPy is loaded."""
    for name in _THREADS:
        os.environ.setdefault(name, str(max(1, (os.cpu_count() or 1) // 2)))


def load(kind: str, directory: Path, files: Mapping[str, str]) -> Model:
    """The model in a directory, whose files have these digests (SHA-256).

    Raises ``ExtraMissing`` and ``EmbeddingFailed`` with sentences for people.
    """
    try:
        for name, digest in files.items():
            with (directory / name).open("rb") as stream:
                if file_digest(stream, "sha256").hexdigest() != digest:
                    raise errors.EmbeddingFailed(
                        "the files of the embedding model are not those that this version knows",
                        hint="Install the version of its package that docs/embeddings.md names.",
                    )
        return _made(kind, directory)
    except ModuleNotFoundError as error:
        raise errors.ExtraMissing(f"the embedding model needs the package {error.name}, which is not there") from None
    except ImportError:  # NumPy, on a machine that its binaries are not for, names nothing
        raise errors.ExtraMissing("the embedding model needs a package that is there and cannot be loaded") from None
    except OSError as error:
        raise errors.EmbeddingFailed(f"the embedding model cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, IndexError, struct.error):
        raise errors.EmbeddingFailed("the files of the embedding model are damaged") from None


def _made(kind: str, directory: Path) -> Model:
    if kind == "word_llama":
        from memory_sqlite.embeddings.models.word_llama import WordLlama

        return WordLlama(directory)
    if kind == "minilm":
        from memory_sqlite.embeddings.models.minilm import MiniLm

        return MiniLm(directory)
    from memory_sqlite.embeddings.models.e5 import E5

    return E5(directory)
