"""When a turn is the same turn: by run id for ever, by message ids, else by role, text and time, in any order."""

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

MINUTE = 60_000


@pytest.fixture
def open_memory(tmp_path: Path, clock: FixedClock) -> Callable[[], Memory]:
    """Opens the same agent again and again."""
    return lambda: Memory.open(settings=Settings(data_dir=tmp_path / "data"), clock=clock)


def rows(memory: Memory, sql: str) -> list[tuple[Any, ...]]:
    """What the store's file holds, through a connection of its own."""
    connection = apsw.Connection(memory.status()["store"], flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def counts(memory: Memory) -> tuple[int, int, int]:
    """Turns, messages, L1 records."""
    status = memory.status()
    return status["turns"], status["messages"], status["records"]["L1"]


def said(*words: str, ids: bool = False, at: int | None = None) -> list[dict[str, Any]]:
    """A dialogue, person first."""
    messages: list[dict[str, Any]] = []
    for number, text in enumerate(words):
        message: dict[str, Any] = {"role": "user" if number % 2 == 0 else "assistant", "content": text}
        if ids:
            message["id"] = f"m{number}"
        if at is not None:
            message["at"] = iso(at + number * 1000)
        messages.append(message)
    return messages


def transcript(path: Path, session: str, messages: list[dict[str, Any]], clock: FixedClock) -> Path:
    """The same dialogue as its host writes it down (OpenClaw's form), with entry ids of its own where it has none."""
    lines = [{"type": "session", "id": session, "timestamp": iso(clock.ms)}]
    for number, message in enumerate(messages):
        lines.append(
            {
                "type": "message",
                "id": message.get("id", f"e{number:04d}"),
                "timestamp": message.get("at", iso(clock.ms + number * 1000)),
                "message": {"role": message["role"], "content": [{"type": "text", "text": message["content"]}]},
            }
        )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


# --- run ids -------------------------------------------------------------------------------------------------------


def test_run_id_is_unique_for_ever(open_memory: Callable[[], Memory]) -> None:
    """The same run again, with whatever words, in whatever process life, is the turn that is there."""
    with open_memory() as memory:
        assert memory.remember(session="s", run_id="r1", messages=said("granite")).status == "stored"
        again = memory.remember(session="s", run_id="r1", messages=said("other words"))
        assert (again.status, again.turns, again.messages) == ("duplicate", (1,), 0)
    with open_memory() as memory:
        assert memory.remember(session="s", run_id="r1", messages=said("granite")).status == "duplicate"
        assert counts(memory) == (1, 1, 1)
        assert memory.search("other words").hits == ()


def test_run_id_belongs_to_its_session(open_memory: Callable[[], Memory]) -> None:
    """Hosts number runs per session."""
    with open_memory() as memory:
        memory.remember(session="s", run_id="1", messages=said("granite"))
        assert memory.remember(session="t", run_id="1", messages=said("granite")).status == "stored"


def test_run_id_from_another_process(open_memory: Callable[[], Memory], tmp_path: Path, clock: FixedClock) -> None:
    """It is unique in the database, not in a process's memory: another process with the store open sees it."""
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from memory_sqlite import Memory\n"
        "from memory_sqlite.config import Settings\n"
        "with Memory.open(settings=Settings(data_dir=Path(sys.argv[1]))) as memory:\n"
        "    r = memory.remember(session='s', run_id='r1', messages=[{'role': 'user', 'content': 'granite'}])\n"
        "    print(r.status, *r.turns)\n"
    )
    with open_memory() as memory:
        memory.remember(session="s", run_id="r1", messages=said("granite"))
        done = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path / "data")], capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == ["duplicate", "1"]
        assert counts(memory) == (1, 1, 1)


def test_run_id_outlives_its_turn(open_memory: Callable[[], Memory]) -> None:
    """After retention or forgetting took the turn away, a replay of its run adds nothing."""
    with open_memory() as memory:
        memory.remember(session="s", run_id="r1", messages=said("granite"))
        store = memory.status()["store"]
    connection = apsw.Connection(store)
    connection.pragma("foreign_keys", True)
    connection.execute("DELETE FROM turns").fetchall()
    connection.close()
    with open_memory() as memory:
        again = memory.remember(session="s", run_id="r1", messages=said("granite"))
        assert (again.status, again.turns) == ("duplicate", ())
        assert rows(memory, "SELECT count(*) FROM messages") == [(0,)]


def test_run_with_several_turns(open_memory: Callable[[], Memory]) -> None:
    """Messages of several turns become several turns; the run's replay recognises each."""
    dialogue = said("first granite", "yes", "second marble", "no")
    with open_memory() as memory:
        receipt = memory.remember(session="s", run_id="r1", messages=dialogue)
        assert (receipt.turns, receipt.messages, receipt.episodes) == ((1, 2), 4, 2)
        again = memory.remember(session="s", run_id="r1", messages=dialogue)
        assert (again.status, again.turns) == ("duplicate", (1, 2))
        assert rows(memory, "SELECT turn_id, position FROM messages ORDER BY id") == [(1, 1), (1, 2), (2, 3), (2, 4)]


# --- message ids ---------------------------------------------------------------------------------------------------


def test_turn_without_run_id_is_known_by_its_message_ids(open_memory: Callable[[], Memory]) -> None:
    """All ids known: the same turn, even under other words; one new person's message: a new turn."""
    with open_memory() as memory:
        memory.remember(session="s", messages=said("granite", "noted", ids=True))
        assert memory.remember(session="s", messages=said("granite", "noted", ids=True)).status == "duplicate"
        new = [{"role": "user", "content": "granite", "id": "m9"}]
        assert memory.remember(session="s", messages=new).status == "stored"
        assert counts(memory) == (2, 3, 2)


def test_same_words_twice_without_ids_are_two_turns(open_memory: Callable[[], Memory]) -> None:
    """People say "yes" more than once."""
    with open_memory() as memory:
        for _ in range(3):
            assert memory.remember(session="s", messages=said("yes, granite")).status == "stored"
        assert counts(memory) == (3, 3, 3)


def test_answer_that_arrives_later_joins_its_turn(open_memory: Callable[[], Memory]) -> None:
    """A turn sent before the agent had answered, and again with the answer, is one turn with both."""
    with open_memory() as memory:
        memory.remember(session="s", messages=said("granite", ids=True))
        again = memory.remember(session="s", messages=said("granite", "under the mat", ids=True))
        assert (again.status, again.messages) == ("duplicate", 1)
        assert counts(memory) == (1, 2, 1)
        assert memory.search("mat", sources=("sessions",)).hits[0].speaker == "assistant"


def test_answer_that_grows_is_kept_longest(open_memory: Callable[[], Memory]) -> None:
    """An answer seen while it was being written is replaced by its longer text, also in the index, never a shorter."""
    with open_memory() as memory:
        memory.remember(session="s", messages=said("where?", "Under the", ids=True))
        memory.remember(session="s", messages=said("where?", "Under the marble slab", ids=True))
        memory.remember(session="s", messages=said("where?", "Under", ids=True))
        assert rows(memory, "SELECT text FROM messages WHERE host_id = 'm1'") == [("Under the marble slab",)]
        assert memory.search("marble slab", sources=("sessions",)).hits[0].message_id == "m1"


# --- two ways ------------------------------------------------------------------------------------------------------

DIALOGUE = ("Where is the granite key?", "Under the mat.", "And the marble one?", "In the drawer.")


@pytest.mark.parametrize("order", ["remember first", "import first"])
@pytest.mark.parametrize("ids", [True, False], ids=["ids", "no ids"])
@pytest.mark.parametrize("times", [True, False], ids=["times", "no times"])
def test_one_session_both_ways(
    open_memory: Callable[[], Memory], tmp_path: Path, clock: FixedClock, order: str, ids: bool, times: bool
) -> None:
    """The same turns by ``remember`` and by importing the host's transcript, in both orders: each is there once."""
    messages = said(*DIALOGUE, ids=ids, at=clock.ms if times else None)
    path = transcript(tmp_path / "s.jsonl", "s", messages, clock)

    with open_memory() as memory:

        def live() -> None:
            memory.remember(session="s", run_id="r1", messages=messages[:2])
            memory.remember(session="s", run_id="r2", messages=messages[2:])

        steps = [live, lambda: memory.import_transcripts([path])]
        if order == "import first":
            steps.reverse()
        steps[0]()
        assert counts(memory) == (2, 4, 2)
        clock.advance(5 * MINUTE)
        steps[1]()
        assert counts(memory) == (2, 4, 2)
        # and nothing changes when everything comes once more
        live()
        path.touch()
        memory.import_transcripts([path])
        assert counts(memory) == (2, 4, 2)
        assert rows(memory, "SELECT text FROM messages ORDER BY position") == [(text,) for text in DIALOGUE]


def test_repeated_words_both_ways(open_memory: Callable[[], Memory], tmp_path: Path, clock: FixedClock) -> None:
    """Three times "go on" live and three times in the transcript are three turns, not one and not six."""
    messages = said("go on", "one", "go on", "two", "go on", "three")
    path = transcript(tmp_path / "s.jsonl", "s", messages, clock)
    with open_memory() as memory:
        for start in (0, 2, 4):
            memory.remember(session="s", messages=messages[start : start + 2])
        memory.import_transcripts([path])
        assert counts(memory)[:2] == (3, 6)


def test_one_imported_turn_is_taken_once(open_memory: Callable[[], Memory], tmp_path: Path, clock: FixedClock) -> None:
    """A transcript that ends after the first "yes", then both live: the second one is new. And the other way round."""
    path = transcript(tmp_path / "s.jsonl", "s", said("yes, granite", "one"), clock)
    with open_memory() as memory:
        memory.import_transcripts([path])
        statuses = [
            memory.remember(session="s", messages=said("yes, granite", answer)).status for answer in ("one", "two")
        ]
        assert statuses == ["duplicate", "stored"]
        both = transcript(path, "s", said("yes, granite", "one", "yes, granite", "two"), clock)
        memory.import_transcripts([both])
        assert counts(memory) == (2, 4, 2)


def test_same_words_much_later_are_not_the_imported_turn(
    open_memory: Callable[[], Memory], tmp_path: Path, clock: FixedClock
) -> None:
    """A live message without a time is said now: last month's "yes" of a transcript does not swallow it."""
    path = transcript(tmp_path / "s.jsonl", "s", said("yes, granite", "fine"), clock)
    with open_memory() as memory:
        memory.import_transcripts([path])
        clock.advance(30 * 24 * 60 * MINUTE)
        assert memory.remember(session="s", messages=said("yes, granite", "good")).status == "stored"
        assert counts(memory) == (2, 4, 2)


def test_white_space_and_composed_forms_do_not_make_another_turn(
    open_memory: Callable[[], Memory], tmp_path: Path, clock: FixedClock
) -> None:
    """Hosts trim and normalise what they write down; it is the same text."""
    path = transcript(tmp_path / "s.jsonl", "s", said("caf\u00e9  granite\n"), clock)
    with open_memory() as memory:
        memory.remember(session="s", messages=said("cafe\u0301 granite"))
        memory.import_transcripts([path])
        assert counts(memory) == (1, 1, 1)


def test_layers_are_made_once_whatever_came_first(
    open_memory: Callable[[], Memory], tmp_path: Path, clock: FixedClock
) -> None:
    """The turn's facts are neither doubled nor reinforced by its second arrival."""
    messages = said("I love green tea.", "Noted.")
    path = transcript(tmp_path / "s.jsonl", "s", messages, clock)
    with open_memory() as memory:
        memory.import_transcripts([path], chat_type="direct", sender_is_owner=True)
        memory.remember(session="s", messages=messages)
        assert rows(memory, "SELECT layer, reinforced FROM records ORDER BY id") == [("L1", 1), ("L3", 1)]


# --- growing files -------------------------------------------------------------------------------------------------

C042_HEAD = (
    '{"type":"session","id":"s-001","timestamp":"2026-03-01T09:59:00.000Z"}\n'
    '{"type":"message","id":"m1","timestamp":"2026-03-01T10:00:00.000Z","message":{"role":"user","content":[{"type":"text",'
    '"text":"first granite"}]}}\n'
)
C042_LINE = (
    '{"type":"message","id":"m2","timestamp":"2026-03-01T10:00:00.000Z","message":{"role":"user","content":[{"type":"text",'
    '"text":"second marble"}]}}\n'
)
C042_LAST = (
    '{"type":"message","id":"m3","timestamp":"2026-03-01T10:00:00.000Z","message":{"role":"user","content":[{"type":"text",'
    '"text":"third slate"}]}}\n'
)


def test_case_C042_half_written_last_line(open_memory: Callable[[], Memory], tmp_path: Path) -> None:
    """C042: a torn last line is not stored and no error; completed it is stored once; a third run changes nothing."""
    path = tmp_path / "s-001.jsonl"
    torn = (C042_HEAD + C042_LINE)[:-60]
    path.write_text(torn)
    with open_memory() as memory:
        first = memory.import_transcripts([path])
        assert (first.messages, first.refused, first.status) == (1, 0, "ok")
        assert path.read_text() == torn
        path.write_text(C042_HEAD + C042_LINE + C042_LAST)
        second = memory.import_transcripts([path])
        assert (second.messages, second.refused) == (2, 0)
        for word, entry in (("granite", "m1"), ("marble", "m2"), ("slate", "m3")):
            assert memory.search(word, sources=("sessions",), max_results=1).hits[0].message_id == entry
        third = memory.import_transcripts([path])
        assert (third.messages, third.turns_stored) == (0, 0)
        assert counts(memory)[1] == 3


def test_import_again_adds_nothing(open_memory: Callable[[], Memory], tmp_path: Path, clock: FixedClock) -> None:
    """Unchanged, touched, copied elsewhere or grown: what is known is recognised, only what is new is added."""
    messages = said(*DIALOGUE)
    path = transcript(tmp_path / "s.jsonl", "s", messages, clock)
    with open_memory() as memory:
        assert memory.import_transcripts([path]).turns_stored == 2
        path.touch()
        again = memory.import_transcripts([path])
        assert (again.turns_stored, again.turns_known, again.messages) == (0, 2, 0)
        copy = transcript(tmp_path / "copy.jsonl", "s", messages, clock)
        assert memory.import_transcripts([copy]).messages == 0
        grown = transcript(path, "s", [*messages, *said("One more?", "Yes.")], clock)
        more = memory.import_transcripts([grown])
        assert (more.turns_stored, more.messages) == (1, 2)
        assert counts(memory) == (3, 6, 3)


def test_import_of_lines_without_ids_again_adds_nothing(open_memory: Callable[[], Memory], tmp_path: Path) -> None:
    """Generic lines have neither ids nor times: the same file is the same turns, repetitions included."""
    path = tmp_path / "chat.jsonl"
    lines = [{"role": "user", "content": "go on"}, {"role": "assistant", "content": "ok"}] * 3
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with open_memory() as memory:
        assert memory.import_transcripts([path], session="s").turns_stored == 3
        path.write_text(path.read_text() + json.dumps({"role": "user", "content": "go on"}) + "\n")
        assert memory.import_transcripts([path], session="s").turns_stored == 1
        assert counts(memory)[:2] == (4, 7)


def test_case_C062_growing_and_rewritten_session(open_memory: Callable[[], Memory], tmp_path: Path) -> None:
    """C062: messages appended one run after another are all found. Where the host then replaces the file by a shorter
    one (compaction), the case wants the old messages gone; here L0 is the truth of what was said, so they stay until
    they are forgotten, and what is new is added."""

    def line(number: int, text: str) -> str:
        message = {"role": "user", "content": [{"type": "text", "text": text}]}
        stamp = f"2026-03-01T10:{number:02d}:00.000Z"
        return json.dumps({"type": "message", "id": f"m{number}", "timestamp": stamp, "message": message}) + "\n"

    head = '{"type":"session","id":"s-001","timestamp":"2026-03-01T09:59:00.000Z"}\n'
    path = tmp_path / "s-001.jsonl"
    path.write_text(head + line(1, "one granite"))
    with open_memory() as memory:

        def found(word: str) -> str | None:
            memory.import_transcripts([path])
            hits = memory.search(word, sources=("sessions",), max_results=1).hits
            return hits[0].message_id if hits else None

        assert found("granite") == "m1"
        path.write_text(path.read_text() + line(2, "two marble"))
        assert found("marble") == "m2"
        path.write_text(path.read_text() + "".join(line(n, f"basalt{n} " + "filler " * 40) for n in range(3, 41)))
        assert (found("basalt40"), found("basalt3"), found("marble")) == ("m40", "m3", "m2")
        path.write_text(head + line(1, "one granite") + line(41, "compacted slate"))
        assert (found("slate"), found("marble")) == ("m41", "m2")
        assert counts(memory)[1] == 41
