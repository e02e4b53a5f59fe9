"""What every embedding provider must do, as a check that anybody can run on theirs.

``check(provider)`` loads it, asks it for a handful of vectors and closes it; the list it returns says what is wrong,
and is empty for one that conforms. A paid provider is asked for about 150 short texts. For plugins' tests and this
package's own: ``assert check(MyProvider(...)) == []``. Not here: whether the vectors mean anything.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from memory_sqlite import errors
from memory_sqlite.embeddings import checked
from memory_sqlite.embeddings.protocol import EmbeddingIdentity, InputLimits, InputRefused, Provider, Weight
from memory_sqlite.limits import EMBEDDING_DIMENSIONS

_TEXTS: Final = (
    "The router is in the hall.",
    "Green tea is best at eighty degrees.",
    "今天我们讨论了预算。",
    "ERR_CONN_REFUSED at src/net/socket.py:42",
    "\U0001f9ed \u00e9\u0301 \ufdfa \u200d",
)
_SAME: Final = 0.999
"""Cosine of two vectors of one text: batches of other sizes round otherwise."""


def check(provider: Provider, *, timeout_s: float = 60.0) -> list[str]:
    """What is wrong with a provider that has not been loaded; it is closed afterwards. Never raises for its faults."""
    problems = _found("limits, cost and weight", lambda: _told(provider))
    problems += _found("load", lambda: _loading(provider, timeout_s))
    if not problems:
        identity = provider.identity
        problems += _found("embed_query", lambda: _query(provider, identity, timeout_s))
        problems += _found("embed_documents", lambda: _documents(provider, identity, timeout_s))
        problems += _found("limits", lambda: _limits(provider, identity, timeout_s))
        problems += _found("a question beside a batch", lambda: _together(provider, identity, timeout_s))
        if provider.identity != identity:
            problems.append("identity: it changed after load")
    return problems + _found("close", lambda: _closing(provider, timeout_s))


def _found(name: str, step: Callable[[], Iterator[str]]) -> list[str]:
    try:
        return [f"{name}: {problem}" for problem in step()]
    except errors.MemorySqliteError as error:
        return [f"{name}: {error.message}"]
    except Exception as error:
        return [f"{name}: raised {type(error).__name__}"]


def _loading(provider: Provider, timeout_s: float) -> Iterator[str]:
    provider.load(timeout_s)
    identity = provider.identity
    if not identity.provider or not identity.model:
        yield "the identity must name provider and model"
    if not 1 <= identity.dimensions <= EMBEDDING_DIMENSIONS[1]:
        yield f"the dimensions must be known afterwards, and be at most {EMBEDDING_DIMENSIONS[1]}"


def _told(provider: Provider) -> Iterator[str]:
    limits, weight = provider.limits, provider.weight
    if not isinstance(limits, InputLimits) or min(limits.text_chars, limits.batch_texts, limits.batch_chars) < 1:
        yield "each limit must be at least 1"
    if provider.cost not in ("free", "paid"):
        yield "the cost is neither free nor paid"
    if not isinstance(weight, Weight) or not all(
        0 <= value <= 1 for value in (weight.latin, weight.cjk, weight.other, weight.high)
    ):
        yield "each weight must be between 0 and 1"
    elif not -1 <= weight.low < weight.high:
        yield "the weight's low must be below its high"


def _query(provider: Provider, identity: EmbeddingIdentity, timeout_s: float) -> Iterator[str]:
    for number, text in enumerate(_TEXTS):
        if checked.vector(provider.embed_query(text, timeout_s), identity.dimensions) is None:
            yield f"text {number} got a vector that points nowhere"
    first, again = (checked.vector(provider.embed_query(_TEXTS[0], timeout_s), identity.dimensions) for _ in range(2))
    if first is not None and again is not None and _cosine(first, again) < _SAME:
        yield "the same question got two vectors"


def _documents(provider: Provider, identity: EmbeddingIdentity, timeout_s: float) -> Iterator[str]:
    texts = list(_TEXTS[: provider.limits.batch_texts])
    forth = checked.vectors(provider.embed_documents(texts, timeout_s), len(texts), identity.dimensions)
    back = checked.vectors(provider.embed_documents(texts[::-1], timeout_s), len(texts), identity.dimensions)[::-1]
    for number, (one, other) in enumerate(zip(forth, back, strict=True)):
        if one is None or other is None:
            yield f"text {number} got a vector that points nowhere"
        elif _cosine(one, other) < _SAME:
            yield f"text {number} got another vector when the batch was turned round"


def _limits(provider: Provider, identity: EmbeddingIdentity, timeout_s: float) -> Iterator[str]:
    limits = provider.limits
    long = ("memory " * (limits.text_chars // 7 + 1))[: min(limits.text_chars, limits.batch_chars)]
    many = [f"text {number}" for number in range(min(limits.batch_texts, 128))]
    for name, texts in (("the longest text", [long]), ("the largest batch", many)):
        try:
            checked.vectors(provider.embed_documents(texts, timeout_s), len(texts), identity.dimensions)
        except InputRefused:
            yield f"{name} that the limits allow was refused"


def _together(provider: Provider, identity: EmbeddingIdentity, timeout_s: float) -> Iterator[str]:
    """Answers of two threads do not mix."""
    alone = [checked.vector(one, identity.dimensions) for one in provider.embed_documents(_TEXTS[:2], timeout_s)]
    asked = checked.vector(provider.embed_query(_TEXTS[2], timeout_s), identity.dimensions)
    found: dict[str, Any] = {}

    def batch() -> None:
        try:
            found["batch"] = provider.embed_documents(_TEXTS[:2], timeout_s)
        except Exception as error:
            found["error"] = error

    thread = threading.Thread(target=batch, daemon=True)
    thread.start()
    question = checked.vector(provider.embed_query(_TEXTS[2], timeout_s), identity.dimensions)
    thread.join(timeout_s)
    if "error" in found:
        raise found["error"]
    if "batch" not in found:
        yield f"the batch did not come back in {timeout_s:g} s"
        return
    beside = [checked.vector(one, identity.dimensions) for one in found["batch"]]
    for one, other in zip([*alone, asked], [*beside, question], strict=True):
        if one is None or other is None or _cosine(one, other) < _SAME:
            yield "another vector than alone"


def _closing(provider: Provider, timeout_s: float) -> Iterator[str]:
    provider.close()
    provider.close()  # a second time changes nothing
    ended = threading.Event()

    def ask() -> None:
        try:
            provider.embed_query(_TEXTS[0], timeout_s)
        except Exception:
            pass  # as it should
        ended.set()

    threading.Thread(target=ask, daemon=True).start()
    if not ended.wait(timeout_s):
        yield "a question after it hangs"


def _cosine(one: bytes, other: bytes) -> float:
    pairs: Sequence[tuple[float, float]] = list(zip(checked.unpacked(one), checked.unpacked(other), strict=True))
    return sum([a * b for a, b in pairs])
