"""The embedding provider as everybody else knows it: never late, never raising where a search waits, easily closed.

Loads the provider in a thread of its own; asks it in two others, one for questions and one for documents, so that a
batch never delays a question and a call that hangs holds nobody; leaves it alone for a while after a failure; checks
and normalises what it returns; cuts and halves what it refuses. Not here: which provider (``registry``), what is
embedded and where vectors go (``indexing.vector_filing``), what a search makes of them.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, Final, Literal

from memory_sqlite import errors
from memory_sqlite.embeddings import checked
from memory_sqlite.embeddings.breaker import Breaker
from memory_sqlite.embeddings.inputs import batches, embed_in_halves, prepared
from memory_sqlite.embeddings.lane import Lane
from memory_sqlite.embeddings.protocol import EmbeddingIdentity, InputRefused, Provider
from memory_sqlite.generations.vector_rows import identity_text
from memory_sqlite.limits import EMBEDDING_BATCH_TIMEOUT_MS, EMBEDDING_QUERIES_KEPT
from memory_sqlite.search.vectors.query_vector import QueryVector
from memory_sqlite.values import dataclass

OFF: Final = "no embedding provider is configured"
LOADING: Final = "the embedding model is still loading, or its server does not answer"
CLOSED: Final = "the embedding provider was closed"
State = Literal["off", "loading", "ready", "failed", "closed"]


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Why there is no vector for a question: a short sentence for people, without text and without key."""

    reason: str


class EmbeddingService:
    """One provider in use. Thread-safe; nothing is loaded and no thread started before it is asked, or ``start``."""

    def __init__(
        self,
        provider: Provider | None,
        *,
        batch_timeout_s: float = EMBEDDING_BATCH_TIMEOUT_MS[2] / 1000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``provider`` of ``None``: everything is answered with ``OFF``. The provider is this service's to close."""
        self._provider = provider
        self._batch_timeout_s = batch_timeout_s
        self._lock = threading.Lock()
        self._loaded = threading.Event()
        """Set when a load ended, however; cleared when the next one begins."""
        self._state: State = "off" if provider is None else "loading"
        self._started = False
        self._identity: EmbeddingIdentity | None = None
        self._load_breaker, self._query_breaker, self._batch_breaker = (Breaker(clock) for _ in range(3))
        self._queries, self._documents = Lane("embedding questions"), Lane("embedding documents")
        self._recent: OrderedDict[bytes, QueryVector] = OrderedDict()
        self._counts = {"queries": 0, "texts": 0, "refused": 0}

    # --- loading -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to load, if that has not begun, or has failed and its time has come again. Returns at once."""
        with self._lock:
            if self._provider is None or self._state in ("ready", "closed"):
                return
            if self._started and (self._state != "failed" or self._load_breaker.open()):
                return
            self._started, self._state = True, "loading"
            self._loaded.clear()
            threading.Thread(target=self._load, name="memory-sqlite embedding load", daemon=True).start()

    def _load(self) -> None:
        provider = self._provider
        assert provider is not None, "without a provider nothing is started"
        reason: str | None = None
        try:
            provider.load(self._batch_timeout_s)
            identity = provider.identity
            if identity.dimensions < 1:
                raise errors.EmbeddingFailed("the embedding provider does not know how many dimensions it has")
        except BaseException as error:
            reason = _said(error)
        with self._lock:
            if self._state != "closed":
                if reason is None:
                    self._identity, self._state = identity, "ready"
                    self._load_breaker.succeeded()
                else:
                    self._state = "failed"
                    self._load_breaker.failed(reason)
            self._loaded.set()

    def identity(self, wait_s: float = 0.0) -> EmbeddingIdentity | None:
        """The identity of what it makes, once it is loaded; waits for that at most ``wait_s``."""
        self._ready(wait_s)
        return self._identity

    def _ready(self, wait_s: float) -> str | None:
        """Why it cannot be asked now; ``None`` when it can."""
        self.start()
        if wait_s > 0 and self._state == "loading":
            self._loaded.wait(wait_s)
        with self._lock:
            if self._state == "ready":
                return None
            if self._state == "failed":
                return self._load_breaker.reason
            return {"off": OFF, "closed": CLOSED}.get(self._state, LOADING)

    # --- a question ----------------------------------------------------------------------------------------------

    def query_vector(self, text: str, timeout_s: float, *, load_s: float = 0.0) -> QueryVector | Unavailable:
        """The vector of a question, or why there is none; never raises and takes at most ``load_s + timeout_s``.

        ``load_s`` is how long to wait for a model that is still loading: a search that has other work waits not at all.
        """
        why_not = self._ready(load_s)
        if why_not is not None:
            return Unavailable(why_not)
        provider, identity = self._provider, self._identity
        assert provider is not None and identity is not None, "it is ready"
        text = prepared(text, provider.limits)
        if not text:
            return Unavailable("the question has no words")
        key = blake2b(text.encode("utf-8"), digest_size=16).digest()
        with self._lock:
            known = self._recent.get(key)
            if known is not None:
                self._recent.move_to_end(key)
                return known
            if self._query_breaker.open() and self._query_breaker.reason is not None:
                return Unavailable(self._query_breaker.reason)
        if self._queries.stuck():
            return Unavailable("the embedding provider has not answered an earlier question yet")
        job = self._queries.submit(lambda: provider.embed_query(text, timeout_s))
        outcome = self._queries.wait(job, timeout_s)
        if outcome == "queued":
            return Unavailable(f"the embedding provider was busy with other questions for {_seconds(timeout_s)}")
        try:
            if outcome == "running":
                raise errors.EmbeddingFailed(f"the embedding provider did not answer in {_seconds(timeout_s)}")
            vector = checked.vector(job.result(), identity.dimensions)
        except InputRefused:
            return Unavailable("the embedding provider refused the question")
        except Exception as error:
            return Unavailable(self._failed(self._query_breaker, error))
        with self._lock:
            self._query_breaker.succeeded()
            self._counts["queries"] += 1
            if vector is None:
                return Unavailable("the embedding provider found no meaning in the question")
            answer = _query_vector(identity, provider, vector)
            self._recent[key] = answer
            while len(self._recent) > EMBEDDING_QUERIES_KEPT:
                self._recent.popitem(last=False)
        return answer

    # --- documents -----------------------------------------------------------------------------------------------

    def embed(self, texts: Sequence[str]) -> list[bytes | None]:
        """Vectors of what is to be found, in order; ``None`` for a text without words and one that is refused.

        Waits for the model, then for each batch, at most ``batch_timeout_s`` each. Raises ``EmbeddingFailed`` when the
        provider is down, slow or answers with what are no vectors.
        """
        why_not = self._ready(self._batch_timeout_s)
        if why_not is None and self._batch_breaker.open():
            why_not = self._batch_breaker.reason
        if why_not is not None:
            raise errors.EmbeddingFailed(why_not)
        provider, identity = self._provider, self._identity
        assert provider is not None and identity is not None, "it is ready"

        def ask(batch: Sequence[str]) -> list[bytes | None]:
            if self._documents.stuck():
                raise errors.EmbeddingFailed("the embedding provider has not answered an earlier batch yet")
            job = self._documents.submit(lambda: provider.embed_documents(batch, self._batch_timeout_s))
            if self._documents.wait(job, self._batch_timeout_s) != "done":
                raise errors.EmbeddingFailed(
                    f"the embedding provider did not answer in {_seconds(self._batch_timeout_s)}"
                )
            return checked.vectors(job.result(), len(batch), identity.dimensions)

        found: list[bytes | None] = [None] * len(texts)
        for places, batch in batches(texts, provider.limits):
            try:
                answer = embed_in_halves(ask, batch)
            except Exception as error:
                raise errors.EmbeddingFailed(self._failed(self._batch_breaker, error)) from None
            for place, vector in zip(places, answer, strict=True):
                found[place] = vector
            with self._lock:
                self._batch_breaker.succeeded()
                self._counts["texts"] += len(batch)
                self._counts["refused"] += answer.count(None)
        return found

    # --- about it ------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """For ``status``: which model, whether it works, what failed last, what was asked of it."""
        with self._lock:
            said: dict[str, Any] = {"state": self._state}
            if self._provider is None:
                return said
            if self._identity is not None:
                said |= self._identity.json()
            reasons = (self._load_breaker.reason, self._query_breaker.reason, self._batch_breaker.reason)
            error = next((reason for reason in reasons if reason is not None), None)
            return {**said, "cost": self._provider.cost, "error": error, **self._counts}

    def close(self) -> None:
        """Close the provider; who waits for it is answered. Safe twice."""
        with self._lock:
            if self._state in ("off", "closed"):
                return
            self._state = "closed"
            self._loaded.set()
            self._recent.clear()
        self._queries.close()
        self._documents.close()
        if self._provider is not None:
            try:
                self._provider.close()
            except Exception:
                pass  # a plugin's; it is gone for us either way

    def _failed(self, breaker: Breaker, error: BaseException) -> str:
        with self._lock:
            if self._state == "closed":
                return CLOSED
            reason = _said(error)
            breaker.failed(reason)
            return reason


def _said(error: BaseException) -> str:
    """What to tell of an error: what was meant for people, else its name alone, because a message may hold text."""
    if isinstance(error, errors.MemorySqliteError):
        return error.message
    return f"the embedding provider failed ({type(error).__name__})"


def _seconds(seconds: float) -> str:
    return f"{round(seconds, 2):g} s"


def _query_vector(identity: EmbeddingIdentity, provider: Provider, vector: bytes) -> QueryVector:
    weight = provider.weight
    return QueryVector(
        identity_text(identity.json()),
        vector,
        latin=weight.latin,
        cjk=weight.cjk,
        other=weight.other,
        messages=weight.messages,
        low=weight.low,
        high=weight.high,
        floor=weight.floor,
    )
