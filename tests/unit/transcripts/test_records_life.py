"""L1 to L3 in the store: made in the turn's own transaction, superseded, reinforced, counted across processes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_sqlite import Memory
from memory_sqlite.clock import FixedClock, iso
from memory_sqlite.config import Settings
from memory_sqlite.layers import remember as remember_room

DAY = 24 * 60 * 60 * 1000


@pytest.fixture
def open_memory(tmp_path: Path, clock: FixedClock) -> Callable[[], Memory]:
    """Opens the same agent again and again; every third turn makes a scenario."""
    settings = Settings(data_dir=tmp_path / "data", extraction_interval=3)
    return lambda: Memory.open(settings=settings, clock=clock)


def say(memory: Memory, text: str, session: str = "s", **more: Any) -> Any:
    more = {"chat_type": "direct", "sender_is_owner": True} | more
    return memory.remember(session=session, messages=[{"role": "user", "content": text}], **more)


def records(memory: Memory, columns: str, layer: str = "L3") -> list[tuple[Any, ...]]:
    connection = apsw.Connection(memory.status()["store"], flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return connection.execute(f"SELECT {columns} FROM records WHERE layer = ? ORDER BY id", (layer,)).fetchall()
    finally:
        connection.close()


def active(memory: Memory) -> list[str]:
    return [content for content, status in records(memory, "content, status") if status == "active"]


def test_changed_fact_supersedes_and_both_stay_readable(open_memory: Callable[[], Memory]) -> None:
    """The later statement is found, the earlier one is not; both can be read back, the old one naming the new."""
    with open_memory() as memory:
        first = say(memory, "I live in Bergen.")
        second = say(memory, "I live in Oslo.")
        assert second.superseded == first.facts
        assert [hit.excerpt for hit in memory.search("live", layers=("L3",)).hits] == ["I live in Oslo"]
        old = memory.get(first.facts[0])
        assert old.text == "I live in Bergen\n"
        assert (old.provenance["status"], f"record:{old.provenance['superseded_by']}") == (
            "superseded",
            second.facts[0],
        )
        assert memory.get(second.facts[0]).provenance["status"] == "active"


def test_contrary_fact_supersedes(open_memory: Callable[[], Memory]) -> None:
    """Liking and no longer liking are one matter."""
    with open_memory() as memory:
        say(memory, "I love coffee.")
        say(memory, "I hate coffee.")
        assert active(memory) == ["I hate coffee"]


def test_repeated_fact_is_stored_once_and_reinforced(open_memory: Callable[[], Memory], clock: FixedClock) -> None:
    """Its count grows, its time becomes the newest, its receipt names the same record."""
    with open_memory() as memory:
        first = say(memory, "I love green tea.")
        clock.advance(DAY)
        again = say(memory, "Really, I love green tea!", session="other")
        assert again.facts == first.facts
        assert records(memory, "reinforced, event_at, reinforced_at") == [(2, clock.ms, clock.ms)]
        hit = memory.search("green tea", layers=("L3",)).hits[0]
        assert hit.time == iso(clock.ms)


def test_older_transcript_imported_later_does_not_win(
    open_memory: Callable[[], Memory], clock: FixedClock, tmp_path: Path
) -> None:
    """What was said later stands, in whatever order it arrived; the older statement is kept as superseded."""
    path = tmp_path / "old.jsonl"
    line = {"role": "user", "content": "I live in Bergen.", "timestamp": iso(clock.ms - 30 * DAY)}
    path.write_text(json.dumps(line) + "\n")
    with open_memory() as memory:
        say(memory, "I live in Oslo.")
        report = memory.import_transcripts([path], session="old", chat_type="direct", sender_is_owner=True)
        assert report.facts == 1
        assert records(memory, "content, status") == [("I live in Oslo", "active"), ("I live in Bergen", "superseded")]
        assert [hit.excerpt for hit in memory.search("live", layers=("L3",)).hits] == ["I live in Oslo"]
        clock.advance(DAY)
        say(memory, "I live in Bergen.")
        assert active(memory) == ["I live in Bergen"]


def test_older_repetition_does_not_make_a_fact_younger_or_older(
    open_memory: Callable[[], Memory], clock: FixedClock, tmp_path: Path
) -> None:
    """Reinforced by an older transcript a fact keeps its newest time."""
    path = tmp_path / "old.jsonl"
    line = {"role": "user", "content": "I love green tea.", "timestamp": iso(clock.ms - 30 * DAY)}
    path.write_text(json.dumps(line) + "\n")
    with open_memory() as memory:
        say(memory, "I love green tea.")
        memory.import_transcripts([path], session="old", chat_type="direct", sender_is_owner=True)
        assert records(memory, "reinforced, event_at") == [(2, clock.ms)]


def test_stranger_never_supersedes_the_owner(open_memory: Callable[[], Memory]) -> None:
    """Nor reinforces: the owner's facts are the owner's alone, in a shared room too."""
    with open_memory() as memory:
        say(memory, "I love coffee.", session="g", chat_type="group")
        say(memory, "I hate coffee.", session="g", chat_type="group", sender_is_owner=False)
        say(memory, "I love coffee.", session="g", chat_type="group", sender_is_owner=False)
        assert records(memory, "content, origin, status, reinforced") == [
            ("I love coffee", "owner", "active", 1),
            ("I hate coffee", "untrusted", "superseded", 1),
            ("I love coffee", "untrusted", "active", 1),
        ]


def test_scenario_on_every_nth_turn_across_restarts(open_memory: Callable[[], Memory]) -> None:
    """Counted in the store: a process that lives for one turn still makes the scenario, and it covers the last n."""
    made = []
    for number in range(1, 8):
        with open_memory() as memory:
            made.append(say(memory, f"We spoke about pebble{number} today.").scenarios)
    assert made == [0, 0, 1, 0, 0, 1, 0]
    with open_memory() as memory:
        contents = [content for (content,) in records(memory, "content", "L2")]
    assert len(contents) == 2
    for content, numbers in zip(contents, ((1, 2, 3), (4, 5, 6)), strict=True):
        assert [f"pebble{n}" in content for n in range(1, 8)] == [n in numbers for n in range(1, 8)]


def test_scenario_counts_other_processes_turns(open_memory: Callable[[], Memory], tmp_path: Path) -> None:
    """A turn that another process stored while this one was open counts, and is in the scenario."""
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from memory_sqlite import Memory\n"
        "from memory_sqlite.config import Settings\n"
        "settings = Settings(data_dir=Path(sys.argv[1]), extraction_interval=3)\n"
        "with Memory.open(settings=settings) as memory:\n"
        "    memory.remember(session='s', messages=[{'role': 'user', 'content': 'We spoke about pebble2 today.'}])\n"
    )
    with open_memory() as memory:
        say(memory, "We spoke about pebble1 today.")
        subprocess.run([sys.executable, "-c", script, str(tmp_path / "data")], check=True)
        assert say(memory, "We spoke about pebble3 today.").scenarios == 1
        ((content,),) = records(memory, "content", "L2")
        assert all(f"pebble{number}" in content for number in (1, 2, 3))


def test_failure_while_layers_are_made_stores_nothing(
    open_memory: Callable[[], Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn is one transaction: a defect in the third turn of a call takes the first two and the session with it."""
    real = remember_room.write_layers
    calls = []

    def failing(*arguments: Any, **more: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise RuntimeError("a defect")
        return real(*arguments, **more)

    monkeypatch.setattr(remember_room, "write_layers", failing)
    turns = [{"role": role, "content": f"{role} {n}"} for n in range(3) for role in ("user", "assistant")]
    with open_memory() as memory:
        with pytest.raises(RuntimeError):
            memory.remember(session="s", run_id="r", messages=turns)
        status = memory.status()
        assert (status["sessions"], status["turns"], status["messages"]) == (0, 0, 0)
        assert memory.search("user").hits == ()
        receipt = memory.remember(session="s", run_id="r", messages=turns)
        assert (receipt.status, receipt.turns) == ("stored", (1, 2, 3))


def test_compatible_mode_masks_nothing_and_makes_its_scenario_of_one_turn(tmp_path: Path) -> None:
    """The layered-memory switch reaches the store: the scenario is made of the n-th turn alone."""
    settings = Settings(data_dir=tmp_path / "data", compatibility="layered-memory", extraction_interval=2)
    with Memory.open(settings=settings) as memory:
        for number in (1, 2):
            receipt = memory.remember(
                session="s", messages=[{"role": "user", "content": f"pebble{number} and granite"}]
            )
        assert receipt.scenarios == 1
        ((content,),) = records(memory, "content", "L2")
        assert "pebble2" in content
        assert "pebble1" not in content
