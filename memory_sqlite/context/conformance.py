"""A conformance kit for context engines: what an engine owes its host, as plain functions for any test runner.

Lives here: the checks of criteria 114, 115 (all but the crash, which needs a process of its own), 124, 126 and 129, and
``run_all``. Each takes what makes a fresh ``EngineUnderTest``, the adapter that an engine's author writes, and raises
``Broken`` with the criterion's number and what was seen. Not here: that adapter's shape (``conformance_kit``), what a
host owes an engine (``host.conformance``), a test runner (none is imported).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final

from memory_sqlite.context.conformance_kit import (
    KEY,
    PATIENCE_S,
    READS_MAX,
    SESSION_ID,
    Broken,
    Check,
    EngineUnderTest,
    Finding,
    HostTranscript,
    MakeEngine,
    Report,
    found_by,
    in_loop,
    must,
    said,
    texts,
    turn,
)
from memory_sqlite.context.shapes import DeltaReset, DeltaUnavailable
from memory_sqlite.runtime.signals import AbortSignal

__all__ = [
    "CHECKS",
    "KEY",
    "NEEDS",
    "SESSION_ID",
    "Broken",
    "Check",
    "EngineUnderTest",
    "Finding",
    "MakeEngine",
    "Report",
    "run_all",
]


def _member(answer: Any, name: str) -> Any:
    return answer.get(name) if isinstance(answer, Mapping) else getattr(answer, name, None)


async def _status(commit: Awaitable[Any]) -> Any:
    return _member(await commit, "status")


# --- committing -------------------------------------------------------------------------------------------------------


def check_first_commit_is_committed_and_repeats_are_duplicates(make: MakeEngine) -> None:
    """Criterion 114: also by another engine over the same store, and whatever the repeat carries."""

    async def work() -> None:
        with make() as subject:
            engine = subject.engine()
            for number in (1, 2):
                seen = await _status(engine.commit_turn(**turn(number)))
                must(seen == "committed", f"criterion 114: the first commit of a key answers {seen!r}")
            before = list(subject.remembered(KEY, SESSION_ID))
            must(before == texts(1, 2), f"criterion 114: of two committed turns {len(before)} texts are stored, not 4")
            for again in (engine, subject.engine()):
                for number, messages in ((1, said(1)), (2, said(9))):
                    seen = await _status(again.commit_turn(**turn(number, messages=messages)))
                    must(seen == "duplicate", f"criterion 114: a repeat of a key answers {seen!r}")
            after = list(subject.remembered(KEY, SESSION_ID))
            must(after == before, "criterion 114: a repeat changes what is stored")

    in_loop(work)


def check_a_key_is_committed_once_by_many_at_once(make: MakeEngine) -> None:
    """Criterion 114: four calls of one key at the same time, by two engines."""

    async def work() -> None:
        with make() as subject:
            engines = (subject.engine(), subject.engine())
            calls = [_status(engines[place % 2].commit_turn(**turn())) for place in range(4)]
            seen = sorted(map(str, await asyncio.gather(*calls)))
            must(seen == ["committed", *["duplicate"] * 3], f"criterion 114: four commits at once answer {seen}")
            must(list(subject.remembered(KEY, SESSION_ID)) == texts(1), "criterion 114: the turn is not stored once")

    in_loop(work)


def check_key_and_turn_are_stored_together(make: MakeEngine) -> None:
    """Criterion 115: a commit that is cancelled, at each of its first steps, leaves both or neither."""

    async def work() -> None:
        for steps in range(4):
            with make() as subject:
                committing = asyncio.ensure_future(subject.engine().commit_turn(**turn()))
                for _ in range(steps):
                    await asyncio.sleep(0)
                committing.cancel()
                await asyncio.wait({committing})
                seen = await _status(subject.engine().commit_turn(**turn()))
                must(seen in ("committed", "duplicate"), f"criterion 115: after a cancelled commit it answers {seen!r}")
                stored = list(subject.remembered(KEY, SESSION_ID))
                why = f"criterion 115: cancelled after {steps} steps and {seen}, {len(stored)} texts are stored, not 2"
                must(stored == texts(1), why)

    in_loop(work)


# --- before a prompt --------------------------------------------------------------------------------------------------


def check_assembled_messages_are_within_the_budget(make: MakeEngine) -> None:
    """Criterion 124: a list of messages with the newest in it, an estimate that is not too low, both within the budget.

    No tokenizer makes fewer tokens of plain words than there are words.
    """

    async def work() -> None:
        with make() as subject:
            engine, history = subject.engine(), said(*range(1, 201))
            for budget in (300, 900):
                result = await engine.assemble(
                    session_id=SESSION_ID, session_key=KEY, messages=history, token_budget=budget
                )
                kept, estimate = _member(result, "messages"), _member(result, "estimated_tokens")
                is_list = isinstance(kept, Sequence) and all(isinstance(one, Mapping) and "role" in one for one in kept)
                must(is_list, "criterion 124: what is assembled is no list of messages")
                must(type(estimate) is int, f"criterion 124: the estimate of tokens is {type(estimate).__name__}")
                words = sum(len(str(one.get("content", "")).split()) for one in kept)
                must(words <= budget, f"criterion 124: {words} words are kept within {budget} tokens")
                must(words <= estimate <= budget, f"criterion 124: {estimate} said of {words} words within {budget}")
                newest = history[-1]["content"]
                must(
                    any(newest in str(one.get("content")) for one in kept), "criterion 124: the newest message is gone"
                )

    in_loop(work)


# --- compaction -------------------------------------------------------------------------------------------------------


def check_compact_does_nothing_for_who_has_aborted(make: MakeEngine) -> None:
    """Criterion 126: aborted before it is called, it raises or says that nothing was compacted, and asks nobody."""

    async def work() -> None:
        entered: list[Any] = []

        async def compaction(**given: Any) -> Any:
            entered.append(given)
            return {"ok": True, "compacted": True}

        with make() as subject:
            signal = AbortSignal()
            signal.abort()
            engine = subject.engine(compaction=compaction)
            compacting = asyncio.ensure_future(
                engine.compact(session_id=SESSION_ID, session_key=KEY, abort_signal=signal)
            )
            await _settled(compacting, "criterion 126: an aborted compaction goes on")
            answered = compacting.cancelled() or compacting.exception() or not _member(compacting.result(), "compacted")
            must(bool(answered), "criterion 126: an aborted compaction says that it compacted")
            must(not entered, "criterion 126: an aborted compaction asks the host to compact")

    in_loop(work)


def check_compact_stops_on_abort(make: MakeEngine) -> None:
    """Criterion 126: also while the host's compaction hangs."""

    async def work() -> None:
        inside = asyncio.Event()

        async def compaction(**given: Any) -> Any:
            inside.set()
            await asyncio.Event().wait()

        with make() as subject:
            signal, engine = AbortSignal(), subject.engine(compaction=compaction)
            compacting = asyncio.ensure_future(
                engine.compact(session_id=SESSION_ID, session_key=KEY, abort_signal=signal)
            )
            entered = asyncio.ensure_future(inside.wait())
            await asyncio.wait({compacting, entered}, return_when=asyncio.FIRST_COMPLETED)
            entered.cancel()
            must(inside.is_set(), "criterion 126: compact does not hand on to the host's compaction")
            signal.abort()
            await _settled(compacting, "criterion 126: an aborted compaction waits for the host's")

    in_loop(work)


async def _settled(task: asyncio.Future[Any], why: str) -> None:
    done, _ = await asyncio.wait({task}, timeout=PATIENCE_S)
    if not done:
        task.cancel()
    must(bool(done), why)


# --- following a host's transcript ------------------------------------------------------------------------------------


def check_reset_rebuilds_from_the_new_cursor(make: MakeEngine) -> None:
    """Criterion 129: what the transcript shows after a reset is read from the reset's cursor on."""

    async def work() -> None:
        host = HostTranscript(1, 2)
        with make() as subject:
            engine = subject.engine(read_delta=host.read)
            await engine.bootstrap(session_id=SESSION_ID, session_key=KEY, session_file="conformance")
            stored = list(subject.remembered(KEY, SESSION_ID))
            must(stored == texts(1, 2), f"criterion 129: of a transcript of 4 messages {len(stored)} are stored")
            host.holds(3, 4)
            host.answers, before = [DeltaReset("0", "generation_mismatch")], len(host.asked)
            await engine.bootstrap(session_id=SESSION_ID, session_key=KEY, session_file="conformance")
            must("0" in host.asked[before + 1 :], "criterion 129: after a reset its cursor is not read from")
            stored = list(subject.remembered(KEY, SESSION_ID))
            must(set(texts(3, 4)) <= set(stored), "criterion 129: what a rewritten transcript shows is not stored")
            must(len(set(stored)) == len(stored), "criterion 129: after a reset something is stored twice")

    in_loop(work)


def check_unavailable_is_retried_later(make: MakeEngine) -> None:
    """Criterion 129: the call ends without raising or asking on, and a later one reads on from where it was."""

    async def work() -> None:
        host = HostTranscript(1, 2, 3)
        host.answers = [None, DeltaUnavailable()]
        with make() as subject:
            engine = subject.engine(read_delta=host.read)
            where: Mapping[str, Any] = {"session_id": SESSION_ID, "session_key": KEY}
            await engine.bootstrap(**where, session_file="conformance")
            must(len(host.asked) <= READS_MAX, "criterion 129: an unavailable transcript is asked for without end")
            await engine.bootstrap(**where, session_file="conformance")
            stored = list(subject.remembered(KEY, SESSION_ID))
            must(stored == texts(1, 2, 3), f"criterion 129: after it was unavailable {len(stored)} of 6 are stored")
            must(host.asked[1:3] == ["3", "3"], "criterion 129: it is not read on from where it was")

    in_loop(work)


CHECKS: Final[Mapping[str, Check]] = {
    check.__name__: check
    for check in (
        check_first_commit_is_committed_and_repeats_are_duplicates,
        check_a_key_is_committed_once_by_many_at_once,
        check_key_and_turn_are_stored_together,
        check_assembled_messages_are_within_the_budget,
        check_compact_does_nothing_for_who_has_aborted,
        check_compact_stops_on_abort,
        check_reset_rebuilds_from_the_new_cursor,
        check_unavailable_is_retried_later,
    )
}
"""Every check by its name. A check takes what makes a fresh subject."""

NEEDS: Final[Mapping[str, str]] = {
    "check_compact_stops_on_abort": "delegation",
    "check_reset_rebuilds_from_the_new_cursor": "following",
    "check_unavailable_is_retried_later": "following",
}
"""Which feature a check needs; the others need none."""


def run_all(make: MakeEngine) -> Report:
    """Run every check that the engine's features allow. ``findings`` is empty for an engine that conforms."""
    with make() as subject:
        features = subject.features
    names = [name for name in CHECKS if name not in NEEDS or NEEDS[name] in features]
    found = [found_by(CHECKS[name], make) for name in names]
    return Report(
        tuple(finding for finding in found if finding is not None),
        tuple(names),
        tuple(name for name in CHECKS if name not in names),
    )
