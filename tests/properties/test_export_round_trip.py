"""Whatever a memory went through, its export imported elsewhere gives the same lines, and importing twice adds
nothing."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from memory_sqlite import Memory, errors
from memory_sqlite.clock import FixedClock
from memory_sqlite.config import Settings
from memory_sqlite.interop import jsonl_files

TEXTS = st.one_of(
    st.sampled_from(["I live in Oslo.", "I live in Bergen.", "I love oolong.", "\0\u2028\u2029\x85 \U0001f9ed", "yes"]),
    st.text(max_size=30),
)
SESSIONS = st.sampled_from(["a", "agent:main:b", "c \u00e9"])
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "tool"]), "content": TEXTS},
        optional={"id": st.sampled_from(["m1", "m2", "=3"]), "sender": st.sampled_from(["mika", "ada"])},
    ),
    min_size=1,
    max_size=3,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), SESSIONS, MESSAGES, st.none() | st.sampled_from(["r1", "r2", "r3"])),
        st.tuples(st.just("state"), SESSIONS, TEXTS, st.sampled_from(["gate", "crane"])),
        st.tuples(st.just("forget session"), SESSIONS),
        st.tuples(st.just("forget person"), st.sampled_from(["mika", "ada"])),
    ),
    max_size=12,
)


def live(memory: Memory, clock: FixedClock, steps: list[tuple[Any, ...]]) -> None:
    for kind, *what in steps:
        clock.advance(61_003)
        try:
            if kind == "say":
                memory.remember(session=what[0], messages=what[1], run_id=what[2], sender_is_owner=True)
            elif kind == "state":
                memory.remember_facts([{"content": what[1], "name": what[2]}], session=what[0])
            elif kind == "forget session":
                memory.forget(sessions=[what[0]])
            else:
                memory.forget(participants=[what[0]])
        except errors.InvalidArgument:
            pass  # a blank fact


def body(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)[1:-1]


@settings(max_examples=12, deadline=None)
@given(steps=STEPS)
def test_export_of_an_import_is_the_export(steps: list[tuple[Any, ...]]) -> None:
    """Into an empty agent of the same data directory: equal lines; a second time, and into itself: nothing is added."""
    with tempfile.TemporaryDirectory() as folder:
        place, clock = Path(folder), FixedClock()
        with Memory.open(settings=Settings(data_dir=place / "d", agent="alpha"), clock=clock) as alpha:
            live(alpha, clock, steps)
            alpha.export(place / "a.jsonl")
            own = alpha.import_jsonl(place / "a.jsonl")
            assert (own.status, sum(own.added.values())) == ("ok", 0)
        with Memory.open(settings=Settings(data_dir=place / "d", agent="gamma"), clock=clock) as gamma:
            first = gamma.import_jsonl(place / "a.jsonl")
            assert first.status == "ok"
            gamma.export(place / "b.jsonl")
            assert body(place / "a.jsonl") == body(place / "b.jsonl")
            assert sum(gamma.import_jsonl(place / "a.jsonl").added.values()) == 0
            assert gamma.status()["index"]["lag"] == 0


@settings(max_examples=12, deadline=None)
@given(before=STEPS, after=STEPS, named=st.sampled_from(["a session", "a person", "a stretch", "a record"]))
def test_nothing_forgotten_comes_back(before: list[tuple[Any, ...]], after: list[tuple[Any, ...]], named: str) -> None:
    """An export, then a forgetting, and perhaps more talk: the old export adds nothing and changes no line."""
    with tempfile.TemporaryDirectory() as folder:
        place, clock = Path(folder), FixedClock()
        start = clock.now_ms() / 1000
        with Memory.open(settings=Settings(data_dir=place / "d"), clock=clock) as memory:
            live(memory, clock, before)
            memory.export(place / "old.jsonl")
            records = [json.loads(line)["record_id"] for line in body(place / "old.jsonl") if b'"record_id"' in line]
            clock.advance(1_000)
            if named == "a record":
                memory.forget(records=records[:1] or ["none"])
            elif named == "a stretch":
                memory.forget(since=start, until=start + 180)
            else:
                memory.forget(**{"sessions": ["a"]} if named == "a session" else {"participants": ["mika"]})
            live(memory, clock, after)
            memory.export(place / "new.jsonl")
            report = memory.import_jsonl(place / "old.jsonl")
            memory.export(place / "still.jsonl")
            assert sum(report.added.values()) == 0
            assert body(place / "new.jsonl") == body(place / "still.jsonl")


@settings(max_examples=8, deadline=None)
@given(steps=STEPS)
def test_under_another_key_only_what_is_counted_is_missing(steps: list[tuple[Any, ...]]) -> None:
    """Every line is added or counted as left; turns, messages and records are all there, and a second import adds
    nothing."""
    with tempfile.TemporaryDirectory() as folder:
        place, clock = Path(folder), FixedClock()
        with Memory.open(settings=Settings(data_dir=place / "d"), clock=clock) as alpha:
            live(alpha, clock, steps)
            counts = alpha.export(place / "a.jsonl").counts
        with Memory.open(settings=Settings(data_dir=place / "e"), clock=clock) as other:
            report = other.import_jsonl(place / "a.jsonl")
            for kind in ("session", "turn", "message", "record", "record_source"):
                assert report.added[kind] == counts[kind]
            assert report.added["tombstone"] + report.left["tombstone"] == counts["tombstone"]
            assert sum(other.import_jsonl(place / "a.jsonl").added.values()) == 0


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=80))
def test_any_bytes_are_an_object_or_a_typed_refusal(data: bytes) -> None:
    """Decoding a line never fails in another way, and an object it gives is one that JSON gives too."""
    try:
        value = jsonl_files.decode(data, 7)
    except errors.ExportInvalid as error:
        assert error.line == 7
    else:
        assert value == json.loads(data)
