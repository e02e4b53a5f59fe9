"""The worker pool: round trip, throughput with 1, 2 and 4 workers against threads, cancel latency, start.

    python tests/benchmarks/bench_pool.py [--chunks 20000] [--seconds 2] [--json]

Searches are two to four words over an invented corpus (Zipf-distributed words, 60 a chunk). Threads read in this
process, each with its own connection. Throughput is the best of three interleaved slices, because machines are shared.
Cancel latency is from ``cancel`` to the caller's error, in the middle of a statement without end in the worker that
tests use; a kill would take 250 ms.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bench_search import corpus
from common import Figure, p50, report, timed

from memory_sqlite import errors, paths
from memory_sqlite.generations import files, layout
from memory_sqlite.indexing import rows
from memory_sqlite.model import Chunk, Document
from memory_sqlite.processes.command import Command, environment
from memory_sqlite.processes.hits import SearchRequest
from memory_sqlite.processes.pool import Pool
from memory_sqlite.processes.retrieval import Retrieval
from memory_sqlite.processes.slots import Bounds
from memory_sqlite.search import run
from memory_sqlite.search.filters import OPERATOR, Filters
from memory_sqlite.storage.connection import open_index_reader

TEST_WORKER = Path(__file__).parents[1] / "concurrency" / "pool_worker.py"
COUNTS = (1, 2, 4)
CALLERS = 8


def argument(name: str, default: float) -> float:
    return float(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else default


def build(directory: Path, chunks: int) -> tuple[Path, list[str]]:
    texts, vocabulary = corpus(chunks)
    path = paths.generation_file(directory, 1)
    connection = files.create(path, None)
    with connection:
        layout.create(connection, {})
        for number, text in enumerate(texts):
            note = f"memory/n{number:06d}.md"
            rows.put_document(connection, Document("note", note, "memory", note, (Chunk(text, 1, 1),), note, None))
        rows.finish(connection)
    files.seal(connection, path)
    connection.close()
    rng = random.Random(4)
    return path, [
        " ".join(vocabulary[int(len(vocabulary) * rng.random() ** 2)] for _ in range(rng.randint(2, 4)))
        for _ in range(64)
    ]


def asking(text: str) -> SearchRequest:
    return SearchRequest(text, Filters(OPERATOR), 0, 6, 16 << 20)


def throughput(search: Callable[[str], object], queries: list[str], callers: int, seconds: float) -> float:
    """Searches a second by so many threads that each ask again as soon as they are answered."""
    done = [0] * callers
    until = time.perf_counter() + seconds

    def ask(me: int) -> None:
        n = me
        while time.perf_counter() < until:
            search(queries[n % len(queries)])
            done[me] += 1
            n += callers

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / seconds


def in_threads(path: Path) -> Callable[[str], object]:
    mine = threading.local()

    def search(text: str) -> object:
        connection = getattr(mine, "connection", None) or open_index_reader(path)
        mine.connection = connection
        return run.search(connection, text, Filters(OPERATOR), now_ms=0, max_results=6, max_bytes=16 << 20)

    return search


def in_workers(workers: Retrieval, path: Path) -> Callable[[str], object]:
    return lambda text: workers.search(path, 1, asking(text))


def searching(path: Path, queries: list[str], seconds: float) -> list[Figure]:
    pools = {count: Retrieval(bounds=Bounds(workers=count)) for count in COUNTS}
    best: dict[str, float] = {}
    try:
        for workers in pools.values():  # every worker started, every cache warm
            throughput(in_workers(workers, path), queries, CALLERS, 1.0)
        for _ in range(3):
            for count, workers in pools.items():
                for name, search, callers in (
                    (f"search, {count} workers", in_workers(workers, path), CALLERS),
                    (f"search, {count} threads", in_threads(path), count),
                ):
                    best[name] = max(best.get(name, 0.0), throughput(search, queries, callers, seconds / 3))
        own = one_by_one(pools[1], path, queries * 4)
    finally:
        for workers in pools.values():
            workers.close()
    return [
        *own,
        *(Figure(name, value, "1/s") for name, value in sorted(best.items())),
    ]


def cpu_of(pid: int) -> float:
    """CPU seconds of another process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def one_by_one(workers: Retrieval, path: Path, queries: list[str]) -> list[Figure]:
    """Wall time of single searches, alternating, and what CPU they cost in all processes together."""
    connection = open_index_reader(path)

    def here(text: str) -> object:
        return run.search(connection, text, Filters(OPERATOR), now_ms=0, max_results=6, max_bytes=16 << 20)

    through, local = [], []
    for text in queries:
        through += timed(lambda text=text: workers.search(path, 1, asking(text)), 1)  # type: ignore[misc]
        local += timed(lambda text=text: here(text), 1)  # type: ignore[misc]
    (pid,) = workers.pool.describe()["pids"]
    before = cpu_of(pid) + time.process_time()
    for text in queries:
        workers.search(path, 1, asking(text))
    cost = cpu_of(pid) + time.process_time() - before
    before = time.process_time()
    for text in queries:
        here(text)
    local_cost = time.process_time() - before
    connection.close()
    return [
        Figure("search through a worker, p50", p50(through) * 1000, "ms"),
        Figure("search in the process, p50", p50(local) * 1000, "ms"),
        Figure("search through a worker, CPU", cost / len(queries) * 1000, "ms"),
        Figure("search in the process, CPU", local_cost / len(queries) * 1000, "ms"),
    ]


def pipes(rounds: int) -> list[Figure]:
    command = Command((sys.executable, "-P", str(TEST_WORKER)), environment(os.environ, sys.path))
    pool = Pool("test", command=command, bounds=Bounds(workers=1))
    directory = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        started = time.perf_counter()
        pool.warm(30)
        start = time.perf_counter() - started
        body, blob = {"text": "x" * 1600}, bytes(2400)
        trips = timed(lambda: pool.submit("echo", body, lambda a, b: a, blob=blob).result(), rounds * 20)
        large = bytes(4 << 20)
        both = timed(lambda: pool.submit("echo", {}, lambda a, b: b, blob=large).result(), 20)
        begun = directory / "begun"
        os.mkfifo(begun)
        cancels = []
        for _ in range(rounds):
            pending = pool.submit("endless", {"begun": str(begun)}, lambda a, b: a)
            begun.read_bytes()
            started = time.perf_counter()
            pending.cancel()
            try:
                pending.result()
            except errors.Cancelled:
                cancels.append(time.perf_counter() - started)
        assert len(cancels) == rounds, "every cancel is an error of its caller"
    finally:
        pool.close()
        shutil.rmtree(directory)
    cancels.sort()
    trips.sort()
    return [
        Figure("start of a worker", start * 1000, "ms"),
        Figure("round trip, 4 KB each way, p50", p50(trips) * 1e6, "us"),
        Figure("round trip, 4 KB each way, p99", trips[int(len(trips) * 0.99)] * 1e6, "us"),
        Figure("round trip, 4 MiB each way, p50", p50(both) * 1000, "ms"),
        Figure("cancel p50", p50(cancels) * 1000, "ms"),
        Figure("cancel p99", cancels[int(len(cancels) * 0.99)] * 1000, "ms", "< 50"),
    ]


def main() -> None:
    directory = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        figures = pipes(200)
        path, queries = build(directory, int(argument("--chunks", 20_000)))
        report([*figures, *searching(path, queries, argument("--seconds", 2.0))])
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
