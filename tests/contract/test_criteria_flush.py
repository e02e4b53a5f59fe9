"""Criteria 82 to 97 and 99 of the contract: when a flush runs, with which plan, tools, session and audience."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import errors, limits
from memory_sqlite.host.flush.flush_id import flush_id
from memory_sqlite.host.flush.plans import complete
from memory_sqlite.host.flush.run import run_flush
from memory_sqlite.host.flush.shapes import FlushOutcome, FlushTurn, FlushTurnResult
from memory_sqlite.host.flush.timing import compaction_threshold, flush_threshold
from memory_sqlite.host.slots import Plugin
from memory_sqlite.runtime.callers import ConversationAudience, OwnerPrivateAudience
from memory_sqlite.runtime.flush_plans import FlushFilePlan, FlushToolsPlan
from memory_sqlite.runtime.flush_timing import FORCE_FLUSH_BYTES, host_timing, parse_bytes
from memory_sqlite.runtime.plugins import MemoryCapability, MemoryFlushContext, ToolResult

from .flush_kit import (
    KEY,
    OWNER,
    REVISION,
    ROW,
    SESSION_ID,
    SIDECAR,
    SILENT,
    SPOKEN,
    TOOLS_PLAN,
    Bench,
    Calls,
    Native,
    Resolver,
    bench,
    calling,
    draft,
    names_of,
    tool_of,
)

LOG = "memory_sqlite.host.flush"


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


# --- timing


def test_criterion_082_disabled_calls_no_resolver() -> None:
    """Only a literal false disables."""
    off = bench(flush_config={"enabled": False})
    assert (off.flush().status, off.resolver.asked, off.model.turns) == ("skipped", [], [])
    for value in (0, None, "false", ""):
        assert bench(flush_config={"enabled": value}).flush().status == "completed", value


@pytest.mark.parametrize(
    ("window", "reserve", "soft", "compaction", "flush"),
    [
        (4_000, 1_000, 1_500, 3_000, 1_500),
        (8_000, 2_000, 3_000, 6_000, 3_000),
        (16_000, 4_000, 4_000, 12_000, 8_000),
        (32_768, 8_192, 4_000, 24_576, 20_576),
        (100_000, 20_000, 4_000, 80_000, 76_000),
        (200_000, 20_000, 4_000, 180_000, 176_000),
    ],
)
def test_criterion_083_timing_of_each_window(window: int, reserve: int, soft: int, compaction: int, flush: int) -> None:
    """The table of 3.2, and a turn one token below and at the threshold."""
    timing = host_timing({}, window)
    assert (timing.reserve_tokens_floor, timing.soft_threshold_tokens) == (reserve, soft)
    assert compaction_threshold(window, reserve) == compaction
    assert flush_threshold(window, reserve, soft) == flush
    made = bench(context_window_tokens=window)
    assert made.flush(prompt_tokens=flush - 3, last_output_tokens=1, incoming_tokens=1).reason == "not due"
    assert made.flush(prompt_tokens=flush - 2, last_output_tokens=1, incoming_tokens=1).status == "completed"


@pytest.mark.parametrize("window", [None, 0, -5, float("nan"), 0.5])
def test_criterion_083_an_unknown_window_triggers_nothing_by_tokens(window: Any) -> None:
    """W = 0: the reserve is not scaled, and there is no threshold that tokens reach."""
    timing = host_timing({}, window)
    assert (timing.reserve_tokens_floor, timing.soft_threshold_tokens) == (20_000, 4_000)
    made = bench(context_window_tokens=window)
    assert made.flush(prompt_tokens=10**9).reason == "not due"
    assert made.flush(prompt_tokens=0, transcript_bytes=FORCE_FLUSH_BYTES).status == "completed"


def test_criterion_083_bytes_trigger_at_their_threshold_and_zero_switches_them_off() -> None:
    """2 MiB unless said otherwise."""
    quiet = {"prompt_tokens": 0}
    assert bench().flush(**quiet, transcript_bytes=FORCE_FLUSH_BYTES - 1).reason == "not due"
    assert bench().flush(**quiet, transcript_bytes=FORCE_FLUSH_BYTES).status == "completed"
    off = bench(flush_config={"forceFlushTranscriptBytes": 0})
    assert off.flush(**quiet, transcript_bytes=10**12).reason == "not due"
    small = bench(flush_config={"forceFlushTranscriptBytes": "1kb"})
    assert small.flush(**quiet, transcript_bytes=1_023).reason == "not due"
    assert small.flush(**quiet, transcript_bytes=1_024).status == "completed"


@pytest.mark.parametrize("value", [-1, float("inf"), float("nan"), "4000", True, None, [1], {}])
def test_criterion_084_invalid_soft_thresholds_are_the_default(value: Any) -> None:
    """Non-negative finite numbers are taken, floored; the rest is 4000."""
    config = {"agents": {"defaults": {"compaction": {"memoryFlush": {"softThresholdTokens": value}}}}}
    assert host_timing(config, 200_000).soft_threshold_tokens == 4_000


@pytest.mark.parametrize("value", [-1, 1.5, "", "2 parsecs", "-2mb", "mb", True, None, float("nan"), "9" * 400 + "tb"])
def test_criterion_084_invalid_sizes_are_the_default(value: Any) -> None:
    """A whole number or a size; the rest is 2 MiB."""
    config = {"agents": {"defaults": {"compaction": {"memoryFlush": {"forceFlushTranscriptBytes": value}}}}}
    assert host_timing(config, 200_000).force_flush_transcript_bytes == 2_097_152


def test_criterion_084_valid_values_are_taken() -> None:
    """Floored tokens, sizes with units, a trimmed model; blocks of the wrong type are none."""
    block = {"softThresholdTokens": 1000.9, "forceFlushTranscriptBytes": " 2MB ", "model": "  local/q  "}
    timing = host_timing({"agents": {"defaults": {"compaction": {"memoryFlush": block}}}}, 200_000)
    assert (timing.soft_threshold_tokens, timing.force_flush_transcript_bytes) == (1_000, 2 * 1024 * 1024)
    assert timing.model == "local/q"
    assert [parse_bytes(value) for value in ("10", "10b", "1.5kb", 7, 0)] == [10, 10, 1_536, 7, 0]
    for wrong in ({"agents": 3}, {"agents": {"defaults": {"compaction": {"memoryFlush": []}}}}):
        assert host_timing(wrong, 200_000) == host_timing({}, 200_000)
    blank = {"agents": {"defaults": {"compaction": {"memoryFlush": {"model": "  "}}}}}
    assert host_timing(blank, 0).model is None


def test_criterion_085_a_plan_overrides_also_with_zero() -> None:
    """Zero is a value: no reserve, no margin, no trigger by bytes."""
    zero = replace(TOOLS_PLAN, soft_threshold_tokens=0, reserve_tokens_floor=0, force_flush_transcript_bytes=0)
    made = bench(zero)
    assert made.flush(prompt_tokens=99_999, transcript_bytes=10**12).reason == "not due"
    assert made.flush(prompt_tokens=100_000).status == "completed"
    assert bench(replace(TOOLS_PLAN, soft_threshold_tokens=79_000)).flush(prompt_tokens=1_000).status == "completed"
    timing = host_timing({}, 100_000)
    assert complete(TOOLS_PLAN, timing, released=False).reserve_tokens_floor == timing.reserve_tokens_floor
    wire = {"prompt": "p", "systemPrompt": "s", "relativePath": "memory/a.md", "reserveTokensFloor": 0}
    assert complete(wire, timing, released=False).reserve_tokens_floor == 0


# --- model


def test_criterion_086_the_model_of_the_host_is_for_the_tools_arm(tmp_path: Path) -> None:
    """A file plan without a model keeps the session's."""
    config = {"model": "ollama/qwen3:8b"}
    file = bench(draft(), workspace=tmp_path, flush_config=config)
    file.flush()
    (turn,) = file.model.turns
    assert (turn.provider, turn.model, turn.fallbacks) == ("anthropic", "large", ("small",))
    tools = bench(flush_config=config)
    tools.flush()
    (turn,) = tools.model.turns
    assert (turn.provider, turn.model) == ("ollama", "qwen3:8b")
    own = bench(replace(TOOLS_PLAN, model="openai/own"), flush_config=config)
    own.flush()
    assert (own.model.turns[0].provider, own.model.turns[0].model) == ("openai", "own")


@pytest.mark.parametrize(
    ("model", "provider", "name"),
    [
        ("ollama/qwen3:8b", "ollama", "qwen3:8b"),
        ("openrouter/meta/llama", "openrouter", "meta/llama"),
        ("bare", "anthropic", "bare"),
        ("/x", "anthropic", "/x"),
        ("x/ ", "anthropic", "x/"),
    ],
)
def test_criterion_087_a_model_is_pinned_without_fallbacks(
    model: str, provider: str, name: str, tmp_path: Path
) -> None:
    """The text before and after the first slash, both not blank; else a model of the current provider."""
    for made in (
        bench(replace(TOOLS_PLAN, model=model)),
        bench(draft(model=model), workspace=tmp_path),
        bench(flush_config={"model": model}),
    ):
        made.flush()
        (turn,) = made.model.turns
        assert (turn.provider, turn.model, turn.fallbacks) == (provider, name, ())


# --- gates


def test_criterion_088_a_read_only_workspace_and_who_is_asked(tmp_path: Path) -> None:
    """A resolver that is not the native owner's is not called; the native owner's tools plan runs and makes no file."""
    for made in (
        bench(draft(), native=False, workspace=tmp_path, workspace_writable=False),
        bench(native=False, workspace=tmp_path, workspace_writable=False),
    ):
        assert (made.flush().reason, made.resolver.asked) == ("workspace not writable", [])
    sidecar = bench(None, workspace=tmp_path, workspace_writable=False)
    sidecar.host.slot.unregister(OWNER)
    other = Resolver(draft())
    sidecar.host.slot.register(Plugin(SIDECAR, frozenset({"memory"})), MemoryCapability(flush_plan_resolver=other))
    assert (sidecar.flush().reason, other.asked) == ("workspace not writable", [])
    native = bench(workspace=tmp_path, workspace_writable=False)
    assert native.flush().status == "completed"
    assert list(tmp_path.iterdir()) == []
    filed = bench(draft(), workspace=tmp_path, workspace_writable=False)
    assert (filed.flush().reason, len(filed.resolver.asked)) == ("workspace not writable", 1)
    assert (list(tmp_path.iterdir()), filed.model.turns) == ([], [])


def test_criterion_089_a_sidecars_tools_plan_is_skipped_naming_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The plugin that supplied the resolver is named, not the owner it was merged with."""
    made = bench(None, workspace=tmp_path)
    made.host.slot.unregister(OWNER)
    resolver = Resolver(TOOLS_PLAN)
    made.host.slot.register(
        Plugin(SIDECAR, frozenset({"memory"})), MemoryCapability(provider_flush_plan_resolver=resolver)
    )
    made.host.slot.register(Plugin(OWNER, frozenset({"memory"})), MemoryCapability(provider_runtime=Native()))
    with caplog.at_level(logging.WARNING, LOG):
        outcome = made.flush()
    said = f'plugin "{SIDECAR}" supplied a tools-arm plan but is not the selected memory slot owner'
    assert (outcome.status, outcome.reason, made.row.memory_flush) == ("skipped", said, None)
    assert len(resolver.asked) == 1 and made.model.turns == []
    assert [said in warning for warning in warnings_of(caplog)] == [True]


def test_criterion_090_overlapping_names_skip_the_plan(caplog: pytest.LogCaptureFixture) -> None:
    """With one warning that names plugin and tools."""
    made = bench(replace(TOOLS_PLAN, persistence_tool_names=("keep", "both"), lookup_tool_names=("both", "look")))
    with caplog.at_level(logging.WARNING, LOG):
        outcome = made.flush()
    assert (outcome.status, made.model.turns, made.row.memory_flush) == ("skipped", [], None)
    (warning,) = warnings_of(caplog)
    assert OWNER in warning and warning.endswith("both")


def test_criterion_091_only_read_and_declared_tools_of_the_owner_are_seen() -> None:
    """Not another plugin's of that name, not the owner's others, not the host's others."""
    made = bench()
    foreign = Calls("keep", plugin_id=SIDECAR)
    for calls in (foreign, Calls("look", plugin_id=SIDECAR), Calls("owners-other"), Calls("read"), Calls("write")):
        made.host.tools.register(calls.tool())
    made.model.script = calling("keep")
    outcome = made.flush(host_tools=(*made.source.host_tools, Calls("write", "").tool(), Calls("exec", "").tool()))
    (turn,) = made.model.turns
    assert names_of(turn) == {"read", "keep", "look"}
    assert tool_of(turn, "read").description == "read of "
    assert (outcome.status, len(made.keep.made), foreign.made) == ("completed", 1, [])


def test_criterion_091_a_registry_that_gives_too_much_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what a host's registry says is the owner's, only what is registered as the owner's counts."""
    made = bench()
    foreign = Calls("keep", plugin_id=SIDECAR)
    monkeypatch.setattr(made.host.tools, "owned_by", lambda _: {"keep": foreign.tool(), "look": made.look.tool()})
    assert (made.flush().status, made.model.turns) == ("skipped", [])


def test_criterion_091_the_sources_policy_holds_after_projection() -> None:
    """What the turn may not use is not there, ``read`` included."""
    made = bench()
    made.flush(allows=lambda name: name == "keep")
    assert names_of(made.model.turns[0]) == {"keep"}


@pytest.mark.parametrize("declared", [("keep",), ("keep", "gone"), (), ("read",), ("write",)])
def test_criterion_092_no_persistence_tool_skips_before_inference(
    declared: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """With a warning that names them, and without counting a failure; ``read`` never counts as one."""
    made = bench(replace(TOOLS_PLAN, persistence_tool_names=declared))
    for name in ("read", "write"):
        made.host.tools.register(Calls(name).tool())
    with caplog.at_level(logging.WARNING, LOG):
        outcome = made.flush(allows=lambda name: name != "keep")
    assert (outcome.status, made.model.turns, made.row.memory_flush) == ("skipped", [], None)
    (warning,) = warnings_of(caplog)
    assert warning.endswith(", ".join(declared) or "<none declared>")


def test_criterion_092_a_foreign_tool_of_the_name_is_none(caplog: pytest.LogCaptureFixture) -> None:
    """Ownership comes from registration."""
    made = bench()
    made.host.tools.unregister(OWNER)
    made.host.tools.register(Calls("keep", plugin_id=SIDECAR).tool())
    assert (made.flush().status, made.model.turns) == ("skipped", [])


def test_criterion_093_lost_lookups_are_one_warning_and_the_flush_runs(caplog: pytest.LogCaptureFixture) -> None:
    """One warning for all of them."""
    made = bench(replace(TOOLS_PLAN, lookup_tool_names=("look", "gone", "read-all")))
    with caplog.at_level(logging.WARNING, LOG):
        outcome = made.flush(allows=lambda name: name != "look")
    assert outcome.status == "completed"
    (warning,) = warnings_of(caplog)
    assert "look, gone, read-all" in warning and outcome.warnings == (warning.removeprefix("memory flush goes on: "),)
    assert names_of(made.model.turns[0]) == {"read", "keep"}


# --- the run


@pytest.mark.parametrize("arm", ["tools", "file"])
def test_criterion_094_the_flush_is_detached_and_not_the_owners(arm: str, tmp_path: Path) -> None:
    """A key and an id of its own, a copy of what was said, no row, and nothing of it in the source's transcript."""
    said: list[dict[str, Any]] = [{"role": "user", "content": "we chose lisbon", "parts": ["a"]}]
    made = bench(TOOLS_PLAN if arm == "tools" else draft(), workspace=tmp_path, transcript=said)

    async def script(turn: FlushTurn) -> FlushTurnResult:
        turn.transcript[0]["parts"].append("spoilt")
        assert made.host.rows.get(turn.session_key) is None
        return SILENT

    made.model.script = script
    assert made.flush(extra_system_prompt="be kind", sandboxed=True).status == "completed"
    (turn,) = made.model.turns
    assert turn.session_key != KEY and turn.session_id != SESSION_ID
    assert turn.session_key.startswith("agent:main:") and turn.tool_context.session_key == turn.session_key
    assert (turn.sender_is_owner, turn.tool_context.sender_is_owner, turn.trigger) == (False, False, "memory")
    assert (turn.policy_session_key, turn.sandboxed, turn.tool_context.sandboxed) == (KEY, True, True)
    assert (turn.transcript_prompt, turn.silent_expected) == ("", True)
    assert turn.prompt == "save what matters" and turn.system_prompt == "be kind\n\na silent turn"
    assert said == [{"role": "user", "content": "we chose lisbon", "parts": ["a"]}]
    assert made.host.rows.get(turn.session_key) is None
    assert made.row.incarnation == ROW.incarnation


@pytest.mark.parametrize(
    ("owner", "tainted_before", "tainted"), [(True, False, False), (True, True, True), (False, False, True)]
)
def test_criterion_094_a_turn_of_others_is_tainted(owner: bool, tainted_before: bool, tainted: bool) -> None:
    """When the sender is not the owner, or the transcript was tainted."""
    made = bench()
    made.flush(sender_is_owner=owner, transcript_tainted=tainted_before, extra_system_prompt="  ")
    assert made.model.turns[0].tainted is tainted
    assert made.model.turns[0].system_prompt == "a silent turn"


def test_criterion_094_the_copy_is_bounded_and_keeps_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    """By messages and by bytes."""
    said = [{"role": "user", "content": f"{number:03}"} for number in range(10)]
    monkeypatch.setattr(limits, "FLUSH_TRANSCRIPT_MESSAGES_MAX", 4)
    made = bench(transcript=said)
    made.flush()
    assert [one["content"] for one in made.model.turns[0].transcript] == ["006", "007", "008", "009"]
    monkeypatch.setattr(limits, "FLUSH_TRANSCRIPT_MAX_BYTES", 80)
    made = bench(transcript=said)
    made.flush()
    assert [one["content"] for one in made.model.turns[0].transcript] == ["008", "009"]


def test_criterion_095_tools_get_a_delegated_audience_and_the_flush_id_alone() -> None:
    """Valid for the flush's own key; ended with the flush."""
    made = bench()
    seen: dict[str, Any] = {}

    async def script(turn: FlushTurn) -> FlushTurnResult:
        context = turn.tool_context
        audience = context.memory_audience
        assert audience is not None and context.assert_memory_audience_current is not None
        assert made.host.audiences.is_minted(audience)
        context.assert_memory_audience_current()
        made.host.audiences.assert_current(audience, turn.session_key)
        with pytest.raises(errors.CallerNotCurrent, match="bound to a different session"):
            made.host.audiences.assert_current(audience, KEY)
        await tool_of(turn, "keep").call({"content": "x"})
        await tool_of(turn, "look").call({"query": "x"})
        seen.update(context=context, audience=audience, turn=turn)
        return SPOKEN

    made.model.script = script
    assert made.flush(active_project_keys=("kea",)).status == "completed"
    for calls in (made.keep, made.look):
        ((_, context),) = calls.made
        assert context is seen["context"]
        assert isinstance(context.memory_audience, OwnerPrivateAudience)
        assert context.memory_flush == MemoryFlushContext(flush_id(SESSION_ID, REVISION, 0))
        assert (context.conversation_recall, context.active_project_keys) == (None, ("kea",))
    with pytest.raises(errors.CallerNotCurrent, match="released"):
        made.host.audiences.assert_current(seen["audience"], seen["turn"].session_key)
    with pytest.raises(errors.ProviderUnavailable, match="the flush is over"):
        asyncio.run(tool_of(seen["turn"], "keep").call({"content": "late"}))
    assert len(made.keep.made) == 1


def test_criterion_095_the_audience_is_that_of_the_source(tmp_path: Path) -> None:
    """A stranger's or a room's turn flushes for its conversation; a file-arm flush carries no flush context."""
    made = bench(row=replace(ROW, chat_type="group"))
    made.flush()
    audience = made.model.turns[0].tool_context.memory_audience
    assert isinstance(audience, ConversationAudience)
    assert (audience.session_key, audience.session_id) == (KEY, SESSION_ID)
    filed = bench(draft(), workspace=tmp_path)
    filed.flush()
    context = filed.model.turns[0].tool_context
    assert (context.memory_flush, context.memory_audience, context.assert_memory_audience_current) == (None, None, None)


def test_criterion_095_a_reset_in_the_middle_stops_tools_and_counts_nothing() -> None:
    """The tool is not entered again, and what it answered meanwhile is not evidence."""
    made = bench()

    async def resets(arguments: Any, context: Any) -> Any:
        made.host.rows.put(replace(ROW, lifecycle_revision="incarnation-2"))
        return ToolResult("kept")

    made.keep.answer = resets

    async def script(turn: FlushTurn) -> FlushTurnResult:
        for _ in range(2):
            with pytest.raises(errors.CallerNotCurrent):
                await tool_of(turn, "keep").call({})
        return SPOKEN

    made.model.script = script
    outcome = made.flush()
    assert (outcome.status, outcome.record, len(made.keep.made)) == ("failed", None, 1)
    assert made.row.memory_flush is None


@pytest.mark.parametrize("chat_type", [None, "unknown"])
def test_criterion_096_without_an_audience_a_native_tools_flush_is_skipped(
    chat_type: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """With a debug log and nothing more; a legacy owner's has no audience and asks for none."""
    made = bench(row=replace(ROW, chat_type=chat_type))
    with caplog.at_level(logging.DEBUG, LOG):
        outcome = made.flush()
    assert (outcome.status, outcome.reason) == ("skipped", "memory_flush_no_audience")
    assert (made.model.turns, made.row.memory_flush) == ([], None)
    levels = {record.levelno for record in caplog.records if "memory_flush_no_audience" in record.getMessage()}
    assert levels == {logging.DEBUG}


def test_criterion_096_a_legacy_owners_tools_flush_resolves_no_audience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs without one."""
    made = bench(native=False, workspace=tmp_path)

    async def never(**_: Any) -> Any:
        raise AssertionError("no lineage is read for a legacy owner")

    monkeypatch.setattr(made.host.audiences, "resolve", never)
    assert made.flush().status == "completed"
    assert made.model.turns[0].tool_context.memory_audience is None


@pytest.mark.parametrize(
    ("revision", "count", "expected"),
    [
        ("incarnation-1", 0, "b630353a-9b58-8bc3-913c-33978b46c2eb"),
        ("incarnation-1", 1, "1164a112-0af3-8120-a18f-de5ac81a279d"),
        ("incarnation-1", 2, "357b6b3a-d327-80b8-bebe-6fc5415cb267"),
        (None, 0, "70fef202-b8c8-8378-9e91-31205ac8918b"),
        ("incarnation-2", 1, "4cf6c292-eb05-8140-a488-e2e7fd0bf5ad"),
    ],
)
def test_criterion_097_flush_ids_are_the_vectors(revision: str | None, count: int, expected: str) -> None:
    """By the rule, and as the tools of a flush get it."""
    assert flush_id(SESSION_ID, revision, count) == expected
    made = bench(row=replace(ROW, lifecycle_revision=revision, compaction_count=count))
    outcome = made.flush(lifecycle_revision=revision)
    context = made.model.turns[0].tool_context.memory_flush
    assert context is not None and context.flush_id == outcome.flush_id == expected


def test_criterion_097_retries_share_the_id_and_cycles_do_not() -> None:
    """A failed attempt is tried again under the same id; after compaction, and in another life, it is another."""
    made = bench()
    made.model.script = SPOKEN
    first, second = made.flush(), made.flush()
    assert (first.status, second.status) == ("failed", "failed") and first.flush_id == second.flush_id
    made.host.rows.update(KEY, compaction_count=1)
    third = made.flush()
    made.host.rows.update(KEY, lifecycle_revision="incarnation-2")
    fourth = made.flush(lifecycle_revision="incarnation-2")
    assert len({first.flush_id, third.flush_id, fourth.flush_id}) == 3


# --- audience of a flush that runs later


def test_a_flush_after_the_turn_resolves_the_sources_audience() -> None:
    """The source turn's facts are kept; what other sessions do meanwhile changes nothing."""
    made = bench()
    made.host.rows.put(replace(ROW, key="agent:main:other", session_id="2" * 8 + SESSION_ID[8:]))
    made.host.rows.update(KEY, navigation_parent=None)
    assert made.flush().status == "completed"
    assert isinstance(made.model.turns[0].tool_context.memory_audience, OwnerPrivateAudience)


@pytest.mark.parametrize("arm", ["tools", "file"])
@pytest.mark.parametrize("change", [{"lifecycle_revision": "incarnation-2"}, {"session_id": "3" * 8 + SESSION_ID[8:]}])
def test_a_flush_after_the_source_was_reset_is_skipped(arm: str, change: dict[str, str], tmp_path: Path) -> None:
    """Also by a reset that keeps the session id: no resolver, no file, no model, and the new life's row untouched."""
    made = bench(TOOLS_PLAN if arm == "tools" else draft(), workspace=tmp_path)
    made.host.rows.update(KEY, **change)
    outcome = made.flush()
    assert (outcome.status, outcome.reason) == ("skipped", "the source session was reset")
    assert (made.resolver.asked, made.model.turns, made.row.memory_flush) == ([], [], None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arm", ["tools", "file"])
def test_a_reset_that_is_being_written_is_waited_for(arm: str, tmp_path: Path) -> None:
    """Until it has settled nobody can say whose life it is; then the flush is skipped."""
    made = bench(TOOLS_PLAN if arm == "tools" else draft(), workspace=tmp_path)

    async def turn_end() -> FlushOutcome:
        with made.host.rows.publishing(KEY):
            task = asyncio.create_task(run_flush(made.host, made.source, run_turn=made.model))
            for _ in range(10):
                await asyncio.sleep(0)
            assert (task.done(), made.resolver.asked) == (False, [])
            made.host.rows.put(replace(ROW, lifecycle_revision="incarnation-2"))
        return await task

    assert asyncio.run(turn_end()).reason == "the source session was reset"
    assert list(tmp_path.iterdir()) == []


def test_the_resolver_is_asked_twice_and_told_the_time_once() -> None:
    """For the threshold without the time, for the attempt with it; the second plan is the one that runs."""

    def plan(request: Any) -> FlushToolsPlan:
        return replace(TOOLS_PLAN, prompt=f"at {request.now_ms}")

    made = bench(plan)
    assert made.flush().status == "completed"
    assert [request.now_ms for request in made.resolver.asked] == [None, made.clock.now_ms()]
    assert {request.context_window_tokens for request in made.resolver.asked} == {100_000}
    assert made.model.turns[0].prompt == f"at {made.clock.now_ms()}"
    below = bench(plan)
    assert below.flush(prompt_tokens=10).reason == "not due"
    assert len(below.resolver.asked) == 1


def test_a_second_plan_passes_the_gates_again() -> None:
    """One that changed its mind is skipped."""
    answers = iter([TOOLS_PLAN, None])
    made = bench(lambda _: next(answers))
    assert (made.flush().reason, made.model.turns) == ("no plan", [])


def test_released_plans_keep_their_type(tmp_path: Path) -> None:
    """``flushPlanResolver`` gives a complete file plan, and may be registered as the provider's resolver as well."""
    plan = FlushFilePlan(4_000, 2_097_152, 20_000, "save", "silent", "memory/a.md")
    for released in (True, False):
        made = bench(plan, workspace=tmp_path, released=released)
        assert (made.flush().status, made.model.turns[0].prompt) == ("completed", "save")
    for wrong in (TOOLS_PLAN, draft()):
        made = bench(wrong, workspace=tmp_path, released=True)
        assert (made.flush().status, made.model.turns) == ("skipped", [])


class BothArms:
    """What no shape of ours allows."""

    prompt, system_prompt = "save", "silent"
    relative_path = "memory/a.md"
    persistence_tool_names = ("keep",)


@pytest.mark.parametrize(
    "plan",
    [
        BothArms(),
        {"prompt": "p", "systemPrompt": "s", "relativePath": "memory/a.md", "persistenceToolNames": ["keep"]},
        {"prompt": "p", "systemPrompt": "s", "relativePath": "memory/a.md", "lookupToolNames": ["look"]},
        {"prompt": "p", "systemPrompt": "s", "lookupToolNames": ["look"]},
        {"prompt": "p", "systemPrompt": "s"},
        {"prompt": " ", "systemPrompt": "s", "persistenceToolNames": ["keep"]},
        {"prompt": "p", "persistenceToolNames": ["keep"]},
        {"prompt": "p", "systemPrompt": "s", "persistenceToolNames": "keep"},
        {"prompt": "p", "systemPrompt": "s", "persistenceToolNames": [1]},
        {"prompt": "p", "systemPrompt": "s", "persistenceToolNames": ["keep"], "reserveTokensFloor": "many"},
        {"prompt": "p", "systemPrompt": "s", "persistenceToolNames": ["keep"], "model": 5},
        7,
        "a plan",
    ],
)
def test_what_is_no_plan_is_refused_and_named(plan: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Both arms, neither, and rubbish: skipped with a warning that names the plugin; no failure is counted."""
    made = bench(plan, workspace=tmp_path)
    with caplog.at_level(logging.WARNING, LOG):
        outcome = made.flush()
    assert (outcome.status, made.model.turns, made.row.memory_flush) == ("skipped", [], None)
    (warning,) = warnings_of(caplog)
    assert OWNER in warning
    assert list(tmp_path.iterdir()) == []


def test_a_mapping_in_the_contracts_form_is_a_plan() -> None:
    """camelCase, lists for names."""
    made = bench({"prompt": "p", "systemPrompt": "s", "persistenceToolNames": ["keep"], "lookupToolNames": ["look"]})
    assert (made.flush().status, names_of(made.model.turns[0])) == ("completed", {"read", "keep", "look"})


# --- compaction goes on


def _no_row() -> Bench:
    made = bench()
    made.host.rows.delete(KEY)
    return made


def _no_owner() -> Bench:
    made = bench()
    made.host.slot.unregister(OWNER)
    return made


def _sidecars_plan(tmp_path: Path) -> Bench:
    made = bench(workspace=tmp_path)
    made.host.slot.unregister(OWNER)
    made.host.slot.register(
        Plugin(SIDECAR, frozenset({"memory"})), MemoryCapability(provider_flush_plan_resolver=Resolver(TOOLS_PLAN))
    )
    return made


def _no_tools() -> Bench:
    made = bench()
    made.host.tools.unregister(OWNER)
    return made


GATES: dict[str, tuple[Any, str]] = {
    "0 no session row": (lambda _: _no_row(), "skipped"),
    "0 no plugin": (lambda _: _no_owner(), "skipped"),
    "1 incognito": (lambda _: bench(row=replace(ROW, incognito=True)), "skipped"),
    "2 heartbeat": (lambda _: bench(heartbeat=True), "skipped"),
    "2 CLI runtime": (lambda _: bench(cli_runtime=True), "skipped"),
    "2 native compaction": (lambda _: bench(native_compaction=True), "skipped"),
    "3 workspace": (lambda path: bench(native=False, workspace=path, workspace_writable=False), "skipped"),
    "4 disabled": (lambda _: bench(flush_config={"enabled": False}), "skipped"),
    "5 resolver raises": (lambda _: bench(ValueError("secret words")), "failed"),
    "6 no plan": (lambda _: bench(None), "skipped"),
    "7 not the owner": (_sidecars_plan, "skipped"),
    "8 overlap": (lambda _: bench(replace(TOOLS_PLAN, lookup_tool_names=("keep",))), "skipped"),
    "9 file plan": (lambda path: bench(draft(), workspace=path, workspace_writable=False), "skipped"),
    "10 not due": (lambda _: bench(prompt_tokens=1), "skipped"),
    "11 no audience": (lambda _: bench(row=replace(ROW, chat_type=None)), "skipped"),
    "12 no tool": (lambda _: _no_tools(), "skipped"),
}


@pytest.mark.parametrize("gate", GATES)
def test_compaction_goes_on_after_every_gate(gate: str, tmp_path: Path) -> None:
    """The flush returns, no model was asked, and what the host does next is done. A skip leaves the row untouched."""
    make, status = GATES[gate]
    made: Bench = make(tmp_path)
    before = made.host.rows.get(KEY)
    done: list[str] = []

    async def turn_end() -> FlushOutcome:
        outcome = await run_flush(made.host, made.source, run_turn=made.model, clock=made.clock)
        done.append("compacted")
        return outcome

    outcome = asyncio.run(turn_end())
    assert (outcome.status, done, made.model.turns) == (status, ["compacted"], [])
    if status == "skipped":
        assert made.host.rows.get(KEY) == before and outcome.record is None


@pytest.mark.parametrize("gate", [gate for gate in GATES if gate.split()[0] in ("0", "1", "2", "3", "4")])
def test_the_first_gates_call_no_resolver(gate: str, tmp_path: Path) -> None:
    """They come before it, in the contract's order."""
    made: Bench = GATES[gate][0](tmp_path)
    made.flush()
    assert made.resolver.asked == []


def test_what_a_resolver_says_in_its_error_is_told_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    """It may be text of a memory."""
    made = bench(ValueError("secret words"))
    with caplog.at_level(logging.DEBUG, LOG):
        outcome = made.flush()
    assert outcome.reason == "the resolver failed: ValueError"
    assert made.row.memory_flush is not None and made.row.memory_flush.failure_count == 1
    assert not any("secret" in record.getMessage() for record in caplog.records)


def test_flush_tools_see_the_sources_sandbox_state() -> None:
    """As it was in the source turn, in every tool that is called."""
    for sandboxed in (True, False):
        made = bench(sandboxed=sandboxed)
        made.model.script = calling("keep")
        made.flush()
        assert [context.sandboxed for _, context in made.keep.made] == [sandboxed]


def test_a_host_with_keys_of_another_form() -> None:
    """It says how the flush's own session is called, and whose keys are whose."""
    from memory_sqlite.host.audiences import Audiences

    made = bench(row=replace(ROW, key="main/desk"))
    made.host.audiences = Audiences(made.host.rows, agent_of=lambda key: key.split("/")[0])
    source = replace(made.source, session_key="main/desk")
    flush = run_flush(made.host, source, run_turn=made.model, key_of=lambda agent, session: f"{agent}/flush-{session}")
    assert asyncio.run(flush).status == "completed"
    assert made.model.turns[0].session_key == f"main/flush-{made.model.turns[0].session_id}"


def test_tools_of_a_plugin_that_was_retired_are_not_called() -> None:
    """It goes in the middle of the flush; what it answered at that moment is no evidence."""
    made = bench()

    async def goes(*_: Any) -> ToolResult:
        made.host.slot.unregister(OWNER)
        return ToolResult("kept")

    made.keep.answer = goes
    made.model.script = calling("keep")
    assert (made.flush().status, len(made.keep.made)) == ("failed", 1)


def test_a_tools_plan_of_the_released_resolver_is_refused() -> None:
    """Also when it states all of its timing: what that resolver returns is a file plan and nothing else."""
    plan = replace(
        TOOLS_PLAN, soft_threshold_tokens=4_000, force_flush_transcript_bytes=2_000_000, reserve_tokens_floor=20_000
    )
    made = bench(plan, released=True)
    outcome = made.flush()
    assert outcome.status == "skipped" and made.model.turns == []
    assert outcome.reason is not None and OWNER in outcome.reason and "providerFlushPlanResolver" in outcome.reason
