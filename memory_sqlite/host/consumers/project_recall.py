"""Recall by project: what the memory holds of the projects a turn is about, before its prompt.

Whatever goes wrong, nothing is injected and the turn goes on. Not here: which entries, and in which order
(``recall.project_candidates``), their lines and budget (``recall.recalled_lines``).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from memory_sqlite import limits
from memory_sqlite.host.consumers import legacy_lane
from memory_sqlite.host.consumers.lease import host_operation, leased, still_current
from memory_sqlite.host.memory_host import MemoryHost
from memory_sqlite.recall.project_candidates import active_keys, chosen
from memory_sqlite.recall.recalled_lines import NOTHING, Recalled, framed
from memory_sqlite.runtime.callers import CallerContext
from memory_sqlite.runtime.shapes import CandidateRequest, ProviderHit

OPERATION: Final = "project-memory-bootstrap"
_log = logging.getLogger("memory_sqlite.host.consumers.project_recall")


async def recall_projects(
    host: MemoryHost,
    *,
    agent_id: str,
    active_project_keys: Sequence[str],
    context: CallerContext | None = None,
) -> Recalled:
    """The framed entries of the active projects, empty for none; without active projects nobody is asked.

    ``context`` is the caller; without one the host asks for itself, and gets nothing private. Never raises but for
    being cancelled.
    """
    active = active_keys(active_project_keys)
    if not active:
        return NOTHING
    caller = context or host_operation(OPERATION)
    keys = tuple(dict.fromkeys(key.strip() for key in active_project_keys if key.strip()))
    try:
        hits = await _candidates(host, agent_id, keys, caller)
        await still_current(host, caller)
    except Exception as error:
        _log.debug("recall by project was left out: %s", type(error).__name__)
        return NOTHING
    return framed(
        chosen(hits, active), entry_units=limits.PROJECT_RECALL_ENTRY_UNITS, total_units=limits.PROJECT_RECALL_UNITS
    )


async def _candidates(
    host: MemoryHost, agent_id: str, keys: tuple[str, ...], caller: CallerContext
) -> Sequence[ProviderHit]:
    limit = limits.PROJECT_RECALL_CANDIDATES
    if (owner := legacy_lane.legacy_owner(host)) is not None:
        method = "list_curated_project_candidates"
        return await legacy_lane.manager_hits(
            host,
            owner,
            agent_id,
            caller,
            lambda manager: legacy_lane.candidates(manager, method, active_project_keys=keys, limit=limit),
        )
    async with leased(host, agent_id, caller) as lease:
        handle = lease.handle
        if handle is None or "project" not in handle.capabilities.candidates:
            return ()
        sent = keys if handle.capabilities.project_filter else ()
        return (await handle.candidates(CandidateRequest("project", limit, sent))).hits
