"""Any query over any text: no failure, scores in range and in order, excerpts whole and bounded."""

from __future__ import annotations

import apsw
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_sqlite.generations import layout
from memory_sqlite.indexing import rows
from memory_sqlite.limits import EXCERPT_MAX_CHARS
from memory_sqlite.model import Chunk, Document
from memory_sqlite.search.filters import OPERATOR, Filters
from memory_sqlite.search.run import search
from memory_sqlite.text.units import utf16_length

PIECES = st.sampled_from(
    [
        *(
            "harbor",
            "Router",
            "数据库",
            "ﾌﾟﾘﾝ",
            "İstanbul",
            "ßtraße",
            "🚀",
            "👨‍👩‍👧",
            "C++",
            "src/a.ts",
            "12,500",
            "e\u0301",
        ),
        *("\x00", "\ud800", "May 2024", '"', "*", "(", " ", "\n", "-", "? ", ". "),
        *("AND", "NEAR(", "filter : x", "private.", "the", "yesterday"),
    ]
)
TEXT = st.lists(PIECES, max_size=25).map(" ".join) | st.lists(PIECES, max_size=60).map("".join)


@settings(max_examples=150, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=5), TEXT)
def test_any_query_over_any_text(texts: list[str], query: str) -> None:
    """One note and one session of messages for every text."""
    connection = apsw.Connection(":memory:")
    layout.create(connection, {})
    for number, text in enumerate(texts, 1):
        for kind, session in (("note", None), ("message", 1)):
            rows.put_document(
                connection,
                Document(
                    kind=kind,  # type: ignore[arg-type]
                    key=str(number),
                    source="memory" if session is None else "sessions",
                    path=f"memory/{number}.md",
                    chunks=(Chunk(text * (9 if session is None else 1), 1, 1),),
                    hash="",
                    at=number * 1_000,
                    session_id=session,
                    position=None if session is None else number,
                    speaker=None if session is None else "Ann",
                ),
            )
    rows.refresh_contexts(connection, 1, range(1, len(texts) + 1))
    assert rows.inconsistency(connection) is None
    hits, info = search(
        connection, query, Filters(OPERATOR), now_ms=1_796_040_000_000, max_results=6, max_bytes=1 << 20
    )
    assert info.withheld == 0
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    for hit in hits:
        assert 0.0 < hit.score <= 1.0
        assert utf16_length(hit.excerpt) <= EXCERPT_MAX_CHARS
        assert all(0 <= span.start < span.end <= len(hit.excerpt) for span in hit.matches)
        assert all(left.end <= right.start for left, right in zip(hit.matches, hit.matches[1:], strict=False))
