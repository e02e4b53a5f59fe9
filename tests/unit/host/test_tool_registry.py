"""Whose a tool is comes from its registration alone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from memory_sqlite import errors
from memory_sqlite.host.memory_host import MemoryHost
from memory_sqlite.host.session_rows import SessionRow
from memory_sqlite.host.tools import ToolRegistry
from memory_sqlite.runtime.plugins import Tool, ToolContext, ToolResult

KEY, ID = "agent:main:direct:a", "10000000-0000-4000-8000-000000000001"


async def nothing(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    return ToolResult("")


def tool(name: str, plugin_id: str) -> Tool:
    return Tool(name, "", {}, nothing, plugin_id)


def test_tools_of_the_same_name_are_told_apart() -> None:
    """Neither plugin gets the other's."""
    registry = ToolRegistry()
    mine, other, second = tool("search", "mine"), tool("search", "other"), tool("get", "mine")
    for one in (mine, other, second):
        registry.register(one)
    assert registry.owned_by("mine") == {"search": mine, "get": second}
    assert registry.get("mine", "search") is mine
    assert registry.get("other", "search") is other
    assert registry.get("other", "get") is None
    assert registry.all() == (mine, other, second)


def test_a_plugin_replaces_and_takes_away_its_own() -> None:
    """And leaves the other's alone."""
    registry = ToolRegistry()
    first, again, other = tool("search", "mine"), tool("search", "mine"), tool("search", "other")
    for one in (first, other, again):
        registry.register(one)
    assert registry.get("mine", "search") is again
    registry.unregister("mine")
    assert registry.all() == (other,)


@pytest.mark.parametrize(("name", "plugin_id"), [("", "mine"), ("search", "")])
def test_nameless_tools_are_refused(name: str, plugin_id: str) -> None:
    """A tool that is nobody's would pass for anybody's."""
    with pytest.raises(errors.ProviderInvalid):
        ToolRegistry().register(tool(name, plugin_id))


def test_context_of_a_tool_carries_the_audience_with_its_check() -> None:
    """The check is for this session and raises when the audience lapses; without an audience there is none."""

    async def work() -> None:
        host = MemoryHost({})
        host.rows.put(SessionRow(KEY, ID, "r1", "direct"))
        audience = await host.audiences.resolve(agent_id="main", session_key=KEY, session_id=ID, sender_is_owner=True)
        turn: dict[str, Any] = {"agent_id": "main", "session_key": KEY, "session_id": ID}
        context = host.tool_context(ToolContext(**turn, sandboxed=True), audience)
        assert (context.memory_audience, context.sandboxed) == (audience, True)
        assert context.assert_memory_audience_current is not None
        context.assert_memory_audience_current()
        host.audiences.release(audience)
        with pytest.raises(errors.CallerNotCurrent):
            context.assert_memory_audience_current()
        without = host.tool_context(context, None)
        assert (without.memory_audience, without.assert_memory_audience_current) == (None, None)

    asyncio.run(work())
