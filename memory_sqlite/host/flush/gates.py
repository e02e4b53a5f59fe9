"""The reasons not to flush, in the contract's order (section 3.3). None of them keeps compaction from going on.

Gates 1 to 10: they need nothing but the row, the turn, the slot and the plan. Gates 11 (audience) and 12 (tools) are
where those are made (``run``, ``arms``). Called by ``run``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from memory_sqlite import errors
from memory_sqlite.host.flush.plans import CompletePlan, complete
from memory_sqlite.host.flush.ports import Active, Instance
from memory_sqlite.host.flush.shapes import FlushOutcome, FlushSourceTurn
from memory_sqlite.host.session_rows import SessionRow
from memory_sqlite.runtime.flush_plans import FlushPlanRequest
from memory_sqlite.runtime.flush_timing import HostTiming

_log = logging.getLogger("memory_sqlite.host.flush")


@dataclass(frozen=True)
class Supplier:
    """Whose plan it is. ``native``: the slot owner's, and the owner has a provider runtime. ``instance`` is the active
    plugin's: that of the owner where the plan is the owner's."""

    plugin_id: str
    resolver: Callable[[FlushPlanRequest], Any]
    released: bool
    slot_owner: bool
    native: bool
    instance: Instance


def supplier_of(active: Active | None) -> Supplier | None:
    """Who supplies plans, where anybody does."""
    source = active.flush_source if active is not None else None
    if active is None or source is None:
        return None
    return Supplier(
        plugin_id=source.plugin_id,
        resolver=source.resolver,
        released=source.kind == "released",
        slot_owner=source.slot_owner,
        native=source.slot_owner and active.capability.provider_runtime is not None,
        instance=active.instance,
    )


def before_resolver(
    row: SessionRow | None, source: FlushSourceTurn, supplier: Supplier | None, timing: HostTiming
) -> str | None:
    """Why no resolver is called at all, or ``None``."""
    if row is None:
        return "no session row"
    if row.incarnation != source.incarnation:
        return "the source session was reset"
    if row.incognito:
        return "incognito session"
    if source.heartbeat:
        return "heartbeat"
    if source.cli_runtime:
        return "CLI runtime"
    if source.native_compaction:
        return "the runtime compacts by itself"
    if supplier is None:
        return "no flush plan resolver"
    if not source.workspace_writable and not supplier.native:
        return "workspace not writable"
    if not timing.enabled:
        return "disabled"
    return None


def plan_of(
    supplier: Supplier, source: FlushSourceTurn, timing: HostTiming, config: Mapping[str, Any], now_ms: int | None
) -> CompletePlan | FlushOutcome:
    """The plan, completed, or why there is none. Raises what the resolver raises: that is a failure, not a gate."""
    value = supplier.resolver(FlushPlanRequest(config, now_ms, source.context_window_tokens))
    if value is None:
        return FlushOutcome("skipped", "no plan", supplier.plugin_id)
    try:
        plan = complete(value, timing, released=supplier.released)
    except errors.ProviderInvalid as error:
        return refused(supplier, None, f'plugin "{supplier.plugin_id}" supplied an invalid flush plan: {error.message}')
    if plan.arm == "tools" and not supplier.slot_owner:
        return refused(
            supplier,
            plan,
            f'plugin "{supplier.plugin_id}" supplied a tools-arm plan but is not the selected memory slot owner',
        )
    if plan.overlap:
        return refused(
            supplier,
            plan,
            f'plugin "{supplier.plugin_id}" declared flush tools for persistence and for lookup: '
            + ", ".join(plan.overlap),
        )
    if plan.arm == "file" and not (source.workspace_writable and source.workspace is not None):
        return FlushOutcome("skipped", "workspace not writable", supplier.plugin_id, plan.arm)
    return plan


def refused(supplier: Supplier, plan: CompletePlan | None, warning: str) -> FlushOutcome:
    """Skipped, and the log says whose fault it is."""
    _log.warning("memory flush skipped: %s", warning)
    return FlushOutcome(
        "skipped", warning, supplier.plugin_id, plan.arm if plan is not None else None, warnings=(warning,)
    )
