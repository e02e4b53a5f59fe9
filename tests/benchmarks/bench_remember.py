"""``remember`` against the same store and index rows committed by bare SQL in the same two transactions.

    python tests/benchmarks/bench_remember.py [--json]

The statements of each call are recorded on one copy and replayed, with the same bindings, on another: what is left over
is what our own code costs. Also: durable calls a second, and imported rows per CPU second.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import apsw
from common import Figure, Recorder, p50, report

from memory_sqlite import Memory
from memory_sqlite.storage import connection as connections

TURNS = 300
Statement = tuple[str, Any]
WORDS = [
    "router",
    "ledger",
    "invoice",
    "harbor",
    "sensor",
    "cluster",
    "backup",
    "meeting",
    "contract",
    "budget",
    "deploy",
    "release",
    "kernel",
    "printer",
    "camera",
    "garden",
    "greenhouse",
    "bicycle",
    "recipe",
    "hotel",
    "train",
    "ticket",
    "passport",
    "lease",
    "receipt",
    "dentist",
    "school",
    "piano",
    "guitar",
    "novel",
]


def turn(rng: random.Random, number: int) -> list[dict[str, Any]]:
    words = " ".join(rng.choice(WORDS) for _ in range(40))
    return [
        {"role": "user", "content": f"Turn {number}: please look at {words}. I love {rng.choice(WORDS)} {number}."},
        {"role": "assistant", "content": f"Done with {number}: " + " ".join(rng.choice(WORDS) for _ in range(60))},
    ]


def main() -> None:
    directory = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        report([*remember_against_sql(directory / "a"), *rates(directory / "b")])
    finally:
        shutil.rmtree(directory)


def record(directory: Path) -> tuple[list[Path], list[tuple[list[Statement], list[Statement]]]]:
    """Copies of store and index after a first turn, and the writing statements of every later turn."""
    rng = random.Random(7)
    with Memory.open(directory / "recorded") as memory:
        memory.remember(session="warm", messages=turn(rng, 0))
        opened = memory._opened
        assert opened is not None
        store, index = opened.store.connection, opened.keeper.writer()
        copies = []
        for name, connection in (("store", store), ("index", index)):
            copies.append(directory / f"{name}.sqlite")
            target = apsw.Connection(str(copies[-1]))
            with target.backup("main", connection, "main") as backup:
                backup.step()
            target.close()
        statements = []
        for number in range(1, TURNS + 1):
            with Recorder(store) as on_store, Recorder(index) as on_index:
                memory.remember(session="s", run_id=f"r{number}", messages=turn(rng, number))
            statements.append((on_store.statements, on_index.statements))
    return copies, statements


def replay(copy: apsw.Connection, statements: list[Statement]) -> None:
    """One transaction with the rows of one turn."""
    with copy:
        for sql, bindings in statements:
            if not sql.lstrip().upper().startswith(("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE")):
                copy.execute(sql, bindings).fetchall()


def remember_against_sql(directory: Path) -> list[Figure]:
    """The same turns by ``remember`` and by bare SQL, in turn, each going first every other time: a sync that follows
    another is cheaper, whoever asks for it."""
    directory.mkdir(parents=True)
    copies, statements = record(directory)
    store, index = connections.open_store(copies[0]), connections.open_index(copies[1])
    rng = random.Random(7)
    ours: list[float] = []
    bare: list[float] = []
    with Memory.open(directory / "data") as memory:
        memory.remember(session="warm", messages=turn(rng, 0))
        for number, (on_store, on_index) in enumerate(statements, 1):
            messages = turn(rng, number)

            def by_us(number: int = number, messages: list[dict[str, Any]] = messages) -> None:
                started = time.perf_counter()
                memory.remember(session="s", run_id=f"r{number}", messages=messages)
                ours.append(time.perf_counter() - started)

            def by_sql(on_store: list[Statement] = on_store, on_index: list[Statement] = on_index) -> None:
                started = time.perf_counter()
                replay(store, on_store)
                replay(index, on_index)
                bare.append(time.perf_counter() - started)

            for step in (by_us, by_sql) if number % 2 else (by_sql, by_us):
                step()
    store.close()
    index.close()
    return [
        Figure("remember p50", p50(ours) * 1000, "ms"),
        Figure("same rows by bare SQL p50", p50(bare) * 1000, "ms"),
        Figure("remember / bare SQL", p50(ours) / p50(bare), "x", "<= 2"),
    ]


def rates(directory: Path) -> list[Figure]:
    rng = random.Random(8)
    with Memory.open(directory / "data") as memory:
        started = time.perf_counter()
        for number in range(TURNS):
            memory.remember(session="s", run_id=f"r{number}", messages=turn(rng, number))
        a_second = TURNS / (time.perf_counter() - started)
        transcript = directory / "t.jsonl"
        rows = 0
        with transcript.open("w", encoding="utf-8") as out:
            for number in range(2_000):
                for message in turn(rng, number):
                    out.write(json.dumps({**message, "id": f"m{rows}"}) + "\n")
                    rows += 1
        cpu = time.process_time()
        memory.import_transcripts([transcript], session="imported")
        cpu = time.process_time() - cpu
    return [
        Figure("durable remember calls a second", a_second, "/s", "peer 927"),
        Figure("imported messages per CPU second, indexed", rows / cpu, "/s", "peers 36 to 1000"),
    ]


if __name__ == "__main__":
    main()
