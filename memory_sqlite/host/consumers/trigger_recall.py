"""Recall by trigger: entries whose trigger phrases a message says, before the prompt of that turn.

It takes the place of a tool that the model would call, and so it runs only where the turn may use that tool
(``recall_tools``). What a run was given is given to its retries from one cache, never across audiences, and nothing is
given or kept for an audience that has lapsed. Whatever goes wrong, nothing is injected. Not here: scores
(``recall.trigger_scores``), lines and budget (``recall.recalled_lines``).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from memory_sqlite import limits
from memory_sqlite.host.consumers import legacy_lane
from memory_sqlite.host.consumers.lease import leased, still_current
from memory_sqlite.host.consumers.recall_turn import RecallTurn
from memory_sqlite.host.memory_host import MemoryHost
from memory_sqlite.host.recall_tools import trigger_lane_is_open
from memory_sqlite.host.slots import ActiveMemory
from memory_sqlite.recall.project_candidates import active_keys
from memory_sqlite.recall.recall_cache import RecallCache
from memory_sqlite.recall.recalled_lines import NOTHING, Recalled, framed
from memory_sqlite.recall.trigger_scores import chosen
from memory_sqlite.runtime.callers import CallerContext, SessionAuthority
from memory_sqlite.runtime.manager_shapes import SearchOptions
from memory_sqlite.runtime.shapes import CandidateRequest, ProviderHit, SearchRequest

_log = logging.getLogger("memory_sqlite.host.consumers.trigger_recall")


class TriggerRecall:
    """Recall by trigger of one host. Any loop may use it."""

    def __init__(self, host: MemoryHost, cache: RecallCache[Recalled] | None = None) -> None:
        self._host = host
        self.cache: RecallCache[Recalled] = RecallCache() if cache is None else cache
        """Clear it when something was forgotten by a provider that has no ``forgotten_mark``; ours has one."""

    async def recall(self, turn: RecallTurn) -> Recalled:
        """The framed entries, empty for none. Never raises but for being cancelled."""
        owner, words, facts = self._host.slot.owner(), turn.words, turn.facts
        if owner is None or not words or not trigger_lane_is_open(owner, turn.allowed_tools.__contains__):
            return NOTHING
        caller = turn.caller
        try:
            key = turn.key(owner, await turn.forgotten_mark(owner))
            await still_current(self._host, caller)
            known = self.cache.get(facts.memory_audience, facts.session_key, key)
            if known is not None:
                return known
            hits = await self._hits(owner, words, turn, caller)
            active = active_keys(facts.active_project_keys)
            found = framed(chosen(words, hits, active), entry_units=None, total_units=limits.TRIGGER_RECALL_UNITS)
            await still_current(self._host, caller)
        except Exception as error:
            _log.debug("recall by trigger was left out: %s", type(error).__name__)
            return NOTHING
        self.cache.put(facts.memory_audience, facts.session_key, key, found)
        return found

    async def _hits(
        self, owner: ActiveMemory, words: str, turn: RecallTurn, caller: CallerContext
    ) -> Sequence[ProviderHit]:
        agent_id = turn.facts.agent_id
        keys = tuple(dict.fromkeys(key.strip() for key in turn.facts.active_project_keys if key.strip()))
        if owner.capability.provider_runtime is None:
            return await _from_manager(self._host, owner, agent_id, words, keys, caller)
        async with leased(self._host, agent_id, caller) as lease:
            handle = lease.handle
            if handle is None:
                return ()
            declared = handle.capabilities
            if "memory" not in declared.sources or "trigger" not in declared.candidates:
                return ()
            sent = keys if declared.project_filter else ()
            searched = await handle.search(
                SearchRequest(
                    words,
                    max_results=limits.TRIGGER_RECALL_SEARCH,
                    min_score=0.0,
                    sources=("memory",),
                    lexical_only=True,
                    active_project_keys=sent,
                )
            )
            listed = await handle.candidates(CandidateRequest("trigger", limits.TRIGGER_RECALL_CANDIDATES, sent))
            return (*searched.hits[: limits.TRIGGER_RECALL_SEARCH], *listed.hits[: limits.TRIGGER_RECALL_CANDIDATES])


async def _from_manager(
    host: MemoryHost,
    owner: ActiveMemory,
    agent_id: str,
    words: str,
    keys: tuple[str, ...],
    caller: CallerContext,
) -> Sequence[ProviderHit]:
    authority = caller.authority
    options = SearchOptions(
        max_results=limits.TRIGGER_RECALL_SEARCH,
        min_score=0.0,
        session_key=authority.session_key if isinstance(authority, SessionAuthority) else None,
        lexical_only=True,
        active_project_keys=keys,
        sources=("memory",),
        signal=caller.signal,
    )

    async def ask(manager: object) -> Sequence[object]:
        searched = await legacy_lane.search(manager, words, options)
        listed = await legacy_lane.candidates(
            manager,
            "list_trigger_candidates",
            limit=limits.TRIGGER_RECALL_CANDIDATES,
            active_project_keys=keys,
        )
        return [*searched, *listed]

    return await legacy_lane.manager_hits(host, owner, agent_id, caller, ask)
