"""The conformance kit for a host's flush: ours passes, and hosts that break a rule are caught by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from memory_sqlite.host import conformance
from memory_sqlite.host.conformance import FLUSH_CHECKS, Broken, OwnFlush, run_all
from memory_sqlite.host.flush.shapes import FlushOutcome, FlushSourceTurn, FlushTurn, FlushTurnResult
from memory_sqlite.runtime.plugins import MemoryCapability


@pytest.mark.parametrize("name", sorted(FLUSH_CHECKS))
def test_our_flush_passes(name: str) -> None:
    """Each check alone, as a third party's runner would call it."""
    FLUSH_CHECKS[name](OwnFlush)


def test_every_flush_check_is_listed_once() -> None:
    """A function that is written and not listed would never run."""
    modules = (conformance.flush_checks, conformance.flush_run_checks)
    written = {name for module in modules for name in vars(module) if name.startswith("check_")}
    assert written == set(FLUSH_CHECKS)
    assert len(FLUSH_CHECKS) == sum(len(module.ALL) for module in modules)


class Open(OwnFlush):
    """Shows the flush's model all tools of the host."""

    async def flush(self, source: FlushSourceTurn, run_turn: Any) -> FlushOutcome:
        async def run(turn: FlushTurn) -> FlushTurnResult:
            more = tuple(replace(turn.tools[0], name=tool.name) for tool in source.host_tools)
            return await run_turn(replace(turn, tools=(*turn.tools, *more)))  # type: ignore[no-any-return]

        return await super().flush(source, run)


class Within(OwnFlush):
    """Runs the flush in the session that it is of, as its owner."""

    async def flush(self, source: FlushSourceTurn, run_turn: Any) -> FlushOutcome:
        async def run(turn: FlushTurn) -> FlushTurnResult:
            own: Any = {"session_key": source.session_key, "session_id": source.session_id, "sender_is_owner": True}
            return await run_turn(replace(turn, **own))  # type: ignore[no-any-return]

        return await super().flush(source, run)


class Trusting(OwnFlush):
    """Takes a turn that came to its end for a flush that has saved something."""

    async def flush(self, source: FlushSourceTurn, run_turn: Any) -> FlushOutcome:
        async def run(turn: FlushTurn) -> FlushTurnResult:
            result = await run_turn(turn)
            return result if result.error else FlushTurnResult(visible_text="NO_REPLY")

        return await super().flush(source, run)


class Retrying(OwnFlush):
    """Forgets what the row says of earlier flushes."""

    async def flush(self, source: FlushSourceTurn, run_turn: Any) -> FlushOutcome:
        row = self.row(source.session_key)
        assert row is not None
        self.write(replace(row, memory_flush=None))
        return await super().flush(source, run_turn)


class Configured(OwnFlush):
    """Takes every model's window for one of 100,000 tokens."""

    async def flush(self, source: FlushSourceTurn, run_turn: Any) -> FlushOutcome:
        return await super().flush(replace(source, context_window_tokens=100_000), run_turn)


class Falling(OwnFlush):
    """Lets the session's fallbacks take over from a pinned model."""

    async def flush(self, source: FlushSourceTurn, run_turn: Any) -> FlushOutcome:
        async def run(turn: FlushTurn) -> FlushTurnResult:
            return await run_turn(replace(turn, fallbacks=source.fallbacks))  # type: ignore[no-any-return]

        return await super().flush(source, run)


class Nobodys(OwnFlush):
    """Takes no heed of whose plan it is: a sidecar is made the owner."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.config = config

    def register(self, plugin_id: str, capability: MemoryCapability) -> None:
        if plugin_id != "scripted":
            plugins = {"slots": {"memory": plugin_id}}
            tools = self.host.tools
            self.host = type(self.host)({**self.config, "plugins": plugins}, self.host.rows)
            self.host.tools = tools
        super().register(plugin_id, capability)


@pytest.mark.parametrize(
    ("host", "caught"),
    [
        (Open, {"check_only_declared_tools_of_the_owner_are_shown"}),
        (Within, {"check_the_flush_has_a_session_of_its_own"}),
        (
            Trusting,
            {
                "check_only_evidence_completes_a_flush",
                "check_the_third_failure_ends_the_cycle",
                "check_flush_ids_name_the_cycle",  # there is no retry to compare with
            },
        ),
        (Retrying, {"check_a_cycle_is_flushed_once", "check_the_third_failure_ends_the_cycle"}),
        (Configured, {"check_timing_follows_the_table"}),
        (Falling, {"check_models_are_pinned_by_arm"}),
        (Nobodys, {"check_a_sidecars_tools_plan_is_skipped"}),
    ],
)
def test_flushes_that_break_a_rule_are_caught(host: type[OwnFlush], caught: set[str]) -> None:
    """By the checks of that rule and by no other; each says the criterion's number."""
    report = run_all(flush=host)
    found = {finding.check: finding.why for finding in report.findings}
    assert set(found) == caught, found
    assert all(why.startswith("criterion ") for why in found.values()), found
    assert set(report.ran) == set(FLUSH_CHECKS)


def test_a_host_that_raises_instead_of_skipping_is_caught() -> None:
    """Compaction must go on whatever comes of a flush; what is raised is named by its kind alone."""

    class Raising(OwnFlush):
        async def flush(self, source: FlushSourceTurn, run_turn: Any) -> FlushOutcome:
            outcome = await super().flush(source, run_turn)
            if outcome.status == "failed":
                raise RuntimeError("a text of a memory")
            return outcome

    found = {finding.check: finding.why for finding in run_all(flush=Raising).findings}
    assert found["check_a_run_error_is_a_failure"] == "unexpected RuntimeError"
    with pytest.raises(RuntimeError):
        FLUSH_CHECKS["check_the_third_failure_ends_the_cycle"](Raising)
    with pytest.raises(Broken):
        FLUSH_CHECKS["check_a_cycle_is_flushed_once"](Retrying)
