"""A generation of a million small chunks: building it, its size, and warm searches of five kinds.

    python tests/benchmarks/bench_million.py [--chunks 1000000] [--json]

The corpus is invented: Zipf-distributed words, twelve a chunk, every tenth chunk a line of Chinese; one note a chunk.
Every question is new to the process, so that only the caches of SQLite and of stems are warm.
"""

from __future__ import annotations

import random
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import apsw
from bench_search import CJK
from common import Figure, p50, report

from memory_sqlite.generations import layout
from memory_sqlite.indexing import rows
from memory_sqlite.model import Chunk, Document
from memory_sqlite.search import run
from memory_sqlite.search.filters import OPERATOR, Filters, Viewer
from memory_sqlite.storage import connection as connections

WORDS = 12
BATCH = 10_000
ROUNDS = 60
PRIVATE = Viewer(owner_private=True)
"""Sees every twentieth chunk."""


def words_of_the_corpus(rng: random.Random) -> list[str]:
    return ["".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(3, 9))) for _ in range(60_000)]


def documents(chunks: int, vocabulary: list[str], rng: random.Random) -> Iterator[list[Document]]:
    """In batches, so that the texts never lie in memory together."""
    weights = [1 / (rank + 2.7) for rank in range(len(vocabulary))]
    for first in range(0, chunks, BATCH):
        size = min(BATCH, chunks - first)
        stream = rng.choices(vocabulary, weights, k=size * WORDS)
        batch = []
        for place in range(size):
            number = first + place
            text = " ".join(stream[place * WORDS : place * WORDS + WORDS])
            if number % 10 == 0:
                text = "".join(rng.choice(CJK) for _ in range(24))
            note = f"memory/n{number:07d}.md"
            seen = number % 20 == 1
            batch.append(
                Document("note", note, "memory", note, (Chunk(text, 1, 1),), str(number), None, owner_private=seen)
            )
        yield batch


def build(path: Path, chunks: int, vocabulary: list[str], rng: random.Random) -> list[Figure]:
    connection = connections.create_index(path, None)
    wall, cpu = time.perf_counter(), time.process_time()
    with connection:
        layout.create(connection, {})
    for batch in documents(chunks, vocabulary, rng):
        with connection:
            for document in batch:
                rows.put_document(connection, document)
    with connection:
        rows.finish(connection)
    figures = [
        Figure("build, wall", time.perf_counter() - wall, "s"),
        Figure("build, CPU", time.process_time() - cpu, "s"),
    ]
    connection.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return [*figures, Figure("size", path.stat().st_size / 2**20, "MiB"), Figure("build, peak memory", peak, "MiB")]


def ask(connection: apsw.Connection, name: str, queries: list[str], filters: Filters) -> list[Figure]:
    samples, cpu, found = [], [], 0
    for query in queries:
        started, worked = time.perf_counter(), time.thread_time()
        hits, _ = run.search(connection, query, filters, now_ms=0, max_results=6, max_bytes=16 << 20)
        samples.append((time.perf_counter() - started) * 1000)
        cpu.append((time.thread_time() - worked) * 1000)
        found += bool(hits)
    assert found > len(queries) // 2, f"{name}: {found} of {len(queries)} questions found something"
    return [
        Figure(f"{name}, p50", p50(samples), "ms"),
        Figure(f"{name}, p95", statistics.quantiles(samples, n=20)[-1], "ms"),
        Figure(f"{name}, CPU p50", p50(cpu), "ms"),
        Figure(f"{name}, CPU p95", statistics.quantiles(cpu, n=20)[-1], "ms"),
    ]


def search(path: Path, vocabulary: list[str], rng: random.Random) -> list[Figure]:
    connection = connections.open_index_reader(path)

    def some(low: float, high: float, count: int) -> str:
        return " ".join(vocabulary[int(len(vocabulary) * rng.uniform(low, high))] for _ in range(count))

    kinds = {
        "four words of any frequency": [some(0.0, 1.0, 4) for _ in range(ROUNDS)],
        "four common words": [some(0.0, 0.003, 4) for _ in range(ROUNDS)],
        "one rare word": [some(0.5, 1.0, 1) for _ in range(ROUNDS)],
        "two Chinese characters": ["".join(rng.choice(CJK) for _ in range(2)) for _ in range(ROUNDS)],
        "one misspelt word": [some(0.0, 0.5, 1) + "qx" for _ in range(ROUNDS)],
    }
    warm = Filters(OPERATOR)
    for queries in kinds.values():
        run.search(connection, queries.pop(), warm, now_ms=0, max_results=6, max_bytes=16 << 20)
    figures = [figure for name, queries in kinds.items() for figure in ask(connection, name, queries, warm)]
    four = [some(0.0, 1.0, 4) for _ in range(ROUNDS)]
    figures += ask(connection, "four words, one chunk of twenty visible", four, Filters(PRIVATE))
    connection.close()
    return figures


def main() -> None:
    chunks = int(sys.argv[sys.argv.index("--chunks") + 1]) if "--chunks" in sys.argv else 1_000_000
    rng = random.Random(5)
    vocabulary = words_of_the_corpus(rng)
    directory = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        path = directory / "index-000001.sqlite"
        report([*build(path, chunks, vocabulary, rng), *search(path, vocabulary, rng)])
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
