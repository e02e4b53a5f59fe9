"""The bytes: after a forgetting no file of the agent holds a piece of what was said, and the report's word is true."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from memory_sqlite import Memory
from memory_sqlite.config import Settings
from memory_sqlite.doctor import verify
from memory_sqlite.forgetting import compact, proof
from memory_sqlite.forgetting.samples import Samples
from memory_sqlite.paths import agent_directory

SCAN = """
import json, re, sys
from pathlib import Path
found = {}
for path in Path(sys.argv[1]).iterdir():
    words = set(re.findall(rb"pebble(\\d+)ston", path.read_bytes().lower()))
    found[path.name] = sorted(int(word) for word in words)
print(json.dumps(found))
"""


def scan(directory: Path) -> dict[str, list[int]]:
    """Numbers of the words, also stemmed, in each file. Another process: this one has the databases open."""
    done = subprocess.run([sys.executable, "-c", SCAN, str(directory)], capture_output=True, text=True, check=True)
    found: dict[str, list[int]] = json.loads(done.stdout)
    return found


def listed(index: apsw.Connection) -> bool:
    """Whether a lexical table lists deleted rows."""
    return any(
        index.execute(f"SELECT 1 FROM {table}_data WHERE id >= ?", (compact.FIRST_TOMBSTONE_PAGE,)).get is not None
        for table in compact.LEXICAL_TABLES
    )


def fill(memory: Memory, count: int, rng: random.Random) -> None:
    for number in range(count):
        text = f"I love pebble{number}stone. " + "The weather is mild. " * rng.randrange(40)
        memory.remember(
            session=f"s{number % 7}",
            run_id=f"r{number}",
            chat_type="direct",
            sender_is_owner=True,
            messages=[{"role": "user", "content": text}, {"role": "assistant", "content": f"Noted, {text}"}],
        )


def test_no_byte_of_a_session_is_left(tmp_path: Path) -> None:
    """300 turns of random length in seven sessions, three of which are forgotten one by one; the others stay whole."""
    directory = agent_directory(tmp_path / "data", "main")
    with Memory.open(settings=Settings(data_dir=tmp_path / "data")) as memory:
        fill(memory, 300, random.Random(20261130))
        gone: set[int] = set()
        for session in (2, 0, 5):
            gone |= {number for number in range(300) if number % 7 == session}
            report = memory.forget(sessions=[f"s{session}"])
            assert (report.status, report.verified, report.reasons) == ("forgotten", True, ())
            assert report.searched_for > 10
            for name, numbers in scan(directory).items():
                assert gone.isdisjoint(numbers), name
        assert len(scan(directory)["memory.sqlite"]) == 300 - len(gone)
    assert verify(directory) == []


def test_the_proof_sees_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the writing anew and the merge switched off the same search finds traces, and the report says so."""
    directory = agent_directory(tmp_path / "data", "main")
    with Memory.open(settings=Settings(data_dir=tmp_path / "data")) as memory:
        assert memory._opened is not None
        memory._opened.store.connection.pragma("secure_delete", False)
        fill(memory, 40, random.Random(1))
        with monkeypatch.context() as patched:
            patched.setattr(compact, "write_anew", lambda connection, path, wait=True: True)
            patched.setattr(compact, "merge_deleted", lambda connection: True)
            report = memory.forget(sessions=["s1"])
        assert (report.status, report.verified) == ("unfinished", False)
        assert any("memory.sqlite" in reason for reason in report.reasons)
        assert [finding.code for finding in verify(directory)] == ["forgetting_unfinished"]
        assert memory.search("pebble1stone", sources=("sessions",)).hits == ()
    assert 1 in scan(directory)["memory.sqlite"]
    with Memory.open(settings=Settings(data_dir=tmp_path / "data")) as memory:  # goes on, this time with everything
        assert memory.status()["turns"] == 34
    assert not any(1 in numbers for numbers in scan(directory).values())
    assert verify(directory) == []


def test_nothing_forgotten_is_in_arguments_or_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The searching process is told on standard input; its environment is stripped."""
    seen: list[object] = []
    real = subprocess.run

    def watched(command: list[str], **named: object) -> object:
        seen.append((command, named["env"]))
        return real(command, **named)  # type: ignore[call-overload]

    monkeypatch.setattr(proof.subprocess, "run", watched)
    monkeypatch.setenv("SECRET_OF_THE_HOST", "x")
    with Memory.open(settings=Settings(data_dir=tmp_path / "data")) as memory:
        memory.remember(session="s", messages=[{"role": "user", "content": "The granite key is under the mat."}])
        assert memory.forget(sessions=["s"]).searched_for == 1
    assert len(seen) == 1
    told = json.dumps(seen)
    assert "granite" not in told
    assert "SECRET_OF_THE_HOST" not in told


def test_where_nothing_can_be_searched_the_report_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that is not Python has no interpreter to start: forgotten, and not verified."""
    monkeypatch.setattr(sys, "executable", "/usr/bin/host")
    with Memory.open(settings=Settings(data_dir=tmp_path / "data")) as memory:
        memory.remember(session="s", messages=[{"role": "user", "content": "The granite key is under the mat."}])
        report = memory.forget(sessions=["s"])
        assert (report.status, report.verified) == ("unfinished", False)
        assert "interpreter" in report.reasons[0]


def test_deleted_words_are_listed_until_the_merge(tmp_path: Path) -> None:
    """What the structural half of the proof rests on: FTS5 lists deleted rows in pages of its own, until a merge."""
    with Memory.open(settings=Settings(data_dir=tmp_path / "data")) as memory:
        fill(memory, 30, random.Random(2))
        memory.index(full=True)
        assert memory._opened is not None
        index = memory._opened.keeper.writer()
        assert not listed(index)
        with memory._opened.store.transaction() as store:
            store.execute("INSERT INTO change_log (kind, target, op) VALUES ('message', 1, 'delete')")
            store.execute("DELETE FROM messages WHERE id = 1")
        memory._opened.keeper.apply()
        assert listed(index)
        compact.merge_deleted(index)
        assert not listed(index)
        words = index.execute("SELECT count(*) FROM lexical_vocabulary WHERE term = 'pebble0ston'").get
        assert words == 1, "the assistant's message and the records still say it"


def test_the_merge_goes_on_step_by_step_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However little a step merges: at the end no deleted row is listed, and no word of one is in the file."""
    monkeypatch.setattr(compact, "_PAGES_A_STEP", 1)
    with Memory.open(settings=Settings(data_dir=tmp_path, workspace=None)) as memory:
        fill(memory, 120, random.Random(5))
        assert memory.forget(sessions=["s2"]).status == "forgotten"
        assert memory._opened is not None
        assert not listed(memory._opened.keeper.writer())
        left = scan(agent_directory(tmp_path, "main"))
        assert not any(number % 7 == 2 for numbers in left.values() for number in numbers)


def test_samples_are_bounded_and_telling() -> None:
    """Short texts are left out, long ones give beginning, middle and end, and what JSON escapes is cut around."""
    samples = Samples()
    samples.add("yes")
    assert (bool(samples), samples.skipped) == (False, 1)
    samples.add('He said "the granite key is under the mat" and left\nfor a while')
    assert {piece.decode() for piece in samples.pieces(10)} == {"the granite key is under the mat"}
    for number in range(5_000):
        samples.add(f"a text of some length, number {number}")
    assert len(samples.pieces(100)) == 100
    assert len(samples.pieces(10**6)) <= 4_200


def test_a_wal_that_somebody_still_reads_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader in the middle of a transaction keeps the WAL: not verified, and the next open finishes it."""
    directory = agent_directory(tmp_path / "data", "main")
    with Memory.open(settings=Settings(data_dir=tmp_path / "data")) as memory:
        fill(memory, 5, random.Random(3))
        reader = apsw.Connection(str(directory / "memory.sqlite"), flags=apsw.SQLITE_OPEN_READONLY)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM messages").fetchall()
        assert memory._opened is not None
        memory._opened.store.connection.set_busy_timeout(100)
        report = memory.forget(sessions=["s1"])
        assert (report.status, report.verified) == ("unfinished", False)
        assert any("WAL" in reason for reason in report.reasons)
        reader.close()
        assert [finding.code for finding in verify(directory)] == ["forgetting_unfinished"]
    with Memory.open(settings=Settings(data_dir=tmp_path / "data")):
        assert verify(directory) == []
    assert 1 not in scan(directory)["memory.sqlite"]
