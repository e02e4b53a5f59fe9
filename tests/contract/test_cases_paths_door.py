"""Cases of kind paths that concern the whole door: moved workspaces, unreadable files, agents with similar names."""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory, paths
from memory_sqlite.storage import store as stores

TRANSCRIPT = (
    '{"type":"session","id":"s-001","timestamp":"2026-03-01T09:59:00.000Z"}\n'
    '{"type":"message","id":"m1","timestamp":"2026-03-01T10:00:00.000Z",'
    '"message":{"role":"user","content":[{"type":"text","text":"marble"}]}}\n'
)


def found(memory: Memory, query: str) -> list[str]:
    return [hit.path for hit in memory.search(query).hits]


@pytest.mark.parametrize("way", ["moved", "symlink", "copied"])
def test_case_C128_a_moved_workspace_is_the_same_workspace(tmp_path: Path, way: str) -> None:
    first = tmp_path / "first"
    (first / "memory").mkdir(parents=True)
    (first / "memory" / "a.md").write_text("granite\n")
    (first / "s-001.jsonl").write_text(TRANSCRIPT)
    with Memory.open(tmp_path / "data", workspace=first) as memory:
        memory.index()
        memory.import_transcripts([first / "s-001.jsonl"])
    second = tmp_path / "second"
    if way == "moved":
        first.rename(second)
    elif way == "symlink":
        second.symlink_to(first)
    else:
        shutil.copytree(first, second)
    with Memory.open(tmp_path / "data", workspace=second) as memory:
        assert found(memory, "granite") == ["memory/a.md"]
        assert memory.search("marble").hits[0].message_id == "m1"
        report = memory.index()
        assert (report.added, report.removed) == (0, 0)
        assert memory.import_transcripts([second / "s-001.jsonl"]).turns_stored == 0
        assert found(memory, "granite") == ["memory/a.md"]
        assert memory.get("memory/a.md").text == "granite\n"


def test_case_C132_one_unreadable_file_costs_that_file(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "memory" / "ok.md").write_text("granite\n")
    (workspace / "memory" / "locked.md").write_text("granite locked\n")
    (workspace / "memory" / "broken.md").symlink_to(tmp_path / "nowhere")
    written = max(path.lstat().st_ctime_ns for path in (workspace / "memory").iterdir())
    while time.time_ns() - written < 60_000_000:  # a file written this instant would be looked at once more
        time.sleep(0.01)
    real_open = os.open

    def refusing(path: Any, *arguments: Any, **named: Any) -> int:
        # root may read mode 000, so the refusal is simulated where files are opened
        if os.fspath(path).endswith("locked.md"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real_open(path, *arguments, **named)

    with Memory.open(tmp_path / "data", workspace=workspace) as memory:
        monkeypatch.setattr(os, "open", refusing)
        first, second, third = memory.index(), memory.index(), memory.index()
        assert first.status == "partial"
        assert found(memory, "granite") == ["memory/ok.md"]
        named = [{Path(problem.path).name for problem in report.problems} for report in (first, second, third)]
        assert named == [{"locked.md", "broken.md"}] * 3
        index = memory.status()["index"]
        assert {problem["path"] for problem in index["problems"]} == {"memory/locked.md", "memory/broken.md"}
        assert all(problem["reason"] for problem in index["problems"])
        assert (index["dirty"], index["dirty_notes"]) == (False, 0), "nothing is waited for that cannot come"
        monkeypatch.setattr(os, "open", real_open)
        memory.index()
        assert set(found(memory, "granite")) == {"memory/ok.md", "memory/locked.md"}


AGENTS = ["Alpha", "alpha", unicodedata.normalize("NFC", "Ägent"), unicodedata.normalize("NFD", "Ägent")]
AGENTS += ["team a", "team-a", "team/a"]


def test_case_C134_agents_with_similar_names_never_mix(tmp_path: Path) -> None:
    for number, agent in enumerate(AGENTS):
        place = tmp_path / f"workspace{number}"
        (place / "memory").mkdir(parents=True)
        (place / "memory" / "notes.md").write_text(f"canarynote{number}\n")
        (place / "s-001.jsonl").write_text(TRANSCRIPT.replace("marble", f"canarytalk{number}"))
        with Memory.open(tmp_path / "data", agent, place) as memory:
            memory.index()
            memory.import_transcripts([place / "s-001.jsonl"])
    for number, agent in enumerate(AGENTS):
        with Memory.open(tmp_path / "data", agent) as memory:
            for other in range(len(AGENTS)):
                for canary in (f"canarynote{other}", f"canarytalk{other}"):
                    exact = [hit for hit in memory.search(canary, max_results=20).hits if canary in hit.excerpt]
                    assert bool(exact) == (number == other), (agent, canary)
    directories = {paths.agent_directory_name(agent) for agent in AGENTS}
    assert len({name.casefold() for name in directories}) == len(AGENTS)
    assert set(stores.agents(tmp_path / "data")) == directories


def test_case_C020_one_sentence_is_found_in_note_and_transcript(tmp_path: Path, workspace: Path) -> None:
    (workspace / "memory" / "a.md").write_text("后天早上八点检查船厂排期。\n", encoding="utf-8")
    lines = [{"type": "session", "id": "s-001", "timestamp": "2026-03-01T09:59:00.000Z"}]
    for name, text in (("m1", "后天早上八点检查船厂排期。"), ("m2", "𠮷野家の予約")):
        message = {"role": "user", "content": [{"type": "text", "text": text}]}
        lines.append({"type": "message", "id": name, "timestamp": "2026-03-01T10:00:00.000Z", "message": message})  # type: ignore[dict-item]
    transcript = tmp_path / "s-001.jsonl"
    transcript.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    with Memory.open(tmp_path / "data", workspace=workspace) as memory:
        memory.import_transcripts([transcript])
        memory.index()
        assert {hit.source for hit in memory.search("船厂", sources=["memory"]).hits} == {"memory"}
        assert [hit.message_id for hit in memory.search("船厂", sources=["sessions"]).hits][:1] == ["m1"]
        hits = memory.search("船厂").hits
        duplicates = {citation.split("#")[0] for hit in hits for citation in hit.duplicates}
        assert "memory/a.md" in {hit.path for hit in hits} | duplicates
        for query in ("𠮷野", "野家"):
            assert memory.search(query, sources=["sessions"]).hits[0].message_id == "m2"
