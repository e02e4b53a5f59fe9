"""Chunking rules, each on a note small enough to check by eye."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from memory_sqlite.errors import InvalidArgument
from memory_sqlite.model import Chunk
from memory_sqlite.sources.markdown import MIN_TOKENS, chunk_markdown, read_markdown
from memory_sqlite.sources.weights import QUARTERS, weight


def _spans(chunks: list[Chunk]) -> list[tuple[int, int, str]]:
    return [(chunk.start_line, chunk.end_line, chunk.heading) for chunk in chunks]


def test_headings_are_a_path_and_go_with_what_follows() -> None:
    """ATX and setext; each section begins a chunk; a heading above a heading is no chunk of its own."""
    text = "# House\n## Cellar\nWine.\n\nAttic\n-----\nBats.\n# Garden\nRoses.\n"
    chunks = chunk_markdown(text)
    assert _spans(chunks) == [(1, 3, "House > Cellar"), (5, 7, "House > Attic"), (8, 9, "Garden")]
    assert chunks[0].text == "# House\n## Cellar\nWine."


def test_heading_with_nothing_below_is_kept() -> None:
    """It says something, so it stays findable."""
    assert _spans(chunk_markdown("# Empty\n# Full\ntext\n## Last ##\n")) == [
        (1, 1, "Empty"),
        (2, 3, "Full"),
        (4, 4, "Full > Last"),
    ]


@pytest.mark.parametrize(
    "code",
    [
        "```sh\n# comment\n```",
        "~~~\n# comment\n```\n# comment\n~~~",
        "- run:\n  ```\n  # comment\n  ```",
        "    # comment",
    ],
)
def test_a_hash_in_code_is_no_heading(code: str) -> None:
    """Fences of both kinds, in list entries, and indented code."""
    assert [chunk.heading for chunk in chunk_markdown(f"# Setup\n\n{code}\n\nAfter.\n")] == ["Setup"]


def test_other_hashes_are_no_heading() -> None:
    """A tag, seven hashes, and a hash in a comment of several lines."""
    chunks = chunk_markdown("#tag\n\n####### seven\n\n<!-- draft\n# old\n-->\n")
    assert _spans(chunks) == [(1, 7, "")]


def test_unclosed_fence_in_an_entry_ends_with_the_entry() -> None:
    """It must not swallow the headings below."""
    assert [c.heading for c in chunk_markdown("# A\n- x\n  ```\n  code\n- y\n\n# B\nz\n")] == ["A", "B"]


def test_blocks_are_kept_whole_where_they_fit() -> None:
    """A list, a table and a fence that do not fit behind a paragraph begin a chunk and are not torn."""
    paragraph = "word " * 50
    for block in (
        "\n".join(f"- entry number {n} of the list" for n in range(12)),
        "| key | value |\n| --- | --- |\n" + "\n".join(f"| key {n} | value {n} |" for n in range(15)),
        "```\n" + "\n".join(f"line {n} of the program" for n in range(15)) + "\n```",
    ):
        chunks = chunk_markdown(f"{paragraph}\n\n{block}\n\n{paragraph}\n", max_tokens=100, overlap_tokens=0)
        assert any(chunk.text == block for chunk in chunks)


def test_torn_table_keeps_rows_whole_and_repeats_nothing() -> None:
    """Every row once, each in one chunk."""
    rows = ["| key | value |", "| --- | --- |", *(f"| key {n} | value of {n} |" for n in range(60))]
    chunks = chunk_markdown("\n".join(rows), max_tokens=100, overlap_tokens=40)
    assert len(chunks) > 2
    assert [row for chunk in chunks for row in chunk.text.split("\n")] == rows


def test_overlap_is_whole_lines_of_the_chunk_before() -> None:
    """It is there between chunks of one section, and not where a new section begins."""
    lines = [f"Sentence number {n} of a long story." for n in range(40)]
    chunks = chunk_markdown("\n".join(lines) + "\n# New\nOther.\n", max_tokens=100, overlap_tokens=20)
    for before, after in pairwise(chunks[:-1]):
        repeated = before.end_line - after.start_line + 1
        assert repeated == 2
        assert before.text.split("\n")[-repeated:] == after.text.split("\n")[:repeated]
    assert chunks[-1].text == "# New\nOther."


def test_heading_goes_with_the_first_part_of_an_overlong_line() -> None:
    """Even then the heading is no chunk of its own."""
    chunks = chunk_markdown("# Dump\n\n" + "sensor " * 400 + "\n", max_tokens=100, overlap_tokens=0)
    assert chunks[0].text.startswith("# Dump\n\nsensor")
    assert {(chunk.start_line, chunk.end_line) for chunk in chunks[1:]} == {(3, 3)}
    assert "".join(chunk.text for chunk in chunks) == "# Dump\n\n" + "sensor " * 400


def test_long_cjk_line_is_cut_after_sentences() -> None:
    """400 characters are 400 tokens, and the cut comes after a full stop."""
    text = "今天讨论了数据库迁移方案和服务器部署计划。" * 60
    chunks = chunk_markdown(text, overlap_tokens=0)
    assert all(chunk.text.endswith("。") and weight(chunk.text) <= 400 * QUARTERS for chunk in chunks)
    assert "".join(chunk.text for chunk in chunks) == text


def test_curated_entries_are_chunks_of_their_own() -> None:
    """With their nested lines, without the heading, which is in the path; other text stays together."""
    text = "# Memory\n\nIntro line.\n\n- one\n  more\n\n  - nested\n- two\n\n## Later\n1. three\n2) four\n"
    assert _spans(chunk_markdown(text, curated=True)) == [
        (1, 3, "Memory"),
        (5, 8, "Memory"),
        (9, 9, "Memory"),
        (12, 12, "Memory > Later"),
        (13, 13, "Memory > Later"),
    ]


def test_line_ends_and_bom_do_not_shift_lines() -> None:
    """CRLF, a lone CR and a byte order mark; NEL, form feed and U+2028 are characters."""
    text = "\ufeff# A\r\nx\u2028y\x0cz\x85\rthird\r\n# B\nfifth"
    chunks = chunk_markdown(text)
    assert _spans(chunks) == [(1, 3, "A"), (4, 5, "B")]
    assert chunks[0].text == "# A\nx\u2028y\x0cz\x85\nthird"


def test_blank_notes_have_no_chunks() -> None:
    """No text, no chunk."""
    assert [chunk_markdown(text) for text in ("", "\ufeff", " \n\t\r\n", "<!-- importance: 3 -->\n")] == [
        [],
        [],
        [],
        [],
    ]


def test_arguments_are_checked() -> None:
    """A limit too small for one emoji and a negative overlap are refused by name."""
    with pytest.raises(InvalidArgument, match="max_tokens"):
        chunk_markdown("a", max_tokens=MIN_TOKENS - 1)
    with pytest.raises(InvalidArgument, match="overlap_tokens"):
        chunk_markdown("a", overlap_tokens=-1)


@pytest.mark.parametrize(
    "hostile",
    ["- ```\n" * 20_000, "<!--\n" * 20_000, "` `` " * 20_000 + "<!-- trigger:", "- " * 50_000, " " * 100_000 + "-|\n|-",
     "---\nk: " + " " * 100_000 + "x\n---", "<!-- trigger: a" * 10_000, "\U0001f1f8" * 100_001, "#\n" * 20_000],
)  # fmt: skip
def test_hostile_notes_take_time_in_their_length_only(hostile: str) -> None:
    """100 KB each; a rule that looked back or ahead without bound took minutes on one of these."""
    begin = time.thread_time()
    read_markdown(hostile)
    assert time.thread_time() - begin < 5
