"""The provider ``openai``: any server with OpenAI's ``/v1/embeddings``, near or far.

Asks again with growing pauses while a server is busy or fails, within the time that was given; never follows a
redirect, because the key would go along; reads no more than a bounded answer; says the status and never the text of an
error. The key is read from the environment when the provider is loaded and goes into a header and nowhere else. Needs
``httpx`` (extra ``http``). Not here: the wire's shapes (``openai_wire``), halving (``inputs``). Called by ``registry``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from memory_sqlite import errors
from memory_sqlite.embeddings import checked, openai_wire
from memory_sqlite.embeddings.protocol import CostClass, EmbeddingIdentity, InputLimits, InputRefused, Weight
from memory_sqlite.limits import EMBEDDING_ANSWER_MAX_BYTES, EMBEDDING_ATTEMPTS_MAX, EMBEDDING_RETRY_S

if TYPE_CHECKING:
    import httpx

BASE_URL: Final = "https://api.openai.com/v1"
MODEL: Final = "text-embedding-3-small"
PROBE: Final = "dimensions"
"""What is embedded to learn how many dimensions a model has, when no setting says so."""
_LIMITS: Final = InputLimits(text_chars=8_000, batch_texts=64, batch_chars=100_000)
"""OpenAI takes 8,192 tokens a text and 300,000 a request; a Chinese character is about one token."""


class _MayPass(Exception):
    """A request failed, and another one may not; ``wait_s`` is the pause that the server asks for."""

    def __init__(self, reason: str, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.wait_s = wait_s


class OpenAiProvider:
    """One model of one server. Thread-safe."""

    def __init__(
        self,
        *,
        base_url: str | None = None,
        model: str | None = None,
        dimensions: int | None = None,
        key_variable: str | None = None,
        environ: Mapping[str, str] = os.environ,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        """``key_variable`` names the variable of ``environ`` that holds the key. Clocks and sleep are for tests."""
        self._base_url = (base_url or BASE_URL).rstrip("/")
        self._model = model or MODEL
        self._asked_dimensions = dimensions
        self._key_variable = key_variable
        self._environ = environ
        self._sleep = sleep
        self._clock = clock
        self._now = now
        self._prefixes = openai_wire.prefixes(self._model)
        self._dimensions = 0
        self._client: httpx.Client | None = None
        self._closed = False

    @property
    def identity(self) -> EmbeddingIdentity:
        """The server is part of the revision: two servers may have different models of one name."""
        said = "\0".join((self._base_url, *self._prefixes))
        revision = sha256(said.encode("utf-8")).hexdigest()[:16]
        return EmbeddingIdentity("openai", self._model, self._dimensions, revision)

    @property
    def limits(self) -> InputLimits:
        return _LIMITS

    @property
    def cost(self) -> CostClass:
        """``free`` when the server is this machine, else ``paid``."""
        return openai_wire.cost(self._base_url)

    @property
    def weight(self) -> Weight:
        return Weight()

    def load(self, timeout_s: float) -> None:
        """Read the key, and ask for the dimensions where no setting says them.

        Raises ``ExtraMissing`` without httpx, ``EmbeddingFailed`` when the key is not there or the server fails.
        """
        self._client = self._made_client()
        if self._asked_dimensions is not None:
            self._dimensions = self._asked_dimensions
            return
        try:
            (vector,) = self._ask([PROBE], timeout_s)
        except InputRefused:
            raise errors.EmbeddingFailed("the embedding server refuses the model or the request (HTTP 4xx)") from None
        if not isinstance(vector, list) or not vector or checked.vector(vector, len(vector)) is None:
            raise errors.EmbeddingFailed("the embedding server answered with something that is no vector")
        self._dimensions = len(vector)

    def embed_query(self, text: str, timeout_s: float) -> Sequence[float]:
        """The vector of a question. Raises ``InputRefused``, ``EmbeddingFailed``."""
        vector: Sequence[float] = self._ask([self._prefixes[0] + text], timeout_s)[0]
        return vector

    def embed_documents(self, texts: Sequence[str], timeout_s: float) -> Sequence[Sequence[float]]:
        """The vectors of passages. Raises ``InputRefused``, ``EmbeddingFailed``."""
        return self._ask([self._prefixes[1] + text for text in texts], timeout_s)

    def close(self) -> None:
        """Close the connections; a request under way fails."""
        self._closed = True
        if self._client is not None:
            self._client.close()

    # --- asking --------------------------------------------------------------------------------------------------

    def _made_client(self) -> httpx.Client:
        try:
            import httpx
        except ImportError:
            raise errors.ExtraMissing(
                "the embedding provider openai needs the package httpx: pip install 'memory-sqlite[http]'"
            ) from None
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key_variable is not None:
            key = self._environ.get(self._key_variable, "").strip()
            if not key or not key.isascii() or not key.isprintable():
                raise errors.EmbeddingFailed(
                    "embedding_api_key_env: the environment variable it names holds no key",
                    hint="Set that variable where memory-sqlite runs.",
                )
            headers["Authorization"] = f"Bearer {key}"
        # a proxy of the environment is for other machines than this one
        return httpx.Client(headers=headers, follow_redirects=False, trust_env=self.cost == "paid")

    def _ask(self, texts: Sequence[str], timeout_s: float) -> list[Any]:
        until = self._clock() + timeout_s
        pause = EMBEDDING_RETRY_S
        for attempt in range(1, EMBEDDING_ATTEMPTS_MAX + 1):
            try:
                return self._once(texts, until)
            except _MayPass as failed:
                wait_s = pause if failed.wait_s is None else failed.wait_s
                # a server that wants more time than there is: told now, instead of after the wait
                if attempt == EMBEDDING_ATTEMPTS_MAX or self._closed or self._clock() + wait_s >= until:
                    raise errors.EmbeddingFailed(failed.reason) from None
            self._sleep(wait_s)
            pause *= 2
        raise AssertionError("the last attempt answers or raises")

    def _once(self, texts: Sequence[str], until: float) -> list[Any]:
        """One request: its vectors. Raises ``_MayPass`` for what may be well a moment later."""
        import httpx

        client = self._client
        if client is None:
            raise errors.EmbeddingFailed("the embedding provider was not loaded")
        left = max(0.001, until - self._clock())
        sent = openai_wire.body(self._model, texts, self._asked_dimensions)
        try:
            with client.stream("POST", f"{self._base_url}/embeddings", content=sent, timeout=left) as response:
                status = response.status_code
                if status in openai_wire.REFUSED:
                    raise InputRefused(f"HTTP {status}")
                if status in openai_wire.RETRIED:
                    wait_s = openai_wire.wait_s(response.headers, self._now())
                    raise _MayPass(f"the embedding server is busy or failing (HTTP {status})", wait_s)
                if status != 200:
                    raise openai_wire.refusal(status)
                return openai_wire.vectors(self._read(response, until), len(texts))
        except httpx.TimeoutException:
            raise _MayPass("the embedding server did not answer in time") from None
        except httpx.HTTPError as error:
            said = f"the embedding server cannot be reached or broke off ({type(error).__name__})"
            if isinstance(error, httpx.ConnectError) and self.cost == "free":
                raise errors.EmbeddingFailed(said) from None  # nobody listens on this machine: not in a second either
            raise _MayPass(said) from None
        except httpx.InvalidURL:
            raise errors.EmbeddingFailed("embedding_base_url is no address that can be asked") from None

    def _read(self, response: httpx.Response, until: float) -> bytes:
        """The body, up to a bound and a time: a server may trickle for ever, each byte in time."""
        found = bytearray()
        for part in response.iter_bytes():
            found += part
            if len(found) > EMBEDDING_ANSWER_MAX_BYTES:
                raise errors.EmbeddingFailed("the embedding server answered with more than an answer can hold")
            if self._clock() > until:
                raise errors.EmbeddingFailed("the embedding server did not answer in time")
        return bytes(found)
