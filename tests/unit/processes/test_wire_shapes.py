"""What travels: frames, envelopes, and the tables that turn types into JSON and back without losing a field."""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from memory_sqlite.limits import FRAME_MAX_BYTES, QUERY_MAX_CHARS
from memory_sqlite.model import Chunk, Document, Hit, SourceProblem, Span
from memory_sqlite.processes import envelopes, frames, hits, prepared, questions
from memory_sqlite.processes.envelopes import Cancel, Reply, Request
from memory_sqlite.processes.frames import Frame, FrameReader, FrameTooLarge, WireError
from memory_sqlite.processes.hits import SearchRequest
from memory_sqlite.processes.prepare import ChunkWords, WordsOf
from memory_sqlite.search.filters import Filters, Viewer
from memory_sqlite.search.run import SearchInfo
from memory_sqlite.search.vectors.query_vector import QueryVector
from memory_sqlite.sources.places import NotePlace


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:
            pass  # the test closed it


def sent(header: dict[str, Any], blob: bytes = b"") -> Frame:
    """A header as the other side gets it."""
    read, write = os.pipe()
    try:
        os.write(write, frames.pack(header, blob))
        frame = FrameReader(read).read()
        assert frame is not None
        return frame
    finally:
        os.close(read)
        os.close(write)


# --- frames --------------------------------------------------------------------------------------------------------


def test_frames_arrive_whole_however_they_are_cut(pipe: tuple[int, int]) -> None:
    """Byte by byte, or two and a half at once: each frame is itself."""
    read, write = pipe
    first, second = frames.pack({"a": "\ud83d x 今"}, b"\0\1"), frames.pack({"b": 2})
    reader = FrameReader(read)
    for byte in first[:-1]:
        os.write(write, bytes([byte]))
    os.write(write, first[-1:] + second + second[:5])
    assert reader.read() == Frame({"a": "\ud83d x 今"}, b"\0\1")
    assert reader.read() == Frame({"b": 2})
    os.write(write, second[5:])
    assert reader.read(1.0) == Frame({"b": 2})
    assert reader.read(0.0) is None


def test_a_frame_larger_than_a_pipe_crosses_while_it_is_read(pipe: tuple[int, int]) -> None:
    """Writing goes on where the system stopped it."""
    read, write = pipe
    blob = os.urandom(FRAME_MAX_BYTES - 100)
    thread = threading.Thread(target=frames.write, args=(write, frames.pack({}, blob)))
    thread.start()
    assert FrameReader(read).read() == Frame({}, blob)
    thread.join()


def test_the_end_of_the_pipe_is_the_end(pipe: tuple[int, int]) -> None:
    """Also in the middle of a frame: half a message is none."""
    read, write = pipe
    os.write(write, frames.pack({"a": 1})[:-1])
    os.close(write)
    with pytest.raises(EOFError):
        FrameReader(read).read()


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">II", FRAME_MAX_BYTES + 1, 1),
        struct.pack(">II", 4, 1),
        struct.pack(">II", 2, 0) + b"  ",
        struct.pack(">II", 6, 2) + b"[]",
        struct.pack(">II", 6, 2) + b"{x",
        struct.pack(">II", 5, 1) + b"\xff",
        struct.pack(">II", 100_004, 100_000) + b"[" * 100_000,
        b"GET / HTTP/1.1\r\n",
    ],
    ids=["too long", "header beyond end", "shorter than itself", "list", "no JSON", "no UTF-8", "nested", "text"],
)
def test_what_is_no_frame_is_refused(pipe: tuple[int, int], data: bytes) -> None:
    """Lengths are checked before anything is read or kept for them."""
    read, write = pipe
    thread = threading.Thread(target=frames.write, args=(write, data))
    thread.start()
    with pytest.raises(WireError):
        FrameReader(read).read()
    thread.join()


def test_a_frame_over_the_bound_is_not_made() -> None:
    """The sender refuses it, so that the receiver never has to."""
    with pytest.raises(FrameTooLarge):
        frames.pack({}, bytes(FRAME_MAX_BYTES))


# --- envelopes -----------------------------------------------------------------------------------------------------


def test_envelopes_are_understood_by_the_other_side() -> None:
    """Each thing that can be said comes out as it went in."""
    asked = Request(7, "search", {"a": 1}, b"x", 2.5)
    assert envelopes.from_parent(sent(envelopes.request(asked), b"x")) == asked
    assert envelopes.from_parent(sent(envelopes.request(Request(1, "k", {})))) == Request(1, "k", {})
    assert envelopes.from_parent(sent(envelopes.cancel(9))) == Cancel(9)
    answer = Reply(7, "search", "ok", {"b": [1]}, b"y")
    assert envelopes.from_worker(sent(envelopes.reply(answer), b"y")) == answer
    envelopes.check_greeting(sent(envelopes.setup("w")), "setup", "w")
    envelopes.check_greeting(sent(envelopes.hello("w")), "hello", "w")


@pytest.mark.parametrize(
    "change",
    [
        {"id": 0}, {"id": True}, {"id": "1"}, {"id": None}, {"kind": ""}, {"kind": 3}, {"kind": "x" * 65}, {"body": []},
        {"body": None}, {"say": "reply"}, {"more": 1}, {"deadline_s": -1}, {"deadline_s": "1"}, {"deadline_s": True},
    ],
)  # fmt: skip
def test_a_request_of_another_shape_is_refused(change: dict[str, Any]) -> None:
    """Nothing is guessed."""
    with pytest.raises(WireError):
        envelopes.from_parent(Frame({**envelopes.request(Request(1, "k", {})), **change}))


@pytest.mark.parametrize("change", [{"outcome": "fine"}, {"outcome": None}, {"id": -1}, {"say": "hello"}, {"x": 1}])
def test_a_reply_of_another_shape_is_refused(change: dict[str, Any]) -> None:
    """Nothing is guessed."""
    with pytest.raises(WireError):
        envelopes.from_worker(Frame({**envelopes.reply(Reply(1, "k", "ok", {})), **change}))


@pytest.mark.parametrize("change", [{"protocol": 0}, {"worker": "other"}, {"say": "setup"}, {"more": 1}])
def test_another_greeting_is_refused(change: dict[str, Any]) -> None:
    """Parent and worker may come from two installations for a moment."""
    with pytest.raises(WireError):
        envelopes.check_greeting(Frame({**envelopes.hello("w"), **change}), "hello", "w")


# --- tables --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        (hits.VIEWER, Viewer), (hits.FILTERS, Filters), (hits.REQUEST, SearchRequest), (hits.SPAN, Span),
        (hits.VECTOR, QueryVector),
        (hits.HIT, Hit), (hits.INFO, SearchInfo), (prepared.PLACE, NotePlace), (prepared.PROBLEM, SourceProblem),
        ((*prepared.CHUNK, *prepared.CHUNK_TEXTS), Chunk), (prepared.DOCUMENT, Document),
        ((*prepared.WORDS, *prepared.WORDS_TEXTS, *prepared.WORDS_BYTES), ChunkWords),
        (prepared.WORDS_OF, WordsOf),
    ],
)  # fmt: skip
def test_a_table_has_every_field_of_its_type(table: Iterable[str], kind: Any) -> None:
    """A field that is added to a type and not to its table would be lost on the way."""
    assert set(table) == set(kind.__dataclass_fields__)


FULL_FILTERS = Filters(
    Viewer(False, 3, True),
    ("sessions",),
    ("L0", "L3"),
    (1, 2),
    ("p",),
    ("note", "message"),
    -5,
    2**40,
    ("q",),
    ("r",),
    9,
)
FULL_VECTOR = QueryVector('{"model":"m"}', bytes(range(256)), 0.5, 0.25, 0.125, 0.875, 0.0, 0.75, 0.5)
FULL_HIT = Hit(
    "message:1", "sessions/t", 1, 2, "ein Ausschnitt 今", (Span(0, 3), Span(4, 5)), 0.5, "sessions", "L0", "c#L1",
    {"origin": "owner", "kind": "message", "sender": None}, "2026-01-01T00:00:00.000Z", "h", "t", "s", "m", "Ann", 7,
    ("a", "b"), ("p",), ("d#L1",), {"bm25": 1.5},
)  # fmt: skip


def test_a_search_and_its_answer_survive_the_way() -> None:
    """Both ways, full and empty, in their own types."""
    for asked in (
        SearchRequest("router 今天 \ud800", FULL_FILTERS, 5, 6, 7, 0.25, "newest", True, FULL_VECTOR),
        SearchRequest("", Filters(Viewer()), 0, 1, 0),
    ):
        assert hits.request_of(sent(hits.request_json(asked)).header) == asked
    asked = SearchRequest("x", Filters(Viewer()), 0, 2, 0)
    for found in (([FULL_HIT], SearchInfo("partial", 4, ("w",), ("lexical", "resident"))), ([], SearchInfo())):
        assert hits.answer_of(sent(hits.answer_json(found)).header, asked) == found


def test_a_long_query_travels_only_as_far_as_it_is_read() -> None:
    """Cut above its bound, so that the worker still says that it was cut."""
    body = hits.request_json(SearchRequest("x" * 1_000_000, Filters(Viewer()), 0, 1, 0))
    assert len(body["text"]) == QUERY_MAX_CHARS + 1


@pytest.mark.parametrize(
    "change",
    [
        {"text": None}, {"filters": []}, {"filters": {}}, {"now_ms": 1.5}, {"max_results": -1}, {"max_results": 10**6},
        {"max_bytes": "1"}, {"min_score": None}, {"sort": "best"}, {"explain": 1}, {"more": 1},
        {"vector": []}, {"vector": ["{}", "no base64!", 0, 0, 0, 0, 0, 0, 0]},
        {"vector": ["{}", "AAAA", "0", 0, 0, 0, 0, 0, 0]},
    ],
)  # fmt: skip
def test_a_search_of_another_shape_is_refused(change: dict[str, Any]) -> None:
    """The worker checks what it is asked."""
    body = hits.request_json(SearchRequest("x", FULL_FILTERS, 0, 1, 0))
    with pytest.raises(WireError):
        hits.request_of({**body, **change})


@pytest.mark.parametrize("field", range(len(hits.HIT)))
def test_a_hit_with_a_wrong_field_is_refused(field: int) -> None:
    """The parent checks every field of every hit."""
    body = sent(hits.answer_json(([FULL_HIT], SearchInfo()))).header
    body["hits"][0][field] = {"no field": ["is like this"]}
    if list(hits.HIT)[field] == "provenance":
        body["hits"][0][field] = []
    with pytest.raises(WireError):
        hits.answer_of(body, SearchRequest("x", Filters(Viewer()), 0, 1, 0))


def test_more_hits_than_were_asked_for_are_refused() -> None:
    """A bound that the parent set is the parent's to hold."""
    body = sent(hits.answer_json(([FULL_HIT] * 3, SearchInfo()))).header
    with pytest.raises(WireError):
        hits.answer_of(body, SearchRequest("x", Filters(Viewer()), 0, 2, 0))


def test_questions_survive_the_way_and_only_their_answers_are_taken() -> None:
    """Texts, keys and state: what was not asked for is refused."""
    hydrate, presence = questions.HydrateRequest((1, 2, 3)), questions.PresenceRequest("note", ("a", "b"))
    assert questions.HydrateRequest.of(sent(hydrate.json()).header) == hydrate
    assert questions.PresenceRequest.of(sent(presence.json()).header) == presence
    assert questions.StateRequest.of({}) == questions.StateRequest()
    assert hydrate.answer({"texts": [[1, "x"]], "left": [2]}) == questions.Texts({1: "x"}, (2,))
    assert presence.answer({"present": ["b"]}) == {"b"}
    for wrong in ({"texts": [[4, "x"]], "left": []}, {"texts": [], "left": [9]}, {"texts": [[1, None]], "left": []}):
        with pytest.raises(WireError):
            hydrate.answer(wrong)
    with pytest.raises(WireError):
        presence.answer({"present": ["c"]})
    with pytest.raises(WireError):
        questions.StateRequest().answer({"meta": {}, "documents": {"note": -1}, "chunks": 0})
