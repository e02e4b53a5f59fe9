"""The manager's shapes and the readFile rules of sections 4.3 and 5 of the layered-memory reference."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from memory_sqlite import errors
from memory_sqlite.config import Settings
from memory_sqlite.integrations.layered_memory.plugin import LayeredPlugin
from memory_sqlite.memory import Memory
from memory_sqlite.sources import record_lines

DM = "agent:main:wecom:dm:u-1001"
DM_TOKEN = "1aa3d6ed088975f460389f76f9cd01f8"
DAY = "2026-07-15"


@pytest.fixture
def expenses(make_host: Callable[..., Any]) -> Any:
    """The example turn of section 2: one user message with all layers."""
    host = make_host(extraction_interval=1)
    host.append("main", DM, "run-7f3a", "我喜欢用表格看报销明细。请整理三月的差旅费用", sender="u-1001")
    return host


def test_results_have_the_products_keys_in_order_and_the_example_scores(expenses: Any) -> None:
    """Section 11: with L1, L2 and L3 present there are three hits of 0.3333 in that order."""
    found = expenses.search("main", "报销表格偏好", sessionKey=DM)
    assert [list(one) for one in found] == [
        ["path", "startLine", "endLine", "score", "textScore", "snippet", "source", "citation"]
    ] * 3
    assert [one["snippet"][:4] for one in found] == ["[L1/", "[L2/", "[L3/"]
    assert {one["score"] for one in found} == {1 / 3} == {one["textScore"] for one in found}
    path = f"sessions/{DM_TOKEN}/profiles/{DAY}.jsonl"
    assert found[2] == {
        "path": path,
        "startLine": 1,
        "endLine": 1,
        "score": 1 / 3,
        "textScore": 1 / 3,
        "snippet": "[L3/profile] 我喜欢用表格看报销明细",
        "source": "memory",
        "citation": f"{path}#L1",
    }


def test_a_whole_score_is_written_as_javascript_writes_it(expenses: Any) -> None:
    found = expenses.search("main", "我喜欢用表格看报销明细", sessionKey=DM)
    assert json.dumps(found[0]["score"]) == "1"


def test_ties_keep_root_order_then_newest_day_then_oldest_line(make_host: Callable[..., Any], clock: Any) -> None:
    host = make_host(extraction_interval=1)
    for run, text in enumerate(["python one", "python two"]):
        host.append("main", "s1", f"a{run}", text)
    clock.advance(86_400_000)
    host.append("main", "s1", "b", "python three")
    snippets = [one["snippet"] for one in host.search("main", "python", sessionKey="s1")]
    assert snippets[:3] == ["[L1/episodic] python three", "[L1/episodic] python one", "[L1/episodic] python two"]
    assert [text[:13] for text in snippets[3:]] == ["[L2/scenario]"] * 3


def test_min_score_is_a_floor_and_max_results_a_cap(expenses: Any) -> None:
    assert expenses.search("main", "报销表格偏好", sessionKey=DM, minScore=0.5) == []
    assert len(expenses.search("main", "报销表格偏好", sessionKey=DM, maxResults=2)) == 2
    for wrong in (0, -1, 1.5, "3", True):
        with pytest.raises(errors.InvalidArgument, match="maxResults"):
            expenses.search("main", "x", sessionKey=DM, maxResults=wrong)


def test_snippets_are_cut_to_500_units(host: Any) -> None:
    host.append("main", "s1", "r1", "python " + "字" * 600)
    (found,) = host.search("main", "python", sessionKey="s1")
    assert len(found["snippet"]) == 500 and found["snippet"].startswith("[L1/episodic] python")


@pytest.mark.parametrize("query", ["", " ", "茶", "？", "\0", "a" * 100_000, "\ud83d", '" OR *', "x' OR 1=1 --"])
def test_odd_queries_are_answered(host: Any, query: str) -> None:
    """User text is data: it never becomes syntax, and a query without keywords finds nothing."""
    host.append("main", "s1", "r1", "python development")
    assert host.search("main", query, sessionKey="s1") == []


def test_superseded_facts_of_standard_times_are_found_too(make_host: Callable[..., Any], tmp_path: Any) -> None:
    """The product knows no supersession: after switching over, both facts are there."""
    with Memory.open(tmp_path / "data") as memory:
        for run, text in enumerate(["I like coffee very much", "I don't like coffee any more"]):
            memory.remember(session="s1", run_id=str(run), messages=[{"role": "user", "content": text}])
        assert memory.status()["superseded"] == 1
    host = make_host()
    profiles = [one for one in host.search("main", "coffee", sessionKey="s1") if "[L3/profile]" in one["snippet"]]
    assert len(profiles) == 2


def test_record_lines_are_the_products_own(expenses: Any) -> None:
    """Section 2: compact, non-ASCII unescaped, keys in order; what is omitted is absent."""
    manager = expenses.plugin.manager("main")
    text = manager.read_file({"relPath": f"sessions/{DM_TOKEN}/profiles/{DAY}.jsonl"})["text"]
    record = json.loads(text)
    assert list(record) == [
        *("id", "level", "type", "content", "keywords", "agentId", "sessionKey", "senderId", "runId", "createdAt")
    ]
    assert text == json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"
    assert record["keywords"][:2] == ["我喜欢用表格看报销明细", "我喜"] and record["createdAt"].endswith("Z")
    (scenario,) = expenses.lines(f"sessions/{DM_TOKEN}/scenarios/{DAY}.jsonl")
    assert scenario["senderId"] == "u-1001" and scenario["content"].startswith("会话场景：我喜欢用表格看报销明细、")


@pytest.mark.parametrize("text", ["python", '引号 " 和 \\ 😀\n', "é\u0301 \ud83d tail", "x" * 3_000])
def test_the_size_that_is_accounted_is_the_size_of_the_line(host: Any, text: str) -> None:
    host.append("main", DM, "r1", "words " + text, sender="ü")
    with host.plugin.memory("main").opened(create=False).store.readers.borrow() as connection:
        for line in record_lines.lines(connection, "memories", DAY, record_lines.Selection()):
            assert record_lines.encoded_size(line, "main") == len(record_lines.encoded(line, "main").encode("utf-8"))
            json.loads(record_lines.encoded(line, "main"))


def test_an_absent_run_and_sender_are_omitted(host: Any) -> None:
    host.append("main", DM, None, "python development")
    (record,) = host.lines(f"sessions/{DM_TOKEN}/memories/{DAY}.jsonl")
    assert "runId" not in record and "senderId" not in record


def test_reading_pages_on_and_past_the_end(host: Any) -> None:
    for number in range(3):
        host.append("main", DM, f"r{number}", f"python note {number}")
    path = f"sessions/{DM_TOKEN}/memories/{DAY}.jsonl"
    manager = host.plugin.manager("main")
    page = manager.read_file({"relPath": path, "from": 1, "lines": 1})
    assert list(page) == ["text", "path", "from", "lines", "truncated", "nextFrom"]
    assert (page["path"], page["from"], page["nextFrom"]) == (path, 1, 2)
    last = manager.read_file({"relPath": path, "from": page["nextFrom"]})
    assert json.loads(last["text"])["content"] == "python note 2" and last["truncated"] is False
    assert manager.read_file({"relPath": path, "from": 10**30}) == {
        "text": "",
        "path": path,
        "from": 2**62,
        "lines": 0,
        "truncated": False,
    }
    missing = manager.read_file({"relPath": f"sessions/{'0' * 32}/memories/{DAY}.jsonl"})
    assert (missing["text"], missing["lines"]) == ("", 0)


@pytest.mark.parametrize("path", ["/etc/passwd", "..", ".", "sessions/../../x", "a\0b"])
def test_paths_outside_are_named_so(host: Any, path: str) -> None:
    with pytest.raises(errors.PathNotAllowed, match="refusing to read outside the agent memory directory"):
        host.plugin.manager("main").read_file({"relPath": path})


@pytest.mark.parametrize(
    "path",
    [
        f"sessions/{DM_TOKEN}/conversations/{DAY}.jsonl",
        f"sessions/{DM_TOKEN.upper()}/memories/{DAY}.jsonl",
        f"sessions\\{DM_TOKEN}\\memories\\{DAY}.jsonl",
        f"sessions/{DM_TOKEN}/memories/{DAY}.jsonl\n",
        f"sessions/{DM_TOKEN}/memories/../memories/{DAY}.jsonl",
        f"sessions/{DM_TOKEN}/memories/notes.jsonl",
        f"agent-profiles/{DAY}.jsonl",
        ".legacy-backup/memories/2026-07-01.jsonl",
        "memory.sqlite",
    ],
)
def test_other_paths_are_no_capability(host: Any, path: str) -> None:
    with pytest.raises(errors.PathNotAllowed, match="only session-capability or agent-profile memory files"):
        host.plugin.manager("main").read_file({"relPath": path})


def test_scope_agent_moves_profiles_and_refuses_the_session_form(make_host: Callable[..., Any]) -> None:
    host = make_host(profile_scope="agent")
    host.append("main", DM, "r1", "我喜欢用表格看报销明细", owner_direct=True)
    host.append("main", "room", "r2", "hello all", chat_type="group")
    manager = host.plugin.manager("main")
    with pytest.raises(errors.PathNotAllowed, match="session-capability"):
        manager.read_file({"relPath": f"sessions/{DM_TOKEN}/profiles/{DAY}.jsonl"})
    path = f"agent-profiles/{DAY}.jsonl"
    assert manager.read_file({"relPath": path, "sessionKey": DM})["lines"] == 1
    assert manager.read_file({"relPath": path, "sessionKey": "room"})["lines"] == 0
    with pytest.raises(errors.AccessDenied):  # deviation: anybody can guess this path, so it is no capability
        manager.read_file({"relPath": path})
    assert manager.status()["custom"]["isolation"] == "agent+physical-session-with-agent-profiles"


def test_a_strangers_fact_is_never_agent_wide(make_host: Callable[..., Any]) -> None:
    """Whatever the scope says, and through every door: it stays in its session."""
    host = make_host(profile_scope="agent")
    host.append("main", "stranger", "r1", "我喜欢打折的中文回答")
    host.append("main", "mine", "r2", "ok then", owner_direct=True)
    with Memory.open(settings=host.settings, clock=host.clock) as memory:
        assert memory.search("打折", session="mine").hits == ()
        fact = next(hit for hit in memory.search("打折", session="stranger").hits if hit.layer == "L3")
        with pytest.raises(errors.AccessDenied):
            memory.get(fact.reference, session="mine")


def test_with_a_session_key_only_that_sessions_files_are_read(host: Any) -> None:
    """Deviation: a host that passes the session gets the rule of search for reading, too."""
    host.append("main", DM, "r1", "python development")
    host.append("main", "s2", "r2", "other words")
    manager = host.plugin.manager("main")
    path = f"sessions/{DM_TOKEN}/memories/{DAY}.jsonl"
    assert manager.read_file({"relPath": path, "sessionKey": DM})["lines"] == 1
    for other in ("s2", "never seen"):
        with pytest.raises(errors.AccessDenied):
            manager.read_file({"relPath": path, "sessionKey": other})


def test_status_has_every_key_of_the_product(host: Any) -> None:
    host.append("main", "s1", "r1", "python development")
    status = host.plugin.manager("main").status()
    assert list(status) == ["backend", "provider", "files", "workspaceDir", "sources", "vector", "custom"]
    assert (status["backend"], status["files"], status["sources"]) == ("builtin", 2, ["memory"])
    assert status["workspaceDir"].endswith("agents/main-0d6e4079e367")
    assert status["vector"] == {"enabled": False, "semanticAvailable": False, "available": False}
    assert list(status["custom"]) == ["encrypted", "retentionDays", "isolation", "profileScope", "pendingWrites"]
    assert status["custom"]["pendingWrites"] == 0


def test_probes_say_that_there_are_no_embeddings(host: Any) -> None:
    manager = host.plugin.manager("main")
    assert manager.probe_embedding_availability() == {
        "ok": False,
        "checked": True,
        "checkedAtMs": host.clock.ms,
        "error": "local lexical search does not use embeddings",
    }
    assert manager.probe_vector_availability() is False


def test_reading_an_agent_that_has_no_memory_makes_nothing(host: Any) -> None:
    manager = host.plugin.manager("nobody")
    found = manager.search("python", {"sessionKey": "s1"})
    assert found == [] and found.warning == "this agent has no memory yet"
    assert manager.status()["files"] == 0 and manager.sync() == 0
    assert not (host.settings.data_dir / "agents").exists()


def test_a_closed_plugin_refuses_and_a_closed_manager_opens_again(host: Any) -> None:
    host.append("main", "s1", "r1", "python development")
    host.plugin.manager("main").close()
    assert len(host.search("main", "python", sessionKey="s1")) == 1
    host.plugin.close()
    host.plugin.close()
    with pytest.raises(errors.MemoryClosed, match=r"\[memory\] store is closed"):
        host.search("main", "python", sessionKey="s1")


def test_a_disabled_memory_answers_and_makes_nothing(make_host: Callable[..., Any]) -> None:
    host = make_host(enabled=False)
    assert host.append("main", "s1", "r1", "python development") is False
    found = host.plugin.manager("main").search("python", {"sessionKey": "s1"})
    assert found == [] and found.warning == "memory is disabled"
    assert not (host.settings.data_dir / "agents").exists()


def test_the_face_needs_the_switch(tmp_path: Any) -> None:
    with pytest.raises(errors.InvalidConfiguration):
        LayeredPlugin(Settings(data_dir=tmp_path))


def test_a_directory_of_the_product_is_not_touched(tmp_path: Any) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / ".isolation-key").write_bytes(bytes(32))
    warnings: list[str] = []
    with LayeredPlugin.from_configuration({"dataDir": str(tmp_path / "old")}, warn=warnings.append) as plugin:
        with pytest.raises(errors.LegacyLayout):
            plugin.manager("main").search("python", {"sessionKey": "s1"})
        message = {"role": "user", "content": "python development"}
        plugin.hooks.agent_end({"success": True, "messages": [message]}, {"sessionKey": "s1"})
    assert len(warnings) == 1 and "python" not in warnings[0]
    assert [path.name for path in (tmp_path / "old").iterdir()] == [".isolation-key"]


def test_the_doors_search_uses_the_same_order_and_our_audience(make_host: Callable[..., Any]) -> None:
    """``Memory.search`` under the switch: the product's score over records, hits as everywhere else."""
    host = make_host(extraction_interval=1)
    host.append("main", "s1", "r1", "用户正在使用 Python 开发服务")
    host.append("main", "s2", "r2", "other words about python")
    with Memory.open(settings=host.settings, clock=host.clock) as memory:
        page = memory.search("Python 开发")
        assert [(hit.layer, round(hit.score, 4)) for hit in page.hits] == [
            *[("L1", 1.0), ("L2", 1.0)],
            *[("L1", 0.5), ("L2", 0.5)],
        ]
        first = page.hits[0]
        assert [first.excerpt[span.start : span.end].lower() for span in first.matches] == ["python", "开发"]
        assert memory.get(first.reference).text == first.excerpt + "\n"
        assert {hit.session for hit in memory.search("python", session="s2").hits} == {"s2"}
        assert memory.search("python", session="never seen").hits == ()
        assert [hit.layer for hit in memory.search("python", layers=("L2",)).hits] == ["L2", "L2"]
        only_sessions = memory.search("python", sources=("sessions",))
        assert only_sessions.hits == () and "records only" in only_sessions.warnings[0]
