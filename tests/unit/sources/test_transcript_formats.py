"""One golden fixture per format: what the host wrote, beside what the house makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite.model import to_json
from memory_sqlite.sources.transcript_formats.detect import detect
from memory_sqlite.sources.transcript_formats.items import Ignored, Refused, Spoken
from memory_sqlite.sources.transcript_formats.transcript import open_transcript

FIXTURES = Path(__file__).parents[2] / "fixtures" / "transcripts"
CODEX = "rollout-2026-05-03T07-00-00-019add38-3333-7e93-ae71-000000000003.jsonl"
FORMATS = {"openclaw.jsonl": "openclaw", "claude_code.jsonl": "claude-code", CODEX: "codex", "generic.jsonl": "generic"}


def normalised(path: Path) -> list[dict[str, Any]]:
    """Items as JSON; the raw record is compared with the file by its own test."""
    rows = []
    for item in open_transcript(path, redact=False):
        row = {"item": type(item).__name__.lower(), **to_json(item)}
        if isinstance(item, Spoken):
            del row["message"]["raw"]
        rows.append(row)
    return rows


@pytest.mark.parametrize("name", FORMATS)
def test_a_golden_fixture_is_detected_and_normalised_as_expected(name: str) -> None:
    assert detect(FIXTURES / name) == FORMATS[name]
    expected = json.loads((FIXTURES / name).with_suffix(".expected.json").read_text("utf-8"))
    assert normalised(FIXTURES / name) == expected


@pytest.mark.parametrize("name", FORMATS)
def test_raw_records_hold_every_byte_of_the_lines_they_came_from(name: str) -> None:
    lines = (FIXTURES / name).read_text("utf-8").splitlines()
    spoken = [item for item in open_transcript(FIXTURES / name, redact=False) if isinstance(item, Spoken)]
    single = [item for item in spoken if len(item.message.entry_ids) == 1]
    assert single
    for item in single:
        assert item.message.raw == lines[item.line - 1]
    for item in spoken:
        for entry_id in item.message.entry_ids:
            if not entry_id.startswith(("h:", "call_")):
                assert f'"{entry_id}"' in item.message.raw


@pytest.mark.parametrize("name", FORMATS)
def test_every_line_is_accounted_for(name: str) -> None:
    lines = len((FIXTURES / name).read_text("utf-8").splitlines())
    items = list(open_transcript(FIXTURES / name, redact=False))
    silent = [item for item in items if isinstance(item, Ignored)]
    merged = sum(max(0, len(item.message.entry_ids) - 1) for item in items if isinstance(item, Spoken))
    assert not [item for item in items if isinstance(item, Refused)]
    assert sum(isinstance(item, Spoken) for item in items) + len(silent) + merged == lines


@pytest.mark.parametrize("name", FORMATS)
def test_entry_ids_are_never_empty_unique_and_the_same_when_read_again(name: str) -> None:
    def ids() -> list[tuple[str, tuple[str, ...]]]:
        items = open_transcript(FIXTURES / name, redact=False)
        return [(item.session.key, item.message.entry_ids) for item in items if isinstance(item, Spoken)]

    first = ids()
    assert all(entry_ids for _, entry_ids in first)
    flat = [(session, entry) for session, entry_ids in first for entry in entry_ids]
    assert len(set(flat)) == len(flat)
    assert ids() == first
