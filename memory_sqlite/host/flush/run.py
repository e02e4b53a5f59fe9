"""One flush from gate to record: ``run_flush``. Compaction goes on after it, whatever comes out.

The resolver is asked twice in a flush that is executed: whether it is time, and, with the time of day, for the plan
itself. Not here: the parts (``gates``, ``arms``, ``turns``, ``evidence``, ``records``). Called by hosts.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from typing import Any, Final

from memory_sqlite import errors
from memory_sqlite.clock import Clock
from memory_sqlite.host.flush import arms, gates, records
from memory_sqlite.host.flush.detached import KeyOf, default_key, detached
from memory_sqlite.host.flush.evidence import Evidence
from memory_sqlite.host.flush.flush_id import flush_id
from memory_sqlite.host.flush.plans import CompletePlan
from memory_sqlite.host.flush.ports import FlushHost
from memory_sqlite.host.flush.running import alone
from memory_sqlite.host.flush.shapes import BoundTool, FlushOutcome, FlushSourceTurn, FlushTurnResult, RunTurn
from memory_sqlite.host.flush.target import Target
from memory_sqlite.host.flush.timing import is_time
from memory_sqlite.host.flush.turns import turn_of
from memory_sqlite.host.session_rows import SessionRow
from memory_sqlite.runtime.flush_timing import host_timing
from memory_sqlite.runtime.plugins import ToolContext

_log = logging.getLogger("memory_sqlite.host.flush")

NO_AUDIENCE: Final = "memory_flush_no_audience"


async def run_flush(
    host: FlushHost,
    source: FlushSourceTurn,
    *,
    run_turn: RunTurn,
    clock: Clock | None = None,
    key_of: KeyOf = default_key,
) -> FlushOutcome:
    """Flush the session of ``source`` if it is time; ``run_turn`` is the host's model call. ``key_of`` makes the key of
    the flush's own session, for hosts whose keys have another form.

    Never raises but for ``asyncio.CancelledError`` of the caller's own task: what fails is in the outcome.
    """
    try:
        with alone(host.rows, source.session_key) as first:
            if not first:
                return FlushOutcome("skipped", "this session is being flushed")
            return await _attempt(host, source, run_turn, clock or Clock(), key_of)
    except Exception as error:
        _log.warning("memory flush failed: %s", _named(error))
        return FlushOutcome("failed", _named(error))


async def _attempt(
    host: FlushHost, source: FlushSourceTurn, run_turn: RunTurn, clock: Clock, key_of: KeyOf
) -> FlushOutcome:
    supplier = gates.supplier_of(host.slot.active())
    timing = host_timing(host.config, source.context_window_tokens)
    await host.rows.settled([source.session_key])  # a reset that is being written is waited for
    row = await host.rows.read(source.session_key)
    reason = gates.before_resolver(row, source, supplier, timing)
    if reason is not None or supplier is None or row is None:
        return FlushOutcome("skipped", reason, supplier.plugin_id if supplier is not None else None)
    flush = _Flush(host, source, supplier, row, run_turn, key_of)
    try:
        look = gates.plan_of(supplier, source, timing, host.config, None)
        if isinstance(look, FlushOutcome):
            return look
        if not is_time(look, source, row):
            reason = "this cycle is flushed" if records.is_flushed(row) else "not due"
            return FlushOutcome("skipped", reason, supplier.plugin_id, look.arm)
        plan = gates.plan_of(supplier, source, timing, host.config, clock.now_ms())
    except Exception as error:
        return flush.failed(f"the resolver failed: {_named(error)}")
    if isinstance(plan, FlushOutcome):
        return plan
    return await (flush.by_tools(plan) if plan.arm == "tools" else flush.by_file(plan))


@dataclass
class _Flush:
    """One attempt that is due."""

    host: FlushHost
    source: FlushSourceTurn
    supplier: gates.Supplier
    row: SessionRow
    run_turn: RunTurn
    key_of: KeyOf
    plan: CompletePlan | None = None
    flush_id: str | None = None
    warnings: tuple[str, ...] = ()

    async def by_file(self, plan: CompletePlan) -> FlushOutcome:
        """Into one file of the workspace."""
        self.plan = plan
        assert self.source.workspace is not None, "a gate"
        try:
            target = Target(self.source.workspace, plan.relative_path)
            await asyncio.to_thread(target.make)
        except errors.PathNotAllowed as error:
            return gates.refused(
                self.supplier, plan, f'plugin "{self.supplier.plugin_id}" named a flush target: {error.message}'
            )
        except OSError as error:
            return self.failed(f"the flush target could not be made: {_named(error)}")
        async with detached(self.source, self.key_of) as binding:
            tools, warning = arms.file_arm(target, self.source, binding)
            self.warnings = (warning,) if warning else ()
            return await self._run(plan, binding.context, tools, Evidence())

    async def by_tools(self, plan: CompletePlan) -> FlushOutcome:
        """Through the owner's own tools."""
        self.plan = plan
        self.flush_id = flush_id(*self.row.incarnation, self.row.compaction_count)
        try:
            return await self._with_tools(plan)
        except errors.AudienceDenied as denied:
            _log.debug("memory flush skipped: %s (%s)", NO_AUDIENCE, denied.kind)
        except errors.CallerNotCurrent as lapsed:
            _log.debug("memory flush skipped: %s (%s)", NO_AUDIENCE, lapsed.code)
        return FlushOutcome("skipped", NO_AUDIENCE, self.supplier.plugin_id, "tools", self.flush_id)

    async def _with_tools(self, plan: CompletePlan) -> FlushOutcome:
        audiences = self.host.audiences if self.supplier.native else None
        async with detached(
            self.source, self.key_of, audiences=audiences, cycle=self.flush_id, owner=self.supplier.instance
        ) as binding:
            owner = self.supplier.plugin_id
            found = arms.declared(plan, owner, self.host.tools.owned_by(owner), self.source)
            if not found.persistence:
                names = ", ".join(plan.persistence_tool_names) or arms.NONE_DECLARED
                return gates.refused(self.supplier, plan, f'plugin "{owner}" has no persistence tool here: {names}')
            if found.missing_lookup:
                warning = f'plugin "{owner}" has no lookup tool here: {", ".join(found.missing_lookup)}'
                _log.warning("memory flush goes on: %s", warning)
                self.warnings = (warning,)
            evidence = Evidence()
            tools = arms.tools_arm(found, self.source, binding, evidence)
            return await self._run(plan, binding.context, tools, evidence)

    async def _run(
        self, plan: CompletePlan, context: ToolContext, tools: tuple[BoundTool, ...], evidence: Evidence
    ) -> FlushOutcome:
        signal = self.source.signal
        try:
            if signal is not None:
                signal.raise_if_aborted()
            result: Any = await self.run_turn(turn_of(plan, self.source, context, tools))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return self._outcome("failed", "cancelled")
        except errors.Cancelled:
            return self._outcome("failed", "cancelled")
        except Exception as error:
            return self.failed(f"run error: {_named(error)}")
        if signal is not None and signal.aborted:
            return self._outcome("failed", "cancelled")
        if not isinstance(result, FlushTurnResult):
            return self.failed("run error: no result")
        failure = evidence.failure(plan.arm, result)
        if failure is not None:
            return self.failed(failure)
        record = records.completed(self.host.rows, self.source, self.row.compaction_count)
        return replace(self._outcome("completed", None), record=record)

    def failed(self, reason: str) -> FlushOutcome:
        """A failure that counts."""
        exhausted, record = records.failed(self.host.rows, self.source)
        _log.warning("memory flush failed: %s", reason)
        return replace(self._outcome("exhausted" if exhausted else "failed", reason), record=record)

    def _outcome(self, status: Any, reason: str | None) -> FlushOutcome:
        arm = self.plan.arm if self.plan is not None else None
        return FlushOutcome(
            status, reason, self.supplier.plugin_id, arm, flush_id=self.flush_id, warnings=self.warnings
        )


def _named(error: BaseException) -> str:
    """What an error is, without what it says: that may be text of a memory."""
    return error.code if isinstance(error, errors.MemorySqliteError) else type(error).__name__
