"""The conformance kit for hosts of context engines: ours passes, and hosts that break a rule are caught by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory
from memory_sqlite.context.shapes import AssembleResult
from memory_sqlite.host import conformance
from memory_sqlite.host.conformance import ENGINE_CHECKS, Broken, OwnEngineHost, engine_checks, run_all
from memory_sqlite.host.conformance.engine_subject import OwnTurn
from memory_sqlite.host.engines import drain
from memory_sqlite.host.engines.transcript_reader import read_turn

Make = Callable[..., Callable[[], OwnEngineHost]]


@pytest.fixture
def over(tmp_path: Path) -> Iterator[Make]:
    """Makes of a class of hosts what makes fresh ones, each over a memory of its own."""
    with ExitStack() as opened:
        made: list[Memory] = []

        def over(kind: type[OwnEngineHost] = OwnEngineHost) -> Callable[[], OwnEngineHost]:
            def make() -> OwnEngineHost:
                made.append(opened.enter_context(Memory.open(tmp_path / f"data {len(made)}")))
                return kind(made[-1].turn_outbox())

            return make

        yield over


@pytest.mark.parametrize("name", sorted(ENGINE_CHECKS))
def test_our_engine_host_passes(over: Make, name: str) -> None:
    """Each check alone, as a third party's runner would call it."""
    ENGINE_CHECKS[name](over())


def test_every_engine_host_check_is_listed_once() -> None:
    """A function that is written and not listed would never run."""
    modules = (conformance.engine_checks, conformance.delivery_checks)
    written = {name for module in modules for name in vars(module) if name.startswith("check_")}
    assert written == set(ENGINE_CHECKS)
    assert len(ENGINE_CHECKS) == sum(len(module.ALL) for module in modules)


def test_a_host_without_engines_is_told_what_was_not_run() -> None:
    """Parts that a host does not have are listed and found nothing against."""
    report = run_all()
    assert report.findings == () and report.ran == ()
    assert set(ENGINE_CHECKS) < set(report.not_run)


class Unfenced(OwnEngineHost):
    """Shows an engine the transcript as it is, and watches nothing."""

    async def begin(self, *given: Any, **more: Any) -> OwnTurn:
        turn = await super().begin(*given, **more)
        if turn.turn._fence is not None:
            self.host._fences.lift(turn.turn._fence)
        return turn


class Generous(OwnEngineHost):
    """Gives an engine every field of the host's."""

    def register(self, engine_id: str, plugin_id: str, factory: Any) -> None:
        def whole(context: Any) -> Any:
            engine = factory(context)
            engine.info = replace(engine.info, accepted_host_params=None)
            return engine

        super().register(engine_id, plugin_id, whole)


class Trusting(OwnEngineHost):
    """Takes every engine for a durable one."""

    def register(self, engine_id: str, plugin_id: str, factory: Any) -> None:
        def trusted(context: Any) -> Any:
            engine = factory(context)
            engine.info = replace(engine.info, transcript_semantics=engine_checks.DURABLE)
            return engine

        super().register(engine_id, plugin_id, trusted)


class Optimist(OwnEngineHost):
    """Commits what did not end well, too."""

    async def begin(self, *given: Any, **more: Any) -> OwnTurn:
        turn = await super().begin(*given, **more)

        async def end(how: str) -> None:
            await turn.succeed("half an answer")

        turn.end = end  # type: ignore[method-assign,assignment]
        return turn


class Lossy(OwnEngineHost):
    """Forgets its outbox when its process ends."""

    async def restart(self) -> None:
        for key in ("t1", "t2"):
            row = self.outbox.row(key)
            if row is not None and row.state != "admitted":
                self.outbox.acknowledge(key)
        await super().restart()


class Hasty(OwnEngineHost):
    """Tells an engine of messages as they come."""

    async def begin(self, *given: Any, **more: Any) -> OwnTurn:
        turn = await super().begin(*given, **more)
        if not turn.legacy:
            engine: Any = turn.turn.engine.engine
            await engine.ingest(session_id="s", message={"role": "user", "content": given[1]})
        return turn


class Blind(OwnEngineHost):
    """Lets an engine's answer stand, whatever it is, and knows no quarantine."""

    def register(self, engine_id: str, plugin_id: str, factory: Any) -> None:
        def tolerant(context: Any) -> Any:
            engine = factory(context)
            plain = engine.assemble

            async def assemble(**given: Any) -> Any:
                try:
                    answer = await plain(**given)
                except RuntimeError:
                    answer = None
                return answer if isinstance(answer, AssembleResult) else AssembleResult((), 0)

            engine.assemble = assemble
            return engine

        super().register(engine_id, plugin_id, tolerant)


@pytest.mark.parametrize(
    ("host", "caught"),
    [
        (
            Unfenced,
            {"check_reads_end_before_the_admitted_entry", "check_a_broken_fence_degrades_only_that_turn"},
        ),
        (Generous, {"check_undeclared_host_params_are_left_out"}),
        (Trusting, {"check_undeclared_engines_run_the_turn_on_legacy"}),
        (Optimist, {"check_turns_that_did_not_end_well_are_never_committed"}),
        (Lossy, {"check_accepted_turns_outlive_the_process"}),
        (Hasty, {"check_durable_turns_are_told_by_commit_alone"}),
        (
            Blind,
            {"check_failing_engines_leave_the_user_his_turn", "check_an_abort_is_no_failure_of_the_engine"},
        ),
    ],
)
def test_hosts_that_break_a_rule_are_caught(over: Make, host: type[OwnEngineHost], caught: set[str]) -> None:
    """By the checks of that rule; each says the criterion's number."""
    for name in sorted(caught):
        with pytest.raises(Broken, match=r"^criterion 1\d\d: "):
            ENGINE_CHECKS[name](over(host))


def test_a_broken_host_is_caught_by_no_other_check(over: Make) -> None:
    """What it does well is not held against it."""
    report = run_all(engines=over(Generous))
    assert [finding.check for finding in report.findings] == ["check_undeclared_host_params_are_left_out"]
    assert set(report.ran) == set(ENGINE_CHECKS)


def test_a_turn_without_its_last_message_is_caught(over: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The range that a host commits is looked at whole."""
    monkeypatch.setattr(drain, "read_turn", lambda *given: read_turn(*given)[:-1])
    with pytest.raises(Broken, match="criterion 112: of a turn of 3 messages 2 are committed"):
        ENGINE_CHECKS["check_commit_gets_the_whole_turn_and_nothing_else"](over())


@pytest.mark.parametrize(
    "name",
    [
        "check_an_unknown_status_keeps_the_turn_queued",
        "check_turns_of_a_session_are_committed_in_order",
        "check_pending_turns_degrade_the_next",
    ],
)
def test_a_host_that_takes_any_answer_for_yes_is_caught(over: Make, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """By every check in which an engine answers otherwise."""
    monkeypatch.setattr(drain, "_status", lambda answer: "committed")
    with pytest.raises(Broken, match=r"^criterion 1\d\d: "):
        ENGINE_CHECKS[name](over())
