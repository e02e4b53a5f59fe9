"""Turns arrive in any order, by any way, any number of times: each is stored once, with its words in order."""

from __future__ import annotations

import itertools
import json
import tempfile
from pathlib import Path
from typing import Any

import apsw
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_sqlite.clock import FixedClock, iso
from memory_sqlite.config import Settings
from memory_sqlite.memory import Memory
from memory_sqlite.model import Message
from memory_sqlite.transcripts.identity import split_turns, text_digest

WORDS = st.sampled_from(["yes", "no", "go on", "granite", "I love tea."])
"""Few words, so that the same ones come again and again."""


@st.composite
def dialogues(draw: st.DrawFn) -> list[tuple[str, str]]:
    """One to five turns: what a person said and what was answered."""
    return draw(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=5))


def messages_of(dialogue: list[tuple[str, str]], start: int, ids: bool, times: bool) -> list[list[dict[str, Any]]]:
    turns = []
    for number, pair in enumerate(dialogue):
        turn: list[dict[str, Any]] = []
        for place, (role, text) in enumerate(zip(("user", "assistant"), pair, strict=True)):
            message: dict[str, Any] = {"role": role, "content": text}
            if ids:
                message["id"] = f"m{number}.{place}"
            if times:
                message["at"] = iso(start + number * 2000 + place * 1000)
            turn.append(message)
        turns.append(turn)
    return turns


def transcript_lines(dialogue: list[tuple[str, str]], start: int, ids: bool) -> list[str]:
    lines = [json.dumps({"type": "session", "id": "s", "timestamp": iso(start)})]
    for number, pair in enumerate(dialogue):
        for place, (role, text) in enumerate(zip(("user", "assistant"), pair, strict=True)):
            entry = f"m{number}.{place}" if ids else f"e{number}.{place}"
            lines.append(
                json.dumps(
                    {
                        "type": "message",
                        "id": entry,
                        "timestamp": iso(start + number * 2000 + place * 1000),
                        "message": {"role": role, "content": text},
                    }
                )
            )
    return lines


STEPS = st.lists(st.one_of(st.just("live"), st.just("replay"), st.integers(0, 11)), min_size=1, max_size=8)
"""``live`` sends the next turn, ``replay`` all so far again, a number imports the transcript with so many messages."""


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(dialogue=dialogues(), steps=STEPS, ids=st.booleans(), times=st.booleans())
def test_every_turn_once_whatever_the_order(
    dialogue: list[tuple[str, str]], steps: list[str | int], ids: bool, times: bool
) -> None:
    """Live turns with run ids, replays, and imports of a transcript that grows, mixed at will, then all of both: as
    many turns and messages as the dialogue has, nothing twice, nothing lost."""
    clock = FixedClock()
    turns = messages_of(dialogue, clock.ms, ids, times)
    lines = transcript_lines(dialogue, clock.ms, ids)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "s.jsonl"
        with Memory.open(settings=Settings(data_dir=Path(place) / "data"), clock=clock) as memory:
            sent = 0

            def live(number: int) -> None:
                memory.remember(session="s", run_id=f"r{number}", messages=turns[number])

            def write(count: int) -> None:
                path.write_text("".join(line + "\n" for line in lines[: 1 + count]))
                memory.import_transcripts([path])

            written = 0
            for step in steps:
                if step == "live" and sent < len(turns):
                    live(sent)
                    sent += 1
                elif step == "replay":
                    for number in range(sent):
                        live(number)
                elif isinstance(step, int):
                    written = max(written, min(step, 2 * len(turns)))
                    write(written)
            for number in range(len(turns)):
                live(number)
            write(2 * len(turns))
            store = memory.status()["store"]
        connection = apsw.Connection(store, flags=apsw.SQLITE_OPEN_READONLY)
        kept = connection.execute("SELECT role, text FROM messages ORDER BY turn_id, position").fetchall()
        count = connection.execute("SELECT count(*) FROM turns").get
        episodes = connection.execute("SELECT count(*) FROM records WHERE layer = 'L1'").get
        connection.close()
    said = [message for pair in dialogue for message in zip(("user", "assistant"), pair, strict=True)]
    assert sorted(kept) == sorted(said)
    assert count == len(dialogue)
    assert episodes == len(dialogue)


@given(st.lists(st.sampled_from(["user", "assistant", "tool", "system"]), max_size=12))
def test_splitting_keeps_every_message_and_begins_turns_with_a_person(roles: list[str]) -> None:
    """Cutting into turns loses and reorders nothing; but for the first, a turn begins where a person speaks after
    somebody else, and nowhere else."""
    messages = [Message(role, "x", "{}", is_tool_output=role == "tool") for role in roles]
    turns = split_turns(messages)
    assert [message for turn in turns for message in turn] == messages
    for turn in turns[1:]:
        assert turn[0].role == "user"
    for turn in turns:
        inside = [message.role == "user" for message in turn]
        switches = sum(later and not earlier for earlier, later in itertools.pairwise(inside))
        assert switches == 0


@given(st.text(), st.sampled_from(["user", "assistant"]))
def test_digest_is_of_words_and_role(text: str, role: str) -> None:
    """Spacing, line ends and composed forms do not change it; role and words do."""
    assert text_digest(role, text) == text_digest(role, "\r\n " + " \t".join(text.split()) + "\n")
    assert text_digest("user", text) != text_digest("assistant", text)
    assert text_digest(role, text + " granite") != text_digest(role, text)
