"""The ``/v1/embeddings`` wire: what is sent, what an answer means, who answers free of charge. Pure.

The shapes are those of OpenAI's API reference ("Create embeddings"); Ollama, LM Studio, vLLM and llama.cpp speak the
same. Nothing of a server's answer but numbers and its status goes further: error texts quote what was sent. Called by
``openai``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from memory_sqlite import errors
from memory_sqlite.embeddings.protocol import CostClass

REFUSED: Final = frozenset({400, 413, 422})
"""The texts are at fault: too long, too many, not allowed."""
RETRIED: Final = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
"""The server is: it may be well a moment later."""

_PREFIXES: Final = (
    ("nomic-embed-text", "search_query: ", "search_document: "),
    ("multilingual-e5", "query: ", "passage: "),
    ("mxbai-embed-large", "Represent this sentence for searching relevant passages: ", ""),
    ("snowflake-arctic-embed", "Represent this sentence for searching relevant passages: ", ""),
)
"""Of models that were trained with other words before a question than before a passage, as their model cards say."""


def prefixes(model: str) -> tuple[str, str]:
    """What goes before a question and before a passage."""
    for part, question, passage in _PREFIXES:
        if part in model.lower():
            return question, passage
    return "", ""


def body(model: str, texts: Sequence[str], dimensions: int | None) -> bytes:
    """The request. ``dimensions`` only where they were asked for: not every server knows the field."""
    asked: dict[str, Any] = {"model": model, "input": list(texts)}
    if dimensions is not None:
        asked["dimensions"] = dimensions
    return json.dumps(asked, ensure_ascii=False).encode("utf-8")


def vectors(answer: bytes, count: int) -> list[Any]:
    """The vectors of an answer in the order of the texts; their numbers are not looked at here.

    Raises ``EmbeddingFailed`` for HTML, for JSON of another shape, for another number of vectors, and for places that
    are not each there once.
    """
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        raise errors.EmbeddingFailed("the embedding server answered with something that is not JSON") from None
    rows = found.get("data") if isinstance(found, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise errors.EmbeddingFailed("the embedding server answered with JSON that holds no embeddings")
    if len(rows) != count:
        raise errors.EmbeddingFailed(f"the embedding server answered with {len(rows)} vectors for {count} texts")
    places = [row.get("index", place) for place, row in enumerate(rows)]
    if not all(type(place) is int for place in places) or sorted(places) != list(range(count)):
        raise errors.EmbeddingFailed("the embedding server answered with vectors that belong to no text")
    ordered: list[Any] = [None] * count
    for place, row in zip(places, rows, strict=True):
        ordered[place] = row.get("embedding")
    return ordered


def wait_s(headers: Mapping[str, str], now_s: float) -> float | None:
    """Seconds that ``Retry-After`` asks for (RFC 9110, section 10.2.3: a number or a date); ``None`` without one."""
    said = headers.get("retry-after", "").strip()
    if said.isascii() and said.isdigit() and len(said) < 10:
        return float(said)
    try:
        return max(0.0, parsedate_to_datetime(said).timestamp() - now_s)
    except (ValueError, TypeError, OverflowError):
        return None


def refusal(status: int) -> errors.EmbeddingFailed:
    """The error of a status that neither waiting nor other texts can help."""
    if status in (401, 403):
        return errors.EmbeddingFailed(
            f"the embedding server refused the key (HTTP {status})",
            hint="Check embedding_api_key_env and the variable it names.",
        )
    if status == 404:
        return errors.EmbeddingFailed(
            "the embedding server knows no such address or model (HTTP 404)",
            hint="Check embedding_base_url (it ends in /v1 with most servers) and embedding_model.",
        )
    if 300 <= status < 400:
        return errors.EmbeddingFailed(
            f"the embedding server wants to be asked elsewhere (HTTP {status}); a key is never sent there",
            hint="Put the final address into embedding_base_url.",
        )
    return errors.EmbeddingFailed(f"the embedding server failed (HTTP {status})")


def cost(base_url: str) -> CostClass:
    """``free`` on this machine; anybody else may charge."""
    try:
        host = urlsplit(base_url).hostname or ""
    except ValueError:
        return "paid"  # no address at all, as asking it will say
    try:
        return "free" if ip_address(host).is_loopback else "paid"
    except ValueError:
        return "free" if host == "localhost" or host.endswith(".localhost") else "paid"
