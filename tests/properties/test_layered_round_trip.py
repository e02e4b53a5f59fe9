"""Whatever a memory went through: out to the layered-memory format and in again it holds the same as far as that format
goes, and what went out as transcripts comes in with the same words."""

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
from memory_sqlite.interop.layered_key import adopt_session_key

SECRET = "a-demo-secret-with-at-least-32-bytes!"
TEXTS = st.one_of(
    st.sampled_from(["I live in Oslo.", "I live in Bergen.", "I love oolong.", "\0\u2028\x85 \U0001f9ed", "  yes  "]),
    st.text(max_size=30),
)
SESSIONS = st.sampled_from(["a", "agent:main:main", "agent:main:x:group:7", "c \u00e9"])
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "tool"]), "content": TEXTS},
        optional={"id": st.sampled_from(["m1", "m2", "x#1"]), "sender": st.sampled_from(["mika", "ada"])},
    ),
    min_size=1,
    max_size=4,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), SESSIONS, MESSAGES, st.none() | st.sampled_from(["r1", "r2", "layered:r3"])),
        st.tuples(st.just("state"), SESSIONS, TEXTS, st.sampled_from(["gate", "crane"])),
        st.tuples(st.just("forget session"), SESSIONS),
        st.tuples(st.just("forget person"), st.sampled_from(["mika", "ada"])),
    ),
    max_size=10,
)


def live(memory: Memory, clock: FixedClock, steps: list[tuple[Any, ...]]) -> None:
    for kind, *what in steps:
        clock.advance(41_000_003)  # some eleven hours: days change in between
        try:
            if kind == "say":
                memory.remember(session=what[0], messages=what[1], run_id=what[2])
            elif kind == "state":
                memory.remember_facts([{"content": what[1], "name": what[2]}], session=what[0])
            elif kind == "forget session":
                memory.forget(sessions=[what[0]])
            else:
                memory.forget(participants=[what[0]])
        except errors.InvalidArgument:
            pass  # a blank fact


def files(place: Path) -> dict[str, bytes]:
    return {path.relative_to(place).as_posix(): path.read_bytes() for path in place.rglob("*") if path.is_file()}


@settings(max_examples=12, deadline=None)
@given(steps=STEPS, scope=st.sampled_from(["session", "agent"]), secret=st.none() | st.just(SECRET))
def test_out_in_and_out_again_is_the_same(steps: list[tuple[Any, ...]], scope: Any, secret: str | None) -> None:
    """No line is refused, and the second directory is the first, byte for byte."""
    with tempfile.TemporaryDirectory() as made:
        place, clock = Path(made), FixedClock()
        shared: dict[str, Any] = {"profile_scope": scope, "compatibility": "layered-memory"}
        with Memory.open(settings=Settings(data_dir=place / "one", **shared), clock=clock) as memory:
            live(memory, clock, steps)
            report = memory.export_layered(place / "out", secret=secret)
            memory.export_layered(place / "clear")
        adopt_session_key(place / "out", place / "two")
        with Memory.open(settings=Settings(data_dir=place / "two", **shared), clock=clock) as memory:
            if report.counts["L0"] + sum(report.counts.values()):
                back = memory.import_layered(place / "out", secret=secret)
                assert (back.refused, back.problems) == (0, ())
                assert back.turns_stored == report.counts["L0"] and back.ignored == 0
                records = (back.episodes, back.scenarios, back.facts)
                assert records == tuple(report.counts[layer] for layer in ("L1", "L2", "L3"))
            memory.export_layered(place / "again")
        assert files(place / "again") == files(place / "clear")


@settings(max_examples=12, deadline=None)
@given(steps=STEPS)
def test_transcripts_come_in_with_the_same_words(steps: list[tuple[Any, ...]]) -> None:
    """Each session's file read as a transcript gives its messages, as often as they were said."""
    with tempfile.TemporaryDirectory() as made:
        place, clock = Path(made), FixedClock()
        with Memory.open(settings=Settings(data_dir=place / "one", redact_secrets=False), clock=clock) as memory:
            live(memory, clock, steps)
            report = memory.export_transcripts(place / "out")
            memory.export(place / "all.jsonl")
        raws: dict[str, list[str]] = {}
        for line in (place / "all.jsonl").read_bytes().splitlines():
            value = json.loads(line)
            if value["kind"] == "message":
                raws.setdefault(value["session"], []).append(value["raw"])
        written = [path.read_text("utf-8") for path in (place / "out").iterdir()]
        assert sorted(written) == sorted("".join(f"{raw}\n" for raw in said) for said in raws.values())
        assert report.messages == report.lines == sum(map(len, raws.values()))
