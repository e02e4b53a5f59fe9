"""Fast context for a spoken answer: a few snippets that are found while the caller waits, or nothing.

It speaks for a session without an audience, so that a provider which grants reads by audience gives it nothing: that is
meant. Nothing is read of a native provider unless the caller can be seen to be there still. Not here: speaking.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from memory_sqlite import limits
from memory_sqlite.host.consumers import legacy_lane
from memory_sqlite.host.consumers.lease import always_current, leased, still_current
from memory_sqlite.host.memory_host import MemoryHost
from memory_sqlite.model import SOURCES, Source
from memory_sqlite.recall.recalled_lines import label_of, safe_line
from memory_sqlite.runtime.callers import CallerContext, SessionAuthority
from memory_sqlite.runtime.manager_shapes import SearchOptions
from memory_sqlite.runtime.shapes import ProviderHit, SearchRequest
from memory_sqlite.runtime.signals import AbortSignal
from memory_sqlite.text.frame import whole_escapes
from memory_sqlite.text.units import cut_utf16

_log = logging.getLogger("memory_sqlite.host.consumers.voice")
Wait = Callable[[float], Awaitable[None]]
_ending: set[asyncio.Task[VoiceContext]] = set()
"""Searches that came too late and are giving their leases back; the event loop holds tasks weakly."""


@dataclass(frozen=True)
class Snippet:
    """What was found: where (a label that a person understands), and at most 700 characters of it, harmless."""

    label: str
    text: str


@dataclass(frozen=True)
class VoiceContext:
    """``unavailable``: nobody could be asked, or the caller was not there; ``timeout``: it came too late."""

    status: Literal["ok", "nothing", "unavailable", "timeout"]
    snippets: tuple[Snippet, ...] = ()


@dataclass(frozen=True)
class VoiceQuestion:
    """What a speaking session asks. ``assert_live`` raises once the caller is gone; without it no native provider is
    read. ``sources`` are those that the configuration lets voice look in."""

    agent_id: str
    session_key: str
    query: str
    sources: tuple[Source, ...] = SOURCES
    assert_live: Callable[[], None] | None = None
    signal: AbortSignal | None = None
    max_results: int = limits.VOICE_RESULTS
    timeout_s: float = limits.VOICE_TIMEOUT_S


async def fast_context(host: MemoryHost, question: VoiceQuestion, *, wait: Wait = asyncio.sleep) -> VoiceContext:
    """Snippets within the time. When it is over the search is cancelled, through its signal and as a task.

    Never raises but for being cancelled. ``wait`` is how time passes.
    """
    owner = host.slot.owner()
    if owner is None:
        return VoiceContext("unavailable")
    if owner.capability.provider_runtime is not None and question.assert_live is None:
        return VoiceContext("unavailable")
    late = AbortSignal()
    unlink = question.signal.on_abort(late.abort) if question.signal is not None else always_current
    authority = SessionAuthority(question.session_key, sandboxed=False)
    caller = CallerContext(authority, question.assert_live or always_current, late)
    looking = asyncio.ensure_future(_look(host, question, caller))
    _ending.add(looking)
    looking.add_done_callback(_ending.discard)
    clock = asyncio.ensure_future(wait(question.timeout_s))
    try:
        await asyncio.wait({looking, clock}, return_when=asyncio.FIRST_COMPLETED)
        if not looking.done():
            return VoiceContext("timeout")
        found = looking.result()
        await still_current(host, caller)  # nobody to wait for: there is no audience
        return found
    except Exception as error:  # whatever the caller's own check raises
        _log.debug("fast context for voice was left out: %s", type(error).__name__)
        return VoiceContext("unavailable")
    finally:
        late.abort()  # ends the search; giving its lease back goes on without us
        unlink()
        clock.cancel()


async def _look(host: MemoryHost, question: VoiceQuestion, caller: CallerContext) -> VoiceContext:
    try:
        hits = await _hits(host, question, caller)
        if hits is None:
            return VoiceContext("unavailable")
    except Exception as error:
        _log.debug("fast context for voice was left out: %s", type(error).__name__)
        return VoiceContext("unavailable")
    cited = legacy_lane.legacy_owner(host) is not None
    snippets = tuple(_snippet(hit, cited=cited) for hit in hits[: question.max_results])
    return VoiceContext("ok" if snippets else "nothing", snippets)


async def _hits(host: MemoryHost, question: VoiceQuestion, caller: CallerContext) -> Sequence[ProviderHit] | None:
    if (owner := legacy_lane.legacy_owner(host)) is not None:
        options = SearchOptions(
            max_results=question.max_results,
            session_key=question.session_key,
            sources=question.sources,
            signal=caller.signal,
        )
        return await legacy_lane.manager_hits(
            host,
            owner,
            question.agent_id,
            caller,
            lambda manager: legacy_lane.search(manager, question.query, options),
        )
    async with leased(host, question.agent_id, caller) as lease:
        handle = lease.handle
        if handle is None or not set(question.sources) <= set(handle.capabilities.sources):
            return None
        request = SearchRequest(question.query, max_results=question.max_results, sources=question.sources)
        return (await handle.search(request)).hits


def _snippet(hit: ProviderHit, *, cited: bool) -> Snippet:
    """A legacy hit keeps the label that its manager gave; a provider's says what kind of memory it is."""
    text = safe_line(hit.excerpt[: 8 * limits.VOICE_SNIPPET_UNITS])
    label = label_of(hit) if cited else safe_line(hit.source or hit.reference.provider_id)
    return Snippet(label, whole_escapes(cut_utf16(text, limits.VOICE_SNIPPET_UNITS)))
