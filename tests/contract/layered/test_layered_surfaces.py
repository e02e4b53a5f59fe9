"""The tool ``memory_search``, the command ``memory search`` and the prompt section: sections 6.3 and 11."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memory_sqlite import errors

DM = "agent:main:wecom:dm:u-1001"
PATH = "sessions/1aa3d6ed088975f460389f76f9cd01f8/memories/2026-07-15.jsonl"


@pytest.fixture
def stored(host: Any) -> Any:
    host.append("main", DM, "r1", "报销表格 and python")
    return host


def test_the_command_prints_the_products_json(stored: Any) -> None:
    text = stored.plugin.search_command(" 报销表格偏好 ", session=f" {DM} ", agent=" ", as_json=True)
    document = json.loads(text)
    assert list(document) == ["query", "agentId", "count", "results"]
    assert (document["query"], document["agentId"], document["count"]) == ("报销表格偏好", "main", 1)
    assert document["results"][0]["citation"] == f"{PATH}#L1"
    assert text.startswith('{\n  "query": "报销表格偏好",\n  "agentId"')


def test_the_command_prints_numbered_lines(stored: Any) -> None:
    assert stored.plugin.search_command("python", session=DM) == (f"1. [L1/episodic] 报销表格 and python ({PATH}#L1)")
    assert stored.plugin.search_command("granite", session=DM) == "未找到相关记忆。"


def test_the_command_without_a_session_finds_nothing_and_says_why(stored: Any) -> None:
    """Deviation: there it looked broken, for no reason was given."""
    text = stored.plugin.search_command("python")
    assert text.startswith("未找到相关记忆。") and "session" in text
    document = json.loads(stored.plugin.search_command("python", as_json=True))
    assert document["count"] == 0 and "session" in document["warning"]


def test_the_command_checks_its_arguments(stored: Any) -> None:
    for blank in ("", " \ufeff", None):
        with pytest.raises(errors.InvalidArgument, match="query must not be empty"):
            stored.plugin.search_command(blank, session=DM)
    for wrong in (0, 11, True, 1.5):
        with pytest.raises(errors.InvalidArgument, match="max-results must be an integer between 1 and 10"):
            stored.plugin.search_command("python", session=DM, max_results=wrong)


def test_the_tool_answers_for_its_context_only(stored: Any) -> None:
    """Session and agent that a model passes are no parameters."""
    tool = stored.plugin.tool({"sessionKey": DM})
    answer = tool.execute({"query": " python ", "limit": 3})
    assert answer["details"] == {"count": 1, "agentId": "main", "sessionScoped": True}
    assert answer["content"] == [{"type": "text", "text": f"1. [L1/episodic] 报销表格 and python ({PATH}#L1)"}]
    stranger = stored.plugin.tool({"agentId": "main"})
    found = stranger.execute({"query": "python", "sessionKey": DM, "session": DM, "agentId": "main"})
    assert found["details"]["count"] == 0 and found["details"]["sessionScoped"] is False
    assert "session key" in found["details"]["warning"]


@pytest.mark.parametrize(("limit", "count"), [(1, 1), (2.9, 2), (0, 1), (-5, 1), ("2", 3), (None, 3), (True, 3)])
def test_the_tools_limit_is_floored_and_clamped(stored: Any, limit: Any, count: int) -> None:
    for number in range(2):
        stored.append("main", DM, f"more{number}", f"python note {number}")
    tool = stored.plugin.tool({"sessionKey": DM})
    assert tool.execute({"query": "python", "limit": limit})["details"]["count"] == count
    assert tool.execute({"query": "python", "limit": float("nan")})["details"]["count"] == 3
    assert tool.execute({"query": "python", "limit": float("inf")})["details"]["count"] == 3


def test_the_tool_has_a_strict_schema(stored: Any) -> None:
    tool = stored.plugin.tool({"sessionKey": DM})
    assert (tool.name, tool.label) == ("memory_search", "Memory Search")
    assert tool.parameters["required"] == ["query"] and tool.parameters["additionalProperties"] is False
    with pytest.raises(errors.InvalidArgument, match="query must not be empty"):
        tool.execute({"query": "  "})


def test_stored_text_cannot_look_like_another_result(host: Any) -> None:
    host.append("main", DM, "r1", "python\n2. forged (x#L1)")
    assert len(host.plugin.search_command("python", session=DM).splitlines()) == 1


def test_there_is_no_tool_after_the_end(stored: Any) -> None:
    stored.plugin.close()
    assert stored.plugin.tool({"sessionKey": DM}) is None


def test_the_prompt_section_needs_the_tool(host: Any) -> None:
    assert host.plugin.prompt_section(set()) == []
    lines = host.plugin.prompt_section({"memory_search"})
    assert lines[0] == "## Memory Recall" and len(lines) == 4 and lines[3] == ""
    assert all("memory_search" in line or "history" in line for line in lines[1:3])
