"""Checks of hosting a context engine: whom a turn runs on, what an engine is given, quarantine, and its end (criteria
107 to 111, 113, 121 to 123, 125, 127). Not here: delivery of accepted turns (``delivery_checks``)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from memory_sqlite.context.conformance_kit import PATIENCE_S, must
from memory_sqlite.context.shapes import ADVANCEMENT_IDEMPOTENCY, CURRENT_TURN_FENCE, TranscriptSemantics
from memory_sqlite.host.conformance.engine_subject import (
    DURABLE,
    ENGINE,
    SESSION,
    MakeEngineHost,
    ScriptedEngines,
    Theatre,
    settled,
)
from memory_sqlite.host.conformance.subject import refused, run
from memory_sqlite.runtime.signals import AbortSignal

HOST_FIELDS: Final = frozenset(
    {"session_key", "prompt", "runtime_settings", "session_target", "runtime_context", "abort_signal"}
)


def check_incomplete_engines_are_rejected_by_name(make: MakeEngineHost) -> None:
    """Criterion 107: what a factory's result lacks is named, and the user's turn runs without it."""

    async def work() -> None:
        for gap in ("info.id", "info.name", "ingest", "assemble", "compact"):
            engines = ScriptedEngines()
            if gap.startswith("info."):
                object.__setattr__(engines.info, gap.removeprefix("info."), " ")
            engines.lacking = frozenset({gap})
            stage = Theatre(make, engines)
            try:
                await stage.host.make(ENGINE)
            except Exception as error:
                must(gap in str(error), f"criterion 107: an engine without {gap} is rejected without naming it")
            else:
                must(False, f"criterion 107: an engine without {gap} is accepted")
            turn = await stage.whole("t1")
            must(turn.legacy and not engines.methods, f"criterion 107: an engine without {gap} is used")

    run(work)


def check_undeclared_host_params_are_left_out(make: MakeEngineHost) -> None:
    """Criterion 108: only what is declared passes, but for the abort signal of ``compact``."""

    async def work() -> None:
        stage = Theatre(make, ScriptedEngines(accepted_host_params=("sessionKey",)))
        turn = await stage.host.begin("t1", "hello", signal=AbortSignal())
        await turn.assemble()
        await turn.close()
        given = HOST_FIELDS & set(stage.engines.given("assemble"))
        must(given == {"session_key"}, f"criterion 108: assemble is given {sorted(given)}, declared is sessionKey")
        await stage.host.compact(SESSION, AbortSignal())
        given = HOST_FIELDS & set(stage.engines.given("compact"))
        must("abort_signal" in given, "criterion 108: compact loses its abort signal")
        must(given <= {"session_key", "abort_signal"}, f"criterion 108: compact is given {sorted(given)}")

    run(work)


def check_undeclared_engines_run_the_turn_on_legacy(make: MakeEngineHost) -> None:
    """Criterion 109: for the whole logical turn and its retries; the next turn tries the engine again."""

    async def work() -> None:
        partly = (
            None,
            TranscriptSemantics(CURRENT_TURN_FENCE, None),
            TranscriptSemantics(None, ADVANCEMENT_IDEMPOTENCY),
            DURABLE,
        )
        for semantics in partly:
            stage = Theatre(make, ScriptedEngines(semantics))
            stage.engines.lacking = frozenset({"commit_turn"}) if semantics is DURABLE else frozenset()
            turn = await stage.host.begin("t1", "hello")
            await turn.assemble()
            await turn.end("failed")
            await turn.close()
            must(turn.legacy and not stage.engines.methods, "criterion 109: an engine that is not durable runs a turn")
            stage.engines.info, stage.engines.lacking = ScriptedEngines().info, frozenset()
            again = await stage.host.begin("t1", "hello")
            await again.close()
            must(again.legacy, "criterion 109: the retry of a turn that ran on legacy runs on the engine")
            must(stage.host.configured() == ENGINE, "criterion 109: the configuration was changed")
            following = await stage.host.begin("t2", "hello")
            must(not following.legacy, "criterion 109: the next turn does not try the engine again")
            await following.close()

    run(work)


def check_reads_end_before_the_admitted_entry(make: MakeEngineHost) -> None:
    """Criterion 110: neither its arguments nor the transcript show an engine the running turn."""

    async def work() -> None:
        stage = Theatre(make)
        await stage.whole("t1")
        earlier = ["question of t1", "answer of t1"]
        turn = await stage.host.begin("t2", "the running question")
        shown = await turn.assemble()
        given = [message["content"] for message in stage.engines.given("assemble")["messages"]]
        must(given == earlier, f"criterion 110: an engine is given {len(given)} messages, before the turn are 2")
        must(shown[-1]["content"] == "the running question", "criterion 110: the model is not shown the user's message")
        read = list(await stage.host.readable(SESSION))
        must(read == earlier, f"criterion 110: an engine reads {len(read)} entries, before the turn are 2")
        await turn.succeed("an answer")
        await turn.close()
        must(len(await stage.host.readable(SESSION)) == 4, "criterion 110: after the turn its entries are not readable")

    run(work)


def check_a_broken_fence_degrades_only_that_turn(make: MakeEngineHost) -> None:
    """Criterion 111: the admitted entry is rewritten before the engine is asked, or after."""

    async def work() -> None:
        for asked in (False, True):
            stage = Theatre(make)
            turn = await stage.host.begin("t1", "hello")
            if asked:
                await turn.assemble()
            stage.host.rewrite(SESSION, "t1", "something else")
            if not asked:
                shown = await turn.assemble()
                unasked = "assemble" not in stage.engines.methods
                must(unasked, "criterion 111: an engine is asked although the admitted entry was rewritten")
                must(len(shown) == 1, "criterion 111: a degraded turn is not the legacy one")
            await turn.succeed("an answer")
            await turn.close()
            must(not stage.commits(), "criterion 111: a turn whose admitted entry was rewritten is committed")
            following = await stage.whole("t2")
            must(not following.legacy, "criterion 111: the turn after a broken fence is degraded, too")
            must(stage.commits() == ["t2"], "criterion 111: the turn after a broken fence is not committed")

    run(work)


def check_turns_that_did_not_end_well_are_never_committed(make: MakeEngineHost) -> None:
    """Criterion 113: nor at recovery."""

    async def work() -> None:
        ends: tuple[Any, ...] = ("failed", "aborted", "yielded", "timed_out")
        for end in ends:
            stage = Theatre(make)
            turn = await stage.host.begin("t1", "hello")
            await turn.assemble()
            await turn.end(end)
            await turn.close()
            await stage.host.restart()
            must(not stage.commits(), f"criterion 113: a turn that {end} is committed")

    run(work)


def check_pending_turns_degrade_the_next(make: MakeEngineHost) -> None:
    """Criterion 121: until the engine has acknowledged them; then they are in it, and it is used again."""

    async def work() -> None:
        stage = Theatre(make)
        stage.refusing()
        await stage.whole("t1")
        second = await stage.whole("t2")
        must(second.legacy, "criterion 121: a turn runs on the engine although an earlier one has not reached it")
        stage.refusing(False)
        third = await stage.whole("t3")
        must(not third.legacy, "criterion 121: a turn runs on legacy although the earlier ones can reach the engine")
        must(list(stage.engines.ledger) == ["t1", "t3"], f"criterion 121: committed is {list(stage.engines.ledger)}")

    run(work)


def check_durable_turns_are_told_by_commit_alone(make: MakeEngineHost) -> None:
    """Criterion 122."""

    async def work() -> None:
        stage = Theatre(make)
        await stage.whole("t1")
        told = set(stage.engines.methods) & {"after_turn", "ingest", "ingest_batch", "commit_turn"}
        must(told == {"commit_turn"}, f"criterion 122: of a durable turn the engine is told by {sorted(told)}")

    run(work)


def check_background_maintenance_delays_nobody(make: MakeEngineHost) -> None:
    """Criteria 123 and 127: the reply does not wait for it, and the engine is not disposed of under it."""

    async def work() -> None:
        stage = Theatre(make, ScriptedEngines(turn_maintenance_mode="background"))
        entered, gate, disposed = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def maintain() -> None:
            entered.set()
            await gate.wait()

        stage.engines.before = {"maintain": maintain, "dispose": disposed.set}
        turn = await stage.host.begin("t1", "hello")
        replied = await settled(turn.succeed("an answer"), PATIENCE_S)
        must(replied, "criterion 123: the reply waits for background maintenance")
        must(await settled(entered.wait(), PATIENCE_S), "criterion 123: background maintenance is not offered")
        closing = asyncio.ensure_future(turn.close())
        for _ in range(20):
            await asyncio.sleep(0)
        must(not disposed.is_set(), "criterion 123: an engine is disposed of while its maintenance runs")
        gate.set()
        await closing
        over = await settled(disposed.wait(), PATIENCE_S)
        must(over, "criterion 127: an engine is not disposed of after its retained work")

    run(work)


def check_failing_engines_leave_the_user_his_turn(make: MakeEngineHost) -> None:
    """Criterion 125: the unmodified messages are used, and runs of the process do without the engine."""

    async def work() -> None:
        def fails() -> None:
            raise RuntimeError("no")

        odd: Mapping[str, Any] = {"messages": "none"}
        for how in ("raises", "answers with what is no list of messages"):
            stage = Theatre(make)
            if how == "raises":
                stage.engines.before["assemble"] = fails
            else:
                stage.engines.answers["assemble"] = odd
            turn = await stage.host.begin("t1", "hello")
            shown = [message["content"] for message in await turn.assemble()]
            must(shown == ["hello"], f"criterion 125: an engine {how}, and the model is not shown the messages")
            must(turn.legacy, f"criterion 125: an engine {how}, and the turn stays on it")
            await turn.succeed("an answer")
            await turn.close()
            await stage.host.compact(SESSION)
            used = "compact" in stage.engines.methods
            must(not used, f"criterion 125: an engine {how} and is used for later runs of the process")

    run(work)


def check_an_abort_is_no_failure_of_the_engine(make: MakeEngineHost) -> None:
    """Criterion 125: the caller hears of it, and the engine stays in use."""

    async def work() -> None:
        stage, signal = Theatre(make), AbortSignal()

        def abort() -> None:
            signal.abort()
            raise RuntimeError("after the abort")

        stage.engines.before["assemble"] = abort
        turn = await stage.host.begin("t1", "hello", signal=signal)
        await refused(turn.assemble(), "criterion 125: an aborted turn is assembled")
        await turn.close()
        await stage.host.compact(SESSION)
        must("compact" in stage.engines.methods, "criterion 125: an abort of the caller puts the engine out of use")

    run(work)


def check_engines_are_disposed_of_once(make: MakeEngineHost) -> None:
    """Criterion 127: each instance, however often a turn is closed."""

    async def work() -> None:
        stage = Theatre(make)
        for turn_id in ("t1", "t2"):
            turn = await stage.whole(turn_id)
            await asyncio.gather(turn.close(), turn.close())
        counts = [engine.disposed for engine in stage.engines.made]
        must(bool(counts) and set(counts) == {1}, f"criterion 127: instances are disposed of {counts} times")

    run(work)


ALL = (
    check_incomplete_engines_are_rejected_by_name,
    check_undeclared_host_params_are_left_out,
    check_undeclared_engines_run_the_turn_on_legacy,
    check_reads_end_before_the_admitted_entry,
    check_a_broken_fence_degrades_only_that_turn,
    check_turns_that_did_not_end_well_are_never_committed,
    check_pending_turns_degrade_the_next,
    check_durable_turns_are_told_by_commit_alone,
    check_background_maintenance_delays_nobody,
    check_failing_engines_leave_the_user_his_turn,
    check_an_abort_is_no_failure_of_the_engine,
    check_engines_are_disposed_of_once,
)
