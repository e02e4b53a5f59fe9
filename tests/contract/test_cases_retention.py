"""Cases C092, C094, C096 and C098: what is old goes and stays away, what is kept stays, and nothing else is touched."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_sqlite import Memory
from memory_sqlite.clock import FixedClock, parse_time
from memory_sqlite.config import Settings
from memory_sqlite.doctor import verify
from memory_sqlite.generations import files
from memory_sqlite.paths import agent_directory, generation_file

DAY = 86_400_000
SCAN = """
import sys
from pathlib import Path
word = sys.argv[2].encode()
print(sum(path.read_bytes().lower().count(word) for path in Path(sys.argv[1]).iterdir()))
"""


def moment(text: str) -> int:
    found = parse_time(text)
    assert found is not None
    return found


def occurrences(directory: Path, word: str) -> int:
    """How often a word is in the bytes of an agent's files; read by a process that has no database open."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", SCAN, str(directory), word.lower()],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return int(done.stdout)


def line(entry: str, when: str, text: str, role: str = "user") -> str:
    return (
        f'{{"type":"message","id":"{entry}","timestamp":"{when}","message":{{"role":"{role}","content":'
        f'[{{"type":"text","text":"{text}"}}]}}}}\n'
    )


def test_case_C092_age_counts_from_the_last_activity(tmp_path: Path) -> None:
    """Only the dead session goes. A child session is judged by its own activity; the store keeps no reference to a
    parent, so nothing of the child's reading depends on the one that went."""
    clock = FixedClock(moment("2025-12-01T10:00:00Z"))
    with Memory.open(settings=Settings(data_dir=tmp_path / "data", retention_days=30), clock=clock) as memory:

        def say(session: str, text: str) -> None:
            memory.remember(session=session, messages=[{"role": "user", "content": text}])

        for session in ("s-old", "s-dead", "s-live", "s-pin"):
            say(session, f"{session} begins with granite")
        memory.hold("s-pin", kind="pin")
        clock.ms = moment("2026-03-29T10:00:00Z")
        say("s-kid", "s-kid speaks of granite")
        clock.ms = moment("2026-03-30T10:00:00Z")
        say("s-old", "s-old goes on about granite")
        clock.ms = moment("2026-03-31T00:00:00Z")
        store = apsw.Connection(memory.status()["store"])
        store.execute(
            "INSERT INTO turn_outbox (advancement_key, engine_id, owner_id, session_key, session_id, state, admission,"
            " at) VALUES ('k', 'e', 'o', 's-live', 's-live', 'admitted', '{}', ?)",
            (clock.ms,),
        )
        store.close()
        planned = memory.prune(dry_run=True, trust_clock=True)
        report = memory.prune(trust_clock=True)
        assert [(one.session, one.last_at, one.gone) for one in report.expired] == [
            ("s-dead", "2025-12-01T10:00:00.000Z", True)
        ]
        assert planned.expired == report.expired
        assert (report.pinned, report.running, report.held) == (1, 1, 0)
        assert {row["session"] for row in memory.sessions()} == {"s-old", "s-live", "s-pin", "s-kid"}
        assert len(memory.search("granite", sources=("sessions",), max_results=20).hits) == 5
        kid = next(row for row in memory.sessions() if row["session"] == "s-kid")
        assert "s-kid speaks" in memory.get(f"sessions/{kid['token']}").text
    assert verify(agent_directory(tmp_path / "data", "main")) == []


@pytest.mark.parametrize("timed", [True, False])
def test_case_C094_what_expired_is_gone_and_does_not_return(tmp_path: Path, timed: bool) -> None:
    """Not in a hit, not in a byte, not after the next import of a file that still holds it, nor after a replay, an
    index built anew, or a start; what is said in the session since is taken."""
    file = tmp_path / "s-dead.jsonl"
    text = '{"type":"session","id":"s-dead","timestamp":"2025-12-01T10:00:00Z"}\n' if timed else ""
    entry = line("m1", "2025-12-01T10:00:00Z", "I love expired MARKER-VICTOR-44")
    entry += line("m2", "2025-12-01T10:00:09Z", "Noted.", "assistant")
    if not timed:
        entry = '{"role":"user","content":"I love expired MARKER-VICTOR-44"}\n{"role":"assistant","content":"Noted."}\n'
    file.write_text(text + entry)
    clock = FixedClock(moment("2025-12-02T00:00:00Z"))
    settings = Settings(data_dir=tmp_path / "data", retention_days=30, retention_days_l3="same")
    directory = agent_directory(tmp_path / "data", "main")
    live: dict[str, Any] = {"session": "live", "run_id": "r1"}
    live["messages"] = [{"role": "user", "content": "said MARKER-VICTOR-44 live", "id": "h1"}]
    with Memory.open(settings=settings, clock=clock) as memory:
        memory.import_transcripts([file], session="s-dead")
        memory.remember(**live)
        assert occurrences(directory, "MARKER-VICTOR-44") > 0
        clock.ms = moment("2026-03-31T00:00:00Z")
        report = memory.prune(trust_clock=True)
        assert (report.sessions, report.verified) == (2, True)
        assert report.searched_for > 0

        def look() -> list[Any]:
            return [
                *memory.search("MARKER-VICTOR-44").hits,
                *memory.search("expired").hits,
                *memory.facts().named,
                *memory.sessions(),
            ]

        assert look() == []
        assert occurrences(directory, "MARKER-VICTOR-44") == 0
        memory.index()
        assert memory.import_transcripts([file], session="s-dead").turns_stored == 0
        assert memory.remember(**live).status == "duplicate"
        # the host begins anew, without its run ids, and tells the old message with its id once more
        memory.remember(session="live", messages=live["messages"])
        memory.index(full=True)
        assert look() == []
        assert occurrences(directory, "MARKER-VICTOR-44") == 0
        later = (
            line("m3", "2026-03-30T10:00:00Z", "and slate since") if timed else '{"role":"user","content":"slate"}\n'
        )
        file.write_text(text + entry + later)
        again = memory.import_transcripts([file], session="s-dead")
        assert (again.turns_stored, again.forgotten) == (1, 1)
        assert memory.search("expired").hits == () and memory.search("slate").hits
    with Memory.open(settings=settings, clock=clock) as memory:
        assert memory.search("expired").hits == ()
    assert verify(directory) == []


@pytest.mark.parametrize(("zone", "today"), [("Europe/Berlin", True), ("Asia/Shanghai", False)])
def test_case_C096_dates_of_notes_are_their_names(tmp_path: Path, zone: str, today: bool) -> None:
    """Dates come from names, the agent's zone says which day is today; retention tells old notes and leaves them."""
    notes = {
        "memory/2026-03-29.md": "Spring clock change note granite.\n",
        "memory/2026-03-29-0130-plan.md": "Plan marble.\n",
        "memory/archive/2026-02-25.md": "Old slate.\n",
        "memory/notes-1234-56-78.md": "Not a date gneiss.\n",
        "memory/topic.md": "Undated chert.\n",
    }
    workspace = tmp_path / "workspace"
    for name, text in notes.items():
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(text)
    clock = FixedClock(moment("2026-03-29T17:00:00Z"), zone)
    settings = Settings(data_dir=tmp_path / "data", workspace=workspace, retention_days=30)
    with Memory.open(settings=settings, clock=clock) as memory:
        memory.index()
        times = {
            hit.path: None if hit.time is None else hit.time[:10]
            for word in ("granite", "marble", "slate", "gneiss", "chert")
            for hit in memory.search(word).hits
        }
        assert times == {
            "memory/2026-03-29.md": "2026-03-29",
            "memory/2026-03-29-0130-plan.md": "2026-03-29",
            "memory/archive/2026-02-25.md": "2026-02-25",
            "memory/notes-1234-56-78.md": None,
            "memory/topic.md": None,
        }
        best = memory.search("granite today" if today else "granite yesterday").hits[0]
        assert best.path == "memory/2026-03-29.md"
        clock.ms += 4 * DAY
        report = memory.prune(dry_run=True)
        assert (report.status, report.old_notes) == ("nothing", ("memory/archive/2026-02-25.md",))
        assert memory.prune().old_notes == report.old_notes
        assert {name: (workspace / name).read_text() for name in notes} == notes


def test_case_C098_nothing_grows_with_every_edit(tmp_path: Path) -> None:
    """After many rounds of rewriting every note: one generation, as many rows as the notes have, and a file built anew
    at most twice as large as one of the same notes in a new place."""
    workspace = tmp_path / "workspace"
    (workspace / "memory").mkdir(parents=True)

    def rewrite(number: int) -> None:
        for note in range(24):
            words = " ".join(f"word{(note * 31 + number * 17 + place) % 997}" for place in range(120))
            (workspace / "memory" / f"note-{note}.md").write_text(f"# Note {note}\n\nround{number} {words}\n")

    def sizes(data: Path) -> tuple[int, int, int, int]:
        directory = agent_directory(data, "main")
        numbers = files.numbers(directory)
        assert len(numbers) == 1
        index = apsw.Connection(str(generation_file(directory, numbers[0])), flags=apsw.SQLITE_OPEN_READONLY)
        chunks = index.execute("SELECT count(*) FROM chunks").get
        lexical = index.execute("SELECT count(*) FROM lexical").get
        pages = index.pragma("page_count")
        index.close()
        return chunks, lexical, pages, len(numbers)  # type: ignore[return-value]

    with Memory.open(settings=Settings(data_dir=tmp_path / "data", workspace=workspace)) as memory:
        for number in range(12):
            rewrite(number)
            memory.index()
        memory.index(full=True)
    with Memory.open(settings=Settings(data_dir=tmp_path / "fresh", workspace=workspace)) as memory:
        memory.index(full=True)
    worn, fresh = sizes(tmp_path / "data"), sizes(tmp_path / "fresh")
    assert worn[:2] == fresh[:2] and worn[0] == worn[1]
    assert worn[2] <= 2 * fresh[2]
