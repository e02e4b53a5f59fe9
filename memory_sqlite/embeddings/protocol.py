"""What an embedding provider is: the protocol that built-in ones and plugins implement, and the values it speaks in.

Not here: choosing one (``registry``), checking what it returns (``checked``), when it is asked (``service``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from memory_sqlite.values import dataclass

CostClass = Literal["free", "paid"]
"""``paid``: texts go to somebody who may charge for them; nothing is embedded again without being asked to."""

Vectors = Sequence[Sequence[float]]
"""One vector a text, in the order of the texts; a NumPy matrix will do."""


@dataclass(frozen=True, slots=True)
class EmbeddingIdentity:
    """What makes two vectors comparable. Vectors of different identities are never compared.

    ``revision`` is a digest or version of the weights, prefixes and pooling, as far as the provider knows it.
    """

    provider: str
    model: str
    dimensions: int
    revision: str = ""

    def json(self) -> dict[str, Any]:
        """As JSON, keys in a fixed order."""
        return {
            "provider": self.provider,
            "model": self.model,
            "dimensions": self.dimensions,
            "revision": self.revision,
        }


@dataclass(frozen=True, slots=True)
class InputLimits:
    """What a provider takes at once: characters of one text (longer ones are cut by the caller), texts and characters
    of one batch."""

    text_chars: int
    batch_texts: int
    batch_chars: int


@dataclass(frozen=True, slots=True)
class Weight:
    """How much meaning counts beside words in the fused score, and where a cosine begins and ends to say something.

    ``latin``, ``cjk`` and ``other`` are weights by the script of the query, 0 for scripts that the model does not know;
    ``messages`` is how many times that counts for messages: less than once where their words and windows say more than
    their vectors do, more where the vectors of what stands around them say it;
    ``low`` and ``high`` are the cosines that count as 0 and as 1; from ``floor`` on a text that holds no word of the
    query can be an answer. They belong to the model and are measured (``docs/decisions``); an unknown model gets the
    careful default.
    """

    latin: float = 0.1
    cjk: float = 0.1
    other: float = 0.0
    messages: float = 1.0
    low: float = 0.2
    high: float = 0.9
    floor: float = 0.6


class InputRefused(ValueError):
    """What ``embed_…`` raises for texts that the model will never take (too long, not allowed), not for a failure.

    A refused batch is asked again in halves, down to single texts; a text that is refused alone gets no vector. It
    never leaves ``service``. It carries no text.
    """


class Provider(Protocol):
    """A source of vectors.

    ``embed_query`` is called by one thread at a time and so is ``embed_documents``, but a question may come while a
    batch is under way; ``close`` may come from another thread at any moment. Constructing one is cheap and touches
    neither network nor model: ``load`` does. Texts come as valid Unicode, not empty, within ``limits``. Any exception
    out of a call costs the vector leg and nothing else; ``errors.EmbeddingFailed`` and ``errors.ExtraMissing`` carry a
    sentence for people, without text and without key; of any other exception only its name is shown.
    """

    @property
    def identity(self) -> EmbeddingIdentity:
        """Known after ``load``; constant from then on."""
        ...

    @property
    def limits(self) -> InputLimits: ...

    @property
    def cost(self) -> CostClass: ...

    @property
    def weight(self) -> Weight: ...

    def load(self, timeout_s: float) -> None:
        """Do what takes long before the first vector: read weights, ask the server for its dimensions."""
        ...

    def embed_query(self, text: str, timeout_s: float) -> Sequence[float]:
        """The vector of a question, with the model's prefix for questions."""
        ...

    def embed_documents(self, texts: Sequence[str], timeout_s: float) -> Vectors:
        """The vectors of what is to be found, with the model's prefix for passages."""
        ...

    def close(self) -> None: ...
