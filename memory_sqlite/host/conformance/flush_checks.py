"""Checks of when a flush is due, with which plan and model, and what refuses it (criteria 82 to 93, 105).

Not here: what happens in its turn (``flush_run_checks``).
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from memory_sqlite.context.conformance_kit import must
from memory_sqlite.host.conformance.flush_subject import PLAN, SIDECAR, FlushStage, MakeFlush, ScriptedTool
from memory_sqlite.host.conformance.subject import SLOT
from memory_sqlite.runtime.flush_plans import FlushFileDraft

THRESHOLDS: Final = (
    (4_000, 1_500),
    (8_000, 3_000),
    (16_000, 8_000),
    (32_768, 20_576),
    (100_000, 76_000),
    (200_000, 176_000),
)
"""Window and flush threshold in tokens, as tabled in section 3.2 of the contract."""
FORCE_BYTES: Final = 2_097_152
FILE: Final = FlushFileDraft("save what matters", "a silent turn", "memory/notes.md")


def check_disabled_asks_no_resolver(make: MakeFlush) -> None:
    """Criterion 82: only a literal false disables."""
    stage = FlushStage(make, flush_config={"enabled": False})
    status = stage.flush().status
    must(status == "skipped" and not stage.turns, f"criterion 82: a flush that is disabled is {status}")
    must(not stage.asked, "criterion 82: a resolver is asked although the flush is disabled")
    status = FlushStage(make, flush_config={"enabled": 0}).flush().status
    must(status == "completed", f"criterion 82: with another value than false a flush is {status}")


def check_timing_follows_the_table(make: MakeFlush) -> None:
    """Criterion 83: one token below a window's threshold nothing happens; at it, and at 2 MiB, the flush runs."""
    for window, threshold in THRESHOLDS:
        for tokens, expected in ((threshold - 1, "skipped"), (threshold, "completed")):
            stage = FlushStage(make)
            seen = stage.flush(context_window_tokens=window, prompt_tokens=tokens - 2, last_output_tokens=2).status
            must(seen == expected, f"criterion 83: window {window}, {tokens} tokens: {seen}, not {expected}")
    for size, expected in ((FORCE_BYTES - 1, "skipped"), (FORCE_BYTES, "completed")):
        seen = FlushStage(make).flush(prompt_tokens=0, transcript_bytes=size).status
        must(seen == expected, f"criterion 83: {size} bytes: {seen}, not {expected}")


def check_invalid_settings_are_the_defaults(make: MakeFlush) -> None:
    """Criterion 84: a threshold or a size that is none, and a block that is no object."""
    wrong: tuple[Any, ...] = (
        {"softThresholdTokens": -1},
        {"softThresholdTokens": "4000"},
        {"softThresholdTokens": True},
        {"forceFlushTranscriptBytes": "2 parsecs"},
        {"forceFlushTranscriptBytes": 1.5},
        ["nonsense"],
    )
    for block in wrong:
        quiet = FlushStage(make, flush_config=block).flush(prompt_tokens=75_999, transcript_bytes=FORCE_BYTES - 1)
        must(quiet.status == "skipped", f"criterion 84: with {block!r} a flush is due too early")
        for tokens, size in ((76_000, 0), (0, FORCE_BYTES)):
            seen = FlushStage(make, flush_config=block).flush(prompt_tokens=tokens, transcript_bytes=size).status
            must(seen == "completed", f"criterion 84: with {block!r} a flush that is due is {seen}")


def check_values_of_a_plan_override_also_with_zero(make: MakeFlush) -> None:
    """Criterion 85: zero is a value, and switches the trigger by bytes off."""
    zero = replace(PLAN, soft_threshold_tokens=0, reserve_tokens_floor=0, force_flush_transcript_bytes=0)
    early = FlushStage(make, zero).flush(prompt_tokens=99_999, transcript_bytes=10 * FORCE_BYTES).status
    must(early == "skipped", "criterion 85: a plan's zero is taken for the host's value")
    due = FlushStage(make, zero).flush(prompt_tokens=100_000).status
    must(due == "completed", f"criterion 85: at a plan's own threshold the flush is {due}")


def check_models_are_pinned_by_arm(make: MakeFlush) -> None:
    """Criteria 86 and 87: a tools plan takes ``memoryFlush.model``, a file plan keeps the session's; one that is set
    runs alone."""
    config = {"model": "ollama/small:8b"}
    with tempfile.TemporaryDirectory() as folder:
        stage = FlushStage(make, FILE, flush_config=config)
        stage.flush(Path(folder))
        seen = _model(stage)
        must(seen == ("anthropic", "large", ("small",)), f"criterion 86: a file plan without a model runs on {seen}")
    stage = FlushStage(make, flush_config=config)
    stage.flush()
    seen = _model(stage)
    must(seen[:2] == ("ollama", "small:8b"), f"criterion 86: a tools plan without a model runs on {seen}")
    must(seen[2] == (), f"criterion 87: a pinned model may be replaced by {seen[2]}")
    stage = FlushStage(make, replace(PLAN, model="other/own"), flush_config=config)
    stage.flush()
    seen = _model(stage)
    must(seen == ("other", "own", ()), f"criterion 87: a plan with a model of its own runs on {seen}")


def check_read_only_workspaces_are_for_native_owners(make: MakeFlush) -> None:
    """Criterion 88: there no other resolver is asked; a native owner's tools plan runs and makes no file."""
    with tempfile.TemporaryDirectory() as folder:
        for native, expected in ((False, "skipped"), (True, "completed")):
            stage = FlushStage(make, native=native)
            seen = stage.flush(Path(folder), workspace_writable=False).status
            whose = "a native owner's" if native else "another"
            must(seen == expected, f"criterion 88: in a read-only workspace {whose} tools plan is {seen}")
            asked = bool(stage.asked)
            must(asked == native, f"criterion 88: in a read-only workspace {whose} resolver is asked: {asked}")
        must(not list(Path(folder).iterdir()), "criterion 88: a tools plan made a file")


def check_a_sidecars_tools_plan_is_skipped(make: MakeFlush) -> None:
    """Criterion 89: also when it has the tools it names; with a warning that names the sidecar."""
    with tempfile.TemporaryDirectory() as folder:
        plan = replace(PLAN, persistence_tool_names=("stow",), lookup_tool_names=())
        stage = FlushStage(make, plan, supplier=SIDECAR)
        stage.host.add_tool(ScriptedTool("stow", SIDECAR).tool())
        outcome = stage.flush(Path(folder))
    must(outcome.status == "skipped" and not stage.turns, f"criterion 89: a sidecar's tools plan is {outcome.status}")
    must(any(SIDECAR in one for one in outcome.warnings), "criterion 89: no warning names the sidecar")


def check_overlapping_tools_skip_the_plan(make: MakeFlush) -> None:
    """Criterion 90: with a warning that names the plugin."""
    stage = FlushStage(make, replace(PLAN, lookup_tool_names=("look", "keep")))
    outcome = stage.flush()
    must(outcome.status == "skipped" and not stage.turns, f"criterion 90: an overlapping plan is {outcome.status}")
    must(any(SLOT in one for one in outcome.warnings), "criterion 90: no warning names the plugin")


def check_only_declared_tools_of_the_owner_are_shown(make: MakeFlush) -> None:
    """Criterion 91: and ``read``; another plugin's tool of the same name is not the owner's."""
    stage = FlushStage(make)
    stage.host.add_tool(ScriptedTool("undeclared", SLOT).tool())
    stage.host.add_tool(ScriptedTool("elsewhere", SIDECAR).tool())
    others = (stage.read.tool(), ScriptedTool("exec", "").tool(), ScriptedTool("write", "").tool())
    stage.flush(host_tools=others)
    must(bool(stage.turns), "criterion 91: a flush that is due runs no turn")
    must(stage.shown == {"read", "keep", "look"}, f"criterion 91: shown are {sorted(stage.shown)}")
    stage = FlushStage(make, replace(PLAN, persistence_tool_names=("keep", "elsewhere")))
    stage.host.add_tool(ScriptedTool("elsewhere", SIDECAR).tool())
    stage.flush()
    must("elsewhere" not in stage.shown, "criterion 91: another plugin's tool is shown under a declared name")


def check_lost_tools_are_told_apart(make: MakeFlush) -> None:
    """Criteria 92 and 93: without a persistence tool nothing runs and no failure counts; without a lookup tool the
    flush runs. Each time one warning names the tool."""
    stage = FlushStage(make)
    outcome = stage.flush(allows=lambda name: name != "keep")
    must(outcome.status == "skipped", f"criterion 92: without a persistence tool the flush is {outcome.status}")
    must(not stage.turns, "criterion 92: a model runs although nothing can persist")
    must(any("keep" in one for one in outcome.warnings), "criterion 92: no warning names the lost persistence tool")
    must(outcome.record is None, "criterion 92: a failure is recorded although nothing ran")
    stage = FlushStage(make)
    outcome = stage.flush(allows=lambda name: name != "look")
    must(outcome.status == "completed", f"criterion 93: without a lookup tool the flush is {outcome.status}")
    named = [one for one in outcome.warnings if "look" in one]
    must(len(named) == 1, f"criterion 93: {len(named)} warnings name the lost lookup tool, not one")


def check_file_targets_outside_the_workspace_are_refused(make: MakeFlush) -> None:
    """Criterion 105: also absolute ones, and those behind a link."""
    for target in ("../outside.md", "memory/../../outside.md", "/outside-of-the-workspace/notes.md", "link/notes.md"):
        with tempfile.TemporaryDirectory() as folder:
            workspace, outside = Path(folder) / "workspace", Path(folder) / "elsewhere"
            workspace.mkdir()
            outside.mkdir()
            (workspace / "link").symlink_to(outside, target_is_directory=True)
            stage = FlushStage(make, replace(FILE, relative_path=target))
            outcome = stage.flush(workspace)
            left = [*Path(folder).glob("*.md"), *outside.iterdir()]
        must(outcome.status != "completed" and not stage.turns, f"criterion 105: a flush into {target} runs")
        must(not left, f"criterion 105: a file was made for {target}")


def _model(stage: FlushStage) -> tuple[Any, Any, tuple[str, ...]]:
    must(bool(stage.turns), "criterion 86: a flush that is due runs no turn")
    turn = stage.turns[-1]
    return turn.provider, turn.model, tuple(turn.fallbacks)


ALL = (
    check_disabled_asks_no_resolver,
    check_timing_follows_the_table,
    check_invalid_settings_are_the_defaults,
    check_values_of_a_plan_override_also_with_zero,
    check_models_are_pinned_by_arm,
    check_read_only_workspaces_are_for_native_owners,
    check_a_sidecars_tools_plan_is_skipped,
    check_overlapping_tools_skip_the_plan,
    check_only_declared_tools_of_the_owner_are_shown,
    check_lost_tools_are_told_apart,
    check_file_targets_outside_the_workspace_are_refused,
)
