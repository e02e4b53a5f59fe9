"""The Python door: what becomes of every bad or odd argument, a typed error that names it or a right answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.config import Settings
from memory_sqlite.model import Page

PERSON = [{"role": "user", "content": "The granite key lies under the mat."}]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """A memory with one turn in session ``s``."""
    with Memory.open(settings=Settings(data_dir=tmp_path / "data")) as opened:
        opened.remember(session="s", messages=PERSON)
        yield opened


# --- bad input -----------------------------------------------------------------------------------------------------

NOT_STRINGS = [None, 5, b"granite", ["granite"], {"query": "granite"}, True]


@pytest.mark.parametrize("query", NOT_STRINGS)
def test_query_of_another_type(memory: Memory, query: Any) -> None:
    """A typed error from ``search``; ``recall``, which never raises, injects nothing."""
    with pytest.raises(errors.InvalidArgument, match="query"):
        memory.search(query)
    assert memory.recall(query).text == ""


ODD_QUERIES = {
    "empty": "",
    "blank": " \t\n\u3000",
    "operators": 'AND OR NOT NEAR("" *) ^ : + - " \' ( ) { }',
    "unclosed quote": '"granite',
    "column filter": "body: nothing",
    "sql": "'; DROP TABLE messages; --",
    "nul": "\0",
    "lone surrogate": "\ud800",
    "100,000 characters": "x" * 100_000,
    "100,000 words": "basalt " * 100_000,
    "20,000 different words": " ".join(f"w{number}" for number in range(20_000)),
    "emoji": "👩‍👩‍👧",
    "combining": "e" + "\u0301" * 5_000,
    "wildcards": "% _ * ? [a-z]",
    "control characters": "".join(map(chr, range(32))),
    "right to left": "\u202egranite\u202c \u200f",
}


@pytest.mark.parametrize("name", ODD_QUERIES)
def test_any_text_is_a_query(memory: Memory, name: str) -> None:
    """No text is ever syntax: the answer is a page, the same memory answers the next query, nothing is changed."""
    page = memory.search(ODD_QUERIES[name])
    assert isinstance(page, Page)
    memory.recall(ODD_QUERIES[name])
    assert memory.search("granite key").hits
    assert memory.status()["messages"] == 1


@pytest.mark.parametrize(
    "query", ["granite\0key", "granite \ud800 key", 'granite AND "key', "granite* key^", "GRANITE (key"]
)
def test_words_beside_odd_characters_are_found(memory: Memory, query: str) -> None:
    """What can be understood of a query is searched."""
    assert any("granite" in hit.excerpt for hit in memory.search(query).hits)


@pytest.mark.parametrize(
    "word", ["granite\0key", "granite \ud83d alone", "granite " + "\ud83d\ude00", "\x00" * 50 + " granite"]
)
def test_odd_messages_are_stored_found_and_read_back(memory: Memory, word: str) -> None:
    """NUL, lone surrogates and pairs that arrive as two escapes: stored as valid text, found, readable."""
    receipt = memory.remember(session="odd", messages=[{"role": "user", "content": word}])
    assert (receipt.status, receipt.searchable) == ("stored", True)
    hits = memory.search("granite", session="odd").hits
    assert hits
    assert memory.get(hits[0].reference).status == "ok"
    memory.index(full=True)
    assert memory.search("granite", session="odd").hits


BAD_SEARCH: list[tuple[str, dict[str, Any]]] = [
    ("max_results", {"max_results": 0}),
    ("max_results", {"max_results": 101}),
    ("max_results", {"max_results": True}),
    ("max_results", {"max_results": 2.0}),
    ("max_results", {"max_results": "3"}),
    ("min_score", {"min_score": -0.1}),
    ("min_score", {"min_score": 1.1}),
    ("min_score", {"min_score": float("nan")}),
    ("min_score", {"min_score": "0"}),
    ("min_score", {"min_score": None}),
    ("sources", {"sources": "memory"}),
    ("sources", {"sources": ()}),
    ("sources", {"sources": ("memory", "web")}),
    ("sources", {"sources": None}),
    ("layers", {"layers": ("L9",)}),
    ("layers", {"layers": "L1"}),
    ("projects", {"projects": "garden"}),
    ("projects", {"projects": (5,)}),
    ("active_projects", {"active_projects": "garden"}),
    ("active_projects", {"active_projects": None}),
    ("sort", {"sort": "best"}),
    ("sort", {"sort": None}),
    ("session", {"session": ""}),
    ("session", {"session": 5}),
    ("session", {"session": "x" * 1025}),
    ("session", {"session": "a\0b"}),
    ("session", {"session": "\ud800"}),
]


@pytest.mark.parametrize(("name", "arguments"), BAD_SEARCH)
def test_bad_search_arguments_are_named(memory: Memory, name: str, arguments: dict[str, Any]) -> None:
    """The message names the argument; nothing is coerced or silently dropped."""
    with pytest.raises(errors.InvalidArgument, match=name):
        memory.search("granite", **arguments)


BAD_REMEMBER: list[tuple[str, dict[str, Any]]] = [
    ("session", {"session": ""}),
    ("session", {"session": " \t"}),
    ("session", {"session": None}),
    ("session", {"session": 5}),
    ("session", {"session": "é" * 513}),
    ("session", {"session": "a\0b"}),
    ("session", {"session": "\ud800"}),
    ("run_id", {"run_id": ""}),
    ("run_id", {"run_id": " "}),
    ("run_id", {"run_id": 5}),
    ("run_id", {"run_id": "r" * 513}),
    ("run_id", {"run_id": "\ud800"}),
    ("run_id", {"run_id": "a\0b"}),
    ("chat_type", {"chat_type": "private"}),
    ("chat_type", {"chat_type": 5}),
    ("kind", {"kind": "job"}),
    ("sender_is_owner", {"sender_is_owner": "yes"}),
    ("sender_is_owner", {"sender_is_owner": 1}),
    ("project", {"project": 5}),
    ("project", {"project": "\ud800"}),
    ("oversize", {"oversize": "drop"}),
    ("messages", {"messages": None}),
    ("messages", {"messages": "hello"}),
    ("messages", {"messages": {"role": "user", "content": "x"}}),
    ("messages", {"messages": [{"role": "user", "content": "x"}] * 10_001}),
    (r"messages\[0\]", {"messages": ["hello"]}),
    (r"messages\[0\]", {"messages": [None]}),
    (r"messages\[0\]\.role", {"messages": [{"content": "x"}]}),
    (r"messages\[0\]\.role", {"messages": [{"role": "", "content": "x"}]}),
    (r"messages\[0\]\.role", {"messages": [{"role": 5, "content": "x"}]}),
    (r"messages\[0\]\.content", {"messages": [{"role": "user"}]}),
    (r"messages\[0\]\.content", {"messages": [{"role": "user", "content": 5}]}),
    (r"messages\[1\]\.content", {"messages": [*PERSON, {"role": "user", "content": 5}]}),
    (r"messages\[0\]\.id", {"messages": [{"role": "user", "content": "x", "id": 5}]}),
    (r"messages\[0\]\.at", {"messages": [{"role": "user", "content": "x", "at": "soon"}]}),
    (r"messages\[0\]", {"messages": [{"role": "user", "content": "x", "extra": object()}]}),
    (r"messages\[0\]", {"messages": [{"role": "user", "content": "x", "extra": float("nan")}]}),
]


@pytest.mark.parametrize(("name", "arguments"), BAD_REMEMBER)
def test_bad_remember_arguments_are_named_and_store_nothing(
    memory: Memory, name: str, arguments: dict[str, Any]
) -> None:
    """A typed error that names the field, never its text; neither the session nor a part of the call is stored."""
    with pytest.raises(errors.InvalidArgument, match=name):
        memory.remember(**{"session": "new", "messages": PERSON, "run_id": None} | arguments)
    assert (memory.status()["sessions"], memory.status()["messages"]) == (1, 1)


def test_nothing_to_remember_is_said(memory: Memory) -> None:
    """No messages at all is an empty receipt, not a turn."""
    assert memory.remember(session="new", messages=[]).status == "empty"
    assert memory.status()["sessions"] == 1


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("reference", {"reference": ""}),
        ("reference", {"reference": None}),
        ("reference", {"reference": 5}),
        ("from_line", {"from_line": 0}),
        ("from_line", {"from_line": "1"}),
        ("from_line", {"from_line": True}),
        ("lines", {"lines": 0}),
        ("lines", {"lines": 1.5}),
        ("session", {"session": " "}),
    ],
)
def test_bad_get_arguments_are_named(memory: Memory, name: str, arguments: dict[str, Any]) -> None:
    """As for ``search``."""
    with pytest.raises(errors.InvalidArgument, match=name):
        memory.get(**{"reference": "MEMORY.md"} | arguments)


@pytest.mark.parametrize(
    "reference",
    [
        "message:",
        "message:x",
        "message:-1",
        "message:99999999999999999999",
        "record:",
        "record:nothing",
        "record:\ud800",
        "message:\udfff",
        "note:",
        "x" * 10000,
        "sessions/" + "0" * 32,
        "sessions/nothing",
        "message:1#L",
        "memory/�.md",
        "memory/a\x00b.md",
        "\x00",
        "agent-profiles/2026-07-15.jsonl",
        "sessions/" + "0" * 32 + "/memories/2026-07-15.jsonl",
        "memory/nothing.md",
    ],
)
def test_any_text_is_a_reference(memory: Memory, reference: str) -> None:
    """What names nothing is ``not_found`` or a refused path; for a session that may not know, it is denied alike."""
    try:
        assert memory.get(reference).status == "not_found"
    except errors.PathNotAllowed:
        pass
    with pytest.raises((errors.AccessDenied, errors.PathNotAllowed)):
        memory.get(reference, session="somebody")


@pytest.mark.parametrize(
    "arguments", [{"limit": 0}, {"limit": -1}, {"limit": "5"}, {"limit": None}, {"offset": -1}, {"offset": 1.0}]
)
def test_bad_sessions_arguments_are_named(memory: Memory, arguments: dict[str, Any]) -> None:
    """A listing is bounded by whole numbers."""
    with pytest.raises(errors.InvalidArgument, match=next(iter(arguments))):
        memory.sessions(**arguments)


@pytest.mark.parametrize("paths", ["a.jsonl", Path("a.jsonl"), None, [5], [None], 5])
def test_bad_import_paths_are_named(memory: Memory, paths: Any) -> None:
    """One path is not a list of paths: its characters are no files."""
    with pytest.raises(errors.InvalidArgument, match="paths"):
        memory.import_transcripts(paths)


def test_errors_carry_no_text(memory: Memory) -> None:
    """Whatever is wrong with a call, its error does not repeat what was said in it."""
    secret = "xyzzy-plugh"
    calls: list[Callable[[], Any]] = [
        lambda: memory.search(secret, max_results=0),
        lambda: memory.search("granite", sort=secret),  # type: ignore[arg-type]
        lambda: memory.search("granite", session=secret + "\0"),
        lambda: memory.remember(session="s", messages=[{"role": secret * 20, "content": secret}]),
        lambda: memory.remember(session="s", messages=[{"role": "user", "content": secret, "at": secret}]),
        lambda: memory.remember(session="s", messages=[{"role": "user", "content": secret * 10_000}]),
        lambda: memory.get("record:" + secret, session="somebody"),
    ]
    for call in calls:
        with pytest.raises(errors.MemorySqliteError) as caught:
            call()
        assert secret not in f"{caught.value} {caught.value.hint}"
