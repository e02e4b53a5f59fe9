"""``compact`` for an engine that does not own compaction: the host's own does it. After an abort nobody waits for it.

Called by the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from memory_sqlite import errors
from memory_sqlite.context.shapes import CompactResult
from memory_sqlite.runtime.signals import AbortSignal

Compaction = Callable[..., Awaitable[CompactResult | Mapping[str, Any]]]
"""The host's compaction: takes what ``compact`` was given, answers as ``compact`` does."""

DELEGATE: Final = "delegateCompactionToRuntime"
"""The key of ``runtime_context`` under which a host may give its compaction for one call."""

NO_DELEGATE: Final = "this engine does not own compaction, and the host gave none to delegate to"


async def delegate(
    compaction: Compaction | None, given: Mapping[str, Any], signal: AbortSignal | None
) -> CompactResult:
    """The host's answer. Without a host's compaction nothing is compacted, and the answer says so.

    Raises ``Cancelled`` at once when aborted, whether or not the host's compaction stops; ``ProviderInvalid`` for an
    answer that is none; what the host's compaction raises.
    """
    if signal is not None:
        signal.raise_if_aborted()
    if compaction is None:
        return CompactResult(ok=False, compacted=False, reason=NO_DELEGATE)
    return _checked(await until_aborted(compaction(**given), signal))


async def until_aborted(work: Awaitable[Any], signal: AbortSignal | None) -> Any:
    """What ``work`` gives, or ``Cancelled`` at once when aborted; then it is cancelled and its end not waited for."""
    working = asyncio.ensure_future(work)
    if signal is None:
        return await working
    aborted = asyncio.ensure_future(signal.wait())
    try:
        await asyncio.wait({working, aborted}, return_when=asyncio.FIRST_COMPLETED)
        if working.done() and not signal.aborted:
            return working.result()
    finally:
        aborted.cancel()
        if not working.done():
            working.cancel()
        working.add_done_callback(_heard)
    signal.raise_if_aborted()
    return working.result()


def _heard(done: asyncio.Future[Any]) -> None:
    """What nobody waits for any more may fail; asked for, so that the loop does not complain."""
    if not done.cancelled():
        done.exception()


def _checked(answer: object) -> CompactResult:
    if isinstance(answer, CompactResult):
        return answer
    if isinstance(answer, Mapping):
        ok, compacted = answer.get("ok"), answer.get("compacted")
        reason, result = answer.get("reason"), answer.get("result")
        fits = isinstance(reason, str | None) and isinstance(result, Mapping | None)
        if isinstance(ok, bool) and isinstance(compacted, bool) and fits:
            return CompactResult(ok, compacted, reason, result)
    raise errors.ProviderInvalid("the host's compaction did not answer with ok and compacted")
