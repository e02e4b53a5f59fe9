"""The providers ``static`` and ``local``: a model on this machine, run by a worker process of its own.

The worker is one process for all models of this provider, started by the first request and sent away when idle. A batch
goes to it in small requests, one at a time, so that a question never waits for more than one of them. Nothing leaves
the machine and nothing is downloaded. Called by ``registry``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from memory_sqlite import errors
from memory_sqlite.embeddings import checked
from memory_sqlite.embeddings.catalogue import LocalModel
from memory_sqlite.embeddings.protocol import CostClass, EmbeddingIdentity, InputLimits, Weight
from memory_sqlite.limits import EMBEDDING_REQUEST_CHARS, EMBEDDING_WORKER_GRACE_S
from memory_sqlite.processes import checks
from memory_sqlite.processes.frames import WireError
from memory_sqlite.processes.pending import WorkerDefect
from memory_sqlite.processes.pool import Pool
from memory_sqlite.processes.slots import Bounds

WORKER: Final = "embedding"
_ANSWER: Final = {"count": checks.count, "dimensions": checks.count}


class LocalProvider:
    """One model of the catalogue. Thread-safe."""

    cost: CostClass = "free"

    def __init__(self, model: LocalModel, pool: Pool | None = None) -> None:
        """``pool`` is this provider's to close."""
        self._model = model
        self._pool = pool or Pool(WORKER, bounds=Bounds(workers=1))
        self._asked: dict[str, Any] | None = None

    @property
    def identity(self) -> EmbeddingIdentity:
        """Known from the catalogue."""
        return self._model.identity

    @property
    def limits(self) -> InputLimits:
        return self._model.limits

    @property
    def weight(self) -> Weight:
        return self._model.weight

    def load(self, timeout_s: float) -> None:
        """Have the worker load the model. Raises ``ExtraMissing``, ``EmbeddingFailed``."""
        directory = self._model.directory()
        self._asked = {"kind": self._model.kind, "directory": str(directory), "files": dict(self._model.files)}
        self._request("load", {"model": self._asked}, timeout_s, lambda body, blob: None)

    def embed_query(self, text: str, timeout_s: float) -> Sequence[float]:
        """The vector of a question. Raises ``EmbeddingFailed``."""
        return self._embed([text], True, timeout_s)[0]

    def embed_documents(self, texts: Sequence[str], timeout_s: float) -> Sequence[Sequence[float]]:
        """The vectors of passages. Raises ``EmbeddingFailed``."""
        found: list[Sequence[float]] = []
        for part in _parts(texts):
            found += self._embed(part, False, timeout_s)
        return found

    def close(self) -> None:
        """End the worker and wait until it is gone; who waits for it hears ``EmbeddingFailed``."""
        self._pool.close()

    def _embed(self, texts: list[str], query: bool, timeout_s: float) -> list[Sequence[float]]:
        dimensions = self._model.dimensions

        def check(body: dict[str, Any], blob: bytes) -> list[Sequence[float]]:
            said = checks.fields(body, _ANSWER)
            if (said["count"], said["dimensions"]) != (len(texts), dimensions) or len(blob) != 4 * len(
                texts
            ) * dimensions:
                raise WireError("other vectors than were asked for")
            numbers = checked.unpacked(blob)
            return [numbers[start : start + dimensions] for start in range(0, len(numbers), dimensions)]

        if self._asked is None:
            raise errors.EmbeddingFailed("the embedding model was not loaded")
        body = {"model": self._asked, "texts": texts, "query": query}
        found: list[Sequence[float]] = self._request(
            "embed", body, timeout_s, check, owner="query" if query else "batch"
        )
        return found

    def _request(self, kind: str, body: dict[str, Any], timeout_s: float, check: Any, owner: str = "") -> Any:
        deadline_s = timeout_s + EMBEDDING_WORKER_GRACE_S
        try:
            return self._pool.submit(kind, body, check, owner=owner, deadline_s=deadline_s).result()
        except (errors.WorkerLost, errors.Overloaded, WorkerDefect):
            raise errors.EmbeddingFailed("the process of the embedding model ended or failed") from None
        except (errors.Cancelled, errors.MemoryClosed):
            raise errors.EmbeddingFailed("the embedding model was stopped before it answered") from None


def _parts(texts: Sequence[str]) -> Iterator[list[str]]:
    """A batch in requests of a bounded size, at least one text each."""
    part: list[str] = []
    size = 0
    for text in texts:
        if part and size + len(text) > EMBEDDING_REQUEST_CHARS:
            yield part
            part, size = [], 0
        part.append(text)
        size += len(text)
    if part:
        yield part
