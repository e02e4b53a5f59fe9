"""Several processes on one agent: making the store, remembering the same turns, searching and rebuilding at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apsw

from memory_sqlite import Memory
from memory_sqlite.config import Settings
from memory_sqlite.paths import agent_directory

Start = Callable[..., Any]
"""The fixture that starts a child of a script and its arguments."""


def together(children: Sequence[Any]) -> None:
    """One step: all wait at the barrier, then all are let go."""
    for child in children:
        child.wait_ready()
    for child in children:
        child.go()


def test_case_C064_new_agents_opened_by_many_processes_at_once(tmp_path: Path, start: Start) -> None:
    """C064: 4 processes open the same brand-new agents (12 of them) at once and search; nobody fails, one store each,
    one key, one generation. (8 processes and 20 agents in the case; here there are two cores.)"""
    script = """
found = []
for number in range(12):
    barrier()
    with Memory.open(settings=settings(f"fresh{number}")) as memory:
        memory.remember(session="s", run_id="r", messages=[{"role": "user", "content": "granite"}])
        found.append(len(memory.search("granite", sources=("sessions",)).hits))
print(json.dumps(found))
"""
    children = [start(script, tmp_path / "data") for _ in range(4)]
    for _ in range(12):
        together(children)
    assert [child.result() for child in children] == [[1] * 12] * 4
    for number in range(12):
        directory = agent_directory(tmp_path / "data", f"fresh{number}")
        connection = apsw.Connection(str(directory / "memory.sqlite"), flags=apsw.SQLITE_OPEN_READONLY)
        assert connection.pragma("integrity_check") == "ok"
        assert connection.execute("SELECT count(*) FROM turns").get == 1
        assert connection.execute("SELECT count(*) FROM generations WHERE state = 'current'").get == 1
        connection.close()
        assert len(list(directory.glob("index-*.sqlite"))) == 1


def test_inv_051_two_processes_remember_the_same_turns(tmp_path: Path, start: Start) -> None:
    """Each of 60 turns comes from both processes at the same moment: exactly one of each is stored, with its layers,
    both processes find what they were given a receipt for, and a third that searches meanwhile never errs."""
    writer = """
barrier()
with Memory.open(settings=settings()) as memory:
    statuses = []
    missing = 0
    for number in range(60):
        said = [{"role": "user", "content": f"I love pebble{number}."}, {"role": "assistant", "content": "Noted."}]
        owner = {"chat_type": "direct", "sender_is_owner": True}
        receipt = memory.remember(session="s", run_id=f"r{number}", messages=said, **owner)
        assert receipt.searchable, receipt.warnings
        statuses.append(receipt.status)
        top = memory.search(f"pebble{number}", sources=("sessions",), max_results=1).hits
        missing += not top or f"pebble{number}" not in top[0].excerpt
    print(json.dumps([statuses, missing]))
"""
    reader = """
barrier()
answers = 0
with Memory.open(settings=settings()) as memory:
    while memory.status()["turns"] < 60:
        page = memory.search("pebble0", max_results=3)
        answers += 1
        for hit in page.hits:
            assert memory.get(hit.reference).status == "ok"
print(json.dumps(answers))
"""
    children = [start(writer, tmp_path / "data"), start(writer, tmp_path / "data")]
    watching = start(reader, tmp_path / "data")
    together([*children, watching])
    results = [child.result() for child in children]
    assert isinstance(watching.result(), int)
    (first, missing_first), (second, missing_second) = results  # type: ignore[misc]
    assert missing_first == missing_second == 0
    assert sorted(zip(first, second, strict=True)) == sorted(
        ("stored", "duplicate") if a == "stored" else ("duplicate", "stored") for a in first
    )
    with Memory.open(settings=Settings(data_dir=tmp_path / "data")) as memory:
        status = memory.status()
        assert (status["turns"], status["messages"]) == (60, 120)
        assert status["records"] == {"L1": 60, "L2": 12, "L3": 60}
        assert status["index"]["lag"] == 0


def test_case_C066_searches_during_rebuilds_of_another_process(tmp_path: Path, start: Start) -> None:
    """C066: while one process rebuilds again and again and another remembers, a third searches: it never errs, always
    finds what was there, and in the end reads the newest generation without being restarted."""
    with Memory.open(settings=Settings(data_dir=tmp_path / "data")) as memory:
        for number in range(100):
            memory.remember(session="s", messages=[{"role": "user", "content": f"basalt note {number} stone{number}"}])
    rebuilder = """
memory = Memory.open(settings=settings())
barrier()
print(json.dumps([memory.index(full=True).generation for _ in range(8)]))
"""
    writer = """
memory = Memory.open(settings=settings())
barrier()
missing = 0
for number in range(60):
    said = [{"role": "user", "content": f"gravel{number}"}]
    receipt = memory.remember(session="t", run_id=f"r{number}", messages=said)
    assert receipt.searchable
    missing += not memory.search(f"gravel{number}", sources=("sessions",)).hits
print(json.dumps(missing))
"""
    reader = """
memory = Memory.open(settings=settings())
barrier()
wrong = 0
for number in range(100):
    hits = memory.search(f"stone{number}", sources=("sessions",), max_results=1).hits
    wrong += len(hits) != 1 or f"stone{number}" not in hits[0].excerpt
print("ready", flush=True)
sys.stdin.readline()
hits = memory.search("gravel59", sources=("sessions",), max_results=1).hits
print(json.dumps([wrong, "gravel59" in hits[0].excerpt, memory.status()["index"]["generation"]]))
"""
    data = tmp_path / "data"
    rebuilding, writing, reading = start(rebuilder, data), start(writer, data), start(reader, data)
    together([rebuilding, writing, reading])
    numbers = rebuilding.result()
    assert numbers == list(range(2, 10))
    assert writing.result() == 0
    reading.wait_ready()
    reading.go()
    assert reading.result() == [0, True, 9]
    with Memory.open(settings=Settings(data_dir=tmp_path / "data")) as memory:
        assert memory.status()["index"]["lag"] == 0
    assert [p.name for p in agent_directory(tmp_path / "data", "main").glob("index-*.sqlite")] == [
        "index-000009.sqlite"
    ]


def test_inv_082_two_processes_rebuild_at_once(tmp_path: Path, start: Start) -> None:
    """Rebuilds of several processes wait for one another: each gets its own number, one is current in the end."""
    with Memory.open(settings=Settings(data_dir=tmp_path / "data")) as memory:
        for number in range(30):
            memory.remember(session="s", messages=[{"role": "user", "content": f"basalt note {number}"}])
    script = """
memory = Memory.open(settings=settings())
barrier()
print(json.dumps([memory.index(full=True).generation is not None for _ in range(4)]))
"""
    children = [start(script, tmp_path / "data") for _ in range(3)]
    together(children)
    assert [child.result() for child in children] == [[True] * 4] * 3
    with Memory.open(settings=Settings(data_dir=tmp_path / "data")) as memory:
        assert memory.status()["index"]["generation"] == 13
        assert len(memory.search("basalt", max_results=100).hits) > 0
    assert [p.name for p in agent_directory(tmp_path / "data", "main").glob("index-*.sqlite")] == [
        "index-000013.sqlite"
    ]
