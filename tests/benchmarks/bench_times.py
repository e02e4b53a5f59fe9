"""Filters by time: the ids of a time for the vector leg, a lexical search in it, and what an index on times would do.

    python tests/benchmarks/bench_times.py [--messages 200000] [--json]

Invented messages of twenty words, their times in no order. The index is made afterwards in the same file, and the same
questions are asked again.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import apsw
from common import Figure, p50, report, timed

from memory_sqlite.generations import layout
from memory_sqlite.indexing import rows
from memory_sqlite.model import Chunk, Document
from memory_sqlite.search import run
from memory_sqlite.search.filters import OPERATOR, Filters
from memory_sqlite.search.vectors.allowed import Allowed
from memory_sqlite.storage import connection as connections

START, STEP = 1_700_000_000_000, 100_000
SHARES = (0.001, 0.05, 0.3, 0.9)
SESSIONS = 'filter : ("source=sessions.")'


def fill(path: Path, messages: int) -> None:
    rng = random.Random(3)
    vocabulary = [
        "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(3, 9))) for _ in range(20_000)
    ]
    weights = [1 / (rank + 2.7) for rank in range(len(vocabulary))]
    texts = [" ".join(rng.choices(vocabulary, weights, k=20)) for _ in range(2_000)]
    connection = connections.create_index(path, None)
    with connection:
        layout.create(connection, {})
        for number in range(messages):
            document = Document(
                "message", f"m{number}", "sessions", f"sessions/{number // 500}",
                (Chunk(f"{texts[number % len(texts)]} {number}", 1, 1),), str(number),
                START + rng.randrange(messages) * STEP, layer="L0", session_id=number // 500, position=number % 500,
            )  # fmt: skip
            rows.put_document(connection, document)
        rows.finish(connection)
    connection.close()


def asked(path: Path, messages: int, how: str) -> list[Figure]:
    connection = connections.open_index_reader(path)
    word = connection.execute("SELECT term FROM lexical_vocabulary WHERE doc > ? ORDER BY doc", (messages // 12,)).get
    figures = []
    for share in SHARES:
        half = int(messages * STEP * share / 2)
        since, until = START + messages * STEP // 2 - half, START + messages * STEP // 2 + half
        filters = Filters(OPERATOR, since=since, until=until)

        def search(filters: Filters = filters) -> None:
            run.search(connection, str(word), filters, now_ms=START, max_results=6, max_bytes=16 << 20)

        for name, call in (
            ("ids of a time", lambda: Allowed(None, since, until).chunk_ids(connection)),  # noqa: B023
            ("ids of a time and source", lambda: Allowed(SESSIONS, since, until).chunk_ids(connection)),  # noqa: B023
            ("a common word", search),
        ):
            figures.append(Figure(f"{name}, {share:.1%}, {how}, p50", p50(timed(call, 11)) * 1000, "ms"))
    connection.close()
    return figures


def main() -> None:
    messages = int(sys.argv[sys.argv.index("--messages") + 1]) if "--messages" in sys.argv else 200_000
    directory = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        path = directory / "index-000001.sqlite"
        started = time.process_time()
        fill(path, messages)
        build = time.process_time() - started
        figures = [Figure("build", build, "CPU s"), *asked(path, messages, "as it is")]
        connection = apsw.Connection(str(path))
        started = time.process_time()
        connection.execute("CREATE INDEX documents_by_time ON documents (at)").fetchall()
        figures.append(Figure("making an index on times at the end", time.process_time() - started, "CPU s"))
        connection.close()
        report([*figures, *asked(path, messages, "with an index")])
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
