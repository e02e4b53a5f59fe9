"""Generations: publishing, a full rebuild, ``remember`` beside one, and looking for notes that changed.

    python tests/benchmarks/bench_generations.py [--chunks 50000] [--published 200000] [--json]

Texts are invented (Zipf-distributed words). Publication is the transaction that flips the current generation, timed on
a generation of ``--published`` chunks that was filled without notes. The bare loop has the texts and all columns of the
rebuilt generation in memory and does nothing but splitting the texts into tokens and inserting the same three kinds of
rows, in transactions of the same size, with the same pragmas. ``remember`` is called while another process rebuilds
again and again; a call there waits for one of two cores like everybody else.
"""

from __future__ import annotations

import os
import resource
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from bench_search import corpus
from common import Figure, p50, report, timed

from memory_sqlite import Memory, paths
from memory_sqlite.clock import Clock
from memory_sqlite.generations import files, layout, registry
from memory_sqlite.indexing import identity, preparing, rebuild, rows
from memory_sqlite.model import Chunk, Document
from memory_sqlite.processes.prepare import joined
from memory_sqlite.processes.slots import Bounds
from memory_sqlite.storage import change_log
from memory_sqlite.storage import connection as connections
from memory_sqlite.storage.fetch import integer

NOTE_TEXTS = 16
"""Texts of 60 words in a note: 80 lines of 12 words, five or six chunks."""
LINE_WORDS = 12
CHUNKS_A_NOTE = 5.75
BATCH = 200
"""Notes a transaction, as in ``indexing.notes``."""
PUBLICATIONS = 20
CALLS = 1_500
LOOKS = 30
REBUILDER = """
import sys
from memory_sqlite import Memory
with Memory.open(sys.argv[1]) as memory:
    memory.index()
    print("ready", flush=True)
    while True:
        memory.index(full=True)
        print("published", flush=True)
"""


def option(name: str, default: int) -> int:
    return int(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else default


def main() -> None:
    directory = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        figures = [*looking(directory / "looking")]
        figures += rebuilding(directory / "rebuilding", option("--chunks", 50_000))
        figures += publishing(directory / "publishing", option("--published", 200_000))
        report(figures)
    finally:
        shutil.rmtree(directory)


def write_notes(workspace: Path, count: int, texts_a_note: int) -> list[Path]:
    """Notes whose times are long past, so that they are trusted."""
    texts, _ = corpus(count * texts_a_note)
    (workspace / "memory").mkdir(parents=True)
    made = []
    for number in range(count):
        words = " ".join(texts[number * texts_a_note : (number + 1) * texts_a_note]).split()
        lines = [" ".join(words[first : first + LINE_WORDS]) for first in range(0, len(words), LINE_WORDS)]
        made.append(workspace / "memory" / f"n{number:05d}.md")
        made[-1].write_text(f"# Note {number}\n\n" + "\n".join(lines) + "\n", encoding="utf-8")
        os.utime(made[-1], (1_700_000_000, 1_700_000_000))
    return made


def looking(directory: Path) -> list[Figure]:
    """``index`` over 2,001 notes of which none or one was touched."""
    notes = write_notes(directory / "workspace", 2_001, 4)
    with Memory.open(directory / "data", workspace=directory / "workspace") as memory:
        memory.index()
        none = timed(memory.index, LOOKS)
        one = []
        for number in range(LOOKS):
            note = notes[number * 17]
            note.write_text(note.read_text("utf-8") + f"touched {number}\n", encoding="utf-8")
            os.utime(note, (1_700_000_001, 1_700_000_001))
            started = time.perf_counter()
            done = memory.index()
            one.append(time.perf_counter() - started)
            assert (done.changed, done.unchanged) == (1, 2_000)
    return [
        Figure("index, 1 of 2,001 notes touched, p50", p50(one) * 1000, "ms", "< 100"),
        Figure("index, none touched, p50", p50(none) * 1000, "ms", "< 30"),
    ]


def rebuilding(directory: Path, chunks: int) -> list[Figure]:
    """Full rebuilds, in one process and with preparation workers, against the bare loop over the same rows; and
    ``remember`` alone and beside rebuilds."""
    data = directory / "data"
    write_notes(directory / "workspace", round(chunks / CHUNKS_A_NOTE), NOTE_TEXTS)
    with Memory.open(data, workspace=directory / "workspace") as memory:
        memory.index()
        alone = rebuilt(memory, workers=False)
        spread = rebuilt(memory, workers=True)
        built = memory.index()
    assert built.generation is not None
    source = paths.generation_file(paths.agent_directory(data, "main"), built.generation)
    bare = bare_loop(source, directory / "bare.sqlite")
    return [
        Figure("chunks rebuilt", memory_chunks(source), ""),
        Figure("bare tokenise-and-insert loop, wall", bare.wall, "s"),
        Figure("bare tokenise-and-insert loop, CPU", bare.cpu, "s"),
        Figure("rebuild in one process, wall", alone.wall, "s"),
        Figure("rebuild in one process / bare loop, wall", alone.wall / bare.wall, "x", "<= 1.3"),
        Figure("rebuild in one process / bare loop, CPU", alone.cpu / bare.cpu, "x"),
        Figure(f"rebuild with {workers_here()} workers, wall", spread.wall, "s"),
        Figure(f"rebuild with {workers_here()} workers / bare loop, wall", spread.wall / bare.wall, "x", "<= 0.85"),
        Figure(f"rebuild with {workers_here()} workers / bare loop, CPU of all processes", spread.cpu / bare.cpu, "x"),
        *remembering(data),
    ]


class Taken(NamedTuple):
    """Seconds of one run; ``cpu`` is that of this process and of the workers that ended in it."""

    wall: float
    cpu: float


def measured(call: Callable[[], object]) -> Taken:
    """One call, timed."""

    def cpu() -> float:
        spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(one.ru_utime + one.ru_stime for one in spent)

    started, before = time.perf_counter(), cpu()
    call()
    return Taken(time.perf_counter() - started, cpu() - before)


def rebuilt(memory: Memory, *, workers: bool) -> Taken:
    """A full build, by workers as soon as there is enough for them, or by this process alone."""
    after = preparing.PREPARATION_AFTER_BYTES
    preparing.PREPARATION_AFTER_BYTES = after if workers else sys.maxsize  # type: ignore[misc]
    try:
        return measured(lambda: memory.index(full=True))
    finally:
        preparing.PREPARATION_AFTER_BYTES = after  # type: ignore[misc]


def workers_here() -> int:
    return Bounds().workers


def memory_chunks(source: Path) -> int:
    reader = connections.open_index_reader(source)
    chunks = integer(reader, "SELECT count(*) FROM chunks")
    reader.close()
    return chunks


def bare_loop(source: Path, target: Path) -> Taken:
    """Splitting and inserting what a generation holds, each row by one statement."""
    reader = connections.open_index_reader(source)
    documents: list[tuple[Any, ...]] = reader.execute("SELECT * FROM documents ORDER BY id").fetchall()
    held: dict[int, list[tuple[Any, ...]]] = {}
    for row in reader.execute("SELECT * FROM chunks ORDER BY document_id, ordinal"):
        held.setdefault(row[1], []).append(row)
    reader.close()
    connection = connections.create_index(target, None)
    with connection:
        layout.create(connection, {})
    put_document = f"INSERT INTO documents VALUES ({', '.join('?' * len(documents[0]))})"
    put_chunk = f"INSERT INTO chunks VALUES ({', '.join('?' * len(next(iter(held.values()))[0]))})"
    put_words = (
        "INSERT INTO lexical (rowid, body, question, heading, path, trigger, filter) VALUES (?, ?, '', ?, ?, '', ?)"
    )

    def loop() -> None:
        for first in range(0, len(documents), BATCH):
            with connection:
                for document in documents[first : first + BATCH]:
                    connection.execute(put_document, document)
                    path = joined(document[4])[0]
                    for chunk in held.get(document[0], ()):
                        connection.execute(put_chunk, chunk)
                        body = " ".join([joined(line)[0] for line in chunk[5].split("\n")])
                        row = (chunk[0], body, joined(chunk[6])[0], path, "kind=note. source=memory.")
                        connection.execute(put_words, row)

    taken = measured(loop)
    connection.close()
    return taken


def remembering(data: Path) -> list[Figure]:
    """``remember`` alone, then until another process has rebuilt at least once beside it."""
    with Memory.open(data) as memory:
        idle = [remember(memory, "idle", number) for number in range(CALLS)]
        child = subprocess.Popen([sys.executable, "-c", REBUILDER, str(data)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        beside: list[float] = []
        published = 0
        while published < 1 or len(beside) < CALLS:
            beside.append(remember(memory, "beside", len(beside)))
            if select.select([child.stdout], [], [], 0)[0]:
                published += bool(child.stdout.readline())
            assert child.poll() is None
        child.kill()
        child.wait()
    return [
        Figure("remember, idle, p50", p50(idle) * 1000, "ms"),
        Figure("remember, idle, p99", p99(idle) * 1000, "ms"),
        Figure("remember during a rebuild, p50", p50(beside) * 1000, "ms"),
        Figure("remember during a rebuild, p99", p99(beside) * 1000, "ms"),
        Figure("remember during a rebuild, slowest", max(beside) * 1000, "ms"),
        Figure("p99 during a rebuild / idle p99", p99(beside) / p99(idle), "x", "<= 3"),
    ]


def remember(memory: Memory, session: str, number: int) -> float:
    messages = [
        {
            "role": "user",
            "content": f"Turn {number} of {session}: the harbor ledger needs a second look before Friday.",
        },
        {"role": "assistant", "content": f"Looked at it, turn {number}: two invoices of the harbor were missing."},
    ]
    started = time.perf_counter()
    receipt = memory.remember(session=session, run_id=f"{session}-{number}", messages=messages)
    taken = time.perf_counter() - started
    assert receipt.searchable
    return taken


def p99(samples: list[float]) -> float:
    return sorted(samples)[int(len(samples) * 0.99)]


def publishing(directory: Path, chunks: int) -> list[Figure]:
    """The publishing transaction of a large generation, repeated: between two of them it is made unpublished again."""
    texts, _ = corpus(chunks)
    clock = Clock()
    samples = []
    with Memory.open(directory / "data") as memory:
        memory.remember(session="s", messages=[{"role": "user", "content": "The harbor ledger is due on Friday."}])
        assert memory._opened is not None
        store = memory._opened.store
        before = registry.current(store.connection)
        assert before is not None
        with store.transaction() as connection:
            number = registry.begin(connection, identity.expected(), clock.now_ms())
        path = paths.generation_file(store.directory, number)
        index = files.create(path, None)
        with connections.writing(index):
            layout.create(index, identity.expected())
            layout.write_meta(index, "applied_seq", change_log.newest(store.connection))
        for first in range(0, chunks, 5_000):
            with connections.writing(index):
                for at in range(first, min(first + 5_000, chunks)):
                    note = f"memory/n{at:06d}.md"
                    chunk = Chunk(texts[at], 1, 1)
                    rows.put_document(index, Document("note", note, "memory", note, (chunk,), str(at), None))
        with connections.writing(index):
            rows.finish(index)
        files.seal(index, path)
        for _ in range(PUBLICATIONS):
            started = time.perf_counter()
            rebuild._publish(store, index, number, clock)
            samples.append(time.perf_counter() - started)
            with store.transaction() as connection:
                connection.execute("UPDATE generations SET state = 'building' WHERE number = ?", (number,))
                connection.execute("UPDATE generations SET state = 'current' WHERE number = ?", (before.number,))
        index.close()
    return [
        Figure("chunks of the published generation", chunks, ""),
        Figure("publication, p50", p50(samples) * 1000, "ms", "< 5"),
        Figure("publication, slowest of 20", max(samples) * 1000, "ms"),
    ]


if __name__ == "__main__":
    main()
