"""Blocks 11 to 27 and 31 to 34 of section 13 of the layered-memory reference: the store behind the manager.

Blocks 28 to 30 (encryption) have a file of their own; 35 to 49, registration, identity and recall budgets, are not
asked of this version. A deviation is named in the test, with its reason.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import errors
from memory_sqlite.clock import FixedClock
from memory_sqlite.memory import Memory
from memory_sqlite.sources.record_lines import TYPES

S1_TOKEN = "3fe711aae85a53cba26fec699ea91acd"
DAY = "2026-07-15"


def test_block_11_a_hit_has_its_snippet_and_citation(host: Any) -> None:
    host.append("main", "s1", "r1", "用户正在使用 Python 开发服务")
    found = host.search("main", "Python 开发", sessionKey="s1")
    assert "Python" in found[0]["snippet"]
    assert re.fullmatch(r"sessions/[0-9a-f]{32}/memories/\d{4}-\d{2}-\d{2}\.jsonl#L1", found[0]["citation"])


def test_block_12_max_search_results_caps_what_is_asked_for(make_host: Callable[..., Any]) -> None:
    host = make_host(max_search_results=2)
    for number in range(5):
        host.append("main", "s1", f"r{number}", f"python note {number}")
    assert len(host.search("main", "python", sessionKey="s1", maxResults=100)) == 2


@pytest.mark.parametrize("name", ["maxResults", "minScore"])
def test_block_13_nan_is_refused_and_named(host: Any, name: str) -> None:
    with pytest.raises(errors.InvalidArgument, match=name):
        host.search("main", "python", sessionKey="s1", **{name: float("nan")})


def test_block_14_another_agent_finds_nothing(host: Any) -> None:
    host.append("agent-a", "s1", "r1", "python development")
    assert host.search("agent-b", "python", sessionKey="s1") == []
    assert not (host.settings.data_dir / "agents" / "agent-b").exists()


def test_block_15_another_session_finds_nothing(host: Any) -> None:
    host.append("main", "s1", "r1", "python development")
    assert host.search("main", "python", sessionKey="s2") == []


def test_block_16_without_a_session_key_nothing_is_found_and_it_says_why(host: Any) -> None:
    """Deviation: beside the empty list there is a reason, because an empty answer must mean that nothing matched."""
    host.append("main", "s1", "r1", "python development")
    found = host.plugin.manager("main").search("python", {"sessionKey": " \ufeff "})
    assert found == [] and found.warning is not None and "session key" in found.warning


def test_block_17_a_fact_stays_in_its_session(host: Any) -> None:
    host.append("main", "s1", "r1", "我喜欢简洁的中文回答", owner_direct=True)
    host.append("main", "s2", "r2", "ok then", owner_direct=True)
    assert host.search("main", "简洁的中文", sessionKey="s2") == []


def test_block_18_scope_agent_shares_facts_between_the_owners_direct_sessions(make_host: Callable[..., Any]) -> None:
    """Deviation: only between sessions that the host has named as the owner's direct chats. There every session of the
    agent could read them; here agent-wide facts are owner-private, in every face, and a stranger's are never shared."""
    host = make_host(profile_scope="agent")
    host.append("main", "s1", "r1", "我喜欢简洁的中文回答", owner_direct=True)
    host.append("main", "s2", "r2", "ok then", owner_direct=True)
    host.append("main", "unknown", "r3", "我喜欢别人的中文回答")
    host.append("main", "room", "r4", "hello all", chat_type="group")
    found = host.search("main", "简洁的中文", sessionKey="s2")
    assert [one["snippet"] for one in found] == ["[L3/profile] 我喜欢简洁的中文回答"]
    assert found[0]["path"] == f"agent-profiles/{DAY}.jsonl"
    for session in ("room", "never seen"):
        assert host.search("main", "简洁的中文", sessionKey=session) == []
    own = host.search("main", "别人的中文", sessionKey="unknown")
    assert "[L3/profile] 我喜欢别人的中文回答" in [one["snippet"] for one in own]


def test_block_19_a_run_is_stored_once_for_ever(make_host: Callable[..., Any], clock: FixedClock) -> None:
    """Deviation for the better: also after a restart, days later, and with other text under the same run."""
    host = make_host()
    assert host.append("main", "s1", "run", "python development") is True
    assert host.append("main", "s1", "run", "python development") is False
    host.plugin.close()
    clock.advance(5 * 86_400_000)
    again = make_host()
    assert again.append("main", "s1", "run", "python again") is False
    assert len(again.search("main", "python", sessionKey="s1")) == 1


def test_block_20_thirty_concurrent_appends_make_thirty_lines(host: Any) -> None:
    with ThreadPoolExecutor(30) as pool:
        stored = list(pool.map(lambda n: host.append("main", "s1", f"r{n}", f"python note {n}"), range(30)))
    assert all(stored)
    records = host.lines(f"sessions/{S1_TOKEN}/memories/{DAY}.jsonl")
    assert len(records) == 30 and {record["runId"] for record in records} == {f"r{n}" for n in range(30)}


def test_block_20_also_when_two_hosts_share_the_directory(make_host: Callable[..., Any]) -> None:
    """There two processes had no lock between them; here each has its own connection and SQLite's lock."""
    hosts = [make_host(), make_host()]
    for host in hosts:
        host.append("main", "s0", "first", "opening both stores")
    with ThreadPoolExecutor(10) as pool:
        stored = list(pool.map(lambda n: hosts[n % 2].append("main", "s1", f"r{n // 2}", "python note"), range(30)))
    assert sum(stored) == 15  # each run was offered by both hosts
    records = hosts[0].lines(f"sessions/{S1_TOKEN}/memories/{DAY}.jsonl")
    assert sorted(record["runId"] for record in records) == sorted(f"r{n}" for n in range(15))


def test_block_21_paths_outside_and_of_other_kinds_are_refused(host: Any) -> None:
    manager = host.plugin.manager("main")
    with pytest.raises(errors.PathNotAllowed, match="outside"):
        manager.read_file({"relPath": "../../outside"})
    with pytest.raises(errors.PathNotAllowed, match="session-capability"):
        manager.read_file({"relPath": "conversations/2026-01-01.jsonl"})


def test_block_22_a_link_in_place_of_a_file_is_never_read(host: Any, tmp_path: Path) -> None:
    """Deviation: there it is refused with "symlink outside"; here the path names rows of the store, no file is opened,
    so a link with that name changes nothing."""
    host.append("main", "s1", "r1", "python development")
    outside = tmp_path / "outside.jsonl"
    outside.write_text('{"id":"stolen"}\n')
    path = f"sessions/{S1_TOKEN}/memories/{DAY}.jsonl"
    link = host.settings.data_dir / "agents" / "main-0d6e4079e367" / path
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    (record,) = host.lines(path)
    assert record["content"] == "python development"


def test_block_23_an_aborted_signal_rejects_the_search(host: Any) -> None:
    host.append("main", "s1", "r1", "python development")
    signal = threading.Event()
    signal.set()
    with pytest.raises(errors.Cancelled):
        host.search("main", "python", sessionKey="s1", signal=signal)


def test_block_24_reading_from_a_record_index(host: Any) -> None:
    host.append("main", "s1", "r1", "first python note")
    host.append("main", "s1", "r2", "second python note")
    path = f"sessions/{S1_TOKEN}/memories/{DAY}.jsonl"
    page = host.plugin.manager("main").read_file({"relPath": path, "from": 1, "lines": 1})
    assert page["lines"] == 1 and json.loads(page["text"])["content"] == "second python note"
    assert page["truncated"] is False and "nextFrom" not in page


def test_block_25_max_read_lines_clamps_and_wrong_ranges_are_named(make_host: Callable[..., Any]) -> None:
    host = make_host(max_read_lines=1)
    host.append("main", "s1", "r1", "first python note")
    host.append("main", "s1", "r2", "second python note")
    manager = host.plugin.manager("main")
    path = f"sessions/{S1_TOKEN}/memories/{DAY}.jsonl"
    page = manager.read_file({"relPath": path, "lines": 100})
    assert (page["lines"], page["truncated"], page["nextFrom"]) == (1, True, 1)
    with pytest.raises(errors.InvalidArgument, match="from"):
        manager.read_file({"relPath": path, "from": -1})
    with pytest.raises(errors.InvalidArgument, match="lines"):
        manager.read_file({"relPath": path, "lines": 0})


def _layered_file(root: Path, folder: str, day: str, records: list[dict[str, Any]]) -> Path:
    file = root / folder / f"{day}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(one, ensure_ascii=False, separators=(",", ":")) + "\n" for one in records)
    file.write_text(text, "utf-8")
    return file


def _record(number: int, content: str, words: list[str], level: str = "L1", session: str = "s1") -> dict[str, Any]:
    return {
        "id": f"1784104200{number:03d}_0123456789ab",
        "level": level,
        "type": TYPES[level],
        "content": content,
        "keywords": words,
        "agentId": "main",
        "sessionKey": session,
        "runId": f"run-{number}",
        "createdAt": f"{DAY}T08:30:00.120Z",
    }


def test_block_26_the_byte_budget_ends_the_search_before_the_newest_record(
    make_host: Callable[..., Any], tmp_path: Path
) -> None:
    """140 records of about 8,180 bytes, budget 1,048,576, marker in the last one: nothing. Deviation: it says so."""
    source = tmp_path / "source"
    (source / ".isolation-key").parent.mkdir(parents=True)
    (source / ".isolation-key").write_bytes(bytes(range(32)))
    filler = "x" * 7_981
    rows = [_record(n, filler + (" marker" if n == 139 else " filler"), ["filler"]) for n in range(140)]
    root = source / "agents" / "main-0d6e4079e367" / "sessions" / S1_TOKEN
    file = _layered_file(root, "memories", DAY, rows)
    assert abs(file.stat().st_size - 1_145_382) < 200
    host = make_host(max_search_bytes=1_048_576)
    with Memory.open(settings=host.settings, clock=host.clock) as memory:
        assert memory.import_layered(source, agent="main").episodes == 140
    found = host.search("main", "marker", sessionKey="s1")
    assert found == [] and found.coverage == "partial" and "maxSearchBytes" in (found.warning or "")
    # record 127 is the last that fits, as there
    assert len(host.search("main", "filler", sessionKey="s1", maxResults=10)) == 10
    wide = make_host(max_search_bytes=2_097_152)
    assert [one["startLine"] for one in wide.search("main", "marker", sessionKey="s1")] == [140]


def test_block_27_retention_deletes_whole_days_that_are_too_old(
    make_host: Callable[..., Any], clock: FixedClock
) -> None:
    """A day of 2020 next to a live one: cleaning returns the files that went, and they are gone. Deviation: the
    conversation of that day is counted too, because here a turn always has one; run ids are kept for ever."""
    host = make_host()
    live = clock.ms
    clock.ms = 1_577_836_800_000 + 3_600_000
    host.append("main", "s1", "old", "python of long ago")
    clock.ms = live
    host.append("main", "s1", "new", "python of today")
    manager = host.plugin.manager("main")
    assert manager.status()["files"] == 4
    assert manager.sync() == 2
    assert manager.status()["files"] == 2 and manager.sync() == 0
    assert [one["snippet"] for one in host.search("main", "python", sessionKey="s1")] == [
        "[L1/episodic] python of today"
    ]
    assert host.lines(f"sessions/{S1_TOKEN}/memories/2020-01-01.jsonl") == []
    assert host.append("main", "s1", "old", "python of long ago") is False


def test_block_27_the_day_that_begins_at_the_cutoff_is_kept(make_host: Callable[..., Any], clock: FixedClock) -> None:
    host = make_host(retention_days=1)
    clock.ms = 1_784_073_600_000  # 2026-07-15T00:00:00Z
    host.append("main", "s1", "r1", "python development")
    clock.advance(86_400_000)
    assert host.plugin.manager("main").sync() == 0
    clock.advance(1)
    assert host.plugin.manager("main").sync() == 2


def test_block_27_other_rooms_follow_the_deletion(make_host: Callable[..., Any], clock: FixedClock) -> None:
    """The change log tells the index: what retention took is not searchable by anybody."""
    host = make_host()
    host.append("main", "s1", "r1", "python development")
    clock.advance(200 * 86_400_000)
    host.plugin.manager("main").sync()
    host.plugin.close()
    with Memory.open(host.settings.data_dir, clock=clock) as memory:
        assert memory.search("python").hits == ()


def test_block_31_a_record_over_the_bound_is_refused(make_host: Callable[..., Any]) -> None:
    """Deviation for the better: the turn is refused whole, so a retry with a larger bound stores all of it."""
    host = make_host(max_record_bytes=1_024)
    with pytest.raises(errors.RecordTooLarge, match=r"\[memory\] record exceeds maxRecordBytes \(1024\)"):
        host.append("main", "s1", "r1", "x" * 2_000)
    assert host.search("main", "x" * 2_000, sessionKey="s1") == []
    host.plugin.close()
    assert make_host().append("main", "s1", "r1", "x" * 2_000) is True


def test_block_32_the_number_of_files_survives_a_restart(make_host: Callable[..., Any]) -> None:
    host = make_host(extraction_interval=1)
    host.append("main", "s1", "r1", "我喜欢 TypeScript 严格模式")
    host.append("main", "s2", "r2", "python development")
    before = host.plugin.manager("main").status()["files"]
    host.plugin.close()
    assert make_host(extraction_interval=1).plugin.manager("main").status()["files"] == before == 7


def test_block_33_the_layout_before_sessions_is_imported_under_its_session(
    make_host: Callable[..., Any], tmp_path: Path
) -> None:
    """Deviation: nothing is moved to ``.legacy-backup``. The old directory is never written; it is imported into a new
    one by command, so the source stays where and what it was."""
    source = tmp_path / "source"
    root = source / "agents" / "main-0d6e4079e367"
    file = _layered_file(root, "memories", "2026-07-01", [_record(1, "python development", ["python", "development"])])
    before = file.read_bytes()
    host = make_host()
    with Memory.open(settings=host.settings, clock=host.clock) as memory:
        memory.import_layered(source, agent="main")
    (found,) = host.search("main", "python", sessionKey="s1")
    assert found["path"] == f"sessions/{S1_TOKEN}/memories/2026-07-01.jsonl"
    assert file.read_bytes() == before and not (root / ".legacy-backup").exists()


def test_block_34_status_names_provider_vectors_and_isolation(host: Any) -> None:
    status = host.plugin.manager("main").status()
    assert status["provider"] == "local-lexical" and status["vector"]["enabled"] is False
    assert status["custom"]["isolation"] == "agent+physical-session"
