"""Checks of a flush's own turn: its session, its audience, what counts as done, and what the row says afterwards
(criteria 94 to 97, 100, 102 to 104). Not here: when it is due (``flush_checks``)."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from memory_sqlite.context.conformance_kit import must
from memory_sqlite.host.conformance.flush_subject import (
    PLAN,
    REVISION,
    SPOKEN,
    FlushStage,
    MakeFlush,
)
from memory_sqlite.host.conformance.subject import KEY, SESSION_ID
from memory_sqlite.host.flush.shapes import FlushTurnResult
from memory_sqlite.runtime.plugins import ToolContext, ToolResult

NO_EVIDENCE = "no persistence tool call succeeded"


def check_the_flush_has_a_session_of_its_own(make: MakeFlush) -> None:
    """Criterion 94: detached, not the owner's, and nothing it does is in the source's transcript or rows."""
    stage = FlushStage(make)
    said: dict[str, Any] = {"role": "user", "content": [{"type": "text", "text": "we chose lisbon"}]}
    transcript, rows = [said], stage.host.row(KEY)

    stage.calls = ("keep",)
    stage.flush(transcript=transcript)
    must(bool(stage.turns), "criterion 94: a flush that is due runs no turn")
    turn = stage.turns[-1]
    must(
        turn.session_key != KEY and turn.session_id != SESSION_ID,
        "criterion 94: the flush runs in the source's session",
    )
    must(turn.sender_is_owner is False, "criterion 94: the flush's turn is the owner's")
    must(stage.host.row(turn.session_key) is None, "criterion 94: the flush's session has a row")
    must(turn.transcript_prompt == "", "criterion 94: the flush's prompt is put into a transcript")
    must(len(turn.transcript) == 1, f"criterion 94: of one message {len(turn.transcript)} are shown")
    must(turn.transcript[0]["content"] is not said["content"], "criterion 94: the source's transcript itself is given")
    must(transcript == [said], "criterion 94: the source's transcript was changed")
    after = stage.host.row(KEY)
    assert rows is not None
    same = after is not None and replace(after, memory_flush=None) == rows
    must(same, "criterion 94: more of the source's row was changed than what it says of its flushes")


def check_tools_get_the_delegated_audience_and_the_flush_id(make: MakeFlush) -> None:
    """Criterion 95: an audience for the flush's session alone, only while it runs, and nothing else of the flush."""
    stage = FlushStage(make)
    seen: list[str] = []

    def during(context: ToolContext) -> None:
        seen.append("called")
        must(context.memory_audience is not None, "criterion 95: a tool gets no audience")
        key = context.session_key
        if not _holds(lambda: stage.host.assert_current(context.memory_audience, key)):
            seen.append("the audience is not current for the flush's session")
        if _holds(lambda: stage.host.assert_current(context.memory_audience, KEY)):
            seen.append("the audience is current for the source's session")

    stage.keep.during, stage.calls = during, ("keep",)
    outcome = stage.flush()
    must(seen == ["called"], f"criterion 95: {seen[-1] if seen else 'the tool is not called'}")
    arguments, context = stage.keep.made[-1]
    must(context.sender_is_owner is False, "criterion 95: a tool is told that the owner is speaking")
    must(context.memory_flush is not None, "criterion 95: a tool gets no flush id")
    assert context.memory_flush is not None
    fields = {name: value for name, value in vars(context.memory_flush).items() if value is not None}
    must(list(fields.values()) == [outcome.flush_id], f"criterion 95: of the flush a tool is told {sorted(fields)}")
    must(not arguments, "criterion 95: a tool is given arguments that the model did not give")
    over = _holds(lambda: stage.host.assert_current(context.memory_audience, context.session_key))
    must(not over, "criterion 95: after the flush its audience is current")


def check_native_tools_without_an_audience_are_skipped(make: MakeFlush) -> None:
    """Criterion 96: no turn, no warning, no failure."""
    stage = FlushStage(make)
    stage.again(chat_type=None)  # a session of which nothing is known grants nothing
    outcome = stage.flush()
    must(outcome.status == "skipped" and not stage.turns, f"criterion 96: without an audience it is {outcome.status}")
    must(not outcome.warnings, "criterion 96: a missing audience is a warning")
    row = stage.host.row(KEY)
    must(row is not None and row.memory_flush is None, "criterion 96: a missing audience counts as a failure")


def check_flush_ids_name_the_cycle(make: MakeFlush) -> None:
    """Criterion 97: the same over a retry, another for the next cycle and another life. Section 3.8 says how."""
    stage = FlushStage(make)
    stage.says = SPOKEN
    first = [stage.flush().flush_id for _ in range(2)]
    expected = _flush_id(SESSION_ID, REVISION, 0)
    must(first == [expected] * 2, f"criterion 97: the ids of a cycle and its retry are {first}, not {expected}")
    stage.again(compaction_count=1)
    following, expected = stage.flush().flush_id, _flush_id(SESSION_ID, REVISION, 1)
    must(following == expected, f"criterion 97: the id of the next cycle is {following}, not {expected}")
    stage.again(lifecycle_revision="r2", memory_flush=None)
    other = stage.flush(lifecycle_revision="r2").flush_id
    must(other == _flush_id(SESSION_ID, "r2", 1), f"criterion 97: the id of another life is {other}")


def check_only_evidence_completes_a_flush(make: MakeFlush) -> None:
    """Criteria 100 and 102: a persistence success, or a silent last word; nothing else, and its lack is recorded."""
    silent, spoken = FlushTurnResult(visible_text="NO_REPLY"), SPOKEN
    earlier = FlushTurnResult(payloads=("NO_REPLY", "I have looked at it."))
    error, marked = ToolResult("no", is_error=True), ToolResult("no", {"status": "error"})
    table: tuple[tuple[str, tuple[str, ...], Any, FlushTurnResult, bool], ...] = (
        ("a persistence success", ("keep",), ToolResult("kept"), spoken, True),
        ("a silent last word", (), None, silent, True),
        ("a success after a failure", ("look", "keep"), ToolResult("kept"), spoken, True),
        ("nothing", (), None, spoken, False),
        ("a lookup", ("look",), None, spoken, False),
        ("an error result", ("keep",), error, spoken, False),
        ("an error in the details", ("keep",), marked, spoken, False),
        ("a tool that raises", ("keep",), RuntimeError("no"), spoken, False),
        ("an earlier silent line", (), None, earlier, False),
    )
    for what, calls, answer, says, completes in table:
        stage = FlushStage(make)
        stage.calls, stage.says = calls, says
        if answer is not None:
            stage.keep.answer = answer
        outcome = stage.flush()
        expected = "completed" if completes else "failed"
        must(outcome.status == expected, f"criterion 100: with {what} the flush is {outcome.status}, not {expected}")
        if not completes:
            must(outcome.reason == NO_EVIDENCE, f"criterion 102: with {what} the reason is {outcome.reason!r}")
            _failures(stage, 1, f"criterion 102: with {what}")


def check_a_run_error_is_a_failure(make: MakeFlush) -> None:
    """Criterion 102: one that is raised, and one that is told; also when something was kept before."""
    for says in (RuntimeError("no model"), FlushTurnResult(error="no model")):
        stage = FlushStage(make)
        stage.calls, stage.says = ("keep",), says
        status = stage.flush().status
        must(status == "failed", f"criterion 102: a run error makes the flush {status}")
        _failures(stage, 1, "criterion 102: after a run error")


def check_a_cycle_is_flushed_once(make: MakeFlush) -> None:
    """Criterion 103: until the compaction count advances."""
    stage = FlushStage(make)
    statuses = [stage.flush().status for _ in range(2)]
    must(statuses == ["completed", "skipped"], f"criterion 103: two flushes of one cycle are {statuses}")
    stage.again(compaction_count=1)
    status = stage.flush().status
    must(status == "completed", f"criterion 103: after a compaction the flush is {status}")


def check_the_third_failure_ends_the_cycle(make: MakeFlush) -> None:
    """Criterion 104: nothing runs in it any more, nothing is raised, and the next cycle is flushed."""
    stage = FlushStage(make, PLAN)
    stage.says = SPOKEN
    for number in (1, 2):
        status = stage.flush().status
        must(status == "failed", f"criterion 104: failure {number} of a cycle is {status}")
        _failures(stage, number, "criterion 104:")
    stage.flush()
    must(len(stage.turns) == 3, f"criterion 104: three attempts ran {len(stage.turns)} turns")
    status = stage.flush().status
    must(status == "skipped" and len(stage.turns) == 3, f"criterion 104: after three failures a fourth is {status}")
    stage.again(compaction_count=1)
    stage.flush()
    must(len(stage.turns) == 4, "criterion 104: the next cycle is not flushed")


def _failures(stage: FlushStage, count: int, why: str) -> None:
    row = stage.host.row(KEY)
    record = row.memory_flush if row is not None else None
    seen = (record.kind, record.failure_count) if record is not None else None
    must(seen == ("failed", count), f"{why} the row says {seen}, not {('failed', count)}")


def _holds(check: Callable[[], None]) -> bool:
    try:
        check()
    except Exception:
        return False
    return True


def _flush_id(session_id: str, revision: str, count: int) -> str:
    """Written out from section 3.8, so that a host's own is compared with the contract's and not with itself."""
    told = f"openclaw-memory-flush\0{session_id}\0{revision}\0{count}"
    digest = bytearray(hashlib.sha256(told.encode("utf-8")).digest()[:16])
    digest[6], digest[8] = digest[6] & 0x0F | 0x80, digest[8] & 0x3F | 0x80
    return str(uuid.UUID(bytes=bytes(digest)))


ALL = (
    check_the_flush_has_a_session_of_its_own,
    check_tools_get_the_delegated_audience_and_the_flush_id,
    check_native_tools_without_an_audience_are_skipped,
    check_flush_ids_name_the_cycle,
    check_only_evidence_completes_a_flush,
    check_a_run_error_is_a_failure,
    check_a_cycle_is_flushed_once,
    check_the_third_failure_ends_the_cycle,
)
