"""Memory beside a wiki's own pages: searched with them, read by opaque lookups.

The wiki's results are always there: a provider that cannot be had, that lacks what is asked, that denies or fails
leaves them alone. Only a caller who has lapsed gets nothing at all. Reading is different: what is denied or fails is an
error, never an empty page. Not here: the wiki, the form of lookups (``wiki_lookup``).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from memory_sqlite import errors, limits
from memory_sqlite.host.binding import NO_PLUGIN
from memory_sqlite.host.caller_checks import BoundCaller
from memory_sqlite.host.consumers import legacy_lane, wiki_lookup
from memory_sqlite.host.consumers.lease import host_operation, leased, session_of, still_current
from memory_sqlite.host.legacy_values import text_of, value_of, whole_of
from memory_sqlite.host.memory_host import MemoryHost
from memory_sqlite.host.racing import calling
from memory_sqlite.model import Source
from memory_sqlite.runtime.callers import CallerContext
from memory_sqlite.runtime.manager_shapes import SearchOptions
from memory_sqlite.runtime.shapes import Found, GetRequest, ProviderHit, SearchRequest

OPERATION: Final = "memory-wiki.query"
_log = logging.getLogger("memory_sqlite.host.consumers.wiki")


@dataclass(frozen=True)
class WikiResult:
    """One result: how it is looked up, how it is cited, what of it is shown. No score counts as 0."""

    corpus: Literal["wiki", "memory"]
    lookup: str
    label: str
    excerpt: str
    score: float | None = None


@dataclass(frozen=True)
class WikiQuery:
    """A search of memory beside a wiki. Without ``context`` it is the host's own, which is granted nothing private.

    ``protected`` asks for what was said in the agent's other private conversations: the context's recall pass decides.
    A provider must declare ``sessions`` for it, a legacy owner ``supports_private_transcript_recall``.
    """

    agent_id: str
    query: str
    sources: tuple[Source, ...] = ("memory",)
    context: CallerContext | None = None
    max_results: int = limits.WIKI_RESULTS
    protected: bool = False


@dataclass(frozen=True)
class WikiPage:
    """What was read. ``lines`` is how many came back; ``next_from`` goes on."""

    text: str
    label: str
    from_line: int | None = None
    lines: int | None = None
    truncated: bool | None = None
    next_from: int | None = None


async def search_beside(host: MemoryHost, query: WikiQuery, pages: Sequence[WikiResult]) -> tuple[WikiResult, ...]:
    """The wiki's pages and what the memory has, best first, at most ``max_results``; pages win where scores are equal.

    Raises what the caller's check raises, and ``Cancelled``.
    """
    caller = query.context or host_operation(OPERATION)
    await still_current(host, caller)
    try:
        found = await _memory(host, query, caller)
    except Exception as error:
        _log.debug("a wiki was searched without memory: %s", type(error).__name__)
        found = []
    await still_current(host, caller)
    merged = sorted([*pages, *found], key=lambda result: -(result.score or 0.0))
    return tuple(merged[: query.max_results])


async def _memory(host: MemoryHost, query: WikiQuery, caller: CallerContext) -> list[WikiResult]:
    wanted: tuple[Source, ...] = query.sources
    if query.protected and "sessions" not in wanted:
        wanted = (*wanted, "sessions")
    if (owner := legacy_lane.legacy_owner(host)) is not None:
        if query.protected and not owner.capability.supports_private_transcript_recall:
            return []
        session = session_of(caller)
        options = SearchOptions(
            max_results=query.max_results,
            session_key=session.session_key if session is not None else None,
            sources=wanted,
            signal=caller.signal,
        )
        hits = await legacy_lane.manager_hits(
            host, owner, query.agent_id, caller, lambda manager: legacy_lane.search(manager, query.query, options)
        )
        return [_result(hit, hit.reference.id) for hit in hits]
    async with leased(host, query.agent_id, caller) as lease:
        handle = lease.handle
        if handle is None or not set(wanted) <= set(handle.capabilities.sources):
            return []
        page = await handle.search(SearchRequest(query.query, max_results=query.max_results, sources=wanted))
        return [_result(hit, wiki_lookup.lookup_of(hit.reference)) for hit in page.hits]


def _result(hit: ProviderHit, lookup: str) -> WikiResult:
    label = hit.citations[0].label if hit.citations else hit.reference.id
    return WikiResult("memory", lookup, label, hit.excerpt, hit.score)


async def read_lookup(
    host: MemoryHost,
    lookup: str,
    *,
    agent_id: str,
    context: CallerContext | None = None,
    from_line: int | None = None,
    lines: int | None = None,
) -> WikiPage | None:
    """What a lookup of ``search_beside`` names; ``None`` when there is no such thing.

    A native owner is asked by reference, a legacy owner by path. Raises ``InvalidArgument`` for a malformed reference,
    ``ProviderRefused`` for another provider's, ``ProviderUnavailable``, what the caller's check raises and what the
    provider raises: a denial is never an empty page.
    """
    caller = context or host_operation(OPERATION)
    if (owner := legacy_lane.legacy_owner(host)) is not None:
        if wiki_lookup.is_reference(lookup):
            raise errors.InvalidArgument("this memory is looked up by its paths")
        asked, bound = owner, BoundCaller(host.audiences, caller)

        async def read() -> Any:
            manager = await legacy_lane.manager_for(host, asked, agent_id)
            await bound.current()
            return await calling(manager.read_file, lookup, from_line, lines)

        return _of_file(await legacy_lane.between_checks(owner, bound, read), lookup)
    reference = wiki_lookup.reference_of(lookup)
    async with leased(host, agent_id, caller) as lease:
        if lease.handle is None:
            raise errors.ProviderUnavailable(lease.error or NO_PLUGIN)
        found = await lease.handle.get(GetRequest(reference, from_line, lines))
    await still_current(host, caller)
    if not isinstance(found, Found):
        return None
    label = found.citations[0].label if found.citations else reference.id
    return WikiPage(found.text, label, found.from_line, found.lines, found.truncated, found.next_from)


def _of_file(read: Any, path: str) -> WikiPage | None:
    if text_of(read, "status") == "not_found":
        return None
    text, truncated = text_of(read, "text"), value_of(read, "truncated")
    if text is None:
        raise errors.ProviderInvalid("memory runtime manager read a file and returned no text")
    return WikiPage(
        text,
        text_of(read, "path") or path,
        whole_of(read, "from_line"),
        whole_of(read, "lines"),
        truncated if isinstance(truncated, bool) else None,
        whole_of(read, "next_from"),
    )
