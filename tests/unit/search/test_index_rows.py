"""Documents in a generation: replaced whole, removed whole, counted right; bulk builds end merged."""

from __future__ import annotations

from typing import Any

import pytest

from memory_sqlite.generations import layout
from memory_sqlite.indexing import rows
from memory_sqlite.model import Chunk


def test_a_new_file_says_what_it_is(index: Any) -> None:
    """Format, identity and how far the store's changes were applied."""
    meta = layout.read_meta(index.connection)
    assert meta == {"format": layout.FORMAT, "identity": {"test": True}, "applied_seq": 0}
    layout.write_meta(index.connection, "applied_seq", 41)
    assert layout.read_meta(index.connection)["applied_seq"] == 41


def test_a_document_is_replaced_whole(index: Any, note: Any) -> None:
    """No chunk, word or count of the former version stays."""
    three = [Chunk(f"zircon part {number}", number, number) for number in (1, 2, 3)]
    index.put(note("memory/a.md", "", chunks=three))
    index.put(note("memory/a.md", "beryl"))
    assert index.paths("zircon") == []
    assert index.paths("beryl") == ["a.md"]
    assert index.connection.execute("SELECT count(*) FROM chunks").get == 1
    assert rows.inconsistency(index.connection) is None


def test_put_returns_the_number_of_chunks_and_states_come_back(index: Any, note: Any) -> None:
    """What decides whether a note changed is kept beside it."""
    document = note("memory/a.md", "beryl", hash="h1", size=5, mtime_ns=6, inode=7, device=8)
    assert rows.put_document(index.connection, document) == 1
    assert rows.document_states(index.connection, "note") == {"memory/a.md": ("h1", 5, 6, 7, 8)}
    assert rows.document_states(index.connection, "message") == {}


def test_deleting_says_whether_there_was_something(index: Any, note: Any, message: Any, record: Any) -> None:
    """By kind and key; a session as a whole; nothing is left of it in any table."""
    index.put(note("memory/a.md", "beryl"), message(5, 1, "beryl"), record("1", "L1", "beryl", session_id=5))
    assert rows.message_place(index.connection, "s5m1") == (5, 1)
    assert rows.message_place(index.connection, "nobody") is None
    assert rows.delete_document(index.connection, "note", "memory/a.md")
    assert not rows.delete_document(index.connection, "note", "memory/a.md")
    assert rows.delete_session(index.connection, 5) == 2
    for table in ("documents", "chunks", "lexical", "lexical_context"):
        assert index.connection.execute(f"SELECT count(*) FROM {table}").get == 0
    assert rows.inconsistency(index.connection) is None
    assert index.search("beryl")[0] == []


def test_inconsistency_names_what_is_wrong(index: Any, note: Any) -> None:
    """A check that cannot fail would prove nothing."""
    index.put(note("memory/a.md", "beryl"), note("memory/b.md", "zircon"))
    index.connection.execute("DELETE FROM lexical WHERE rowid = 1")
    problem = rows.inconsistency(index.connection)
    assert problem is not None
    assert "beryl" not in problem


def test_a_failed_transaction_leaves_the_former_document(index: Any, note: Any) -> None:
    """Replaced whole or not at all."""
    index.put(note("memory/a.md", "beryl"))
    with pytest.raises(RuntimeError), index.connection:
        rows.put_document(index.connection, note("memory/a.md", "zircon"))
        raise RuntimeError
    assert index.paths("beryl") == ["a.md"]
    assert index.paths("zircon") == []
    assert rows.inconsistency(index.connection) is None


def test_finish_notes_common_terms_and_changes_no_answer(index: Any, note: Any) -> None:
    """After a bulk build the same questions have the same answers, and frequent words are known as such."""
    index.put(*(note(f"memory/n{number}.md", f"harbor number {number}") for number in range(60)))
    before = index.paths("harbor 17")
    with index.connection:
        rows.finish(index.connection)
    assert index.paths("harbor 17") == before
    common = {row[0] for row in index.connection.execute("SELECT term FROM common_terms")}
    assert "harbor" in common
    assert not any(term.endswith(".") for term in common)


def test_lone_surrogates_in_a_document_are_replaced(index: Any, note: Any) -> None:
    """Text that no file can hold is stored as what can be, and is searchable around it."""
    index.put(note("memory/a.md", "beryl \ud800 stone", title="x\udfff"))
    assert index.paths("beryl stone") == ["a.md"]


def test_above_the_large_mark_common_terms_still_count(index: Any, note: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """They choose no candidates while a rarer term is there, and are counted on the text: the order is the same."""
    from memory_sqlite.search import retrieve

    index.put(
        *(note(f"memory/n{number:03}.md", f"harbor crane report number {number}") for number in range(80)),
        note("memory/rare.md", "the zircon lies in a box, among other things of that place"),
        note("memory/both.md", "the zircon harbor and its crane, among other things of that place"),
    )
    with index.connection:
        rows.finish(index.connection)
    small = index.search("zircon harbor crane")[0]
    monkeypatch.setattr(retrieve, "LARGE_INDEX_ROWS", 50)
    large = index.search("zircon harbor crane")[0]
    assert [hit.path for hit in large] == ["memory/both.md", "memory/rare.md"]
    assert large[0].path == small[0].path
    assert large[0].score == pytest.approx(small[0].score, abs=1e-6)
    # only common terms: they choose after all
    assert len(index.search("harbor crane")[0]) == 6
