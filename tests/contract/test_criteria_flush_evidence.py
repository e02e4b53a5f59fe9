"""Criteria 100 and 102 to 105 of the contract: what completes a flush, what is recorded, where the file arm writes."""

from __future__ import annotations

import asyncio
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import errors, limits
from memory_sqlite.host.flush.evidence import NO_EVIDENCE
from memory_sqlite.host.flush.run import run_flush
from memory_sqlite.host.flush.shapes import FlushTurn, FlushTurnResult
from memory_sqlite.host.flush.silent import is_silent
from memory_sqlite.host.flush.target import Target
from memory_sqlite.host.session_rows import FlushRecord
from memory_sqlite.runtime.plugins import ToolResult
from memory_sqlite.runtime.signals import AbortSignal

from .flush_kit import (
    KEY,
    OWNER,
    ROW,
    SILENT,
    SPOKEN,
    Bench,
    Model,
    bench,
    calling,
    draft,
    names_of,
    tool_of,
)

DAY = "memory/2026-07-15.md"


# --- evidence


def test_criterion_100_a_persistence_success_completes() -> None:
    """Whatever is said afterwards."""
    made = bench()
    made.model.script = calling("keep")
    outcome = made.flush()
    assert (outcome.status, outcome.record) == ("completed", FlushRecord("succeeded", 0))
    assert made.row.memory_flush == FlushRecord("succeeded", 0)


@pytest.mark.parametrize(
    "result",
    [
        FlushTurnResult(visible_text="NO_REPLY", raw_text="I kept it"),
        FlushTurnResult(raw_text="no_reply"),
        FlushTurnResult(payloads=("I look first.", "NO_REPLY")),
        FlushTurnResult(visible_text="", raw_text="NO_REPLY", payloads=("words",)),
    ],
)
def test_criterion_100_a_silent_final_output_completes(result: FlushTurnResult) -> None:
    """The visible final text, else the raw one, else the last payload."""
    made = bench()
    made.model.script = result
    assert made.flush().status == "completed"


@pytest.mark.parametrize(
    "result",
    [
        FlushTurnResult(visible_text="Done.", raw_text="NO_REPLY", payloads=("NO_REPLY",)),
        FlushTurnResult(visible_text="NO_REPLY\nAlthough, one thing."),
        FlushTurnResult(raw_text="NO_REPLY, as I said: nothing"),
        FlushTurnResult(payloads=("NO_REPLY", "Something else.")),
        FlushTurnResult(visible_text=""),
        FlushTurnResult(),
    ],
)
def test_criterion_100_an_earlier_silent_line_does_not(result: FlushTurnResult) -> None:
    """Nor does saying nothing at all."""
    made = bench()
    made.model.script = result
    assert (made.flush().reason, made.row.memory_flush) == (NO_EVIDENCE, FlushRecord("failed", None, 1))


@pytest.mark.parametrize(
    "answer",
    [
        ToolResult("no", is_error=True),
        ToolResult("no", {"status": "error"}),
        ToolResult("no", {"status": "failed"}),
        ToolResult("no", {"isError": True}),
        ValueError("no"),
        errors.StoreBusy("no"),
        None,
    ],
)
def test_criterion_100_an_error_result_does_not(answer: Any) -> None:
    """Raised, marked, with an error status, or no result at all."""
    made = bench()

    async def nothing(*_: Any) -> Any:
        return None

    made.keep.answer = answer if answer is not None else nothing
    made.model.script = calling("keep")
    assert (made.flush().reason, len(made.keep.made)) == (NO_EVIDENCE, 1)


def test_criterion_100_a_lookup_does_not() -> None:
    """However often; nor reading a file."""
    made = bench()

    async def script(turn: FlushTurn) -> FlushTurnResult:
        await tool_of(turn, "look").call({})
        await tool_of(turn, "read").call({})
        return SPOKEN

    made.model.script = script
    assert (made.flush().reason, len(made.look.made)) == (NO_EVIDENCE, 1)


def test_criterion_100_a_pending_call_is_no_evidence() -> None:
    """It has to come back before the turn is over; afterwards it changes nothing."""
    made = bench()

    async def turn_end() -> Any:
        answered = asyncio.Event()
        late: list[asyncio.Task[Any]] = []

        async def slow(*_: Any) -> ToolResult:
            await answered.wait()
            return ToolResult("kept")

        async def script(turn: FlushTurn) -> FlushTurnResult:
            late.append(asyncio.create_task(tool_of(turn, "keep").call({})))  # type: ignore[arg-type]
            while not made.keep.made:
                await asyncio.sleep(0)
            return SPOKEN

        made.keep.answer = slow
        made.model.script = script
        outcome = await run_flush(made.host, made.source, run_turn=made.model, clock=made.clock)
        answered.set()
        with pytest.raises(errors.ProviderUnavailable):
            await late[0]
        return outcome

    assert asyncio.run(turn_end()).reason == NO_EVIDENCE
    assert made.row.memory_flush == FlushRecord("failed", None, 1)


@pytest.mark.parametrize(
    "text",
    [
        "NO_REPLY",
        "no_reply",
        "  No_Reply \n",
        "NO_REPLY NO_REPLY\nno_reply",
        "**NO_REPLY**",
        "`NO_REPLY`",
        "NO_REPLY.",
        "（NO_REPLY。）",
        '"NO_REPLY"',
        '{"action": "NO_REPLY"}',
        ' {"action":"NO_REPLY"} ',
        "<think>nothing new</think>NO_REPLY",
        "<thinking>a</thinking>\n<reasoning kind='x'>b\nc</reasoning>\nNO_REPLY",
    ],
)
def test_criterion_100_silent_forms(text: str) -> None:
    """The forms of 3.7."""
    assert is_silent(text)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "  ",
        "...",
        "NO_REPLYNO_REPLY",
        "NO_REPLY ok",
        "I say NO_REPLY",
        "NOREPLY",
        "NO REPLY",
        '{"action":"NO_REPLY","why":"x"}',
        '{"say":"NO_REPLY"}',
        '["x", "NO_REPLY"]',
        "<think>NO_REPLY</think>",
        "<think>NO_REPLY",
        "words <think>x</think> NO_REPLY",
        "[" * 100_000,
        "NO_REPLY " * 1_000,
    ],
)
def test_criterion_100_forms_that_are_not_silent(text: str | None) -> None:
    """A word more, and it was said."""
    assert not is_silent(text)


# --- records


@pytest.mark.parametrize("arm", ["tools", "file"])
def test_criterion_102_a_run_error_is_a_failure(arm: str, tmp_path: Path) -> None:
    """An error payload and a raised one, also after something was kept; the error's words are told nowhere."""
    for script in (FlushTurnResult(visible_text="NO_REPLY", error="rate_limit"), RuntimeError("secret words")):
        made = bench(draft(), workspace=tmp_path) if arm == "file" else bench()
        made.model.script = script
        outcome = made.flush()
        assert outcome.status == "failed" and "secret" not in str(outcome)
        assert made.row.memory_flush == FlushRecord("failed", None, 1)
    rubbish = bench()
    rubbish.model.script = calling("keep", "done")  # type: ignore[arg-type]
    assert (rubbish.flush().reason, rubbish.row.memory_flush) == (
        "run error: no result",
        FlushRecord("failed", None, 1),
    )
    kept = bench()
    kept.model.script = calling("keep", FlushTurnResult(error="overloaded"))
    assert (kept.flush().status, len(kept.keep.made)) == ("failed", 1)


def test_criterion_102_missing_evidence_is_a_failure_with_its_reason() -> None:
    """The exact words, and the cycle before stays known."""
    made = bench(row=replace(ROW, compaction_count=4, memory_flush=FlushRecord("succeeded", 3)))
    made.model.script = SPOKEN
    outcome = made.flush()
    assert (outcome.status, outcome.reason) == ("failed", "no persistence tool call succeeded")
    assert made.row.memory_flush == outcome.record == FlushRecord("failed", 3, 1)


def test_criterion_103_a_completed_cycle_is_flushed_once() -> None:
    """Until the compaction count advances."""
    made = bench()
    assert [made.flush().status for _ in range(3)] == ["completed", "skipped", "skipped"]
    assert made.flush().reason == "this cycle is flushed"
    assert len(made.model.turns) == 1
    made.host.rows.update(KEY, compaction_count=1)
    assert (made.flush().status, made.row.memory_flush) == ("completed", FlushRecord("succeeded", 1))


def test_criterion_103_two_at_once_are_one() -> None:
    """The second says so and is over; another session's is its own; a third, afterwards, finds the cycle flushed."""
    made = bench()
    other = "agent:main:other"
    made.host.rows.put(replace(ROW, key=other))
    outcomes: list[Any] = []

    async def again(key: str) -> str:
        source = replace(made.source, session_key=key)
        return (await run_flush(made.host, source, run_turn=made.model)).status

    async def script(turn: FlushTurn) -> FlushTurnResult:
        if not outcomes:
            outcomes.append(await again(KEY))
            outcomes.append(await again(other))
        return SILENT

    made.model.script = script
    assert made.flush().status == "completed"
    assert (outcomes, len(made.model.turns)) == (["skipped", "completed"], 2)
    assert made.flush().reason == "this cycle is flushed"


def test_criterion_103_the_count_is_that_at_the_start() -> None:
    """A compaction that completes meanwhile begins a cycle of its own."""
    made = bench()

    async def script(turn: FlushTurn) -> FlushTurnResult:
        made.host.rows.update(KEY, compaction_count=1)
        return SILENT

    made.model.script = script
    made.flush()
    assert made.row.memory_flush == FlushRecord("succeeded", 0)
    assert made.flush().status == "completed"


@pytest.mark.parametrize("failing", [SPOKEN, RuntimeError("x"), FlushTurnResult(error="x")])
def test_criterion_104_the_third_failure_ends_the_cycle(failing: Any) -> None:
    """In a row; the cycle then counts as flushed and compaction goes on, and the next one begins at none."""
    made = bench()
    made.model.script = failing
    assert [made.flush().status for _ in range(4)] == ["failed", "failed", "exhausted", "skipped"]
    assert made.row.memory_flush == FlushRecord("succeeded", 0) and len(made.model.turns) == 3
    made.host.rows.update(KEY, compaction_count=1)
    assert made.flush().status == "failed"
    assert made.row.memory_flush == FlushRecord("failed", 0, 1)


def test_criterion_104_a_success_begins_anew_and_cycles_do_not() -> None:
    """Two failures, a success, two failures: never three in a row. Failures over two cycles are in a row."""
    made = bench()
    for count, scripts in enumerate(([SPOKEN, SPOKEN, SILENT], [SPOKEN, SPOKEN, SPOKEN])):
        made.host.rows.update(KEY, compaction_count=count)
        told = []
        for script in scripts:
            made.model.script = script
            told.append(made.flush().status)
        assert told[:2] == ["failed", "failed"] and told[2] == ("completed" if count == 0 else "exhausted")
    over = bench()
    over.model.script = SPOKEN
    over.flush()
    over.host.rows.update(KEY, compaction_count=1)
    assert [over.flush().status for _ in range(2)] == ["failed", "exhausted"]
    assert over.row.memory_flush == FlushRecord("succeeded", 1)


def test_a_resolver_that_raises_three_times_ends_the_cycle() -> None:
    """It counts as a failure, and in a cycle that was given up no more."""
    made = bench(KeyError("x"))
    assert [made.flush().status for _ in range(4)] == ["failed", "failed", "exhausted", "failed"]
    assert made.row.memory_flush == FlushRecord("succeeded", 0)


@pytest.mark.parametrize("how", ["raised", "before", "after", "inner"])
def test_a_cancelled_flush_is_failed_and_counts_nothing(how: str) -> None:
    """The owner's abort, before, in and at the end of the run: the row is left alone."""
    signal = AbortSignal()
    made = bench(signal=signal)

    async def script(turn: FlushTurn) -> FlushTurnResult:
        if how == "inner":
            raise asyncio.CancelledError
        signal.abort()
        if how == "raised":
            turn.signal.raise_if_aborted()  # type: ignore[union-attr]
        return SILENT

    if how == "before":
        signal.abort()
    made.model.script = script
    outcome = made.flush()
    assert (outcome.status, outcome.reason, outcome.record) == ("failed", "cancelled", None)
    assert made.row.memory_flush is None


def test_cancelling_the_callers_task_ends_the_audience_and_leaves_the_row() -> None:
    """It goes on up, as everywhere in asyncio."""
    made = bench()
    audience: list[Any] = []

    async def turn_end() -> None:
        inside = asyncio.Event()

        async def script(turn: FlushTurn) -> FlushTurnResult:
            audience.append((turn.tool_context.memory_audience, turn.session_key))
            inside.set()
            await asyncio.Event().wait()
            return SILENT

        made.model.script = script
        task = asyncio.create_task(run_flush(made.host, made.source, run_turn=made.model))
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(turn_end())
    with pytest.raises(errors.CallerNotCurrent):
        made.host.audiences.assert_current(*audience[0])
    assert made.row.memory_flush is None


# --- the file arm


def filed(workspace: Path, path: str = DAY, **changes: Any) -> Bench:
    return bench(draft(relative_path=path), workspace=workspace, **changes)


@pytest.mark.parametrize(
    "path",
    ["/etc/notes.md", "../out.md", "memory/../../out.md", "~/out.md", "", " ", ".", "memory/", "a\0b", "..\\out.md"],
)
def test_criterion_105_targets_outside_are_refused(path: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is made, no model is asked, and the plugin is named."""
    place = tmp_path / "workspace"
    place.mkdir()
    made = filed(place, path)
    outcome = made.flush()
    assert (outcome.status, made.model.turns) == ("skipped", [])
    assert any(OWNER in record.getMessage() for record in caplog.records)
    assert sorted(tmp_path.rglob("*")) == [place]


def test_criterion_105_links_on_the_way_are_refused(tmp_path: Path) -> None:
    """A linked folder, a linked file, a file for a folder, a folder or a pipe for the file."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "real.md").write_text("mine")

    def try_with(name: str, make: Any) -> None:
        place = tmp_path / name
        (place / "memory").mkdir(parents=True)
        make(place)
        made = filed(place)
        assert made.flush().status in ("skipped", "failed"), name
        assert made.model.turns == [], name

    def linked_folder(place: Path) -> None:
        (place / "memory").rmdir()
        (place / "memory").symlink_to(outside)

    try_with("linked-folder", linked_folder)
    try_with("linked-file", lambda place: (place / DAY).symlink_to(outside / "real.md"))
    try_with("dangling", lambda place: (place / DAY).symlink_to(outside / "new.md"))
    try_with("folder", lambda place: (place / DAY).mkdir())
    try_with("pipe", lambda place: os.mkfifo(place / DAY))
    try_with("second-name", lambda place: os.link(outside / "real.md", place / DAY))
    assert sorted(path.name for path in outside.iterdir()) == ["real.md"]
    assert (outside / "real.md").read_text() == "mine"


def test_criterion_105_a_link_made_during_the_run_is_not_followed(tmp_path: Path) -> None:
    """The way is walked anew for each write."""
    place, outside = tmp_path / "workspace", tmp_path / "outside.md"
    place.mkdir()
    outside.write_text("mine\n")
    made = filed(place)

    async def script(turn: FlushTurn) -> FlushTurnResult:
        (place / DAY).unlink()
        (place / DAY).symlink_to(outside)
        result = await tool_of(turn, "write").call({"path": DAY, "content": "leak"})
        assert result.is_error
        return SILENT

    made.model.script = script
    made.flush()
    assert outside.read_text() == "mine\n"


def test_the_file_arm_makes_its_target_and_only_adds(tmp_path: Path) -> None:
    """Made in advance with its folders, for nobody else to read; a write that would replace becomes an addition."""
    made = filed(tmp_path)

    async def script(turn: FlushTurn) -> FlushTurnResult:
        target = tmp_path / DAY
        assert target.read_text() == "" and stat.S_IMODE(target.stat().st_mode) == 0o600
        assert names_of(turn) == {"read", "write"}
        write = tool_of(turn, "write").call
        for content in ("- one", "- two\n", "\n- three"):
            assert not (await write({"path": DAY, "content": content})).is_error
        absolute = await write({"path": str(target), "content": "- four", "mode": "overwrite"})
        assert not absolute.is_error
        for path in ("memory/other.md", "../x.md", "/etc/passwd", "MEMORY.md", 5):
            assert (await write({"path": path, "content": "no"})).is_error
        for content in (None, "", "  ", 5, "x" * (limits.FLUSH_WRITE_MAX_BYTES + 1)):
            assert (await write({"path": DAY, "content": content})).is_error
        return SPOKEN

    made.model.script = script
    assert made.flush().status == "completed"
    assert (tmp_path / DAY).read_text() == "- one\n- two\n\n- three\n- four\n"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["2026-07-15.md", "memory"]


def test_an_existing_target_keeps_its_text_and_mode(tmp_path: Path) -> None:
    """Also one whose last line has no end."""
    (tmp_path / "memory").mkdir()
    (tmp_path / DAY).write_text("# the day")
    (tmp_path / DAY).chmod(0o640)
    made = filed(tmp_path)
    made.model.script = calling("write", path=DAY, content="- added")
    made.flush()
    assert (tmp_path / DAY).read_text() == "# the day\n- added\n"
    assert stat.S_IMODE((tmp_path / DAY).stat().st_mode) == 0o640


def test_additions_of_several_threads_stay_whole(tmp_path: Path) -> None:
    """Each on lines of its own."""
    from concurrent.futures import ThreadPoolExecutor

    target = Target(tmp_path, DAY)
    lines = [f"- {number:03} " + "x" * 500 for number in range(40)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(target.append, lines))
    assert sorted(filter(None, (tmp_path / DAY).read_text().split("\n"))) == lines


def test_a_target_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Past what a note may hold nothing is added."""
    monkeypatch.setattr(limits, "NOTE_MAX_BYTES", 10)
    target = Target(tmp_path, DAY)
    target.append("12345")
    with pytest.raises(errors.RecordTooLarge):
        target.append("67890")
    assert (tmp_path / DAY).read_text() == "12345\n"


@pytest.mark.parametrize(("carries", "told"), [(True, ("no write tool survived",)), (False, ())])
def test_a_lost_writer_is_one_warning_and_the_run_goes_on(
    carries: bool, told: tuple[str, ...], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Silent where the transport never has a writer. The file arm is complete without a write."""
    made = filed(tmp_path, carries_write=carries, allows=lambda name: name != "write")
    made.model.script = SPOKEN
    outcome = made.flush()
    assert (outcome.status, outcome.warnings) == ("completed", told)
    assert sum("no write tool survived" in record.getMessage() for record in caplog.records) == len(told)
    assert names_of(made.model.turns[0]) == {"read"}


def test_a_target_that_cannot_be_made_is_a_failure(tmp_path: Path) -> None:
    """The workspace is gone."""
    made = filed(tmp_path / "gone")
    assert (made.flush().status, made.model.turns) == ("failed", [])
    assert made.row.memory_flush == FlushRecord("failed", None, 1)


def test_the_slot_itself_may_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever breaks, the flush returns."""
    made = bench()

    def broken() -> Any:
        raise RuntimeError("x")

    monkeypatch.setattr(made.host.slot, "active", broken)
    assert (made.flush().status, made.model) == ("failed", Model())


@pytest.mark.parametrize("ends", ["another life", "deleted"])
def test_a_flush_that_ends_in_another_life_leaves_its_row_alone(ends: str) -> None:
    """The turn went well; the session that it was of has ended meanwhile."""
    made = bench()

    async def script(turn: FlushTurn) -> FlushTurnResult:
        if ends == "deleted":
            made.host.rows.delete(KEY)
        else:
            made.host.rows.put(replace(ROW, lifecycle_revision="incarnation-2"))
        return SILENT

    made.model.script = script
    outcome = made.flush()
    assert (outcome.status, outcome.record) == ("completed", None)
    row = made.host.rows.get(KEY)
    assert row is None or row.memory_flush is None
