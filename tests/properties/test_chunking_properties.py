"""Chunking holds its promises for any text at all."""

from __future__ import annotations

import apsw.unicode as unicode_data
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memory_sqlite.model import Chunk
from memory_sqlite.sources.lines import split_lines
from memory_sqlite.sources.markdown import MIN_TOKENS, chunk_markdown
from memory_sqlite.sources.weights import QUARTERS, weight

_WORDS = st.sampled_from(
    [
        "alpha",
        "basalt",
        "ERR_42",
        "茶を飲む",
        "我喜欢茶",
        "é",
        "e\u0301",
        "👨‍👩‍👧‍👦",
        "🇸🇪🇯🇵",
        "각",
        "क्षि",
        "`code`",
        "|",
        "—",
    ]
)
_PROSE = st.lists(_WORDS, min_size=0, max_size=40).map(" ".join)
_GLUED = st.lists(_WORDS, min_size=1, max_size=60).map("".join)
_LINE = st.one_of(
    _PROSE,
    _GLUED,
    st.builds("{} {}".format, st.sampled_from(["#", "##", "###", "-", "  -", "    *", "1.", ">", "   "]), _PROSE),
    st.sampled_from(
        ["", "", "---", "===", "```", "~~~sh", "  ```", "| a | b |", "| --- | --- |", "title: x", "<!--", "-->"]
    ),
    st.text(max_size=30),
)
_NOTE = st.lists(_LINE, max_size=40).flatmap(
    lambda lines: st.sampled_from(["\n", "\r\n", "\r"]).map(lambda end: end.join(lines))
)
_ANY = st.one_of(_NOTE, st.text(max_size=400), _NOTE.map(lambda text: "\ufeff" + text))


def _parts(text: str, chunk: Chunk) -> str:
    return "\n".join(split_lines(text)[chunk.start_line - 1 : chunk.end_line])


@settings(max_examples=150, deadline=None)
@given(_ANY, st.integers(MIN_TOKENS, 120), st.integers(0, 10_000))
@example("---\ntitle: a\n---\n# b\nc", 32, 8)
@example("# " + "h" * 500 + "\n" + "x" * 500, 32, 64)
@example("a" + "\u0301" * 700, 32, 8)
@example("- a\n\n\n\n  b\n" + "\n" * 300 + "  c", 32, 8)
def test_chunks_are_bounded_exact_and_complete(text: str, tokens: int, overlap: int) -> None:
    """Limit held, text exactly its lines, lines in order, every character but markup of no text in some chunk."""
    text = text.replace("<!-- ", "<!-- note ")
    chunks = chunk_markdown(text, max_tokens=tokens, overlap_tokens=overlap)
    assert chunks == chunk_markdown(text, max_tokens=tokens, overlap_tokens=overlap)
    lines = split_lines(text)
    covered: set[int] = set()
    shown: dict[int, str] = {}
    last = (0, 0)
    for chunk in chunks:
        assert weight(chunk.text) <= tokens * QUARTERS
        assert 1 <= chunk.start_line <= chunk.end_line <= len(lines)
        assert chunk.text.strip(), "a chunk has text"
        assert (chunk.start_line, chunk.end_line) >= last
        last = (chunk.start_line, chunk.end_line)
        whole = _parts(text, chunk)
        assert chunk.text in whole
        rows = chunk.text.split("\n")
        assert len(rows) == chunk.end_line - chunk.start_line + 1
        assert rows[1:-1] == lines[chunk.start_line : chunk.end_line - 1]
        for number, row in enumerate(rows, chunk.start_line):
            covered.add(number)
            shown[number] = shown.get(number, "") + row
    for number, line in enumerate(lines, 1):
        if line.strip():
            assert number in covered
            assert len(shown[number]) >= len(line)


@settings(max_examples=100, deadline=None)
@given(_GLUED | _PROSE | st.text(max_size=600), st.integers(MIN_TOKENS, 64))
def test_no_grapheme_is_split(line: str, tokens: int) -> None:
    """A chunk that ends within a line ends where a grapheme ends."""
    for text in split_lines(line):
        boundaries = {0}
        at = 0
        while at < len(text):
            at = unicode_data.grapheme_next_break(text, at)
            boundaries.add(at)
        position = 0
        for chunk in chunk_markdown("x\n\n" + text, max_tokens=tokens, overlap_tokens=0):
            part = chunk.text.split("\n")[-1] if chunk.end_line == 3 else ""
            assert text.startswith(part, position) or chunk.end_line < 3
            position += len(part)
            assert position in boundaries


@settings(max_examples=100, deadline=None)
@given(_NOTE, st.integers(MIN_TOKENS, 120))
def test_curated_files_lose_no_line(text: str, tokens: int) -> None:
    """In a curated file a line is in a chunk, or is a heading in the path of one."""
    text = text.replace("<!-- ", "<!-- note ")
    chunks = chunk_markdown(text, max_tokens=tokens, curated=True)
    covered = {number for chunk in chunks for number in range(chunk.start_line, chunk.end_line + 1)}
    paths = {chunk.heading for chunk in chunks}  # not split at " > ": a heading may hold that itself
    lines = split_lines(text)
    for number, line in enumerate(lines, 1):
        if line.strip() and number not in covered:
            title = " ".join(line.strip().lstrip("#").rstrip("#").split())
            assert not title or set(title) <= set("=-") or any(title[:100] in path for path in paths)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200), st.text(max_size=200))
def test_line_numbers_are_an_editors(before: str, after: str) -> None:
    """Nothing but LF, CRLF and CR moves a later line: not NEL, form feed, U+2028 or a byte order mark."""
    head = before.replace("\r\n", "\n").replace("\r", "\n")
    text = head + "\n\nMARK" + after
    found = [chunk for chunk in chunk_markdown(text) if "MARK" in chunk.text]
    number = head.removeprefix("\ufeff").count("\n") + 3
    assert any(chunk.start_line <= number <= chunk.end_line for chunk in found)
