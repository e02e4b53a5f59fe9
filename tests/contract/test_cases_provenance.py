"""Cases of kind provenance: citations lead back, failed extraction loses nothing, dates are those of the event."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory
from memory_sqlite.config import Settings
from memory_sqlite.layers import remember as remembering

SLATE = (
    '{"type":"session","id":"s-001","timestamp":"2026-03-01T09:59:00.000Z"}\n'
    '{"type":"message","id":"m1","timestamp":"2026-03-01T10:00:00.000Z","message":{"role":"user",'
    '"content":[{"type":"text","text":"epsilon slate\\nsecond line"}]}}\n'
    '{"type":"message","id":"m2","timestamp":"2026-03-01T10:00:00.000Z","message":{"role":"assistant",'
    '"content":[{"type":"text","text":"zeta gneiss"}]}}\n'
)
"""The transcript of C152."""

DATED = (
    '{"type":"session","id":"s-001"}\n{"type":"mode","value":"x"}\n'
    '{"type":"message","id":"m1","timestamp":"2026-01-15T23:30:00-05:00","message":{"role":"user",'
    '"content":[{"type":"text","text":"marble ordered"}]}}\n'
    '{"type":"message","id":"m2","timestamp":"2026-01-16T04:10:00Z","message":{"role":"user",'
    '"content":[{"type":"text","text":"slate ordered"}]}}\n'
)
"""The transcript of C158."""


def bare(text: str) -> str:
    """White space aside, as the case says; the ellipsis marks where an excerpt was cut."""
    return "".join(text.replace("…", "").split())


def test_case_C152_every_citation_leads_back_to_what_was_shown(tmp_path: Path) -> None:
    """Every fetch works without guessing and contains the snippet; no two sources share a citation."""
    workspace = tmp_path / "ws"
    (workspace / "memory" / "sub").mkdir(parents=True)
    (workspace / "memory" / "sub" / "notes v2.md").write_text("alpha granite\nbeta\ngamma\n")
    (workspace / "extra").mkdir()
    (workspace / "extra" / "x.md").write_text("delta marble\n")
    (tmp_path / "s-001.jsonl").write_text(SLATE)
    settings = Settings(data_dir=tmp_path / "data", workspace=workspace, extra_paths=("extra",))
    words = ["alpha", "granite", "beta", "gamma", "delta", "marble", "epsilon", "slate", "second", "line", "zeta"]
    queries = [
        *words,
        "gneiss",
        "alpha granite",
        "delta marble",
        "epsilon slate",
        "zeta gneiss",
        "second line",
        "beta gamma",
    ]
    queries += ["granite marble", "slate gneiss"]
    assert len(queries) >= 20
    where: dict[str, tuple[str, str]] = {}
    said = {}
    with Memory.open(settings=settings) as memory:
        memory.import_transcripts([tmp_path / "s-001.jsonl"])
        memory.index()
        for query in queries:
            hits = memory.search(query).hits
            assert hits, query
            for hit in hits:
                for name in (hit.reference, hit.citation):
                    passage = memory.get(name)
                    assert passage.status == "ok", name
                    assert bare(hit.excerpt) in bare(passage.text), (name, hit.excerpt, passage.text)
                source = (hit.path, hit.message_id or f"{hit.start_line}-{hit.end_line}")
                assert where.setdefault(hit.citation, source) == source
                if hit.source == "sessions":
                    said[hit.message_id] = (hit.session, hit.speaker, hit.time)
    assert set(said) >= {"m1", "m2"}
    assert all(session and "s-001" in session for session, _, _ in said.values())
    assert said["m1"][1:] == ("user", "2026-03-01T10:00:00.000Z")
    assert said["m2"][1] == "assistant"


def test_case_C154_a_failed_extraction_loses_no_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers are stored with their turn or neither is: a failure moves nothing forward, and a later import has all."""
    lines = ['{"type":"session","id":"s-001","timestamp":"2026-03-01T09:59:00.000Z"}']
    for number in range(1, 8):
        for role, text in (("user", f"statement {number} granite{number}"), ("assistant", f"noted {number}")):
            message = {"role": role, "content": [{"type": "text", "text": text}]}
            entry = {"type": "message", "id": f"m{number}{role[0]}", "timestamp": f"2026-03-01T10:0{number}:00.000Z"}
            lines.append(json.dumps(entry | {"message": message}))
    path = tmp_path / "s-001.jsonl"
    path.write_text("\n".join(lines[:13]) + "\n")  # m1 to m6
    extract = remembering.write_layers
    failures: list[str] = []

    def failing(connection: Any, session: Any, accepted: Any, **rest: Any) -> Any:
        texts = [stored.message.text for stored in accepted.stored]
        if any("granite3" in text or "granite4" in text for text in texts) and len(failures) < 2:
            failures.append("once more")
            raise RuntimeError("the extractor is broken")
        return extract(connection, session, accepted, **rest)

    monkeypatch.setattr(remembering, "write_layers", failing)
    settings = Settings(data_dir=tmp_path / "data", extraction_interval=2)
    for _ in range(2):
        with Memory.open(settings=settings) as memory:
            with pytest.raises(RuntimeError):
                memory.import_transcripts([path])
            turns, episodes = memory.status()["turns"], memory.status()["records"]["L1"]
            assert turns == episodes  # never a turn without its episode
    path.write_text("\n".join(lines) + "\n")  # m7 has arrived
    with Memory.open(settings=settings) as memory:
        memory.import_transcripts([path])
        status = memory.status()
        assert (status["turns"], status["records"]["L1"]) == (7, 7)
        assert status["records"]["L2"] == 3
        for number in range(1, 8):
            hits = memory.search(f"granite{number}", layers=("L1",)).hits
            assert [f"granite{number}" in hit.excerpt for hit in hits].count(True) == 1, number
    assert len(failures) == 2


def test_case_C158_dates_are_those_of_the_event(tmp_path: Path) -> None:
    """From the note's name and the message's own time, never the file's; windows and order go by them."""
    workspace = tmp_path / "ws"
    (workspace / "memory").mkdir(parents=True)
    note = workspace / "memory" / "2026-01-12.md"
    note.write_text("granite delivered\n")
    transcript = tmp_path / "s-001.jsonl"
    transcript.write_text(DATED)
    for file in (note, transcript):
        os.utime(file, (1_774_828_800, 1_774_828_800))  # 2026-03-30
    with Memory.open(tmp_path / "data", workspace=workspace) as memory:
        memory.import_transcripts([transcript])
        memory.index()
        (granite,) = memory.search("granite").hits
        assert granite.time is not None
        assert granite.time.startswith("2026-01-12")
        times = {hit.message_id: hit.time for hit in memory.search("ordered", sources=("sessions",)).hits}
        assert times == {"m1": "2026-01-16T04:30:00.000Z", "m2": "2026-01-16T04:10:00.000Z"}
        window = {"since": "2026-01-16T00:00:00Z", "until": "2026-01-16T04:20:00Z", "sources": ("sessions",)}
        for limit in (10, 1):
            page = memory.search("ordered", max_results=limit, **window)  # type: ignore[arg-type]
            assert [hit.message_id for hit in page.hits] == ["m2"]
        oldest = memory.search("ordered", sources=("sessions",), sort="oldest").hits
        assert [hit.message_id for hit in oldest] == ["m2", "m1"]
        (session,) = memory.sessions()
        assert session["started_at"].startswith("2026-01-1")
