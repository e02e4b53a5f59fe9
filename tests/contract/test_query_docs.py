"""docs/query.md against the code: the views' columns word for word, the limits, and every statement executed."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from memory_sqlite import Memory, limits
from memory_sqlite.query.transcript_table import COLUMNS
from memory_sqlite.query.views import INDEX_VIEWS, STORE_VIEWS

PAGE = (resources.files("memory_sqlite") / "docs" / "query.md").read_text("utf-8")
RECIPES = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.M | re.S)


@pytest.fixture
def furnished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    """A memory, logs and transcripts as the recipes name them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes" / "memory").mkdir(parents=True)
    (tmp_path / "notes" / "memory" / "pier.md").write_text("# Pier\n\nThe granite pier is closed.\n")
    logs = tmp_path / "logs" / "web"
    logs.mkdir(parents=True)
    lines = [
        {"level": "info", "path": "/a", "ms": 12, "message": {"role": "x"}},
        {"level": "error", "path": "/b", "ms": 700, "message": "lost"},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines) + '{"torn":'
    (logs / "one.jsonl").write_text(text)
    (tmp_path / "logs" / "top.jsonl").write_text(text)
    (logs / "old.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "transcripts").mkdir()
    said = [
        {"type": "session", "id": "o1", "timestamp": "2026-03-03T10:00:00Z"},
        {"type": "message", "id": "e1", "message": {"role": "user", "content": "Not remembered yet."}},
        {"type": "message", "id": "e2", "message": {"role": "assistant", "content": "Hi.", "usage": {"output": 2}}},
    ]
    (tmp_path / "transcripts" / "o1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in said))
    with Memory.open(tmp_path / "data", workspace=tmp_path / "notes") as memory:
        for number, tea in enumerate(("oolong", "sencha"), 1):
            content = f"My favourite tea is {tea}."
            memory.remember(session="s", messages=[{"role": "user", "content": content}], run_id=str(number))
        memory.index()
        yield memory


def test_the_views_are_described_column_by_column(furnished: Memory) -> None:
    """The schema is stable: a column that is renamed or dropped fails here, one that is added must be written down."""
    section = PAGE.split("## The views", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", section, re.M)
    described = {view: re.findall(r"`(\w+)`", columns) for view, columns in rows}
    found = {view: list(furnished.query(f"SELECT * FROM {view}").columns) for view in (STORE_VIEWS | INDEX_VIEWS)}
    assert described == found


def test_the_transcript_columns_are_described() -> None:
    section = PAGE.split("## Transcripts", 1)[1].split("\n## ", 1)[0]
    named = [name for row in re.findall(r"^\| (`.*?) \| ", section, re.M) for name in re.findall(r"`(\w+)`", row)]
    assert named == list(COLUMNS)


def test_ten_recipes_and_the_example_run(furnished: Memory) -> None:
    """Each gives rows over the memory, logs and transcripts that it is written for."""
    assert len(RECIPES) == 11
    for sql in RECIPES:
        assert furnished.query(sql).rows, sql


def test_the_limits_are_those_of_the_code() -> None:
    assert (limits.QUERY_ROWS[2], limits.QUERY_TIMEOUT_S[2], limits.QUERY_MEMORY_BYTES[2]) == (
        1_000,
        30.0,
        256 * limits.MIB,
    )
    for said in ("rows, 1,000", "time, 30 s", "256 MiB", "one value, 32 MiB", "64 MiB", "two queries"):
        assert said in PAGE
    assert limits.QUERY_VALUE_MAX_BYTES == 32 * limits.MIB
    assert limits.QUERY_ANSWER_MAX_BYTES == 64 * limits.MIB
    assert limits.QUERY_PROCESSES_MAX == 2
    bounds = (limits.QUERY_SQL_MAX_CHARS, limits.QUERY_COLUMNS_MAX, limits.QUERY_EXPRESSION_DEPTH)
    assert (*bounds, limits.QUERY_COMPOUND_MAX, limits.QUERY_LIKE_MAX_CHARS) == (100_000, 500, 200, 50, 1_000)
    assert (limits.QUERY_SAMPLE_BYTES, limits.QUERY_SAMPLE_FILES, limits.QUERY_PROMOTED_MAX) == (
        256 * limits.KIB,
        16,
        200,
    )
