"""``max_record_bytes`` bounds one stored message: refused whole, or kept with a mark; an import never loses a turn."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from memory_sqlite import Memory, errors
from memory_sqlite.config import Settings

LIMIT = 1024


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(settings=Settings(data_dir=tmp_path / "data", max_record_bytes=LIMIT)) as opened:
        yield opened


def stored(memory: Memory) -> list[tuple[str, str, int | None]]:
    connection = apsw.Connection(memory.status()["store"], flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return connection.execute("SELECT text, raw, cut_from_bytes FROM messages ORDER BY id").fetchall()  # type: ignore[return-value]
    finally:
        connection.close()


def person(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def test_too_large_is_refused_whole(memory: Memory) -> None:
    """One message over the bound: nothing of the call is stored, the message is named by its place, not its text."""
    with pytest.raises(errors.RecordTooLarge) as caught:
        memory.remember(session="s", messages=[person("granite"), person("secret " * 200)])
    assert "messages[1]" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert memory.status()["messages"] == 0
    assert memory.search("granite").hits == ()


def test_the_bound_is_of_a_message_not_of_a_turn(memory: Memory) -> None:
    """Many messages that each fit make a turn of any size."""
    turn = [person("granite"), *({"role": "assistant", "content": f"part {n} " + "x " * 300} for n in range(10))]
    assert memory.remember(session="s", messages=turn).messages == 11


def test_truncate_keeps_it_with_a_mark(memory: Memory) -> None:
    """Shortened to the bound in bytes, between graphemes, saying how much there was; what is kept is found."""
    text = "granite first. " + "あいうえお👩‍👩‍👧 " * 100
    receipt = memory.remember(session="s", messages=[person(text)], oversize="truncate")
    assert (receipt.status, receipt.shortened) == ("stored", 1)
    ((kept, raw, cut_from),) = stored(memory)
    assert max(len(kept.encode()), len(raw.encode("utf-8"))) <= LIMIT
    body, mark = kept.rsplit("\n", 1)
    assert text.startswith(body)
    assert body.endswith(("👩‍👩‍👧", " ", *"あいうえお"))
    assert mark.startswith("[shortened: ")
    assert cut_from is not None
    assert cut_from >= len(text.encode())
    assert memory.search("granite").hits
    assert memory.status()["shortened"] == 1


def test_exactly_at_the_bound_is_whole(memory: Memory) -> None:
    """The bound is inclusive: a message whose record has exactly so many bytes is stored as it is."""
    for size in range(LIMIT - 60, LIMIT + 20):
        message = {"role": "user", "content": "x" * size}
        fits = len(json.dumps(message, separators=(",", ":"))) <= LIMIT
        try:
            memory.remember(session="s", messages=[message])
            assert fits, size
        except errors.RecordTooLarge:
            assert not fits, size


def test_tool_output_is_shortened_before_words(memory: Memory) -> None:
    """What a person said fits: it stays whole, and only the record's other blocks are left out."""
    message = {
        "role": "user",
        "content": [{"type": "text", "text": "granite words"}, {"type": "tool_result", "content": "y " * 2000}],
    }
    receipt = memory.remember(session="s", messages=[message], oversize="truncate")
    assert receipt.shortened == 1
    ((text, raw, _),) = stored(memory)
    assert text == "granite words"
    assert "granite words" in raw
    assert len(raw.encode()) <= LIMIT


def test_import_keeps_every_turn(memory: Memory, tmp_path: Path) -> None:
    """A transcript with an enormous message loses nothing but its length, counted and reported."""
    path = tmp_path / "s.jsonl"
    lines = [person("granite " + "x " * 5000), {"role": "assistant", "content": "short"}, person("marble")]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    report = memory.import_transcripts([path], session="s")
    assert (report.turns_stored, report.messages, report.shortened, report.refused) == (2, 3, 1, 0)
    assert memory.search("granite", sources=("sessions",)).hits
    assert all(len(text.encode()) <= LIMIT for text, _, _ in stored(memory))
    path.touch()
    assert memory.import_transcripts([path], session="s").messages == 0
