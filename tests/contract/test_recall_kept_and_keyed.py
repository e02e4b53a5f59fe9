"""Recall before a prompt with our own plugin: what was forgotten is not recalled from a cache, a project is one project
however its name is written; and what a plugin that was retired, or a caller that has changed, gets."""

from __future__ import annotations

import dataclasses
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.host.consumers.deep_recall import DeepRecall, DeepRun
from memory_sqlite.host.consumers.project_recall import recall_projects
from memory_sqlite.host.consumers.recall_turn import RecallTurn
from memory_sqlite.host.consumers.trigger_recall import TriggerRecall
from memory_sqlite.host.consumers.wiki import read_lookup
from memory_sqlite.host.memory_host import MemoryHost
from memory_sqlite.host.session_rows import SessionRow
from memory_sqlite.host.slots import Plugin
from memory_sqlite.recall.project_candidates import active_keys
from memory_sqlite.runtime.plugins import Tool, ToolContext, ToolResult
from memory_sqlite.runtime.shapes import CandidateRequest, OpenRequest, SearchRequest

from .gateway_kit import KEY, MEMORY, SESSION_ID, TOOLS, Files, config, operator, our_host, run

NFC = "Caf\u00e9"
NFD = unicodedata.normalize("NFD", "caf\u00e9")


async def owners_turn(host: MemoryHost, message: str = "is the wifi on?") -> RecallTurn:
    audience = await host.turn_audience(agent_id="main", session_key=KEY, session_id=SESSION_ID, sender_is_owner=True)
    facts = ToolContext("main", KEY, SESSION_ID, active_project_keys=("harbor",), sender_is_owner=True)
    return RecallTurn("run 1", message, host.tool_context(facts, audience), TOOLS)


def test_what_was_forgotten_is_not_recalled_for_a_retry(memory: Memory, workspace: Path) -> None:
    """Neither by trigger nor in depth; nobody has to clear a cache for that."""
    host = our_host(memory, workspace)
    for one in memory.plugin().tools:
        host.tools.register(one)

    async def think(deep: DeepRun) -> str:
        return (await deep.call("memory_search", {"query": "granite"})).text

    async def main() -> None:
        by_trigger, in_depth, turn = TriggerRecall(host), DeepRecall(host), await owners_turn(host)
        for _ in range(2):
            assert "granite router" in (await by_trigger.recall(turn)).text
            assert "granite router" in await in_depth.recall(turn, think, max_units=1_000)
        assert len(by_trigger.cache._kept) == len(in_depth.cache._kept) == 1
        memory.forget(references=(memory.search("granite").hits[0].reference,))
        assert (await by_trigger.recall(turn)).text == ""
        assert "granite router" not in await in_depth.recall(turn, think, max_units=1_000)

    run(main())


def test_a_provider_that_cannot_say_what_it_forgot_recalls_nothing(memory: Memory, workspace: Path) -> None:
    host = our_host(memory, workspace)
    owner = host.slot.owner()
    assert owner is not None

    async def fails(agent_id: str) -> Any:
        raise RuntimeError(agent_id)

    owner.capability.provider_runtime.forgotten_mark = fails  # type: ignore[union-attr]

    async def main() -> str:
        return (await TriggerRecall(host).recall(await owners_turn(host))).text

    assert run(main()) == ""


def test_a_pass_is_not_recalled_for_a_turn_that_has_none() -> None:
    """A legacy owner's turns have no audience: what the owner's pass brought is not another sender's."""
    files, ran = Files(), list[Any]()

    async def called(arguments: Any, context: ToolContext) -> ToolResult:
        ran.append(context.conversation_recall)
        return ToolResult(f"answer {len(ran)}")

    files.host.tools.register(Tool("memory_search", "", {}, called, "files"))
    files.host.rows.put(SessionRow(KEY, SESSION_ID, "one", "direct"))
    turn = RecallTurn("r", "router?", ToolContext("main", KEY, sender_is_owner=True), TOOLS)
    stranger = dataclasses.replace(turn, facts=dataclasses.replace(turn.facts, sender_is_owner=False))

    async def think(deep: DeepRun) -> str:
        return (await deep.call("memory_search", {})).text

    async def main() -> list[str]:
        recall = DeepRecall(files.host)
        answers = [await recall.recall(one, think, corpus="sessions") for one in (turn, stranger, turn)]
        files.host.rows.put(SessionRow(KEY, SESSION_ID, "one", "group"))
        return [*answers, await recall.recall(turn, think, corpus="sessions")]

    first, second, third, fourth = run(main())
    assert "answer 1" in first and "answer 2" in second and third == first and "answer 3" in fourth
    assert [granted is not None for granted in ran] == [True, False, False]


@pytest.mark.parametrize(("written", "asked"), [(NFC, NFD), (NFD, NFC), (NFD, f" {NFC.upper()} ")])
def test_a_project_is_one_however_its_name_is_composed(
    memory: Memory, workspace: Path, written: str, asked: str
) -> None:
    """In the provider's filter, in its candidates, in the legacy manager's, and in the host's recall."""
    (workspace / "memory" / "plan.md").write_text(
        f"# Plan\n\n<!-- trigger: oven -->\n<!-- project: {written} -->\nThe granite oven opens at six.\n",
        encoding="utf-8",
    )
    memory.index()
    host = MemoryHost(config("memory-sqlite"))
    host.slot.register(Plugin("memory-sqlite", MEMORY), memory.capability())

    async def main() -> list[int]:
        opened = await host.open(OpenRequest("main", operator()))
        assert opened.provider is not None
        found = []
        for keys in ((asked,), ("elsewhere",)):
            page = await opened.provider.search(SearchRequest("granite oven", active_project_keys=keys))
            listed = await opened.provider.candidates(CandidateRequest("project", 5, keys))  # type: ignore[attr-defined]
            given = await recall_projects(host, agent_id="main", active_project_keys=keys, context=operator())
            runtime = memory.capability().runtime
            assert runtime is not None
            manager = (await runtime.get_memory_search_manager(config={}, agent_id="main")).manager
            legacy = await manager.list_curated_project_candidates(keys)
            found += [len(page.hits), len(listed.hits), len(given.hits), len(legacy)]
        await opened.provider.close()
        return found

    assert run(main()) == [1, 1, 1, 1, 0, 0, 0, 0]
    assert active_keys([NFC, NFD]) == active_keys([asked])


def test_a_plugin_that_was_retired_shows_no_file_to_a_wiki() -> None:
    """Neither what it still reads nor, when it hangs, anything: nobody waits for it."""
    files = Files()

    async def retire(*asked: Any) -> Any:
        assert files.instance is not None
        files.instance.retire()
        return {"text": "The router is upstairs.", "path": "memory/net.md"}

    files.manager.read_file = retire  # type: ignore[method-assign]
    with pytest.raises(errors.ProviderUnavailable, match="memory provider instance is no longer current"):
        run(read_lookup(files.host, "memory/net.md", agent_id="main"))


@pytest.mark.parametrize(
    "change",
    [
        {"agent_id": "research"},
        {"session_id": "another"},
        {"sandboxed": True},
        {"sender_is_owner": True},
        {"active_project_keys": ("mill",)},
    ],
)
def test_criterion_143_an_answer_is_kept_for_exactly_these_facts(change: dict[str, Any]) -> None:
    """Also where no audience tells two askings apart; and a plugin that was loaded anew is another one."""
    files, again = Files(), Files()
    owner, reloaded = files.host.slot.owner(), again.host.slot.owner()
    assert owner is not None and reloaded is not None
    facts = ToolContext("main", KEY, SESSION_ID)
    turn = RecallTurn("run 1", "router?", facts, TOOLS)
    other = RecallTurn("run 1", "router?", dataclasses.replace(facts, **change), TOOLS)
    assert turn.key(owner) == RecallTurn("run 1", "router?", dataclasses.replace(facts), TOOLS).key(owner)
    assert turn.key(owner) != other.key(owner) and turn.key(owner) != turn.key(reloaded)
