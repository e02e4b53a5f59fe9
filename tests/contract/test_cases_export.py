"""The collected case of exports and imports that lost links, dates, layers or ids, or doubled the store (C156)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.clock import FixedClock
from memory_sqlite.config import Settings

DOCUMENTED = {"agent", "exported_at"}
"""Fields of the header that are another agent's own."""


def open_agent(tmp_path: Path, agent: str, clock: FixedClock, data: str = "data") -> Memory:
    return Memory.open(settings=Settings(data_dir=tmp_path / data, agent=agent), clock=clock)


def fill(memory: Memory, clock: FixedClock) -> None:
    """Three facts of which one supersedes another and one is pinned, two sessions with L1 to L3 and their sources, a
    tombstone, times to the millisecond, and text that is hard to carry."""
    owner: dict[str, Any] = {"chat_type": "direct", "kind": "interactive", "sender_is_owner": True}
    for number in range(6):
        clock.advance(61_017)
        memory.remember(
            session="agent:main:first",
            run_id=f"run-{number}",
            messages=[
                {"role": "user", "content": f"I live in town{number % 2}. \U0001f9ed \0 line\u2028end {number}"},
                {"role": "assistant", "content": 'Noted: "\\u0000" \u2029.', "id": f"a{number}"},
            ],
            **owner,
        )
    clock.advance(503)
    memory.remember(session="second", messages=[{"role": "user", "content": "I love oolong.", "sender": "mika"}])
    for content in ("The crane is serviced in May.", "The crane is serviced in June."):  # f1, and f2 in its place
        clock.advance(7)
        memory.remember_facts([{"content": content, "name": "crane service"}], session="agent:main:first")
    clock.advance(11)
    memory.remember_facts(
        [{"content": "The gate code is under the mat.", "name": "gate", "pinned": True, "scopes": ["harbor"]}],
        session="agent:main:first",
    )
    lost = memory.remember_facts([{"content": "The nineth fact.", "name": "f9"}], session="second").facts
    memory.forget(references=list(lost))
    memory.forget(participants=["somebody who never spoke"])


def body(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def header(path: Path) -> dict[str, Any]:
    first: dict[str, Any] = json.loads(body(path)[0])
    return {name: value for name, value in first.items() if name not in DOCUMENTED}


def counts(memory: Memory) -> dict[str, Any]:
    status = memory.status()
    return {name: status[name] for name in ("sessions", "turns", "messages", "records", "superseded")}


def test_case_C156_export_and_import_lose_nothing_and_add_nothing_twice(tmp_path: Path, clock: FixedClock) -> None:
    """Into an empty agent and out again gives the same bytes but for the header's agent and time; a second import and
    one into its own store add nothing."""
    with open_agent(tmp_path, "alpha", clock) as alpha:
        fill(alpha, clock)
        before = counts(alpha)
        report = alpha.export(tmp_path / "a.jsonl")
        kinds = {json.loads(line)["kind"] for line in body(tmp_path / "a.jsonl")}
        assert kinds >= {"header", "tombstone", "session", "turn", "message", "record", "record_source", "end"}
        assert min(before["records"].values()) > 0
        assert before["superseded"] > 1
        clock.advance(86_400_000)
        itself = alpha.import_jsonl(tmp_path / "a.jsonl")
        assert (sum(itself.added.values()), itself.status) == (0, "ok")
        assert dict(itself.present) == dict(report.counts)
        assert counts(alpha) == before
    with open_agent(tmp_path, "gamma", clock) as gamma:
        first = gamma.import_jsonl(tmp_path / "a.jsonl")
        assert dict(first.added) == dict(report.counts)
        assert (first.status, sum(first.present.values())) == ("ok", 0)
        gamma.export(tmp_path / "b.jsonl")
        assert body(tmp_path / "a.jsonl")[1:-1] == body(tmp_path / "b.jsonl")[1:-1]
        assert header(tmp_path / "a.jsonl") == header(tmp_path / "b.jsonl")
        again = gamma.import_jsonl(tmp_path / "a.jsonl")
        assert (sum(again.added.values()), dict(again.present)) == (0, dict(report.counts))
        assert counts(gamma) == before
        assert [hit.excerpt for hit in gamma.search("oolong", session="second").hits][:1] == ["I love oolong"]
        assert [hit.importance for hit in gamma.facts().pinned] == [10]
    lines = [json.loads(line) for line in body(tmp_path / "b.jsonl")]
    facts = {line["content"]: line for line in lines if line["kind"] == "record" and line["slot"]}
    old, new = facts["The crane is serviced in May."], facts["The crane is serviced in June."]
    assert (old["status"], old["superseded_by"], new["status"]) == ("superseded", new["record_id"], "active")
    assert "The nineth fact." not in facts
    assert new["created_at"] == old["created_at"] + 7
    assert any(line["kind"] == "tombstone" and line["subject_kind"] == "record" for line in lines)
    said = [line["text"] for line in lines if line["kind"] == "message"]
    assert said[0] == "I live in town0. \U0001f9ed \0 line\u2028end 0"


@pytest.mark.parametrize("damage", ["a bad line in the middle", "a last line that is cut", "no last line"])
def test_case_C156_a_bad_or_cut_file_imports_nothing(tmp_path: Path, clock: FixedClock, damage: str) -> None:
    """The bad line is told by its number, and nothing was imported: as documented, all or nothing."""
    with open_agent(tmp_path, "alpha", clock) as alpha:
        fill(alpha, clock)
        alpha.export(tmp_path / "a.jsonl")
    lines = body(tmp_path / "a.jsonl")
    number = len(lines) // 2
    if damage == "a bad line in the middle":
        lines[number - 1] = lines[number - 1][:-20] + b"\n"
    elif damage == "a last line that is cut":
        number = len(lines)
        lines[-1] = lines[-1][:-10]
    else:
        number = len(lines)
        del lines[-1]
    (tmp_path / "bad.jsonl").write_bytes(b"".join(lines))
    with open_agent(tmp_path, "delta", clock) as delta:
        with pytest.raises(errors.ExportInvalid) as refused:
            delta.import_jsonl(tmp_path / "bad.jsonl")
        assert refused.value.line == number
        assert f"line {number}" in refused.value.message
        assert (delta.status()["sessions"], delta.status()["turns"]) == (0, 0)
