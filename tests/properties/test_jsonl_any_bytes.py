"""Whatever bytes a transcript holds, reading it raises nothing and loses no whole line."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from memory_sqlite.sources.jsonl import read_lines
from memory_sqlite.sources.transcript_formats.detect import FORMATS
from memory_sqlite.sources.transcript_formats.transcript import open_transcript

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
ENVELOPES = (
    "type",
    "message",
    "payload",
    "response_item",
    "session_meta",
    "session",
    "sessionId",
    "uuid",
    "isSidechain",
)
FIELDS = (
    "role",
    "content",
    "user",
    "assistant",
    "id",
    "text",
    "tool_result",
    "timestamp",
    "cwd",
    "provenance",
    "source",
)
WORDS = st.sampled_from((*ENVELOPES, *FIELDS))
SHAPED = st.recursive(
    WORDS | st.none() | st.booleans() | st.integers(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=6),
    max_leaves=24,
)


def write(folder: str, data: bytes) -> Path:
    path = Path(folder) / "a.jsonl"
    path.write_bytes(data)
    return path


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_covered_by_lines_and_raise_nothing(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lines = list(read_lines(write(folder, data)))
    assert sum(line.end_offset - line.offset for line in lines) == (
        0 if data.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd")) else len(data)
    )
    assert all(line.complete for line in lines[:-1])


@settings(max_examples=150, deadline=None)
@given(st.lists(JSON, max_size=6), st.booleans())
def test_whole_values_come_back_one_by_one(values: list[object], ascii_only: bool) -> None:
    data = "".join(json.dumps(value, ensure_ascii=ascii_only) + "\n" for value in values).encode("utf-8", "replace")
    with tempfile.TemporaryDirectory() as folder:
        lines = list(read_lines(write(folder, data)))
    assert [line.values for line in lines] == [[json.loads(row)] for row in data.decode().split("\n")[:-1]]


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(FORMATS)), st.lists(st.dictionaries(WORDS, SHAPED, max_size=8), max_size=5))
def test_every_format_accounts_for_every_line_of_any_shape(name: str, rows: list[dict[str, object]]) -> None:
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    with tempfile.TemporaryDirectory() as folder:
        items = list(open_transcript(write(folder, data), format=name, redact=False))
    assert {item.line for item in items} <= set(range(1, len(rows) + 1))
    if name != "claude-code":  # there several lines may be one answer
        assert [item.line for item in items] == list(range(1, len(rows) + 1))
